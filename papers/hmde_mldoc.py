"""``python -m papers hmde-mldoc``: learnt in one language, tested in each, on MLDoc or on your own documents."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import numpy.typing as npt

from encoders.console import Console
from encoders.document import Document, Encoder
from encoders.languages import normalise
from encoders.machine.placement import Device
from papers.cached_encoder import vectors_by_id
from papers.classification import (
    Labelled,
    LabelledSplit,
    all_documents,
    classify,
    labelled_documents,
    read_mldoc,
    split_of,
    subsampled,
)
from papers.hmde_methods import (
    EPOCHS,
    METHOD,
    MLDOC,
    RATE,
    TAUGHT,
    FineTuning,
    open_method,
    require_fine_tuned,
    trainable_encoder,
)
from papers.paper_table import PaperTable, documents_in_words, published
from papers.runner import Table, command_of, option
from query.commands.options.encoder_options import default_encoder_option, device_option

if TYPE_CHECKING:
    from papers.trainable import Trainable

_FIGURES = published("hmde")["classification"]
SYSTEMS: Sequence[str] = _FIGURES["systems"]
PAPER: Mapping[str, Sequence[float]] = _FIGURES["languages"]
"""Accuracy in per cent of the paper's systems, fine-tuned on English (table 1)."""
PAPER_DATA: str = _FIGURES["data"]
_STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
_BATCH = 256


def paper_means(langs: Sequence[str], taught: str) -> list[float]:
    """Means of the paper's systems over languages, in per cent.

    Empty if the paper lacks a language or ``taught`` is not English.
    """
    if taught != "en" or not PAPER.keys() >= set(langs):
        return []
    # 1e-6 rounds a half up, as in the paper.
    return [float(np.mean(column)) + 1e-6 for column in zip(*(PAPER[lang] for lang in langs), strict=True)]


@dataclass(frozen=True)
class Accuracy:
    """Mean accuracy over splits and its standard deviation, in per cent, four decimals."""

    accuracy: float
    spread: float

    @classmethod
    def of(cls, by_split: npt.NDArray[np.float64]) -> Accuracy:
        """Mean and standard deviation of (splits,) accuracies in per cent."""
        return cls(round(float(by_split.mean()), 4), round(float(by_split.std()), 4))


@dataclass(frozen=True)
class Accuracies:
    """A classifier's accuracy by language, over all languages, and over all but the language of training if any."""

    languages: Mapping[str, Accuracy]
    mean: Accuracy
    others: Accuracy | None

    @classmethod
    def of(cls, by_split: Sequence[Mapping[str, float]], taught: str) -> Accuracies:
        """Means over the accuracies by language, 0 to 1, of each split; a split may lack documents of a language."""
        langs = dict.fromkeys(lang for by_lang in by_split for lang in by_lang)

        def mean(among: Collection[str]) -> Accuracy:
            of_splits = [[accuracy for lang, accuracy in by_lang.items() if lang in among] for by_lang in by_split]
            return Accuracy.of(100 * np.array([np.mean(of_split) for of_split in of_splits if of_split]))

        others = langs.keys() - {taught}
        return cls({lang: mean({lang}) for lang in langs}, mean(langs), mean(others) if others else None)

    def as_json(self) -> dict[str, Any]:
        """The accuracies as JSON."""
        return {
            "languages": {lang: asdict(accuracy) for lang, accuracy in self.languages.items()},
            "others": self.others and self.others.accuracy,
            "others_spread": self.others and self.others.spread,
            "mean": self.mean.accuracy,
            "mean_spread": self.mean.spread,
        }


def classify_frozen(splits: Sequence[LabelledSplit], taught: str, encoder: Encoder, console: Console) -> Accuracies:
    """Accuracies of a softmax classifier over frozen vectors (HMDE eq. 2); each document is encoded once."""
    vectors = vectors_by_id("encoding", all_documents(splits), encoder, _BATCH, console)
    by_split = []
    for split in splits:
        train, dev = (Labelled.of(documents, vectors) for documents in (split.train, split.dev))
        tests = {lang: Labelled.of(documents, vectors) for lang, documents in split.tests.items()}
        by_split.append(classify(train, dev, tests, _STRENGTHS))
    return Accuracies.of(by_split, taught)


def classify_fine_tuned(
    splits: Sequence[LabelledSplit], taught: str, encoder: Trainable, settings: FineTuning, console: Console
) -> Accuracies:
    """Accuracies of the encoder with a linear layer, trained anew for each split."""
    from papers.fine_tuning import Classifier, Examples, load_documents  # noqa: PLC0415 - torch
    from papers.trainable import copy_weights, restore_weights  # noqa: PLC0415 - torch

    documents = all_documents(splits)
    with console.progress("reading", len(documents), "documents") as progress:
        rows = load_documents(encoder, documents, progress)
    untrained = copy_weights(encoder.parameters())

    def examples(part: Sequence[Document]) -> Examples:
        return Examples(
            [rows[document.doc_id] for document in part], [str(document.fields["label"]) for document in part]
        )

    by_split = []
    for seed, split in enumerate(splits):
        restore_weights(encoder.parameters(), untrained)
        train = examples(split.train)
        classifier = Classifier(encoder, train.labels, replace(settings, seed=seed))
        classifier.train(train, examples(split.dev), console)
        by_split.append({lang: classifier.accuracy(examples(part)) for lang, part in split.tests.items()})
    return Accuracies.of(by_split, taught)


