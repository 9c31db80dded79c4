"""A document encoder that can learn: *hmde* or *segments* of a model folder, or mLongformer, its weights in torch."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import numpy as np
import torch

from encoders.console import Console
from encoders.document import Document, Int32Array
from encoders.errors import BadInput
from encoders.folder import ModelConfig, ModelFolder
from encoders.hmde.upper import ABOUT, is_hmde
from encoders.methods.hmde import Hmde
from encoders.methods.segments import Segments
from encoders.session import Device
from encoders.text.segmentation import windows
from encoders.text.tokens import Tokenizer
from onnx_export.hmde import base as bases
from onnx_export.hmde import weights
from onnx_export.hmde.base import Base
from onnx_export.hmde.lower_encoders import longformer
from onnx_export.hmde.lower_encoders.lower import Part, each
from onnx_export.hmde.lower_encoders.trained_lower import TrainedLower
from onnx_export.hmde.model import Upper
from onnx_export.hmde.settings import LONGFORMER, Settings
from onnx_export.huggingface import source as huggingface
from onnx_export.models import DEFAULT, find_model
from onnx_export.training.device import training_device
from onnx_export.training.seeds import seed_torch

METHODS = (Hmde.method, Segments.method, LONGFORMER)


def copied(weights: Sequence[torch.nn.Parameter]) -> list[torch.Tensor]:
    """Weights as they are now."""
    return [weight.detach().clone() for weight in weights]


def put_back(weights: Sequence[torch.nn.Parameter], values: Sequence[torch.Tensor]) -> None:
    """Give weights the values that ``copied`` kept of them."""
    with torch.no_grad():
        for weight, value in zip(weights, values, strict=True):
            weight.copy_(value)


@dataclass(frozen=True)
class Trainable:
    """A document encoder with its gradients.

    Attributes:
        lower: of its sentences, segments or whole texts.
        config: what a folder of the lower encoder would say.
        prepare: token ids of documents, as ``lower`` takes them.
        upper: over the sentences; without it the vector is the mean of the segments'.
    """

    lower: TrainedLower
    config: ModelConfig
    prepare: Callable[[Sequence[Document]], Part]
    upper: Upper | None = None

    @property
    def dim(self) -> int:
        """Width of the vectors."""
        return self.config.dim

    def parameters(self) -> list[torch.nn.Parameter]:
        """All that learns."""
        return [*self.lower.parameters(), *(self.upper.parameters() if self.upper else ())]

    def state(self) -> list[torch.Tensor]:
        """A copy of all that learns, in the order of ``parameters``."""
        return copied(self.parameters())

    def restore(self, state: Sequence[torch.Tensor]) -> None:
        """Take back what ``state`` gave."""
        put_back(self.parameters(), state)

    def documents(self, rows: Sequence[int], training: int | None = None) -> torch.Tensor:
        """Vectors of documents that ``lower`` has taken, (rows, dim) unit rows; zero for a text with nothing known.

        Of *hmde* the first window of a long document is read, as in its training.

        Args:
            rows: the documents.
            training: a seed of this step; ``lower.learn`` then carries on what the vectors are given.
        """
        counts = self.lower.lengths()[list(rows)]
        where = next(iter(self.parameters())).device
        if not counts.sum():
            return torch.zeros((len(rows), self.dim), device=where)
        sentences = self.lower.sentences(rows, training=training)
        stack = torch.nn.utils.rnn.pad_sequence(list(each(counts.tolist(), sentences)), batch_first=True)
        there = np.arange(stack.shape[1])[None, :] < counts[:, None]
        mask = torch.from_numpy(there.astype(np.int64)).to(where)
        if self.upper is None:
            means = stack.sum(dim=1) / mask.sum(dim=1, keepdim=True).clamp(min=1)
            return torch.nn.functional.normalize(means, dim=1)
        self.upper.train(training is not None)
        if training is not None:
            seed_torch(training)
        vectors: torch.Tensor = self.upper(stack, mask)
        return vectors


def open_trainable(
    reference: str, method: str, checkpoint: str | None, device: Device, console: Console, *, budget: int = 4_096
) -> Trainable:
    """Open an encoder by a method so that it can learn.

    Args:
        reference: the default's name, or an exported folder; of *longformer* a Hugging Face folder or name will do.
        method: *hmde*, *segments* or *longformer*.
        checkpoint: Hugging Face folder or name that the folder, or its lower encoder, was exported from; the default
            encoder's weights are at hand without.
        device: where to train.
        console: where progress goes.
        budget: padded tokens encoded at once; *longformer* takes a text at a time on a CPU.

    Raises:
        BadInput: the method can't learn, no checkpoint was named, or it is another one's.
        MissingPart: torch, or the device asked for, is not there.
    """
    if method not in METHODS:
        raise BadInput(f"a document encoder by method {method} can't be trained; give --method {' or '.join(METHODS)}")
    if method == LONGFORMER:
        return _whole(bases.trained(checkpoint or reference, Settings(), device, console), budget, device)
    folder = find_model(reference, console)
    upper, learnt = weights.load(folder) if is_hmde(folder) else (None, {})
    upper = upper if method == Hmde.method else None
    settings = Settings(budget=budget)
    if upper is not None:
        settings = Settings(budget=budget, sentences=upper.shape.sentences, tokens=upper.shape.tokens)
    source = checkpoint or _checkpoint(folder, reference)
    base = bases.trained(source, settings, device, console)
    _take(base, learnt, folder, source)
    lower = cast("TrainedLower", base.lower)
    if upper is not None:
        return Trainable(lower, folder.config, lower.prepare, upper.to(training_device(device)))
    limit = min(settings.tokens, base.config.max_tokens) - lower.tokenizer.document_overhead
    return Trainable(lower, folder.config, partial(_cut, lower.tokenizer, partial(_windows, limit)))


def _whole(base: Base, budget: int, device: Device) -> Trainable:
    """A base encoder made a Longformer."""
    own = cast("TrainedLower", base.lower)
    if base.source is None or not hasattr(base.source.module, "encoder"):
        raise BadInput(f"{base.config.name} has no weights that learn; name a Hugging Face folder")
    module = longformer.WholeText(longformer.converted(base.source.module.encoder))
    where = training_device(device)
    if where.type == "cpu":
        budget = 0  # a text at a time: each is filled up to whole windows, and two of them leave the cache
    lower = TrainedLower(
        module, own.tokenizer, 1, module.longest, budget=budget, device=str(where), autocast=where.type == "cuda"
    )
    limit = module.longest - own.tokenizer.document_overhead
    config = replace(base.config, max_tokens=module.longest, pooling="mean")
    return Trainable(lower, config, partial(_cut, own.tokenizer, lambda length: [(0, min(length, limit))]))


def _checkpoint(folder: ModelFolder, reference: str) -> str:
    stated = json.loads((folder.path / ABOUT).read_text(encoding="utf-8")).get("lower") if is_hmde(folder) else ""
    if DEFAULT in (reference, stated):
        return DEFAULT
    raise BadInput(
        f"the graph in {folder.path} can't learn; name the Hugging Face folder that it was exported from, or its lower "
        "encoder: --checkpoint FOLDER"
    )


def _take(base: Base, learnt: dict[str, torch.Tensor], folder: ModelFolder, checkpoint: str) -> None:
    """See that a checkpoint is the folder's, its lower encoder's learnt weights put in if it has any."""
    if base.source is None or base.recipe is None:
        raise BadInput(f"{checkpoint} has no weights that learn; name a Hugging Face folder with --checkpoint")
    found = base.config.weights
    if learnt:
        module = base.source.module
        where = next(module.parameters()).device
        try:
            module.load_state_dict(learnt)
        except RuntimeError as error:
            raise BadInput(
                f"{checkpoint} is of another shape than the lower encoder of {folder.path}; name the one that it was "
                "trained from: --checkpoint FOLDER"
            ) from error
        found = huggingface.hash_weights(module.cpu(), base.recipe)
        module.to(where)
    if (found, base.config.pooling) != (folder.config.weights, folder.config.pooling):
        raise BadInput(f"{checkpoint} is not what {folder.path} was exported from; name that one: --checkpoint FOLDER")


def _windows(limit: int, tokens: int) -> list[tuple[int, int]]:
    """As method *segments* cuts a text."""
    return windows(tokens, limit, limit // 3)


def _cut(
    tokenizer: Tokenizer, spans: Callable[[int], Sequence[tuple[int, int]]], documents: Sequence[Document]
) -> Part:
    """Token ids of the parts of documents, by spans of their tokens; none of a text with nothing known."""
    tokens = tokenizer.tokenize([document.content for document in documents])
    return part_of(
        [
            [tokenizer.segment(text.ids[start:end]) for start, end in spans(len(text))] if text.known else []
            for text in tokens
        ]
    )


def part_of(documents: Sequence[Sequence[Int32Array]]) -> Part:
    """What ``TrainedLower.take`` takes, of token ids: several of each document, no titles apart."""
    ids = [one for some in documents for one in some]
    none = np.zeros(len(documents), dtype=np.int64)
    return {
        "counts": np.array([len(some) for some in documents], dtype=np.int64),
        "openings": none,
        "ids": np.concatenate([np.zeros(0, np.int32), *ids]),
        "lengths": np.array([len(one) for one in ids], dtype=np.int64),
        "title_ids": np.zeros(0, np.int32),
        "title_lengths": none,
    }
