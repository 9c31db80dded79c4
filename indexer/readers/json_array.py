"""Cut a JSON array into its elements without parsing them, so that memory does not grow with the file."""

from __future__ import annotations

import re
from collections.abc import Iterator

from indexer.readers.files import RECORD_LIMIT, SourceFile

_CHUNK = 64 << 10
_STRUCTURE = re.compile(rb'[\[\]{},"]')
_STEPS = {b"[": 1, b"{": 1, b"]": -1, b"}": -1}
"""Change of the depth by a bracket."""
_IN_STRING = re.compile(rb'["\\]')


class ArrayError(Exception):
    """The file is no complete array; the message says why, without the file's name."""


def elements(file: SourceFile) -> Iterator[bytes | None]:
    """Yield the bytes of each element of the array; None for an element longer than ``RECORD_LIMIT``.

    The encoding must have the bytes of ASCII for ASCII characters alone, as UTF-8 and ISO 8859 have.

    Raises:
        ArrayError: after the last element, the array does not end, or more stands after its end.
        UnreadableFileError: as in ``SourceFile.open``.
    """
    element: bytearray | None = bytearray()
    depth = count = 0
    begun = False
    for piece, token in _pieces(file):
        if not begun:
            begun, depth = token == b"[", int(token == b"[")
        elif depth == 0:
            if piece.strip():
                raise ArrayError("more stands after the end of its array; write one object a line, as jq -c does")
        else:
            depth += _STEPS.get(token, 0)
            ends = depth == 0 or (depth == 1 and token == b",")
            if element is not None:
                element += piece[:-1] if ends else piece
                element = None if len(element) > RECORD_LIMIT else element
            if ends:
                if element is None or element.strip():
                    count += 1
                    yield None if element is None else bytes(element)
                element = bytearray()
    if depth:
        raise ArrayError("its array does not end; what came before is kept; get it again")
    if not count:
        raise ArrayError("its array is empty")


def _pieces(file: SourceFile) -> Iterator[tuple[bytes, bytes]]:
    """Cut a file after each ``[ ] { } ,`` that is not in a string; yield the piece and this last character, if any."""
    in_string = escaped = False
    with file.open() as stream:
        while chunk := stream.read1(_CHUNK):
            start = position = 0
            if escaped:
                position, escaped = 1, False
            while match := (_IN_STRING if in_string else _STRUCTURE).search(chunk, position):
                position = match.end()
                token = match[0]
                if token == b"\\":
                    position += 1
                elif token == b'"':
                    in_string = not in_string
                else:
                    yield chunk[start:position], token
                    start = position
            escaped = position > len(chunk)
            if start < len(chunk):
                yield chunk[start:], b""
