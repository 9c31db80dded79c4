"""Combined vectors: the default encoder and a Cr5 model of half of the concepts, alone and as one, on the other half.

The default encoder's vectors of the pages are taken from a collection that holds them; topics are encoded anew.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks import harness
from benchmarks.cr5_quality import (
    TRAINED,
    Records,
    first_mates,
    only,
    rank_topics,
    read,
    shuffled_concepts,
    trained,
    vectors,
)
from benchmarks.harness import TESTED, spread
from benchmarks.rankers import rankers
from benchmarks.searchers import BATCH, UNCALIBRATED, index_encoded, open_searcher
from encoders.document import Document, encode_in_batches, unit_rows
from encoders.folder.model_folder import ModelFolder
from encoders.methods.combined_encoder import Combined
from encoders.methods.method_registry import open_encoder
from query.calibration_fitting.calibration_decision import decide
from query.calibration_fitting.language_statistics import draw_samples

E5, CR5, BOTH = "multilingual-E5-small", "Cr5", "both"


def documents(records: Records) -> list[Document]:
    """Records of several languages as documents."""
    return [page for lang, of_lang in records.items() for page in harness.documents(of_lang, lang)]


def alone_and_together(
    stored: harness.StoredEncoder, cr5: ModelFolder, pages: Sequence[Document]
) -> Iterator[tuple[str, Mapping[str, float]]]:
    """MAP by ranking, of each encoder and of both."""
    words = open_encoder(cr5)
    for name, encoder in ((E5, stored), (CR5, words), (BOTH, Combined([stored, words]))):
        batches = encode_in_batches(encoder, pages, BATCH, lambda _: None)
        with tempfile.TemporaryDirectory() as scratch, index_encoded(encoder, batches, Path(scratch)) as searcher:
            samples = draw_samples(searcher.store, searcher.encoder)
            ways = rankers(searcher.store, decide(searcher.store, samples, searcher.spec.model).calibration)
            means = {way: rank_topics(searcher, ranker)[0] for way, ranker in ways.items()}
        print(f"  {name}: {means}", flush=True)
        yield name, means


def split_rows(stored: harness.StoredEncoder, records: Records, splits: int) -> list[str]:
    """MAP by ranking, on several splits by concept."""
    by_encoder: dict[str, list[Mapping[str, float]]] = {}
    for seed in range(splits):
        order = shuffled_concepts(records, seed)
        half = len(order) // 2
        unseen = documents(only(records, TESTED, order[:half]))
        with trained(records, order[half:]) as folder:
            for name, means in alone_and_together(stored, folder, unseen):
                by_encoder.setdefault(name, []).append(means)
    several = f"{splits} splits by concept, mean ± standard deviation of MAP"
    lines = [
        f"lohelp, {several if splits > 1 else 'one split by concept, MAP'}: Cr5 trained on one half in "
        f"{len(TRAINED)} languages, index topics in {len(TESTED)} languages over the pages of the other half, those "
        "with a page left.",
        "",
        f"| ranking | {E5} | {CR5} | both | both ÷ the better |",
        "|---|---:|---:|---:|---:|",
    ]
    for ranking in by_encoder[BOTH][0]:
        e5, cr5, both = ([means[ranking] for means in by_encoder[name]] for name in (E5, CR5, BOTH))
        gain = float(np.mean(np.array(both) / np.maximum(e5, cr5)))
        cells = " | ".join(spread(means) for means in (e5, cr5, both))
        lines.append(f"| {ranking} | {cells} | {gain:.2f} |")
    return lines


def curve_rows(stored: harness.StoredEncoder, records: Records, sizes: Sequence[int]) -> list[str]:
    """MAP by the number of training concepts, over the same unseen pages."""
    order = shuffled_concepts(records)
    unseen = documents(only(records, TESTED, order[: len(order) // 4]))
    rankings = ("centred", "without mates", "calibrated")
    lines = [
        f"| training concepts | {' | '.join(f'{CR5}, {ranking} | both, {ranking}' for ranking in rankings)} |",
        f"|---:|{'---:|' * 2 * len(rankings)}",
    ]
    e5: Mapping[str, float] = {}
    for size in sizes:
        with trained(records, order[len(order) - size :]) as folder:
            means = dict(alone_and_together(stored, folder, unseen))
        e5 = means[E5]
        cells = (f"{means[CR5][ranking]:.3f} | {means[BOTH][ranking]:.3f}" for ranking in rankings)
        lines.append(f"| {size} | {' | '.join(cells)} |")
    return [*lines, "", f"{E5} alone: " + ", ".join(f"{ranking} {e5[ranking]:.3f}" for ranking in rankings) + "."]


def transfer_rows(records: Records, home: Path, collection: str) -> list[str]:
    """Mates in another collection that is indexed with the default encoder; Cr5 trained on all of lohelp."""
    unseen = read(collection, TESTED)
    with trained(records) as folder:
        cr5 = vectors(folder, unseen)
    with open_searcher(collection, home, UNCALIBRATED) as searcher:
        model = searcher.spec.model
        e5 = {
            lang: searcher.store.vectors(model, [record["id"] for record in of_lang])
            for lang, of_lang in unseen.items()
        }
    e5_centred, cr5_centred = (
        {lang: unit_rows(rows - rows.mean(axis=0)) for lang, rows in by_lang.items()} for by_lang in (e5, cr5)
    )
    encoded = {
        f"{E5}, plain cosine": e5,
        f"{E5}, centred": e5_centred,
        f"{CR5}, plain cosine": cr5,
        f"{CR5}, centred": cr5_centred,
        "both, centred, equal weights": {
            lang: np.concatenate([e5_centred[lang], cr5_centred[lang]], axis=1) for lang in unseen
        },
    }
    return [
        f"Mates, P@1, {len(unseen)} languages.",
        "",
        "| vectors | P@1 |",
        "|---|---:|",
        *(f"| {name} | {first_mates(by_lang, unseen).cosine[1]:.3f} |" for name, by_lang in encoded.items()),
    ]


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
        name, option = f"Combined vectors elsewhere, {arguments.collection}", "collection"
        lines = transfer_rows(records, arguments.home, arguments.collection)
    else:
        with open_searcher("lohelp", arguments.home, UNCALIBRATED) as searcher:
            stored = harness.StoredEncoder(searcher.encoder, searcher.store)
            if arguments.part == "splits":
                name, option = "Combined vectors", "splits"
                lines = split_rows(stored, records, arguments.splits)
            else:
                name, option = "Combined vectors by training concepts", "sizes"
                lines = curve_rows(stored, records, [int(size) for size in arguments.sizes.split(",")])
    harness.write(name, harness.command(f"combined {arguments.part} --home HOME", arguments, option), lines)


if __name__ == "__main__":
    main()
