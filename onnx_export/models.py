"""From what a user calls a model to its folder."""

from __future__ import annotations

from pathlib import Path

from encoders.console import Console
from encoders.errors import BadInput
from encoders.folder import ModelFolder, model_cache
from onnx_export.default_model import NAME, default_model


def find_model(reference: str, console: Console) -> ModelFolder:
    """Return the folder of a model: the default by its name, an exported one by its name in the cache, any by its path.

    Raises:
        BadInput: there is none, or the folder is no model's.
        MissingPart: the default is wanted and its weights are not installed.
    """
    if reference == NAME:
        return default_model(console)
    for folder in (Path(reference).expanduser(), model_cache() / reference):
        if folder.is_dir():
            return ModelFolder.open(folder)
    raise BadInput(f"there is no encoder {reference!r}: {_known()}; a Hugging Face model is exported first: dragoman export {reference}")


def exported() -> list[ModelFolder]:
    """The models in the cache, by name; folders that are none are left out."""
    found = []
    for folder in sorted(model_cache().glob("*")):
        if folder.is_dir() and not folder.name.startswith(".") and (folder / "config.json").is_file():
            found.append(ModelFolder.open(folder))
    return found


def _known() -> str:
    names = sorted({NAME, *(folder.path.name for folder in exported())})
    return f"known are {', '.join(names)}, and folders"
