"""The data that T-LASER and its relatives are measured on, in the layouts it is published in.

**MLDoc**: ``query.reproduce.mldoc_data``.

**Tatoeba** (as in LASER's repository): ``tatoeba.deu-eng.deu`` and ``tatoeba.deu-eng.eng``, the same line in both.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from encoders.document import Document
from encoders.errors import BadInput
from encoders.languages import normalise
from indexer.readers.files import text_lines
from query.reproduce import mldoc_data
from query.reproduce.classification import Part

_PAIR = re.compile(r"^tatoeba\.([a-z]{3})-([a-z]{3})\.\1$")


def read_mldoc(folder: Path) -> dict[str, dict[Part, list[Document]]]:
    """Documents of MLDoc by language and part, of the languages that have all three parts.

    Raises:
        BadInput: the folder has no language whole, or a line has no class.
    """
    found: dict[str, dict[Part, list[Document]]] = {}
    for document in mldoc_data.read_mldoc(folder):
        found.setdefault(document.lang, {}).setdefault(document.fields["split"], []).append(document)
    whole = {lang: parts for lang, parts in found.items() if len(parts) == len(get_args(Part))}
    if not whole:
        raise BadInput(
            f"{folder} has no language of MLDoc whole (english.train.1000, english.dev, english.test and so on); "
            "make them with the corpus's own scripts"
        )
    return whole


def read_tatoeba(folder: Path) -> dict[tuple[str, str], tuple[list[str], list[str]]]:
    """Sentences and their translations by pair of languages.

    Raises:
        BadInput: the folder has no pair, or the sides of one are empty or differ in length.
    """
    found = {}
    for file in sorted(folder.glob("tatoeba.*-*.*")):
        named = _PAIR.match(file.name)
        if not named:
            continue
        other = file.with_name(f"tatoeba.{named[1]}-{named[2]}.{named[2]}")
        first, second = ([line for _, line in text_lines(side)] for side in (file, other))
        if len(first) != len(second):
            raise BadInput(
                f"{file} has {len(first)} lines and {other.name} {len(second)}; get both again, line by line the same"
            )
        if not first:
            raise BadInput(f"{file} and {other.name} are empty; get both again")
        found[normalise(named[1]), normalise(named[2])] = (first, second)
    if not found:
        raise BadInput(f"{folder} has no pair of files such as tatoeba.deu-eng.deu and tatoeba.deu-eng.eng")
    return found
