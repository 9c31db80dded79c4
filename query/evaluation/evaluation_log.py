"""The evaluation log: every run with its settings, every topic's scores, the ranking itself, in SQL.

Evaluations are numbered from 1. Runs have names: ``de`` is the German topics against all target languages, ``all`` all
topic languages pooled, ``de-same`` German documents alone, ``de-bm25`` BM25 on these, ``de-fi`` Finnish documents;
``de-psq``, ``all-psq`` and ``de-fi-psq`` are by PSQ. A run's id is ``7.de``; ``7`` is the main run. A run file of
another system, or a paper's table, is an evaluation without a collection.
"""

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Annotated, Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, Session, composite, mapped_column, relationship

from encoders.console import values_of
from encoders.errors import BadInput
from indexer.collection.collection import Collection, hold
from indexer.ledger.database import Base, now, transaction
from query.evaluation.pair_matrix import PairRun
from query.evaluation.scored_runs import BASELINES, POOLED_KINDS, RunKind, ScoredRun, main_run, pair_documents, topic_of
from query.measures.fairness import OWN_LANGUAGE, RelevantCounts, current_name
from query.trec_files.qrels import Qrel, to_trec
from query.trec_files.trec_run import unpack

_RUN_ID = re.compile(r"(\d{1,9})(?:\.([A-Za-z0-9-]+))?")


@dataclass(frozen=True)
class Setup:
    """The collection, topics and settings of an evaluation; each field is a column of ``EvaluationRow``."""

    collection: str
    tag: str  # a person's name for the system
    model: str  # id of the model
    build: str  # id of the encoder's build
    space: str  # id of model and calibration
    settings: Annotated[Mapping[str, Any], mapped_column(sa.JSON)]  # settings of search and evaluation, JSON values
    topics: str  # names of the topics' files
    topics_hash: str  # hash of the topics' files; ``qrels_hash`` is that of the judgements' files
    qrels_hash: str

    @property
    def judged_languages(self) -> list[str] | None:
        """Languages of the documents whose judgements count, in order; none: all languages."""
        to = self.settings.get("to")
        return None if to is None else sorted(to)


class EvaluationRow(Base):
    """One ``dragoman evaluate``; the database makes the columns of ``setup`` from its fields."""

    __tablename__ = "evaluations"
    __table_args__ = ({"sqlite_autoincrement": True},)  # an evaluation's number is never used again

    id: Mapped[int] = mapped_column(primary_key=True)
    created: Mapped[dt.datetime]
    collection: Mapped[str] = mapped_column(index=True)
    setup: Mapped[Setup] = composite("collection")


class LoggedRun(Base):
    """A run as the log holds it; ``name``, ``kind`` and ``lang`` are as in ``ScoredRun``."""

    __tablename__ = "evaluation_runs"
    __table_args__ = (sa.UniqueConstraint("evaluation_id", "name", name="uq_evaluation_runs_name"),)

    key: Mapped[int] = mapped_column("id", primary_key=True)  # number of the row
    # number of the evaluation
    evaluation: Mapped[int] = mapped_column("evaluation_id", sa.ForeignKey("evaluations.id", ondelete="CASCADE"))
    name: Mapped[str]
    kind: Mapped[RunKind] = mapped_column(sa.String)
    lang: Mapped[str]
    main: Mapped[bool]  # whether the evaluation's number alone means this run
    topics: Mapped[int] = mapped_column("topic_count")  # number of topics that count
    unjudged: Mapped[list[str]] = mapped_column(sa.JSON)  # topics without a relevant document in the qrels
    without_hits: Mapped[list[str]] = mapped_column(sa.JSON)  # topics that count 0 because the run has no hits for them
    logged_means: Mapped[dict[str, float]] = mapped_column("means", sa.JSON)  # by measure, as named when logged
    # by language, the numbers of ``RelevantCounts``; none in runs that an earlier version logged
    counts: Mapped[dict[str, list[int]] | None] = mapped_column("found", sa.JSON)
    trec: Mapped[bytes | None] = mapped_column(sa.LargeBinary, deferred=True)  # the compressed run; read only when used
    evaluation_row: Mapped[EvaluationRow] = relationship(lazy="joined", innerjoin=True)

    @property
    def id(self) -> str:
        """Id of the run, such as ``7.de``."""
        return f"{self.evaluation}.{self.name}"

    @property
    def means(self) -> dict[str, float]:
        """Mean score by measure."""
        return {current_name(measure, is_old=self.is_old): mean for measure, mean in self.logged_means.items()}

    @property
    def is_old(self) -> bool:
        """Whether version 0.1.0 logged the run: it did not log how many languages of documents were searched."""
        return "targets" not in self.setup.settings

    @property
    def targets(self) -> int:
        """Number of languages of documents that were searched; 0 if it is unknown."""
        old = (measure.removeprefix(f"{OWN_LANGUAGE}@") for measure in self.logged_means if "@" in measure)
        return int(self.setup.settings.get("targets") or next((number for number in old if number.isdigit()), 0))

    @property
    def created(self) -> dt.datetime:
        """Time of the evaluation, UTC."""
        return self.evaluation_row.created

    @property
    def setup(self) -> Setup:
        """The setup of the evaluation."""
        return self.evaluation_row.setup

    @property
    def relevant_counts(self) -> dict[str, RelevantCounts]:
        """Counts of relevant documents by their language, as in ``ScoredRun``."""
        return {lang: RelevantCounts(*counts) for lang, counts in (self.counts or {}).items()}

    @property
    def system(self) -> str:
        """The tag in the run's file."""
        return BASELINES.get(self.kind, self.setup.tag)

    @property
    def reproduced(self) -> bool:
        """Whether the run is of a paper's table, computed by ``python -m papers``."""
        return "table" in self.setup.settings

    @property
    def is_psq(self) -> bool:
        """Whether the run is by PSQ, BM25 with query translation."""
        return BASELINES.get(self.kind) == "PSQ"

    @property
    def matrix_name(self) -> str:
        """Name of the matrix of pairs that the run belongs to."""
        return f"{self.evaluation}, PSQ" if self.is_psq else str(self.evaluation)

    @property
    def judged_by(self) -> tuple[str, list[str] | None]:
        """Hash of the qrels, and languages of the documents whose judgements count; none: all languages."""
        return self.setup.qrels_hash, self.documents_in or self.setup.judged_languages

    @property
    def documents_in(self) -> list[str] | None:
        """The language of documents that the run alone was restricted to; none: those of the whole evaluation."""
        if self.kind in {"pair", "psq-pair"}:
            return [pair_documents(self.name, self.lang)]
        return [self.lang] if self.kind in {"same", "bm25", "rm3"} else None

    def topic(self, qid: str) -> str:
        """The topic's id without the language that a pooled run appends; in other runs the id itself."""
        return topic_of(self.kind, qid)


