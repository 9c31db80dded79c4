"""``python -m papers cr5``: the paper's tables of document, sentence and word retrieval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import sqlalchemy as sa

from encoders.cr5.cr5_settings import Cr5Settings, Pairs
from encoders.document import EncoderSpec
from encoders.languages import normalise
from papers import cr5_retrieval as protocols
from papers.cr5_retrieval import RANKED_BY, RANKS, Direction, Retrieved
from papers.data import Wikipedia, read_dictionary, read_europarl
from papers.table import PaperTable, Table, command_of, documents_in_words, log, option, published, runs_of_pairs
from query.commands.options.common_options import plot_option
from query.commands.options.encoder_options import languages_option
from query.evaluation.drawing import empty_figure, plain_texts, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FIGURES = published("cr5")
_DRAWN = 20
"""Greatest k that is drawn."""


def _paper(langs: Direction, *names: str) -> dict[str, Any]:
    """P@1, P@5 and P@10 in per cent, by measure or method, in a part of the paper's figures; empty if it has none."""
    return reduce(lambda part, name: part.get(name, {}), [*names, "-".join(langs)], _FIGURES)


@dataclass(frozen=True, kw_only=True)
class Cr5Tables(Table):
    """Document retrieval on Wikipedia, sentences of Europarl, words of Dinu et al.

    DIR of --wikipedia has sparse_matrices and word_indices, as the authors publish them. Sentences and words are of the
    first two languages; the paper's are en,it. For sentences the paper takes idf from 300,000 others of Europarl; here
    it is the articles'. Of several --ridge each task chooses as in the paper: by as many other articles held out, by
    the sentences after the candidates, by the words of --dictionary-training.
    """

    wikipedia: Path = option("The paper's articles, unpacked.", required=True, metavar="DIR")
    europarl: Path | None = option("Europarl of the first pair of languages.", metavar="DIR")
    dictionary: Path | None = option("Dinu et al., of the first pair of languages.", metavar="FILE")
    languages: list[str] = option(languages_option(default="en,it,da,vi"))
    pairs: Pairs = option("As for train.", default="joint")
    pivots: tuple[str, ...] = option("For --pairs transitive.", "--pivot", "pivots", metavar="LANG")
    queries: int = option("Articles a pair.", default=1000)
    candidates: int = option(
        "Articles of each language to rank; articles not used in training come first (the paper ranks only these).",
        default=200_000,
    )
    dimensions: int = option("Width of the vectors.", default=300)
    intersection: int | None = option(
        "For --pairs pairwise: greatest number of concepts in common that training takes (table 1, d).", metavar="N"
    )
    plot: Path | None = option(plot_option("Draw precision at k of documents, figure 2"))
    ridge: tuple[float, ...] = option("λ; may be repeated.  [default: by cross-validation over concepts]")
    teaching: Path | None = option("Words to choose λ by.", "--dictionary-training", "teaching", metavar="FILE")

    def compute(self) -> None:  # noqa: D102
        pivots = tuple(normalise(code) for code in self.pivots)
        training = Cr5Settings(self.dimensions, next(iter(self.ridge), None), self.pairs, pivots)
        if bool(self.pivots) != training.has_pivots:
            raise click.UsageError("--pairs transitive and --pivot belong together; give both")
        if self.intersection and self.pairs != "pairwise":
            raise click.UsageError("--intersection is for --pairs pairwise; give both")
        data = Wikipedia(self.wikipedia)
        missing = [lang for lang in self.languages if lang not in data.languages]
        if missing or len(self.languages) < 2:
            raise click.UsageError(f"--languages takes two or more of {', '.join(data.languages)}")
        langs = (self.languages[0], self.languages[1])
        texts = read_europarl(self.europarl, *langs) if self.europarl else None
        entries = read_dictionary(self.dictionary, *langs) if self.dictionary else None
        held_out = read_dictionary(self.teaching, *langs) if self.teaching else {}
        if self.ridge[1:] and ((entries and not held_out) or (texts and len(texts[0]) <= self.candidates)):
            raise click.UsageError("several --ridge need --dictionary-training, and fewer --candidates than sentences")
        engine = self.open_log()
        sizes = (self.queries, self.candidates, self.console, self.intersection, self.ridge)
        models, results = protocols.retrieve_documents(data, self.languages, training, *sizes)
        title, trained_as = f"Documents, {self.pairs} training", str(self.pairs)
        if self.intersection:
            title += f", {self.intersection:,} concepts in common"
            trained_as = "pairwise, few concepts"
        numbers = self._show(engine, "documents", title, self.wikipedia, results, self.languages, trained_as)
        if self.plot:
            save_figure(precision_figure(results, trained_as), self.plot)
            self.console.say(f"drawn: {self.plot}")
        trained = self.languages[:2] if self.pairs == "pairwise" else self.languages
        if texts and self.europarl:
            sentences = partial(protocols.retrieve_sentences, langs)
            counts = 2 * self.queries, self.candidates
            others = [side[self.candidates :] for side in texts]
            results = sentences(texts, *counts, protocols.chosen(models, partial(sentences, others, *counts)))
            numbers += self._show(engine, "sentences", "Sentences of Europarl", self.europarl, results, trained)
        if entries and self.dictionary:
            words = partial(protocols.retrieve_words, langs)
            results = words(entries, 1500, protocols.chosen(models, partial(words, held_out, 1500)))
            numbers += self._show(engine, "words", "Words", self.dictionary, results, trained)
        self.say_logged(numbers)

    def _show(
        self,
        engine: sa.Engine,
        task: str,
        title: str,
        source: Path,
        results: Sequence[Retrieved],
        trained: Sequence[str],
        training: str = "",
    ) -> list[int]:
        """Log and print a task's table; ``training`` is the paper's, of documents alone. Returns the evaluations."""
        candidates = {result.langs[1]: result.candidates for result in results}
        encoder = EncoderSpec(f"cr5-{self.pairs}", "cr5", self.dimensions, tuple(self.languages), "", "")
        settings: dict[str, Any] = {"dimensions": self.dimensions, "ridge": self.ridge or "by cross-validation"}
        settings |= {"pivots": [normalise(code) for code in self.pivots]}
        settings |= {"intersection": self.intersection} if self.intersection else {}
        evaluations: dict[str, int] = {}
        for ranked_by in RANKED_BY:
            runs = runs_of_pairs({result.langs: result.scores(ranked_by) for result in results})
            about = (f"cr5, {task}", ranked_by, encoder, candidates, runs, source.name)
            evaluations[ranked_by] = log(engine, *about, settings=settings)
        queries = sorted({len(result.queries) for result in results})
        asked = f"{queries[0]:,}" if len(queries) == 1 else f"{queries[0]:,} to {queries[-1]:,}"
        our_data = f"{source.name}; {asked} queries a pair among {documents_in_words(candidates)}"
        our_data += ", those not used in training first" if training else ""
        our_data += f"; trained on {', '.join(trained)}"
        idf = "idf is" if self.ridge[1:] else "idf and ridge are"
        our_data += f"; {idf} the articles'" if task == "sentences" else ""
        table = PaperTable(
            f"{title}, in %",
            ["ours P@1 5 10"],
            ["paper P@1 5 10"],
            ["", ""],
            ["queries", *(["concepts in common", "paper"] if training else [])],
            paper_data=_FIGURES["data"][task],
            our_data=our_data,
        )
        rows: list[dict[str, Any]] = []
        baselines: list[dict[str, Any]] = []
        for result in results:
            arrow, langs = " → ".join(result.langs), dict(zip(("query", "candidates"), result.langs, strict=True))
            in_common = {} if result.in_common is None else {"in_common": result.in_common}
            paper = _paper(result.langs, task, *([training] if training else []))
            counts = [f"{len(result.queries):,} among {result.candidates:,}"]
            counts += [f"{result.in_common:,}", paper.get("in_common", "")] if training else []
            for ranked_by in RANKED_BY:
                published_figures, ours = paper.get(ranked_by), protocols.precision(result.ranks[ranked_by])
                table.add([arrow, "CSLS" if ranked_by == "csls" else ranked_by], [published_figures], [ours], *counts)
                figures = {"paper": published_figures, "ours": [round(value, 3) for value in ours]}
                rows.append({**langs, "measure": ranked_by, **figures, **in_common})
            methods = _paper(result.langs, "baselines", task).items()
            baselines += [{**langs, "method": method, "paper": figures} for method, figures in methods]
        for baseline in baselines:
            labels = [f"{baseline['query']} → {baseline['candidates']}", baseline["method"]]
            table.add(labels, [baseline["paper"]], [None], *[""] * len(table.counts))
        table.show(self.console)
        values = {"task": title, "evaluations": evaluations, **table.data_json()}
        self.console.show({**values, "rows": rows, "baselines": baselines})
        return [*evaluations.values()]


