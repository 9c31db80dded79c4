"""Training documents as word counts by language, each with its concept."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from scipy.sparse import csr_array

from encoders.cr5.word_vocabulary import BagCounter
from encoders.document import Document, IntArray
from encoders.folder.training_texts import text_key
from encoders.text.words import words

CONCEPT = "concept"


@dataclass(frozen=True)
class Counts:
    """One language's training documents."""

    matrix: csr_array  # (documents, words) counts of each word
    words: list[str]
    concepts: IntArray  # (documents,) number of each document's concept
    distinct: IntArray  # (documents,) number of different words in each document


class Corpus:
    """Word counts and concepts of documents in several languages; documents ``without_concept`` are only counted."""

    def __init__(self, documents: Iterable[Document] = ()) -> None:
        self.documents = 0
        self.without_concept = 0
        self._counters: dict[str, BagCounter] = {}
        self._labels: dict[str, list[tuple[int, int]]] = {}
        self._concepts: dict[str, int] = {}
        self._text_keys: dict[str, array[int]] = {}
        for document in documents:
            self.add(document)

    def add(self, document: Document) -> None:
        """Add a document."""
        self.documents += 1
        concept = document.fields.get(CONCEPT)
        if concept is None or concept == "":
            self.without_concept += 1
            return
        self._text_keys.setdefault(document.lang, array("Q")).append(text_key(document.text_hash))
        self.add_words(document.lang, str(concept), words(document.content, document.lang))

    def add_words(self, lang: str, concept: str, text_words: list[str]) -> None:
        """Add a document as its words."""
        counter = self._counters.setdefault(lang, BagCounter())
        label = self._concepts.setdefault(concept, len(self._concepts))
        self._labels.setdefault(lang, []).append((label, counter.add(text_words)))

    def only(self, languages: Sequence[str]) -> "Corpus":
        """The documents of some languages; the counts are shared with this corpus."""
        part = Corpus()
        part.documents, part.without_concept, part._concepts = self.documents, self.without_concept, self._concepts
        part._counters = {lang: self._counters[lang] for lang in languages}
        part._labels = {lang: self._labels[lang] for lang in languages}
        part._text_keys = {lang: self._text_keys[lang] for lang in languages if lang in self._text_keys}
        return part

    def text_keys(self) -> Iterator[int]:
        """The keys of the added documents that have a concept."""
        return chain.from_iterable(self._text_keys.values())

    def languages(self) -> dict[str, int]:
        """Number of documents with a concept, by language."""
        return {lang: len(labels) for lang, labels in self._labels.items()}

    def counts(self) -> dict[str, Counts]:
        """The documents' counts, by language in alphabetical order."""
        ranks = {concept: rank for rank, concept in enumerate(sorted(self._concepts))}  # independent of reading order
        numbers = np.array([ranks[concept] for concept in self._concepts], dtype=np.int64)
        counts = {}
        for lang in sorted(self._counters):
            counter = self._counters[lang]
            labels = np.array(self._labels[lang], dtype=np.int64).reshape(-1, 2)
            counts[lang] = Counts(counter.matrix(), counter.words, numbers[labels[:, 0]], labels[:, 1])
        return counts
