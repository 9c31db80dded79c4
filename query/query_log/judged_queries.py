"""The query log as topics and judgements: what was opened is relevant, or what somebody judged so."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from encoders.document import Document, short_hash
from encoders.errors import BadInput
from encoders.folder import file_hash
from indexer.ledger.database import connect, transaction
from indexer.readers.record import one_line
from indexer.settings import Settings
from query.evaluation.experiment import by_language
from query.evaluation.measures import evaluate, parse_measures
from query.evaluation.qrels import read_qrels
from query.evaluation.topic_set import TopicSet
from query.evaluation.topics import Topic, normalise_qid
from query.evaluation.trec_run import Run
from query.query_log.tables import ClickRow, SearchRow

if TYPE_CHECKING:
    from ir_measures import Qrel


_LATEST = 10_000
"""Searches that say which documents are asked for most."""


@dataclass(frozen=True)
class LoggedSearch:
    """A search as the log has it.

    Attributes:
        id: in the log.
        created: when, UTC.
        query: its text.
        lang: its language.
        hits: what was shown, best first.
        relevant: ids of what answers it: which of them were opened, unless somebody judged.
    """

    id: str
    created: dt.datetime
    query: str
    lang: str
    hits: Sequence[str]
    relevant: Sequence[str]

    @property
    def qid(self) -> str:
        """The same for the same text in the same language; as a topic's id is read."""
        return normalise_qid(short_hash(self.lang, self.query))

    @property
    def week(self) -> str:
        """Monday of its week."""
        return (self.created.date() - dt.timedelta(days=self.created.weekday())).isoformat()


def logged_searches(collection: str, settings: Settings) -> list[LoggedSearch]:
    """Searches of a collection, oldest first; what was opened is relevant."""
    query = (
        sa.select(SearchRow, ClickRow.doc_id)
        .outerjoin(ClickRow, ClickRow.search == SearchRow.id)
        .where(SearchRow.collection == collection)
        .order_by(SearchRow.created, SearchRow.id, ClickRow.doc_id)
    )
    found: dict[str, tuple[SearchRow, list[str]]] = {}
    engine = connect(settings.database)
    try:
        with transaction(engine) as session:
            for search, doc_id in session.execute(query):
                opened = found.setdefault(search.id, (search, []))[1]
                if doc_id is not None:
                    opened.append(doc_id)
    finally:
        engine.dispose()
    return [LoggedSearch(one.id, one.created, one.query, one.lang, one.hits, opened) for one, opened in found.values()]


def judged(searches: Iterable[LoggedSearch], qrels: Iterable[Qrel]) -> list[LoggedSearch]:
    """Those of the searches that have something relevant by judgements of their queries."""
    relevant: dict[str, list[str]] = {}
    for one in qrels:
        if one.relevance > 0:
            relevant.setdefault(one.query_id, []).append(one.doc_id)
    return [replace(one, relevant=relevant[one.qid]) for one in searches if one.qid in relevant]


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
    asked = sorted({(one.lang, one.query, one.qid) for one in require_searches(collection, settings)})
    return [Document(qid, lang, text) for lang, text, qid in asked]


def require_searches(collection: str, settings: Settings) -> list[LoggedSearch]:
    """Searches of a collection, oldest first.

    Raises:
        BadInput: the log has none.
    """
    searches = logged_searches(collection, settings)
    if not searches:
        raise BadInput(f"the log has no query of {collection}; keep one with: dragoman serve --log")
    return searches


def forget(engine: sa.Engine, collection: str) -> None:
    """Remove what a collection was asked."""
    with transaction(engine) as session:
        asked = sa.select(SearchRow.id).where(SearchRow.collection == collection)
        session.execute(sa.delete(ClickRow).where(ClickRow.search.in_(asked)))
        session.execute(sa.delete(SearchRow).where(SearchRow.collection == collection))


