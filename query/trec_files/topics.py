"""The topics of an evaluation, read from CLEF and TREC markup, TSV or JSON lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from encoders.document import Document
from encoders.errors import BadInput
from encoders.languages import UNDETERMINED, normalise
from indexer.readers.newspapers.markup import Tag, tokens
from indexer.readers.records.encodings import UndecodableError, known_encoding
from indexer.readers.records.files import SourceFile, UnreadableFileError
from indexer.readers.records.record import clean_line

PARTS = ("title", "description", "narrative")
FIELDS = ("title", "description")
"""Parts of a topic that form the query, unless others are named."""

_CLEF_QID = re.compile(r"(?:10\.2452/)?(?:C0*([1-9]\d*)|0*([1-9]\d*)-[A-Z]{2})", re.IGNORECASE)
_TAGS = {
    **dict.fromkeys(("NUM", "NUMBER", "IDENTIFIER", "QID"), "qid"),
    "TITLE": "title",
    **dict.fromkeys(("DESC", "DESCRIPTION"), "description"),
    **dict.fromkeys(("NARR", "NARRATIVE"), "narrative"),
}
_LEADING_WORD = {
    "qid": re.compile(r"\s*Number\s*:", re.IGNORECASE),
    "title": re.compile(r"\s*Topic\s*:", re.IGNORECASE),
    "description": re.compile(r"\s*Description\s*:", re.IGNORECASE),
    "narrative": re.compile(r"\s*Narrative\s*:", re.IGNORECASE),
}
_NAMES_OF_IDS = {"id", "_id", "qid", "query_id", "query-id", "topic", "topic_id", "number", "num"}
"""Names of the id column in other tools' headers."""
_TAGGED = re.compile(rb"<(de|en|es|fi|fr|it|nl|pt|ru|sv)-title>", re.IGNORECASE)
"""The first language of CLEF's topics, many of which are in an encoding older than UTF-8."""
_RECORD = re.compile(r"<(top|topic)(?=[\s>])", re.IGNORECASE)


@dataclass(frozen=True)
class Topic:
    """A question with judged answers."""

    qid: str  # id of the topic, the same in every language
    lang: str  # normalised BCP 47 tag; ``und`` if the language is not stated
    title: str
    description: str = ""
    narrative: str = ""  # what counts as relevant

    def text(self, fields: Sequence[str] = FIELDS) -> str:
        """The non-empty parts of ``fields``, joined by a blank. Raises BadInput: a field is no part of a topic."""
        if unknown := [name for name in fields if name not in PARTS]:
            raise BadInput(f"a topic has no {unknown[0]!r}; its parts are {', '.join(PARTS)}")
        return " ".join(part for name in fields if (part := getattr(self, name)))


def queries_of(topics: Sequence[Topic], fields: Sequence[str] = FIELDS) -> list[Document]:
    """Queries of topics with id and language, unless ``fields`` have no text. Raises BadInput: as ``Topic.text``."""
    return [Document(topic.qid, topic.lang, text) for topic in topics if (text := topic.text(fields).strip())]


def normalise_qid(qid: str) -> str:
    """Strip a topic's additions: ``C141``, ``141-AH``, ``10.2452/141-AH`` are ``141``; ``051`` is ``51``."""
    qid = qid.strip()
    if qid.isdecimal():
        return qid.lstrip("0") or "0"
    match = _CLEF_QID.fullmatch(qid)
    return (match[1] or match[2]) if match else qid


def read_topics(path: str | Path, *, lang: str = "", encoding: str = "") -> list[Topic]:
    """Read topics from one file, in the file's order.

    ``path`` is CLEF or TREC markup, XML, TSV with the header ``qid lang title description narrative`` (of which qid and
    title are needed), TSV of id and text, or JSON lines with these names; it may be compressed. ``lang`` is for topics
    that name none, ``und`` if empty. An empty ``encoding`` is UTF-8, then the declared one or those usual for the
    language. Raises BadInput: the file has no topic, or a topic no id, no text, an unknown language, or occurs twice.
    """
    file = SourceFile(Path(path), str(path))
    stated = known_encoding(encoding) if encoding else ""
    try:
        tagged = _TAGGED.search(file.start)
        hint = normalise(lang or (tagged[1].decode() if tagged else ""))
        file.settle(stated, lang=hint.removeprefix(UNDETERMINED))
        text = file.whole().decode("utf-8", "replace")
    except (UnreadableFileError, UndecodableError) as error:
        raise BadInput(f"the topics {file.shown} can't be read: {error}") from error
    if "\0" in text:
        raise BadInput(f"the topics {file.shown} are binary; give a text file")
    start = text.lstrip()[:1]
    read = _json_lines if start == "{" else _markup if start == "<" else _tsv
    topics = list(_checked(read(text, file), file, lang))
    if not topics:
        raise BadInput(f"{file.shown} holds no topic; it should be <top> markup, TSV with a header, or JSON lines")
    return topics


