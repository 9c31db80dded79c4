"""Spool: a chunk's documents as compressed JSON lines. A worker unpacks exactly what the reader yielded."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from encoders import zstd
from encoders.document import Document
from encoders.errors import StoreError

_LEVEL = 3


def pack(documents: Sequence[Document]) -> bytes:
    """Documents → bytes, without their places; an unpaired surrogate in a text survives as an escape."""
    kept = ({name: value for name, value in asdict(document).items() if name != "place"} for document in documents)
    return zstd.compress("\n".join(map(json.dumps, kept)).encode("ascii"), _LEVEL)


def pack_ids(documents: Sequence[Document]) -> bytes:
    """Ids and languages of stored documents → bytes, without texts; the revision is too low to replace a document's."""
    return pack([Document(document.doc_id, document.lang, "", revision=-1) for document in documents])


def unpack(spool: bytes) -> list[Document]:
    """Bytes → documents. Raises StoreError: they are another version's, or damaged."""
    try:
        return [Document(**json.loads(line)) for line in zstd.decompress(spool).decode("ascii").split("\n") if line]
    except (ValueError, TypeError, zstd.ZstdError) as error:
        raise StoreError(
            "its documents can't be read: another version of Dragoman handed them out; start a worker of that version, "
            "or give the run up (dragoman cancel) and index again"
        ) from error
