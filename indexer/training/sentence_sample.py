"""A random sample of sentences, equally many per language; its memory does not grow with the sources."""

import hashlib
import heapq

from encoders.document import Document
from encoders.text.segmentation import sentences


class SentenceSample:
    """A uniform sample of each language's sentences by lowest hash of seed, id and position: order does not matter."""

    def __init__(self, size: int, seed: int = 0) -> None:
        self.size = size  # sentences in all languages together; each has an equal share, at least one sentence
        self.seed = seed
        self.documents = 0  # documents added so far
        self._samples: dict[str, list[tuple[int, str]]] = {}

    def add(self, document: Document) -> None:
        """Draw from a document's sentences; the title is a sentence."""
        self.documents += 1
        content = document.content
        spans = sentences(content, document.lang, trained=True)
        if not spans:
            return
        if document.lang not in self._samples:
            self._samples[document.lang] = []
            for sample in self._samples.values():
                self._shorten(sample)
        sample = self._samples[document.lang]
        for position, (start, end) in enumerate(spans):
            negated_rank = -self._rank(document.doc_id, position)
            if len(sample) < self._share or negated_rank > sample[0][0]:
                heapq.heappush(sample, (negated_rank, content[start:end]))
                self._shorten(sample)

    def by_language(self) -> dict[str, list[str]]:
        """The sampled sentences by language; languages are sorted, sentences are in order of rank, highest first."""
        return {lang: [text for _, text in sorted(self._samples[lang])] for lang in sorted(self._samples)}

    @property
    def _share(self) -> int:
        return max(self.size // len(self._samples), 1)

    def _shorten(self, sample: list[tuple[int, str]]) -> None:
        while len(sample) > self._share:
            heapq.heappop(sample)

    def _rank(self, doc_id: str, position: int) -> int:
        hashed = f"{self.seed} {position} {doc_id}".encode("utf-8", "surrogatepass")
        return int.from_bytes(hashlib.blake2b(hashed, digest_size=8).digest())
