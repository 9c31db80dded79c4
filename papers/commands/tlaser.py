"""``python -m papers tlaser``: zero-shot classification X × Y, and similarity search in both directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

import click
import numpy as np
import numpy.typing as npt

from encoders import table_layout
from encoders.console import Console
from encoders.cr5.bags_of_words import BagsOfWords, is_cr5
from encoders.machine.placement import Device
from encoders.methods.combined_encoder import SEPARATOR
from encoders.methods.method_registry import SENTENCE_METHODS
from encoders.methods.token_windows import First
from encoders.wording import counted
from onnx_export.huggingface.hub_source import require_torch
from onnx_export.models import find_model, open_named
from papers import tlaser as tables
from papers.cached_encoder import CachedEncoder
from papers.classification import Classifier, averages, labelled_documents
from papers.paper_table import data_json, documents_in_words, show_data
from papers.runner import Table, command_of, option
from query.commands.options.encoder_options import device_option, encoder_option, languages_option
from query.commands.options.option_types import PATH
from query.report.language_pairs import PairTable

_PAPER_SEARCH = "none: the paper has no table of similarity search"
_AVERAGES = ["", ">cross", ">same", ">all"]
_BILINGUAL = {"en", "es"}


@dataclass(frozen=True, kw_only=True)
class TlaserTables(Table):
    """Topic classification from each language to each other, and similarity search, on frozen vectors.

    A classifier learns in one language and is tested in all. --documents takes files as for index whose documents have
    the fields label and concept: they are split by concept, several times, and the spread is told. For documents take
    --method sentences where the encoder was made by train tlaser: it has read sentences. With --words 750 a document is
    one sequence, as in the paper. Tatoeba's sentences are encoded whole (method first), whatever --method says.
    """

    encoder: str = option(encoder_option("Made by train tlaser, or any other.", required=True))
    mldoc: Path | None = option(type=PATH, metavar="DIR", help="Folder of english.train.1000, english.dev and so on.")
    tatoeba: Path | None = option(type=PATH, metavar="DIR", help="Folder of tatoeba.deu-eng.deu and so on.")
    documents: tuple[str, ...] = option(
        multiple=True, metavar="SOURCE", help="Documents of your own with label and concept."
    )
    languages: list[str] = option(languages_option("[default: en,de,fr,es,it of MLDoc, else all]"))
    splits: int = option(type=click.IntRange(1), default=5, show_default=True, help="Random splits of --documents.")
    method: str | None = option(
        type=click.Choice(SENTENCE_METHODS),
        help="How a document's vector is made.  [default: as for index]",
    )
    words: int | None = option(
        type=click.IntRange(1),
        metavar="N",
        help="Encode the first N words of a document as one sequence.  [the paper's T-LASER: 750]",
    )
    classifier: Classifier = option(
        type=click.Choice(get_args(Classifier)),
        default="logistic",
        show_default=True,
        help="feed-forward: the paper's network, which needs the train extra.",
    )
    device: Device = option(device_option)

    def compute(self) -> None:  # noqa: D102
        method = self.method
        if not (self.mldoc or self.tatoeba or self.documents):
            raise click.UsageError("name the data: --mldoc DIR, --tatoeba DIR, or --documents SOURCE")
        if self.words and method:
            raise click.UsageError("--words makes one sequence of a document; leave --method out")
        if self.classifier == "feed-forward":
            require_torch()  # before documents are encoded
        corpus = tables.mldoc_corpus(self.mldoc, self.languages or list(tables.FIGURES["pairs"])) if self.mldoc else {}
        pairs = tables.read_tatoeba(self.tatoeba, self.languages) if self.tatoeba else {}
        labelled = labelled_documents(self.documents, self.console, self.languages) if self.documents else []
        if self.words:
            method = _whole_text_method(self.encoder, self.console)
            _warn_short(self.encoder, self.words, self.console)
            labelled = tables.first_words(labelled, self.words)
            corpus = {
                lang: {part: tables.first_words(texts, self.words) for part, texts in parts.items()}
                for lang, parts in corpus.items()
            }
        if corpus or labelled:
            loaded = CachedEncoder(
                open_named(self.encoder, method, self.console, device=self.device), self.settings.home, self.console
            )
            if corpus:
                tests = {lang: len(parts["test"]) for lang, parts in corpus.items()}
                _show_mldoc(
                    tables.classify_mldoc(corpus, loaded, self.console, self.classifier),
                    loaded.spec.name,
                    tests,
                    self.console,
                )
            if labelled:
                results = tables.classify_documents(labelled, self.splits, loaded, self.console, self.classifier)
                _show_documents(results, loaded.spec.name, self.console)
            loaded.say_cached()
        if pairs:
            opened = open_named(
                self.encoder, _whole_text_method(self.encoder, self.console), self.console, device=self.device
            )
            sentence_encoder = CachedEncoder(opened, self.settings.home, self.console)
            _show_search(tables.search_sentences(pairs, sentence_encoder, self.console), self.console)
            sentence_encoder.say_cached()


def _whole_text_method(reference: str, console: Console) -> str:
    """Names of the methods by which the encoders of a reference encode a whole text as one sentence."""
    folders = [find_model(name, console) for name in reference.split(SEPARATOR)]
    return SEPARATOR.join(BagsOfWords.method if is_cr5(folder) else First.method for folder in folders)


def _warn_short(reference: str, words: int, console: Console) -> None:
    """Warn of encoders that read fewer tokens than a document has words."""
    for name in reference.split(SEPARATOR):
        folder = find_model(name, console)
        limit = words if is_cr5(folder) else folder.config.max_tokens
        if limit < words:
            console.warn(f"{name} reads {limit:,} tokens at most, fewer than {words:,} words")


def _show_mldoc(table: PairTable, encoder: str, tests: Mapping[str, int], console: Console) -> None:
    rows = []
    for lang, accuracies in zip(table.queries, table.values.tolist(), strict=True):
        cells = zip(table.documents, accuracies, strict=True)
        rows.append([lang, *(_pair_cell(lang, test, accuracy) for test, accuracy in cells)])
    title = "MLDoc, accuracy in %: the paper's LASER (2018) and cT-LASER, ours (tables 3, 5)"
    console.print([table_layout.Table(["trained in", *(f">{lang}" for lang in table.documents)], rows, title)])
    if "en" in table.queries and len(table.documents) > 1:
        _show_trained_in_english(table, encoder, console)
    if set(table.documents) == _BILINGUAL:
        _show_bilingual(table, encoder, console)
    paper_rows = [
        [
            name,
            *(f"{value:.1f}" for value in values),
            f"{speed:,}" if (speed := tables.FIGURES["words_per_second"].get(name)) else "",
        ]
        for name, values in tables.FIGURES["averages"].items()
    ]
    ours = [f"ours: {encoder}", *(_percent(value) for value in asdict(averages(table)).values()), ""]
    title = "MLDoc, averages in %, the paper's over five languages; words/s in training (table 4)"
    console.print([table_layout.Table([*_AVERAGES, ">words/s"], [*paper_rows, ours], title)])
    our_data = f"MLDoc; documents to test: {documents_in_words(tests)}"
    show_data(tables.FIGURES["data"], our_data, console)
    console.show(
        {
            "task": "MLDoc",
            **data_json(tables.FIGURES["data"], our_data),
            "paper": tables.FIGURES["averages"],
            "paper_words_per_second": tables.FIGURES["words_per_second"],
            "paper_english": tables.FIGURES["english"],
            "paper_laser_pairs": tables.FIGURES["laser_pairs"],
            "paper_pairs": tables.FIGURES["pairs"],
            "paper_bilingual": tables.FIGURES["bilingual"],
            "splits": [_as_json(table)],
        }
    )


def _pair_cell(lang: str, test: str, accuracy: float) -> str:
    papers = [paper.get(lang, {}).get(test, "–") for paper in (tables.FIGURES["laser_pairs"], tables.FIGURES["pairs"])]
    return "  ".join([*map(str, papers), _percent(accuracy)])


def _show_trained_in_english(table: PairTable, encoder: str, console: Console) -> None:
    """Table 2: classifiers trained in English, tested in the other languages."""
    tests = [lang for lang in table.documents if lang != "en"]
    accuracies = dict(zip(table.documents, table.values[list(table.queries).index("en")].tolist(), strict=True))
    rows = [[name, *(str(paper.get(lang, "–")) for lang in tests)] for name, paper in tables.FIGURES["english"].items()]
    rows.append([f"ours: {encoder}", *(_percent(accuracies[lang]) for lang in tests)])
    title = "MLDoc, trained in English, accuracy in % (table 2)"
    console.print([table_layout.Table(["", *(f">{lang}" for lang in tests)], rows, title)])


def _show_bilingual(table: PairTable, encoder: str, console: Console) -> None:
    """Table 6: encoders trained on English and Spanish alone."""
    pairs = [(lang, test) for lang in table.queries for test in table.documents]
    rows = [
        [name, *(str(paper[lang][test]) for lang, test in pairs)] for name, paper in tables.FIGURES["bilingual"].items()
    ]
    rows.append([f"ours: {encoder}", *(_percent(value) for value in table.values.ravel().tolist())])
    title = "MLDoc, encoders trained on English and Spanish alone, accuracy in % (table 6)"
    console.print([table_layout.Table(["", *(f">{lang}-{test}" for lang, test in pairs)], rows, title)])


def _show_documents(results: Sequence[PairTable], encoder: str, console: Console) -> None:
    """Print means and deviations over splits: of each pair of languages, and of the averages."""
    languages = results[0].documents
    values = np.array([table.values for table in results])
    rows = [[lang, *(_spread(column) for column in values[:, row].T)] for row, lang in enumerate(languages)]
    title = f"Own documents, accuracy in %, mean ± deviation over {len(results)} splits by concept"
    console.print([table_layout.Table(["trained in", *(f">{lang}" for lang in languages)], rows, title)])
    means = np.array([list(asdict(averages(table)).values()) for table in results])
    console.print([table_layout.Table(_AVERAGES, [[encoder, *(_spread(column) for column in means.T)]])])
    our_data = "your documents"
    show_data(tables.FIGURES["data"], our_data, console)
    console.show(
        {
            "task": "documents",
            **data_json(tables.FIGURES["data"], our_data),
            "splits": [_as_json(table) for table in results],
        }
    )


def _show_search(results: Sequence[tables.SearchErrors], console: Console) -> None:
    rows, rows_json = [], []
    for result in results:
        errors = result.forward, result.backward
        rows.append([" – ".join(result.langs), *(f"{100 * error:.1f}" for error in errors), f"{result.sentences:,}"])
        rows_json.append(
            {"pair": result.langs, "errors": [round(error, 6) for error in errors], "sentences": result.sentences}
        )
    console.print(
        [table_layout.Table(["", ">error there", ">error back", ">sentences"], rows, "Similarity search, error in %")]
    )
    our_data = f"Tatoeba, {counted(len(results), 'pair')} of languages"
    show_data(_PAPER_SEARCH, our_data, console)
    console.show({"task": "similarity search", **data_json(_PAPER_SEARCH, our_data), "rows": rows_json})


def _percent(value: float) -> str:
    return f"{100 * value:.1f}" if np.isfinite(value) else "–"


def _spread(values: npt.NDArray[np.float64]) -> str:
    """Mean and standard deviation of the finite values, in %."""
    finite = values[np.isfinite(values)]
    return f"{100 * finite.mean():.1f} ± {100 * finite.std():.1f}" if len(finite) else "–"


def _as_json(table: PairTable) -> dict[str, Any]:
    """Averages and accuracies of one split."""
    pairs = {
        lang: {test: _rounded(value) for test, value in zip(table.documents, values, strict=True)}
        for lang, values in zip(table.queries, table.values.tolist(), strict=True)
    }
    return {**{name: _rounded(value) for name, value in asdict(averages(table)).items()}, "pairs": pairs}


def _rounded(value: float) -> float | None:
    return round(value, 6) if np.isfinite(value) else None


command = command_of(TlaserTables, "tlaser")
