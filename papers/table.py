"""What the tables share: options and run, the paper's figures beside ours, systems in the evaluation log."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import click
import numpy as np
import sqlalchemy as sa

from encoders import table_layout
from encoders.console import Console
from encoders.document import Encoder, EncoderSpec, short_hash
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database, require_writable
from papers.cached_encoder import CachedEncoder
from query.commands.options.common_options import common_options
from query.commands.options.help import Command
from query.commands.options.option_types import PATH, Decorator, Number
from query.evaluation import evaluation_log
from query.evaluation.evaluation_log import EvaluationRow, Setup
from query.evaluation.scored_runs import ScoredRun, pair_name
from query.measures.quality_measures import Scores, parse_measures, pooled
from query.trec_files.trec_run import Run, pack

Figures = str | float | Sequence[float] | None
"""What a cell shows: a text, a number, or several numbers; none: nothing."""


def option(text: str | Decorator | None = None, *names: str, **settings: Any) -> Any:
    """A field that an option gives, with its help text; click's settings follow the field's type unless given.

    Without click's names the option is named as the field. A decorator of ``query.commands.options`` stands in place of
    the text. Without either, the field gets its value from the option of another field.
    """
    return field(metadata={"text": text, "names": names, "settings": settings})


def _settings_of(hint: Any) -> dict[str, Any]:
    """Click's settings for a field's type."""
    if get_origin(hint) in (tuple, UnionType):
        return _settings_of(get_args(hint)[0]) | ({"multiple": True} if get_origin(hint) is tuple else {})
    if get_origin(hint) is Literal:
        return {"type": click.Choice(get_args(hint))}
    types = {int: click.IntRange(1), float: Number(0, min_open=True), Path: PATH}
    return {"is_flag": True} if hint is bool else {"type": types.get(hint)}


@dataclass(frozen=True, kw_only=True)
class Table:
    """What every table of a paper gets; a subclass has the options in the order of its help."""

    settings: Settings
    console: Console

    def compute(self) -> None:
        """Compute the table, print it, and log its runs."""
        raise NotImplementedError

    def open_log(self) -> sa.Engine:
        """The evaluation log, open until the command ends."""
        engine: sa.Engine = click.get_current_context().with_resource(open_database(self.settings.database))
        require_writable(engine, EvaluationRow)
        return engine

    def cached(self, encoder: Encoder) -> CachedEncoder:
        """The encoder with the cache of vectors in the home."""
        return CachedEncoder(encoder, self.settings.home, self.console)

    def say_logged(self, numbers: Sequence[int]) -> None:
        """Say by which numbers evaluations were logged."""
        if numbers:
            span = f"evaluation {numbers[0]}" if len(numbers) == 1 else f"evaluations {numbers[0]} to {numbers[-1]}"
            self.console.say(f"Logged as {span}; every topic's scores: dragoman runs show {numbers[0]}")


def command_of(table: type[Table], name: str) -> click.Command:
    """The command that computes a table; its help is the table's docstring."""

    def compute(**values: Any) -> None:
        table(**values).compute()

    compute.__doc__ = table.__doc__
    command, hints = common_options(compute), get_type_hints(table)
    for given in reversed(fields(table)):
        text, names = given.metadata.get("text"), given.metadata.get("names")
        if callable(text):
            command = text(command)
        elif text:
            settings = {"show_default": "default" in given.metadata["settings"], **given.metadata["settings"]}
            names = names or [f"--{given.name.replace('_', '-')}"]
            command = click.option(*names, help=text, **_settings_of(hints[given.name]) | settings)(command)
    return click.command(name, cls=Command)(command)


