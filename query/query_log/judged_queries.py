"""The query log as topics and judgements: relevant are the opened hits, or the documents judged relevant."""

import datetime as dt
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.orm import Session

from encoders.document import Document, short_hash
from encoders.errors import BadInput
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database, transaction
from indexer.readers.records.record import clean_line
from query.measures.quality_measures import parse_measures, score
from query.query_log.query_log_tables import ClickRow, SearchRow
from query.trec_files.file_patterns import content_hash
from query.trec_files.qrels import Qrel, read_qrels
from query.trec_files.topic_set import TopicSet, by_language
from query.trec_files.topics import Topic, normalise_qid
from query.trec_files.trec_run import Run


@dataclass(frozen=True)
class LoggedSearch:
    """A search of the log."""

    id: str
    created: dt.datetime  # time of the search, UTC
    query: str
    lang: str
    hits: Sequence[str]  # ids of the documents shown, best first
    relevant: Sequence[str]  # ids of the relevant documents: the opened hits, or what the judgements name

    @property
    def qid(self) -> str:
        """Topic id of the query: equal for equal texts in the same language."""
        return normalise_qid(short_hash(self.lang, self.query))


def logged_searches(collection: str, settings: Settings) -> list[LoggedSearch]:
    """Searches of a collection, oldest first; the opened hits are relevant."""
    query = (
        sa.select(SearchRow, ClickRow.doc_id)
        .outerjoin(ClickRow, ClickRow.search == SearchRow.id)
        .where(SearchRow.collection == collection)
        .order_by(SearchRow.created, SearchRow.id, ClickRow.doc_id)
    )
    rows: dict[str, tuple[SearchRow, list[str]]] = {}
    with open_database(settings.database) as engine, transaction(engine) as session:
        for search, doc_id in session.execute(query):
            clicked_ids = rows.setdefault(search.id, (search, []))[1]
            if doc_id is not None:
                clicked_ids.append(doc_id)
    return [LoggedSearch(row.id, row.created, row.query, row.lang, row.hits, clicked) for row, clicked in rows.values()]


def logged_queries(collection: str, settings: Settings) -> list[Document]:
    """Every logged query once, sorted by language and text. Raises BadInput: the collection has no logged query."""
    queries = sorted({(search.lang, search.query, search.qid) for search in require_searches(collection, settings)})
    return [Document(qid, lang, text) for lang, text, qid in queries]


def require_searches(collection: str, settings: Settings) -> list[LoggedSearch]:
    """Searches of a collection, oldest first. Raises BadInput: the log has no search of the collection."""
    searches = logged_searches(collection, settings)
    if not searches:
        raise BadInput(f"the log has no query of {collection}; keep one with: dragoman serve --log")
    return searches


def delete_searches(session: Session, collection: str) -> None:
    """Delete the logged searches of a collection and their clicks."""
    search_ids = sa.select(SearchRow.id).where(SearchRow.collection == collection)
    session.execute(sa.delete(ClickRow).where(ClickRow.search.in_(search_ids)))
    session.execute(sa.delete(SearchRow).where(SearchRow.collection == collection))


def by_week(searches: Sequence[LoggedSearch]) -> dict[str, tuple[int, float]]:
    """Number of searches and MAP of the hits shown, by week."""
    weeks: dict[str, list[LoggedSearch]] = {}
    for search in searches:
        monday = search.created.date() - dt.timedelta(days=search.created.weekday())
        weeks.setdefault(monday.isoformat(), []).append(search)
    measures = parse_measures(["AP"])
    scores = {}
    for week, group in weeks.items():
        run = Run(
            "shown", {search.id: [(hit, -float(rank)) for rank, hit in enumerate(search.hits)] for search in group}
        )
        qrels = [Qrel(search.id, doc_id, 1) for search in group for doc_id in search.relevant]
        scores[week] = len(group), score(run, qrels, measures, {search.id for search in group}).means["AP"]
    return scores


def logged_topic_set(
    collection: str, settings: Settings, judgements: Sequence[Path] = (), langs: Sequence[str] = ()
) -> tuple[TopicSet, dict[str, tuple[int, float]]]:
    """Topics and judgements from the log, and by week the number of searches and the MAP of the hits shown.

    The ``judgements`` name queries by the ids of ``topic_lines``; without, opened hits are relevant. ``langs`` restrict
    the topics. Raises BadInput: no hit was opened, or nothing logged is judged relevant.
    """
    searches = require_searches(collection, settings)
    if judgements:
        qrels = read_qrels(judgements)
        relevant: dict[str, list[str]] = {}
        for qrel in qrels:
            if qrel.relevance > 0:
                relevant.setdefault(qrel.query_id, []).append(qrel.doc_id)
        searches = [replace(search, relevant=relevant[search.qid]) for search in searches if search.qid in relevant]
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
        qrels = [
            Qrel(qid, doc_id, 1)
            for qid, doc_id in sorted({(search.qid, doc_id) for search in searches for doc_id in search.relevant})
        ]
    topics = {search.qid: Topic(search.qid, search.lang, clean_line(search.query)) for search in searches}
    topic_set = TopicSet(
        by_language(list(topics.values()), langs),
        qrels,
        "query-log.jsonl",
        _content_hash(topic_lines(searches)),
        content_hash(judgements)
        if judgements
        else _content_hash(f"{qrel.query_id} 0 {qrel.doc_id} {qrel.relevance}\n" for qrel in qrels),
    )
    return topic_set, by_week(searches)


def _content_hash(lines: Iterable[str]) -> str:
    """Hash of a file with these lines, as ``file_hash`` computes it."""
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]


def topic_lines(searches: Iterable[LoggedSearch]) -> Iterator[str]:
    """A JSON line for each query, most frequent first: topic, count, documents shown, relevant documents."""
    by_query: dict[str, list[LoggedSearch]] = {}
    for search in searches:
        by_query.setdefault(search.qid, []).append(search)
    for qid, same_query in sorted(by_query.items(), key=lambda entry: (-len(entry[1]), entry[1][0].query)):
        topic = {
            "qid": qid,
            "lang": same_query[0].lang,
            "title": same_query[0].query,
            "asked": len(same_query),
            "last": max(search.created for search in same_query).isoformat(timespec="seconds"),
            "shown": list(dict.fromkeys(doc_id for search in reversed(same_query) for doc_id in search.hits)),
            "relevant": sorted({doc_id for search in same_query for doc_id in search.relevant}),
        }
        yield json.dumps(topic, ensure_ascii=False) + "\n"
