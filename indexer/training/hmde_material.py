"""Training material of HMDE: survey the sources, then prepare documents or load what an earlier run prepared."""

import io
import zipfile
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from encoders.console import Console
from encoders.document import Document, short_hash
from encoders.errors import BadInput
from encoders.folder.training_texts import text_key
from encoders.hmde.triples import TripleDocument, page_of
from encoders.phrases import counted
from indexer.readers.source_documents import SourceDocuments, Sources

if TYPE_CHECKING:
    from onnx_export.hmde.lower_encoders.lower import Lower, Part

_BATCH = 256


@dataclass(frozen=True)
class Material:
    """Documents that the lower encoder has prepared."""

    pages: list[TripleDocument]  # of the rows; without concept and categories if no sentence is known
    hashes: list[str]  # a hash of the texts of each batch of documents
    text_keys: Sequence[int]  # (pages,) key of each document's text
    cut: int  # number of documents with more sentences than the lower encoder keeps


def survey(sources: Sources, console: Console) -> tuple[list[TripleDocument], SourceDocuments]:
    """Read all sources; returns a page for each document to learn from, and what was met. Raises BadInput: no page."""
    documents = SourceDocuments(sources)
    with console.progress("reading", None, "documents") as progress:
        pages = [page_of(document.lang, document.fields) for document in documents.read(progress)]
    if pages:
        return pages, documents
    raise documents.nothing_read()


def prepare(sources: Sources, total: int, lower: "Lower", place: Path, lower_id: str, console: Console) -> Material:
    """Prepare the ``total`` documents that the survey counted for a lower encoder, in batches.

    An earlier run's batches in ``place`` are loaded if they are of the same texts and the same ``lower_id``: the lower
    encoder and its settings. Raises BadInput: the sources now give another number; MissingPart: the disk is full.
    """
    pages: list[TripleDocument] = []
    hashes: list[str] = []
    text_keys = array("Q")
    parts: list[Part] = []
    documents = SourceDocuments(sources).read()
    with console.progress("preparing", total, "documents") as progress:
        while batch := list(islice(documents, _BATCH)):
            text_keys.extend(text_key(document.text_hash) for document in batch)
            hashes.append(short_hash(lower_id, *(document.text_hash for document in batch)))
            part = load_or_prepare(batch, lower, place / f"part-{len(parts):05}.npz", hashes[-1], console)
            parts.append(part)
            for document, count in zip(batch, part["counts"], strict=True):
                page = page_of(document.lang, document.fields)
                # A document without a sentence that the encoder knows is no page's mate and no page's negative.
                pages.append(page if count else TripleDocument("", document.lang, ()))
                progress(1)
    if len(pages) != total:
        raise BadInput(
            f"the sources gave {counted(total, 'document')} and, read once more, {len(pages):,}; give the same command "
            "again when they can be read whole"
        )
    lower.take(parts)
    return Material(pages, hashes, text_keys, cut=sum(int((part["left_out"] > 0).sum()) for part in parts))


def load_or_prepare(documents: Sequence[Document], lower: "Lower", file: Path, digest: str, console: Console) -> "Part":
    """Load a batch from a file if the file is readable and has this digest; else prepare it and write the file."""
    from onnx_export.training.training_checkpoint import write_whole  # noqa: PLC0415 - torch

    if file.is_file():
        try:
            with np.load(io.BytesIO(file.read_bytes())) as stored:
                if str(stored["digest"]) == digest:
                    return {name: stored[name] for name in stored.files if name != "digest"}
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
            console.warn(f"{file} can't be read ({error}); its documents are prepared again")
    part = lower.prepare(documents)
    arrays: dict[str, Any] = {"digest": np.array(digest), **part}
    write_whole(file, lambda out: np.savez(out, **arrays))
    return part