def by_week(searches: Sequence[LoggedSearch]) -> dict[str, tuple[int, float]]:
    """By week: searches, and MAP of what they showed."""
    from ir_measures import Qrel  # noqa: PLC0415 - half a second

    weeks: dict[str, list[LoggedSearch]] = {}
    for one in searches:
        weeks.setdefault(one.week, []).append(one)
    measures = parse_measures(["AP"])
    scores = {}
    for week, some in weeks.items():
        run = Run("shown", {one.id: [(hit, -float(at)) for at, hit in enumerate(one.hits)] for one in some})
        qrels: list[Qrel] = [Qrel(one.id, doc_id, 1) for one in some for doc_id in one.relevant]
        scores[week] = len(some), evaluate(run, qrels, measures, {one.id for one in some}).means["AP"]
    return scores


def logged_topic_set(
    collection: str, settings: Settings, judgements: Sequence[Path] = (), langs: Sequence[str] = ()
) -> tuple[TopicSet, dict[str, tuple[int, float]]]:
    """Topics and judgements made of the log, and what was shown, scored by week.

    Args:
        collection: whose log.
        settings: where the log is.
        judgements: files that judge queries of the log by the ids that ``topic_lines`` gives them; with none of them
            what was opened is relevant.
        langs: languages of queries wanted; all where none is named.

    Raises:
        BadInput: nothing was opened yet, or no query was judged that was asked.
    """
    searches = require_searches(collection, settings)
    if judgements:
        qrels = read_qrels(judgements)
        searches = judged(searches, qrels)
        if not searches:
            raise BadInput(
                f"the qrels find nothing relevant for a query of {collection}'s log; "
                f"the queries' ids are in: dragoman queries -c {collection} -o FILE"
            )
    else:
        searches = [search for search in searches if search.relevant]
        if not searches:
            raise BadInput(
                f"the log has no query of {collection} of which a hit was opened; judge some: dragoman queries "
                f"-c {collection} -o FILE, then dragoman evaluate --from-log --qrels JUDGED -c {collection}"
            )
        qrels = _opened(searches)
    topics = {search.qid: Topic(search.qid, search.lang, one_line(search.query)) for search in searches}
    topic_set = TopicSet(
        by_language(list(topics.values()), langs),
        qrels,
        "query-log.jsonl",
        _content_hash(topic_lines(searches)),
        file_hash(*judgements) if judgements else _content_hash(_qrel_lines(qrels)),
    )
    return topic_set, by_week(searches)


def _opened(searches: Iterable[LoggedSearch]) -> list[Qrel]:
    """What was opened, as judgements."""
    from ir_measures import Qrel  # noqa: PLC0415 - half a second

    return [
        Qrel(qid, doc_id, 1)
        for qid, doc_id in sorted({(one.qid, doc_id) for one in searches for doc_id in one.relevant})
    ]


def _qrel_lines(qrels: Iterable[Qrel]) -> Iterator[str]:
    return (f"{qrel.query_id} 0 {qrel.doc_id} {qrel.relevance}\n" for qrel in qrels)


def _content_hash(lines: Iterable[str]) -> str:
    """As of a file of these lines."""
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]


def topic_lines(searches: Iterable[LoggedSearch]) -> Iterator[str]:
    """A line of JSON for each query, as topics are read, most asked first.

    Beside its text: how often it was asked, every document that was shown for it, and those that are relevant.
    """
    by_query: dict[str, list[LoggedSearch]] = {}
    for one in searches:
        by_query.setdefault(one.qid, []).append(one)
    for qid, same in sorted(by_query.items(), key=lambda item: (-len(item[1]), item[1][0].query)):
        topic = {
            "qid": qid,
            "lang": same[0].lang,
            "title": same[0].query,
            "asked": len(same),
            "last": max(one.created for one in same).isoformat(timespec="seconds"),
            "shown": list(dict.fromkeys(doc_id for one in reversed(same) for doc_id in one.hits)),
            "relevant": sorted({doc_id for one in same for doc_id in one.relevant}),
        }
        yield json.dumps(topic, ensure_ascii=False) + "\n"
