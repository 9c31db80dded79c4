"""Moses pairs: the last ending of the file names is the language; equal line numbers are translations."""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path

from encoders.errors import BadInput
from indexer.parallel.aligned_sentence import NOT_UTF8, AlignedSentence, decoded
from indexer.parallel.aligned_tables import language
from indexer.readers.records.files import SourceFile, UnreadableFileError
from indexer.readers.records.source import Refusal

_NO_LANGUAGE = (".txt", ".md", ".csv", ".xml", ".html", ".htm", ".json", ".ids")


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
    """Read the lines of a text's files in parallel. Raises BadInput: a file has more lines than another."""
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
