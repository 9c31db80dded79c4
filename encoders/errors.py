"""Errors that a user can tell apart.

DragomanError
├── BadInput          a file, record, topic or option that cannot be used
├── ModelMismatch     vectors of one model met another model
├── MissingPart       an extra, a file or a device that is not there
└── StoreError        a store or database that is away, full, locked or broken

Every message is one sentence: the thing, what is wrong, and what to do. Commands print it and exit with status 1.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from encoders.phrases import install_command

DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Error numbers of a full disk, a full quota or a file size limit; callers raise ``MissingPart`` for them."""


class DragomanError(Exception):
    """Base of all errors of Dragoman; the message says why and what to do."""


class BadInput(DragomanError):
    """A file, record, topic or option that cannot be used."""


class ModelMismatch(DragomanError):
    """Vectors of one model met vectors of another."""


class MissingPart(DragomanError):
    """An extra, a file or a device that is needed and missing."""


class StoreError(DragomanError):
    """A store or database that is away, full, locked or broken."""


@contextmanager
def importing(extra: str, failure: str) -> Iterator[None]:
    """Raise ``MissingPart`` if an import in the block fails: what needs the extra, and the command that installs it."""
    try:
        yield
    except ImportError as error:
        raise MissingPart(f"{failure}: {install_command(extra)}") from error


for _public in (DragomanError, BadInput, ModelMismatch, MissingPart, StoreError):
    _public.__module__ = "dragoman"  # as programs import them, and as a traceback names them
