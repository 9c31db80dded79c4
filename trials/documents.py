"""Documents that trials index, and what trials compare afterwards."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa
from elasticsearch import Elasticsearch, helpers

from indexer.collection import collection as collections
from indexer.collection.settings import Settings
from indexer.ledger import index_runs
from indexer.ledger.database import open_database, transaction
from indexer.ledger.tables import FindingRow
from indexer.stores.contract import StoredDocument
from trials import DEMO
from trials.command import require_done
from trials.servers.elastic import client_of

Stored = tuple[str, bytes, bytes, bytes]
"""A document's text, and the bytes of its vector, of its passages' vectors and of their offsets."""


def sentences(documents: int, revision: int = 0) -> list[dict[str, object]]:
    """Records of short real texts in ten languages; every document and every revision has a different text."""
    texts = [
        (record["lang"], sentence)
        for file in sorted(DEMO.glob("docs.*.jsonl"))
        for record in map(json.loads, file.read_text(encoding="utf-8").splitlines())
        for sentence in record["text"].replace("\n", " ").split(". ")
    ]
    chosen = [texts[number * 7919 % len(texts)] for number in range(documents)]
    return [
        {"id": f"d{number:06d}", "lang": lang, "text": f"{sentence} ({number}, {revision})", "revision": revision}
        for number, (lang, sentence) in enumerate(chosen)
    ]


def write_records(records: Iterable[Mapping[str, object]], file: Path) -> str:
    """Write records to a file of JSON lines; returns its name."""
    with file.open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    return str(file)


def put_records(client: Elasticsearch, index: str, records: Iterable[Mapping[str, object]]) -> None:
    helpers.bulk(client, ({"_index": index, "_id": item["id"], "_source": item} for item in records), refresh=True)


def attach_pages(server: str, home: Path, index: str, pages: int, *options: str) -> list[dict[str, object]]:
    """Make an owner's index with so many sentences, and attach the collection ``help`` to it; returns the sentences."""
    records = sentences(pages)
    with client_of(server) as client:
        put_records(client, index, records)
    fields = ["--store", server, "--text", "text", "--lang-field", "lang", "--device", "cpu", "-q", "--home", str(home)]
    require_done(["attach", index, "-c", "help", *fields, *options])
    return records


def poison(revision: int) -> list[bytes]:
    """Lines of a source that make no document, and odd lines that must make one; of an id given twice the last counts.

    The two lines of one id are neighbours: in two chunks, one process would encode the first line with its chunk before
    it reads the second, and a vector depends on its batch by rounding.
    """
    odd = [
        {"id": "odd/ id, with #blanks", "lang": "en", "text": f"An id that needs quoting ({revision})"},
        {"id": "one word often", "lang": "en", "text": "river " * 2_000},
        {"id": "nothing", "lang": "en", "text": "\u200b"},
        {"id": "empty", "lang": "en", "text": "  "},
        {"id": "nul", "lang": "en", "text": "a\0b"},
        {"id": "x" * 600, "lang": "en", "text": "an id that is too long"},
        {"id": "language", "lang": "klingonisch", "text": "a language that nobody knows"},
        {"lang": "en", "text": "no id"},
        {"id": "twice", "lang": "en", "text": f"The one that is replaced ({revision})"},
        {"id": "twice", "lang": "en", "text": f"The one that stays ({revision})"},
    ]
    lines = [json.dumps({**line, "revision": revision}).encode() for line in odd]
    torn = [b'{"id": "torn", "te', b"\x00\x01\xff binary", '{"id": "é"}'.encode("latin-1")]
    return [*lines[:-2], *torn, b"\n".join(lines[-2:])]


def stored(item: StoredDocument) -> Stored:
    passages = item.passages
    return item.document.text, item.vector.tobytes(), passages.vectors.tobytes(), passages.offsets.tobytes()


def contents(settings: Settings, name: str) -> dict[str, Stored]:
    with open_database(settings.database) as engine:
        collection = collections.require(engine, name)
    with closing(collection.open_store(settings)) as store:
        return {item.document.doc_id: stored(item) for page in store.scan(collection.model) for item in page}


def different(expected: Mapping[str, object], actual: Mapping[str, object]) -> list[str]:
    """Ids of the documents that an undisturbed run has otherwise than a disturbed one, or only one of them has."""
    return sorted(doc_id for doc_id in {*expected, *actual} if expected.get(doc_id) != actual.get(doc_id))


def findings(engine: sa.Engine, name: str) -> Counter[str]:
    last = index_runs.runs(engine, name)[-1].id
    with transaction(engine) as session:
        rows = session.scalars(sa.select(FindingRow).where(FindingRow.run_id == last)).all()
    return Counter(f"{row.kind} {row.place} {row.doc_id[:40]}: {row.text}" for row in rows)
