"""The tables of the T-LASER paper: topic classification from each language to each other, and similarity search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from encoders.cr5.bags_of_words import BagsOfWords, is_cr5
from encoders.document import Document
from encoders.errors import BadInput
from encoders.machine.placement import Device
from encoders.methods.combined_encoder import SEPARATOR
from encoders.methods.method_registry import SENTENCE_METHODS
from encoders.methods.token_windows import First
from encoders.phrases import counted
from encoders.tlaser.similarity import search_error
from onnx_export.huggingface.hub_source import require_torch
from onnx_export.models import find_model, open_named
from papers import classification
from papers.cached_encoder import CachedEncoder, vectors_by_id
from papers.classification import PARTS, Classifier, Labelled, Part, averages
from papers.data import Translations, read_mldoc, read_tatoeba
from papers.table import PaperTable, Table, command_of, documents_in_words, option, published
from query.commands.options.encoder_options import device_option, encoder_option, languages_option
from query.report.language_pairs import PairTable

FIGURES = published("tlaser")
"""Accuracies of the paper's encoders on MLDoc in %, by table."""
_AVERAGES = ["cross", "same", "all"]
_BATCH = 512

Corpus = Mapping[str, Mapping[Part, Sequence[Document]]]
"""Labelled documents by language and part."""


