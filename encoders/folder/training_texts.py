"""The texts that taught an encoder, as keys in its folder: a measurement by these texts flatters the encoder."""

from collections.abc import Collection, Iterable
from pathlib import Path

import numpy as np

from encoders.errors import BadInput

FILE = "training_texts.npy"
"""Name of the file: a sorted uint64 array of the texts' keys."""


def text_key(text_hash: str) -> int:
    """The first 64 bits of a ``Document.text_hash``."""
    return int(text_hash[:16], 16)


def write_training_texts(folder: Path, keys: Iterable[int] | None) -> None:
    """Write the keys of the texts that taught an encoder, 8 bytes each. None, which is unknown, deletes the file."""
    file = folder / FILE
    file.unlink(missing_ok=True)
    if keys is not None:
        np.save(file, np.unique(np.fromiter(keys, dtype=np.uint64)))


def has_training_texts(folder: Path) -> bool:
    """Whether a folder says which texts taught its encoder."""
    return (folder / FILE).is_file()


def count_taught(folder: Path, text_hashes: Collection[str]) -> int:
    """Number of texts, by their hashes, that taught a folder's encoder. Raises BadInput: the file can't be read."""
    file = folder / FILE
    try:
        taught = np.load(file, mmap_mode="r")
    except (OSError, EOFError, ValueError) as error:
        raise BadInput(f"{file} can't be read ({error}); train the encoder again") from error
    keys = np.fromiter(map(text_key, text_hashes), dtype=np.uint64)
    places = np.searchsorted(taught, keys)  # reads a few pages of the file
    inside = places < len(taught)
    return int((taught[places[inside]] == keys[inside]).sum())
