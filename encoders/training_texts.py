"""The texts that taught an encoder, as keys in its folder: a measurement by these texts flatters the encoder."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

import numpy as np

from encoders.errors import BadInput

FILE = "training_texts.npy"
"""Name of the file: a sorted uint64 array of the texts' keys."""


def text_key(text_hash: str) -> int:
    """The first 64 bits of a ``Document.text_hash``."""
    return int(text_hash[:16], 16)


def write_training_texts(folder: Path, keys: Iterable[int]) -> None:
    """Write the keys of the texts that taught an encoder into its folder, 8 bytes a text."""
    file = folder / FILE
    file.unlink(missing_ok=True)  # it may be a link to the base folder's file
    np.save(file, np.unique(np.fromiter(keys, dtype=np.uint64)))


def count_taught(folder: Path, text_hashes: Collection[str]) -> int:
    """Number of texts, given by their hashes, that taught the encoder of a folder; 0 if the folder does not say.

    Raises:
        BadInput: the folder's file can't be read.
    """
    file = folder / FILE
    if not file.is_file():
        return 0
    try:
        taught = np.load(file, mmap_mode="r")
    except (OSError, EOFError, ValueError) as error:
        raise BadInput(f"{file} can't be read ({error}); train the encoder again") from error
    return int(np.isin(np.fromiter(map(text_key, text_hashes), dtype=np.uint64), taught).sum())
