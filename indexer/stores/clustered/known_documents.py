"""Documents that a store has read from its server: what one search finds, the next often finds."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from encoders.document import Document, Passages
from indexer.stores.clustered.server_index import Hits
from indexer.stores.contract import NearestDocuments, VectorQuery
from indexer.stores.read_cache import ReadCache

_BYTES = 2**26
"""Maximum bytes of the documents that a store knows: some ten thousand pages."""
_BESIDE = 1_000
"""Bytes that a document takes beside vectors and text."""
_MOST = 0.9
"""Share of a search's candidates that are known, from which on the thread's next search asks for no vectors."""
_ANOTHER = 1e-4
"""Difference between the cosines of the server and of a known vector that tells that the server has another vector."""

_Key = tuple[str, str, tuple[int, int]]
"""A model, a document's id, and the numbers of the document's last write."""


class Known(NamedTuple):
    """What is known of a document: its vector, and its passages and content if these were read."""

    vector: bytes
    passages: Passages | None = None
    document: Document | None = None


class _Search(threading.local):
    """The last search of a thread: its candidates by id, and whether most of them were known."""

    def __init__(self) -> None:
        self.found: Mapping[str, tuple[_Key, Known]] = {}
        self.most_known = False


class KnownDocuments:
    """Documents by the numbers of their last writes, which hits have: what was written since is read again."""

    def __init__(self) -> None:
        self._cache, self._search = ReadCache[_Key, Known](_size, _BYTES), _Search()

    @property
    def most(self) -> bool:
        """Whether most candidates of the thread's last search were known."""
        return self._search.most_known

    def forget_search(self) -> None:
        """Forget the thread's last search: documents that are read next may be newer."""
        self._search.found = {}

    def found(self, doc_ids: Sequence[str]) -> dict[str, Known]:
        """What is known of candidates of the thread's last search, by id."""
        return {doc_id: self._search.found[doc_id][1] for doc_id in doc_ids if doc_id in self._search.found}

    def with_vectors(
        self,
        query: VectorQuery,
        nearest: Mapping[str, Sequence[NearestDocuments]],
        hits: Hits,
        read: Callable[[Sequence[str]], Mapping[str, bytes]],
    ) -> dict[str, list[NearestDocuments]] | None:
        """The candidates of a search with known vectors and those that are ``read``, by id; none without a vector.

        A new index may have the numbers of an earlier one. So a known vector must have the cosine that the server
        found; None, and nothing is known any more, if it has not.
        """
        keys: dict[str, _Key] = {hit["_id"]: (query.model, hit["_id"], last_write(hit)) for hit in hits}
        before = {key[1]: known for key, known in self._cache.get(0, keys.values()).items()}
        unknown = [doc_id for doc_id in keys if doc_id not in before]
        vectors_read = read(unknown)
        new = {doc_id: Known(vectors_read[doc_id]) for doc_id in unknown if doc_id in vectors_read}
        found = {doc_id: (keys[doc_id], known) for doc_id, known in {**new, **before}.items()}
        self._search.found, self._search.most_known = found, len(before) >= _MOST * len(keys)
        self._cache.add(0, dict(map(found.__getitem__, new)))
        with_vectors: dict[str, list[NearestDocuments]] = {lang: [] for lang in nearest}
        for lang, by_query in nearest.items():
            for of_query, vector in zip(by_query, query.vectors[lang], strict=True):
                there = of_query.without(keys.keys() - found.keys())
                packed = b"".join([found[doc_id][1].vector for doc_id in there.doc_ids])
                vectors = np.frombuffer(packed, dtype=np.float32).reshape(-1, len(vector))
                differing = np.flatnonzero(np.abs(vectors @ vector - there.scores) > _ANOTHER)
                if any(there.doc_ids[row] in before for row in differing.tolist()):
                    self._cache.clear()
                    self._search.most_known = False
                    return None
                with_vectors[lang].append(replace(there, vectors=vectors))
        return with_vectors

    def add(
        self, hits: Mapping[str, Mapping[str, Any]], passages: Mapping[str, Passages], texts: Mapping[str, Document]
    ) -> None:
        """Know what was read by ``hits`` of candidates that nobody has written since the thread's last search."""
        found = self._search.found
        unchanged = [one for one in hits if one in found and found[one][0][2] == last_write(hits[one])]
        read = {found[one][0]: Known(found[one][1].vector, passages[one], texts.get(one)) for one in unchanged}
        self._cache.add(0, read)


def last_write(hit: Mapping[str, Any]) -> tuple[int, int]:
    """The numbers of a hit's last write."""
    return hit["_seq_no"], hit["_primary_term"]


def _size(known: Known) -> int:
    passages = known.passages.vectors.nbytes if known.passages is not None else 0
    text = len(known.document.text) + len(str(known.document.fields)) if known.document is not None else 0
    return len(known.vector) + passages + text + _BESIDE
