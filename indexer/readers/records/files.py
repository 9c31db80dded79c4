"""The files of a source: listed in a fixed order, decompressed, and read with a line count."""

import bz2
import codecs
import io
import lzma
import os
import re
import stat
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from encoders import zstd
from encoders.errors import BadInput
from indexer.readers.records.encodings import UTF8, Encoding, decide, wide_encoding
from indexer.readers.records.unread_formats import READ, TAR, TAR_MAGIC, UNREAD_MAGIC, zip_kind

RECORD_LIMIT = 64 << 20
"""Maximum bytes of a record; the limit bounds the memory for a file without line breaks."""

LONG_LINE = f"the line has more than {RECORD_LIMIT >> 20} MB; split the record"

FIRST_BYTES = 4096
"""Bytes that tell a file's format."""
_CHUNK = 64 << 10
"""Bytes that are unpacked at once: a few hundred bytes of bzip2 may unpack to gigabytes."""
_DECODED = 64 << 10
"""Bytes that are decoded at once."""
_UNPACK_MEMORY = 128 << 20
"""Memory that unpacking xz may take, the same as zstd's own bound: a file may ask for 4 GB, ``xz -9`` for 65 MB."""
_LINE_END = re.compile(r"\r(?!\n)|\n")


class UnreadableFileError(Exception):
    """A file is truncated or can't be read to its end; the message says why, without the file's name."""


class UnreadFormatError(UnreadableFileError):
    """A file is in a format that is not read here; the message names the format and the command that converts it."""


class _Decompressor(Protocol):
    """Unpacks one archive in pieces, as the classes of ``bz2``, ``lzma`` and ``compression.zstd`` do."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _GzipDecompressor:
    """gzip as a ``_Decompressor``."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(31)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._inflate.eof

    @property
    def unused_data(self) -> bytes:
        return self._inflate.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        block = self._inflate.decompress(self._inflate.unconsumed_tail + data, max_length)
        self.needs_input = len(block) < max_length
        return block


_COMPRESSIONS: dict[bytes, tuple[str, Callable[[], _Decompressor]]] = {
    b"\x1f\x8b": ("gzip", _GzipDecompressor),
    b"\x28\xb5\x2f\xfd": ("zstd", zstd.ZstdDecompressor),
    b"BZh": ("bzip2", bz2.BZ2Decompressor),
    b"\xfd7zXZ\x00": ("xz", lambda: lzma.LZMADecompressor(memlimit=_UNPACK_MEMORY)),
}
_SUFFIXES = {".gz": "gzip", ".zst": "zstd", ".bz2": "bzip2", ".xz": "xz"}


