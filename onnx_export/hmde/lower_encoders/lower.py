"""The lower encoder during training: its interface, and a frozen encoder whose vectors are computed once."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from encoders.document import Document, Int8Array, IntArray, int8_rows
from encoders.hmde.upper import Segmentation
from encoders.methods.hmde_method import cut
from encoders.methods.sentence import Cut, SentenceEncoder, Texts, title_spans
from encoders.text.tokens import Span, Tokenizer, Tokens
from onnx_export.training.device import to_device

Part = Mapping[str, npt.NDArray[Any]]
"""Arrays of prepared documents by name, stored in a file of ``numpy.savez``.

``left_out`` is the number of segments of each document that are not kept.
"""


class Lower(ABC):
    """Encodes the segments of documents, and their titles as queries, on torch's ``device``."""

    def __init__(
        self, tokenizer: Tokenizer, segments: int, tokens: int, device: str, segmentation: Segmentation = "sentences"
    ) -> None:
        """Take the maximum segments of a document and the maximum tokens of a segment, special tokens included."""
        self.tokenizer, self.device = tokenizer, device
        self.encoded_tokens = 0  # tokens that were encoded to train, each counted once; 0 if the encoder is frozen
        self._segmentation: Segmentation = segmentation
        self._most_segments, self._limit = segments, tokens - tokenizer.document_overhead
        self._counts = self._openings = np.zeros(0, dtype=np.int64)
        self._boundaries = np.zeros(1, dtype=np.int64)
        self._given: list[tuple[torch.Tensor, Callable[[torch.Tensor], None]]] = []

    @abstractmethod
    def prepare(self, documents: Sequence[Document]) -> Part:
        """Return the arrays to keep of documents; called once for each document."""

    def take(self, parts: Sequence[Part]) -> None:
        """Load all prepared documents; they are numbered in this order."""
        self._counts = np.concatenate([part["counts"] for part in parts])
        self._openings = np.concatenate([part["openings"] for part in parts])
        self._boundaries = boundaries(self._counts)

    def lengths(self) -> IntArray:
        """Segments of each document, (documents,)."""
        return self._counts

    def openings(self) -> IntArray:
        """Number of each document's segments that belong to its title, (documents,)."""
        return self._openings

    def documents(
        self, rows: Sequence[int], chosen: Sequence[IntArray] | None = None, *, training: int | None = None
    ) -> list[torch.Tensor]:
        """Vectors of each document's segments, (segments, dim) float32; ``chosen`` numbers those to encode, else all.

        With ``training``, the step's seed, the vectors get gradients, which ``learn`` takes.
        """
        if chosen is None:
            chosen = [np.arange(count) for count in self._counts[list(rows)].tolist()]
        positions = [self._boundaries[row] + numbers for row, numbers in zip(rows, chosen, strict=True)]
        vectors = self._encoded(np.concatenate(positions), training)
        return list(torch.split(vectors, [len(numbers) for numbers in chosen]))

    @abstractmethod
    def _encoded(self, positions: IntArray, training: int | None) -> torch.Tensor:
        """Vectors of segments by their positions among all documents' segments, (positions, dim) float32."""

    @abstractmethod
    def queries(self, rows: Sequence[int], *, training: int | None = None) -> torch.Tensor:
        """Vectors of the documents' titles as queries, (documents, dim) float32 unit rows."""

    def learn(self) -> None:
        """Pass the gradients of the vectors that were returned in this step on to the weights."""
        pending, self._given = self._given, []
        for vectors, propagate in pending:
            if vectors.grad is not None:
                propagate(vectors.grad)

    def parameters(self) -> list[torch.nn.Parameter]:
        """The weights that learn; none if the encoder is frozen."""
        return list(self._learning().values())

    def state(self) -> dict[str, torch.Tensor]:
        """The weights that learn, by name."""
        return {name: weight.detach() for name, weight in self._learning().items()}

    def restore(self, state: Mapping[str, torch.Tensor]) -> None:
        """Set the weights to what ``state`` returned."""
        with torch.no_grad():
            for name, weight in self._learning().items():
                weight.copy_(state[name])

    def _learning(self) -> dict[str, torch.nn.Parameter]:
        return {}

    def _cut(self, documents: Sequence[Document]) -> tuple[list[Tokens], Cut, IntArray]:
        """Documents' tokens, the segments that are kept, and each document's number of others."""
        tokens = self.tokenizer.tokenize([document.content for document in documents])
        titles = title_spans(documents, tokens, self._limit)
        segments, headings = cut(self._segmentation, Texts(documents, tokens, titles), self._limit)
        left_out = np.array([len(spans) - self._most_segments for spans in segments], np.int64).clip(min=0)
        return tokens, Cut([spans[: self._most_segments] for spans in segments], headings), left_out


