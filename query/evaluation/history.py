"""The evaluation log: every run with its settings, every topic's scores, the ranking itself, in SQL.

One ``dragoman evaluate`` is an evaluation, numbered from 1. Its runs have names: ``de`` is the German topics against
all target languages, ``all`` is all topic languages pooled, ``de-same`` is the German topics against German documents
alone, and ``de-bm25`` is BM25 on these. A run's id combines number and name: ``7.de``; ``7`` alone is the evaluation's
main run.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, Session, mapped_column

from encoders.errors import BadInput
from indexer.ledger.database import Base, now, transaction
from query.evaluation.fairness import FoundRelevant
from query.evaluation.measures import Scores
from query.evaluation.trec_run import Run


class EvaluationRow(Base):
    """One ``dragoman evaluate``: its topics, collection and settings."""

    __tablename__ = "evaluations"
    __table_args__ = ({"sqlite_autoincrement": True},)  # an evaluation's number is never used again

    id: Mapped[int] = mapped_column(primary_key=True)
    created: Mapped[dt.datetime]
    collection: Mapped[str] = mapped_column(index=True)
    tag: Mapped[str]
    model: Mapped[str]
    build: Mapped[str]
    space: Mapped[str]
    settings: Mapped[dict[str, Any]] = mapped_column(sa.JSON)
    topics: Mapped[str]
    topics_hash: Mapped[str]
    qrels_hash: Mapped[str]


class RunRow(Base):
    """One run of an evaluation, with its means and its ranking."""

    __tablename__ = "evaluation_runs"
    __table_args__ = (sa.UniqueConstraint("evaluation_id", "name", name="uq_evaluation_runs_name"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    evaluation_id: Mapped[int] = mapped_column(sa.ForeignKey("evaluations.id", ondelete="CASCADE"))
    name: Mapped[str]
    kind: Mapped[str]
    lang: Mapped[str]
    main: Mapped[bool]
    topic_count: Mapped[int]
    unjudged: Mapped[list[str]] = mapped_column(sa.JSON)
    without_hits: Mapped[list[str]] = mapped_column(sa.JSON)
    means: Mapped[dict[str, float]] = mapped_column(sa.JSON)
    found: Mapped[dict[str, list[int]] | None] = mapped_column(sa.JSON)
    trec: Mapped[bytes | None] = mapped_column(sa.LargeBinary, deferred=True)


class ScoreRow(Base):
    """One topic's value by one measure in one run."""

    __tablename__ = "evaluation_scores"

    run_id: Mapped[int] = mapped_column(sa.ForeignKey("evaluation_runs.id", ondelete="CASCADE"), primary_key=True)
    qid: Mapped[str] = mapped_column(primary_key=True)
    measure: Mapped[str] = mapped_column(primary_key=True)
    lang: Mapped[str]
    value: Mapped[float] = mapped_column(sa.Double)


