"""Documents that searches of an index read: what one search finds, the next often finds."""

import math
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from encoders.document import Document, Passages
from indexer.stores.clustered.server_index import Hits
from indexer.stores.read_cache import ReadCache

_BYTES = 2**27
"""Maximum bytes of a store's cached documents: some thirteen thousand pages."""
_BESIDE = 1_000
"""Bytes that a cached document takes beside vectors, texts and fields."""
_FIELD_BYTES = 10
"""Bytes that a document's fields take in memory for each of their characters, at most."""
_SAME_SECONDS = 2.0
"""Seconds until the server is asked again whether the indices are the same."""
_MOST = 0.9
"""Share of a search's candidates. If as many are cached, the thread's next search does not ask for vectors."""
_AHEAD = 50
"""Maximum texts that a request reads ahead; texts that its search needs count, too."""

Write = tuple[int, int]
"""The numbers of a document's last write: the sequence number, and the primary term."""
_Key = tuple[str, str, Write]
"""A model, a document's id and last write."""


class CachedDocument(NamedTuple):
    """What was read of a document: its vector, and its passages and content if a search needed them."""

    vector: bytes
    passages: Passages | None = None
    content: Document | None = None


class LastSearch(threading.local):
    """The last search of a thread."""

    def __init__(self) -> None:
        self.indices = frozenset[str]()  # uuids
        self.candidates: Mapping[str, tuple[_Key, CachedDocument]] = {}  # by id; none once their passages were read
        self.mostly_cached = False  # whether most candidates were cached


class DocumentCache:
    """Documents by their last writes, whose numbers hits have: a document that was written again is read again."""

    def __init__(self, uuids: Callable[[], frozenset[str]]) -> None:
        """Make an empty cache for the indices with these ``uuids``; a new index may count writes as one before it."""
        self._documents, self.last_search = ReadCache[_Key, CachedDocument](_size, _BYTES), LastSearch()
        self._ask, self._uuids, self._asked = uuids, frozenset[str](), -math.inf

    def forget_candidates(self) -> None:
        """Forget the candidates of the thread's last search: documents that are read later may be newer."""
        self.last_search.candidates = {}

    def vectors(
        self, model: str, hits: Hits, read: Callable[[Sequence[str]], Mapping[str, tuple[Write, bytes]]]
    ) -> dict[str, bytes]:
        """Vectors of a search's hits by id, cached or else ``read`` with the writes that made them."""
        if time.monotonic() - self._asked >= _SAME_SECONDS:
            self._uuids, self._asked = self._ask(), time.monotonic()
        indices = self._uuids
        keys: dict[str, _Key] = {hit["_id"]: (model, hit["_id"], last_write(hit)) for hit in hits}
        cached = {key[1]: document for key, document in self._documents.get(indices, keys.values()).items()}
        vectors = read([doc_id for doc_id in keys if doc_id not in cached])
        new = {
            doc_id: CachedDocument(vector)
            for doc_id, (write, vector) in vectors.items()
            if doc_id not in cached and write == keys[doc_id][2]
        }
        self._documents.add(indices, {keys[doc_id]: document for doc_id, document in new.items()})
        search = self.last_search
        search.indices, search.mostly_cached = indices, bool(keys) and len(cached) >= _MOST * len(keys)
        search.candidates = {doc_id: (keys[doc_id], document) for doc_id, document in (cached | new).items()}
        return {
            **{doc_id: vector for doc_id, (_, vector) in vectors.items()},
            **{doc_id: document.vector for doc_id, document in cached.items()},
        }

    def candidates(self, model: str, doc_ids: Collection[str]) -> dict[str, CachedDocument]:
        """What is cached of candidates of the thread's last search, by id."""
        candidates = self.last_search.candidates
        pairs = ((doc_id, candidates[doc_id]) for doc_id in doc_ids if doc_id in candidates)
        return {doc_id: document for doc_id, (key, document) in pairs if key[0] == model}

    def to_read_ahead(self, model: str) -> list[str]:
        """Ids of the last search's candidates without a text, if most candidates are cached and none was dropped."""
        pays = self.last_search.mostly_cached and not self._documents.was_full
        candidates = self.last_search.candidates.items() if pays else ()
        unread = [doc_id for doc_id, (key, document) in candidates if key[0] == model and document.content is None]
        return unread[:_AHEAD]

    def add(
        self, hits: Mapping[str, Mapping[str, Any]], passages: Mapping[str, Passages], contents: Mapping[str, Document]
    ) -> None:
        """Add what was read with hits, by id, to candidates that have the same last write."""
        whole = {
            key: CachedDocument(candidate.vector, passages[doc_id], contents.get(doc_id))
            for doc_id, (key, candidate) in self.last_search.candidates.items()
            if doc_id in hits and key[2] == last_write(hits[doc_id])
        }
        self._documents.add(self.last_search.indices, whole)


def last_write(hit: Mapping[str, Any]) -> Write:
    """The last write of a hit's document."""
    return hit["_seq_no"], hit["_primary_term"]


def _size(document: CachedDocument) -> int:
    """About as many bytes as a document takes in memory."""
    size = len(document.vector) + _BESIDE
    if document.passages is not None:
        size += document.passages.vectors.nbytes + document.passages.offsets.nbytes
    if (content := document.content) is not None:
        size += sys.getsizeof(content.text) + sys.getsizeof(content.title) + _FIELD_BYTES * len(str(content.fields))
    return size