class ScoreRow(Base):
    """One topic's value by one measure in one run."""

    __tablename__ = "evaluation_scores"

    run_id: Mapped[int] = mapped_column(sa.ForeignKey("evaluation_runs.id", ondelete="CASCADE"), primary_key=True)
    qid: Mapped[str] = mapped_column(primary_key=True)
    measure: Mapped[str] = mapped_column(primary_key=True)
    lang: Mapped[str]
    value: Mapped[float] = mapped_column(sa.Double)


def log(engine: sa.Engine, setup: Setup, scored_runs: Sequence[ScoredRun], of: Collection | None = None) -> int:
    """Write an evaluation with its runs and scores in one transaction; returns the evaluation's number.

    Raises BadInput: the collection that it is ``of`` was deleted since its row was read.
    """
    main = main_run(scored_runs)
    with transaction(engine) as session:
        if of:
            hold(session, of, as_searched=False)
        evaluation = EvaluationRow(created=now(), setup=setup)
        for scored_run in scored_runs:
            of_run = scored_run.scores
            run = LoggedRun(
                evaluation_row=evaluation,
                **values_of(scored_run, "name", "kind", "lang", "trec"),
                main=scored_run is main,
                topics=len(of_run.topics),
                unjudged=list(of_run.unjudged),
                without_hits=list(of_run.without_hits),
                logged_means=dict(of_run.means),
                counts={lang: list(astuple(counts)) for lang, counts in scored_run.relevant_counts.items()},
            )
            session.add(run)
            session.flush()
            row = {"run_id": run.key}
            rows = [
                row | {"qid": qid, "measure": measure, "value": value, "lang": scored_run.topic_language(qid)}
                for qid, values in of_run.topics.items()
                for measure, value in values.items()
            ]
            session.execute(sa.insert(ScoreRow), rows)
        return evaluation.id


def runs(
    engine: sa.Engine, collection: str | None = None, *, every: bool = False, limit: int | None = None
) -> list[LoggedRun]:
    """Logged runs, newest first, of at most ``limit`` evaluations: their main runs, or ``every`` run."""
    chosen = sa.select(EvaluationRow.id).order_by(EvaluationRow.id.desc())
    if collection is not None:
        chosen = chosen.where(EvaluationRow.collection == collection)
    if limit is not None:
        chosen = chosen.limit(limit)
    query = sa.select(LoggedRun).where(LoggedRun.evaluation.in_(chosen))
    if not every:
        query = query.where(LoggedRun.main)
    with transaction(engine) as session:
        return list(session.scalars(query.order_by(LoggedRun.evaluation.desc(), LoggedRun.key)))


def members(engine: sa.Engine, evaluation: int) -> list[LoggedRun]:
    """All runs of an evaluation in the order in which they were logged."""
    query = sa.select(LoggedRun).where(LoggedRun.evaluation == evaluation).order_by(LoggedRun.key)
    with transaction(engine) as session:
        return list(session.scalars(query))