@dataclass
class SourceFile:
    """One file of a source."""

    path: Path
    name: str  # the source's name and the path in it, with ``/``; the id of a file that is one document
    title: str = ""  # how messages name the file; empty: by its path
    refused: str = ""  # why the file is not read
    line: int = 0  # number of the line that was read last, from 1; 0 before the first
    stated: str = ""  # what a person says of its encoding; a byte order mark is believed before
    encoding: Encoding = UTF8  # how its bytes are read; see ``settle``
    returns: bool = False  # whether its lines end in CR alone
    _small = False  # whether the first bytes are all of the file

    @property
    def shown(self) -> str:
        """The title or the path as readable text; bytes that are not UTF-8 are escaped."""
        return self.title or os.fsencode(self.path).decode("utf-8", "backslashreplace")

    def at(self, line: int) -> str:
        """``file:line``."""
        return f"{self.shown}:{line}"

    def record_id(self, line: int) -> str:
        """The id of a record without one: the file's name and the record's line."""
        return f"{self.name}:{line}"

    @cached_property
    def suffix(self) -> str:
        """The suffix that tells the format, in lower case; a compression's suffix is skipped."""
        suffixes = [suffix.lower() for suffix in self.path.suffixes]
        if suffixes and suffixes[-1] in _SUFFIXES:
            suffixes.pop()
        return suffixes[-1] if suffixes else ""

    def settle(self, *, html: bool = False, lang: str = "", languages: Collection[str] = ()) -> None:
        """Decide by all of the file how it is read: as stated, marked, or declared, else by a guess.

        ``lang`` is the file's language, and ``languages`` are the collection's. Raises UndecodableError: it can't be
        told; UnreadableFileError: as in ``open``.
        """
        start, stated = self._raw_start, self._wide[0] or self.stated
        self.encoding = decide(self._blocks, start, stated=stated, html=html, lang=lang, languages=languages)
        line_end = _LINE_END.search(start.decode(self.encoding.name, "ignore")) if b"\r" in start else None
        self.returns = line_end is not None and line_end[0] == "\r"

    def _blocks(self) -> Iterator[bytes]:
        with self._open_text() as stream, suppress(UnreadableFileError):  # whoever reads the file meets it again
            while block := stream.read1(_DECODED):
                yield block

    def open(self) -> io.BufferedReader:
        """Open the file's text in UTF-8 without byte order mark, decompressed. Raises as ``_open_bytes``."""
        stream = self._open_text()
        if self.encoding.name == "utf-8" and not (self.encoding.replaced or self.returns):
            return stream
        recoded = _recoded(stream, self.encoding.name, returns=self.returns)
        return io.BufferedReader(_BlockStream(stream, recoded), _CHUNK)

    def _open_text(self) -> io.BufferedReader:
        """Open the file's bytes after its byte order mark; a small file is not opened again."""
        self.line, (_, mark) = 0, self._wide
        known: Any = io.BytesIO(self._raw_start)  # typeshed's BufferedReader is generic
        stream = io.BufferedReader(known) if self._small else self._open_bytes()
        stream.read(mark)
        return stream

    def _open_bytes(self) -> io.BufferedReader:
        """Open the file's bytes, decompressed where its first bytes are of gzip, zstd, bzip2 or xz.

        Raises UnreadableFileError: the file is no regular file, can't be opened, or is packed otherwise; while the
        stream is read: the archive is broken; UnreadFormatError: the file is another program's.
        """
        if self.refused:
            raise UnreadableFileError(self.refused)
        try:
            if not stat.S_ISREG(self.path.stat().st_mode):
                raise UnreadableFileError("it is no regular file; save what it gives as a file")
            raw = self.path.open("rb")
        except OSError as error:
            nothing = isinstance(error, FileNotFoundError) and self.path.is_symlink()
            reason = "is a link to nothing" if nothing else f"can't be opened ({error.strerror})"
            raise UnreadableFileError(f"it {reason}") from error
        with ExitStack() as opened:
            opened.callback(raw.close)
            try:
                stream = self._unpacked(raw)
                opened.callback(stream.close)
                self._refuse_unread(stream.peek(8))
            except OSError as error:
                raise UnreadableFileError(f"it can't be read ({error.strerror})") from error
            opened.pop_all()
            return stream

    def _unpacked(self, raw: io.BufferedReader) -> io.BufferedReader:
        start, suffix = raw.peek(8)[:8], self.path.suffix.lower()
        compression = next((candidate for magic, candidate in _COMPRESSIONS.items() if start.startswith(magic)), None)
        if compression is None and suffix in _SUFFIXES and start:
            raise UnreadableFileError(f"it is named {self.path.suffix} but is not {_SUFFIXES[suffix]}; get it again")
        blocks = _decompressed(raw, *compression) if compression else iter(lambda: raw.read(_CHUNK), b"")
        return io.BufferedReader(_BlockStream(raw, blocks), _CHUNK)

    def _refuse_unread(self, start: bytes) -> None:
        """Refuse a format that is not read, by the first bytes of the decompressed file."""
        head, is_zip = start.removeprefix(b"\xef\xbb\xbf").lstrip(), start.startswith(b"PK\x03\x04")
        kind = next((kind for magic, kind in UNREAD_MAGIC.items() if head.startswith(magic)), "")
        kind = zip_kind(self.path) if is_zip else TAR if start[257:].startswith(TAR_MAGIC) else kind
        if kind and kind != READ:
            raise UnreadFormatError(f"it is {kind}")
        if is_zip and not kind:
            raise UnreadableFileError("it is a zip archive, or a broken document; unpack it first")

    @cached_property
    def _raw_start(self) -> bytes:
        """The first ``FIRST_BYTES``, decompressed; fewer if the file ends or can't be read on before."""
        first = b""
        with self._open_bytes() as stream:
            try:
                while len(first) < FIRST_BYTES and (more := stream.read1(FIRST_BYTES - len(first))):
                    first += more
                self._small = len(first) < FIRST_BYTES
            except UnreadableFileError:  # whoever reads the file meets it again, after what stands before it
                if not first.strip():
                    raise
        return first

    @cached_property
    def _wide(self) -> tuple[str, int]:
        return wide_encoding(self._raw_start, self.stated)

    @cached_property
    def start(self) -> bytes:
        """The first bytes, ``FIRST_BYTES`` at most, without byte order mark; in UTF-8 if that shows the encoding."""
        name, mark = self._wide
        start = self._raw_start[mark:] if mark else self._raw_start
        return start.decode(name, "ignore").encode() if name else start

    def lines(self) -> Iterator[bytes]:
        """Yield lines without end. Raises UnreadableFileError: a line exceeds ``RECORD_LIMIT``."""
        for line in self.lines_or_none():
            if line is None:
                raise UnreadableFileError(LONG_LINE)
            yield line

    def lines_or_none(self) -> Iterator[bytes | None]:
        """Yield lines as ``lines`` does; None for a line longer than ``RECORD_LIMIT``."""
        with self.open() as stream:
            while line := stream.readline(RECORD_LIMIT):
                self.line += 1
                if len(line) == RECORD_LIMIT and not line.endswith(b"\n"):
                    while (rest := stream.readline(_CHUNK)) and not rest.endswith(b"\n"):
                        pass
                    yield None
                else:
                    yield line.rstrip(b"\r\n")

    def whole(self) -> bytes:
        """Read all bytes. Raises UnreadableFileError: there are more bytes than ``RECORD_LIMIT``, or as in ``open``."""
        with self.open() as stream:
            data = stream.read(RECORD_LIMIT + 1)
        if len(data) > RECORD_LIMIT:
            raise UnreadableFileError(f"one document of more than {RECORD_LIMIT >> 20} MB; split it")
        return data


