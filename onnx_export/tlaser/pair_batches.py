"""Batches of sentence pairs of one direction, by a budget of tokens, in an order that depends only on the seed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from encoders.document import Int32Array, IntArray
from encoders.inference import session
from encoders.tlaser.joint_vocabulary import END_ID, PAD_ID, TAG_ID
from encoders.tlaser.tlaser_settings import RECURRENT, Variant
from encoders.tlaser.token_corpus import Corpus, Direction


@dataclass(frozen=True)
class Batch:
    """Pairs of sentences, all of one direction."""

    source: IntArray  # (pairs, tokens) the encoder's input in the source language
    target: IntArray  # (pairs, tokens) the encoder's input in the target language
    decoder_input: IntArray  # (pairs, tokens) the decoder's input: the end token, then the target's tokens
    labels: IntArray  # (pairs, tokens) the decoder's labels: the target's tokens, then the end token
    places: IntArray  # (labels,) places of the labels without padding, counted row by row
    language: int  # index of the target language among the pivots

    @property
    def tokens(self) -> int:
        """Number of labels, without padding."""
        return len(self.places)


def encoder_input(ids: Int32Array, variant: Variant) -> Int32Array:
    """The encoder's input for a sentence's ids, with the special token that ``tokenizer.json`` adds too."""
    if variant in RECURRENT:
        return np.append(ids, np.int32(END_ID))
    return np.concatenate((np.array([TAG_ID], dtype=np.int32), ids))


def padded(rows: Sequence[Int32Array]) -> IntArray:
    """Rows padded at their ends to the length of the longest, (rows, tokens)."""
    return session.padded(rows, PAD_ID)[0]


class Batches:
    """An endless sequence of batches, whose direction is drawn uniformly; each pass of a direction has a new order."""

    def __init__(self, corpus: Corpus, variant: Variant, budget: int, seed: int) -> None:
        self._corpus, self._variant, self._seed = corpus, variant, seed
        self._batches = [
            self._batches_of(direction, budget, number) for number, direction in enumerate(corpus.directions)
        ]
        self._orders: dict[tuple[int, int], list[int]] = {}
        self.drawn = [0] * len(corpus.directions)  # batches taken by direction; set them to continue a sequence

    def _batches_of(self, direction: Direction, budget: int, number: int) -> list[list[int]]:
        """Group a direction's rows of similar length; rows of equal length are grouped at random."""
        source, target = self._corpus.sentences[direction.source], self._corpus.sentences[direction.target]
        lengths = 1 + np.maximum(source.lengths[direction.rows[:, 0]], target.lengths[direction.rows[:, 1]])
        shuffled = np.random.default_rng((self._seed, number)).permutation(len(lengths))
        return [
            [int(shuffled[row]) for row in rows]
            for rows in session.token_batches([int(length) for length in lengths[shuffled]], budget)
        ]

    def __next__(self) -> Batch:
        number = int(np.random.default_rng((self._seed, sum(self.drawn))).integers(len(self.drawn)))
        batches = self._batches[number]
        passes, position = divmod(self.drawn[number], len(batches))
        order = self._orders.get((number, passes))
        if order is None:
            order = np.random.default_rng((self._seed, number, passes)).permutation(len(batches)).tolist()
            self._orders.pop((number, passes - 1), None)
            self._orders[number, passes] = order
        self.drawn[number] += 1
        direction = self._corpus.directions[number]
        pairs = direction.rows[batches[order[position]]]
        sources = [self._corpus.sentences[direction.source][row] for row in pairs[:, 0]]
        targets = [self._corpus.sentences[direction.target][row] for row in pairs[:, 1]]
        end = np.array([END_ID], dtype=np.int32)
        labels = padded([np.concatenate((ids, end)) for ids in targets])
        return Batch(
            source=padded([encoder_input(ids, self._variant) for ids in sources]),
            target=padded([encoder_input(ids, self._variant) for ids in targets]),
            decoder_input=padded([np.concatenate((end, ids)) for ids in targets]),
            labels=labels,
            places=np.flatnonzero(labels != PAD_ID),
            language=self._corpus.pivots.index(direction.target),
        )
