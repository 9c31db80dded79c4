"""Read, count and fingerprint sources; a file's suffix or first bytes choose its reader."""

import hashlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple
from weakref import WeakKeyDictionary, finalize

from encoders.document import Document, short_hash
from encoders.errors import BadInput, StoreError
from encoders.languages import MISTAKABLE, UNDETERMINED, normalise
from indexer.readers import elastic_source, irdatasets
from indexer.readers.delimited import read_csv, read_tsv
from indexer.readers.jsonl import read_jsonl
from indexer.readers.mails import MAIL, read_mails
from indexer.readers.newspapers.sgml import newspapers_language, read_sgml
from indexer.readers.office import read_office
from indexer.readers.records.encodings import UndecodableError, stated_encoding, stated_parts
from indexer.readers.records.files import FIRST_BYTES, SourceFile, UnreadableFileError, UnreadFormatError, source_files
from indexer.readers.records.source import EMPTY_FILE, Reading, ReadOptions, Refusal, Remark
from indexer.readers.tasks import COMMENTARY, JRC, read_commentary, read_jrc, read_lett
from indexer.readers.whole_files import read_html, read_text
from indexer.readers.wikis.mediawiki import is_table, items_table, read_mediawiki

_READERS: dict[str, Callable[[SourceFile, ReadOptions], Iterator[Reading]]] = {
    "jsonl": read_jsonl,
    "csv": read_csv,
    "tsv": read_tsv,
    "text": read_text,
    "html": read_html,
    "office": read_office,
    "mail": read_mails,
    "trec": read_sgml,
    "mediawiki": read_mediawiki,
    "lett": read_lett,
    "commentary": read_commentary,
    "jrc": read_jrc,
}
FORMATS = tuple(_READERS)
_OFFICE = (b"%PDF-", b"PK\x03\x04")  # another archive is refused when it is opened
_STATES_ENCODING = frozenset(("office", "mail", "mediawiki", "lett", "commentary", "jrc"))
"""Formats that fix or state their encoding; their files may be large, and are not read twice."""
_BY_SUFFIX = {
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    ".csv": "csv",
    ".tsv": "tsv",
    **dict.fromkeys((".html", ".htm", ".xhtml"), "html"),
    **dict.fromkeys((".sgml", ".sgm", ".trec"), "trec"),
    ".lett": "lett",
    **dict.fromkeys((".md", ".markdown"), "text"),
    **dict.fromkeys((".eml", ".mbox", ".mht", ".mhtml"), "mail"),
}
_LEFT_OUT = {
    ".dtd": "a DTD and was left out",
    **dict.fromkeys((".css", ".js", ".mjs"), "a program or a style of pages and was left out; --format text reads it"),
    **dict.fromkeys((".gif", ".ico", ".jpeg", ".jpg", ".png", ".svg", ".webp"), "a picture and was left out"),
}
"""Suffixes of what lies beside documents and saved pages."""
_ARRAY_OF_OBJECTS = re.compile(rb"\[\s*\{")
_XML_START = re.compile(
    rb"(?:<!--.*?-->\s*|<!doctype[^<>\[]*\[.*?\]\s*>\s*|<[?!][^<>]*>\s*)*+<([a-z_][\w.:-]*)(?:\s[^<>]*)?/?>", re.DOTALL
)
_XML_SUFFIXES = (".xml", ".rss", ".atom", ".rdf", ".tei", ".opml")
_TREC_START = re.compile(rb"^[ \t]*(?:<(?!doc[ >])[^<>\n]*>[ \t]*)*+<doc[ >]", re.MULTILINE)  # looks at a line once
_DUMP_START = re.compile(rb"(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*+<(?:!doctype\s+)?mediawiki\b", re.DOTALL)
STANDARD_INPUT = "-"
_CHUNK = 1 << 20


def read_all(sources: Sequence[str], options: ReadOptions) -> Iterator[Reading]:
    """Read sources one after another; a remark names each pattern of ``--encoding`` that fits no file.

    Raises BadInput: at once, as in ``read``; MissingPart: as in ``read``.
    """
    return chain(*[read(source, options) for source in sources], _idle_patterns(sources, options))


def _idle_patterns(sources: Sequence[str], options: ReadOptions) -> Iterator[Remark]:
    for option in stated_parts(options.encoding):
        files = (file for source in filter(is_path, sources) for file in source_files(Path(source).expanduser()))
        if "=" in option and not any(stated_encoding(option, file.name) for file in files):
            yield Remark(f"--encoding {option}", "the pattern fits no file; it is compared with names in the sources")


