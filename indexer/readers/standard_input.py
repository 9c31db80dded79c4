"""Standard input as a source. Sources are read several times, so what it gives is kept in a temporary file."""

import hashlib
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO, NamedTuple
from weakref import WeakKeyDictionary, finalize

from encoders.errors import BadInput, StoreError

STANDARD_INPUT = "-"

_CHUNK = 1 << 20


class KeptInput(NamedTuple):
    """The file that holds what a stream gave, and a hash of its bytes."""

    path: Path
    digest: str


_kept: WeakKeyDictionary[BinaryIO, KeptInput] = WeakKeyDictionary()
"""What each stream gave: a stream can be read only once."""


def kept_input() -> KeptInput:
    """Standard input, read to its end by the first call; the file is deleted when the process ends.

    Raises BadInput: the process has no standard input; StoreError: it can't be read, or the temporary folder is full.
    """
    if sys.stdin is None:
        raise BadInput(f"there is no standard input to read {STANDARD_INPUT} from; name a file")
    stream = sys.stdin.buffer
    if stream not in _kept:
        _kept[stream] = _keep(stream)
    return _kept[stream]


def _keep(stream: BinaryIO) -> KeptInput:
    digest = hashlib.blake2b(digest_size=16)
    try:
        with tempfile.NamedTemporaryFile(prefix="dragoman-stdin-", delete=False) as file:
            finalize(stream, Path(file.name).unlink, missing_ok=True)
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
                file.write(chunk)
    except OSError as error:
        raise StoreError(
            f"standard input can't be read into {tempfile.gettempdir()} ({error.strerror or error}); "
            "name a folder that has room with TMPDIR"
        ) from error
    return KeptInput(Path(file.name), digest.hexdigest())
