"""``python -m papers mappings``: mate retrieval on JRC-Acquis and Wikipedia, the paper's figures beside ours."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import click
import sqlalchemy as sa

from encoders.console import Console
from encoders.document import Document, Encoder
from encoders.machine.placement import Device
from encoders.methods.method_registry import METHODS
from onnx_export.huggingface.hub_source import require_torch
from onnx_export.models import open_named
from papers.cached_encoder import CachedEncoder
from papers.mappings import (
    NCA,
    PAPER,
    PAPER_DATA,
    Published,
    learn_networks,
    logged_run,
    read_jrc,
    read_wikicomp,
    retrieve_mates,
)
from papers.paper_table import PaperTable, data_json
from papers.runner import Table, command_of, option
from papers.systems import System, say_logged
from query.alignment.mate_retrieval_sweep import Point, Sweep, mates_figure
from query.commands.mates import sweep_options
from query.commands.options.encoder_options import default_encoder_option, device_option, languages_option
from query.commands.options.option_types import PATH
from query.evaluation.drawing import save_figure


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
        loaded = CachedEncoder(
            open_named(self.encoder, self.method, self.console, device=self.device), self.settings.home, self.console
        )
        drawn_points: list[Point] = []
        numbers: list[int] = []
        sources = [("JRC-Acquis", read_jrc(self.jrc, self.languages, self.documents), PAPER)] if self.jrc else []
        sources += [(file.name, read_wikicomp(file, self.documents), {}) for file in self.wikipedia]
        for name, texts, paper in sources:
            points, logged = _show_table(name, texts, loaded, self.sweep, paper, engine, self.console)
            drawn_points = drawn_points or points
            numbers += logged
        say_logged(numbers, self.console)
        loaded.say_cached()
        if self.plot:
            save_figure(mates_figure(drawn_points, self.sweep), self.plot)
            self.console.say(f"drawn: {self.plot}")


def _show_table(
    name: str,
    documents: Iterable[Document],
    encoder: Encoder,
    sweep: Sweep,
    paper: Published,
    engine: sa.Engine,
    console: Console,
) -> tuple[list[Point], list[int]]:
    """Log and print a table; returns its points and the numbers of their evaluations."""
    mates = retrieve_mates(documents, encoder, sweep, console)
    counts = dict.fromkeys(mates.languages, mates.documents)
    title = f"{name}: rate and MRR, {', '.join(mates.languages)}, {mates.documents:,} documents each"
    heads = [f"paper: {model}" for model in paper]
    paper_data = PAPER_DATA if paper else "not this collection; its figures are of JRC-Acquis alone"
    our_data = (
        f"{name}: {mates.documents:,} documents in each of {', '.join(mates.languages)}; split in the same shares"
    )
    table = PaperTable(
        title,
        ["method", sweep.swept],
        heads,
        [encoder.spec.name],
        digits=3,
        paper_data=paper_data,
        our_data=our_data,
    )
    points_json, numbers = [], []
    for point in mates.points:
        figures = {model: by_method.get(point.method) for model, by_method in paper.items()}
        table.add([point.method, point.value_text], list(figures.values()), [(point.mean.rate, point.mean.mrr)])
        about = {"splits": sweep.splits, "seed": sweep.seed, **({sweep.swept: point.value} if point.value else {})}
        system = System(
            f"mappings, {name}", point.method, encoder.spec, counts, [logged_run(point)], name, settings=about
        )
        numbers.append(system.log(engine))
        paper_json = {model: pair for model, pair in figures.items() if pair}
        points_json.append({**point.as_json(), "evaluation": numbers[-1], "paper": paper_json})
    table.show(console)
    console.show(
        {
            "task": name,
            "languages": mates.languages,
            "documents": mates.documents,
            **data_json(paper_data, our_data),
            "points": points_json,
        }
    )
    return mates.points, numbers


command = command_of(MatesTables, "mappings")