def precision_figure(results: Sequence[Retrieved], training: str) -> Figure:
    """Draw precision at k by CSLS for each pair of languages, the mean of both directions; points are the paper's."""
    by_langs = {result.langs: result for result in results}
    ranks = np.arange(1, _DRAWN + 1)
    figure = empty_figure(7.0, 4.6)
    with plain_texts():
        axes = figure.subplots()
        for number, langs in enumerate(langs for langs in by_langs if langs[0] < langs[1]):
            both = np.array([*by_langs[langs].ranks["csls"], *by_langs[langs[::-1]].ranks["csls"]])
            colour = f"C{number}"
            axes.plot(ranks, [100 * (both <= rank).mean() for rank in ranks], color=colour, label=" – ".join(langs))
            for marker, part, name in (
                ("o", ("documents", training), "csls"),
                ("x", ("baselines", "documents"), "ADVREFINE, CSLS"),
            ):
                points = [_paper(direction, *part).get(name, []) for direction in (langs, langs[::-1])]
                if all(points):
                    axes.plot(RANKS, np.mean(points, axis=0), marker, color=colour, markersize=5)
        axes.plot([], [], "o", color="gray", label="paper: Cr5")
        axes.plot([], [], "x", color="gray", label="paper: ADVREFINE")
        axes.set(xlabel="k", ylabel="precision at k, in %", ylim=(0, 100))
        axes.legend(frameon=False, fontsize=8)
    return figure


command = command_of(Cr5Tables, "cr5")