@dataclass(frozen=True)
class PaperTable:
    """A paper's figures beside ours."""

    title: str
    ours: Sequence[str]  # heads of the columns of our figures
    paper: Sequence[str] = ()  # heads of the columns of the paper's figures
    labels: Sequence[str] = ("",)  # heads of the first columns, which say what a row is
    counts: Sequence[str] = ()  # heads of the last columns
    digits: int = 1  # of a figure after the point
    paper_data: str = ""  # what the paper's figures are of
    our_data: str = ""  # what ours are of
    rows: list[list[str]] = field(default_factory=list)

    def add(self, labels: Sequence[str], paper: Sequence[Figures], ours: Sequence[Figures], *counts: str) -> None:
        """Add a row; the paper's cells are blank if it has no figures."""
        figures = [*(paper or [None] * len(self.paper)), *ours]
        self.rows.append([*labels, *map(self._cell, figures), *counts])

    def show(self, console: Console) -> None:
        """Print the table."""
        figure_columns = [f">{head}" for head in (*self.paper, *self.ours, *self.counts)]
        console.print([table_layout.Table([*self.labels, *figure_columns], self.rows, self.title)])
        if self.paper_data or self.our_data:
            console.print(f"the paper's data: {self.paper_data}")
            console.print(f"here: {self.our_data}")

    def data_json(self) -> dict[str, str]:
        """What the paper's figures are of, and ours, as JSON values."""
        return {"paper_data": self.paper_data, "our_data": self.our_data}

    def _cell(self, figures: Figures) -> str:
        if figures is None or isinstance(figures, str):
            return figures or ""
        numbers = [figures] if isinstance(figures, (int, float)) else figures
        return " ".join(f"{number:.{self.digits}f}" for number in numbers)


def documents_in_words(counts: Mapping[str, int]) -> str:
    """Numbers of documents by language, such as ``de 12, fi 3,400``."""
    return ", ".join(f"{lang} {count:,}" for lang, count in counts.items())


@cache
def published(paper: str) -> dict[str, Any]:
    """The figures of a paper, by the names of its file."""
    return tomllib.loads((Path(__file__).parent / "figures" / f"{paper}.toml").read_text(encoding="utf-8"))


def log(
    engine: sa.Engine,
    table: str,
    ranked_by: str,
    encoder: EncoderSpec,
    documents: Mapping[str, int],
    runs: Sequence[ScoredRun],
    topics: str,
    hashes: tuple[str, str] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> int:
    """Log a row or column of a table as ``dragoman evaluate`` logs, without a collection; returns its number.

    ``table`` is the name of the command, and of its task if it has several, ``documents`` are counted by language,
    ``topics`` names their files or the data. ``hashes`` are of the files of topics and of judgements; without them, of
    the topics' ids, which name the relevant documents. ``settings`` are further ones, by the names that people read.
    """
    ids = short_hash(*sorted(f"{run.name} {qid}" for run in runs for qid in run.scores.topics))
    values = {
        "table": table,
        "ranked_by": ranked_by,
        "encoder": encoder.name,
        "method": encoder.method,
        "languages": dict(documents),
        "targets": len(documents),
        "of_table": dict(settings or {}),
    }
    system = tag(encoder, ranked_by)
    setup = Setup("", system, encoder.model, encoder.build, "", values, topics, *(hashes or (ids, ids)))
    return evaluation_log.log(engine, setup, runs)


def tag(encoder: EncoderSpec, ranked_by: str) -> str:
    """The name of a system in TREC files."""
    return f"{encoder.name}-{encoder.method}-{ranked_by.replace(' ', '-')}"


def runs_of_pairs(
    scores: Mapping[tuple[str, str], Scores], rankings: Mapping[tuple[str, str], Run] | None = None
) -> list[ScoredRun]:
    """A run for each pair of languages, of topics and documents, and a pooled run if there are several pairs.

    A topic of the pooled run is ``qid.de-fi``. Without rankings there are scores alone.
    """
    runs = [
        ScoredRun(pair_name(*langs), "pair", langs[0], of_pair, pack(rankings[langs]) if rankings else None)
        for langs, of_pair in scores.items()
    ]
    if len(runs) > 1:
        names = runs[0].scores.means
        measures = [measure for measure in parse_measures(names) if str(measure) in names]
        runs.append(ScoredRun("all", "pooled", "mul", pooled({run.name: run.scores for run in runs}, measures), None))
    return runs


def mean_scores(topics: Mapping[str, Mapping[str, float]]) -> Scores:
    """Scores with the mean over all topics, which have the same measures."""
    measures = next(iter(topics.values()), {})
    means = {measure: float(np.mean([values[measure] for values in topics.values()])) for measure in measures}
    return Scores(means, topics)
