"""Open a document encoder for training in torch: *hmde*, *segments* or *first* of a model folder, or mLongformer."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from encoders.console import Console
from encoders.document import Document, Encoded, FloatArray, Int32Array, Passages, int8_rows, short_hash
from encoders.errors import BadInput
from encoders.folder.model_config import ModelConfig
from encoders.folder.model_folder import ModelFolder
from encoders.hmde.upper import ABOUT, WEIGHTS, UpperFile, is_hmde
from encoders.machine.placement import Device
from encoders.methods.hmde_method import Hmde
from encoders.methods.token_windows import First, Segments
from encoders.phrases import first_line
from encoders.text.segmentation import windows
from encoders.text.tokens import Tokenizer
from onnx_export.hmde import lower_base as bases
from onnx_export.hmde.hmde_settings import Settings
from onnx_export.hmde.lower_base import TrainedBase
from onnx_export.hmde.lower_encoders.lower import Part
from onnx_export.hmde.lower_encoders.trained_lower import TrainedLower
from onnx_export.hmde.upper_model import Upper
from onnx_export.hmde.weights import digest, weights_of
from onnx_export.huggingface import hub_source as huggingface
from onnx_export.models import DEFAULT, find_model
from onnx_export.training.device import mixed_precision, seed_torch, to_device
from papers import longformer
from papers.hmde_methods import LONGFORMER

METHODS = (Hmde.method, Segments.method, First.method, LONGFORMER)
_ALL_SEGMENTS = 1 << 31
_BUDGET = 4_096
"""Padded tokens encoded at once."""


def copy_weights(weights: Sequence[torch.nn.Parameter]) -> list[torch.Tensor]:
    """Copies of the weights' current values."""
    return [weight.detach().clone() for weight in weights]


def restore_weights(weights: Sequence[torch.nn.Parameter], values: Sequence[torch.Tensor]) -> None:
    """Set weights to the values that ``copy_weights`` returned."""
    with torch.no_grad():
        for weight, value in zip(weights, values, strict=True):
            weight.copy_(value)


@dataclass(frozen=True)
class Trainable:
    """A document encoder that can be trained."""

    lower: TrainedLower  # the encoder of sentences, segments or whole texts
    config: ModelConfig  # the configuration that a folder of the lower encoder would have
    prepare: Callable[[Sequence[Document]], Part]  # tokenises documents into the arrays that ``lower.take`` expects
    # the transformer over the sentences; if None, a document's vector is the mean of its segments' vectors
    upper: Upper | None = None

    def parameters(self) -> list[torch.nn.Parameter]:
        """The weights that learn."""
        return [*self.lower.parameters(), *(self.upper.parameters() if self.upper else ())]

    def documents(self, rows: Sequence[int], training: int | None = None) -> torch.Tensor:
        """Vectors of documents that ``lower`` has taken, (rows, dim) unit rows; zero for a text without known words.

        With *hmde* a long document is read in the same parts as in an index. ``training`` is the step's seed; if it is
        given, ``lower.learn`` afterwards passes the gradients of the vectors on to the weights.
        """
        counts = self.lower.lengths()[list(rows)]
        device = self.parameters()[0].device
        if not counts.sum():
            return torch.zeros((len(rows), self.config.dim), device=device)
        documents = self.lower.documents(rows, training=training)
        if self.upper is None:
            means = torch.stack([document.sum(dim=0) / max(len(document), 1) for document in documents])
            return torch.nn.functional.normalize(means, dim=1)
        self.upper.train(training is not None)
        if training is not None:
            seed_torch(training)
        return _upper_vectors(self.upper, documents)


