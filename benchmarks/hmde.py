"""HMDE against *first*, *segments* and *sentences*: trained on half of the concepts, tested on the other half.

``pages`` writes the half that is trained on, for ``dragoman train hmde FILE -o FOLDER --segmentation sentences --seed
N``; ``lohelp`` and ``ntrex`` measure MAP and ``ddtp`` zero-shot classification, of trained folders and of the baselines
of their lower encoder.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks import harness
from benchmarks.classification import accuracies
from benchmarks.harness import LANGUAGES
from encoders.console import Console
from encoders.document import Document, Encoder
from encoders.folder.model_folder import ModelFolder
from encoders.hmde.triples import held_out
from encoders.methods.method_registry import open_encoder
from onnx_export.models import DEFAULT, open_named

_BASELINES = ("first", "segments", "sentences")
_SPLIT = 2023
"""Seed of the halves: not a training's seed, because training draws its validation concepts by the same hash."""
_SPLITS = 3


def read(collection: str, *, taught: bool) -> list[Document]:
    """The pages that are trained on, or the others; of *ntrex* all are others."""
    pages = [page for lang in LANGUAGES for page in harness.documents(harness.read(collection, lang), lang)]
    if collection == "ntrex":
        return [] if taught else pages
    return [page for page in pages if held_out(str(page.fields["concept"]), 0.5, _SPLIT) == taught]


def open_system(name: str) -> Encoder:
    """The default encoder with a baseline's method, or a trained folder."""
    if name in _BASELINES:
        return open_named(DEFAULT, name, Console(quiet=True), device="cpu")
    return open_encoder(ModelFolder.open(Path(name)), device="cpu")


def scores(collection: str, name: str) -> dict[str, float]:
    """MAP by ranking, or the accuracy of classification."""
    encoder, pages = open_system(name), read(collection, taught=False)
    if collection != "ddtp":
        return harness.means(encoder, pages, collection)
    vectors = encoder.encode_documents(pages).vectors
    return {"cross": float(np.mean([split.cross for split in accuracies(pages, vectors, _SPLITS)]))}


def main() -> None:
    """Write pages into the folder, or measure and write the section; ``models`` are trained folders, with commas."""
    arguments = harness.options(__doc__, ("pages", "lohelp", "ntrex", "ddtp"), folder=Path, models="")
    if arguments.part == "pages":
        pages = read("lohelp", taught=True)
        records = (
            {"id": page.doc_id, "lang": page.lang, "title": page.title, "text": page.text, **page.fields}
            for page in pages
        )
        print(harness.write_records(records, arguments.folder / "lohelp.pages.jsonl"))
        return
    table = harness.Table()
    models = [name for name in arguments.models.split(",") if name]
    of_models = []
    for name in (*_BASELINES, *models):
        values = scores(arguments.part, name if name in _BASELINES else str(arguments.folder / name))
        if not table:
            table += [f"| | {' | '.join(values)} |", f"|---|{'---:|' * len(values)}"]
        of_models += [values] if name in models else []
        table.add(f"| {name} | {' | '.join(f'{value:.3f}' for value in values.values())} |")
    if len(of_models) > 1:
        means = (np.mean([values[name] for values in of_models]) for name in of_models[0])
        table.add(f"| mean of the models | {' | '.join(f'{mean:.3f}' for mean in means)} |")
    harness.write(f"HMDE on pages never seen, {arguments.part}", table)


if __name__ == "__main__":
    main()
