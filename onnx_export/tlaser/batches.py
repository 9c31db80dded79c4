"""Batches of one direction each, by a budget of tokens, in an order that depends on the seed alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from encoders.document import Int32Array
from encoders.session import token_batches
from encoders.tlaser.corpus import Corpus, Direction
from encoders.tlaser.settings import Variant
from encoders.tlaser.vocabulary import END_ID, PAD_ID, TAG_ID

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """Pairs of sentences, all of one direction.

    Attributes:
        source: (pairs, tokens) what the encoder reads.
        target: (pairs, tokens) what the encoder reads of the target language.
        given: (pairs, tokens) what the decoder is given: the end's token, then the target's.
        wanted: (pairs, tokens) what it should say: the target's tokens, then the end's.
        language: place of the target among the pivots.
        tokens: that it should say.
    """

    source: Ids
    target: Ids
    given: Ids
    wanted: Ids
    language: int
    tokens: int


def encoder_input(ids: Int32Array, variant: Variant) -> Int32Array:
    """A sentence's ids as the encoder reads them, as ``tokenizer.json`` says too."""
    if variant == "laser":
        return np.append(ids, np.int32(END_ID))
    return np.concatenate((np.array([TAG_ID], dtype=np.int32), ids))


def padded(rows: Sequence[Int32Array]) -> Ids:
    """Rows of one length, filled up at their ends."""
    result = np.full((len(rows), max(map(len, rows))), PAD_ID, dtype=np.int64)
    for at, row in enumerate(rows):
        result[at, : len(row)] = row
    return result


class Batches:
    """An endless row of batches: each of a direction drawn uniformly, each direction's in passes of a new order.

    Attributes:
        drawn: batches taken so far, by direction: all there is to remember.
    """

    def __init__(
        self, corpus: Corpus, variant: Variant, budget: int, seed: int, drawn: Sequence[int] | None = None
    ) -> None:
        """Cut each direction into batches; ``drawn`` goes on from where another stood."""
        self._corpus, self._variant, self._seed = corpus, variant, seed
        self._cut = [self._batches_of(direction, budget, at) for at, direction in enumerate(corpus.directions)]
        self._order: dict[tuple[int, int], list[int]] = {}
        self.drawn = list(drawn or [0] * len(corpus.directions))

    def _batches_of(self, direction: Direction, budget: int, at: int) -> list[list[int]]:
        """Rows of similar length together; which of equal length stand together is chance."""
        source, target = self._corpus.sentences[direction.source], self._corpus.sentences[direction.target]
        lengths = 1 + np.maximum(source.lengths[direction.rows[:, 0]], target.lengths[direction.rows[:, 1]])
        shuffled = np.random.default_rng((self._seed, at)).permutation(len(lengths))
        return [
            [int(shuffled[row]) for row in rows] for rows in token_batches([int(n) for n in lengths[shuffled]], budget)
        ]

    def __next__(self) -> Batch:
        """The next batch."""
        at = int(np.random.default_rng((self._seed, sum(self.drawn))).integers(len(self.drawn)))
        passed, place = divmod(self.drawn[at], len(self._cut[at]))
        order = self._order.get((at, passed))
        if order is None:
            order = np.random.default_rng((self._seed, at, passed)).permutation(len(self._cut[at])).tolist()
            self._order.pop((at, passed - 1), None)
            self._order[at, passed] = order
        self.drawn[at] += 1
        return self._batch(self._corpus.directions[at], self._cut[at][order[place]])

    def _batch(self, direction: Direction, rows: Sequence[int]) -> Batch:
        pairs = direction.rows[rows]
        sources = [self._corpus.sentences[direction.source][row] for row in pairs[:, 0]]
        targets = [self._corpus.sentences[direction.target][row] for row in pairs[:, 1]]
        end = np.array([END_ID], dtype=np.int32)
        return Batch(
            source=padded([encoder_input(ids, self._variant) for ids in sources]),
            target=padded([encoder_input(ids, self._variant) for ids in targets]),
            given=padded([np.concatenate((end, ids)) for ids in targets]),
            wanted=padded([np.concatenate((ids, end)) for ids in targets]),
            language=self._corpus.pivots.index(direction.target),
            tokens=sum(map(len, targets)) + len(targets),
        )