def _upper_vectors(upper: Upper, documents: Sequence[torch.Tensor]) -> torch.Tensor:
    """Vectors of documents from their segments' vectors, weighted over parts as in ``UpperSession.documents``."""
    size = upper.shape.sentences
    starts = [(row, start) for row, document in enumerate(documents) for start in range(0, len(document), size)]
    parts = [documents[row][start : start + size] for row, start in starts]
    stack = torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)
    lengths, positions, owners = (
        to_device(torch.tensor(numbers), stack.device)
        for numbers in (
            [len(part) for part in parts],
            [1 + start // size for _, start in starts],
            [row for row, _ in starts],
        )
    )
    mask = (torch.arange(stack.shape[1], device=stack.device)[None, :] < lengths[:, None]).long()
    with mixed_precision(stack.device):
        vectors = upper(stack, mask)
    weighted = vectors * (lengths / positions**2)[:, None]
    sums = weighted.new_zeros((len(documents), weighted.shape[1])).index_add(0, owners, weighted)
    return torch.nn.functional.normalize(sums, dim=1)


def open_trainable(reference: str, method: str, checkpoint: str | None, device: Device, console: Console) -> Trainable:
    """Open an encoder for training by one of ``METHODS``.

    ``reference`` is the default's name or an exported folder, for *longformer* also a Hugging Face folder or name.
    ``checkpoint`` is the Hugging Face folder or name that the folder, or its lower encoder, was exported from; the
    default encoder needs none.
    """
    if method not in METHODS:
        raise BadInput(f"a document encoder by method {method} can't be trained; give --method {' or '.join(METHODS)}")
    if method == LONGFORMER:
        return _open_longformer(bases.open_trained(checkpoint or reference, Settings(), device, console))
    folder = find_model(reference, console)
    upper, lower_weights = _load_weights(folder) if is_hmde(folder) else (None, {})
    settings = Settings(budget=_BUDGET, pooling=folder.config.pooling)
    if upper is not None and method == Hmde.method:
        shape = upper.shape
        sentences = _ALL_SEGMENTS if shape.whole else shape.sentences
        settings = replace(settings, sentences=sentences, tokens=shape.tokens, segmentation=shape.segmentation)
    stated = json.loads((folder.path / ABOUT).read_text(encoding="utf-8")).get("lower") if is_hmde(folder) else ""
    source = checkpoint or (DEFAULT if DEFAULT in (reference, stated) else "")
    if not source:
        raise BadInput(
            f"the graph in {folder.path} can't learn; name the Hugging Face folder that it was exported from, or its "
            "lower encoder: --checkpoint FOLDER"
        )
    base = bases.open_trained(source, settings, device, console)
    _restore_lower(base, lower_weights, folder, source)
    lower = base.lower
    if upper is not None and method == Hmde.method:
        return Trainable(lower, folder.config, lower.prepare, upper.to(lower.device))
    if method == First.method:
        return Trainable(lower, folder.config, _first_tokens(lower.tokenizer, base.config.max_tokens))
    limit = min(settings.tokens, base.config.max_tokens) - lower.tokenizer.document_overhead
    spans = partial(windows, size=limit, overlap=limit // 3)
    return Trainable(lower, folder.config, partial(_tokenise_spans, lower.tokenizer, spans))


def _load_weights(folder: ModelFolder) -> tuple[Upper, dict[str, torch.Tensor]]:
    """Load the upper encoder of a folder, and the lower encoder's weights by name; none if it was frozen."""
    from safetensors.torch import load as unpacked  # noqa: PLC0415

    about = UpperFile.read(folder)
    file = folder.path / WEIGHTS
    remedy = "train it again: dragoman train hmde SOURCE… -o FOLDER"
    if not file.is_file():
        raise BadInput(f"{folder.path} has no {WEIGHTS}, so it was made by an earlier version; {remedy}")
    upper = Upper(about.shape)
    try:
        tensors = unpacked(file.read_bytes())
        upper.load_state_dict(weights_of(tensors, "upper"))
    except Exception as error:  # safetensors and torch raise their own exception classes
        raise BadInput(f"{file} can't be read ({first_line(error)}); {remedy}") from error
    if digest(upper) != about.weights:
        raise BadInput(f"{file} is damaged or of another training; {remedy}")
    return upper.eval(), weights_of(tensors, "lower")


def _first_tokens(tokenizer: Tokenizer, max_tokens: int) -> Callable[[Sequence[Document]], Part]:
    """Tokenises the beginnings of documents, as many tokens as an encoder takes."""
    limit = max_tokens - tokenizer.document_overhead
    return partial(_tokenise_spans, tokenizer, lambda length: [(0, min(length, limit))])


def _open_longformer(base: TrainedBase) -> Trainable:
    """Convert a base encoder to a Longformer that can be trained."""
    tokenizer, device = base.lower.tokenizer, base.lower.device
    module = longformer.WholeText(longformer.converted(base.source.module.encoder))
    # on a CPU one text at a time: texts are padded to whole windows, and two of them exceed the CPU's cache
    budget = 0 if device == "cpu" else _BUDGET
    lower = TrainedLower(module, tokenizer, 1, module.longest, budget=budget, device=device)
    config = replace(base.config, max_tokens=module.longest, pooling="mean")
    return Trainable(lower, config, _first_tokens(tokenizer, module.longest))


def _restore_lower(
    base: TrainedBase, lower_weights: dict[str, torch.Tensor], folder: ModelFolder, checkpoint: str
) -> None:
    """Load the folder's trained lower weights, if any, and check that the folder was made from the checkpoint."""
    weights_hash = base.config.weights
    if lower_weights:
        module = base.source.module
        device = next(module.parameters()).device
        try:
            module.load_state_dict(lower_weights)
        except RuntimeError as error:
            raise BadInput(
                f"{checkpoint} is of another shape than the lower encoder of {folder.path}; name the one that it was "
                "trained from: --checkpoint FOLDER"
            ) from error
        weights_hash = huggingface.hash_weights(module.cpu(), base.source.recipe)
        module.to(device)
    if (weights_hash, base.config.pooling) != (folder.config.weights, folder.config.pooling):
        raise BadInput(f"{checkpoint} is not what {folder.path} was exported from; name that one: --checkpoint FOLDER")


def _tokenise_spans(
    tokenizer: Tokenizer, spans: Callable[[int], Sequence[tuple[int, int]]], documents: Sequence[Document]
) -> Part:
    """Token ids of the spans that ``spans`` gives for a text's length; a text without known words has no spans."""
    tokens = tokenizer.tokenize([document.content for document in documents])
    known_spans = [(text, spans(len(text)) if text.known else []) for text in tokens]
    return part_of([[tokenizer.segment(text.ids[start:end]) for start, end in parts] for text, parts in known_spans])


def part_of(documents: Sequence[Sequence[Int32Array]]) -> Part:
    """Arrays for ``TrainedLower.take`` from the token ids of each document's sentences; titles are empty."""
    sentences = [sentence for document in documents for sentence in document]
    zeros = np.zeros(len(documents), dtype=np.int64)
    return {
        "counts": np.array([len(document) for document in documents], dtype=np.int64),
        "openings": zeros,
        "ids": np.concatenate([np.zeros(0, np.int32), *sentences]),
        "lengths": np.array([len(sentence) for sentence in sentences], dtype=np.int64),
        "title_ids": np.zeros(0, np.int32),
        "title_lengths": zeros,
    }


class TorchEncoder:
    """Encodes by the current weights of a trainable encoder; the only passage of a document is its whole text."""

    def __init__(self, encoder: Trainable, method: str) -> None:
        """Take the encoder and the name of its method."""
        self.trainable = encoder  # can learn; encoding here replaces the documents that it has taken
        config = encoder.config
        spec = config.spec(method, tokens=config.max_tokens)
        self.spec = replace(spec, build=short_hash(config.weights, "torch"))

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        """Documents → (documents, dim) unit rows; a text without known words has a zero row."""
        part = self.trainable.prepare(documents)
        self.trainable.lower.take([part])
        vectors = self._vectors(len(documents))
        known = part["counts"] > 0
        passages = [
            Passages(
                int8_rows(vectors[[row]] if is_known else vectors[:0]),
                np.array([[0, len(document.content)]] if is_known else [], dtype=np.int32).reshape(-1, 2),
            )
            for row, (document, is_known) in enumerate(zip(documents, known.tolist(), strict=True))
        ]
        return Encoded(vectors, passages, known.reshape(-1, 1))

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        """Queries, with the model's query prefix → (queries, dim) unit rows."""
        tokenizer: Tokenizer = self.trainable.lower.tokenizer
        limit = self.trainable.config.max_tokens - tokenizer.query_overhead
        texts = tokenizer.tokenize([query.content for query in queries])
        self.trainable.lower.take([part_of([[tokenizer.query(text.ids[:limit])] for text in texts])])
        return self._vectors(len(queries))

    def _vectors(self, count: int) -> FloatArray:
        with torch.no_grad():
            vectors: FloatArray = self.trainable.documents(range(count)).cpu().numpy()
        return vectors