@dataclass(frozen=True, kw_only=True)
class TlaserTables(Table):
    """Topic classification from each language to each other, and similarity search, on frozen vectors.

    A classifier learns in one language and is tested in all. --documents takes files as for index whose documents have
    the fields label and concept: they are split by concept, several times, and the spread is told. For documents take
    --method sentences where the encoder was made by train tlaser: it has read sentences. With --words 750 a document is
    one sequence, as in the paper. Tatoeba's sentences are encoded whole (method first), whatever --method says.
    """

    encoder: str = option(encoder_option("Made by train tlaser, or any other.", required=True))
    mldoc: Path | None = option("Folder of english.train.1000, english.dev and so on.", metavar="DIR")
    tatoeba: Path | None = option("Folder of tatoeba.deu-eng.deu and so on.", metavar="DIR")
    documents: tuple[str, ...] = option("Documents of your own with label and concept.", metavar="SOURCE")
    languages: list[str] = option(languages_option("[default: en,de,fr,es,it of MLDoc, else all]"))
    splits: int = option("Random splits of --documents.", default=5)
    method: str | None = option(
        "How a document's vector is made.  [default: as for index]", type=click.Choice(SENTENCE_METHODS)
    )
    words: int | None = option(
        "Encode the first N words of a document as one sequence.  [the paper's T-LASER: 750]", metavar="N"
    )
    classifier: Classifier = option(
        "feed-forward: the paper's network, which needs the train extra.", default="logistic"
    )
    device: Device = option(device_option)

    def compute(self) -> None:  # noqa: D102
        if not (self.mldoc or self.tatoeba or self.documents):
            raise click.UsageError("name the data: --mldoc DIR, --tatoeba DIR, or --documents SOURCE")
        if self.words and self.method:
            raise click.UsageError("--words makes one sequence of a document; leave --method out")
        if self.classifier == "feed-forward":
            require_torch()  # before documents are encoded
        corpus = self._mldoc_corpus(self.mldoc) if self.mldoc else {}
        pairs = read_tatoeba(self.tatoeba, self.languages) if self.tatoeba else {}
        labelled = self._first_words(
            classification.labelled_documents(self.documents, self.console, self.languages) if self.documents else []
        )
        for name in self.encoder.split(SEPARATOR) if self.words else ():
            folder = find_model(name, self.console)
            if self.words and not is_cr5(folder) and folder.config.max_tokens < self.words:
                limit = folder.config.max_tokens
                self.console.warn(f"{name} reads {limit:,} tokens at most, fewer than {self.words:,} words")
        if corpus or labelled:
            loaded = self._open(self.method, whole=bool(self.words))
            if corpus:
                self._classify_mldoc(corpus, loaded)
            if labelled:
                self._classify_documents(labelled, loaded)
            loaded.say_cached()
        if pairs:
            loaded = self._open(None, whole=True)
            self._search(pairs, loaded)
            loaded.say_cached()

    def _mldoc_corpus(self, folder: Path) -> Corpus:
        """MLDoc in the wanted languages, of those that have all three parts."""
        corpus = classification.by_language(self._first_words(read_mldoc(folder)), None)
        complete = {lang: parts for lang, parts in corpus.items() if len(parts) == len(PARTS)}
        if not complete:
            raise BadInput(
                f"{folder} has no language of MLDoc whole (english.train.1000, english.dev, english.test and so on); "
                "make them with the corpus's own scripts"
            )
        languages = self.languages or list(FIGURES["pairs"])
        selected = {lang: complete[lang] for lang in languages if lang in complete}
        if not selected:
            raise BadInput(
                f"MLDoc's folder has {', '.join(complete)} and none of {', '.join(languages)}; say --languages"
            )
        return selected

    def _first_words(self, documents: Sequence[Document]) -> Sequence[Document]:
        """Documents with the first words of their texts alone, blanks between them; unchanged without --words."""
        if not self.words:
            return documents
        return [replace(document, text=" ".join(document.text.split()[: self.words])) for document in documents]

    def _open(self, method: str | None, *, whole: bool) -> CachedEncoder:
        """The encoders by a method, or each by the method that encodes a whole text as one sentence."""
        if whole:
            folders = [find_model(name, self.console) for name in self.encoder.split(SEPARATOR)]
            method = SEPARATOR.join(BagsOfWords.method if is_cr5(folder) else First.method for folder in folders)
        return self.cached(open_named(self.encoder, method, self.console, device=self.device))

    def _classify_mldoc(self, corpus: Corpus, encoder: CachedEncoder) -> None:
        """Print tables 2 to 6: ours by pair of languages, trained in English, bilingual, and averages."""
        data: dict[str, dict[Part, Labelled]] = {lang: {} for lang in corpus}
        for lang, parts in corpus.items():
            for part, documents in parts.items():
                vectors = vectors_by_id(f"encoding {lang} {part}", documents, encoder, _BATCH, self.console)
                data[lang][part] = Labelled.of(documents, vectors)
        pair_table = classification.zero_shot(data, self.classifier)
        accuracies, ours = _accuracies(pair_table), f"ours: {encoder.spec.name}"
        title = "MLDoc, accuracy in %: the paper's LASER (2018) and cT-LASER, ours (tables 3, 5)"
        matrix = PaperTable(title, pair_table.documents, labels=["trained in"])
        for lang, by_test in accuracies.items():
            papers = [FIGURES[name].get(lang, {}) for name in ("laser_pairs", "pairs")]
            figures = {test: [str(paper.get(test, "–")) for paper in papers] for test in by_test}
            matrix.add([lang], [], ["  ".join([*figures[test], _percent(value)]) for test, value in by_test.items()])
        matrix.show(self.console)
        tested = [lang for lang in accuracies if lang != "en"]
        if "en" in accuracies and tested:
            english = PaperTable("MLDoc, trained in English, accuracy in % (table 2)", tested)
            for system, paper in FIGURES["english"].items():
                english.add([system], [], [str(paper.get(lang, "–")) for lang in tested])
            english.add([ours], [], [_percent(accuracies["en"][lang]) for lang in tested])
            english.show(self.console)
        if accuracies.keys() == {"en", "es"}:
            pairs = [(lang, test) for lang, by_test in accuracies.items() for test in by_test]
            title = "MLDoc, encoders trained on English and Spanish alone, accuracy in % (table 6)"
            bilingual = PaperTable(title, [f"{lang}-{test}" for lang, test in pairs])
            for system, paper in FIGURES["bilingual"].items():
                bilingual.add([system], [], [str(paper[lang][test]) for lang, test in pairs])
            bilingual.add([ours], [], [_percent(accuracies[lang][test]) for lang, test in pairs])
            bilingual.show(self.console)
        counts = documents_in_words({lang: len(parts["test"]) for lang, parts in corpus.items()})
        means = PaperTable(
            "MLDoc, averages in %, the paper's over five languages; words/s in training (table 4)",
            _AVERAGES,
            counts=["words/s"],
            paper_data=FIGURES["data"],
            our_data=f"MLDoc; documents to test: {counts}",
        )
        for system, values in FIGURES["averages"].items():
            speed = FIGURES["words_per_second"].get(system)
            means.add([system], [], values, f"{speed:,}" if speed else "")
        means.add([ours], [], [_percent(value) for value in averages(pair_table).values()], "")
        means.show(self.console)
        names = ("words_per_second", "english", "laser_pairs", "pairs", "bilingual")
        stated = {"paper": FIGURES["averages"], **{f"paper_{name}": FIGURES[name] for name in names}}
        self.console.show({"task": "MLDoc", **means.data_json(), **stated, "splits": [_as_json(pair_table)]})

    def _classify_documents(self, documents: Sequence[Document], encoder: CachedEncoder) -> None:
        """Print means and deviations over splits by concept: of each pair of languages, and of the averages."""
        vectors = vectors_by_id("encoding documents", documents, encoder, _BATCH, self.console)
        results = []
        for seed in range(self.splits):
            corpus = sorted(classification.by_language(documents, seed).items())
            data = {lang: {part: Labelled.of(parts.get(part, []), vectors) for part in PARTS} for lang, parts in corpus}
            results.append(classification.zero_shot(data, self.classifier))
        values = np.array([table.values for table in results])
        taught = np.isfinite(values).any(axis=2).sum(axis=0).tolist()
        if not any(taught):
            raise BadInput(
                "no language has documents of two labels to learn from, and more to choose and to test by; give others"
            )
        for lang, count in zip(results[0].queries, taught, strict=True):
            if count < self.splits:
                lacking = f"{self.splits - count} of {self.splits} splits"
                self.console.warn(f"{lang} has too few documents or labels to learn from in {lacking}")
        title = f"Own documents, accuracy in %, mean ± deviation over {counted(self.splits, 'split')} by concept"
        matrix = PaperTable(title, results[0].documents, labels=["trained in"])
        for row, lang in enumerate(results[0].documents):
            matrix.add([lang], [], [_spread(column) for column in values[:, row].T])
        matrix.show(self.console)
        table_of_means = PaperTable("", _AVERAGES, paper_data=FIGURES["data"], our_data="your documents")
        means = np.array([list(averages(table).values()) for table in results])
        table_of_means.add([encoder.spec.name], [], [_spread(column) for column in means.T])
        table_of_means.show(self.console)
        splits = [_as_json(table) for table in results]
        self.console.show({"task": "documents", **table_of_means.data_json(), "splits": splits})

    def _search(self, pairs: Translations, encoder: CachedEncoder) -> None:
        """Print the errors of searching each sentence's translation in the other language, there and back."""
        table = PaperTable(
            "Similarity search, error in %",
            ["error there", "error back"],
            counts=["sentences"],
            paper_data="none: the paper has no table of similarity search",
            our_data=f"Tatoeba, {counted(len(pairs), 'pair')} of languages",
        )
        rows = []
        for langs, sides in pairs.items():
            vectors = []
            for lang, texts in zip(langs, sides, strict=True):
                documents = [Document(str(row), lang, text) for row, text in enumerate(texts)]
                by_id = vectors_by_id(f"encoding {lang}", documents, encoder, _BATCH, self.console)
                vectors.append(np.array(list(by_id.values())))
            errors = [search_error(*vectors), search_error(*reversed(vectors))]
            count = len(sides[0])
            table.add([" – ".join(langs)], [], [100 * error for error in errors], f"{count:,}")
            rows.append({"pair": langs, "errors": [round(error, 6) for error in errors], "sentences": count})
        table.show(self.console)
        self.console.show({"task": "similarity search", **table.data_json(), "rows": rows})


def _percent(value: float) -> str:
    return f"{100 * value:.1f}" if np.isfinite(value) else "–"


def _spread(values: npt.NDArray[np.float64]) -> str:
    """Mean and standard deviation of the finite values, in %."""
    finite = values[np.isfinite(values)]
    return f"{100 * finite.mean():.1f} ± {100 * finite.std():.1f}" if len(finite) else "–"


def _accuracies(table: PairTable) -> dict[str, dict[str, float]]:
    """Accuracies by language of training, then of the test."""
    rows = zip(table.queries, table.values.tolist(), strict=True)
    return {lang: dict(zip(table.documents, row, strict=True)) for lang, row in rows}


def _as_json(table: PairTable) -> dict[str, Any]:
    """Averages and accuracies of one split."""

    def rounded(values: Mapping[str, float]) -> dict[str, float | None]:
        return {name: round(value, 6) if np.isfinite(value) else None for name, value in values.items()}

    return {**rounded(averages(table)), "pairs": {lang: rounded(row) for lang, row in _accuracies(table).items()}}


command = command_of(TlaserTables, "tlaser")
