"""A chunk's documents as bytes: JSON lines, compressed. What a worker reads is what the reader yielded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

import zstandard

from encoders.document import Document

_LEVEL = 3


def packed(documents: Sequence[Document]) -> bytes:
    """Documents → bytes; half a surrogate in a text survives, as an escape."""
    lines = "\n".join(json.dumps(asdict(document)) for document in documents)
    return zstandard.ZstdCompressor(level=_LEVEL).compress(lines.encode("ascii"))


def packed_ids(documents: Sequence[Document]) -> bytes:
    """Documents that a store holds → bytes, without what whoever unpacks them reads there.

    Their revision is older than any: should they be put as they are, the store keeps what it holds.
    """
    return packed([Document(document.doc_id, document.lang, "", revision=-1) for document in documents])


def unpacked(spool: bytes) -> list[Document]:
    """The documents again."""
    lines = zstandard.ZstdDecompressor().decompress(spool).decode("ascii")
    return [Document(**json.loads(line)) for line in lines.split("\n") if line]
