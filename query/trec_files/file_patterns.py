"""Input files named on the command line: names, folders, patterns and lists of these stand for files."""

from collections.abc import Sequence
from glob import glob
from pathlib import Path

from encoders.document import short_hash
from encoders.errors import BadInput
from encoders.folder.model_cache import file_hash
from indexer.readers.irdatasets import dataset_name


def expand(names: Sequence[str], what: str) -> list[Path]:
    """Files of names: file, folder, pattern, ``ir-datasets:NAME``, or several between commas; ``what`` they hold.

    Raises BadInput: a name stands for no file.
    """
    return list(dict.fromkeys(path for name in names for path in _files(name, what)))


def content_hash(paths: Sequence[Path]) -> str:
    """16 hex digits that change with the contents of files, and with the names of data sets."""
    names = [str(path) for path in paths if dataset_name(path)]
    files = file_hash(*(path for path in paths if not dataset_name(path)))
    return short_hash(files, *names) if names else files


def _files(name: str, what: str) -> list[Path]:
    path = Path(name)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
    elif path.exists() or (dataset_name(name) and "," not in name):
        files = [path]
    elif "," in name:
        files = [file for part in name.split(",") if part for file in _files(part, what)]
    else:
        files = sorted(Path(file) for file in glob(name, recursive=True) if Path(file).is_file())  # noqa: PTH207 - of any root
    if not files:
        raise BadInput(f"{name} is no file and no pattern of files with {what}; check the name, and quote a pattern")
    return files
