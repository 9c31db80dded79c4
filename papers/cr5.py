"""``python -m papers cr5``: the paper's tables of document, sentence and word retrieval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import click
import sqlalchemy as sa

from encoders.cr5.cr5_settings import Cr5Settings, Pairs
from encoders.document import EncoderSpec
from encoders.languages import normalise
from papers import cr5_retrieval as tables
from papers.cr5_data import Wikipedia, read_dictionary, read_europarl
from papers.paper_table import PaperTable, documents_in_words
from papers.runner import Table, command_of, option
from papers.systems import System, runs_of_pairs, say_logged
from query.commands.options.common_options import plot_option
from query.commands.options.encoder_options import languages_option
from query.commands.options.option_types import PATH, Number
from query.evaluation.drawing import save_figure


@dataclass(frozen=True, kw_only=True)
class Cr5Tables(Table):
    """Document retrieval on Wikipedia, sentences of Europarl, words of Dinu et al.

    DIR of --wikipedia has sparse_matrices and word_indices, as the authors publish them. Sentences and words are of the
    first two languages; the paper's are en,it. For sentences the paper takes idf and the ridge from
    300,000 others of Europarl; here both are the articles'.
    """

    wikipedia: Path = option(type=PATH, required=True, metavar="DIR", help="The paper's articles, unpacked.")
    europarl: Path | None = option(type=PATH, metavar="DIR", help="Europarl of the first pair of languages.")
    dictionary: Path | None = option(type=PATH, metavar="FILE", help="Dinu et al., of the first pair of languages.")
    languages: list[str] = option(languages_option(default="en,it,da,vi"))
    pairs: Pairs = option(type=click.Choice(get_args(Pairs)), default="joint", show_default=True, help="As for train.")
    pivots: tuple[str, ...] = option("--pivot", "pivots", multiple=True, metavar="LANG", help="For --pairs transitive.")
    queries: int = option(type=click.IntRange(1), default=1000, show_default=True, help="Articles a pair.")
    candidates: int = option(
        type=click.IntRange(1),
        default=200_000,
        show_default=True,
        help="Articles of each language to rank; articles not used in training come first "
        "(the paper ranks only these).",
    )
    dimensions: int = option(type=click.IntRange(1), default=300, show_default=True)
    intersection: int | None = option(
        type=click.IntRange(1),
        metavar="N",
        help="For --pairs pairwise: greatest number of concepts in common that training takes (table 1, d).",
    )
    plot: Path | None = option(plot_option("Draw precision at k of documents, figure 2"))
    ridge: float | None = option(type=Number(0, min_open=True), help="[default: by cross-validation over concepts]")

    def compute(self) -> None:  # noqa: D102
        training = Cr5Settings(self.dimensions, self.ridge, self.pairs, tuple(normalise(code) for code in self.pivots))
        if bool(self.pivots) != training.has_pivots:
            raise click.UsageError("--pairs transitive and --pivot belong together; give both")
        if self.intersection and self.pairs != "pairwise":
            raise click.UsageError("--intersection is for --pairs pairwise; give both")
        data = Wikipedia(self.wikipedia)
        missing = [lang for lang in self.languages if lang not in data.languages]
        if missing or len(self.languages) < 2:
            raise click.UsageError(f"--languages takes two or more of {', '.join(data.languages)}")
        first, second = self.languages[:2]
        texts = read_europarl(self.europarl, first, second) if self.europarl else None
        entries = read_dictionary(self.dictionary, first, second) if self.dictionary else None
        engine = self.open_log()
        models, results = tables.retrieve_documents(
            data, self.languages, training, self.queries, self.candidates, self.console, self.intersection
        )
        title, trained_as = f"Documents, {self.pairs} training", str(self.pairs)
        if self.intersection:
            title += f", {self.intersection:,} concepts in common"
            trained_as = "pairwise, few concepts"
        paper = tables.PAPER.get(trained_as, {})
        numbers = self._show(
            engine, _Task("documents", title, paper, self.wikipedia, trained_as), results, self.languages
        )
        if self.plot:
            save_figure(tables.precision_figure(results, paper), self.plot)
            self.console.say(f"drawn: {self.plot}")
        model = models[first, second]
        trained = self.languages[:2] if self.pairs == "pairwise" else self.languages
        if texts and self.europarl:
            task = _Task("sentences", "Sentences of Europarl", tables.PAPER_SENTENCES, self.europarl)
            results = tables.retrieve_sentences(model, (first, second), texts, 2 * self.queries, self.candidates)
            numbers += self._show(engine, task, results, trained)
        if entries and self.dictionary:
            task = _Task("words", "Words", tables.PAPER_WORDS, self.dictionary)
            numbers += self._show(engine, task, tables.retrieve_words(model, (first, second), entries, 1500), trained)
        say_logged(numbers, self.console)

    def _show(
        self, engine: sa.Engine, task: _Task, results: Sequence[tables.Retrieved], trained: Sequence[str]
    ) -> list[int]:
        """Log and print a table, with the languages of the articles that taught; returns its evaluations' numbers."""
        candidates = {result.langs[1]: result.candidates for result in results}
        evaluations = self._log(engine, task, results, candidates)
        queries = sorted({result.ours.queries for result in results})
        asked = f"{queries[0]:,}" if len(queries) == 1 else f"{queries[0]:,} to {queries[-1]:,}"
        our_data = f"{task.source.name}; {asked} queries a pair among {documents_in_words(candidates)}"
        our_data += ", those not used in training first" if task.name == "documents" else ""
        our_data += f"; trained on {', '.join(trained)}"
        our_data += "; idf and ridge are the articles'" if task.name == "sentences" else ""
        table = PaperTable(
            f"{task.title}, in %",
            ["", ""],
            ["paper P@1 5 10"],
            ["ours P@1 5 10"],
            ["queries", *(["concepts in common", "paper"] if task.training else [])],
            paper_data=tables.PAPER_DATA[task.name],
            our_data=our_data,
        )
        rows: list[dict[str, Any]] = []
        for result in results:
            for measure, name in (("cosine", "cosine"), ("csls", "CSLS")):
                paper: Sequence[float] = getattr(task.paper.get(result.langs), measure, ())
                ours = [100 * value for value in getattr(result.ours, measure).values()]
                counts = [f"{result.ours.queries:,} among {result.candidates:,}"]
                if task.training:
                    counts.append("" if result.in_common is None else f"{result.in_common:,}")
                    counts.append(tables.published_in_common(task.training, result.langs))
                table.add([" → ".join(result.langs), name], [paper], [ours], *counts)
                rows.append(
                    {
                        "query": result.langs[0],
                        "candidates": result.langs[1],
                        "measure": measure,
                        "paper": list(paper) or None,
                        "ours": [round(value, 3) for value in ours],
                        **({} if result.in_common is None else {"in_common": result.in_common}),
                    }
                )
        baselines: list[dict[str, Any]] = []
        for query_lang, candidate_lang in (result.langs for result in results):
            for name, figures in tables.BASELINES[task.name].get((query_lang, candidate_lang), []):
                table.add([f"{query_lang} → {candidate_lang}", name], [figures], [None], *[""] * len(table.counts))
                baselines.append(
                    {"query": query_lang, "candidates": candidate_lang, "method": name, "paper": list(figures)}
                )
        table.show(self.console)
        about = {"task": task.title, "evaluations": evaluations, **table.data_json()}
        self.console.show({**about, "rows": rows, "baselines": baselines})
        return [*evaluations.values()]

    def _log(
        self, engine: sa.Engine, task: _Task, results: Sequence[tables.Retrieved], candidates: Mapping[str, int]
    ) -> dict[tables.RankedBy, int]:
        """Log a task by cosine and by CSLS; returns the numbers of the evaluations."""
        encoder = EncoderSpec(f"cr5-{self.pairs}", "cr5", self.dimensions, tuple(self.languages), "", "")
        about: dict[str, Any] = {
            "dimensions": self.dimensions,
            "ridge": self.ridge or "by cross-validation",
            "pivots": [normalise(code) for code in self.pivots],
            **({"intersection": self.intersection} if self.intersection else {}),
        }
        numbers: dict[tables.RankedBy, int] = {}
        for ranked_by in get_args(tables.RankedBy):
            runs = runs_of_pairs({result.langs: result.scores(ranked_by) for result in results}, {})
            name = f"cr5, {task.name}"
            system = System(name, ranked_by, encoder, candidates, runs, task.source.name, settings=about)
            numbers[ranked_by] = system.log(engine)
        return numbers


@dataclass(frozen=True)
class _Task:
    """A task of the paper."""

    name: str  # in ``PAPER_DATA``
    title: str
    paper: Mapping[tables.Direction, tables.Published]  # the paper's figures
    source: Path  # the data
    training: str = ""  # the paper's training, for the concepts that its languages have in common


command = command_of(Cr5Tables, "cr5")
