"""Parallel sentences as token ids, and the directions of translation between their languages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import tokenizers

from encoders.document import Int32Array, IntArray, short_hash

_BLOCK = 4096


@dataclass(frozen=True)
class Direction:
    """Sentence pairs of a source language and a target language."""

    source: str
    target: str
    rows: IntArray  # (pairs, 2) positions of the sentences among the source's and the target's


class Sentences:
    """One language's sentences as token ids; ``starts`` are their (sentences + 1,) borders among the ids."""

    def __init__(self, tokenizer: tokenizers.Tokenizer, texts: Sequence[str]) -> None:
        lengths = [0]
        blocks = []
        for start in range(0, len(texts), _BLOCK):
            encoded = tokenizer.encode_batch(list(texts[start : start + _BLOCK]), add_special_tokens=False)
            lengths += [len(encoding.ids) for encoding in encoded]
            blocks += [np.asarray(encoding.ids, dtype=np.int32) for encoding in encoded]
        self._ids = np.concatenate([np.zeros(0, dtype=np.int32), *blocks])
        self.starts = np.cumsum(np.array(lengths, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, row: int) -> Int32Array:
        return self._ids[self.starts[row] : self.starts[row + 1]]

    @property
    def lengths(self) -> IntArray:
        """(sentences,) number of tokens of each sentence."""
        return np.diff(self.starts)

    def hash(self) -> str:
        """Hash of the ids and of the sentences' borders."""
        return short_hash(self._ids.tobytes(), self.starts.tobytes())


@dataclass(frozen=True)
class Corpus:
    """Training and validation sentences of a model."""

    languages: tuple[str, ...]
    pivots: tuple[str, ...]  # languages that sentences are translated into
    sentences: Mapping[str, Sentences]
    directions: Sequence[Direction]  # a language and a pivot each, in a fixed order
    validation: Mapping[str, Sequence[Int32Array | None]]  # held-out, by language, aligned; None: no such sentence

    @property
    def pairs(self) -> int:
        """Number of sentence pairs in all directions."""
        return sum(len(direction.rows) for direction in self.directions)

    def hash(self) -> str:
        """Hash of the pivots, training sentences and directions."""
        parts: list[str | bytes] = [*self.pivots]
        for lang, sentences in self.sentences.items():
            parts += [lang, sentences.hash()]
        for direction in self.directions:
            parts += [direction.source, direction.target, direction.rows.tobytes()]
        return short_hash(*parts)

    def validation_hash(self) -> str:
        """Hash of the validation sentences."""
        parts: list[str | bytes] = []
        for lang, sentences in self.validation.items():
            parts += [lang, *("" if ids is None else ids.tobytes() for ids in sentences)]
        return short_hash(*parts)
