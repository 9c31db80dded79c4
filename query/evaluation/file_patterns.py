"""Files named on the command line: expand patterns of input files, check and write output files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from glob import glob
from pathlib import Path

from encoders.errors import BadInput


def expand(names: Sequence[str], what: str) -> list[Path]:
    """Files that names stand for: a file, the files of a folder or a pattern, or several of these between commas.

    The message calls the expected content of the files ``what``.

    Raises:
        BadInput: a name stands for no file.
    """
    paths = [path for name in names for path in _files(name, what)]
    return list(dict.fromkeys(paths))


def _files(name: str, what: str) -> list[Path]:
    path = Path(name)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
    elif path.exists():
        files = [path]
    elif "," in name:
        files = [file for part in name.split(",") if part for file in _files(part, what)]
    else:
        files = sorted(Path(file) for file in glob(name, recursive=True) if Path(file).is_file())  # noqa: PTH207 - of any root
    if not files:
        raise BadInput(f"{name} is no file and no pattern of files with {what}; check the name, and quote a pattern")
    return files


def writable(path: Path) -> None:
    """Check that a file can be written, before the work that fills the file.

    Raises:
        BadInput: the file can't be written.
    """
    folder = path.parent
    if not folder.is_dir():
        raise BadInput(f"{path} can't be written: there is no folder {folder}; make it or give another file")
    if not os.access(path if path.exists() else folder, os.W_OK) or path.is_dir():
        raise BadInput(f"{path} can't be written; give a file in a folder of yours")


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines, which include their line ends, as UTF-8.

    Raises:
        BadInput: the file can't be written.
    """
    try:
        with path.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(lines)
    except OSError as error:
        raise BadInput(f"{path} can't be written ({error.strerror or error}); give another file") from error
