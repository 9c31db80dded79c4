"""A Hugging Face encoder → torch module with pooling → fp32 ONNX graph; this file and ``reranker`` import torch."""

from __future__ import annotations

import hashlib
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from encoders.document import FloatArray
from encoders.errors import BadInput, importing
from encoders.phrases import first_line
from onnx_export.huggingface.hub import TORCH_NEEDED
from onnx_export.huggingface.hub_layout import Layout, Recipe, read_layout, stated_object
from onnx_export.huggingface.sentence_module import required, with_pooling

if TYPE_CHECKING:
    import torch

OPSET = 21
_NO_LIMIT = 1_000_000
"""Tokenizers without a limit state a larger number."""
_USUAL_LIMIT = 512
"""Maximum tokens of models without positions and without a stated limit."""


@dataclass(frozen=True)
class SourceModel:
    """A loaded encoder with its pooling."""

    module: torch.nn.Module  # (input_ids, attention_mask) → (texts, dim) unit rows; eval, float32, CPU
    recipe: Recipe
    tokenizer: Any
    lower_case: bool
    dim: int
    max_tokens: int
    weights: str  # hash of the names and bytes of everything on which the vectors depend


def require_torch() -> None:
    """Check that torch, its ONNX exporter and transformers are installed. Raises MissingPart: a package is missing."""
    with importing("train", TORCH_NEEDED):
        import onnxscript  # noqa: F401, PLC0415
        import torch  # noqa: F401, PLC0415
        import transformers  # noqa: F401, PLC0415


def require_fast_tokenizer(folder: Path) -> None:
    """Refuse a model before its weights are fetched. Raises BadInput: its tokenizer exists only in Python, as XLM's."""
    import transformers  # noqa: PLC0415
    from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES  # noqa: PLC0415

    transformer = read_layout(folder).transformer
    stated = stated_object(transformer / "tokenizer_config.json").get("tokenizer_class")
    name = stated or TOKENIZER_MAPPING_NAMES.get(stated_object(transformer / "config.json").get("model_type", ""))
    tokenizer = getattr(transformers, str(name), None)
    if tokenizer is None or (transformer / "tokenizer.json").is_file():
        return
    if not issubclass(tokenizer, transformers.PreTrainedTokenizerFast):
        raise _in_python_only(folder, tokenizer.__name__)


def _in_python_only(folder: Path, name: str) -> BadInput:
    return BadInput(
        f"{folder} has a tokenizer in Python only ({name}), which can't be saved as tokenizer.json; take a model with "
        "a fast tokenizer"
    )


def load(layout: Layout, recipe: Recipe) -> SourceModel:
    """Load weights and tokenizer, and add the pooling.

    Raises BadInput: the model can't be loaded, lacks weights, or is no encoder; MissingPart: a package is missing.
    """
    require_torch()
    with quiet():
        tokenizer = load_tokenizer(layout.transformer)
        encoder = _load_encoder(layout.transformer, keep_pooler=recipe.pooler)
    module = with_pooling(encoder, recipe).eval()
    dim = _dim(encoder, module)
    if recipe.dim and dim < recipe.dim:
        raise BadInput(f"{layout.transformer} makes vectors with {dim} dimensions; take a smaller --dim, or none")
    return SourceModel(
        module=module,
        recipe=recipe,
        tokenizer=tokenizer,
        lower_case=layout.lower_case,
        dim=dim,
        max_tokens=max_tokens(encoder, tokenizer, layout),
        weights=hash_weights(module, recipe),
    )


def export_token_graph(module: torch.nn.Module, target: Path, output: str = "vectors") -> None:
    """Write the fp32 ONNX graph of a module of ``input_ids`` and ``attention_mask``, by ``export_module``."""
    import torch  # noqa: PLC0415

    # Two separate tensors: the exporter would make a single input of the same object.
    ids, mask = (torch.ones((2, 8), dtype=torch.int64) for _ in range(2))
    export_module(module, {"input_ids": ids, "attention_mask": mask}, ("texts", "tokens"), target, output)


def export_module(
    module: torch.nn.Module,
    inputs: Mapping[str, torch.Tensor],
    axes: tuple[str, str],
    target: Path,
    output: str = "vectors",
) -> None:
    """Write a module as an fp32 ONNX graph with torch's exporter; ``output`` is the name of its output.

    ``inputs`` has an example of each input, at least 2 × 2, and ``axes`` names their first two axes, which stay
    dynamic. Attention is plain ("eager"): ONNX Runtime fuses its layers. Weights are in ``<target>.data``.
    """
    import torch  # noqa: PLC0415

    dimensions = {axis: torch.export.Dim(name) for axis, name in enumerate(axes)}
    with quiet(), torch.no_grad(), warnings.catch_warnings():
        # Torch warns about inputs that share their axes, which is intended here.
        warnings.filterwarnings("ignore", message="# The axis name", category=UserWarning)
        program = torch.onnx.export(
            module,
            tuple(inputs.values()),
            dynamo=True,
            dynamic_shapes=dict.fromkeys(inputs, dimensions),
            input_names=list(inputs),
            output_names=[output],
            opset_version=OPSET,
            verbose=False,
        )
        if program is None:
            raise BadInput("torch exported nothing; please report this model")
        program.save(target, external_data=True)


