"""The data that T-LASER and its relatives are measured on, in the layouts it is published in.

**MLDoc**: ``english.train.1000``, ``english.dev``, ``english.test`` and so on for each language, a line
``CLASS<tab>text`` for each document.

**Tatoeba** (as in LASER's repository): ``tatoeba.deu-eng.deu`` and ``tatoeba.deu-eng.eng``, the same line in both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from encoders.document import Document
from encoders.errors import BadInput
from encoders.languages import normalise
from indexer.readers.files import SourceFile, UnreadableFileError
from query.classification import Part

MLDOC = {
    "english": "en",
    "german": "de",
    "french": "fr",
    "spanish": "es",
    "italian": "it",
    "russian": "ru",
    "japanese": "ja",
    "chinese": "zh",
}
_ENDINGS: Mapping[Part, str] = {"train": "train.1000", "dev": "dev", "test": "test"}
_PAIR = re.compile(r"^tatoeba\.([a-z]{3})-([a-z]{3})\.\1$")


def read_mldoc(folder: Path) -> dict[str, dict[Part, list[Document]]]:
    """Documents with the field ``label``, by language and part.

    Raises:
        BadInput: the folder has no language whole, or a line has no class.
    """
    found = {}
    for name, lang in MLDOC.items():
        files = {part: folder / f"{name}.{ending}" for part, ending in _ENDINGS.items()}
        if all(file.is_file() for file in files.values()):
            found[lang] = {part: _documents(file, lang) for part, file in files.items()}
    if not found:
        raise BadInput(
            f"{folder} has no language of MLDoc (english.train.1000, english.dev, english.test and so on); "
            "make them with the corpus's own scripts"
        )
    return found


def read_tatoeba(folder: Path) -> dict[tuple[str, str], tuple[list[str], list[str]]]:
    """Sentences and their translations by pair of languages.

    Raises:
        BadInput: the folder has no pair, or the sides of one differ in length.
    """
    found = {}
    for file in sorted(folder.glob("tatoeba.*-*.*")):
        named = _PAIR.match(file.name)
        if not named:
            continue
        other = file.with_name(f"tatoeba.{named[1]}-{named[2]}.{named[2]}")
        first, second = _lines(file), _lines(other)
        if len(first) != len(second):
            raise BadInput(
                f"{file} has {len(first)} lines and {other.name} {len(second)}; get both again, line by line the same"
            )
        found[normalise(named[1]), normalise(named[2])] = (first, second)
    if not found:
        raise BadInput(f"{folder} has no pair of files such as tatoeba.deu-eng.deu and tatoeba.deu-eng.eng")
    return found


def _documents(file: Path, lang: str) -> list[Document]:
    documents = []
    for number, line in enumerate(_lines(file), 1):
        label, tab, text = line.partition("\t")
        if not (label and tab):
            raise BadInput(f"{file}:{number} has no class before a tab; make the file again")
        documents.append(Document(f"{file.name}-{number}", lang, text, fields={"label": label}))
    return documents


def _lines(file: Path) -> list[str]:
    source = SourceFile(file, file.name)
    try:
        return [(line or b"").decode("utf-8") for line in source.lines()]
    except (UnreadableFileError, UnicodeDecodeError) as error:
        raise BadInput(f"{file}:{source.line + 1} can't be read ({error}); get it again") from error
