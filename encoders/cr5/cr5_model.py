"""A trained Cr5 model: a vocabulary for each language and a column of Φ for each word."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat

import numpy as np
import numpy.typing as npt

from encoders.document import Document, FloatArray, Int8Array, Int32Array, unit_rows
from encoders.errors import BadInput
from encoders.text.words import words

_NONE = np.zeros(0, dtype=np.int32)
UNKNOWN = 0
"""Row of the table for every unknown word: a zero row."""


@dataclass(frozen=True)
class Table:
    """Columns of Φ times their words' idf, one row for each word, language after language."""

    rows: FloatArray | Int8Array  # (1 + words, dim) float32, or int8 with a scale for each row; the first row is zero
    scales: FloatArray | None = None  # (1 + words,) float32 of int8 rows; None if rows are float32

    def take(self, places: npt.NDArray[np.integer]) -> FloatArray:
        """Rows at these places, (places, dim) float32."""
        rows: FloatArray = self.rows[places].astype(np.float32, copy=False)
        if self.scales is not None:
            rows = rows * self.scales[places, None]
        return rows


@dataclass(frozen=True)
class Cr5Model:
    """A trained model."""

    vocabularies: Mapping[str, Sequence[str]]  # words by language, in the order of their rows
    table: Table
    dim: int
    _indices: dict[str, dict[str, int]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def firsts(self) -> dict[str, int]:
        """First row of each language in the table."""
        sizes = np.cumsum([1, *map(len, self.vocabularies.values())])
        return dict(zip(self.vocabularies, sizes[:-1].tolist(), strict=True))

    def language(self, lang: str) -> str | None:
        """The model's tag of a language: the tag, or the tag without its script; None if the model has neither."""
        return next((tag for tag in (lang, lang.split("-", maxsplit=1)[0]) if tag in self.vocabularies), None)

    def ids(self, text_words: Sequence[str], lang: str) -> Int32Array:
        """The table's rows of a language's words; ``UNKNOWN`` where a word is not in the vocabulary."""
        return np.fromiter(
            map(self._index(lang).get, text_words, repeat(UNKNOWN)), dtype=np.int32, count=len(text_words)
        )

    def sums(self, bags: Sequence[Int32Array]) -> FloatArray:
        """Φx of bags of words, (bags, dim) float32, not of unit length; x is (1 + ln tf) · idf.

        A bag repeats a word's row of the table for each occurrence. Raises BadInput: a word's vector is not finite.
        """
        from scipy.sparse import csr_array  # noqa: PLC0415 - the import takes a fifth of a second

        flat = np.concatenate([np.zeros(0, np.int32), *bags])
        distinct, columns = np.unique(flat, return_inverse=True)
        ends = np.cumsum([0, *(len(bag) for bag in bags)])
        counts = csr_array((np.ones(len(flat), np.float32), columns, ends), shape=(len(bags), len(distinct)))
        counts.sum_duplicates()
        counts.data = 1 + np.log(counts.data)
        sums: FloatArray = counts @ self.table.take(distinct)
        if not np.isfinite(sums).all():  # only these rows: checking the table would read all of it
            raise BadInput("the model has vectors that are no numbers; train it again: dragoman train cr5")
        return sums

    def encode(self, texts: Sequence[Document]) -> FloatArray:
        """Texts → (texts, dim) float32 unit rows; a zero row where a text has no word of the model."""
        return unit_rows(
            self.sums(
                [
                    self.ids(words(text.content, text.lang), lang) if (lang := self.language(text.lang)) else _NONE
                    for text in texts
                ]
            )
        )

    def words_of(self, lang: str) -> tuple[Sequence[str], FloatArray]:
        """The words of a language and their vectors, (words, dim) float32."""
        first, vocabulary = self.firsts[lang], self.vocabularies[lang]
        return vocabulary, self.table.take(np.arange(first, first + len(vocabulary)))

    def _index(self, lang: str) -> dict[str, int]:
        if lang not in self._indices:
            first = self.firsts[lang]
            self._indices[lang] = {word: first + position for position, word in enumerate(self.vocabularies[lang])}
        return self._indices[lang]
