"""``python -m papers cr5``: the paper's tables of document, sentence and word retrieval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

import click
import sqlalchemy as sa

from encoders.console import Console
from encoders.cr5.cr5_settings import Cr5Settings, Pairs
from encoders.document import EncoderSpec
from encoders.languages import normalise
from indexer.collection.settings import Settings
from papers import cr5 as tables
from papers.cr5_data import Wikipedia, read_dictionary, read_europarl
from papers.paper_table import PaperTable, data_json, documents_in_words
from papers.systems import System, open_log, runs_of_pairs, say_logged
from query.commands.help import Command
from query.commands.options import PATH, Number, common_options, languages_option, plot_option
from query.evaluation.drawing import save_figure


@click.command("cr5", cls=Command)
@click.option("--wikipedia", type=PATH, required=True, metavar="DIR", help="The paper's articles, unpacked.")
@click.option("--europarl", type=PATH, metavar="DIR", help="Europarl of the first pair of languages.")
@click.option("--dictionary", type=PATH, metavar="FILE", help="Dinu et al., of the first pair of languages.")
@languages_option(default="en,it,da,vi")
@click.option("--pairs", type=click.Choice(get_args(Pairs)), default="joint", show_default=True, help="As for train.")
@click.option("--pivot", "pivots", multiple=True, metavar="LANG", help="For --pairs transitive.")
@click.option("--queries", type=click.IntRange(1), default=1000, show_default=True, help="Articles a pair.")
@click.option(
    "--candidates",
    type=click.IntRange(1),
    default=200_000,
    show_default=True,
    help="Articles of each language to rank; articles not used in training come first (the paper ranks only these).",
)
@click.option("--dimensions", type=click.IntRange(1), default=300, show_default=True)
@click.option(
    "--intersection",
    type=click.IntRange(1),
    metavar="N",
    help="For --pairs pairwise: greatest number of concepts in common that training takes (table 1, d).",
)
@plot_option("Draw precision at k of documents, figure 2")
@click.option("--ridge", type=Number(0, min_open=True), help="[default: by cross-validation over concepts]")
@common_options
def command(
    wikipedia: Path,
    europarl: Path | None,
    dictionary: Path | None,
    languages: list[str],
    pairs: Pairs,
    pivots: tuple[str, ...],
    queries: int,
    candidates: int,
    dimensions: int,
    intersection: int | None,
    plot: Path | None,
    ridge: float | None,
    settings: Settings,
    console: Console,
) -> None:
    """Document retrieval on Wikipedia, sentences of Europarl, words of Dinu et al.

    DIR of --wikipedia has sparse_matrices and word_indices, as the authors publish them. Sentences and words are of the
    first two languages; the paper's are en,it. For sentences the paper takes idf and the ridge from
    300,000 others of Europarl; here both are the articles'.
    """
    training = Cr5Settings(dimensions, ridge, pairs, tuple(normalise(code) for code in pivots))
    if bool(pivots) != training.has_pivots:
        raise click.UsageError("--pairs transitive and --pivot belong together; give both")
    if intersection and pairs != "pairwise":
        raise click.UsageError("--intersection is for --pairs pairwise; give both")
    data = Wikipedia(wikipedia)
    missing = [lang for lang in languages if lang not in data.languages]
    if missing or len(languages) < 2:
        raise click.UsageError(f"--languages takes two or more of {', '.join(data.languages)}")
    first, second = languages[:2]
    texts = read_europarl(europarl, first, second) if europarl else None
    entries = read_dictionary(dictionary, first, second) if dictionary else None
    engine = click.get_current_context().with_resource(open_log(settings))
    models, results = tables.retrieve_documents(data, languages, training, queries, candidates, console, intersection)
    encoder = EncoderSpec(f"cr5-{pairs}", "cr5", dimensions, tuple(languages), "", "")
    about: dict[str, Any] = {
        "dimensions": dimensions,
        "ridge": ridge or "by cross-validation",
        "pivots": list(training.pivots),
    }
    if intersection:
        about["intersection"] = intersection
    log = partial(_log, encoder, about, engine)
    title, paper, published_training = f"Documents, {pairs} training", tables.PAPER.get(pairs, {}), str(pairs)
    if intersection:
        title += f", {intersection:,} concepts in common"
        published_training = "pairwise, few concepts"
        paper = tables.PAPER[published_training]
    task = _Task("documents", title, paper, wikipedia.name, languages, published_training)
    numbers = log(task, results)
    _show_table(task, results, numbers, console)
    logged = [*numbers.values()]
    if plot:
        save_figure(tables.precision_figure(results, paper), plot)
        console.say(f"drawn: {plot}")
    model = models[first, second]
    taught = languages[:2] if pairs == "pairwise" else languages
    if texts and europarl:
        task = _Task("sentences", "Sentences of Europarl", tables.PAPER_SENTENCES, europarl.name, taught)
        results = tables.retrieve_sentences(model, (first, second), texts, 2 * queries, candidates)
        numbers = log(task, results)
        _show_table(task, results, numbers, console)
        logged += numbers.values()
    if entries and dictionary:
        task = _Task("words", "Words", tables.PAPER_WORDS, dictionary.name, taught)
        results = tables.retrieve_words(model, (first, second), entries, 1500)
        numbers = log(task, results)
        _show_table(task, results, numbers, console)
        logged += numbers.values()
    say_logged(logged, console)


@dataclass(frozen=True)
class _Task:
    """A table.

    Attributes:
        name: its name in ``PAPER_DATA``.
        paper: the paper's figures.
        source: name of the data.
        trained: languages of the articles that the encoder learnt from.
        training: the paper's training, for the concepts that its languages have in common.
    """

    name: str
    title: str
    paper: Mapping[tables.Direction, tables.Published]
    source: str
    trained: Sequence[str]
    training: str = ""


def _log(
    encoder: EncoderSpec,
    about: Mapping[str, Any],
    engine: sa.Engine,
    task: _Task,
    results: Sequence[tables.Retrieved],
) -> dict[tables.RankedBy, int]:
    """Log a task by cosine and by CSLS; returns the numbers of the evaluations."""
    numbers: dict[tables.RankedBy, int] = {}
    for ranked_by in get_args(tables.RankedBy):
        runs = runs_of_pairs({result.langs: result.scores(ranked_by) for result in results}, {})
        counts = _candidates(results)
        system = System(f"cr5, {task.name}", ranked_by, encoder, counts, runs, task.source, settings=about)
        numbers[ranked_by] = system.log(engine)
    return numbers


def _candidates(results: Sequence[tables.Retrieved]) -> dict[str, int]:
    """Number of candidates by language."""
    return {result.langs[1]: result.candidates for result in results}


def _show_table(
    task: _Task, results: Sequence[tables.Retrieved], numbers: Mapping[tables.RankedBy, int], console: Console
) -> None:
    paper_data = tables.PAPER_DATA[task.name]
    our_data = f"{task.source}; {_queries(results)} queries a pair among {documents_in_words(_candidates(results))}"
    if task.name == "documents":
        our_data += ", those not used in training first"
    our_data += f"; trained on {', '.join(task.trained)}"
    if task.name == "sentences":
        our_data += "; idf and ridge are the articles'"
    table = PaperTable(
        f"{task.title}, in %",
        ["", ""],
        ["paper P@1 5 10"],
        ["ours P@1 5 10"],
        ["queries", *(["concepts in common", "paper"] if task.training else [])],
        paper_data=paper_data,
        our_data=our_data,
    )
    rows = []
    for result in results:
        query_lang, candidate_lang = result.langs
        for measure, name in (("cosine", "cosine"), ("csls", "CSLS")):
            theirs: Sequence[float] = getattr(task.paper.get(result.langs), measure, ())
            ours = [100 * value for value in getattr(result.ours, measure).values()]
            counts = [f"{result.ours.queries:,} among {result.candidates:,}"]
            if task.training:
                ours_in_common = "" if result.in_common is None else f"{result.in_common:,}"
                counts += [ours_in_common, tables.published_in_common(task.training, result.langs)]
            table.add([f"{query_lang} → {candidate_lang}", name], [theirs], [ours], *counts)
            rows.append(
                {
                    "query": query_lang,
                    "candidates": candidate_lang,
                    "measure": measure,
                    "paper": list(theirs) or None,
                    "ours": [round(value, 3) for value in ours],
                    **({} if result.in_common is None else {"in_common": result.in_common}),
                }
            )
    baselines: list[dict[str, Any]] = [
        {"query": langs[0], "candidates": langs[1], "method": name, "paper": list(figures)}
        for langs in (result.langs for result in results)
        for name, figures in tables.BASELINES[task.name].get(langs, [])
    ]
    for row in baselines:
        blanks = ["" for _ in table.counts]
        table.add([f"{row['query']} → {row['candidates']}", row["method"]], [row["paper"]], [None], *blanks)
    table.show(console)
    console.emit(
        {
            "task": task.title,
            "evaluations": dict(numbers),
            **data_json(paper_data, our_data),
            "rows": rows,
            "baselines": baselines,
        }
    )


def _queries(results: Sequence[tables.Retrieved]) -> str:
    """Numbers of queries, from the fewest to the most."""
    counts = sorted({result.ours.queries for result in results})
    return f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
