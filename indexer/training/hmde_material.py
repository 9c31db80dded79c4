"""What HMDE learns from: sources looked through, then prepared; what an earlier run prepared is taken from disk."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from encoders.console import Console
from encoders.document import Document, short_hash
from encoders.errors import BadInput
from encoders.hmde.triples import TripleDocument, page_of
from encoders.wording import counted
from indexer.indexing.reading import readings
from indexer.readers import ReadOptions, Refusal, Remark

if TYPE_CHECKING:
    from onnx_export.hmde.lower_encoders.lower import Lower, Part

_TOGETHER = 256


@dataclass(frozen=True)
class MaterialSurvey:
    """What sources hold, before anything is encoded.

    Attributes:
        pages: of the documents to learn from, in their order.
        refused: records that could not be read.
        remarks: on how sources were read.
    """

    pages: list[TripleDocument] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)


@dataclass(frozen=True)
class Material:
    """Documents that a lower encoder has taken.

    Attributes:
        pages: of its rows; of a document without a sentence that it knows, one without a concept and categories.
        hashes: of the texts, some documents each.
        cut: documents of more sentences than were kept.
    """

    pages: list[TripleDocument]
    hashes: list[str]
    cut: int


@dataclass(frozen=True)
class Sources:
    """Where documents come from.

    Attributes:
        names: files, folders, ``ir-datasets:NAME``.
        options: how to read them.
        languages: to learn from; all where there are none.
    """

    names: Sequence[str]
    options: ReadOptions
    languages: Sequence[str]

    def survey(self, console: Console) -> MaterialSurvey:
        """Read them once.

        Raises:
            BadInput: there is nothing to learn from in them, with the reason.
        """
        found, elsewhere = MaterialSurvey(), 0
        with console.progress("reading", None, "documents") as progress:
            for reading in readings(self.names, self.options):
                match reading:
                    case Document():
                        if self._wanted(reading):
                            found.pages.append(page_of(reading.lang, reading.fields))
                        else:
                            elsewhere += 1
                        progress(1)
                    case Refusal():
                        found.refused.append(reading)
                    case Remark():
                        found.remarks.append(reading)
        if found.pages:
            return found
        names = ", ".join(self.names)
        if elsewhere:
            others = counted(elsewhere, "is in another language", "are in other languages")
            raise BadInput(
                f"no document of {names} is in {', '.join(self.languages)} ({others}); name theirs in --languages"
            )
        why = f"{found.refused[0].where}: {found.refused[0].reason}" if found.refused else "they are empty"
        raise BadInput(f"no document could be read from {names} ({why}); give sources that have some")

    def documents(self) -> Iterator[Document]:
        """Those to learn from, each with a language."""
        everything = readings(self.names, self.options)
        return (one for one in everything if isinstance(one, Document) and self._wanted(one))

    def _wanted(self, document: Document) -> bool:
        return not self.languages or document.lang in self.languages


def prepare(sources: Sources, total: int, lower: Lower, place: Path, lower_id: str, console: Console) -> Material:
    """Give a lower encoder all documents; what an earlier run has prepared of the same ones is taken from disk.

    Args:
        sources: of the documents.
        total: how many there are, for the time left.
        lower: what takes them.
        place: folder of what is prepared.
        lower_id: identifies the lower encoder and what it keeps.
        console: where progress goes.

    Raises:
        BadInput: the sources no longer give as many documents.
        MissingPart: the disk is full.
    """
    pages: list[TripleDocument] = []
    hashes: list[str] = []
    parts: list[Part] = []
    waiting: list[Document] = []

    def take() -> None:
        hashes.append(short_hash(lower_id, *(document.text_hash for document in waiting)))
        part = prepared(waiting, lower, place / f"part-{len(parts):05}.npz", hashes[-1], console)
        parts.append(part)
        for document, count in zip(waiting, part["counts"], strict=True):
            page = page_of(document.lang, document.fields)
            # What has no sentence the encoder knows is nobody's mate and nobody's negative.
            pages.append(page if count else TripleDocument("", document.lang, ()))
        waiting.clear()

    with console.progress("preparing", total, "documents") as progress:
        for document in sources.documents():
            waiting.append(document)
            if len(waiting) == _TOGETHER:
                take()
            progress(1)
        if waiting:
            take()
    if len(pages) != total:
        raise BadInput(
            f"the sources gave {counted(total, 'document')} and, read once more, {len(pages):,}; give the same command "
            "again when they can be read whole"
        )
    lower.take(parts)
    return Material(pages, hashes, cut=sum(int((part["left_out"] > 0).sum()) for part in parts))


def prepared(documents: Sequence[Document], lower: Lower, file: Path, digest: str, console: Console) -> Part:
    """What an earlier run kept of some documents in a file, where it is whole and of these; else made and kept."""
    from onnx_export.training.checkpoint import write_whole  # noqa: PLC0415 - torch

    if file.is_file():
        try:
            with np.load(io.BytesIO(file.read_bytes())) as kept:
                if str(kept["digest"]) == digest:
                    return {name: kept[name] for name in kept.files if name != "digest"}
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
            console.warn(f"{file} can't be read ({error}); its documents are prepared again")
    part = lower.prepare(documents)
    buffer = io.BytesIO()
    arrays: dict[str, Any] = {"digest": np.array(digest), **part}
    np.savez(buffer, **arrays)
    write_whole(file, buffer.getvalue())
    return part
