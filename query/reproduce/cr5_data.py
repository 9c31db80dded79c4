"""The data of the Cr5 paper, in the layouts it is published in.

**Wikipedia** (the authors' archive, unpacked): ``sparse_matrices/sparse_matrix_LL.txt.gz``, a line ``concept word
count`` for each word of each article, an article's lines together; ``word_indices/word_index_LL.tsv``, a line
``number word``. Words differ in case there and are folded when read. The folder that has these two, or its
``matlab_input``, will do.

**Europarl**: ``europarl-v7.it-en.it`` and ``europarl-v7.it-en.en``, the same line in both.

**Dinu et al.**: dictionaries of lines ``word translation``, as ``OPUS_en_it_europarl_test.txt``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from encoders.errors import BadInput
from encoders.languages import normalise
from encoders.text.words import folded
from encoders.wording import counted
from indexer.readers.files import text_lines

_MATRIX = re.compile(r"sparse_matrix_([a-z]{2,3})\.txt(\.\w+)?$")
_PAIR = re.compile(r"\.([a-z]{2,3})-([a-z]{2,3})\.([a-z]{2,3})(\.\w+)?$")


class Wikipedia:
    """Articles as counted words, by language.

    Attributes:
        languages: there are.
    """

    def __init__(self, folder: Path) -> None:
        """Find the files.

        Raises:
            BadInput: there are none of this layout.
        """
        root = folder / "matlab_input" if (folder / "matlab_input").is_dir() else folder
        matrices = sorted((root / "sparse_matrices").glob("sparse_matrix_*")) if root.is_dir() else []
        self._matrices = {normalise(named[1]): path for path in matrices if (named := _MATRIX.search(path.name))}
        if not self._matrices:
            raise BadInput(f"{folder} has no sparse_matrices/sparse_matrix_LL.txt.gz; unpack the paper's data there")
        self._indices = root / "word_indices"
        self.languages = sorted(self._matrices)

    def concepts(self, lang: str) -> list[str]:
        """The concepts of a language's articles, in their order."""
        return [concept for concept, _ in groupby(_columns(self._matrices[lang], 3), key=lambda one: one[1][0])]

    def articles(self, lang: str) -> Iterator[tuple[str, list[str]]]:
        """Concept and words of each article, a word as often as it occurs.

        Raises:
            BadInput: a line is no count, or counts a word that the index doesn't have.
        """
        words = self._words(lang)
        for concept, lines in groupby(_columns(self._matrices[lang], 3), key=lambda one: one[1][0]):
            found: list[str] = []
            for where, (_, number, count) in lines:
                word = words.get(number)
                if word is None or not count.isdigit():
                    raise BadInput(f"{where} counts word {number!r} {count!r} times; the word index has no such word")
                found += [word] * int(count)
            yield concept, found

    def _words(self, lang: str) -> dict[str, str]:
        path = self._indices / f"word_index_{lang}.tsv"
        return {number: folded(word, lang) for _, (number, word, *_) in _columns(path, 2)}


def read_europarl(folder: Path, lang: str, other: str) -> tuple[list[str], list[str]]:
    """Aligned sentences of two languages; pairs of which one is empty are left out.

    Raises:
        BadInput: the two files are not there, don't have the same number of lines, or are empty.
    """
    files = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        named = _PAIR.search(path.name)
        if named and {named[1], named[2]} == {lang, other}:
            files[named[3]] = path
    if set(files) != {lang, other}:
        raise BadInput(f"{folder} has no europarl-v7.{other}-{lang}.{lang} and .{other}; name the folder of Europarl")
    sides = [[line.strip() for _, line in text_lines(files[one])] for one in (lang, other)]
    if len(sides[0]) != len(sides[1]):
        raise BadInput(
            f"{files[lang]} has {len(sides[0]):,} lines and {files[other].name} {len(sides[1]):,}; get them again"
        )
    pairs = [(first, second) for first, second in zip(*sides, strict=True) if first and second]
    if not pairs:
        raise BadInput(f"{files[lang]} and {files[other].name} have no line with text in both; get them again")
    return [first for first, _ in pairs], [second for _, second in pairs]


def read_dictionary(path: Path, lang: str, other: str) -> dict[str, set[str]]:
    """Translations by word, both folded; a word may have several lines.

    Raises:
        BadInput: a line is not two words, or there is none.
    """
    found: dict[str, set[str]] = {}
    for _, (word, translation, *_) in _columns(path, 2):
        found.setdefault(folded(word, lang), set()).add(folded(translation, other))
    if not found:
        raise BadInput(f"{path} has no words; get it again")
    return found


def _columns(path: Path, least: int) -> Iterator[tuple[str, list[str]]]:
    """Where each line is, and its columns between blanks."""
    for where, line in text_lines(path):
        columns = line.split()
        if not columns:
            continue
        if len(columns) < least:
            raise BadInput(
                f"{where} has {counted(len(columns), 'column')} and should have {least}; see that it is the right file"
            )
        yield where, columns
