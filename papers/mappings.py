"""Mate retrieval on JRC-Acquis and on comparable articles of Wikipedia, and readers of both in their published layouts.

**JRC-Acquis 3.0** (the archives jrc-LL.tgz, unpacked into one folder): ``LL/YEAR/jrcNAME-LL.xml``, TEI with paragraphs
``<p n="…">`` in ``<body>``; a document has the same NAME in every language. In many French documents, letters with
diacritics are written like ``%eacute;``.

**Wikipedia** (wikicomp of linguatools, a file for each pair of languages): ``<articlePair id="…">`` with two
``<article lang="…" name="…">``, paragraphs ``<p>`` and headings ``<h>`` in ``<content>``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from encoders.console import Console
from encoders.document import Document, Encoder
from encoders.errors import BadInput
from encoders.languages import normalise
from encoders.maps.mate_scores import Comparer
from encoders.maps.parallel import ConceptSplit
from indexer.readers.files import SourceFile, UnreadableFileError
from indexer.readers.newspapers.markup import Tag, tokens
from indexer.readers.source import ReadOptions
from indexer.readers.source_documents import whole_data
from indexer.readers.tasks import JRC
from indexer.training.aligned_documents import AlignedVectors, add_encoded
from onnx_export.huggingface.hub_source import require_torch
from papers.published import published
from papers.systems import mean_scores
from query.alignment.mate_retrieval_sweep import Point, Sweep, run_sweep
from query.evaluation.scored_runs import ScoredRun

Published = Mapping[str, Mapping[str, Sequence[float]]]
"""Mate retrieval rate and mean reciprocal rank by the paper's encoders, then by method."""
PAPER: Published = published("mappings")["encoders"]
PAPER_DATA: str = published("mappings")["data"]
NCA = "nca"
_BLANKS = re.compile(r"\s+")


@dataclass(frozen=True)
class MatesTable:
    """Mate retrieval over all ordered pairs of languages; ``documents`` is the number of documents of each language."""

    languages: Sequence[str]
    documents: int
    points: list[Point]


def logged_run(point: Point) -> ScoredRun:
    """The run of a point: a topic is a concept, with means over the pairs of languages and the splits that test it."""
    scores = mean_scores(
        {concept: {"Success@1": mates.rate, "RR": mates.mrr} for concept, mates in point.concepts.items()}
    )
    return ScoredRun("all", "language", "mul", scores, None)


def retrieve_mates(documents: Iterable[Document], encoder: Encoder, sweep: Sweep, console: Console) -> MatesTable:
    """Encode documents with the field ``concept``, and find each document's translation by every method of a sweep.

    Raises BadInput: there are too few languages, or too few concepts that all languages have.
    """
    parallel = add_encoded(AlignedVectors(), documents, encoder, console).only(()).parallel()
    return MatesTable(list(parallel.rows), len(parallel.concepts), run_sweep(parallel, sweep, console))


def learn_networks(split: ConceptSplit, seed: int) -> Comparer:
    """NCA's comparer, which needs the train extra. Raises MissingPart: torch is not installed."""
    require_torch()
    from papers.nca import comparer  # noqa: PLC0415 - torch

    return comparer(split, seed)


def read_jrc(folder: Path, langs: Sequence[str], most: int = 0) -> Iterator[Document]:
    """Documents that exist in all of the given languages, language after language, ordered by their names.

    ``folder`` is that of the unpacked archives, ``most`` the greatest number of documents of a language; 0: all. Raises
    BadInput: a language has no files of this layout, or no document exists in all languages.
    """
    files: dict[str, dict[str, Path]] = {}
    for lang in langs:
        paths = sorted(folder.rglob(f"jrc*-{lang}.xml*")) if folder.is_dir() else []
        files[lang] = {match[1]: path for path in paths if (match := JRC.fullmatch(path.name))}
        if not files[lang]:
            raise BadInput(f"{folder} has no {lang}/YEAR/jrc…-{lang}.xml; unpack jrc-{lang}.tgz of JRC-Acquis there")
    common = sorted(set.intersection(*(set(lang_files) for lang_files in files.values())))
    if not common:
        raise BadInput(f"no document of {folder} is there in all of {', '.join(langs)}; leave languages out")
    for lang_files in files.values():
        for name in common[: most or None]:
            yield from whole_data(lang_files[name], ReadOptions(format="jrc"))


def read_wikicomp(path: Path, most: int = 0) -> Iterator[Document]:
    """Both articles of each pair, pair after pair; pairs with an article without text are left out.

    ``most`` is the greatest number of pairs; 0: all. Raises BadInput: the file is missing or damaged, or has no pair.
    """
    count = 0
    for block in _pairs(path):
        articles = list(_articles(block))
        if len(articles) != 2 or not all(article.text for article in articles):
            continue
        yield from articles
        count += 1
        if count == most:
            return
    if not count:
        raise BadInput(f"{path} has no <articlePair> with two articles; give a wikicomp file of linguatools")


def _pairs(path: Path) -> Iterator[str]:
    if not path.is_file():
        raise BadInput(f"{path} does not exist; give a wikicomp file of linguatools")
    file = SourceFile(path, str(path))
    lines: list[str] = []
    try:
        for line in file.lines():
            text = line.decode("utf-8", "replace")
            if "<articlePair" in text:
                lines = []
            lines.append(text)
            if "</articlePair" in text:
                yield "".join(lines)
                lines = []
    except UnreadableFileError as error:
        raise BadInput(f"{file.shown} can't be read on after line {file.line}: {error}") from error


def _articles(block: str) -> Iterator[Document]:
    concept, lang, title, inside = "", "", "", False
    parts: list[str] = []
    for token in tokens(block):
        match token:
            case Tag(name="ARTICLEPAIR", closes=False):
                concept = token.attributes.get("id", "")
            case Tag(name="ARTICLE", closes=False):
                lang, title = normalise(token.attributes.get("lang", "und")), token.attributes.get("name", "")
                parts = []
            case Tag(name="CONTENT"):
                inside = not token.closes
            case Tag(name="P" | "H"):
                parts.append("\n")
            case Tag(name="ARTICLE", closes=True):
                text = "\n".join(line for part in "".join(parts).split("\n") if (line := part.strip()))
                yield Document(f"{concept}-{lang}", lang, text, title, {"concept": concept})
            case str() if inside:
                parts.append(_BLANKS.sub(" ", token))
