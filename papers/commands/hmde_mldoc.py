"""``python -m papers hmde-mldoc``: the HMDE paper's table of classification, on MLDoc or on your own documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from encoders.console import Console
from encoders.languages import normalise
from encoders.machine.placement import Device
from papers.cached_encoder import CachedEncoder
from papers.classification import labelled_documents, split_by_concept, stored_split, subsampled
from papers.commands.fine_tuning_options import fine_tuning_options
from papers.hmde_methods import METHODS, FineTuning, open_method, trainable_encoder
from papers.hmde_mldoc import (
    PAPER_DATA,
    SYSTEMS,
    Accuracies,
    Accuracy,
    classify_fine_tuned,
    classify_frozen,
    paper_means,
)
from papers.mldoc_data import read_mldoc
from papers.paper_table import PaperTable, data_json, documents_in_words
from papers.runner import Table, command_of, option
from query.commands.options.encoder_options import default_encoder_option, device_option
from query.commands.options.option_types import PATH


@dataclass(frozen=True, kw_only=True)
class ClassificationTable(Table):
    """Classification in languages without training data (table 1).

    A softmax classifier over frozen document vectors learns from the training part of one language, its penalty is
    chosen on the same language's dev part, and all languages' test parts are classified. --fine-tuned also trains the
    encoder together with a linear layer, as the paper does. --draws and --splits repeat the experiment and report the
    spread.
    """

    mldoc: Path | None = option(type=PATH, metavar="DIR", help="Folder that MLDoc's own script filled.")
    documents: tuple[str, ...] = option(
        multiple=True,
        metavar="SOURCE",
        help="Or documents with the fields label and split (or concept).",
    )
    taught: str = option(
        "--train", "taught", default="en", show_default=True, metavar="LANG", help="Language to learn from."
    )
    draws: int | None = option(type=click.IntRange(1), help="How often to draw 80 % of the training part.")
    splits: int | None = option(
        type=click.IntRange(1), help="Of --documents: split so often by concept, not as stored."
    )
    encoder: str = option(default_encoder_option())
    method: str | None = option(
        type=click.Choice(METHODS), help="How a document's vector is made; longformer needs PyTorch."
    )
    fine_tuned: bool = option(is_flag=True, help="Train the encoder for the task, too; needs PyTorch.")
    checkpoint: str | None = option(
        metavar="NAME|FOLDER",
        help="With --fine-tuned: Hugging Face model that the encoder was exported from.  "
        "[default: of the default encoder]",
    )
    tuning: FineTuning | None = option(fine_tuning_options())
    device: Device = option(device_option)

    def compute(self) -> None:  # noqa: D102
        taught = self.taught
        if bool(self.mldoc) == bool(self.documents):
            raise click.UsageError("name the data: --mldoc DIR, or --documents SOURCE")
        if self.splits and (self.mldoc or self.draws):
            raise click.UsageError("--splits are of --documents, without --draws")
        if not self.fine_tuned and (self.checkpoint or self.tuning):
            raise click.UsageError("--checkpoint, --epochs and --rate belong to --fine-tuned; give it too")
        texts = read_mldoc(self.mldoc) if self.mldoc else labelled_documents(self.documents, self.console)
        taught = normalise(taught)
        if self.splits:
            labelled_splits = [split_by_concept(texts, taught, seed) for seed in range(self.splits)]
        else:
            whole = stored_split(texts, taught)
            labelled_splits = [subsampled(whole, seed) for seed in range(self.draws)] if self.draws else [whole]
        loaded = open_method(self.encoder, self.method, self.device, self.console, self.checkpoint)
        trainable = (
            trainable_encoder(loaded, self.encoder, self.checkpoint, self.device, self.console)
            if self.fine_tuned
            else None
        )
        cached = CachedEncoder(loaded, self.settings.home, self.console)
        modes = {"frozen": classify_frozen(labelled_splits, taught, cached, self.console)}
        if trainable:
            modes["fine_tuned"] = classify_fine_tuned(
                labelled_splits, taught, trainable, self.tuning or FineTuning(), self.console
            )
        name = f"{loaded.spec.name} by {loaded.spec.method}"
        tests = {lang: len(part) for lang, part in labelled_splits[0].tests.items()}
        source = self.mldoc.name if self.mldoc else ", ".join(Path(file).name for file in self.documents)
        our_data = (
            f"{source}: {len(labelled_splits[0].train):,} documents in {taught} to "
            f"learn from, {len(labelled_splits[0].dev):,} to choose by; to test: {documents_in_words(tests)}"
        )
        _show_table(modes, taught, name, len(labelled_splits), our_data, self.console)
        stated = {mode: accuracies.as_json() for mode, accuracies in modes.items()}
        about = {"draws": self.draws or 1, "splits": self.splits, "encoder": name, "train": taught}
        self.console.show({**about, **data_json(PAPER_DATA, our_data), **stated.pop("frozen"), **stated})
        cached.say_cached()


def _show_table(
    modes: Mapping[str, Accuracies], taught: str, name: str, split_count: int, our_data: str, console: Console
) -> None:
    """Print the paper's columns and ours, a row for each language, with the spread over several splits."""
    title = f"Accuracy in %, learnt from {taught}; the paper fine-tunes its encoders; ours: {name}"
    heads = [mode.replace("_", " ") for mode in modes]
    table = PaperTable(title, [""], SYSTEMS, heads, paper_data=PAPER_DATA, our_data=our_data)

    def cell(value: Accuracy | None) -> str:
        spread = f" ± {value.spread:.1f}" if value and split_count > 1 else ""
        return f"{value.accuracy:.1f}{spread}" if value else ""

    langs = list(modes["frozen"].languages)
    for lang in langs:
        table.add([lang], paper_means([lang], taught), [cell(mode.languages[lang]) for mode in modes.values()])
    other_langs = [lang for lang in langs if lang != taught]
    if other_langs:
        others = [cell(mode.others) for mode in modes.values()]
        table.add([f"mean without {taught}"], paper_means(other_langs, taught), others)
        table.add(["mean"], paper_means(langs, taught), [cell(mode.mean) for mode in modes.values()])
    table.show(console)


command = command_of(ClassificationTable, "hmde-mldoc")