class _BlockStream(io.RawIOBase):
    """A stream of blocks of bytes that are made of another stream, which it closes."""

    def __init__(self, source: BinaryIO, blocks: Iterator[bytes]) -> None:
        self._source, self._blocks = source, blocks
        self._block = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        target = memoryview(buffer)  # type: ignore[arg-type]  # typeshed names the buffer type for checkers alone
        try:
            while not self._block:
                self._block = memoryview(next(self._blocks, b""))
                if not self._block:
                    return 0
        except OSError as error:
            raise UnreadableFileError(f"it can't be read on ({error.strerror or error})") from error
        count = min(len(target), len(self._block))
        target[:count] = self._block[:count]
        self._block = self._block[count:]
        return count

    def close(self) -> None:
        self._source.close()
        self._blocks = iter(())  # else what unpacks would stay in memory until a collection of cycles
        super().close()


def _recoded(stream: io.BufferedReader, encoding: str, *, returns: bool) -> Iterator[bytes]:
    """The text of a stream in UTF-8; what its encoding can't have is U+FFFD, and a carriage return may end a line."""
    decoder: Any = codecs.getincrementaldecoder(encoding)("replace")
    if returns:
        decoder = io.IncrementalNewlineDecoder(decoder, translate=True)
    data = b"-"
    while data:
        data = stream.read1(_DECODED)
        if text := decoder.decode(data, final=not data):
            yield text.encode("utf-8", "replace")


def _decompressed(raw: BinaryIO, name: str, new_decompressor: Callable[[], _Decompressor]) -> Iterator[bytes]:
    """Decompressed bytes of a file; archives that follow one another are joined."""
    decompressor = new_decompressor()
    begun = False
    while chunk := raw.read(_CHUNK // 4):
        while chunk or (begun and not decompressor.needs_input):
            if not begun:
                chunk = chunk.lstrip(b"\0")  # tapes pad archives with zeros
                begun = bool(chunk)
                if not begun:
                    break
            try:
                block = decompressor.decompress(chunk, _CHUNK)
            except (zlib.error, lzma.LZMAError, zstd.ZstdError, OSError) as error:
                problem = "is broken here; get it again"
                if "memory" in str(error).lower():  # liblzma and libzstd name no other reason in these words
                    problem = f"needs more than {_UNPACK_MEMORY >> 20} MB of memory; unpack it first"
                raise UnreadableFileError(f"the {name} archive {problem}") from error
            if block:
                yield block
            chunk = b""
            if decompressor.eof:
                chunk = decompressor.unused_data
                decompressor, begun = new_decompressor(), False
    if begun:
        raise UnreadableFileError(f"the {name} archive ends too early; get it again")


def _unreadable(error: OSError) -> None:
    """Raise for a folder that can't be listed: otherwise its documents would look deleted."""
    raise BadInput(f"the folder {error.filename} can't be read ({error.strerror}); see that it is yours") from error


def text_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each line's place (``file:line``) and text. Raises BadInput: the file can't be read to its end."""
    if not path.is_file():
        raise BadInput(f"{path} does not exist; get the data again")
    file = SourceFile(path, str(path))
    try:
        for line in file.lines():
            yield file.at(file.line), line.decode("utf-8", "replace").rstrip("\r\n")
    except UnreadableFileError as error:
        raise BadInput(f"{file.shown} can't be read on after line {file.line}: {error}") from error


def source_files(source: Path, *, follow_links: bool = False) -> Iterator[SourceFile]:
    """Yield a file, or all files under a folder in a fixed order; names that begin with a dot are left out.

    A file in a folder is named by the folder's own name and the path from there. A link to a folder is refused, and so
    is a link out of the source unless ``follow_links``.
    """
    if not source.is_dir():
        yield SourceFile(source, source.name)
        return
    inside, source_name = os.path.realpath(source), Path(os.path.normpath(source.absolute())).name
    for folder, subfolders, names in os.walk(source, onerror=_unreadable):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        links = [name for name in subfolders if os.path.islink(os.path.join(folder, name))]  # noqa: PTH114, PTH118
        prefix = (Path(source_name) / Path(folder).relative_to(source)).as_posix()
        for name in sorted(name for name in [*names, *links] if not name.startswith(".")):
            path = os.path.join(folder, name)  # noqa: PTH118 - a folder may have very many files
            refused = ""
            if name in links:
                refused = "it is a link to a folder; name that folder as a source"
            elif not follow_links and os.path.islink(path) and not Path(os.path.realpath(path)).is_relative_to(inside):  # noqa: PTH114
                refused = "it is a link out of its source; name what it leads to, or give --follow-links"
            yield SourceFile(Path(path), f"{prefix}/{name}", refused=refused)
