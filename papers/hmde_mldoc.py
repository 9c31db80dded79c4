"""``python -m papers hmde-mldoc``: learnt in one language, tested in each, on MLDoc or on your own documents."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from encoders.console import Console
from encoders.document import Encoder
from encoders.languages import normalise
from encoders.machine.placement import Device
from onnx_export.huggingface.hub_source import require_torch
from papers import classification
from papers.cached_encoder import vectors_by_id
from papers.classification import Labelled, LabelledSplit, split_of
from papers.data import read_mldoc
from papers.hmde_clef import method_option, open_method
from papers.table import PaperTable, Table, command_of, documents_in_words, option, published
from query.commands.options.common_options import gathered
from query.commands.options.encoder_options import default_encoder_option, device_option
from query.commands.options.option_types import PATH, Decorator, Number

_FIGURES = published("hmde")["classification"]
PAPER: Mapping[str, Sequence[float]] = _FIGURES["languages"]
"""Accuracy in per cent of the paper's systems, fine-tuned on English (table 1)."""
_STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
_BATCH = 256


@dataclass(frozen=True)
class FineTuning:
    """Settings of a fine-tuning for classification; rate, batch, warm-up and patience are the paper's."""

    rate: float = 2e-5  # peak learning rate of AdamW, without weight decay
    epochs: int = 10  # maximum passes over the training documents; the paper's 50 are for GPUs
    batch: int = 32
    warmup: float = 0.125  # share of the steps until the peak; afterwards the rate falls linearly to 0
    patience: int = 7  # epochs without a smaller loss on the dev part until training stops
    seed: int = 0
    checkpoints: Sequence[str] = ()  # Hugging Face models that the encoders were exported from

    def rate_at(self, step: int, steps: int) -> float:
        """Learning rate of a step; steps count from 0."""
        rising = (step + 1) / max(self.warmup * steps, 1)
        return self.rate * min(rising, (steps - step) / max((1 - self.warmup) * steps, 1), 1.0)


mldoc_option = click.option("--mldoc", type=PATH, metavar="DIR", help="Folder that MLDoc's own script filled.")
taught_option = click.option(
    "--train", "taught", default="en", show_default=True, metavar="LANG", help="Language to learn from."
)


def tuning_options(text: str, checkpoint_text: str) -> Decorator:
    """``--fine-tuned``, ``--checkpoint``, ``--epochs``, ``--rate``; the command gets ``tuning``, None if not wanted."""

    def tuning(
        checkpoints: tuple[str, ...], epochs: int | None, rate: float | None, *, fine_tuned: bool
    ) -> FineTuning | None:
        if fine_tuned:
            return FineTuning(rate or FineTuning.rate, epochs or FineTuning.epochs, checkpoints=checkpoints)
        if checkpoints or epochs or rate:
            raise click.UsageError("--checkpoint, --epochs and --rate belong to --fine-tuned; give it too")
        return None

    with_tuned = "With --fine-tuned:"
    epochs = f"{with_tuned} maximum passes over the training part.  [default: {FineTuning.epochs}]"
    rate = f"{with_tuned} peak learning rate.  [default: {FineTuning.rate:g}]"
    checkpoint = f"{with_tuned} {checkpoint_text}  [default: of the default encoder]"
    return gathered(
        "tuning",
        tuning,
        click.option("--fine-tuned", is_flag=True, help=text),
        click.option("--checkpoint", "checkpoints", multiple=True, metavar="NAME|FOLDER", help=checkpoint),
        click.option("--epochs", type=click.IntRange(1), help=epochs),
        click.option("--rate", type=Number(0, min_open=True), help=rate),
    )


BySplit = Sequence[Mapping[str, float]]
"""Accuracies of each split by language, 0 to 1; a split may lack documents of a language."""


class Accuracy(NamedTuple):
    """Mean accuracy over splits and its standard deviation, in per cent, four decimals."""

    accuracy: float
    spread: float

    @classmethod
    def of(cls, by_split: BySplit, langs: Collection[str]) -> Accuracy:
        """The mean over some languages."""
        of_splits = [[accuracy for lang, accuracy in by_lang.items() if lang in langs] for by_lang in by_split]
        means = 100 * np.array([np.mean(of_split) for of_split in of_splits if of_split])
        return cls(round(float(means.mean()), 4), round(float(means.std()), 4))


def classify_frozen(splits: Sequence[LabelledSplit], encoder: Encoder, console: Console) -> BySplit:
    """Accuracies of a softmax classifier over frozen vectors (HMDE eq. 2); each document is encoded once."""
    vectors = vectors_by_id("encoding", classification.all_documents(splits), encoder, _BATCH, console)
    by_split = []
    for split in splits:
        train, dev = (Labelled.of(documents, vectors) for documents in (split.train, split.dev))
        tests = {lang: Labelled.of(documents, vectors) for lang, documents in split.tests.items()}
        by_split.append(classification.classify(train, dev, tests, _STRENGTHS))
    return by_split


def open_fine_tuning(
    encoder: Encoder, reference: str, checkpoint: str | None, settings: FineTuning, device: Device, console: Console
) -> Callable[[Sequence[LabelledSplit]], BySplit]:
    """What trains an open encoder with a linear layer, anew for each split; its trainable form is opened here."""
    require_torch()
    from papers.fine_tuning import fine_tune  # noqa: PLC0415 - torch
    from papers.trainable import TorchEncoder, open_trainable  # noqa: PLC0415 - torch

    if isinstance(encoder, TorchEncoder):
        return partial(fine_tune, encoder.trainable, settings, console)
    trainable = open_trainable(reference, encoder.spec.method, checkpoint, device, console)
    return partial(fine_tune, trainable, settings, console)