def read(source: str, options: ReadOptions) -> Iterator[Reading]:
    """Read a source: a file, all files under a folder by their names, ``elastic:INDEX``, ``ir-datasets:NAME`` or ``-``.

    ``-`` is standard input, JSON lines unless the options name another format. A record that can't be read gives a
    refusal. Memory does not grow with the source. A language that neither document nor options name is ``und``. Raises
    BadInput: at once, the source does not exist or is an empty folder, or an option is unusable; MissingPart: at once,
    the source needs an extra that is not installed.
    """
    return _asked_back(_read(source, _checked(options)))


def _asked_back(readings: Iterator[Reading]) -> Iterator[Reading]:
    """The readings, and a remark on each language that may be a country."""
    asked = set()
    for reading in readings:
        yield reading
        if isinstance(reading, Document) and reading.lang in MISTAKABLE and reading.lang not in asked:
            asked.add(reading.lang)
            yield Remark(reading.place, f"{reading.lang!r} is {MISTAKABLE[reading.lang]}")


def _read(source: str, options: ReadOptions) -> Iterator[Reading]:
    if name := irdatasets.dataset_name(source):
        return irdatasets.read_dataset(name, irdatasets.load(name), options)
    if source.startswith(elastic_source.PREFIX):
        return elastic_source.read_index(source, options)
    if source == STANDARD_INPUT:
        standard_input = kept_input()
        # the name holds a hash: records without an id don't overwrite those that another stream gave
        file = SourceFile(standard_input.path, f"stdin-{standard_input.digest[:8]}", title="standard input")
        return _read_files([file], replace(options, format=options.format or "jsonl"))
    return _read_files(source_files(_existing(source), follow_links=options.follow_links), options)


def fingerprint(source: str, options: ReadOptions) -> str:
    """16 hex digits that change with the options, and with the files (names, sizes, times), the index or the input."""
    options_json = json.dumps(asdict(_checked(options)), sort_keys=True, ensure_ascii=True)
    if name := irdatasets.dataset_name(source):
        irdatasets.load(name)  # a run of a data set that is missing would not end
        return short_hash(source, options_json)
    if source.startswith(elastic_source.PREFIX):
        return short_hash(elastic_source.index_fingerprint(source), options_json)
    if source == STANDARD_INPUT:
        return short_hash(kept_input().digest, options_json)
    parts: list[str | bytes] = [options_json]
    for file in source_files(_existing(source)):
        parts.append(os.fsencode(file.name))
        for path in filter(None, (items_table(file.path), file.path)):
            with suppress(OSError):  # it is away
                parts.append(f"{path.stat().st_size} {path.stat().st_mtime_ns}")
    return short_hash(*parts)


def is_path(source: str) -> bool:
    """Whether a source is a file or a folder."""
    return source != STANDARD_INPUT and not source.startswith((elastic_source.PREFIX, irdatasets.PREFIX))


def count_distinct(source: str, options: ReadOptions) -> int | None:
    """Number of records of a source whose own ids are distinct, 0 if it is unknown; None if only its records tell."""
    if "id" in options.fields or is_path(source) or source == STANDARD_INPUT:
        return None
    return elastic_source.count_distinct(source) if source.startswith(elastic_source.PREFIX) else 0


def _checked(options: ReadOptions) -> ReadOptions:
    if options.format and options.format not in FORMATS:
        raise BadInput(f"{options.format!r} is no format; choose one of {', '.join(FORMATS)}")
    stated_encoding(options.encoding, "")
    lang = normalise(options.lang)
    return replace(options, lang="" if lang == UNDETERMINED else lang, fields=dict(options.fields))


def _existing(source: str) -> Path:
    path = Path(source).expanduser()
    if not path.exists():
        raise BadInput(f"{source} does not exist; name a file, a folder, elastic:INDEX, ir-datasets:NAME or -")
    if next(source_files(path), None) is None:
        raise BadInput(f"{source} is a folder with no file in it; name one that has some")
    return path


