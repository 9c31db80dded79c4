"""Mate retrieval on JRC-Acquis and on comparable articles of Wikipedia, and readers of both in their published layouts.

**JRC-Acquis 3.0** (the archives jrc-LL.tgz, unpacked into one folder): ``LL/YEAR/jrcNAME-LL.xml``, TEI with paragraphs
``<p n="…">`` in ``<body>``; a document has the same NAME in every language. In many French documents, letters with
diacritics are written like ``%eacute;``.

**Wikipedia** (wikicomp of linguatools, a file for each pair of languages): ``<articlePair id="…">`` with two
``<article lang="…" name="…">``, paragraphs ``<p>`` and headings ``<h>`` in ``<content>``.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import sqlalchemy as sa

from encoders.document import Document, EncoderSpec
from encoders.errors import BadInput
from encoders.languages import normalise
from encoders.machine.placement import Device
from encoders.maps.mate_scores import Comparer
from encoders.maps.parallel import ConceptSplit
from encoders.methods.method_registry import METHODS
from indexer.readers.newspapers.markup import Tag, tokens
from indexer.readers.records.files import SourceFile, UnreadableFileError
from indexer.readers.records.source import ReadOptions
from indexer.readers.source_documents import whole_data
from indexer.readers.tasks import JRC
from indexer.training.aligned_documents import AlignedVectors, add_encoded
from onnx_export.huggingface.hub_source import require_torch
from onnx_export.models import open_named
from papers.paper_table import PaperTable, published
from papers.runner import Table, command_of, option
from papers.systems import System, mean_scores, say_logged
from query.alignment.mate_retrieval_sweep import Point, Sweep, mates_figure, run_sweep
from query.commands.mates import sweep_options
from query.commands.options.encoder_options import default_encoder_option, device_option, languages_option
from query.commands.options.option_types import PATH
from query.evaluation.drawing import save_figure
from query.evaluation.scored_runs import ScoredRun

Published = Mapping[str, Mapping[str, Sequence[float]]]
"""Mate retrieval rate and mean reciprocal rank by the paper's encoders, then by method."""
PAPER: Published = published("mappings")["encoders"]
PAPER_DATA: str = published("mappings")["data"]
NCA = "nca"
_BLANKS = re.compile(r"\s+")


def learn_networks(split: ConceptSplit, seed: int) -> Comparer:
    """NCA's comparer, which needs the train extra."""
    require_torch()
    from papers.networks import nca_comparer  # noqa: PLC0415 - torch

    return nca_comparer(split, seed)


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

    ``most`` is the greatest number of pairs; 0: all.
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


@dataclass(frozen=True, kw_only=True)
class MatesTables(Table):
    """Mate retrieval over all ordered pairs of languages: 60 % teach, 20 % validate, 20 % are tested.

    --jrc takes the folder where jrc-LL.tgz were unpacked, --wikipedia comparable articles of two languages as
    linguatools publishes them (wikicomp-2014_LLLL.xml, compressed or not).
    """

    jrc: Path | None = option(type=PATH, metavar="DIR", help="JRC-Acquis, the archives of its languages unpacked.")
    wikipedia: tuple[Path, ...] = option(
        type=PATH, multiple=True, metavar="FILE", help="A wikicomp file; may be repeated."
    )
    languages: list[str] = option(languages_option("Languages of JRC-Acquis.", default="en,ro,nl,de,fr"))
    documents: int = option(
        type=click.IntRange(1), default=6538, show_default=True, help="Documents of a language, at most."
    )
    encoder: str = option(default_encoder_option())
    method: str = option(type=click.Choice(METHODS), default="first", show_default=True, help="The paper's: first.")
    device: Device = option(device_option)
    sweep: Sweep = option(sweep_options({NCA: learn_networks}))
    plot: Path | None = option()

    def compute(self) -> None:  # noqa: D102
        if not self.jrc and not self.wikipedia:
            raise click.UsageError("name the data: --jrc DIR, --wikipedia FILE, or both")
        if NCA in self.sweep.methods:
            require_torch()  # before documents are encoded
        engine = self.open_log()
        loaded = self.cached(open_named(self.encoder, self.method, self.console, device=self.device))
        drawn_points: list[Point] = []
        numbers: list[int] = []
        sources = [("JRC-Acquis", read_jrc(self.jrc, self.languages, self.documents), PAPER)] if self.jrc else []
        sources += [(file.name, read_wikicomp(file, self.documents), {}) for file in self.wikipedia]
        for name, documents, paper in sources:
            parallel = add_encoded(AlignedVectors(), documents, loaded, self.console).only(()).parallel()
            points = run_sweep(parallel, self.sweep, self.console)
            drawn_points = drawn_points or points
            counts = dict.fromkeys(parallel.rows, len(parallel.concepts))
            numbers += self._show(name, counts, points, loaded.spec, paper, engine)
        say_logged(numbers, self.console)
        loaded.say_cached()
        if self.plot:
            save_figure(mates_figure(drawn_points, self.sweep), self.plot)
            self.console.say(f"drawn: {self.plot}")

    def _show(
        self,
        name: str,
        documents: Mapping[str, int],
        points: Sequence[Point],
        encoder: EncoderSpec,
        paper: Published,
        engine: sa.Engine,
    ) -> list[int]:
        """Log and print the points of a collection, whose languages have so many documents; returns their numbers."""
        languages, count = ", ".join(documents), max(documents.values())
        table = PaperTable(
            f"{name}: rate and MRR, {languages}, {count:,} documents each",
            ["method", self.sweep.swept],
            [f"paper: {model}" for model in paper],
            [encoder.name],
            digits=3,
            paper_data=PAPER_DATA if paper else "not this collection; its figures are of JRC-Acquis alone",
            our_data=f"{name}: {count:,} documents in each of {languages}; split in the same shares",
        )
        points_json, numbers = [], []
        for point in points:
            figures = {model: by_method.get(point.method) for model, by_method in paper.items()}
            table.add([point.method, point.value_text], list(figures.values()), [(point.mean.rate, point.mean.mrr)])
            about = {"splits": self.sweep.splits, "seed": self.sweep.seed}
            about |= {self.sweep.swept: point.value} if point.value else {}
            # a topic is a concept, with means over the pairs of languages and the splits that test it
            topics = {concept: {"Success@1": mates.rate, "RR": mates.mrr} for concept, mates in point.concepts.items()}
            run = ScoredRun("all", "language", "mul", mean_scores(topics), None)
            system = System(f"mappings, {name}", point.method, encoder, documents, [run], name, settings=about)
            numbers.append(system.log(engine))
            paper_json = {model: pair for model, pair in figures.items() if pair}
            points_json.append({**point.as_json(), "evaluation": numbers[-1], "paper": paper_json})
        table.show(self.console)
        about_table = {"task": name, "languages": list(documents), "documents": count, **table.data_json()}
        self.console.show({**about_table, "points": points_json})
        return numbers


command = command_of(MatesTables, "mappings")