@dataclass(frozen=True, kw_only=True)
class ClassificationTable(Table):
    """Classification in languages without training data (table 1).

    A softmax classifier over frozen document vectors learns from the training part of one language, its penalty is
    chosen on the same language's dev part, and all languages' test parts are classified. --fine-tuned also trains the
    encoder together with a linear layer, as the paper does. --draws and --splits repeat the experiment and report the
    spread.
    """

    mldoc: Path | None = option(mldoc_option)
    documents: tuple[str, ...] = option("Or documents with the fields label and split (or concept).", metavar="SOURCE")
    taught: str = option(taught_option)
    draws: int | None = option("How often to draw 80 % of the training part.")
    splits: int | None = option("Of --documents: split so often by concept, not as stored.")
    encoder: str = option(default_encoder_option())
    method: str | None = option(method_option)
    tuning: FineTuning | None = option(
        tuning_options(
            "Train the encoder for the task, too; needs PyTorch.",
            "Hugging Face model that the encoder was exported from.",
        )
    )
    device: Device = option(device_option)

    def compute(self) -> None:  # noqa: D102
        if bool(self.mldoc) == bool(self.documents):
            raise click.UsageError("name the data: --mldoc DIR, or --documents SOURCE")
        if self.splits and (self.mldoc or self.draws):
            raise click.UsageError("--splits are of --documents, without --draws")
        texts = (
            read_mldoc(self.mldoc) if self.mldoc else classification.labelled_documents(self.documents, self.console)
        )
        taught = normalise(self.taught)
        if self.splits:
            splits = [split_of(texts, taught, seed) for seed in range(self.splits)]
        else:
            whole = split_of(texts, taught)
            splits = [classification.subsampled(whole, seed) for seed in range(self.draws)] if self.draws else [whole]
        checkpoint = self.tuning.checkpoints[-1] if self.tuning and self.tuning.checkpoints else None
        loaded = open_method(self.encoder, self.method, self.device, self.console, checkpoint)
        fine_tune = None
        if self.tuning:  # refused before documents are encoded
            fine_tune = open_fine_tuning(loaded, self.encoder, checkpoint, self.tuning, self.device, self.console)
        cached = self.cached(loaded)
        modes = {"frozen": classify_frozen(splits, cached, self.console)}
        if fine_tune:
            modes["fine_tuned"] = fine_tune(splits)
        self._show(modes, taught, f"{loaded.spec.name} by {loaded.spec.method}", splits)
        cached.say_cached()

    def _show(self, modes: Mapping[str, BySplit], taught: str, name: str, splits: Sequence[LabelledSplit]) -> None:
        """Print the paper's columns and ours, a row for each language, with the spread over several splits."""
        first = splits[0]
        source = self.mldoc.name if self.mldoc else ", ".join(Path(file).name for file in self.documents)
        tests = documents_in_words({lang: len(part) for lang, part in first.tests.items()})
        table = PaperTable(
            f"Accuracy in %, learnt from {taught}; the paper fine-tunes its encoders; ours: {name}",
            [mode.replace("_", " ") for mode in modes],
            _FIGURES["systems"],
            paper_data=_FIGURES["data"],
            our_data=f"{source}: {len(first.train):,} documents in {taught} to learn from, "
            f"{len(first.dev):,} to choose by; to test: {tests}",
        )
        langs = list(dict.fromkeys(lang for by_lang in modes["frozen"] for lang in by_lang))
        others = [lang for lang in langs if lang != taught]
        rows = {lang: [lang] for lang in langs} | ({f"mean without {taught}": others, "mean": langs} if others else {})
        for label, among in rows.items():
            values = [Accuracy.of(by_split, among) for by_split in modes.values()]
            cells = [f"{value.accuracy:.1f}" + f" ± {value.spread:.1f}" * (len(splits) > 1) for value in values]
            table.add([label], paper_means(among, taught), cells)
        table.show(self.console)

        def as_json(by_split: BySplit) -> dict[str, Any]:
            mean, of_others = Accuracy.of(by_split, langs), Accuracy.of(by_split, others) if others else (None, None)
            means = dict(zip(("others", "others_spread", "mean", "mean_spread"), (*of_others, *mean), strict=True))
            return {"languages": {lang: Accuracy.of(by_split, [lang])._asdict() for lang in langs}, **means}

        stated = {mode: as_json(by_split) for mode, by_split in modes.items()}
        about = {"draws": self.draws or 1, "splits": self.splits, "encoder": name, "train": taught}
        self.console.show({**about, **table.data_json(), **stated.pop("frozen"), **stated})


def paper_means(langs: Sequence[str], taught: str) -> list[float]:
    """Means of the paper's systems, in per cent; none if it lacks a language or ``taught``, which is English there."""
    if taught != "en" or not PAPER.keys() >= set(langs):
        return []
    # 1e-6 rounds a half up, as in the paper.
    return [float(np.mean(column)) + 1e-6 for column in zip(*(PAPER[lang] for lang in langs), strict=True)]


command = command_of(ClassificationTable, "hmde-mldoc")
