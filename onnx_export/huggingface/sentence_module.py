"""Transformer, pooling, dense layers and norm as one torch module of token ids → unit vectors."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from encoders.errors import BadInput
from encoders.folder.model_config import Pooling
from encoders.phrases import first_line
from onnx_export.huggingface.hub_layout import Activation, DenseLayer, Recipe

if TYPE_CHECKING:
    import torch


def with_pooling(encoder: Any, recipe: Recipe) -> torch.nn.Module:
    """The module (input_ids, attention_mask) → (texts, dim) unit rows of a transformer and a recipe.

    Padding may stand on either side of a text. Raises BadInput: a dense layer's weights can't be read.
    """
    import torch  # noqa: PLC0415

    layers = [_load_dense(layer) for layer in recipe.dense]
    if recipe.pooler:
        layers = [torch.nn.Sequential(encoder.pooler.dense, torch.nn.Tanh())]
        encoder.pooler = None
    return _module(encoder, recipe, layers)


def described(module: Any) -> str:
    """What ``module_of`` needs, beside the weights, to make a module of ``with_pooling`` again, as JSON."""
    config = json.loads(module.encoder.config.to_json_string(use_diff=False))
    config.pop("_name_or_path", None)  # of the machine that made it
    layers = [
        [linear.in_features, linear.out_features, linear.bias is not None, type(function).__name__.lower()]
        for linear, function in module.dense
    ]
    recipe, kind = module.recipe, type(module.encoder).__name__
    stated = {"pooling": recipe.pooling, "pooler": recipe.pooler, "dim": recipe.dim}
    return json.dumps({"config": config, "class": kind, "dense": layers, "recipe": stated})


def module_of(description: str, weights: Mapping[str, torch.Tensor]) -> tuple[torch.nn.Module, Recipe]:
    """The module that ``described`` described, with its weights, and its recipe, whose dense layers have no folders.

    Raises what torch and transformers raise if the description or the weights are damaged.
    """
    import torch  # noqa: PLC0415
    from transformers import CONFIG_MAPPING, AutoModel  # noqa: PLC0415

    stated = json.loads(description)
    config = CONFIG_MAPPING[stated["config"]["model_type"]].from_dict(stated["config"])
    encoder = AutoModel.from_config(config, attn_implementation="eager")
    if type(encoder).__name__ != stated["class"]:  # as mT5's encoder
        encoder = encoder.get_encoder()
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler = None
    layers = [
        _dense(torch.nn.Linear(inputs, outputs, bias=bias), kind) for inputs, outputs, bias, kind in stated["dense"]
    ]
    recipe = Recipe(**stated["recipe"])
    if not recipe.pooler:
        recipe = replace(recipe, dense=tuple(DenseLayer(Path(), kind) for *_, kind in stated["dense"]))
    module = _module(encoder.float(), recipe, layers)
    module.load_state_dict(dict(weights))
    return module.eval(), recipe


def _module(encoder: Any, recipe: Recipe, layers: Sequence[torch.nn.Module]) -> torch.nn.Module:
    import torch  # noqa: PLC0415

    arguments = inspect.signature(encoder.forward).parameters
    takes_types, extra = "token_type_ids" in arguments, {"use_cache": False} if "use_cache" in arguments else {}

    class Sentence(torch.nn.Module):  # type: ignore[misc, unused-ignore]  # Any where torch is not installed
        def __init__(self) -> None:
            super().__init__()
            self.encoder = encoder
            self.dense = torch.nn.Sequential(*layers)
            self.recipe = recipe

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            types = {"token_type_ids": torch.zeros_like(input_ids)} if takes_types else {}
            states = self.encoder(
                input_ids=input_ids, attention_mask=attention_mask, **types, **extra
            ).last_hidden_state
            vectors = self.dense(pooled(states, attention_mask, recipe.pooling))
            return torch.nn.functional.normalize(vectors[:, : recipe.dim] if recipe.dim else vectors, dim=1)

    return Sentence()


def pooled(states: torch.Tensor, attention_mask: torch.Tensor, pooling: Pooling) -> torch.Tensor:
    """A vector of each text's token states (texts, tokens, hidden), as sentence-transformers' Pooling makes it."""
    import torch  # noqa: PLC0415

    mask = attention_mask.unsqueeze(-1).to(states.dtype)
    if pooling == "max":
        return states.masked_fill(mask == 0, -1e4).amax(dim=1)
    if pooling == "lasttoken":
        places = torch.cumsum(attention_mask, dim=1)
        is_last = (places == places[:, -1:]) & (attention_mask == 1)
        return (states * is_last.unsqueeze(-1).to(states.dtype)).sum(dim=1)
    if pooling in ("mean", "weightedmean"):
        if pooling == "weightedmean":  # the first token weighs 1, the second 2 …
            mask = mask * torch.cumsum(mask, dim=1)
        return (states * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1.0)
    return states[:, 0]


def _load_dense(layer: DenseLayer) -> torch.nn.Module:
    import torch  # noqa: PLC0415
    from safetensors.torch import load_file  # noqa: PLC0415

    safetensors_file, pickle_file = layer.folder / "model.safetensors", layer.folder / "pytorch_model.bin"
    with required(f"the dense layer in {layer.folder} can't be read"):
        tensors = (
            load_file(safetensors_file)
            if safetensors_file.is_file()
            else torch.load(pickle_file, map_location="cpu", weights_only=True)
        )
        weight, bias = tensors["linear.weight"].float(), tensors.get("linear.bias")
    linear = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    with torch.no_grad():
        linear.weight.copy_(weight)
        if bias is not None:
            linear.bias.copy_(bias)
    return _dense(linear, layer.activation)


def _dense(linear: torch.nn.Linear, activation: Activation) -> torch.nn.Module:
    import torch  # noqa: PLC0415

    return torch.nn.Sequential(linear, torch.nn.Tanh() if activation == "tanh" else torch.nn.Identity())


@contextmanager
def required(failure: str) -> Iterator[None]:
    """Raise ``BadInput`` with the sentence ``failure`` if the block fails in transformers, safetensors or pickle."""
    try:
        yield
    except Exception as error:  # they raise any class, even Exception itself
        raise BadInput(f"{failure} ({first_line(error)}); fetch the model again") from error
