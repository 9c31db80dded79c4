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
_Accuracies = Sequence[Mapping[str, float]]
"""Accuracy by language, from 0 to 1, of each split."""


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
    from query.reproduce.classification import split_by_concept, stored_split, subsampled  # noqa: PLC0415 - not needed by --help

    if bool(mldoc) == bool(documents):
        raise click.UsageError("name the data: --mldoc DIR, or --documents SOURCE")
    if splits and (mldoc or draws):
        raise click.UsageError("--splits are of --documents, without --draws")
    if not fine_tuned and (checkpoint or epochs or rate):
        raise click.UsageError("--checkpoint, --epochs and --rate belong to --fine-tuned; give it too")
    texts = _labelled_documents(mldoc, documents, console)
    taught = normalise(taught)
    if splits:
        labelled_splits = [split_by_concept(texts, taught, seed) for seed in range(splits)]
    else:
        whole = stored_split(texts, taught)
        labelled_splits = [subsampled(whole, seed) for seed in range(draws)] if draws else [whole]
    loaded = open_method(encoder, method, cast("Device", device), console, checkpoint)
    trainable = _trainable(loaded, encoder, checkpoint, cast("Device", device), console) if fine_tuned else None
    accuracies = {"frozen": _frozen(labelled_splits, loaded, console)}
    if trainable:
        settings = FineTuning(rate=rate or FineTuning.rate, epochs=epochs or FineTuning.epochs)
        accuracies["fine_tuned"] = _fine_tuned(labelled_splits, trainable, settings, console)
    summaries = _show_table(accuracies, taught, f"{loaded.spec.name} by {loaded.spec.method}", console)
    console.emit({"draws": draws or 1, "splits": splits, **summaries})


def _trainable(loaded: Encoder, reference: str, checkpoint: str | None, device: Device, console: Console) -> Trainable:
    """The loaded encoder as a trainable one: itself if PyTorch encodes, else with the weights of its checkpoint."""
    from onnx_export.huggingface.source import require_torch  # noqa: PLC0415 - not needed by --help

    require_torch()
    from onnx_export.hmde.torch_encoder import TorchEncoder  # noqa: PLC0415 - torch
    from onnx_export.hmde.trainable import open_trainable  # noqa: PLC0415

    if isinstance(loaded, TorchEncoder):
        return loaded.trainable
    return open_trainable(reference, loaded.spec.method, checkpoint, device, console)


def _labelled_documents(folder: Path | None, sources: Sequence[str], console: Console) -> list[Document]:
    from query.reproduce.classification import labelled_documents  # noqa: PLC0415 - not needed by --help
    from query.reproduce.mldoc_data import read_mldoc  # noqa: PLC0415

    if folder is None:
        return labelled_documents(sources, console)
    return list(read_mldoc(folder))


def _frozen(splits: Sequence[LabelledSplit], encoder: Encoder, console: Console) -> _Accuracies:
    """Accuracies of a classifier over frozen vectors, each document encoded once."""
    from query.reproduce.hmde_clef import Labelled, classify, encode_all  # noqa: PLC0415

    documents = {document.doc_id: document for split in splits for document in split.documents}
    with console.progress("encoding", len(documents), "documents") as progress:
        doc_ids, vectors = encode_all(documents.values(), encoder, progress)
    rows = {doc_id: row for row, doc_id in enumerate(doc_ids)}

    def labelled(part: Sequence[Document]) -> Labelled:
        return Labelled(
            vectors[[rows[document.doc_id] for document in part]], [str(document.fields["label"]) for document in part]
        )

    return [
        classify(
            labelled(split.train), labelled(split.dev), {lang: labelled(part) for lang, part in split.tests.items()}
        )
        for split in splits
    ]


