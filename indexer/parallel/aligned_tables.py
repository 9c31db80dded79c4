"""Aligned tables: a column per language, JSON objects by language, or a file per language with common ids."""

import json
from collections.abc import Iterator, Mapping

from encoders.languages import UNDETERMINED, tag_or
from encoders.phrases import counted
from indexer.parallel.aligned_sentence import NOT_UTF8, AlignedSentence, decoded, row
from indexer.readers.records.files import SourceFile, UnreadableFileError
from indexer.readers.records.source import Refusal

_ID_COLUMNS = ("id", "sid")


def language(name: str) -> str | None:
    """The language tag of a column's or a file's name; None where the name is no language."""
    lang = tag_or(name) if 2 <= len(name) <= 8 else UNDETERMINED
    return None if lang == UNDETERMINED else lang


def header_language(file: SourceFile) -> str | None:
    """The language of a table of ids and texts named ``LANG.tsv``; None for every other file."""
    lang = language(file.path.name.split(".")[0])
    if lang is None:
        return None
    try:
        header = decoded(next(file.lines(), b""))
    except UnreadableFileError:
        return None
    names = (header or "").split("\t")
    return lang if len(names) == 2 and names[0] in _ID_COLUMNS and names[1] == "text" else None


def read_tsv(file: SourceFile) -> Iterator[AlignedSentence | Refusal]:
    """Read lines whose columns are the languages in the header; ``id`` and ``sid`` columns are skipped."""
    names: list[str] = []
    langs: list[str | None] = []
    for line in file.lines():
        place = file.at(file.line)
        text = decoded(line)
        if not names:
            names = [name.strip() for name in (text or "").split("\t")]
            langs = [None if name in _ID_COLUMNS else language(name) for name in names]
            if sum(lang is not None for lang in langs) < 2:
                yield Refusal(place, "its header names no two languages; begin with a line such as en<tab>de<tab>es")
                return
            continue
        values = (text or "").split("\t")
        if text is None:
            yield Refusal(place, NOT_UTF8)
        elif len(values) != len(names):
            yield Refusal(
                place,
                f"the line has {counted(len(values), 'column')} and the header {len(names)}; "
                "fill the missing columns, or take the tabs out of the texts",
            )
        else:
            yield AlignedSentence(place, {lang: value for lang, value in zip(langs, values, strict=True) if lang})


def read_jsonl(file: SourceFile) -> Iterator[AlignedSentence | Refusal]:
    """Read objects of texts by language, at the top level or under ``translation``."""
    for line in file.lines():
        place = file.at(file.line)
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            yield Refusal(place, f"it is not valid JSON: {error}")
            continue
        texts = record.get("translation", record) if isinstance(record, dict) else None
        if not isinstance(texts, dict):
            yield Refusal(place, "it is no object of texts by language")
            continue
        texts_by_lang = {
            lang: value
            for name, value in texts.items()
            if name not in _ID_COLUMNS and isinstance(value, str) and (lang := language(name))
        }
        yield row(place, texts_by_lang)


def read_by_id(files: Mapping[str, SourceFile]) -> Iterator[AlignedSentence | Refusal]:
    """Read files of ids and texts, a file per language, in memory; texts with the same id are translations."""
    rows: dict[str, dict[str, str]] = {}
    for lang, file in files.items():
        try:
            for line in file.lines():
                text = decoded(line)
                if text is None:
                    yield Refusal(file.at(file.line), NOT_UTF8)
                elif file.line > 1:
                    sentence_id, tab, value = text.partition("\t")
                    if tab:
                        rows.setdefault(sentence_id, {})[lang] = value
                    else:
                        yield Refusal(file.at(file.line), "the line has no tab between id and text")
        except UnreadableFileError as error:
            yield Refusal(file.shown, str(error))
    folder = next(iter(files.values())).path.parent
    for sentence_id, texts in rows.items():
        yield AlignedSentence(f"{folder}: {sentence_id}", texts)