Kind = Literal["language", "pooled", "same", "bm25"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_RUN_ID = re.compile(r"(\d{1,9})(?:\.([A-Za-z0-9-]+))?")


@dataclass(frozen=True)
class Setup:
    """The collection, topics and settings of an evaluation.

    Attributes:
        tag: a person's name for the system.
        model: id of the model.
        build: id of the graph.
        space: id of model and calibration.
        settings: settings of search and evaluation, JSON values.
        topics: names of the topics' files.
        topics_hash: hash of the topics' files; ``qrels_hash`` is that of the judgements' files.
    """

    collection: str
    tag: str
    model: str
    build: str
    space: str
    settings: Mapping[str, Any]
    topics: str
    topics_hash: str
    qrels_hash: str


@dataclass(frozen=True)
class ScoredRun:
    """A run with its scores.

    Attributes:
        name: unique in its evaluation: ``de``, ``all``, ``de-same``, ``de-bm25``.
        kind: ``language``, ``pooled``, ``same`` (topics against documents of their language) or ``bm25`` of ``same``.
        lang: language of the topics; ``mul`` for a pooled run.
        scores: the scores, with the measures of fairness if several languages were searched.
        trec: the run, compressed by ``pack``; none for a pooled run, which consists of its languages' runs.
        found: relevant documents, and those among the first hundred hits, by their language; empty unless several
            languages were searched.
    """

    name: str
    kind: Kind
    lang: str
    scores: Scores
    trec: bytes | None
    found: Mapping[str, FoundRelevant] = field(default_factory=dict)

    def topic(self, qid: str) -> str:
        """The topic that an id is a version of: what a pooled run's ``qid.lang`` is of."""
        return topic_of(self.kind, qid)


@dataclass(frozen=True)
class LoggedRun:
    """A run as the log holds it; ``name``, ``kind``, ``lang`` and ``found`` are as in ``ScoredRun``.

    Attributes:
        id: such as ``7.de``.
        evaluation: number of the evaluation.
        created: time of the evaluation, UTC.
        main: whether the evaluation's number alone means this run.
        topics: number of topics that count.
        unjudged: topics left out because the qrels have no relevant document for them.
        without_hits: topics that count 0 because the run has no hits for them.
        means: mean score by measure.
    """

    id: str
    evaluation: int
    created: dt.datetime
    setup: Setup
    name: str
    kind: Kind
    lang: str
    main: bool
    topics: int
    unjudged: Sequence[str]
    without_hits: Sequence[str]
    means: Mapping[str, float]
    found: Mapping[str, FoundRelevant]

    def judged_as(self, other: LoggedRun) -> bool:
        """Whether the same judgements scored both runs: the same qrels, for documents of the same languages."""
        return self._judged_by == other._judged_by

    @property
    def _judged_by(self) -> tuple[str, object]:
        within = [self.lang] if self.kind in {"same", "bm25"} else self.setup.settings.get("to")
        return self.setup.qrels_hash, within

    def topic(self, qid: str) -> str:
        """The topic that an id is a version of: what a pooled run's ``qid.lang`` is of."""
        return topic_of(self.kind, qid)


def topic_of(kind: Kind, qid: str) -> str:
    """The topic's id without the language that a pooled run appends to the id."""
    return qid.rpartition(".")[0] if kind == "pooled" else qid


def pack(run: Run) -> bytes:
    """A run as compressed TREC text."""
    import zstandard  # noqa: PLC0415

    return zstandard.compress(run.to_trec().encode(), 6)


def log(engine: sa.Engine, setup: Setup, outcomes: Sequence[ScoredRun], created: dt.datetime | None = None) -> int:
    """Write an evaluation with its runs and scores in one transaction; returns the evaluation's number.

    The main run is the pooled run, or else the first run.
    """
    main = next((outcome.name for outcome in outcomes if outcome.kind == "pooled"), outcomes[0].name)
    with transaction(engine) as session:
        evaluation = EvaluationRow(created=created or now(), **{**setup.__dict__, "settings": dict(setup.settings)})
        session.add(evaluation)
        session.flush()
        for outcome in outcomes:
            _log_run(session, evaluation.id, outcome, main=outcome.name == main)
        return evaluation.id


def _log_run(session: Session, evaluation: int, outcome: ScoredRun, *, main: bool) -> None:
    row = RunRow(
        evaluation_id=evaluation,
        name=outcome.name,
        kind=outcome.kind,
        lang=outcome.lang,
        main=main,
        topic_count=len(outcome.scores.topics),
        unjudged=list(outcome.scores.unjudged),
        without_hits=list(outcome.scores.without_hits),
        means=dict(outcome.scores.means),
        found={lang: [counts.found, counts.relevant] for lang, counts in outcome.found.items()},
        trec=outcome.trec,
    )
    session.add(row)
    session.flush()
    scores = [
        {
            "run_id": row.id,
            "qid": qid,
            "measure": measure,
            "value": value,
            "lang": topic_language(outcome.kind, outcome.lang, qid),
        }
        for qid, values in outcome.scores.topics.items()
        for measure, value in values.items()
    ]
    session.execute(sa.insert(ScoreRow), scores)


def topic_language(kind: Kind, lang: str, qid: str) -> str:
    """Language that a topic was asked in: the run's language, or in a pooled run the end of the topic's id."""
    return qid.rpartition(".")[2] if kind == "pooled" else lang


def runs(
    engine: sa.Engine, collection: str | None = None, *, every: bool = False, limit: int | None = None
) -> list[LoggedRun]:
    """Logged runs of a collection or of all, the newest evaluation first, from at most ``limit`` evaluations.

    ``every`` gives all runs of each evaluation, not the main run alone.
    """
    chosen = sa.select(EvaluationRow.id).order_by(EvaluationRow.id.desc())
    if collection is not None:
        chosen = chosen.where(EvaluationRow.collection == collection)
    if limit is not None:
        chosen = chosen.limit(limit)
    with transaction(engine) as session:
        query = sa.select(RunRow, EvaluationRow).join(EvaluationRow, RunRow.evaluation_id == EvaluationRow.id)
        query = query.where(EvaluationRow.id.in_(chosen)).order_by(EvaluationRow.id.desc(), RunRow.id)
        if not every:
            query = query.where(RunRow.main)
        return [_logged(row, evaluation) for row, evaluation in session.execute(query)]


def members(engine: sa.Engine, evaluation: int) -> list[LoggedRun]:
    """All runs of an evaluation in the order in which they were logged."""
    query = sa.select(RunRow, EvaluationRow).join(EvaluationRow, RunRow.evaluation_id == EvaluationRow.id)
    with transaction(engine) as session:
        rows = session.execute(query.where(EvaluationRow.id == evaluation).order_by(RunRow.id))
        return [_logged(run_row, evaluation_row) for run_row, evaluation_row in rows]


def find(engine: sa.Engine, run_id: str) -> LoggedRun:
    """The run with an id such as ``7.de``, or the main run of evaluation ``7``.

    Raises:
        BadInput: there is no such run.
    """
    with transaction(engine) as session:
        row, evaluation = _row(session, run_id)
        return _logged(row, evaluation)


def scores(engine: sa.Engine, run_id: str) -> dict[str, dict[str, float]]:
    """A run's scores by topic id and measure; the own-language share of a topic may be missing.

    Raises:
        BadInput: there is no such run.
    """
    with transaction(engine) as session:
        row, _ = _row(session, run_id)
        values_by_topic: dict[str, dict[str, float]] = {}
        query = sa.select(ScoreRow.qid, ScoreRow.measure, ScoreRow.value).where(ScoreRow.run_id == row.id)
        for qid, measure, value in session.execute(query.order_by(ScoreRow.qid)):
            values_by_topic.setdefault(qid, {})[measure] = value
        return {
            qid: {measure: values[measure] for measure in row.means if measure in values}
            for qid, values in values_by_topic.items()
        }


def export(engine: sa.Engine, run_id: str) -> Iterator[str]:
    """The lines of a run's TREC file.

    A pooled run has the rankings of its languages' runs, with topics ``qid.lang``.

    Raises:
        BadInput: there is no such run.
    """
    with transaction(engine) as session:
        row, _ = _row(session, run_id)
        if row.trec is not None:
            yield from _unpack(row.trec)
            return
        parts = sa.select(RunRow.lang, RunRow.trec).where(
            RunRow.evaluation_id == row.evaluation_id, RunRow.kind == "language"
        )
        for lang, trec in session.execute(parts.order_by(RunRow.id)):
            for line in _unpack(trec or b""):
                qid, rest = line.split(" ", 1)
                yield f"{qid}.{lang} {rest}"


def forget(engine: sa.Engine, collection: str) -> int:
    """Delete all evaluations of a collection with their runs and scores; returns the number of evaluations."""
    with transaction(engine) as session:
        numbers = session.scalars(sa.select(EvaluationRow.id).where(EvaluationRow.collection == collection)).all()
        session.execute(sa.delete(EvaluationRow).where(EvaluationRow.collection == collection))
        return len(numbers)


def _row(session: Session, run_id: str) -> tuple[RunRow, EvaluationRow]:
    id_match = _RUN_ID.fullmatch(run_id.strip())
    if id_match:
        query = sa.select(RunRow, EvaluationRow).join(EvaluationRow, RunRow.evaluation_id == EvaluationRow.id)
        query = query.where(EvaluationRow.id == int(id_match[1]))
        query = query.where(RunRow.name == id_match[2]) if id_match[2] else query.where(RunRow.main)
        if row := session.execute(query).first():
            return row
    raise BadInput(f"there is no run {run_id!r}; see the ids with: dragoman runs list --all")


def _unpack(trec: bytes) -> Iterator[str]:
    import zstandard  # noqa: PLC0415

    return iter(zstandard.decompress(trec).decode().splitlines(keepends=True))


def _logged(row: RunRow, evaluation: EvaluationRow) -> LoggedRun:
    kind = next(kind for kind in KINDS if kind == row.kind)
    return LoggedRun(
        id=f"{evaluation.id}.{row.name}",
        evaluation=evaluation.id,
        created=evaluation.created,
        setup=Setup(
            collection=evaluation.collection,
            tag=evaluation.tag,
            model=evaluation.model,
            build=evaluation.build,
            space=evaluation.space,
            settings=evaluation.settings,
            topics=evaluation.topics,
            topics_hash=evaluation.topics_hash,
            qrels_hash=evaluation.qrels_hash,
        ),
        name=row.name,
        kind=kind,
        lang=row.lang,
        main=row.main,
        topics=row.topic_count,
        unjudged=row.unjudged,
        without_hits=row.without_hits,
        means=row.means,
        found={lang: FoundRelevant(*counts) for lang, counts in (row.found or {}).items()},
    )