def _read_files(files: Iterable[SourceFile], options: ReadOptions) -> Iterator[Reading]:
    for file in files:
        try:
            if file.suffix in _LEFT_OUT and (not options.format or file.suffix == ".dtd"):
                yield Remark(file.shown, f"it is {_LEFT_OUT[file.suffix]}")
                continue
            if not options.format and is_table(file.path):
                yield Remark(file.shown, "it is a table or an index of a wiki's dump and no document")
                continue
            file.stated = stated_encoding(options.encoding, file.name)
            start = file.start
            if not start.strip():
                blank = f"its first {FIRST_BYTES:,} bytes are blank; remove them, or see that it has documents"
                yield Refusal(file.shown, EMPTY_FILE if len(start) < FIRST_BYTES else blank)
                continue
            format_ = "office" if start.startswith(_OFFICE) else options.format or _format(file, start)
            if format_:
                if format_ not in _STATES_ENCODING:
                    _settle(file, format_, options)
                yield from _READERS[format_](file, options)
                yield from (Remark(file.shown, text) for text in file.encoding.remarks())
            else:
                yield Refusal(file.shown, "it is binary; convert it, or say --format or --encoding utf-16-le for text")
        except (UnreadFormatError, UndecodableError) as error:
            yield Refusal(file.shown, str(error), file.name)
        except UnreadableFileError as error:
            place = file.at(file.line) if file.line else file.shown
            yield Refusal(place, f"{error}; what came before is kept" if file.line else str(error))


def _settle(file: SourceFile, format_: str, options: ReadOptions) -> None:
    """Decide how the file is read. Raises UndecodableError, UnreadableFileError."""
    lang = options.lang or (newspapers_language(file) if format_ == "trec" else "")
    file.settle(html=format_ == "html", lang=lang, languages=options.languages)
    if options.strict and (remark := next(file.encoding.remarks(), "")):
        raise BadInput(f"{file.shown}: {remark} (--strict)")


def _format(file: SourceFile, start: bytes) -> str:
    """The format by name, else by first bytes; empty: binary. Raises UnreadFormatError: it is other XML."""
    name = file.path.name
    is_commentary = name.startswith("news-commentary") and COMMENTARY.search(name)
    named = "jrc" if JRC.fullmatch(name) else "commentary" if is_commentary else _BY_SUFFIX.get(file.suffix, "")
    if named or b"\0" in start:
        return named
    head = start.lstrip().lower()
    if MAIL.match(head):
        return "mail"
    if (is_dump := _DUMP_START.match(head)) or _TREC_START.search(head):
        return "mediawiki" if is_dump else "trec"
    root = _XML_START.match(head)
    if head.startswith((b"<!doctype html", b"<html")) or (root and root[1] == b"html"):
        return "html"
    if root and (file.suffix in _XML_SUFFIXES or b"xmlns" in root[0] or head.startswith((b"<?xml", b"<!doctype"))):
        raise UnreadFormatError(
            f"it is XML of <{root[1].decode()}>, whose tags are not known here; write its documents as JSON lines, or "
            "say --format html to take its text as one document"
        )
    is_json = (head.startswith(b"{") or _ARRAY_OF_OBJECTS.match(head)) and b'"' in head
    return "jsonl" if is_json and file.suffix != ".txt" else "text"


class KeptInput(NamedTuple):
    """The file that holds what a stream gave, for sources are read several times, and a hash of its bytes."""

    path: Path
    digest: str


_kept: WeakKeyDictionary[BinaryIO, KeptInput] = WeakKeyDictionary()
"""What each stream gave: a stream can be read only once."""


def kept_input() -> KeptInput:
    """Standard input, read to its end by the first call; the file is deleted when the process ends.

    Raises BadInput: the process has no standard input; StoreError: it can't be read, or the temporary folder is full.
    """
    if sys.stdin is None:
        raise BadInput(f"there is no standard input to read {STANDARD_INPUT} from; name a file")
    stream = sys.stdin.buffer
    if stream not in _kept:
        _kept[stream] = _keep(stream)
    return _kept[stream]


def _keep(stream: BinaryIO) -> KeptInput:
    digest = hashlib.blake2b(digest_size=16)
    try:
        with tempfile.NamedTemporaryFile(prefix="dragoman-stdin-", delete=False) as file:
            finalize(stream, Path(file.name).unlink, missing_ok=True)
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
                file.write(chunk)
    except OSError as error:
        raise StoreError(
            f"standard input can't be read into {tempfile.gettempdir()} ({error.strerror or error}); "
            "name a folder that has room with TMPDIR"
        ) from error
    return KeptInput(Path(file.name), digest.hexdigest())
