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
from papers.retrieval import RANKED_BY, RankedBy, precision
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
        numbers = self._show(engine, "documents", title, self.wikipedia, results, self.languages, trained_as)
        if self.plot:
            save_figure(tables.precision_figure(results, tables.PAPER["documents"].get(trained_as, {})), self.plot)
            self.console.say(f"drawn: {self.plot}")
        model = models[first, second]
        trained = self.languages[:2] if self.pairs == "pairwise" else self.languages
        if texts and self.europarl:
            results = tables.retrieve_sentences(model, (first, second), texts, 2 * self.queries, self.candidates)
            numbers += self._show(engine, "sentences", "Sentences of Europarl", self.europarl, results, trained)
        if entries and self.dictionary:
            results = tables.retrieve_words(model, (first, second), entries, 1500)
            numbers += self._show(engine, "words", "Words", self.dictionary, results, trained)
        say_logged(numbers, self.console)

    def _show(
        self,
        engine: sa.Engine,
        task: str,
        title: str,
        source: Path,
        results: Sequence[tables.Retrieved],
        trained: Sequence[str],
        training: str = "",
    ) -> list[int]:
        """Log and print a task's table; returns its evaluations' numbers.

        ``trained`` are the languages of the articles that taught, ``training`` is the paper's, for documents alone.
        """
        published = tables.PAPER[task].get(training, {})
        candidates = {result.langs[1]: result.candidates for result in results}
        evaluations = {
            ranked_by: self._log(engine, task, source, ranked_by, results, candidates) for ranked_by in RANKED_BY
        }
        queries = sorted({len(result.queries) for result in results})
        asked = f"{queries[0]:,}" if len(queries) == 1 else f"{queries[0]:,} to {queries[-1]:,}"
        our_data = f"{source.name}; {asked} queries a pair among {documents_in_words(candidates)}"
        our_data += ", those not used in training first" if training else ""
        our_data += f"; trained on {', '.join(trained)}"
        our_data += "; idf and ridge are the articles'" if task == "sentences" else ""
        table = PaperTable(
            f"{title}, in %",
            ["", ""],
            ["paper P@1 5 10"],
            ["ours P@1 5 10"],
            ["queries", *(["concepts in common", "paper"] if training else [])],
            paper_data=tables.PAPER_DATA[task],
            our_data=our_data,
        )
        rows: list[dict[str, Any]] = []
        baselines: list[dict[str, Any]] = []
        for result in results:
            langs = {"query": result.langs[0], "candidates": result.langs[1]}
            in_common = {} if result.in_common is None else {"in_common": result.in_common}
            counts = [f"{len(result.queries):,} among {result.candidates:,}"]
            if training:
                counts += [f"{result.in_common:,}", tables.published_in_common(training, result.langs)]
            for ranked_by in RANKED_BY:
                paper = published.get(result.langs, {}).get(ranked_by, ())
                ours = precision(result.ranks[ranked_by])
                name = "CSLS" if ranked_by == "csls" else ranked_by
                table.add([" → ".join(result.langs), name], [paper], [ours], *counts)
                figures = {"paper": list(paper) or None, "ours": [round(value, 3) for value in ours]}
                rows.append({**langs, "measure": ranked_by, **figures, **in_common})
        for result in results:
            for method, paper in tables.BASELINES[task].get(result.langs, []):
                table.add([" → ".join(result.langs), method], [paper], [None], *[""] * len(table.counts))
                langs = {"query": result.langs[0], "candidates": result.langs[1]}
                baselines.append({**langs, "method": method, "paper": list(paper)})
        table.show(self.console)
        about = {"task": title, "evaluations": evaluations, **table.data_json()}
        self.console.show({**about, "rows": rows, "baselines": baselines})
        return [*evaluations.values()]

    def _log(
        self,
        engine: sa.Engine,
        task: str,
        source: Path,
        ranked_by: RankedBy,
        results: Sequence[tables.Retrieved],
        candidates: Mapping[str, int],
    ) -> int:
        """Log a task by cosine or by CSLS; returns the evaluation's number."""
        encoder = EncoderSpec(f"cr5-{self.pairs}", "cr5", self.dimensions, tuple(self.languages), "", "")
        about: dict[str, Any] = {
            "dimensions": self.dimensions,
            "ridge": self.ridge or "by cross-validation",
            "pivots": [normalise(code) for code in self.pivots],
            **({"intersection": self.intersection} if self.intersection else {}),
        }
        runs = runs_of_pairs({result.langs: result.scores(ranked_by) for result in results}, {})
        return System(f"cr5, {task}", ranked_by, encoder, candidates, runs, source.name, settings=about).log(engine)


command = command_of(Cr5Tables, "cr5")
