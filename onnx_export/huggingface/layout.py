"""What a Hugging Face folder says about itself: pooling, dense layers, prompts, limits. JSON only, no torch."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from encoders.errors import BadInput
from encoders.folder import Pooling

Activation = Literal["tanh", "identity"]
_ACTIVATIONS: Mapping[str, Activation] = {"Tanh": "tanh", "Identity": "identity"}


@dataclass(frozen=True)
class DenseLayer:
    """A linear layer after pooling.

    Attributes:
        folder: holds its weights.
        activation: applied to its output.
    """

    folder: Path
    activation: Activation


@dataclass(frozen=True)
class Layout:
    """A model folder in Hugging Face or sentence-transformers layout.

    Attributes:
        transformer: folder of the transformer and its tokenizer.
        pooling: as the folder states it; None where nobody said.
        dense: layers after pooling, in order.
        max_tokens: longest input by sentence-transformers' configuration; None where nobody said.
        lower_case: texts are lower-cased before they are tokenised.
        prompts: prefixes by name, those that are not empty.
        default_prompt: name of the prompt that is put before every text.
    """

    transformer: Path
    pooling: Literal["mean", "cls"] | None = None
    dense: tuple[DenseLayer, ...] = ()
    max_tokens: int | None = None
    lower_case: bool = False
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str | None = None


@dataclass(frozen=True)
class Recipe:
    """How token states become a vector in the graph that is made.

    Attributes:
        pooling: what the model folder will state.
        dense: layers after pooling, in order.
        pooler: the transformer's own pooler (dense, tanh) follows the first token's state.
        remark: what the user should know about the choice; empty where the folder states it all.
    """

    pooling: Pooling
    dense: tuple[DenseLayer, ...] = ()
    pooler: bool = False
    remark: str = ""


@dataclass(frozen=True)
class StatedLayout:
    """What a user may say about a model; None where the model's own word counts.

    Attributes:
        name: what to call it.
        pooling: how token states become a vector.
        query_prefix: put before queries.
        document_prefix: put before documents.
        languages: tags the model was trained for.
    """

    name: str | None = None
    pooling: Pooling | None = None
    query_prefix: str | None = None
    document_prefix: str | None = None
    languages: tuple[str, ...] | None = None


def read_layout(folder: Path) -> Layout:
    """Read a folder's configuration.

    Raises:
        BadInput: it is no Hugging Face model, or has a part that no graph of Dragoman's has.
    """
    if (folder / "modules.json").is_file():
        return _sentence_layout(folder)
    if not (folder / "config.json").is_file():
        raise BadInput(f"{folder} holds no Hugging Face model: it has neither config.json nor modules.json")
    config = _read_object(folder / "config.json")
    if "model_type" not in config:
        already = "; it is an exported folder already" if {"format", "graph"} <= config.keys() else ""
        raise BadInput(f"{folder / 'config.json'} names no model_type, so it is no transformer's{already}")
    return Layout(transformer=folder)


def choose_pooling(layout: Layout, asked: Pooling | None) -> Recipe:
    """Decide the pooling: as the user asks, else as the folder states, else the mean.

    Raises:
        BadInput: cls-dense-tanh is asked for and the folder's dense layers are others.
    """
    if asked is None:
        if layout.pooling is None:
            return Recipe("mean", remark="the model states no pooling, so the mean is taken; --pooling takes another")
        is_labse = layout.pooling == "cls" and [layer.activation for layer in layout.dense] == ["tanh"]
        return Recipe("cls-dense-tanh" if is_labse else layout.pooling, layout.dense)
    if asked != "cls-dense-tanh":
        return Recipe(asked, remark="the model's dense layers are left out" if layout.dense else "")
    if not layout.dense:
        return Recipe(asked, pooler=True, remark="the dense layer is the transformer's own pooler")
    if [layer.activation for layer in layout.dense] != ["tanh"]:
        raise BadInput("cls-dense-tanh needs one dense layer with tanh and the model has others; leave --pooling out")
    return Recipe(asked, layout.dense)


def choose_prefixes(layout: Layout, name: str) -> tuple[str, str, str]:
    """Prefixes of queries and of documents, and where they are from: the model's prompts, or E5's rule by its name."""
    prompts = layout.prompts
    if prompts:
        default = prompts.get(layout.default_prompt or "", "")
        document = prompts.get("passage", prompts.get("document", prompts.get("corpus", default)))
        return prompts.get("query", default), document, "the model's prompts"
    lowered = name.lower()
    if re.search(r"(?<![a-z0-9])m?e5(?![a-z0-9])", lowered) and "instruct" not in lowered:
        return "query: ", "passage: ", "the rule of E5 models, by the name"
    return "", "", "the model states none"


def _sentence_layout(folder: Path) -> Layout:
    modules = _read_json(folder / "modules.json")
    try:
        parts = [(str(part["type"]).rsplit(".", 1)[-1], folder / part["path"]) for part in modules]
    except (TypeError, KeyError) as error:
        raise BadInput(f"{folder / 'modules.json'} is not a list of modules with type and path") from error
    kinds = [kind for kind, _ in parts]
    if not re.fullmatch(r"Transformer Pooling( Dense)*( Normalize)?", " ".join(kinds)):
        raise BadInput(
            f"{folder} is made of {', '.join(kinds)}; a model that can be exported is "
            "a Transformer, a Pooling, Dense layers if any, Normalize if any"
        )
    transformer = parts[0][1]
    settings = _optional(transformer / "sentence_bert_config.json")
    sentence = _optional(folder / "config_sentence_transformers.json")
    limit = settings.get("max_seq_length")
    return Layout(
        transformer=transformer,
        pooling=_pooling(parts[1][1] / "config.json"),
        dense=tuple(_dense(path) for kind, path in parts if kind == "Dense"),
        max_tokens=int(limit) if limit else None,
        lower_case=bool(settings.get("do_lower_case")),
        prompts={name: text for name, text in (sentence.get("prompts") or {}).items() if text},
        default_prompt=sentence.get("default_prompt_name"),
    )


def _pooling(file: Path) -> Literal["mean", "cls"]:
    config = _read_object(file)
    modes = _pooling_modes(config)
    if not config.get("include_prompt", True):
        raise BadInput(f"{file} leaves the prompt's tokens out of pooling, which no graph of Dragoman's does")
    if modes == ["mean"]:
        return "mean"
    if modes == ["cls"]:
        return "cls"
    raise BadInput(f"{file} asks for pooling by {' and '.join(modes) or 'nothing'}; mean and cls can be exported")


def _pooling_modes(config: Mapping[str, Any]) -> Sequence[str]:
    """Both spellings: ``pooling_mode: cls``, and ``pooling_mode_cls_token: true`` among flags of the others."""
    stated = config.get("pooling_mode")
    if stated is not None:
        return [stated] if isinstance(stated, str) else list(stated)
    flags = [name for name, value in config.items() if name.startswith("pooling_mode_") and value is True]
    return [name.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token") for name in flags]


def _dense(folder: Path) -> DenseLayer:
    file = folder / "config.json"
    config = _read_object(file)
    name = str(config.get("activation_function", "torch.nn.modules.activation.Tanh")).rsplit(".", 1)[-1]
    if name not in _ACTIVATIONS:
        raise BadInput(f"{file} has the activation {name}; dense layers with Tanh or Identity can be exported")
    inner = (
        config.get("module_input_name", "sentence_embedding"),
        config.get("module_output_name") or "sentence_embedding",
    )
    if config.get("use_residual") or inner != ("sentence_embedding", "sentence_embedding"):
        raise BadInput(f"{file} is a dense layer with a residual or on single tokens, which can't be exported")
    return DenseLayer(folder, _ACTIVATIONS[name])


def _optional(file: Path) -> Mapping[str, Any]:
    return _read_object(file) if file.is_file() else {}


def _read_object(file: Path) -> Mapping[str, Any]:
    value = _read_json(file)
    if not isinstance(value, dict):
        raise BadInput(f"{file} is not a JSON object; fetch the model again")
    return value


def _read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"{file} can't be read ({error}); fetch the model again") from error