def pairs(engine: sa.Engine, run: LoggedRun) -> list[PairRun]:
    """The pairs of languages of a run's evaluation with scores, of PSQ if the run is; empty without pairs."""
    kind = "psq-pair" if run.is_psq else "pair"
    return [
        PairRun(member.id, member.lang, documents, scores(engine, member.id))
        for member in members(engine, run.evaluation)
        if member.kind == kind
        for documents in member.documents_in or ()
    ]


def find(engine: sa.Engine, run_id: str) -> LoggedRun:
    """The run with an id such as ``7.de``, or main run ``7``. Raises BadInput: there is no such run."""
    with transaction(engine) as session:
        return _run(session, run_id)


def scores(engine: sa.Engine, run_id: str) -> dict[str, dict[str, float]]:
    """A run's scores by topic id and measure; fairness may be missing. Raises BadInput: there is no such run."""
    with transaction(engine) as session:
        run = _run(session, run_id)
        values_by_topic: dict[str, dict[str, float]] = {}
        query = sa.select(ScoreRow.qid, ScoreRow.measure, ScoreRow.value).where(ScoreRow.run_id == run.key)
        for qid, measure, value in session.execute(query.order_by(ScoreRow.qid)):
            values_by_topic.setdefault(qid, {})[current_name(measure, is_old=run.is_old)] = value
        return {
            qid: {measure: values[measure] for measure in run.means if measure in values}
            for qid, values in values_by_topic.items()
        }


def export(engine: sa.Engine, run_id: str) -> Iterator[str]:
    """The lines of a run's TREC file; a pooled run's topics are ``qid.lang``, of a paper's table ``qid.de-fi``.

    Raises BadInput: there is no such run, or scores alone were logged.
    """
    with transaction(engine) as session:
        run = _run(session, run_id)
        if run.trec is not None:
            return unpack(run.trec)
        parts = sa.select(LoggedRun.name if run.reproduced else LoggedRun.lang, LoggedRun.trec).where(
            LoggedRun.evaluation == run.evaluation,
            LoggedRun.kind == ("pair" if run.reproduced else POOLED_KINDS[run.kind]),
            LoggedRun.trec.is_not(None),
        )
        named = session.execute(parts.order_by(LoggedRun.key)).all()
        if not named:
            raise BadInput(f"run {run.id} was logged without rankings; its scores: dragoman runs show {run.id}")
    lines = ((name, line.split(" ", 1)) for name, trec in named for line in unpack(trec or b""))
    return (f"{qid}.{name} {rest}" for name, (qid, rest) in lines)


def export_judgements(
    engine: sa.Engine, run_id: str, qrels: Sequence[Qrel], langs: Mapping[str, str] | None = None
) -> Iterator[str]:
    """The lines of a TREC file of the judgements that scored a run: with both files ``trec_eval -c`` gives its means.

    ``qrels`` may name topics ``qid.lang``. ``langs`` has the languages of the judged documents, which a run that was
    scored by some languages needs. Raises BadInput: there is no such run, or the languages are needed and missing.
    """
    run = find(engine, run_id)
    if (within := run.judged_by[1]) is not None:
        if langs is None:
            raise BadInput(
                f"run {run.id} was scored by the judgements of documents in {', '.join(within)}, and its collection, "
                "which knows these documents, is gone; export it without --qrels"
            )
        qrels = [qrel for qrel in qrels if langs.get(qrel.doc_id) in within]
    names: dict[str, list[str]] = {}
    qids = scores(engine, run_id)
    for qid in qids:
        names.setdefault(run.topic(qid), []).append(qid)
    exported = {qid if run.kind in POOLED_KINDS else f"{qid}.{run.lang}": [qid] for qid in qids}
    return to_trec(qrels, exported | names)


def delete(engine: sa.Engine, evaluations: Sequence[int]) -> None:
    """Delete evaluations with their runs and scores. Raises BadInput: there is no such evaluation."""
    with transaction(engine) as session:
        for number in evaluations:
            _run(session, str(number))
        session.execute(sa.delete(EvaluationRow).where(EvaluationRow.id.in_(evaluations)))


def forget(session: Session, collection: str) -> None:
    """Delete all evaluations of a collection with their runs and scores."""
    session.execute(sa.delete(EvaluationRow).where(EvaluationRow.collection == collection))


def _run(session: Session, run_id: str) -> LoggedRun:
    id_match = _RUN_ID.fullmatch(run_id.strip())
    if id_match:
        query = sa.select(LoggedRun).where(LoggedRun.evaluation == int(id_match[1]))
        query = query.where(LoggedRun.name == id_match[2]) if id_match[2] else query.where(LoggedRun.main)
        if run := session.scalars(query).first():
            return run
    raise BadInput(f"there is no run {run_id!r}; see the ids with: dragoman runs list --all")
