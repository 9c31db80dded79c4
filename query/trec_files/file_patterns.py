"""Input files named on the command line: names, folders, patterns and lists of these stand for files."""

from __future__ import annotations

from collections.abc import Sequence
from glob import glob
from pathlib import Path

from encoders.errors import BadInput


def expand(names: Sequence[str], what: str) -> list[Path]:
    """Files of names: file, folder, pattern, or several between commas; ``what`` they hold. Raises BadInput: none."""
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
