"""``dragoman reproduce hmde-mldoc``: the HMDE paper's table of classification, on MLDoc or on your own documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
import numpy as np
import numpy.typing as npt

from encoders.console import Console
from encoders.document import Document, Encoder
from encoders.languages import normalise
from encoders.session import Device
from onnx_export.hmde.settings import FineTuning
from onnx_export.models import DEFAULT
from query.commands.options import device_option, output_options
from query.reproduce.hmde_methods import METHODS, open_method

if TYPE_CHECKING:
    from onnx_export.hmde.trainable import Trainable
    from query.reproduce.classification import LabelledSplit

_PATH = click.Path(path_type=Path)
Reached = Sequence[Mapping[str, float]]
"""Accuracy by language, of each split."""


@click.command("hmde-mldoc")
@click.option("--mldoc", type=_PATH, metavar="DIR", help="Folder that MLDoc's own script filled.")
@click.option(
    "--documents", multiple=True, metavar="SOURCE", help="Or documents with the fields label and split (or concept)."
)
@click.option("--train", "taught", default="en", show_default=True, metavar="LANG", help="Language to learn from.")
@click.option("--draws", type=click.IntRange(1), help="How often to draw 80 % of the training part.")
@click.option("--splits", type=click.IntRange(1), help="Of --documents: split so often by concept, not as stored.")
@click.option("--encoder", metavar="NAME|FOLDER", default=DEFAULT, show_default=True)
@click.option("--method", type=click.Choice(METHODS), help="How a document's vector is made; longformer needs PyTorch.")
@click.option("--fine-tuned", is_flag=True, help="Train the encoder for the task, too; needs PyTorch.")
@click.option(
    "--checkpoint",
    metavar="NAME|FOLDER",
    help="With it: Hugging Face model that the encoder was exported from.  [default: of the default encoder]",
)
@click.option("--epochs", type=click.IntRange(1), help=f"With it.  [default: {FineTuning.epochs}]")
@click.option("--rate", type=click.FloatRange(0, min_open=True), help=f"With it.  [default: {FineTuning.rate:g}]")
@device_option
@output_options
def command(
    mldoc: Path | None,
    documents: tuple[str, ...],
    taught: str,
    draws: int | None,
    splits: int | None,
    encoder: str,
    method: str | None,
    fine_tuned: bool,
    checkpoint: str | None,
    epochs: int | None,
    rate: float | None,
    device: str,
    console: Console,
) -> None:
    """Classification in languages without training data (table 1).

    A softmax classifier over frozen document vectors learns from the training part of one language, its penalty is
    chosen on the same language's dev part, and all languages' test parts are classified. --fine-tuned trains the
    encoder with a linear layer, beside it, as the paper does. --draws and --splits do so several times and tell the
    spread.
    """
    from query.reproduce.classification import by_concept, drawn, stored  # noqa: PLC0415 - what --help need not load

    if bool(mldoc) == bool(documents):
        raise click.UsageError("name the data: --mldoc DIR, or --documents SOURCE")
    if splits and (mldoc or draws):
        raise click.UsageError("--splits are of --documents, without --draws")
    if not fine_tuned and (checkpoint or epochs or rate):
        raise click.UsageError("--checkpoint, --epochs and --rate belong to --fine-tuned; give it too")
    texts = _labelled(mldoc, documents, console)
    taught = normalise(taught)
    if splits:
        tried = [by_concept(texts, taught, seed) for seed in range(splits)]
    else:
        whole = stored(texts, taught)
        tried = [drawn(whole, seed) for seed in range(draws)] if draws else [whole]
    loaded = open_method(encoder, method, cast("Device", device), console, checkpoint)
    trainable = _trainable(loaded, encoder, checkpoint, cast("Device", device), console) if fine_tuned else None
    reached = {"frozen": _frozen(tried, loaded, console)}
    if trainable:
        settings = FineTuning(rate=rate or FineTuning.rate, epochs=epochs or FineTuning.epochs)
        reached["fine_tuned"] = _fine_tuned(tried, trainable, settings, console)
    told = _show(reached, taught, f"{loaded.spec.name} by {loaded.spec.method}", console)
    console.emit({"draws": draws or 1, "splits": splits, **told})


def _trainable(loaded: Encoder, reference: str, checkpoint: str | None, device: Device, console: Console) -> Trainable:
    """The loaded encoder so that it can learn: itself where torch encodes, else its weights beside its graphs."""
    from onnx_export.huggingface.source import require_torch  # noqa: PLC0415 - what --help need not load

    require_torch()
    from onnx_export.hmde.torch_encoder import TorchEncoder  # noqa: PLC0415 - torch
    from onnx_export.hmde.trainable import open_trainable  # noqa: PLC0415

    if isinstance(loaded, TorchEncoder):
        return loaded.trainable
    return open_trainable(reference, loaded.spec.method, checkpoint, device, console)


def _labelled(folder: Path | None, sources: Sequence[str], console: Console) -> list[Document]:
    from query.reproduce.classification import labelled_documents  # noqa: PLC0415 - what --help need not load
    from query.reproduce.mldoc_data import read_mldoc  # noqa: PLC0415

    if folder is None:
        return labelled_documents(sources, console)
    return list(read_mldoc(folder))


def _frozen(tried: Sequence[LabelledSplit], encoder: Encoder, console: Console) -> Reached:
    """A classifier over vectors that are made once."""
    from query.reproduce.hmde_clef import Labelled, classify, encode_all  # noqa: PLC0415

    documents = {one.doc_id: one for split in tried for one in split.documents}
    with console.progress("encoding", len(documents), "documents") as progress:
        doc_ids, vectors = encode_all(documents.values(), encoder, progress)
    rows = {doc_id: row for row, doc_id in enumerate(doc_ids)}

    def labelled(some: Sequence[Document]) -> Labelled:
        return Labelled(vectors[[rows[one.doc_id] for one in some]], [str(one.fields["label"]) for one in some])

    return [
        classify(
            labelled(split.train), labelled(split.dev), {lang: labelled(some) for lang, some in split.tests.items()}
        )
        for split in tried
    ]


def _fine_tuned(tried: Sequence[LabelledSplit], encoder: Trainable, settings: FineTuning, console: Console) -> Reached:
    """The encoder trained anew for each split."""
    from onnx_export.hmde.fine_tuning import Classifier, Examples, take  # noqa: PLC0415 - torch

    documents = list({one.doc_id: one for split in tried for one in split.documents}.values())
    with console.progress("reading", len(documents), "documents") as progress:
        rows = take(encoder, documents, progress)
    untrained = encoder.state()

    def examples(some: Sequence[Document]) -> Examples:
        return Examples([rows[one.doc_id] for one in some], [str(one.fields["label"]) for one in some])

    reached = []
    for number, split in enumerate(tried):
        encoder.restore(untrained)
        train = examples(split.train)
        classifier = Classifier(encoder, train.labels, replace(settings, seed=number))
        classifier.train(train, examples(split.dev), console)
        reached.append({lang: classifier.accuracy(examples(some)) for lang, some in split.tests.items()})
    return reached


def _show(reached: Mapping[str, Reached], taught: str, ours: str, console: Console) -> dict[str, Any]:
    """The paper's columns and ours, a language a row; several splits give a spread. Returns what JSON says."""
    from query.reproduce.hmde_clef import XLDC_SYSTEMS  # noqa: PLC0415

    told = {way: _summed_up(splits, taught) for way, splits in reached.items()}
    number = len(reached["frozen"])
    langs = list(told["frozen"]["languages"])
    rows = [
        [lang, *_paper([lang], taught), *(_cell(one["languages"][lang], number) for one in told.values())]
        for lang in langs
    ]
    others = [lang for lang in langs if lang != taught]
    if others:
        cells = (_cell(one["others"], number) for one in told.values())
        rows.append([f"mean without {taught}", *_paper(others, taught), *cells])
        rows.append(["mean", *_paper(langs, taught), *(_cell(one["mean"], number) for one in told.values())])
    title = f"Accuracy in %, learnt from {taught}; the paper fine-tunes its encoders; ours: {ours}"
    console.table(
        ["", *(f">{name}" for name in XLDC_SYSTEMS), *(f">{way.replace('_', ' ')}" for way in told)], rows, title=title
    )
    stated = {way: _stated(one) for way, one in told.items()}
    return {"encoder": ours, "train": taught, **stated.pop("frozen"), **stated}


