"""An owner's random writes race with attach; at the end every text must be theirs, with its vector."""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from elasticsearch import ConflictError, Elasticsearch, NotFoundError

from encoders.document import Document
from indexer.attaching.catch_up import catch_up
from indexer.collection.store_location import StoreLocation
from indexer.elastic.address import Credentials
from indexer.ledger.database import connect
from indexer.stores.attached.address import Attachment
from trials.fake_encoder import FakeEncoder

_IDS = 60
_KINDS = ("index", "text", "other", "back", "old", "conditional", "delete", "external")
_VERSION = 1_700_000_000_000


@dataclass
class Writer:
    """One of the owner's writers, with its own documents; it knows what must be in the index at the end.

    Attributes:
        expected: the source of each document as the writer wrote it last; None: the document was deleted.
        counts: writes by kind.
        conflicts: conditional writes that were repeated because we had written in between.
    """

    client: Elasticsearch
    index: str
    name: str
    seed: int
    expected: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    conflicts: int = 0
    _read: dict[str, dict[str, Any]] = field(default_factory=dict)

    def write(self, count: int) -> None:
        """Write ``count`` times; kind and document are drawn at random."""
        draw = random.Random(self.seed)
        for number in range(count):
            kind = draw.choice(_KINDS)
            doc_id = f"{self.name}{'x' if kind == 'external' else ''}{draw.randrange(_IDS)}"
            text = f"{draw.choice(('one', 'two', 'three', 'four'))} {draw.randrange(50)}"
            self.counts[kind] += 1
            getattr(self, f"_{kind}")(doc_id, text, number)

    def _index(self, doc_id: str, text: str, number: int) -> None:
        self.expected[doc_id] = {"body": text, "lang": "en", "number": number}
        self.client.index(index=self.index, id=doc_id, document=self.expected[doc_id])

    def _text(self, doc_id: str, text: str, number: int) -> None:
        self._update(doc_id, {"body": text}, number)

    def _other(self, doc_id: str, _: str, number: int) -> None:
        self._update(doc_id, {"number": number}, number)

    def _update(self, doc_id: str, changed: dict[str, Any], number: int) -> None:
        before = self.expected.get(doc_id)
        if before is None:
            self._index(doc_id, "one", number)
            return
        self.client.update(index=self.index, id=doc_id, doc=changed, retry_on_conflict=20)
        self.expected[doc_id] = before | changed

    def _back(self, doc_id: str, text: str, number: int) -> None:
        """Read, change, write back: the vectors are lost, because a source that is read lacks them."""
        try:
            read = self.client.get(index=self.index, id=doc_id)["_source"]
        except NotFoundError:
            self._index(doc_id, text, number)
            return
        self._read[doc_id] = read
        self.client.index(index=self.index, id=doc_id, document=read | {"number": number})
        self.expected[doc_id] = _theirs(read) | {"number": number}

    def _old(self, doc_id: str, text: str, number: int) -> None:
        """Write back an old source as an update, with our fields: its hash is then beside another text's vector."""
        read = self._read.get(doc_id)
        if read is None or self.expected.get(doc_id) is None:
            self._back(doc_id, text, number)
            return
        self.client.update(index=self.index, id=doc_id, doc=read, retry_on_conflict=20)
        self.expected[doc_id] = _theirs(read)

    def _conditional(self, doc_id: str, text: str, number: int) -> None:
        while True:
            try:
                read = self.client.get(index=self.index, id=doc_id)
            except NotFoundError:
                self._index(doc_id, text, number)
                return
            seq_no, term = read["_seq_no"], read["_primary_term"]
            written = _theirs(read["_source"]) | {"body": text}
            try:
                self.client.index(index=self.index, id=doc_id, document=written, if_seq_no=seq_no, if_primary_term=term)
            except ConflictError:
                self.conflicts += 1
                continue
            self.expected[doc_id] = written
            return

    def _delete(self, doc_id: str, _text: str, _number: int) -> None:
        self.client.options(ignore_status=404).delete(index=self.index, id=doc_id)
        self.expected[doc_id] = None

    def _external(self, doc_id: str, text: str, number: int) -> None:
        self.expected[doc_id] = {"body": text, "lang": "en", "number": number}
        self.client.index(
            index=self.index,
            id=doc_id,
            document=self.expected[doc_id],
            version=_VERSION + number,
            version_type="external",
        )


