"""The tables of the T-LASER paper: topic classification from each language to each other, and similarity search."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from encoders.console import Console
from encoders.document import Document, Encoder, FloatArray
from encoders.errors import BadInput
from encoders.languages import UNDETERMINED, normalise
from encoders.tlaser.similarity import search_error
from indexer.readers.files import text_lines
from papers.classification import (
    PARTS,
    Classifier,
    Labelled,
    Part,
    by_language,
    split,
    stated_parts,
    zero_shot,
)
from papers.encoding import vectors_by_id
from papers.mldoc_data import read_mldoc
from papers.published import published
from query.report.language_pairs import PairTable

FIGURES = published("tlaser")
"""Accuracies of the paper's encoders on MLDoc in %, by table."""
_BATCH = 512
_PAIR = re.compile(r"^tatoeba\.([a-z]{3})-([a-z]{3})\.\1$")

Corpus = Mapping[str, Mapping[Part, Sequence[Document]]]
"""Labelled documents by language and part."""
Translations = Mapping[tuple[str, str], tuple[Sequence[str], Sequence[str]]]
"""Sentences and their translations by pair of languages."""


@dataclass(frozen=True)
class SearchErrors:
    """Error of similarity search between two languages, 0 to 1, from the first to the second and back."""

    langs: tuple[str, str]
    forward: float
    backward: float
    sentences: int


def mldoc_corpus(folder: Path, languages: Sequence[str]) -> Corpus:
    """MLDoc in some languages, of those that have all three parts.

    Raises BadInput: no such language has all three parts, or a line has no class.
    """
    documents = read_mldoc(folder)
    corpus = by_language(documents, stated_parts(documents))
    complete = {lang: parts for lang, parts in corpus.items() if len(parts) == len(PARTS)}
    if not complete:
        raise BadInput(
            f"{folder} has no language of MLDoc whole (english.train.1000, english.dev, english.test and so on); "
            "make them with the corpus's own scripts"
        )
    selected = {lang: complete[lang] for lang in languages if lang in complete}
    if not selected:
        raise BadInput(f"MLDoc's folder has {', '.join(complete)} and none of {', '.join(languages)}; say --languages")
    return selected


def classify_mldoc(
    corpus: Corpus, encoder: Encoder, console: Console, classifier: Classifier = "logistic"
) -> PairTable:
    """Accuracy by pair of languages: the classifier learns in one and is tested in the other."""
    data: dict[str, dict[Part, Labelled]] = {}
    for lang, parts in corpus.items():
        data[lang] = {}
        for part, documents in parts.items():
            vectors = vectors_by_id(f"encoding {lang} {part}", documents, encoder, _BATCH, console)
            data[lang][part] = Labelled.of(documents, vectors)
    return zero_shot(data, classifier)


def first_words(documents: Sequence[Document], words: int) -> list[Document]:
    """Documents with the first words of their texts alone, blanks between them."""
    return [replace(document, text=" ".join(document.text.split()[:words])) for document in documents]


def classify_documents(
    documents: Sequence[Document],
    splits: int,
    encoder: Encoder,
    console: Console,
    classifier: Classifier = "logistic",
) -> list[PairTable]:
    """Accuracies by pair of languages for several splits of labelled documents by concept.

    The console warns of each language that has too few documents or labels to learn from in at least one split. Raises
    BadInput: no language can be learnt from in any split.
    """
    vectors = vectors_by_id("encoding documents", documents, encoder, _BATCH, console)
    tables = []
    for seed in range(splits):
        corpus = by_language(documents, split(documents, seed))
        data = {
            lang: {part: Labelled.of(parts.get(part, []), vectors) for part in PARTS}
            for lang, parts in sorted(corpus.items())
        }
        tables.append(zero_shot(data, classifier))
    _warn_untaught(tables, console)
    return tables


def _warn_untaught(tables: Sequence[PairTable], console: Console) -> None:
    """Warn of languages that had too few documents or labels in at least one split."""
    taught = np.isfinite([table.values for table in tables]).any(axis=2).sum(axis=0).tolist()
    if not any(taught):
        raise BadInput(
            "no language has documents of two labels to learn from, and more to choose and to test by; give others"
        )
    for lang, count in zip(tables[0].queries, taught, strict=True):
        if count < len(tables):
            console.warn(
                f"{lang} has too few documents or labels to learn from in {len(tables) - count} of {len(tables)} splits"
            )


def read_tatoeba(folder: Path, languages: Sequence[str]) -> Translations:
    """Tatoeba's sentences as in LASER's repository, of the pairs of some languages; of all pairs if none is named.

    Lines of the same number of ``tatoeba.deu-eng.deu`` and ``tatoeba.deu-eng.eng`` are translations. Raises BadInput:
    the folder has no such pair of files, or the files of a pair are empty or differ in length.
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
                "get files with equally many lines, where equal line numbers are translations"
            )
        if not first:
            raise BadInput(f"{file} and {other_file.name} are empty; get both again")
        langs = normalise(match[1]), normalise(match[2])
        if UNDETERMINED in langs:
            code = match[langs.index(UNDETERMINED) + 1]
            raise BadInput(f"{file} has {code!r} in its name, which is no language; rename it, or take it out")
        sentences[langs] = (first, second)
    if not sentences:
        raise BadInput(f"{folder} has no pair of files such as tatoeba.deu-eng.deu and tatoeba.deu-eng.eng")
    selected = {pair: sides for pair, sides in sentences.items() if not languages or set(pair) <= set(languages)}
    if not selected:
        pairs = ", ".join(f"{first}-{second}" for first, second in sentences)
        raise BadInput(f"Tatoeba's folder has {pairs} and no pair of {', '.join(languages)}; say other --languages")
    return selected


def search_sentences(pairs: Translations, encoder: Encoder, console: Console) -> list[SearchErrors]:
    """Search for each sentence's translation among all sentences of the other language, in both directions."""
    errors = []
    for langs, sides in pairs.items():
        first, second = (_vectors(lang, texts, encoder, console) for lang, texts in zip(langs, sides, strict=True))
        errors.append(SearchErrors(langs, search_error(first, second), search_error(second, first), len(first)))
    return errors


def _vectors(lang: str, texts: Sequence[str], encoder: Encoder, console: Console) -> FloatArray:
    """(texts, dim) unit rows."""
    documents = [Document(str(row), lang, text) for row, text in enumerate(texts)]
    return np.array(list(vectors_by_id(f"encoding {lang}", documents, encoder, _BATCH, console).values()))