def save_tokenizer(source: SourceModel, target: Path) -> None:
    """Write ``tokenizer.json``: the tokenizer that transformers uses inside, without truncation and padding."""
    import tokenizers  # noqa: PLC0415

    backend = tokenizers.Tokenizer.from_str(source.tokenizer.backend_tokenizer.to_str())
    backend.no_truncation()
    backend.no_padding()
    if source.lower_case:
        steps = [tokenizers.normalizers.Lowercase(), *([backend.normalizer] if backend.normalizer else [])]
        backend.normalizer = tokenizers.normalizers.Sequence(steps)
    backend.save(str(target), pretty=False)


def reference_vectors(source: SourceModel, texts: Sequence[str]) -> FloatArray:
    """Encode texts with torch, (texts, dim) float32, one at a time, so that padding has no effect."""
    return run_one_at_a_time(source.module, token_rows(source, texts))


def token_rows(source: SourceModel, texts: Sequence[str]) -> list[list[int]]:
    """Token ids of texts by the source's tokenizer, with its special tokens."""
    cased = [text.lower() if source.lower_case else text for text in texts]
    return [source.tokenizer(text, truncation=True, max_length=source.max_tokens)["input_ids"] for text in cased]


def run_one_at_a_time(module: torch.nn.Module, texts: Sequence[Sequence[int]]) -> FloatArray:
    """Vectors of texts as token ids by a module of ``input_ids`` and ``attention_mask``, (texts, dim) float32."""
    import torch  # noqa: PLC0415

    rows = []
    with torch.no_grad():
        for ids in texts:
            tokens = torch.tensor([ids], dtype=torch.int64)
            rows.append(module(tokens, torch.ones_like(tokens))[0].numpy())
    return np.stack(rows).astype(np.float32)


def load_tokenizer(folder: Path) -> Any:
    """The fast tokenizer of a folder. Raises BadInput: it can't be loaded, or exists only in Python."""
    from transformers import AutoTokenizer  # noqa: PLC0415

    with required(f"the tokenizer in {folder} can't be loaded"):
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    if not tokenizer.is_fast:
        raise _in_python_only(folder, type(tokenizer).__name__)
    return tokenizer


def _load_encoder(folder: Path, *, keep_pooler: bool) -> Any:
    """Load the transformer in float32; its pooler, which newer checkpoints lack, is removed unless it is kept."""
    from transformers import AutoConfig, AutoModel  # noqa: PLC0415

    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        advice = "code of its own is never run; take another" if "custom code" in str(error) else "fetch it again"
        raise BadInput(f"{folder} can't be loaded as a model ({first_line(error)}); {advice}") from error
    unused = ("decoder.",) if keep_pooler else ("decoder.", "pooler.")
    encoder = load_weights(AutoModel, folder, unused, config=config)
    if config.is_encoder_decoder:  # as mT5, whose decoder is left out
        encoder = encoder.get_encoder()
    pooler = getattr(encoder, "pooler", None)
    if keep_pooler and not hasattr(pooler, "dense"):
        raise BadInput(f"{folder} has no pooler to make cls-dense-tanh of; take --pooling cls or mean")
    if not keep_pooler and pooler is not None:
        encoder.pooler = None
    return encoder


def load_weights(kind: Any, folder: Path, unused: tuple[str, ...] = (), **options: Any) -> Any:
    """Load a model of one of transformers' classes in float32.

    Raises BadInput: it can't be loaded, or a tensor is missing whose name begins with none of ``unused``.
    """
    import torch  # noqa: PLC0415

    with required(f"the weights in {folder} can't be loaded"):
        model, report = kind.from_pretrained(
            folder,
            dtype=torch.float32,
            attn_implementation="eager",
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
            **options,
        )
    if names := sorted(name for name in report["missing_keys"] if not name.startswith(unused)):
        raise BadInput(f"the weights in {folder} lack {len(names)} tensors, {names[0]} first; fetch the model again")
    return model


def _dim(encoder: Any, module: torch.nn.Module) -> int:
    import torch  # noqa: PLC0415

    example = torch.ones((1, 2), dtype=torch.int64)
    try:
        with torch.no_grad():
            return int(module(example, example).shape[1])
    except Exception as error:  # a model's forward may raise any class
        model_type = encoder.config.model_type
        raise BadInput(f"a model of type {model_type} can't be run on plain token ids ({first_line(error)})") from error


def max_tokens(encoder: Any, tokenizer: Any, layout: Layout) -> int:
    """Maximum tokens of a text: the smallest limit that model, tokenizer or layout states."""
    limits = [layout.max_tokens]
    positions = getattr(encoder.config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        table = getattr(getattr(encoder, "embeddings", None), "position_embeddings", None)
        padding = getattr(table, "padding_idx", None)  # RoBERTa's positions start after the padding's index
        limits.append(positions if padding is None else positions - padding - 1)
    if tokenizer.model_max_length < _NO_LIMIT:
        limits.append(int(tokenizer.model_max_length))
    return min((limit for limit in limits if limit), default=_USUAL_LIMIT)


def hash_weights(module: torch.nn.Module, recipe: Recipe) -> str:
    """Hash of the names and bytes of a module's weights and of what its recipe does to vectors, 16 hex digits."""
    digest = hashlib.sha256()
    for layer in recipe.dense:
        digest.update(layer.activation.encode())
    if recipe.dim:
        digest.update(f"dim {recipe.dim}".encode())
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress messages of transformers and torch's exporter within the block; errors are still raised."""
    from transformers.utils import logging as transformers_logging  # noqa: PLC0415

    exporter = logging.getLogger("torch.onnx")
    previous = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled(), exporter.level
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    exporter.setLevel(logging.ERROR)
    try:
        yield
    finally:
        transformers_logging.set_verbosity(previous[0])
        if previous[1]:
            transformers_logging.enable_progress_bar()
        exporter.setLevel(previous[2])
