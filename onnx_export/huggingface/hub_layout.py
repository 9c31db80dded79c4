"""Read the configuration of a Hugging Face folder: pooling, dense layers, prompts, limits. JSON only, no torch."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from encoders.errors import BadInput
from encoders.folder.model_config import Pooling

Activation = Literal["tanh", "identity"]
_ACTIVATIONS: Mapping[str, Activation] = {"Tanh": "tanh", "Identity": "identity"}
_STATED: Sequence[Pooling] = ("mean", "cls", "max", "lasttoken", "weightedmean")
POOLINGS: Sequence[Pooling] = (*_STATED, "cls-dense-tanh")
"""Poolings that can be exported; a folder states one of the first five."""


@dataclass(frozen=True)
class DenseLayer:
    """A linear layer after pooling: the folder of its weights, and the function applied to its output."""

    folder: Path
    activation: Activation


@dataclass(frozen=True)
class Layout:
    """A model folder in Hugging Face or sentence-transformers layout."""

    transformer: Path
    pooling: Pooling | None = None  # the folder's pooling; None if it is not stated
    dense: tuple[DenseLayer, ...] = ()
    max_tokens: int | None = None  # longest input by sentence-transformers' configuration; None if it is not stated
    lower_case: bool = False  # texts are lower-cased before they are tokenised
    prompts: Mapping[str, str] = field(default_factory=dict)  # prefixes by name
    default_prompt: str | None = None  # name of the prompt that is put before every text


@dataclass(frozen=True)
class Recipe:
    """How token states become a vector in the exported graph."""

    pooling: Pooling
    dense: tuple[DenseLayer, ...] = ()
    pooler: bool = False  # the transformer's pooler (dense, tanh) is applied to the first token's state
    remark: str = ""  # message to the user about the choice; empty if the folder states everything
    dim: int | None = None  # first numbers of a vector that are kept (Matryoshka); None: all


@dataclass(frozen=True)
class StatedLayout:
    """A user's statements about a model; with None the model's own configuration counts."""

    name: str | None = None
    pooling: Pooling | None = None
    query_prefix: str | None = None
    document_prefix: str | None = None
    languages: tuple[str, ...] | None = None
    dim: int | None = None


def read_layout(folder: Path) -> Layout:
    """Read a folder's configuration. Raises BadInput: it is no Hugging Face model, or a part can't be exported."""
    if (folder / "modules.json").is_file():
        return _sentence_layout(folder)
    if not (folder / "config.json").is_file():
        raise BadInput(f"{folder} holds no Hugging Face model: it has neither config.json nor modules.json")
    config = _read_object(folder / "config.json")
    if "model_type" not in config:
        hint = "; it is an exported folder already" if {"format", "graph"} <= config.keys() else ""
        raise BadInput(f"{folder / 'config.json'} names no model_type, so it is no transformer's{hint}")
    return Layout(transformer=folder)


def choose_pooling(layout: Layout, requested: Pooling | None) -> Recipe:
    """The pooling that is requested, else stated, else the mean. Raises BadInput: the dense layers don't fit it."""
    if requested is None:
        if layout.pooling is None:
            return Recipe("mean", remark="the model states no pooling, so the mean is taken; --pooling takes another")
        is_labse = layout.pooling == "cls" and [layer.activation for layer in layout.dense] == ["tanh"]
        return Recipe("cls-dense-tanh" if is_labse else layout.pooling, layout.dense)
    if requested != "cls-dense-tanh":
        return Recipe(requested, remark="the model's dense layers are left out" if layout.dense else "")
    if not layout.dense:
        return Recipe(requested, pooler=True, remark="the dense layer is the transformer's own pooler")
    if [layer.activation for layer in layout.dense] != ["tanh"]:
        raise BadInput("cls-dense-tanh needs one dense layer with tanh and the model has others; leave --pooling out")
    return Recipe(requested, layout.dense)


def choose_prefixes(layout: Layout, name: str) -> tuple[str, str, str]:
    """Return the prefixes of queries and of documents, and their origin: the model's prompts, or E5's rule by name."""
    prompts = layout.prompts
    if any(prompts.values()):
        default = prompts.get(layout.default_prompt or "", "")
        document = prompts.get("passage", prompts.get("document", prompts.get("corpus", default)))
        query = prompts.get("query", default) or prompts.get("instruction", "")
        unused = f"its prompts are for {', '.join(prompts)}: --query-prefix takes one of these"
        return query, document, "the model's prompts" if query or document else unused
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
    settings = stated_object(transformer / "sentence_bert_config.json")
    model_settings = stated_object(folder / "config_sentence_transformers.json")
    limit = settings.get("max_seq_length")
    return Layout(
        transformer=transformer,
        pooling=_pooling(parts[1][1] / "config.json"),
        dense=tuple(_dense(path) for kind, path in parts if kind == "Dense"),
        max_tokens=int(limit) if limit else None,
        lower_case=bool(settings.get("do_lower_case")),
        prompts={name: text or "" for name, text in (model_settings.get("prompts") or {}).items()},
        default_prompt=model_settings.get("default_prompt_name"),
    )


def _pooling(file: Path) -> Pooling:
    config = _read_object(file)
    modes = _pooling_modes(config)
    if not config.get("include_prompt", True):
        raise BadInput(f"{file} leaves the prompt's tokens out of pooling, which no graph of Dragoman's does")
    for pooling in _STATED:
        if modes == [pooling]:
            return pooling
    raise BadInput(
        f"{file} asks for pooling by {' and '.join(modes) or 'nothing'}; one of {', '.join(_STATED)} can be exported"
    )


def _pooling_modes(config: Mapping[str, Any]) -> Sequence[str]:
    """Pooling modes, in either spelling: ``pooling_mode: cls``, or flags such as ``pooling_mode_cls_token: true``."""
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
    tensor_names = (
        config.get("module_input_name", "sentence_embedding"),
        config.get("module_output_name") or "sentence_embedding",
    )
    if config.get("use_residual") or tensor_names != ("sentence_embedding", "sentence_embedding"):
        raise BadInput(f"{file} is a dense layer with a residual or on single tokens, which can't be exported")
    return DenseLayer(folder, _ACTIVATIONS[name])


def stated_object(file: Path) -> Mapping[str, Any]:
    """The JSON object in a file; empty if there is no file. Raises BadInput: the file is no JSON object."""
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
