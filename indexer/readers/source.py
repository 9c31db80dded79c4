"""What a reader is told and what it yields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from encoders.document import Document


@dataclass(frozen=True)
class Refusal:
    """A record that could not be read, and why.

    Attributes:
        where: file and line, or id: what a person looks for.
        reason: what is wrong and what to do, without the place.
        doc_id: the record's id where one was found.
    """

    where: str
    reason: str
    doc_id: str = ""


@dataclass(frozen=True)
class Remark:
    """Something about documents that were read which a person should know; once a file, after its documents.

    Attributes:
        where: the file.
        text: what was done, without the place: which encoding was used, which tags were taken. The same sentence for
            every file, so that a command can say it once for many.
    """

    where: str
    text: str


Reading = Document | Refusal | Remark


@dataclass(frozen=True)
class ReadOptions:
    """How to read a source.

    Attributes:
        format: ``jsonl``, ``csv``, ``tsv``, ``text``, ``html``, ``trec``; empty: by the file's name and first bytes.
        fields: our field (``id lang title text revision`` or any other name) → the source's name for it.
        lang: language of records that name none; empty: left ``und``, to be detected.
        encoding: of the files, by a name Python knows; empty: UTF-8, then what the file declares or its language uses.
    """

    format: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    lang: str = ""
    encoding: str = ""
