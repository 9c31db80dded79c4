"""Output files named on the command line: they are checked before the work, and written after it."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from encoders.errors import BadInput

PICTURES = (".png", ".svg", ".pdf")
"""Endings of pictures."""


def require_writable(path: Path, endings: Sequence[str] = ()) -> None:
    """Check that a file can be written, before the work. Raises BadInput: it can't, or has none of ``endings``."""
    if endings and path.suffix.lower() not in endings:
        raise BadInput(f"{path} has none of the known endings: {', '.join(endings)}; choose one of these")
    folder = path.parent
    if not folder.is_dir():
        raise BadInput(f"{path} can't be written: there is no folder {folder}; make it or give another file")
    if not os.access(path if path.exists() else folder, os.W_OK) or path.is_dir():
        raise BadInput(f"{path} can't be written; give a file in a folder of yours")


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines, which include their line ends, as UTF-8. Raises BadInput: the file can't be written."""
    try:
        with path.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(lines)
    except OSError as error:
        raise BadInput(f"{path} can't be written ({error.strerror or error}); give another file") from error