class FrozenLower(Lower):
    """A published encoder whose vectors are computed once and kept as int8, as in an index."""

    def __init__(
        self,
        encoder: SentenceEncoder,
        segments: int,
        tokens: int,
        device: str,
        segmentation: Segmentation = "sentences",
    ) -> None:
        """Take a loaded encoder, the maximum segments of a document and the maximum tokens of a segment."""
        limit = min(tokens, encoder.folder.config.max_tokens)
        super().__init__(encoder.tokenizer, segments, limit, device, segmentation)
        self._encoder = encoder
        self._vectors = np.zeros((0, encoder.session.dim), dtype=np.int8)
        self._queries = np.zeros((0, encoder.session.dim), dtype=np.int8)

    def prepare(self, documents: Sequence[Document]) -> Part:
        """Encode the first segments and the titles."""
        tokens, cut_at, left_out = self._cut(documents)
        encoded = self._encoder.encode_spans(tokens, cut_at)
        titles = [Document(document.doc_id, document.lang, title_of(document)) for document in documents]
        return {
            "counts": np.array([len(passages.vectors) for passages in encoded.passages], dtype=np.int64),
            "left_out": left_out,
            "openings": title_segments(documents, tokens, cut_at.segments),
            "vectors": np.concatenate([passages.vectors for passages in encoded.passages]),
            "queries": int8_rows(self._encoder.encode_queries(titles)),
        }

    def take(self, parts: Sequence[Part]) -> None:
        """Keep the vectors of all documents in memory: 384 bytes per segment at 384 dimensions."""
        super().take(parts)
        self._vectors = np.concatenate([part["vectors"] for part in parts])
        self._queries = np.concatenate([part["queries"] for part in parts])

    def _encoded(self, positions: IntArray, training: int | None) -> torch.Tensor:  # noqa: ARG002
        """Unit vectors without gradients."""
        return self._unit(self._vectors[positions])

    def queries(self, rows: Sequence[int], *, training: int | None = None) -> torch.Tensor:  # noqa: ARG002
        """Unit vectors without gradients."""
        return self._unit(self._queries[list(rows)])

    def _unit(self, rows: Int8Array) -> torch.Tensor:
        return torch.nn.functional.normalize(to_device(torch.from_numpy(rows), self.device).to(torch.float32), dim=1)


def boundaries(counts: IntArray) -> IntArray:
    """Start of each of consecutive groups of ``counts`` rows, and the end of the last, (groups + 1,)."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])


def title_segments(
    documents: Sequence[Document], tokens: Sequence[Tokens], segments: Sequence[Sequence[Span]]
) -> IntArray:
    """Number of each document's segments that end within its title; 0 if all of its segments do, (documents,)."""
    in_title = [
        sum(text.characters(end - 1)[1] <= len(document.title) for _, end in spans)
        for document, text, spans in zip(documents, tokens, segments, strict=True)
    ]
    counts = [0 if count == len(spans) else count for count, spans in zip(in_title, segments, strict=True)]
    return np.array(counts, np.int64)


def title_of(document: Document) -> str:
    """The document's query in training: its title, or the beginning of its text."""
    return document.title or document.text[:200]