def _paper(langs: Sequence[str], taught: str) -> list[str]:
    """The paper's means over some languages, a system each; blank where it has not all of them."""
    from query.reproduce.hmde_clef import PAPER_XLDC, XLDC_SYSTEMS  # noqa: PLC0415

    if taught != "en" or not PAPER_XLDC.keys() >= set(langs):
        return [""] * len(XLDC_SYSTEMS)
    # A half goes up, as in the paper.
    return [f"{np.mean(column) + 1e-6:.1f}" for column in zip(*(PAPER_XLDC[lang] for lang in langs), strict=True)]


def _stated(one: Mapping[str, Any]) -> dict[str, Any]:
    others = one["others"] or {"accuracy": None, "spread": None}
    return {
        "languages": one["languages"],
        "others": others["accuracy"],
        "others_spread": others["spread"],
        "mean": one["mean"]["accuracy"],
        "mean_spread": one["mean"]["spread"],
    }


def _cell(value: Mapping[str, float], splits: int) -> str:
    return f"{value['accuracy']:.1f}" + (f" ± {value['spread']:.1f}" if splits > 1 else "")


def _summed_up(splits: Reached, taught: str) -> dict[str, Any]:
    """Means and deviations over splits in %: by language, of all, and of those that nothing was learnt from."""
    values = {lang: 100 * np.array([one[lang] for one in splits]) for lang in splits[0]}
    others = [column for lang, column in values.items() if lang != taught]

    def told(column: npt.NDArray[np.float64]) -> dict[str, float]:
        return {"accuracy": round(float(column.mean()), 4), "spread": round(float(column.std()), 4)}

    return {
        "languages": {lang: told(column) for lang, column in values.items()},
        "mean": told(np.mean(list(values.values()), axis=0)),
        "others": told(np.mean(others, axis=0)) if others else None,
    }
