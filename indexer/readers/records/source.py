"""Options of a reader, and the results it yields."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from encoders.document import Document

EMPTY_FILE, EMPTY_DOCUMENT = "it is empty", "its title and text are empty"
"""Texts of refusals of what has no text."""


@dataclass(frozen=True)
class Refusal:
    """A record that could not be read, and why."""

    place: str  # file and line, or id, by which a user finds the record
    text: str  # what is wrong and what to do, without the place
    doc_id: str = ""  # the record's id; empty where the record has none


@dataclass(frozen=True)
class Remark:
    """A note for the user about documents that were read; a file's remarks follow its documents."""

    place: str
    text: str  # what was done, without the file, so that a command prints one sentence for many files
    doc_id: str = ""  # the id of a document that is left out; empty where the remark is about the file


Reading = Document | Refusal | Remark


@dataclass(frozen=True)
class ReadOptions:
    """How to read a source.

    Attributes:
        format: ``jsonl``, ``csv``, ``tsv``, ``text``, ``html``, ``office``, ``mail``, ``trec``, ``mediawiki``, or of
            a shared task ``lett``, ``commentary``, ``jrc``; empty: by the file's name and first bytes.
        fields: our field (``id lang title text revision`` or any other name) → the source's name of the field.
        lang: language of records that name no language; empty: ``und``, to be detected.
        encoding: of the files, or ``PATTERN=ENCODING`` of those whose names fit, with commas between; empty: UTF-8,
            then the marked or declared encoding, then a guess.
        follow_links: whether links in a folder may lead out of it.
        languages: those of the collection, which a guess of an encoding leans on.
        strict: whether a file whose encoding must be guessed, or does not fit all of it, ends the reading.
    """

    format: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    lang: str = ""
    encoding: str = ""
    follow_links: bool = False
    strict: bool = False
    languages: Collection[str] = ()
