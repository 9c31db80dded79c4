"""Combined vectors: the default encoder and a Cr5 model of half of the concepts, alone and as one, on the other half.

What the default encoder makes of the pages is taken from a collection that holds them; topics are encoded anew.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks import harness
from benchmarks.cr5_quality import (
    TESTED,
    TRAINED,
    Records,
    concepts,
    first_mates,
    only,
    ranked,
    read,
    spread,
    trained,
    vectors,
)
from encoders.document import Document, Encoder, unit_rows
from encoders.folder import ModelFolder
from encoders.methods.combined import Combined
from encoders.methods.registry import open_encoder
from indexer.collection.settings import Settings
from indexer.stores.contract import StoredDocument
from indexer.stores.embedded import EmbeddedStore
from indexer.text.language_detection import Detector
from query.calibration.setting import Setting
from query.fitting import evidence
from query.fitting.probe import probe
from query.fitting.statistics import draw_samples, fit_statistics
from query.ranking.choice import PLAIN, Choice, RankingOptions
from query.ranking.searcher import Searcher

_PLAIN = RankingOptions(calibration="none")
E5, CR5, BOTH = "multilingual-E5-small", "Cr5", "both"


def documents(records: Records) -> list[Document]:
    """Records of several languages as documents."""
    return [page for lang, own in records.items() for page in harness.documents(own, lang)]


def searcher(encoder: Encoder, pages: Sequence[Document], folder: Path) -> Searcher:
    """An index of pages, not calibrated."""
    store = EmbeddedStore(folder, "unseen")
    store.create(encoder.spec.model, encoder.spec.dim)
    for start in range(0, len(pages), 64):
        some = pages[start : start + 64]
        encoded = encoder.encode_documents(some)
        store.put(encoder.spec.model, [StoredDocument.of(page, encoded, at) for at, page in enumerate(some)])
    return Searcher("unseen", encoder, store, store.count(), Detector(store.count().keys()))


def figures(found: Searcher) -> tuple[dict[str, float], Setting]:
    """MAP by ranking, and what the probe chose."""
    model = found.spec.model
    samples = draw_samples(found.store, found.encoder)
    known = evidence.from_concepts(found.store, model, samples)
    setting = probe(samples, model, known)[0] if known else Setting()
    equal = fit_statistics(samples, model)
    made = fit_statistics(samples, model, rank=setting.rank).with_choice(balance=setting.balance, margin=setting.margin)
    made = made.with_weights(setting.weights) if setting.weights else made
    told = {"plain cosine": ranked(found, PLAIN)[0]}
    calibrated = replace(found, calibration=equal)
    told["centred"] = ranked(calibrated, Choice(0.5, "ratio", passages=False))[0]
    told["margins and passages"] = ranked(calibrated, Choice(0.75, "ratio"))[0]
    told["as the probe decides"] = ranked(replace(found, calibration=made), Choice.of(made))[0]
    return told, setting


def alone_and_together(
    kept: harness.StoredEncoder, cr5: Path, pages: Sequence[Document]
) -> Iterator[tuple[str, Mapping[str, float]]]:
    """MAP of each encoder and of both."""
    words = open_encoder(ModelFolder.open(cr5))
    for name, encoder in ((E5, kept), (CR5, words), (BOTH, Combined([kept, words]))):
        with tempfile.TemporaryDirectory() as place, searcher(encoder, pages, Path(place)) as found:
            told, setting = figures(found)
        print(f"  {name}: {told}, {setting}", flush=True)
        yield name, told


def split_rows(kept: harness.StoredEncoder, records: Records, splits: int) -> list[str]:
    """Several splits by concept."""
    every = concepts(records)
    told: dict[str, list[Mapping[str, float]]] = {}
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(every).tolist()
        half = len(order) // 2
        with tempfile.TemporaryDirectory() as place:
            folder = trained(records, set(order[half:]), Path(place))
            unseen = documents(only(records, TESTED, set(order[:half])))
            for name, values in alone_and_together(kept, folder, unseen):
                told.setdefault(name, []).append(values)
    ways = list(told[BOTH][0])
    several = f"{splits} splits by concept, mean ± standard deviation of MAP"
    lines = [
        f"lohelp, {several if splits > 1 else 'one split by concept, MAP'}: Cr5 trained on one half in "
        f"{len(TRAINED)} languages, index topics in {len(TESTED)} languages over the pages of the other half, those "
        "with a page left.",
        "",
        f"| ranking | {E5} | {CR5} | both | both ÷ the better |",
        "|---|---:|---:|---:|---:|",
    ]
    for way in ways:
        alone, words, both = ([one[way] for one in told[name]] for name in (E5, CR5, BOTH))
        gain = float(np.mean(np.array(both) / np.maximum(alone, words)))
        cells = " | ".join(spread(values) for values in (alone, words, both))
        lines.append(f"| {way} | {cells} | {gain:.2f} |")
    return lines


def curve_rows(kept: harness.StoredEncoder, records: Records, sizes: Sequence[int], seed: int = 0) -> list[str]:
    """By the number of training concepts, over the same unseen pages."""
    order = np.random.default_rng(seed).permutation(concepts(records)).tolist()
    unseen = documents(only(records, TESTED, set(order[: len(order) // 4])))
    ways = ("centred", "margins and passages", "as the probe decides")
    lines = [
        f"| training concepts | {' | '.join(f'{CR5}, {way} | both, {way}' for way in ways)} |",
        f"|---:|{'---:|' * 2 * len(ways)}",
    ]
    first: Mapping[str, float] = {}
    for size in sizes:
        with tempfile.TemporaryDirectory() as place:
            folder = trained(records, set(order[len(order) - size :]), Path(place))
            told = dict(alone_and_together(kept, folder, unseen))
        first = told[E5]
        lines.append(f"| {size} | {' | '.join(f'{told[CR5][way]:.3f} | {told[BOTH][way]:.3f}' for way in ways)} |")
    return [*lines, "", f"{E5} alone: " + ", ".join(f"{way} {first[way]:.3f}" for way in ways) + "."]


def transfer_rows(records: Records, home: Path, collection: str) -> list[str]:
    """Mates in another collection that is indexed with the default encoder; Cr5 trained on all of lohelp."""
    theirs = read(collection, TESTED)
    with tempfile.TemporaryDirectory() as place:
        words = vectors(trained(records, set(concepts(records)), Path(place)), theirs)
    with Searcher.open(collection, Settings.read(home=home), device="cpu", ranking=_PLAIN) as whole:
        model = whole.spec.model
        e5 = {lang: whole.store.vectors(model, [one["id"] for one in some]) for lang, some in theirs.items()}
    centred = {
        name: {lang: unit_rows(rows - rows.mean(axis=0)) for lang, rows in some.items()}
        for name, some in ((E5, e5), (CR5, words))
    }
    ways = {
        f"{E5}, plain cosine": e5,
        f"{E5}, centred": centred[E5],
        f"{CR5}, plain cosine": words,
        f"{CR5}, centred": centred[CR5],
        "both, centred, equal weights": {
            lang: np.concatenate([centred[E5][lang], centred[CR5][lang]], axis=1) for lang in theirs
        },
    }
    lines = [f"Mates, P@1, {len(theirs)} languages.", "", "| vectors | P@1 |", "|---|---:|"]
    return [*lines, *(f"| {way} | {first_mates(some, theirs).cosine[1]:.3f} |" for way, some in ways.items())]


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["splits", "curve", "transfer"])
    parser.add_argument(
        "--home", type=Path, required=True, help="Where the collection is indexed with the default encoder."
    )
    parser.add_argument("--collection", default="ntrex", help="Of transfer.")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--sizes", default="50,100,200,400,700")
    arguments = parser.parse_args()
    records = read("lohelp", TRAINED)
    if arguments.part == "transfer":
        lines = transfer_rows(records, arguments.home, arguments.collection)
        command = f"python -m benchmarks.combined transfer --home HOME --collection {arguments.collection}"
        harness.write(f"Combined vectors elsewhere, {arguments.collection}", command, lines)
        return
    with Searcher.open("lohelp", Settings.read(home=arguments.home), device="cpu", ranking=_PLAIN) as whole:
        kept = harness.StoredEncoder(whole.encoder, whole.store)
        if arguments.part == "splits":
            name, lines = "Combined vectors", split_rows(kept, records, arguments.splits)
            option = f"--splits {arguments.splits}"
        else:
            sizes = [int(size) for size in arguments.sizes.split(",")]
            name, lines = "Combined vectors by training concepts", curve_rows(kept, records, sizes)
            option = f"--sizes {arguments.sizes}"
    harness.write(name, f"python -m benchmarks.combined {arguments.part} --home HOME {option}", lines)


if __name__ == "__main__":
    main()
