"""A random sample of sentences, as many of each language, in memory that does not grow with the sources."""

from __future__ import annotations

import hashlib
import heapq

from encoders.document import Document
from encoders.text.segmentation import sentences


class SentenceSample:
    """Sentences of documents, each as likely as any other of its language to be kept.

    A sentence's rank is a hash of the seed, its document's id and its place, and the lowest ranks of each language are
    kept: so the sample depends on which documents there are and not on their order.

    Attributes:
        size: sentences in all; each language has an equal part of them, and one at least.
        seed: another one gives another sample.
        documents: seen so far.
    """

    def __init__(self, size: int, seed: int = 0) -> None:
        """Nothing seen yet."""
        self.size = size
        self.seed = seed
        self.documents = 0
        self._kept: dict[str, list[tuple[int, str]]] = {}

    def add(self, document: Document) -> None:
        """See a document's sentences; its title is one."""
        self.documents += 1
        content = document.content
        spans = sentences(content, document.lang)
        if not spans:
            return
        if document.lang not in self._kept:
            self._kept[document.lang] = []
            for kept in self._kept.values():
                self._shorten(kept)
        kept = self._kept[document.lang]
        for place, (start, end) in enumerate(spans):
            rank = -self._rank(document.doc_id, place)
            if len(kept) < self._share or rank > kept[0][0]:
                heapq.heappush(kept, (rank, content[start:end]))
                self._shorten(kept)

    def by_language(self) -> dict[str, list[str]]:
        """The sentences kept of each language, languages and sentences in an order of their own."""
        return {lang: [text for _, text in sorted(self._kept[lang])] for lang in sorted(self._kept)}

    @property
    def _share(self) -> int:
        return max(self.size // len(self._kept), 1)

    def _shorten(self, kept: list[tuple[int, str]]) -> None:
        while len(kept) > self._share:
            heapq.heappop(kept)

    def _rank(self, doc_id: str, place: int) -> int:
        name = f"{self.seed} {place} {doc_id}".encode("utf-8", "surrogatepass")
        return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest())
