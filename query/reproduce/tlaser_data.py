"""Readers of the data that T-LASER and similar encoders are evaluated on, in its published layouts.

**MLDoc**: ``query.reproduce.mldoc_data``.

**Tatoeba** (as in LASER's repository): ``tatoeba.deu-eng.deu`` and ``tatoeba.deu-eng.eng``; lines of the same number
are translations.
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
        BadInput: the folder has no language with all three parts, or a line has no class.
    """
    by_lang: dict[str, dict[Part, list[Document]]] = {}
    for document in mldoc_data.read_mldoc(folder):
        by_lang.setdefault(document.lang, {}).setdefault(document.fields["split"], []).append(document)
    complete = {lang: parts for lang, parts in by_lang.items() if len(parts) == len(get_args(Part))}
    if not complete:
        raise BadInput(
            f"{folder} has no language of MLDoc whole (english.train.1000, english.dev, english.test and so on); "
            "make them with the corpus's own scripts"
        )
    return complete


def read_tatoeba(folder: Path) -> dict[tuple[str, str], tuple[list[str], list[str]]]:
    """Sentences and their translations by pair of languages.

    Raises:
        BadInput: the folder has no pair of files, or the files of a pair are empty or differ in length.
    """
    sentences = {}
    for file in sorted(folder.glob("tatoeba.*-*.*")):
        match = _PAIR.match(file.name)
        if not match:
            continue
        other_file = file.with_name(f"tatoeba.{match[1]}-{match[2]}.{match[2]}")
        first, second = ([line for _, line in text_lines(side)] for side in (file, other_file))
        if len(first) != len(second):
            raise BadInput(
                f"{file} has {len(first)} lines and {other_file.name} {len(second)}; "
                "get both again, line by line the same"
            )
        if not first:
            raise BadInput(f"{file} and {other_file.name} are empty; get both again")
        sentences[normalise(match[1]), normalise(match[2])] = (first, second)
    if not sentences:
        raise BadInput(f"{folder} has no pair of files such as tatoeba.deu-eng.deu and tatoeba.deu-eng.eng")
    return sentences