def _fine_tuned(
    splits: Sequence[LabelledSplit], encoder: Trainable, settings: FineTuning, console: Console
) -> _Accuracies:
    """Accuracies of the encoder, trained anew for each split."""
    from onnx_export.hmde.fine_tuning import Classifier, Examples, take  # noqa: PLC0415 - torch

    documents = list({document.doc_id: document for split in splits for document in split.documents}.values())
    with console.progress("reading", len(documents), "documents") as progress:
        rows = take(encoder, documents, progress)
    untrained = encoder.state()

    def examples(part: Sequence[Document]) -> Examples:
        return Examples(
            [rows[document.doc_id] for document in part], [str(document.fields["label"]) for document in part]
        )

    accuracies = []
    for seed, split in enumerate(splits):
        encoder.restore(untrained)
        train = examples(split.train)
        classifier = Classifier(encoder, train.labels, replace(settings, seed=seed))
        classifier.train(train, examples(split.dev), console)
        accuracies.append({lang: classifier.accuracy(examples(part)) for lang, part in split.tests.items()})
    return accuracies


def _show_table(accuracies: Mapping[str, _Accuracies], taught: str, ours: str, console: Console) -> dict[str, Any]:
    """Print the paper's columns and ours, a row for each language, with the spread over several splits.

    Returns:
        The same as JSON values.
    """
    from query.reproduce.hmde_clef import XLDC_SYSTEMS  # noqa: PLC0415

    summaries = {mode: _summary(by_split, taught) for mode, by_split in accuracies.items()}
    split_count = len(accuracies["frozen"])
    langs = list(summaries["frozen"]["languages"])
    rows = [
        [
            lang,
            *_paper([lang], taught),
            *(_cell(summary["languages"][lang], split_count) for summary in summaries.values()),
        ]
        for lang in langs
    ]
    other_langs = [lang for lang in langs if lang != taught]
    if other_langs:
        cells = (_cell(summary["others"], split_count) for summary in summaries.values())
        rows.append([f"mean without {taught}", *_paper(other_langs, taught), *cells])
        rows.append(
            ["mean", *_paper(langs, taught), *(_cell(summary["mean"], split_count) for summary in summaries.values())]
        )
    title = f"Accuracy in %, learnt from {taught}; the paper fine-tunes its encoders; ours: {ours}"
    console.table(
        ["", *(f">{system}" for system in XLDC_SYSTEMS), *(f">{mode.replace('_', ' ')}" for mode in summaries)],
        rows,
        title=title,
    )
    stated = {mode: _summary_json(summary) for mode, summary in summaries.items()}
    return {"encoder": ours, "train": taught, **stated.pop("frozen"), **stated}


def _paper(langs: Sequence[str], taught: str) -> list[str]:
    """The paper's means over languages, one for each system; blank if the paper has not all of the languages."""
    from query.reproduce.hmde_clef import PAPER_XLDC, XLDC_SYSTEMS  # noqa: PLC0415

    if taught != "en" or not PAPER_XLDC.keys() >= set(langs):
        return [""] * len(XLDC_SYSTEMS)
    # 1e-6 rounds a half up, as in the paper.
    return [f"{np.mean(column) + 1e-6:.1f}" for column in zip(*(PAPER_XLDC[lang] for lang in langs), strict=True)]


def _summary_json(summary: Mapping[str, Any]) -> dict[str, Any]:
    other_languages = summary["others"] or {"accuracy": None, "spread": None}
    return {
        "languages": summary["languages"],
        "others": other_languages["accuracy"],
        "others_spread": other_languages["spread"],
        "mean": summary["mean"]["accuracy"],
        "mean_spread": summary["mean"]["spread"],
    }


def _cell(value: Mapping[str, float], split_count: int) -> str:
    return f"{value['accuracy']:.1f}" + (f" ± {value['spread']:.1f}" if split_count > 1 else "")


def _summary(accuracies: _Accuracies, taught: str) -> dict[str, Any]:
    """Means and standard deviations over splits in %: by language, of all, and of all but the training language."""
    values = {lang: 100 * np.array([by_lang[lang] for by_lang in accuracies]) for lang in accuracies[0]}
    other_columns = [column for lang, column in values.items() if lang != taught]

    def mean_and_spread(column: npt.NDArray[np.float64]) -> dict[str, float]:
        return {"accuracy": round(float(column.mean()), 4), "spread": round(float(column.std()), 4)}

    return {
        "languages": {lang: mean_and_spread(column) for lang, column in values.items()},
        "mean": mean_and_spread(np.mean(list(values.values()), axis=0)),
        "others": mean_and_spread(np.mean(other_columns, axis=0)) if other_columns else None,
    }
