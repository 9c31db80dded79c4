"""``python -m papers mappings``: mate retrieval on JRC-Acquis and on comparable articles of Wikipedia."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import sqlalchemy as sa

from encoders.document import EncoderSpec
from encoders.machine.placement import Device
from encoders.maps.mate_scores import Comparer
from encoders.maps.parallel import ConceptSplit
from encoders.methods.method_registry import METHODS
from indexer.training.aligned_documents import AlignedVectors, add_encoded
from onnx_export.huggingface.hub_source import require_torch
from onnx_export.models import open_named
from papers.data import read_jrc, read_wikicomp
from papers.table import PaperTable, Table, command_of, log, mean_scores, option, published
from query.alignment.mate_retrieval_sweep import Point, Sweep, mates_figure, run_sweep
from query.commands.mates import sweep_options
from query.commands.options.encoder_options import default_encoder_option, device_option, languages_option
from query.evaluation.drawing import save_figure
from query.evaluation.scored_runs import ScoredRun

_FIGURES = published("mappings")


def learn_shift(split: ConceptSplit, _seed: int) -> Comparer:
    """SHIFT: documents lose the difference of the languages' means over parallel texts (Jang et al., EMNLP 2026)."""
    means = {lang: rows.mean(axis=0) for lang, rows in split.training.rows.items()}
    return lambda lang, other, queries, documents: (queries, documents - (means[other] - means[lang]))


def learn_networks(split: ConceptSplit, seed: int) -> Comparer:
    """NCA's comparer, which needs the train extra."""
    from papers.networks import nca_comparer  # noqa: PLC0415 - torch

    return nca_comparer(split, seed)


@dataclass(frozen=True, kw_only=True)
class MatesTables(Table):
    """Mate retrieval over all ordered pairs of languages: 60 % teach, 20 % validate, 20 % are tested.

    --jrc takes the folder where jrc-LL.tgz were unpacked, --wikipedia comparable articles of two languages as
    linguatools publishes them (wikicomp-2014_LLLL.xml, compressed or not).
    """

    jrc: Path | None = option("JRC-Acquis, the archives of its languages unpacked.", metavar="DIR")
    wikipedia: tuple[Path, ...] = option("A wikicomp file; may be repeated.", metavar="FILE")
    languages: list[str] = option(languages_option("Languages of JRC-Acquis.", default="en,ro,nl,de,fr"))
    documents: int = option("Documents of a language, at most.", default=6538)
    encoder: str = option(default_encoder_option())
    method: str = option("The paper's: first.", type=click.Choice(METHODS), default="first")
    device: Device = option(device_option)
    sweep: Sweep = option(sweep_options({"shift": learn_shift, "nca": learn_networks}))
    plot: Path | None = option()

    def compute(self) -> None:  # noqa: D102
        if not self.jrc and not self.wikipedia:
            raise click.UsageError("name the data: --jrc DIR, --wikipedia FILE, or both")
        if "nca" in self.sweep.methods:
            require_torch()  # before documents are encoded
        engine = self.open_log()
        loaded = self.cached(open_named(self.encoder, self.method, self.console, device=self.device))
        drawn_points, numbers = list[Point](), list[int]()
        encoders, limit = _FIGURES["encoders"], self.documents
        sources = [("JRC-Acquis", read_jrc(self.jrc, self.languages, limit), encoders)] if self.jrc else []
        sources += [(file.name, read_wikicomp(file, self.documents), {}) for file in self.wikipedia]
        for name, documents, paper in sources:
            parallel = add_encoded(AlignedVectors(), documents, loaded, self.console).only(()).parallel()
            points = run_sweep(parallel, self.sweep, self.console)
            drawn_points = drawn_points or points
            counts = dict.fromkeys(parallel.rows, len(parallel.concepts))
            numbers += self._show(name, counts, points, loaded.spec, paper, engine)
        self.say_logged(numbers)
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
        paper: Mapping[str, Any],
        engine: sa.Engine,
    ) -> list[int]:
        """Log and print the points of a collection, whose languages have so many documents; returns their numbers."""
        languages, count = ", ".join(documents), max(documents.values())
        table = PaperTable(
            f"{name}: rate and MRR, {languages}, {count:,} documents each",
            [encoder.name],
            [f"paper: {model}" for model in paper],
            ["method", self.sweep.swept],
            digits=3,
            paper_data=_FIGURES["data"] if paper else "not this collection; its figures are of JRC-Acquis alone",
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
            runs = [ScoredRun("all", "language", "mul", mean_scores(topics), None)]
            of_point = (f"mappings, {name}", point.method, encoder, documents, runs, name)
            numbers.append(log(engine, *of_point, settings=about))
            by_model = {model: pair for model, pair in figures.items() if pair}
            points_json.append({**point.as_json(), "evaluation": numbers[-1], "paper": by_model})
        table.show(self.console)
        values = {"task": name, "languages": list(documents), "documents": count, **table.data_json()}
        self.console.show({**values, "points": points_json})
        return numbers


command = command_of(MatesTables, "mappings")
