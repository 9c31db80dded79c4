"""``dragoman reproduce cr5``: the paper's tables of document, sentence and word retrieval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from encoders.console import Console
from encoders.cr5.settings import Cr5Settings, Pairs
from encoders.languages import normalise
from query.commands.options import output_options

if TYPE_CHECKING:
    from query.reproduce.cr5 import Published, Retrieved

_PATH = click.Path(path_type=Path)


def _codes(_context: click.Context, _option: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(normalise(code) for code in value.split(",") if code.strip()))


@click.command("cr5")
@click.option("--wikipedia", type=_PATH, required=True, metavar="DIR", help="The paper's articles, unpacked.")
@click.option("--europarl", type=_PATH, metavar="DIR", help="Europarl of the first pair of languages.")
@click.option("--dictionary", type=_PATH, metavar="FILE", help="Dinu et al., of the first pair of languages.")
@click.option("--languages", callback=_codes, default="en,it,da,vi", show_default=True, metavar="LANG,…")
@click.option("--pairs", type=click.Choice(get_args(Pairs)), default="joint", show_default=True, help="As for train.")
@click.option("--pivot", "pivots", multiple=True, metavar="LANG", help="For --pairs transitive.")
@click.option("--queries", type=click.IntRange(1), default=1000, show_default=True, help="Articles a pair.")
@click.option(
    "--candidates",
    type=click.IntRange(1),
    default=200_000,
    show_default=True,
    help="Articles of a language to rank; first those that taught nothing (in the paper none did).",
)
@click.option("--dimensions", type=click.IntRange(1), default=300, show_default=True)
@click.option("--ridge", type=click.FloatRange(0, min_open=True), help="[default: by cross-validation over concepts]")
@output_options
def command(
    wikipedia: Path,
    europarl: Path | None,
    dictionary: Path | None,
    languages: tuple[str, ...],
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
    from query.reproduce import cr5 as tables  # noqa: PLC0415 - scipy, which --help does not need
    from query.reproduce.cr5_data import Wikipedia, read_dictionary, read_europarl  # noqa: PLC0415

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
    plan = tables.HoldOutPlan(queries, candidates, settings)
    models, results = tables.retrieve_documents(data, languages, plan, console)
    paper: dict[tuple[str, str], Published] = {}
    for (lang, other_lang), (forward, backward) in tables.PAPER[pairs].items():
        paper |= {(lang, other_lang): forward, (other_lang, lang): backward}
    _show_table(f"Documents, {pairs} training", results, paper, console)
    model = models[first, second]
    if texts:
        sentence_results = tables.retrieve_sentences(model, (first, second), texts, 2 * queries, candidates)
        _show_table("Sentences of Europarl", sentence_results, tables.PAPER_SENTENCES, console)
    if entries:
        _show_table("Words", tables.retrieve_words(model, (first, second), entries, 1500), tables.PAPER_WORDS, console)


def _show_table(
    title: str, results: Sequence[Retrieved], paper: Mapping[tuple[str, str], Published], console: Console
) -> None:
    rows, rows_json = [], list[dict[str, Any]]()
    for result in results:
        published = paper.get(result.langs)
        for measure in ("cosine", "csls"):
            ours = [100 * value for value in getattr(result.ours, measure).values()]
            theirs: Sequence[float] = getattr(published, measure) if published else ()
            rows.append(
                [
                    " → ".join(result.langs),
                    "CSLS" if measure == "csls" else measure,
                    " ".join(f"{value:.1f}" for value in theirs),
                    " ".join(f"{value:.1f}" for value in ours),
                    f"{result.ours.queries:,} among {result.candidates:,}",
                ]
            )
            rows_json.append(
                {
                    "query": result.langs[0],
                    "candidates": result.langs[1],
                    "measure": measure,
                    "paper": list(theirs) or None,
                    "ours": [round(value, 3) for value in ours],
                }
            )
    console.table(["", "", ">paper P@1 5 10", ">ours P@1 5 10", ">queries"], rows, title=f"{title}, in %")
    console.emit({"task": title, "rows": rows_json})
