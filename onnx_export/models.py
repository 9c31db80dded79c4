"""From what a user calls a model to its folder."""

from __future__ import annotations

from pathlib import Path

from encoders.console import Console
from encoders.errors import BadInput
from encoders.folder import ModelFolder, model_cache

DEFAULT = "multilingual-e5-small"
"""The encoder of a collection that names none."""
_DEFAULT_BUILD = "3"
"""Counted up when ``default_model`` makes other bytes than before, so that nobody's cache keeps the old ones."""


def find_model(reference: str, console: Console) -> ModelFolder:
    """Return the folder of a model: the default by its name, an exported one by its name in the cache, any by its path.

    Raises:
        BadInput: there is none, or the folder is no model's.
        MissingPart: the default is wanted and its weights are not installed.
    """
    if reference == DEFAULT:
        return _default(console)
    for folder in (Path(reference).expanduser(), model_cache() / reference):
        if folder.is_dir():
            return ModelFolder.open(folder)
    raise BadInput(
        f"there is no encoder {reference!r}: {_known()}; "
        f"a Hugging Face model is exported first: dragoman export {reference}"
    )


def default_path() -> Path:
    """The default encoder's folder, whether it is made yet or not."""
    return model_cache() / f"{DEFAULT}-int8-{_DEFAULT_BUILD}"


def _default(console: Console) -> ModelFolder:
    target = default_path()
    try:
        return ModelFolder.open(target)
    except BadInput:  # not made yet, or not whole: made now
        from onnx_export.default_model import make  # noqa: PLC0415 - needed once, and slow to import

        make(target, console)
        return ModelFolder.open(target)


def exported() -> list[ModelFolder]:
    """The models in the cache, by name; folders that are none are left out."""
    files = sorted(model_cache().glob("[!.]*/config.json"))
    return [ModelFolder.open(file.parent) for file in files]


def _known() -> str:
    names = sorted({DEFAULT, *(folder.path.name for folder in exported())})
    return f"known are {', '.join(names)}, and folders"
