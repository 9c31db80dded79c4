"""The topics of an evaluation, read from CLEF and TREC markup, TSV, JSON lines or a data set."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from encoders.console import Console
from encoders.document import Document
from encoders.errors import BadInput
from encoders.languages import COUNTRIES, MISTAKABLE, UNDETERMINED, normalise
from indexer.readers import irdatasets
from indexer.readers.newspapers.markup import Tag, tokens
from indexer.readers.records.encodings import UndecodableError, known_encoding
from indexer.readers.records.files import SourceFile, UnreadableFileError
from indexer.readers.records.record import clean_line

PARTS = ("title", "description", "narrative")
FIELDS = ("title", "description")
"""Parts of a topic that form the query, unless others are named."""

_CLEF_QID = re.compile(r"(?:10\.2452/)?(?:C0*([1-9]\d*)|0*([1-9]\d*)-[A-Z]{2})", re.IGNORECASE)
_NAMES = {
    "qid": ("qid", "query_id", "query-id", "_id", "id", "topic_id", "identifier", "number", "num", "topic"),
    "lang": ("lang", "language", "xml:lang", "tlang"),
    "title": ("title", "topic_title", "query", "text"),
    "description": ("description", "desc", "topic_description", "question", "text"),
    "narrative": ("narrative", "narr", "topic_narrative"),
}
"""What files call a topic's id, language and parts; the first that a topic has counts."""
_TAGS = {name for names in _NAMES.values() for name in names} - {"topic"}
_INLINE = frozenset(("B", "BR", "EM", "I", "P", "U"))
"""Tags inside a part; any other ends a part that has no end tag."""
_LETTERS = {"a": "ar", "c": "zh", "d": "nl", "e": "en", "f": "fr", "g": "de", "i": "it", "s": "es"}
"""Languages in the tags of TREC, such as ``E-title``."""
_LEADING_WORD = {
    "qid": re.compile(r"\s*Num(?:ber)?\s*:", re.IGNORECASE),
    "title": re.compile(r"\s*Topic\s*:", re.IGNORECASE),
    "description": re.compile(r"\s*Description\s*:", re.IGNORECASE),
    "narrative": re.compile(r"\s*Narrative\s*:", re.IGNORECASE),
}
_LANG = re.compile(rb"""<([a-z]{2})-title|<top(?:ic)?\s[^<>]*?lang\s*=\s*["']?([a-z]{2})""", re.IGNORECASE)
"""The language of the first topic, by its tags."""
_DOUBTFUL = {lang: f"{lang!r} is {meaning}" for lang, meaning in MISTAKABLE.items()} | {
    UNDETERMINED: "there are topics that name no language; write it into the file, or give --lang en to evaluate"
}
"""What is said of a language that may not be meant."""
_COMMENT = re.compile(r"<!--(?:(?!<!--).)*?-->", re.DOTALL)
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
        """The non-empty parts of ``fields``, joined by a blank. Raises BadInput: there are none, or no parts."""
        if not fields:
            raise BadInput(f"--fields names no part of a topic; its parts are {', '.join(PARTS)}")
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
    """Read topics from one file, or from ``ir-datasets:NAME``, in their order.

    ``path`` is CLEF or TREC markup, XML, TSV with the header ``qid lang title description narrative`` (of which qid and
    one part are needed) or the names of other tools, TSV of id and text, or JSON lines with such names; it may be
    compressed. ``lang`` is for topics that name none, ``und`` if empty. An empty ``encoding`` is UTF-8, then the
    declared one or those usual for the language. Raises BadInput: there is no topic, or a topic has no id, no text, an
    unknown language, or occurs twice; MissingPart: a data set needs an extra that is not installed.
    """
    if name := irdatasets.dataset_name(path):
        return list(_checked(_dataset(name), SourceFile(Path(path), str(path)), lang))
    file = SourceFile(Path(path), str(path), stated=known_encoding(encoding) if encoding else "")
    try:
        tagged = _LANG.search(file.start)
        tag = (tagged[1] or tagged[2]).decode().lower() if tagged else ""
        file.settle(lang=normalise(lang).removeprefix(UNDETERMINED) or tag)
        text = file.whole().decode("utf-8", "replace")
    except (UnreadableFileError, UndecodableError) as error:
        raise BadInput(f"the topics {file.shown} can't be read: {error}") from error
    if "\0" in text:
        raise BadInput(f"the topics {file.shown} are binary; give a text file")
    start = text.lstrip()[:1]
    read = _json_lines if start in ("{", "[") else _markup if start == "<" else _tsv
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
        if lang in _DOUBTFUL:
            Console().warn_once(f"{file.shown}: {_DOUBTFUL[lang]}")
        if first := seen.get((qid, lang)):
            raise BadInput(f"{file.at(line)}: topic {qid} in {lang} stands on line {first} already; take one out")
        seen[qid, lang] = line
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
            raise BadInput(
                f"{file.at(number)} is no JSON object; write one a line: {{'qid': …, 'lang': …, 'title': …}}"
            )
        for version in _by_language(record):
            yield number, _record(version)


