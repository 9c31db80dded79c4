"""``dragoman reproduce cr5``: the paper's tables of document, sentence and word retrieval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

import click

from encoders.console import Console
from encoders.cr5.settings import Cr5Settings, Pairs
from encoders.languages import normalise
from query.commands.help import Command
from query.commands.options import PATH, Number, languages_option, output_options
from query.commands.output.paper_table import PaperTable
from query.reproduce import cr5 as tables
from query.reproduce.cr5_data import Wikipedia, read_dictionary, read_europarl


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
@click.option("--ridge", type=Number(0, min_open=True), help="[default: by cross-validation over concepts]")
@output_options
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
    ridge: float | None,
    console: Console,
) -> None:
    """Document retrieval on Wikipedia, sentences of Europarl, words of Dinu et al.

    DIR of --wikipedia has sparse_matrices and word_indices, as the authors publish them. Sentences and words are of the
    first two languages; the paper's are en,it. For sentences the paper takes idf and the ridge from
    300,000 others of Europarl; here both are the articles'.
    """
    if bool(pivots) != (pairs == "transitive"):
        raise click.UsageError("--pairs transitive and --pivot belong together; give both")
    data = Wikipedia(wikipedia)
    missing = [lang for lang in languages if lang not in data.languages]
    if missing or len(languages) < 2:
        raise click.UsageError(f"--languages takes two or more of {', '.join(data.languages)}")
    first, second = languages[:2]
    texts = read_europarl(europarl, first, second) if europarl else None
    entries = read_dictionary(dictionary, first, second) if dictionary else None
    settings = Cr5Settings(dimensions, ridge, pairs, tuple(normalise(code) for code in pivots))
    models, results = tables.retrieve_documents(data, languages, settings, queries, candidates, console)
    _show_table(f"Documents, {pairs} training", results, tables.PAPER[pairs], console)
    model = models[first, second]
    if texts:
        results = tables.retrieve_sentences(model, (first, second), texts, 2 * queries, candidates)
        _show_table("Sentences of Europarl", results, tables.PAPER_SENTENCES, console)
    if entries:
        _show_table("Words", tables.retrieve_words(model, (first, second), entries, 1500), tables.PAPER_WORDS, console)


def _show_table(
    title: str,
    results: Sequence[tables.Retrieved],
    paper: Mapping[tables.Direction, tables.Published],
    console: Console,
) -> None:
    table = PaperTable(f"{title}, in %", ["", ""], ["paper P@1 5 10"], ["ours P@1 5 10"], ["queries"])
    rows = []
    for result in results:
        query_lang, candidate_lang = result.langs
        for measure, name in (("cosine", "cosine"), ("csls", "CSLS")):
            theirs: Sequence[float] = getattr(paper.get(result.langs), measure, ())
            ours = [100 * value for value in getattr(result.ours, measure).values()]
            counts = f"{result.ours.queries:,} among {result.candidates:,}"
            table.add([f"{query_lang} → {candidate_lang}", name], [theirs], [ours], counts)
            rows.append(
                {
                    "query": query_lang,
                    "candidates": candidate_lang,
                    "measure": measure,
                    "paper": list(theirs) or None,
                    "ours": [round(value, 3) for value in ours],
                }
            )
    table.show(console)
    console.emit({"task": title, "rows": rows})
