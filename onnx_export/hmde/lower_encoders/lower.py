"""The lower encoder in training: what it has to give, and one that is frozen, its vectors made once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from encoders.document import Document, int8_rows
from encoders.methods.sentence import SentenceEncoder
from encoders.methods.sentences import sentence_spans
from encoders.text.tokens import Tokens

Part = Mapping[str, npt.NDArray[Any]]
"""What is kept of some documents: a few arrays, one after another in a file of ``numpy.savez``.

``left_out`` is how many sentences of each document are not kept.
"""


class Lower(Protocol):
    """Sentences of documents, and their titles as queries, to vectors."""

    def prepare(self, documents: Sequence[Document]) -> Part:
        """What has to be kept of some documents; called once for each."""
        ...

    def take(self, parts: Sequence[Part]) -> None:
        """All that was prepared: documents are then numbered in this order."""
        ...

    def lengths(self) -> npt.NDArray[np.int64]:
        """Sentences of each document, (documents,)."""
        ...

    def openings(self) -> npt.NDArray[np.int64]:
        """How many of each document's sentences are its title, (documents,)."""
        ...

    def sentences(self, rows: Sequence[int], *, training: int | None = None) -> torch.Tensor:
        """All sentences of some documents, one after another, (sentences, dim) float32.

        Args:
            rows: the documents.
            training: a seed of this step; the vectors then get gradients, which ``learn`` takes.
        """
        ...

    def queries(self, rows: Sequence[int], *, training: int | None = None) -> torch.Tensor:
        """The titles of some documents as queries, (documents, dim) float32 unit rows."""
        ...

    def learn(self) -> None:
        """Carry the gradients of the vectors given out in this step on to the weights."""
        ...

    def parameters(self) -> list[torch.nn.Parameter]:
        """What is trained; nothing where it is frozen."""
        ...

    def state(self) -> dict[str, torch.Tensor]:
        """What was trained, as it is."""
        ...

    def restore(self, state: Mapping[str, torch.Tensor]) -> None:
        """Take back what ``state`` gave."""
        ...


class FrozenLower:
    """A published encoder whose vectors are made once and kept as int8, as an index keeps them."""

    def __init__(self, encoder: SentenceEncoder, sentences: int, tokens: int, device: str) -> None:
        """Take a loaded encoder, the sentences a document keeps and the tokens a sentence may have."""
        self._encoder = encoder
        self._most = sentences
        self._limit = min(tokens, encoder.folder.config.max_tokens) - encoder.tokenizer.document_overhead
        self._device = device
        self._vectors = np.zeros((0, encoder.session.dim), dtype=np.int8)
        self._queries = np.zeros((0, encoder.session.dim), dtype=np.int8)
        self._counts = self._openings = np.zeros(0, dtype=np.int64)
        self._ends = np.zeros(1, dtype=np.int64)

    def prepare(self, documents: Sequence[Document]) -> Part:
        """Vectors of the first sentences and of the titles."""
        tokens = self._encoder.tokenizer.tokenize([document.content for document in documents])
        every = sentence_spans(documents, tokens, self._limit)
        spans = [cuts[: self._most] for cuts in every]
        encoded = self._encoder.encode_spans(tokens, spans)
        counts = np.array([len(passages.vectors) for passages in encoded.passages], dtype=np.int64)
        titles = [Document(one.doc_id, one.lang, title_of(one)) for one in documents]
        return {
            "counts": counts,
            "left_out": np.array([len(cuts) - self._most for cuts in every], np.int64).clip(min=0),
            "openings": title_sentences(documents, tokens, spans),
            "vectors": np.concatenate([passages.vectors for passages in encoded.passages]),
            "queries": int8_rows(self._encoder.encode_queries(titles)),
        }

    def take(self, parts: Sequence[Part]) -> None:
        """Keep the vectors of all documents in memory: 384 bytes a sentence at 384 dimensions."""
        self._counts = np.concatenate([part["counts"] for part in parts])
        self._openings = np.concatenate([part["openings"] for part in parts])
        self._ends = ends(self._counts)
        self._vectors = np.concatenate([part["vectors"] for part in parts])
        self._queries = np.concatenate([part["queries"] for part in parts])

    def lengths(self) -> npt.NDArray[np.int64]:
        """Sentences of each document, (documents,)."""
        return self._counts

    def openings(self) -> npt.NDArray[np.int64]:
        """How many of each document's sentences are its title, (documents,)."""
        return self._openings

    def sentences(self, rows: Sequence[int], *, training: int | None = None) -> torch.Tensor:  # noqa: ARG002
        """Unit vectors; nothing flows back."""
        return self._unit(np.concatenate([self._vectors[self._ends[row] : self._ends[row + 1]] for row in rows]))

    def queries(self, rows: Sequence[int], *, training: int | None = None) -> torch.Tensor:  # noqa: ARG002
        """Unit vectors; nothing flows back."""
        return self._unit(self._queries[list(rows)])

    def learn(self) -> None:
        """Nothing to learn."""

    def parameters(self) -> list[torch.nn.Parameter]:
        """Nothing is trained."""
        return []

    def state(self) -> dict[str, torch.Tensor]:
        """Nothing was trained."""
        return {}

    def restore(self, state: Mapping[str, torch.Tensor]) -> None:
        """Nothing to take back."""

    def _unit(self, rows: npt.NDArray[np.int8]) -> torch.Tensor:
        return torch.nn.functional.normalize(torch.from_numpy(rows).to(self._device, torch.float32), dim=1)


def ends(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Where each of so many things one after another begins, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])


def title_sentences(
    documents: Sequence[Document], tokens: Sequence[Tokens], spans: Sequence[Sequence[tuple[int, int]]]
) -> npt.NDArray[np.int64]:
    """Sentences of each document that end with its title or before; none where nothing else is left."""
    counts = [
        sum(text.offsets[end - 1, 1] <= len(document.title) for _, end in cuts)
        for document, text, cuts in zip(documents, tokens, spans, strict=True)
    ]
    return np.array([0 if count == len(cuts) else count for count, cuts in zip(counts, spans, strict=True)], np.int64)


def title_of(document: Document) -> str:
    """What is asked for a document in training: its title, or the beginning of its text."""
    return document.title or document.text[:200]


def each(counts: Sequence[int], flat: torch.Tensor) -> Iterator[torch.Tensor]:
    """The rows of each document of those that stand one after another."""
    for start, end in pairwise(ends(np.asarray(counts, dtype=np.int64)).tolist()):
        yield flat[start:end]
