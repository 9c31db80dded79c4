"""Spool: a chunk's documents as compressed JSON lines. A worker unpacks exactly what the reader yielded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from encoders import zstd
from encoders.document import Document

_LEVEL = 3


def pack(documents: Sequence[Document]) -> bytes:
    """Documents → bytes; an unpaired surrogate in a text survives as an escape."""
    lines = "\n".join(json.dumps(asdict(document)) for document in documents)
    return zstd.compress(lines.encode("ascii"), _LEVEL)


def pack_ids(documents: Sequence[Document]) -> bytes:
    """Ids and languages of stored documents → bytes, without texts; the revision is too low to replace a document's."""
    return pack([Document(document.doc_id, document.lang, "", revision=-1) for document in documents])


def unpack(spool: bytes) -> list[Document]:
    """Bytes → documents."""
    lines = zstd.decompress(spool).decode("ascii")
    return [Document(**json.loads(line)) for line in lines.split("\n") if line]
