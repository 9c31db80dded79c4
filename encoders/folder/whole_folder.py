"""Folders that are made and replaced as a whole, and outlast a power loss; folders for their owner alone."""

import ctypes
import errno
import os
import secrets
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path

from encoders.errors import BadInput

FOLDER_MODE = 0o700
"""Mode of folders that Dragoman makes for its data: only their owner may look into them."""
FILE_MODE = 0o600
"""Mode of Dragoman's files in these folders: they hold documents, and what people searched for."""
_ABANDONED = 86_400.0  # seconds after which a temporary folder is a killed process's
_HERE, _EXCHANGE = -100, 2
"""``AT_FDCWD`` and ``RENAME_EXCHANGE`` of Linux; the latter is ``RENAME_SWAP`` of macOS."""


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Yield a temporary folder beside the target to write into; at the end of the block it replaces the target.

    The folder is synced and exchanged with an existing target, whose mode it has, in one call of the system: a kill or
    a power loss leaves the old folder or the new one, whole. Where the system has no such call, a kill between two
    renames leaves the old folder in ``.NAME.old.…`` beside the target. If two processes replace a folder at once, one's
    stays. A killed process's temporary folder is removed after a day. Raises OSError: the target can't be written.
    """
    make_folder(target.parent)
    for left in target.parent.glob(f".{escape(target.name)}.{'[0-9a-f]' * 8}"):
        with suppress(FileNotFoundError):  # another process removed it
            if time.time() - left.stat().st_mtime > _ABANDONED:
                shutil.rmtree(left, ignore_errors=True)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    temporary.mkdir()
    try:
        with suppress(FileNotFoundError):  # it is new, or another process is moving it aside
            temporary.chmod(stat.S_IMODE(target.stat().st_mode) | stat.S_IRWXU)
        yield temporary
        for path in (*temporary.rglob("*"), temporary):
            sync(path)
        try:
            temporary.rename(target)
        except OSError as error:
            if error.errno not in {errno.EEXIST, errno.ENOTEMPTY}:
                raise
            if not _exchange(temporary, target):
                _move_aside(temporary, target)
        sync(target.parent)  # before the old folder's files are removed
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Make a folder and its missing parents, and sync their names; an existing folder keeps its mode."""
    if not folder.is_dir():
        make_folder(folder.parent, mode)
        folder.mkdir(mode=mode, exist_ok=True)
        sync(folder.parent)


def make_private_folder(folder: Path) -> None:
    """Make a folder and its missing parents, for their owner alone; an existing folder keeps its mode."""
    make_folder(folder, FOLDER_MODE)


def sync(path: Path) -> None:
    """Put a file's content or a folder's names on the disk, so that they outlast a power loss."""
    if os.name == "nt":
        return  # Windows syncs no folders, and files only where they are written
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems of networks sync no folders
            raise
    finally:
        os.close(descriptor)


def require_replaceable(target: Path) -> None:
    """Check that ``replacing`` can make the folder. Raises BadInput: it is a file or a mount point, or not writable."""
    if target.exists() and not target.is_dir():
        raise BadInput(f"{target} is a file; choose another --output")
    if target.is_mount():
        raise BadInput(f"{target} is a mount point and can't be replaced; choose an --output inside it")
    parent = next(folder for folder in target.parents if folder.exists())
    try:
        tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=parent).cleanup()
    except OSError as error:
        raise BadInput(f"{target} can't be written ({error.strerror}); choose another --output") from error


def _exchange(folder: Path, other: Path) -> bool:
    """Exchange the names of two folders in one call of the system; false if that is not possible."""
    names = os.fsencode(folder), os.fsencode(other)
    try:
        library = ctypes.CDLL(None)
        if sys.platform == "darwin":
            return bool(library.renamex_np(*names, _EXCHANGE) == 0)
        return bool(library.renameat2(_HERE, names[0], _HERE, names[1], _EXCHANGE) == 0)
    except (AttributeError, TypeError):  # the C library has no such function; Windows has no such library
        return False


def _move_aside(temporary: Path, target: Path) -> None:
    """Replace a folder by two renames; if another process does so at the same time, one of the new folders stays."""
    backup = Path(tempfile.mkdtemp(prefix=f".{target.name}.old.", dir=target.parent))
    try:
        with suppress(FileNotFoundError):  # another process moved it aside
            target.rename(backup / "was")
        try:
            temporary.rename(target)
        except OSError:
            if not target.exists():
                raise  # the disk failed; no other process published the target first
        sync(target.parent)
    except BaseException:
        with suppress(OSError):  # nothing was moved aside, or the target exists
            (backup / "was").rename(target)
        if target.exists():
            shutil.rmtree(backup, ignore_errors=True)
        raise
    shutil.rmtree(backup, ignore_errors=True)
