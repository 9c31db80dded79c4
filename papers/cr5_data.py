"""Readers of the data of the Cr5 paper, in its published layouts.

**Wikipedia** (the authors' archive, unpacked): ``sparse_matrices/sparse_matrix_LL.txt.gz`` has a line ``concept word
count`` for each word of each article; the lines of an article are consecutive. ``word_indices/word_index_LL.tsv`` has
lines ``number word``; its words differ in case and are folded when read. The folder may be the one that contains these
two folders, or the one that contains ``matlab_input`` with them.

**Europarl**: ``europarl-v7.it-en.it`` and ``europarl-v7.it-en.en``; lines of the same number are translations.

**Dinu et al.**: dictionaries of lines ``word translation``, such as ``OPUS_en_it_europarl_test.txt``.
"""

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from encoders.errors import BadInput
from encoders.languages import normalise
from encoders.phrases import counted
from encoders.text.words import folded
from indexer.readers.records.files import text_lines

_MATRIX = re.compile(r"sparse_matrix_([a-z]{2,3})\.txt(\.\w+)?$")
_PAIR = re.compile(r"\.([a-z]{2,3})-([a-z]{2,3})\.([a-z]{2,3})(\.\w+)?$")


class Wikipedia:
    """Articles as counted words, by language."""

    def __init__(self, folder: Path) -> None:
        """Find the files."""
        root = folder / "matlab_input" if (folder / "matlab_input").is_dir() else folder
        matrices = sorted((root / "sparse_matrices").glob("sparse_matrix_*")) if root.is_dir() else []
        self._matrices = {normalise(match[1]): path for path in matrices if (match := _MATRIX.search(path.name))}
        if not self._matrices:
            raise BadInput(f"{folder} has no sparse_matrices/sparse_matrix_LL.txt.gz; unpack the paper's data there")
        self._indices = root / "word_indices"
        self.languages = sorted(self._matrices)

    def concepts(self, lang: str) -> list[str]:
        """The concepts of a language's articles, in the order of the articles."""
        return [concept for concept, _ in self._lines_by_concept(lang)]

    def articles(self, lang: str) -> Iterator[tuple[str, list[str]]]:
        """Concept and words of each article; a word is repeated as often as it occurs."""
        words = self._words(lang)
        for concept, lines in self._lines_by_concept(lang):
            article_words: list[str] = []
            for where, (_, number, count) in lines:
                word = words.get(number)
                if word is None or not count.isdigit():
                    raise BadInput(f"{where} counts word {number!r} {count!r} times; the word index has no such word")
                article_words += [word] * int(count)
            yield concept, article_words

    def _lines_by_concept(self, lang: str) -> Iterator[tuple[str, Iterator[tuple[str, list[str]]]]]:
        return groupby(_columns(self._matrices[lang], 3), key=lambda line: line[1][0])

    def _words(self, lang: str) -> dict[str, str]:
        path = self._indices / f"word_index_{lang}.tsv"
        return {number: folded(word, lang) for _, (number, word, *_) in _columns(path, 2)}


def read_europarl(folder: Path, lang: str, other: str) -> tuple[list[str], list[str]]:
    """Aligned sentences of two languages; pairs with an empty sentence are left out."""
    files = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        match = _PAIR.search(path.name)
        if match and {match[1], match[2]} == {lang, other}:
            files[match[3]] = path
    if set(files) != {lang, other}:
        raise BadInput(f"{folder} has no europarl-v7.{other}-{lang}.{lang} and .{other}; name the folder of Europarl")
    sides = [[line.strip() for _, line in text_lines(files[side])] for side in (lang, other)]
    if len(sides[0]) != len(sides[1]):
        raise BadInput(
            f"{files[lang]} has {len(sides[0]):,} lines and {files[other].name} {len(sides[1]):,}; get them again"
        )
    pairs = [(first, second) for first, second in zip(*sides, strict=True) if first and second]
    if not pairs:
        raise BadInput(f"{files[lang]} and {files[other].name} have no line with text in both; get them again")
    return [first for first, _ in pairs], [second for _, second in pairs]


def read_dictionary(path: Path, lang: str, other: str) -> dict[str, set[str]]:
    """Translations by word, both folded; a word may have several lines."""
    translations: dict[str, set[str]] = {}
    for _, (word, translation, *_) in _columns(path, 2):
        translations.setdefault(folded(word, lang), set()).add(folded(translation, other))
    if not translations:
        raise BadInput(f"{path} has no words; get it again")
    return translations


def _columns(path: Path, least: int) -> Iterator[tuple[str, list[str]]]:
    """Place and blank-separated columns of each non-empty line."""
    for where, line in text_lines(path):
        columns = line.split()
        if not columns:
            continue
        if len(columns) < least:
            raise BadInput(
                f"{where} has {counted(len(columns), 'column')} and should have {least}; see that it is the right file"
            )
        yield where, columns
