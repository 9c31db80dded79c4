"""The query log as topics and judgements: what was opened is relevant."""

from __future__ import annotations

import datetime as dt
import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from encoders.console import Console
from encoders.document import Document, short_hash
from encoders.errors import BadInput
from indexer.database import connect, transaction
from indexer.settings import Settings
from query.evaluation import evaluate, parse_measures
from query.run import Run
from query.service.log_tables import ClickRow, SearchRow

if TYPE_CHECKING:
    from ir_measures import Qrel


_LATEST = 10_000
"""Searches that say which documents are asked for most."""


@dataclass(frozen=True)
class Asked:
    """A search of which a hit was opened.

    Attributes:
        id: in the log.
        created: when, UTC.
        query: its text.
        lang: its language.
        hits: what was shown, best first.
        opened: which of them were opened.
    """

    id: str
    created: dt.datetime
    query: str
    lang: str
    hits: Sequence[str]
    opened: Sequence[str]

    @property
    def qid(self) -> str:
        """The same for the same text in the same language."""
        return short_hash(self.lang, self.query)

    @property
    def week(self) -> str:
        """Monday of its week."""
        return (self.created.date() - dt.timedelta(days=self.created.weekday())).isoformat()


def searches_with_clicks(engine: sa.Engine, collection: str) -> list[Asked]:
    """Searches of a collection of which a hit was opened, oldest first."""
    query = (
        sa.select(SearchRow, ClickRow.doc_id)
        .join(ClickRow, ClickRow.search == SearchRow.id)
        .where(SearchRow.collection == collection)
        .order_by(SearchRow.created, SearchRow.id, ClickRow.doc_id)
    )
    found: dict[str, tuple[SearchRow, list[str]]] = {}
    with transaction(engine) as session:
        for search, doc_id in session.execute(query):
            found.setdefault(search.id, (search, []))[1].append(doc_id)
    return [Asked(one.id, one.created, one.query, one.lang, one.hits, opened) for one, opened in found.values()]


def most_asked(engine: sa.Engine, collection: str) -> list[str]:
    """Ids of documents that the latest searches showed, those that most of them did first."""
    query = sa.select(SearchRow.hits).where(SearchRow.collection == collection).order_by(SearchRow.created.desc())
    with transaction(engine) as session:
        shown = Counter(doc_id for hits in session.scalars(query.limit(_LATEST)) for doc_id in hits)
    return [doc_id for doc_id, _ in shown.most_common()]


def logged_queries(collection: str, settings: Settings) -> list[Document]:
    """Every query that a collection was asked, once.

    Raises:
        BadInput: it was asked none.
    """
    query = sa.select(SearchRow.lang, SearchRow.query).where(SearchRow.collection == collection).distinct()
    engine = connect(settings.database)
    try:
        with transaction(engine) as session:
            asked = sorted(map(tuple, session.execute(query)))
    finally:
        engine.dispose()
    if not asked:
        raise BadInput(f"the log has no query of {collection}; keep one with: dragoman serve --log")
    return [Document(short_hash(lang, text), lang, text) for lang, text in asked]


def by_week(searches: Sequence[Asked]) -> dict[str, tuple[int, float]]:
    """By week: searches, and MAP of what they showed, what was opened being relevant."""
    from ir_measures import Qrel  # noqa: PLC0415 - half a second

    weeks: dict[str, list[Asked]] = {}
    for one in searches:
        weeks.setdefault(one.week, []).append(one)
    measures = parse_measures(["AP"])
    scores = {}
    for week, some in weeks.items():
        run = Run("shown", {one.id: [(hit, -float(at)) for at, hit in enumerate(one.hits)] for one in some})
        qrels: list[Qrel] = [Qrel(one.id, doc_id, 1) for one in some for doc_id in one.opened]
        scores[week] = len(some), evaluate(run, qrels, measures, {one.id for one in some}).means["AP"]
    return scores


@contextmanager
def logged_files(collection: str, settings: Settings, console: Console) -> Iterator[tuple[list[Path], list[Path]]]:
    """Topics' and judgements' files made of the log; by the way what was shown is scored by week.

    Raises:
        BadInput: nothing was opened yet.
    """
    engine = connect(settings.database)
    try:
        searches = searches_with_clicks(engine, collection)
    finally:
        engine.dispose()
    if not searches:
        raise BadInput(
            f"the log has no query of {collection} of which a hit was opened; keep one with: dragoman serve --log"
        )
    _show(by_week(searches), console)
    with tempfile.TemporaryDirectory() as folder:
        topics, qrels = Path(folder) / "query-log.jsonl", Path(folder) / "query-log.qrels"
        asked: Mapping[str, Asked] = {one.qid: one for one in searches}
        opened = sorted({(one.qid, doc_id) for one in searches for doc_id in one.opened})
        topics.write_text(
            "".join(
                json.dumps({"qid": qid, "lang": one.lang, "title": one.query}, ensure_ascii=False) + "\n"
                for qid, one in asked.items()
            ),
            encoding="utf-8",
        )
        qrels.write_text("".join(f"{qid} 0 {doc_id} 1\n" for qid, doc_id in opened), encoding="utf-8")
        yield [topics], [qrels]


def _show(weeks: Mapping[str, tuple[int, float]], console: Console) -> None:
    rows = [[week, f"{searches:,}", f"{value:.3f}"] for week, (searches, value) in weeks.items()]
    console.table(["week of", ">searches with clicks", ">MAP of what was shown"], rows, title="by week")
    console.emit({"weeks": {week: {"searches": many, "AP": value} for week, (many, value) in weeks.items()}})