def _record(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a topic by our names; a value that a file calls by another name counts once."""
    known = {name.lower(): value for name, value in values.items() if value is not None}
    names = {part: next((name for name in part_names if name in known), "") for part, part_names in _NAMES.items()}
    if names["description"] == names["title"]:
        names["description"] = ""
    return {part: known[name] for part, name in names.items() if name}


def _by_language(topic: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The versions of a topic of NeuCLIR or HC4: of two in a language the original, else the human translation."""
    versions = topic.get("topics")
    if not isinstance(versions, list) or not all(isinstance(version, dict) for version in versions):
        return [topic]
    by_lang: dict[str, Mapping[str, Any]] = {}
    for source in ("original", "human translation", None):
        for version in versions:
            if source in (None, version.get("source")):
                by_lang.setdefault(str(version.get("lang")), {**topic, **version})
    return list(by_lang.values())


def _dataset(name: str) -> Iterator[_Record]:
    """The topics of ``ir-datasets:NAME``; of parts that are in two languages, those of the data set's language."""
    for number, (query, lang) in enumerate(irdatasets.rows(name, "queries"), start=1):
        values = {name: value for name, value in query._asdict().items() if isinstance(value, str)}
        record = _record({"lang": lang, **values})
        yield number, record if set(PARTS) & set(record) else {**record, "title": query.default_text()}


def _tsv(text: str, file: SourceFile) -> Iterator[_Record]:
    lines = text.split("\n")
    header = [name.strip().lower() for name in lines[0].split("\t")]
    first = 1
    named = _record({name: name for name in header})
    if "qid" not in named or not set(PARTS) & set(named):
        if len(header) != 2 or header[0] in _NAMES["qid"]:
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
        yield number, _record(dict(zip(header, values, strict=False)))


def _markup(text: str, file: SourceFile) -> Iterator[_Record]:
    text = _COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), text)
    starts = [match.start() for match in _RECORD.finditer(text)]
    if not starts:
        raise BadInput(f"{file.shown} holds no <top> or <topic>; give topics in CLEF or TREC markup, TSV or JSON lines")
    line, position = 1, 0
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        line += text.count("\n", position, start)
        position = start
        for record in _versions(text[start:end]):
            code = record["lang"].strip()
            if lang := COUNTRIES.get(code.lower(), ""):
                Console().warn_once(f"{file.shown}: the language {code.upper()} is read as a country's code: {lang!r}")
            yield line, record | {"lang": lang or code}


def _versions(markup: str) -> list[dict[str, str]]:
    """The versions of a ``<top>``, by the language of its tags; without tags all of its text is the title."""
    marks = list(tokens(markup))
    closed = {mark.name for mark in marks if isinstance(mark, Tag) and mark.closes}
    topic, current, current_tag = Tag("", closes=False), ("", ""), ""
    texts: dict[str, dict[str, list[str]]] = {"": {"": []}}  # by language and tag; the tag of other tags is empty
    for mark in marks:
        if isinstance(mark, str):
            pass
        elif mark.name in ("TOP", "TOPIC"):
            topic, current = (topic if mark.closes else mark), ("", "")
        elif (part := _part(mark))[1]:
            current, current_tag = ("", "") if mark.closes else part, mark.name
        elif current_tag not in closed and mark.name not in _INLINE:
            current = ("", "")
        texts.setdefault(current[0], {}).setdefault(current[1], []).append(mark if isinstance(mark, str) else " ")
    parts = {lang: {name: "".join(text) for name, text in named.items()} for lang, named in texts.items()}
    shared = _record(topic.attributes) | _record(parts[""])
    versions = {lang: version for lang, named in parts.items() if set(PARTS) & set(version := _record(named))}
    return [
        {
            name: _LEADING_WORD[name].sub("", text) if name in _LEADING_WORD else text
            for name, text in {**version, "qid": shared.get("qid", ""), "lang": lang or shared.get("lang", "")}.items()
        }
        for lang, version in (versions or {"": {"title": parts[""][""]}}).items()
    ]


def _part(tag: Tag) -> tuple[str, str]:
    """Language and part of a tag: ``EN-title`` is the title in English; the part of any other tag is empty."""
    prefix, _, name = tag.name.lower().rpartition("-")
    if name not in _TAGS or len(prefix) > 3:
        return "", ""
    lang = _LETTERS.get(prefix, prefix) or _record(tag.attributes).get("lang", "")
    return "" if name in _NAMES["qid"] else lang, name
