"""What a reader is told and what it yields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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
class ReadOptions:
    """How to read a source.

    Attributes:
        format: ``jsonl``, ``csv``, ``tsv``, ``text``, ``html``, ``trec``; empty: by the file's name and first bytes.
        fields: our field (``id lang title text revision`` or any other name) → the source's name for it.
        lang: language of records that name none; empty: left ``und``, to be detected.
    """

    format: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    lang: str = ""
