"""When documents are added: how many pseudo-queries' first tens would change if a collection were calibrated anew."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks import results
from encoders.console import Console
from encoders.document import Encoder
from encoders.methods import open_encoder
from indexer.settings import Settings
from indexer.stores import open_store
from indexer.stores.contract import StoredDocument
from onnx_export.models import DEFAULT, find_model
from query.calibrating import DRIFT, drifted, with_fresh_means
from query.language_statistics import calibration, draw

LANGUAGES = ("en", "de", "fr", "it", "es", "ru", "fi", "ja", "zh")
BEFORE = 120
"""Documents a language that the calibration is made of."""
ADDED = (12, 30, 60, 120)


def shuffled(home: Path, collection: str, seed: int) -> dict[str, list[StoredDocument]]:
    """What a collection stores in the languages, in random order."""
    store = open_store(Settings.read(home=home).store, collection, make=False)
    chance = np.random.default_rng(seed)
    (model,) = store.models()
    found = {}
    for lang in LANGUAGES:
        items = [item for page in store.scan(model, lang=lang) for item in page]
        found[lang] = [items[at] for at in chance.permutation(len(items))]
    store.close()
    return found


def changed(
    encoder: Encoder, base: dict[str, list[StoredDocument]], added: dict[str, list[StoredDocument]], seed: int
) -> Iterator[Sequence[float]]:
    """By language the share of changed first tens, after each of the additions."""
    model = encoder.spec.model
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(folder, "c")
        store.create(model, encoder.spec.dim)
        for items in base.values():
            store.put(model, items)
        active = replace(calibration(draw(store, encoder, seed=seed), model), balance=0.75)
        for start, end in zip((0, *ADDED), ADDED, strict=False):
            for items in added.values():
                store.put(model, items[start:end])
            yield list(drifted(store, active, with_fresh_means(store, active)).values())
        store.close()


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="Where lohelp and ntrex are indexed.")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    encoder = open_encoder(find_model(DEFAULT, Console()), device="cpu")
    found: dict[tuple[str, int], list[Sequence[float]]] = {}
    for seed in range(arguments.rounds):
        pages, news = (shuffled(arguments.home, name, seed) for name in ("lohelp", "ntrex"))
        base = {lang: items[:BEFORE] for lang, items in pages.items()}
        rest = {lang: items[BEFORE:] for lang, items in pages.items()}
        for kind, added in (("more help pages", rest), ("news", news)):
            for count, shares in zip(ADDED, changed(encoder, base, added, seed), strict=True):
                found.setdefault((kind, count), []).append(shares)
    lines = [
        f"A calibration of {BEFORE} help pages in each of nine languages (lohelp), documents added in each of them;",
        f"{arguments.rounds} draws. A new calibration is made where a language's share reaches {DRIFT:.0%}.",
        "",
        "| added a language | changed first tens, mean over languages | most changed language | made anew |",
        "|---|---:|---:|---:|",
    ]
    for (kind, count), rounds in found.items():
        most = [max(shares) for shares in rounds]
        lines.append(
            f"| {count} {kind} | {np.mean(rounds):.0%} | {np.mean(most):.0%} | "
            f"{sum(share >= DRIFT for share in most)} of {len(most)} |"
        )
    results.write("Drift", "python -m benchmarks.drift --home HOME", lines)


if __name__ == "__main__":
    main()