_Record = tuple[int, Mapping[str, Any]]


def _checked(records: Iterable[_Record], file: SourceFile, default_lang: str) -> Iterator[Topic]:
    seen: dict[tuple[str, str], int] = {}
    for line, record in records:
        for name, value in record.items():
            if not isinstance(value, str) and not (name == "qid" and type(value) is int):
                raise BadInput(f"{file.at(line)}: the topic's {name} is a {type(value).__name__}; write it as a string")
        values = {name: clean_line(str(value)) for name, value in record.items()}
        qid = normalise_qid(values.get("qid", ""))
        if not qid:
            raise BadInput(f"{file.at(line)}: a topic has no id; give it one")
        if " " in qid:
            raise BadInput(
                f"{file.at(line)}: the topic's id {qid!r} holds a blank, which qrels and runs can't; rename it"
            )
        if not any(values.get(part) for part in PARTS):
            raise BadInput(
                f"{file.at(line)}: topic {qid} has no title, description or narrative; fill one or take it out"
            )
        try:
            lang = normalise(values.get("lang", ""))
            lang = normalise(default_lang) if lang == UNDETERMINED else lang
        except BadInput as error:
            raise BadInput(f"{file.at(line)}: topic {qid}: {error}") from error
        if (first_line := seen.setdefault((qid, lang), line)) != line:
            raise BadInput(f"{file.at(line)}: topic {qid} in {lang} stands on line {first_line} already; take one out")
        yield Topic(qid, lang, *(values.get(part, "") for part in PARTS))


def _json_lines(text: str, file: SourceFile) -> Iterator[_Record]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BadInput(f"{file.at(number)} is not valid JSON ({error}); write one topic a line") from error
        if not isinstance(record, dict):
            raise BadInput(f"{file.at(number)} is no JSON object; write {{'qid': …, 'lang': …, 'title': …}}")
        record = {"qid": record.get("id"), **record}
        yield number, {name: record[name] for name in ("qid", "lang", *PARTS) if record.get(name) is not None}


def _tsv(text: str, file: SourceFile) -> Iterator[_Record]:
    lines = text.split("\n")
    header = [name.strip().lower() for name in lines[0].split("\t")]
    first = 1
    if "qid" not in header or not set(PARTS) & set(header):
        if len(header) != 2 or header[0] in _NAMES_OF_IDS:
            raise BadInput(
                f"{file.at(1)} is no header of topics; it should be: qid, lang, title, description, with tabs between, "
                "or leave it out and give two columns, id and text"
            )
        header, first = ["qid", "title"], 0
    for number, line in enumerate(lines[first:], start=first + 1):
        if not line.strip():
            continue
        values = line.rstrip("\r").split("\t")
        if len(values) > len(header):
            raise BadInput(
                f"{file.at(number)} has {len(values)} columns and should have {len(header)}; take out the extra tabs"
            )
        record = dict(zip(header, values, strict=False))
        yield number, {name: record[name] for name in ("qid", "lang", *PARTS) if name in record}


def _markup(text: str, file: SourceFile) -> Iterator[_Record]:
    starts = [match.start() for match in _RECORD.finditer(text)]
    if not starts:
        raise BadInput(f"{file.shown} holds no <top> or <topic>; give topics in CLEF or TREC markup, TSV or JSON lines")
    line, position = 1, 0
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        line += text.count("\n", position, start)
        position = start
        for record in _versions(text[start:end]):
            yield line, record


def _versions(markup: str) -> list[dict[str, str]]:
    """The versions of one ``<top>``: one for each language, which the prefix of the tags or an attribute names."""
    qid, lang, current = "", "", ("", "")
    parts: dict[str, dict[str, list[str]]] = {}
    for token in tokens(markup):
        if isinstance(token, str):
            if current[1] == "qid":
                qid += token
            elif current[1]:
                parts.setdefault(current[0], {}).setdefault(current[1], []).append(token)
        elif token.closes:
            current = ("", "") if _part(token)[1] or token.name in ("TOP", "TOPIC") else current
        elif token.name in ("TOP", "TOPIC"):
            lang = next(
                (token.attributes[name] for name in ("lang", "xml:lang", "language") if name in token.attributes), ""
            )
            qid = next((token.attributes[name] for name in ("number", "id", "num") if name in token.attributes), "")
        elif (part := _part(token))[1]:
            current = part
            qid = "" if part[1] == "qid" else qid
    qid = _LEADING_WORD["qid"].sub("", qid).strip()
    return [
        {
            "qid": qid,
            "lang": prefix or lang,
            **{name: _LEADING_WORD[name].sub("", "".join(text)) for name, text in version.items()},
        }
        for prefix, version in parts.items()
    ] or [{"qid": qid}]


def _part(tag: Tag) -> tuple[str, str]:
    """Language and part of a tag: ``EN-title`` is the title in English; the part of any other tag is empty."""
    lang, _, name = tag.name.rpartition("-")
    return lang.lower(), _TAGS.get(name, "")
