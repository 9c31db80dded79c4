"""Sentences that are translations of one another, as token ids, and which language is translated into which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import tokenizers

from encoders.document import Int32Array, short_hash

Rows = npt.NDArray[np.int64]

_BLOCK = 4096


@dataclass(frozen=True)
class Direction:
    """A language that is translated into another.

    Attributes:
        source: language.
        target: language, a pivot.
        rows: (pairs, 2) numbers of the source's and the target's sentences.
    """

    source: str
    target: str
    rows: Rows


class Sentences:
    """The sentences of one language as token ids, without special tokens.

    Attributes:
        starts: (sentences + 1,) where each begins.
    """

    def __init__(self, tokenizer: tokenizers.Tokenizer, texts: Sequence[str]) -> None:
        """Tokenise."""
        lengths = [0]
        blocks = []
        for at in range(0, len(texts), _BLOCK):
            encoded = tokenizer.encode_batch(list(texts[at : at + _BLOCK]), add_special_tokens=False)
            lengths += [len(one.ids) for one in encoded]
            blocks += [np.asarray(one.ids, dtype=np.int32) for one in encoded]
        self._ids = np.concatenate([np.zeros(0, dtype=np.int32), *blocks])
        self.starts = np.cumsum(np.array(lengths, dtype=np.int64))

    def __len__(self) -> int:
        """How many there are."""
        return len(self.starts) - 1

    def __getitem__(self, row: int) -> Int32Array:
        """The ids of a sentence."""
        ids: Int32Array = self._ids[self.starts[row] : self.starts[row + 1]]
        return ids

    @property
    def lengths(self) -> Rows:
        """(sentences,) tokens of each."""
        return np.diff(self.starts)

    def hash(self) -> str:
        """The same for the same ids."""
        return short_hash(self._ids.tobytes(), self.starts.tobytes())


@dataclass(frozen=True)
class Corpus:
    """What a model learns from and is validated on.

    Attributes:
        languages: all, sorted.
        pivots: that are translated into.
        sentences: of each language.
        directions: a language and a pivot each, in a fixed order.
        validation: held-out sentences by language; the same place is the same sentence, None where a language lacks it.
    """

    languages: tuple[str, ...]
    pivots: tuple[str, ...]
    sentences: Mapping[str, Sentences]
    directions: Sequence[Direction]
    validation: Mapping[str, Sequence[Int32Array | None]]

    @property
    def pairs(self) -> int:
        """Pairs of all directions."""
        return sum(len(direction.rows) for direction in self.directions)

    def hash(self) -> str:
        """The same for the same sentences and directions."""
        parts: list[str | bytes] = [*self.pivots]
        for lang, sentences in self.sentences.items():
            parts += [lang, sentences.hash()]
        for direction in self.directions:
            parts += [direction.source, direction.target, direction.rows.tobytes()]
        return short_hash(*parts)

    def validation_hash(self) -> str:
        """The same for the same validation sentences."""
        parts: list[str | bytes] = []
        for lang, sentences in self.validation.items():
            parts += [lang, *("" if ids is None else ids.tobytes() for ids in sentences)]
        return short_hash(*parts)
