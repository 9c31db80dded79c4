"""A lower encoder that learns by gradient caching."""

from collections.abc import Sequence

import numpy as np
import torch

from encoders.document import Document, Int32Array, IntArray
from encoders.errors import BadInput
from encoders.hmde.upper import Segmentation
from encoders.inference.session import padded, token_batches
from encoders.text.tokens import Tokenizer
from onnx_export.hmde.lower_encoders.lower import Lower, Part, boundaries, title_of, title_segments
from onnx_export.training.device import mixed_precision, seed_torch, set_attention, to_device


class TrainedLower(Lower):
    """An encoder whose weights learn.

    A step keeps only the vectors of a batch (gradient caching, Gao et al. 2021). The loss gives the gradient of each
    vector, and then the segments are encoded again to pass these gradients on to the weights. Dropout is drawn from the
    step's seed and the batch's number, so it is the same in both passes.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        tokenizer: Tokenizer,
        segments: int,
        tokens: int,
        *,
        budget: int,
        device: str,
        segmentation: Segmentation = "sentences",
    ) -> None:
        """Take a module of (input_ids, attention_mask) → unit rows; a document has at most ``segments``.

        ``tokens`` is the most of a segment, special tokens included; ``budget`` is padded tokens encoded at once.
        """
        super().__init__(tokenizer, segments, tokens, device, segmentation)
        self.module = module.to(device)
        if device.startswith("cuda"):
            set_attention(self.module, "fused")
        self._query_limit, self._budget = tokens - tokenizer.query_overhead, budget
        self._texts = _Ragged()
        self._titles = _Ragged()

    def prepare(self, documents: Sequence[Document]) -> Part:
        """Tokenise the first segments and the titles."""
        tokens, (segments, headings), left_out = self._cut(documents)
        segments = [spans if text.known else [] for text, spans in zip(tokens, segments, strict=True)]
        segment_ids = [
            self.tokenizer.segment(text.ids_of(span, heading))
            for text, spans, heading in zip(tokens, segments, headings or [0] * len(tokens), strict=True)
            for span in spans
        ]
        title_ids = [
            self.tokenizer.query(text.ids[: self._query_limit])
            for text in self.tokenizer.tokenize_queries([title_of(document) for document in documents])
        ]
        return {
            "counts": np.array([len(spans) for spans in segments], dtype=np.int64),
            "left_out": left_out,
            "openings": title_segments(documents, tokens, segments),
            "ids": np.concatenate(segment_ids) if segment_ids else np.zeros(0, np.int32),
            "lengths": np.array([len(ids) for ids in segment_ids], dtype=np.int64),
            "title_ids": np.concatenate(title_ids),
            "title_lengths": np.array([len(ids) for ids in title_ids], dtype=np.int64),
        }

    def take(self, parts: Sequence[Part]) -> None:
        """Keep the token ids of all documents in memory: 4 bytes per token."""
        super().take(parts)
        self._texts = _Ragged([part["ids"] for part in parts], [part["lengths"] for part in parts])
        self._titles = _Ragged([part["title_ids"] for part in parts], [part["title_lengths"] for part in parts])

    def tokens(self, row: int) -> list[Int32Array]:
        """Token ids of each segment of a document, as the module takes them."""
        return [self._texts.row(position) for position in range(self._boundaries[row], self._boundaries[row + 1])]

    def queries(self, rows: Sequence[int], *, training: int | None = None) -> torch.Tensor:
        """Vectors by the current weights."""
        return self._vectors([self._titles.row(row) for row in rows], None if training is None else training + 1)

    def _encoded(self, positions: IntArray, training: int | None) -> torch.Tensor:
        """Vectors by the current weights."""
        return self._vectors([self._texts.row(position) for position in positions.tolist()], training)

    def _learning(self) -> dict[str, torch.nn.Parameter]:
        return {name: weight for name, weight in self.module.named_parameters() if weight.requires_grad}

    def _vectors(self, texts: Sequence[Int32Array], training: int | None) -> torch.Tensor:
        batches = token_batches([len(text_ids) for text_ids in texts], self._budget)
        with torch.no_grad():
            batch_vectors = [self._encode(texts, batch, training, number) for number, batch in enumerate(batches)]
        order = np.argsort(np.concatenate([np.asarray(batch) for batch in batches]), kind="stable")
        vectors = torch.cat(batch_vectors)[to_device(torch.from_numpy(order), self.device)]
        if training is None:
            return vectors
        self.encoded_tokens += sum(map(len, texts))
        vectors.requires_grad_()

        def propagate(gradient: torch.Tensor) -> None:
            for number, batch in enumerate(batches):
                recomputed = self._encode(texts, batch, training, number)
                recomputed.backward(gradient[to_device(torch.tensor(batch), self.device)])  # type: ignore[no-untyped-call]

        self._given.append((vectors, propagate))
        return vectors

    def _encode(
        self, texts: Sequence[Int32Array], batch: Sequence[int], training: int | None, number: int
    ) -> torch.Tensor:
        self.module.train(training is not None)
        if training is not None:
            seed_torch((training << 20) + number)
        tokens, mask = padded([texts[index] for index in batch], self.tokenizer.pad)
        inputs = [to_device(torch.from_numpy(array), self.device) for array in (tokens, mask)]
        with mixed_precision(self.device):
            vectors: torch.Tensor = self.module(*inputs)
        return vectors.float()


class _Ragged:
    """Rows of token ids of different lengths in one array."""

    def __init__(self, ids: Sequence[Int32Array] = (), lengths: Sequence[IntArray] = ()) -> None:
        self._ids = np.concatenate([np.zeros(0, np.int32), *ids])
        self._boundaries = boundaries(np.concatenate([np.zeros(0, np.int64), *lengths]))

    def row(self, index: int) -> Int32Array:
        return self._ids[self._boundaries[index] : self._boundaries[index + 1]]


def add_adapters(module: torch.nn.Module, rank: int) -> None:
    """Freeze a module; low-rank matrices in its attention learn (LoRA, Hu et al. 2022). Raises BadInput: none fits."""
    for weight in module.parameters():
        weight.requires_grad_(False)
    layers = [
        layer for name, layer in module.named_modules() if isinstance(layer, torch.nn.Linear) and "attention" in name
    ]
    if not layers:
        raise BadInput(
            "the lower encoder has no linear layers in its attention to put adapters beside; train all of it"
        )
    for layer in layers:
        torch.nn.utils.parametrize.register_parametrization(layer, "weight", _LowRank(layer, rank))


def merge_adapters(module: torch.nn.Module) -> None:
    """Add the adapters' matrices to the weights that they adapt, and remove the adapters."""
    for layer in list(module.modules()):
        if torch.nn.utils.parametrize.is_parametrized(layer, "weight"):
            torch.nn.utils.parametrize.remove_parametrizations(layer, "weight", leave_parametrized=True)


class _LowRank(torch.nn.Module):
    """W → W + B A, where B is zero before training."""

    def __init__(self, layer: torch.nn.Linear, rank: int) -> None:
        super().__init__()
        self.down = torch.nn.Parameter(torch.randn(rank, layer.in_features) / layer.in_features**0.5)
        self.up = torch.nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight + self.up @ self.down
