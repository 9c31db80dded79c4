"""Open a document encoder for training in torch: *hmde*, *segments* or *first* of a model folder, or mLongformer.

mLongformer, a baseline of the HMDE paper, reads a whole document by sliding-window attention. Its weights are copied
from a BERT or an XLM-R by their names (Beltagy et al. 2020, §5). The paper's next step, masked language modelling with
the converted model, is not done here.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import transformers

from encoders.console import Console
from encoders.document import Document, Encoded, FloatArray, IntArray, Passages, int8_rows, short_hash
from encoders.errors import BadInput
from encoders.folder.model_config import ModelConfig, read_json
from encoders.folder.model_folder import ModelFolder
from encoders.hmde.upper import ABOUT, is_hmde
from encoders.machine.placement import Device
from encoders.methods.hmde_method import Hmde
from encoders.methods.sentence import Cut
from encoders.methods.token_windows import First, Segments
from encoders.text.segmentation import windows
from encoders.text.tokens import Tokens
from onnx_export.hmde import lower_base as bases
from onnx_export.hmde.hmde_settings import Settings
from onnx_export.hmde.lower_base import TrainedBase
from onnx_export.hmde.lower_encoders.trained_lower import TrainedLower
from onnx_export.hmde.upper_model import Upper
from onnx_export.hmde.weights import load_upper
from onnx_export.huggingface import hub_source as huggingface
from onnx_export.models import DEFAULT, find_model
from onnx_export.training.device import mixed_precision, seed_torch, to_device
from papers.hmde_clef import LONGFORMER

METHODS = (Hmde.method, Segments.method, First.method, LONGFORMER)
WINDOW = 512
TILES = 8
"""Consecutive copies of the position table: a model that reads 512 tokens becomes one that reads 4,096."""
_COPIED = ["hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act", "vocab_size"]
_COPIED += ["type_vocab_size", "layer_norm_eps", "hidden_dropout_prob", "attention_probs_dropout_prob"]
logging.getLogger(transformers.LongformerModel.__module__).setLevel(logging.ERROR)  # each text is padded to windows
_ALL = 1 << 31
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
    numbers = [(len(part), 1 + start // size, row) for part, (row, start) in zip(parts, starts, strict=True)]
    lengths, positions, owners = to_device(torch.tensor(numbers).T.contiguous(), stack.device)
    mask = (torch.arange(stack.shape[1], device=stack.device)[None, :] < lengths[:, None]).long()
    with mixed_precision(stack.device):
        vectors = upper(stack, mask)
    weighted = vectors * (lengths / positions**2)[:, None]
    sums = weighted.new_zeros((len(documents), weighted.shape[1])).index_add(0, owners, weighted)
    return torch.nn.functional.normalize(sums, dim=1)


def open_trainable(reference: str, method: str, checkpoint: str | None, device: Device, console: Console) -> Trainable:
    """Open an encoder for training by one of ``METHODS``.

    ``reference`` is the default's name or an exported folder, for *longformer* also of Hugging Face. ``checkpoint`` is
    what the folder, or its lower encoder, was exported from; the default encoder needs none.
    """
    if method not in METHODS:
        raise BadInput(f"a document encoder by method {method} can't be trained; give --method {' or '.join(METHODS)}")
    if method == LONGFORMER:
        return _open_longformer(bases.open_trained(checkpoint or reference, Settings(), device, console))
    folder = find_model(reference, console)
    upper, lower_weights = load_upper(folder) if is_hmde(folder) else (None, {})
    settings = Settings(budget=_BUDGET, pooling=folder.config.pooling)
    if upper is not None and method == Hmde.method:
        shape = upper.shape
        sentences = _ALL if shape.whole else shape.sentences
        settings = replace(settings, sentences=sentences, tokens=shape.tokens, segmentation=shape.segmentation)
    elif method == First.method:
        settings = replace(settings, sentences=1, tokens=_ALL, segmentation="plain-windows")
    stated = read_json(folder.path / ABOUT).get("lower") if is_hmde(folder) else ""
    source = checkpoint or (DEFAULT if DEFAULT in (reference, stated) else "")
    if not source:
        raise BadInput(
            f"the graph in {folder.path} can't learn; name the Hugging Face folder that it was exported from, or its "
            "lower encoder: --checkpoint FOLDER"
        )
    base = bases.open_trained(source, settings, device, console)
    _restore_lower(base, lower_weights, folder, source)
    lower = base.lower
    if method == Segments.method:
        limit = min(settings.tokens, base.config.max_tokens)
        lower = _Segments(lower.module, lower.tokenizer, _ALL, limit, budget=_BUDGET, device=lower.device)
    return Trainable(lower, folder.config, upper.to(lower.device) if upper and method == Hmde.method else None)


class _Segments(TrainedLower):
    """A lower encoder over windows that share a third, as those of method *segments*."""

    def _cut(self, documents: Sequence[Document]) -> tuple[list[Tokens], Cut, IntArray]:
        tokens = self.tokenizer.tokenize([document.content for document in documents])
        spans = [windows(len(text), self._limit, self._limit // 3) for text in tokens]
        return tokens, Cut(spans), np.zeros(len(documents), np.int64)


def _open_longformer(base: TrainedBase) -> Trainable:
    """Convert a base encoder to a Longformer that can be trained."""
    tokenizer, device = base.lower.tokenizer, base.lower.device
    module = WholeText(converted(base.source.module.encoder))
    # on a CPU one text at a time: texts are padded to whole windows, and two of them exceed the CPU's cache
    budget = 0 if device == "cpu" else _BUDGET
    lower = TrainedLower(
        module, tokenizer, 1, module.longest, budget=budget, device=device, segmentation="plain-windows"
    )
    return Trainable(lower, replace(base.config, max_tokens=module.longest, pooling="mean"))


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


def converted(encoder: Any, tiles: int = TILES) -> Any:
    """Return a ``LongformerModel`` with the weights of a BERT or XLM-R, its position table copied ``tiles`` times.

    A text of up to half a window has the same hidden states as in the encoder. The projections of the first token,
    whose attention is global, start as copies of the projections of all tokens.
    """
    encoder_weights, config = encoder.state_dict(), encoder.config
    table = getattr(getattr(encoder, "embeddings", None), "position_embeddings", None)
    if table is None or not all(hasattr(config, name) for name in _COPIED):
        raise BadInput(f"a model of type {config.model_type} can't be made a Longformer; take a BERT or an XLM-R")
    positions = table.weight[0 if table.padding_idx is None else table.padding_idx + 1 :]
    pad = config.pad_token_id or 0
    model = transformers.LongformerModel(
        transformers.LongformerConfig(
            **{name: getattr(config, name) for name in _COPIED},
            attention_window=min(WINDOW, len(positions) // 2 * 2),
            max_position_embeddings=pad + 1 + tiles * len(positions),
            pad_token_id=pad,
        ),
        add_pooling_layer=False,
    )
    weights = {name: encoder_weights.get(name.replace("_global.", "."), torch.empty(0)) for name in model.state_dict()}
    # Longformer's positions start after the padding's index, wherever the encoder's positions start.
    unused = torch.zeros((pad + 1, positions.shape[1]))
    weights["embeddings.position_embeddings.weight"] = torch.cat((unused, positions.repeat(tiles, 1)))
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise BadInput(
            f"a model of type {config.model_type} has other weights than a Longformer; take a BERT or an XLM-R"
        ) from error
    return model.eval()


class WholeText(torch.nn.Module):
    """A Longformer with mean pooling: (input_ids, attention_mask) → unit rows."""

    def __init__(self, longformer: Any) -> None:
        """Take the model; the attention of the first token is global."""
        super().__init__()
        self.longformer = longformer
        config = longformer.config
        self.longest: int = config.max_position_embeddings - config.pad_token_id - 1  # maximum tokens of a text

    def states(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Hidden states, (texts, tokens, dim)."""
        first = torch.zeros_like(attention_mask)
        first[:, 0] = 1
        output = self.longformer(input_ids=input_ids, attention_mask=attention_mask, global_attention_mask=first)
        states: torch.Tensor = output.last_hidden_state
        return states

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Unit rows, (texts, dim)."""
        states = self.states(input_ids, attention_mask)
        mask = attention_mask.unsqueeze(-1).to(states.dtype)
        return torch.nn.functional.normalize((states * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1.0), dim=1)


class TorchEncoder:
    """Encodes by the current weights of a trainable encoder; passages, which no table shows, are left out."""

    def __init__(self, encoder: Trainable, method: str) -> None:
        """Take the encoder and the name of its method."""
        self.trainable = encoder  # can learn; encoding here replaces the documents that it has taken
        config = encoder.config
        spec = config.spec(method, tokens=config.max_tokens)
        self.spec = replace(spec, build=short_hash(config.weights, "torch"))

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        """Documents → (documents, dim) unit rows; a text without known words has a zero row."""
        lower = self.trainable.lower
        lower.take([lower.prepare(documents)])
        with torch.no_grad():
            vectors: FloatArray = self.trainable.documents(range(len(documents))).cpu().numpy()
        none = Passages(int8_rows(vectors[:0]), np.zeros((0, 2), np.int32))
        return Encoded(vectors, [none] * len(documents), lower.lengths()[:, None] > 0)

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        """Queries, with the model's query prefix → (queries, dim) unit rows."""
        lower = self.trainable.lower
        lower.take([lower.prepare([replace(query, title=query.content, text="") for query in queries])])
        with torch.no_grad():
            vectors: FloatArray = lower.queries(range(len(queries))).cpu().numpy()
        return vectors