def _theirs(source: dict[str, Any]) -> dict[str, Any]:
    """A source without our fields."""
    return {name: value for name, value in source.items() if name != "dragoman"}


@dataclass(frozen=True)
class RaceOutcome:
    """Outcome of a race.

    Attributes:
        writes: number of the owner's writes, by kind.
        conflicts: number of the owner's conditional writes that were repeated.
        catch_ups: how often we read what had changed.
        encoded: number of documents that were encoded.
        documents: number of documents at the end.
        lost: ids whose source is not what the owner wrote last.
        wrong: ids whose vector is missing, is not the text's, or should not exist.
    """

    writes: Counter[str]
    conflicts: int
    catch_ups: int
    encoded: int
    documents: int
    lost: list[str]
    wrong: list[str]


def race(server: str, prefix: str, database: str, writes: int, *, companion: bool, seed: int = 0) -> RaceOutcome:
    """Let two writers write to an index while we follow it, catch up with the rest, and compare.

    Args:
        server: URL of an Elasticsearch server without security.
        prefix: beginning of the indices' names.
        database: SQLAlchemy URL of a ledger.
        writes: number of writes of each writer.
        companion: whether the vectors are in an index of our own.
        seed: seed of the random writes.
    """
    index, encoder, engine = f"{prefix}-race", FakeEncoder(), connect(database)
    attachment = Attachment(server, index, "body", lang_field="lang", companion=prefix if companion else "")
    client = Elasticsearch(server, request_timeout=120)
    client.indices.create(index=index, mappings=_MAPPING, settings={"number_of_shards": 2, "number_of_replicas": 0})
    writers = [Writer(client, index, name, seed + number) for number, name in enumerate("ab")]
    catch_ups = 0
    with ThreadPoolExecutor(len(writers)) as pool:
        store = StoreLocation(attachment.url, "race", Credentials()).open_attached(make=True)
        catch_up(store, encoder, engine, "race")
        futures = [pool.submit(writer.write, writes) for writer in writers]
        caught_up = False
        while not caught_up:
            written = all(future.done() for future in futures)
            caught_up = not catch_up(store, encoder, engine, "race").behind and written
            catch_ups += 1
        for future in futures:
            future.result()
    client.indices.refresh(index=index)
    expected = {doc_id: source for writer in writers for doc_id, source in writer.expected.items()}
    lost, wrong = _compare(client, index, expected, _vectors(store, encoder.spec.model), companion=companion)
    store.close()
    client.close()
    engine.dispose()
    return RaceOutcome(
        writes=sum((writer.counts for writer in writers), Counter()),
        conflicts=sum(writer.conflicts for writer in writers),
        catch_ups=catch_ups,
        encoded=len(encoder.encoded),
        documents=sum(source is not None for source in expected.values()),
        lost=lost,
        wrong=wrong,
    )


_MAPPING = {"properties": {"body": {"type": "text"}, "lang": {"type": "keyword"}, "number": {"type": "long"}}}


def _vectors(store: Any, model: str) -> dict[str, Any]:
    return {item.document.doc_id: item.vector for page in store.scan(model) for item in page}


def _compare(
    client: Elasticsearch,
    index: str,
    expected: dict[str, dict[str, Any] | None],
    vectors: dict[str, Any],
    *,
    companion: bool,
) -> tuple[list[str], list[str]]:
    """The ids that are lost and those with a wrong vector; in place, documents with external versions have none."""
    lost, wrong = [], []
    encoder = FakeEncoder()
    hits = client.search(index=index, size=10_000)["hits"]["hits"]
    sources = {hit["_id"]: _theirs(hit["_source"]) for hit in hits}
    for doc_id, source in expected.items():
        if sources.get(doc_id) != source:
            lost.append(doc_id)
        has_vector = source is not None and (companion or "x" not in doc_id)
        if has_vector != (doc_id in vectors):
            wrong.append(doc_id)
        elif has_vector and source is not None:
            vector = encoder.encode_queries([Document(doc_id, "en", source["body"])])[0]
            if not np.allclose(vector, vectors[doc_id], atol=1e-6):
                wrong.append(doc_id)
    return lost, wrong