@dataclass(frozen=True, kw_only=True)
class ClassificationTable(Table):
    """Classification in languages without training data (table 1).

    A softmax classifier over frozen document vectors learns from the training part of one language, its penalty is
    chosen on the same language's dev part, and all languages' test parts are classified. --fine-tuned also trains the
    encoder together with a linear layer, as the paper does. --draws and --splits repeat the experiment and report the
    spread.
    """

    mldoc: Path | None = option(**MLDOC)
    documents: tuple[str, ...] = option(
        multiple=True,
        metavar="SOURCE",
        help="Or documents with the fields label and split (or concept).",
    )
    taught: str = option("--train", "taught", **TAUGHT)
    draws: int | None = option(type=click.IntRange(1), help="How often to draw 80 % of the training part.")
    splits: int | None = option(
        type=click.IntRange(1), help="Of --documents: split so often by concept, not as stored."
    )
    encoder: str = option(default_encoder_option())
    method: str | None = option(**METHOD)
    fine_tuned: bool = option(is_flag=True, help="Train the encoder for the task, too; needs PyTorch.")
    checkpoint: str | None = option(
        metavar="NAME|FOLDER",
        help="With --fine-tuned: Hugging Face model that the encoder was exported from.  "
        "[default: of the default encoder]",
    )
    epochs: int | None = option(**EPOCHS)
    rate: float | None = option(**RATE)
    device: Device = option(device_option)

    def compute(self) -> None:  # noqa: D102
        if bool(self.mldoc) == bool(self.documents):
            raise click.UsageError("name the data: --mldoc DIR, or --documents SOURCE")
        if self.splits and (self.mldoc or self.draws):
            raise click.UsageError("--splits are of --documents, without --draws")
        require_fine_tuned([self.checkpoint, self.epochs, self.rate], fine_tuned=self.fine_tuned)
        texts = read_mldoc(self.mldoc) if self.mldoc else labelled_documents(self.documents, self.console)
        taught = normalise(self.taught)
        if self.splits:
            splits = [split_of(texts, taught, seed) for seed in range(self.splits)]
        else:
            whole = split_of(texts, taught)
            splits = [subsampled(whole, seed) for seed in range(self.draws)] if self.draws else [whole]
        loaded = open_method(self.encoder, self.method, self.device, self.console, self.checkpoint)
        trainable = None
        if self.fine_tuned:  # refused before documents are encoded
            trainable = trainable_encoder(loaded, self.encoder, self.checkpoint, self.device, self.console)
        cached = self.cached(loaded)
        modes = {"frozen": classify_frozen(splits, taught, cached, self.console)}
        if trainable:
            tuning = FineTuning.of(self.epochs, self.rate)
            modes["fine_tuned"] = classify_fine_tuned(splits, taught, trainable, tuning, self.console)
        name = f"{loaded.spec.name} by {loaded.spec.method}"
        table = self._table(modes, taught, name, splits)
        table.show(self.console)
        stated = {mode: accuracies.as_json() for mode, accuracies in modes.items()}
        about = {"draws": self.draws or 1, "splits": self.splits, "encoder": name, "train": taught}
        self.console.show({**about, **table.data_json(), **stated.pop("frozen"), **stated})
        cached.say_cached()

    def _table(
        self, modes: Mapping[str, Accuracies], taught: str, name: str, splits: Sequence[LabelledSplit]
    ) -> PaperTable:
        """The paper's columns and ours, a row for each language, with the spread over several splits."""
        first = splits[0]
        source = self.mldoc.name if self.mldoc else ", ".join(Path(file).name for file in self.documents)
        tests = documents_in_words({lang: len(part) for lang, part in first.tests.items()})
        table = PaperTable(
            f"Accuracy in %, learnt from {taught}; the paper fine-tunes its encoders; ours: {name}",
            [""],
            SYSTEMS,
            [mode.replace("_", " ") for mode in modes],
            paper_data=PAPER_DATA,
            our_data=f"{source}: {len(first.train):,} documents in {taught} to learn from, "
            f"{len(first.dev):,} to choose by; to test: {tests}",
        )

        def cell(value: Accuracy | None) -> str:
            spread = f" ± {value.spread:.1f}" if value and len(splits) > 1 else ""
            return f"{value.accuracy:.1f}{spread}" if value else ""

        langs = list(modes["frozen"].languages)
        other_langs = [lang for lang in langs if lang != taught]
        for lang in langs:
            table.add([lang], paper_means([lang], taught), [cell(mode.languages[lang]) for mode in modes.values()])
        if other_langs:
            others = [cell(mode.others) for mode in modes.values()]
            table.add([f"mean without {taught}"], paper_means(other_langs, taught), others)
            table.add(["mean"], paper_means(langs, taught), [cell(mode.mean) for mode in modes.values()])
        return table


command = command_of(ClassificationTable, "hmde-mldoc")
