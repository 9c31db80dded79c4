"""Sort files of parallel text by their suffix and header, and read each with its reader."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from encoders.errors import BadInput
from indexer.parallel.aligned_sentence import NOT_UTF8, AlignedSentence, decoded
from indexer.parallel.aligned_tables import header_language, language, read_by_id, read_jsonl, read_tsv
from indexer.parallel.tmx import read_tmx
from indexer.readers.records.files import SourceFile, UnreadableFileError, source_files
from indexer.readers.records.source import Refusal

_NO_LANGUAGE = (".txt", ".md", ".csv", ".xml", ".html", ".htm", ".json", ".ids")


@dataclass
class ParallelFiles:
    """The files of sources, sorted by the reader they need."""

    tables: list[SourceFile] = field(default_factory=list)  # files that each hold aligned sentences
    sides: dict[Path, dict[str, SourceFile]] = field(default_factory=dict)  # text → language → file, in parallel lines
    by_id: dict[Path, dict[str, SourceFile]] = field(default_factory=dict)  # folder → language → file, in parallel ids


def find_files(sources: Sequence[str]) -> ParallelFiles:
    """Sort the files of sources by their reader. Raises BadInput: a source is missing or holds no parallel text.

    If the sources name two sides or more of a text as files, the text's other sides are left out.
    """
    files = ParallelFiles()
    named_sides: dict[Path, dict[str, SourceFile]] = {}
    for source in sources:
        path = Path(source).expanduser()
        if not path.exists():
            raise BadInput(f"{source} does not exist; name a file or a folder of parallel text")
        accepted = [_sort_file(file, files, whole_folder=path.is_dir()) for file in source_files(path)]
        if not any(accepted):
            raise BadInput(
                f"{source} is no parallel text that is read here: .tsv with languages in its header, .jsonl, .tmx, two "
                "files that differ in their last ending (text.de, text.en), or a folder of LANG.tsv with common ids"
            )
        named_file = SourceFile(path, path.name)
        if path.is_file() and (lang := side_language(named_file)):
            named_sides.setdefault(text_name(named_file), {})[lang] = named_file
    for text in files.sides.keys() & named_sides.keys():
        if len(named_sides[text]) > 1:
            files.sides[text] = dict(sorted(named_sides[text].items()))
    return files


def read_parallel(files: ParallelFiles) -> Iterator[AlignedSentence | Refusal]:
    """Read all files, or refuse them. Raises BadInput: a text's sides differ in their number of lines."""
    readers = {".tsv": read_tsv, ".tmx": read_tmx}
    for file in files.tables:
        try:
            yield from readers.get(file.suffix, read_jsonl)(file)
        except UnreadableFileError as error:
            yield Refusal(file.at(file.line) if file.line else file.shown, str(error))
    for sides_by_lang in files.sides.values():
        yield from read_moses(sides_by_lang)
    for tables_by_lang in files.by_id.values():
        yield from read_by_id(tables_by_lang)


def _sort_file(file: SourceFile, files: ParallelFiles, *, whole_folder: bool) -> bool:
    """Add a file to the files of its reader; False: it is no parallel text."""
    lang = header_language(file) if file.suffix == ".tsv" else None
    if file.suffix in (".jsonl", ".ndjson", ".tmx") or (file.suffix == ".tsv" and lang is None):
        files.tables.append(file)
    elif lang and whole_folder:
        files.by_id.setdefault(file.path.parent, {})[lang] = file
    elif file.suffix != ".tsv" and side_language(file) and len(text_sides := sides(file)) > 1:
        files.sides[text_name(file)] = text_sides
    else:
        return False
    return True


def side_language(file: SourceFile) -> str | None:
    """The language that a file's ending names; None for a file without a language ending."""
    return None if file.suffix in _NO_LANGUAGE else language(file.suffix.removeprefix("."))


def sides(file: SourceFile) -> dict[str, SourceFile]:
    """The sides of a file's text in the file's folder, the file itself included, by language."""
    text_sides = {}
    for path in sorted(file.path.parent.iterdir()):
        candidate = SourceFile(path, path.name)
        lang = side_language(candidate)
        if lang and text_name(candidate) == text_name(file):
            text_sides[lang] = candidate
    return text_sides


def text_name(file: SourceFile) -> Path:
    """The common path of a text's files: the path without the endings of the language and of a compression."""
    name = file.path.name
    return file.path.with_name(name[: name.lower().rfind(file.suffix)])


def read_moses(files: Mapping[str, SourceFile]) -> Iterator[AlignedSentence | Refusal]:
    """Read a text's files, whose equal lines are translations. Raises BadInput: a file has more lines than another."""
    first = next(iter(files.values()))
    try:
        for lines in zip_longest(*(file.lines() for file in files.values()), fillvalue=_ENDED):
            place = f"{first.shown}:{max(file.line for file in files.values())}"
            ended = [file.path.name for file, line in zip(files.values(), lines, strict=True) if line is _ENDED]
            if ended:
                raise BadInput(
                    f"{place}: too few lines in {', '.join(ended)}; get files with equally many lines, where equal "
                    "line numbers are translations"
                )
            texts = {lang: decoded(line) for lang, line in zip(files, lines, strict=True)}
            if None in texts.values():
                yield Refusal(place, NOT_UTF8)
            else:
                yield AlignedSentence(place, {lang: text for lang, text in texts.items() if text is not None})
    except UnreadableFileError as error:
        yield Refusal(first.at(max(file.line for file in files.values())), str(error))


_ENDED = b"\0ended"
"""Stands for the lines of a file that has ended."""
