"""Moses pairs: files whose names differ in their last ending, the language; the same line is the same sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest

from encoders.errors import BadInput
from indexer.parallel.source import NOT_UTF8, Aligned, decoded
from indexer.parallel.tables import language
from indexer.readers.files import SourceFile, UnreadableFileError
from indexer.readers.source import Refusal

_NO_LANGUAGE = (".txt", ".md", ".csv", ".xml", ".html", ".htm", ".json", ".ids")


def side_language(file: SourceFile) -> str | None:
    """The language a file's ending names; None for other files."""
    return None if file.suffix in _NO_LANGUAGE else language(file.suffix.removeprefix("."))


def sides(file: SourceFile) -> dict[str, SourceFile]:
    """The files beside one that are the same text in other languages, and itself, by language."""
    stem = file.path.name.split(file.suffix)[0] if file.suffix else file.path.name
    found = {}
    for path in sorted(file.path.parent.glob(f"{_escaped(stem)}.*")):
        other = SourceFile(path, path.name)
        lang = side_language(other)
        if lang and other.suffix and path.name.split(other.suffix)[0] == stem:
            found[lang] = other
    return found


def read_moses(files: Mapping[str, SourceFile]) -> Iterator[Aligned | Refusal]:
    """Line after line.

    Raises:
        BadInput: one file has more lines than another: from somewhere on nothing is anything's translation.
    """
    first = next(iter(files.values()))
    try:
        for lines in zip_longest(*(file.lines() for file in files.values()), fillvalue=_ENDED):
            where = f"{first.shown}:{max(file.line for file in files.values())}"
            ended = [file.path.name for file, line in zip(files.values(), lines, strict=True) if line is _ENDED]
            if ended:
                raise BadInput(
                    f"{where}: {', '.join(ended)} ends before the other side; get both again, line by line the same"
                )
            texts = {lang: decoded(line or b"") for lang, line in zip(files, lines, strict=True)}
            if None in texts.values():
                yield Refusal(where, NOT_UTF8)
            else:
                yield Aligned(where, {lang: text for lang, text in texts.items() if text is not None})
    except UnreadableFileError as error:
        yield Refusal(first.shown, str(error))


_ENDED = b"\0ended"


def _escaped(stem: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in stem)
