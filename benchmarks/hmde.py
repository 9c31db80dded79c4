"""HMDE against *first*, *segments* and *sentences*: trained on half of the concepts, tested on the other half.

``train`` makes a model folder for each seed, ``lohelp``, ``ntrex`` and ``ddtp`` measure it and the baselines of the
same lower encoder, ``table`` writes the section. Sentences are encoded once (``benchmarks.hmde_vectors``), so ``train``
says how long the upper part alone learns; ``pages`` writes the training pages as JSON lines, for
``time dragoman train hmde FILE -o FOLDER``, which does everything.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from ir_measures import Qrel

from benchmarks import harness, hmde_table
from benchmarks.classification import accuracies
from benchmarks.harness import LANGUAGES
from benchmarks.hmde_table import COLLECTIONS, RANKINGS, SPLITS
from benchmarks.hmde_vectors import BASELINES, METHODS, SEGMENTATIONS, Vectors, documents, is_taught, tested
from benchmarks.rankers import rank, rankers
from benchmarks.searchers import BATCH, index_encoded
from encoders.console import Console
from encoders.document import Document, Encoded, Encoder, FloatArray, Passages, unit_rows
from encoders.folder.model_folder import ModelFolder
from encoders.folder.training_texts import text_key
from encoders.hmde.triples import Triples, held_out, page_of
from encoders.hmde.upper import UpperSession
from indexer.training.hmde_training import training_facts
from onnx_export.hmde.hmde_settings import PRESETS, Settings
from onnx_export.hmde.lower_encoders.lower import Part
from onnx_export.models import DEFAULT
from query.calibration_fitting.calibration_decision import decide
from query.calibration_fitting.language_statistics import draw_samples

QUIET = Console(quiet=True)


def taught_pages(collection: str, vectors: Vectors, settings: Settings) -> Iterator[tuple[Document, Part]]:
    """Pages of the half that is trained on, and what training keeps of each."""
    for lang in LANGUAGES:
        stored = vectors.passages(collection, lang, settings.segmentation).of_documents()
        queries = vectors.titles(collection, lang)
        for row, (page, passages) in enumerate(zip(documents(collection, lang), stored, strict=True)):
            if not is_taught(page):
                continue
            segments = passages.without_title()
            kept = segments.vectors[: settings.sentences]
            opening = int((segments.offsets[: len(kept), 1] <= len(page.title)).sum())
            yield (
                page,
                {
                    "counts": np.array([len(kept)]),
                    "openings": np.array([opening if opening < len(kept) else 0]),
                    "vectors": kept,
                    "queries": queries[row : row + 1],
                },
            )


def write_pages(collections: Sequence[str], file: Path) -> None:
    """Write the half that is trained on as records that ``dragoman`` reads, in the order of ``train``."""
    records = (
        {"id": page.doc_id, "lang": lang, "title": page.title, "text": page.text, **page.fields}
        for collection in collections
        for lang in LANGUAGES
        for page in documents(collection, lang)
        if is_taught(page)
    )
    print(harness.write_records(records, file), flush=True)


def train(settings: Settings, collections: Sequence[str], target: Path, vectors: Vectors) -> None:
    """Train a model folder, as ``dragoman train hmde`` does on the same pages."""
    from onnx_export.hmde import lower_base as bases
    from onnx_export.hmde.hmde_folder import publish
    from onnx_export.hmde.training import Training

    base = bases.open_frozen(vectors.encoder, settings, "cpu", QUIET)
    taught = [page for collection in collections for page in taught_pages(collection, vectors, settings)]
    base.lower.take([part for _, part in taught])
    pages = [page_of(page.lang, page.fields) for page, _ in taught]
    concepts = {page.concept for page in pages}
    kept_out = {concept for concept in concepts if held_out(concept, settings.held_out, settings.seed)}
    triples = Triples(pages, settings.seed, kept_out)
    validation = np.array([row for row, page in enumerate(pages) if page.concept in kept_out], dtype=np.int64)
    shape = settings.shape(base.config.dim)
    training = Training(
        base.lower, shape, triples, validation, settings, place=target.with_name(f"{target.name}.checkpoint")
    )
    training.resume(repr((settings, collections)))
    with harness.Stopwatch() as watch:
        training.run(Console())
    print(f"{target.name}: {watch.seconds:.0f} s for {training.step} steps", flush=True)
    drawn = triples.languages(triples.draw(0, training.step * settings.batch * settings.accumulate))
    langs = Counter(page.lang for page in pages)
    publish(
        training.upper,
        base,
        target,
        "int8",
        training_facts(training, langs, drawn, vectors.encoder),
        {},
        QUIET,
        taught_by=[text_key(page.text_hash) for page, _ in taught],
    )


def encode_tested(
    collection: str, lang: str, system: str, vectors: Vectors
) -> tuple[list[Document], FloatArray, list[Passages]]:
    """Documents that were not trained on, their vectors and passages by a baseline or by a trained folder."""
    upper = None if system in BASELINES else UpperSession(ModelFolder.open(Path(system)), "cpu")
    stored = vectors.passages(collection, lang, upper.file.shape.segmentation if upper else system).of_documents()
    all_pages = documents(collection, lang)
    pages = tested(collection, all_pages)
    if len(stored) == len(all_pages):
        doc_ids = {page.doc_id for page in pages}
        stored = [passages for page, passages in zip(all_pages, stored, strict=True) if page.doc_id in doc_ids]
    segments = [passages.without_title().unit_vectors() for passages in stored]
    if upper:
        return pages, upper.documents(segments), stored
    return pages, unit_rows(np.stack([of_page.mean(axis=0) for of_page in segments])), stored


def batches(collection: str, system: str, vectors: Vectors) -> Iterator[tuple[list[Document], Encoded]]:
    """The tested documents, encoded, in batches of one language."""
    for lang in LANGUAGES:
        pages, encoded, passages = encode_tested(collection, lang, system, vectors)
        for start in range(0, len(pages), BATCH):
            rows = slice(start, start + BATCH)
            known = np.ones((len(pages[rows]), 1), np.bool_)
            yield pages[rows], Encoded(encoded[rows], passages[rows], known)


def judged(collection: str, doc_ids: set[str]) -> tuple[list[Document], list[Qrel]]:
    """Topics in each language that have a page, and their judgements."""
    topics, qrels = harness.topics(collection, harness.KINDS[collection], LANGUAGES)
    return harness.answerable(harness.queries(topics), harness.judgements(qrels, LANGUAGES), doc_ids)


def rank_topics(
    collection: str, system: str, encoder: Encoder, memory: dict[tuple[str, str], FloatArray], vectors: Vectors
) -> Iterator[tuple[str, dict[str, float]]]:
    """Each ranking, and average precision by query: the calibration is the product's."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        index_encoded(encoder, batches(collection, system, vectors), Path(scratch)) as searcher,
    ):
        searcher.encoder = harness.StoredEncoder(encoder, searcher.store, memory)
        samples = draw_samples(searcher.store, searcher.encoder)
        calibration = decide(searcher.store, samples, searcher.spec.model).calibration
        queries, qrels = judged(collection, set(searcher.store.ids()))
        for name, ranker in rankers(searcher.store, calibration).items():
            rankings = rank(ranker, queries, searcher.encoder.encode_queries(queries), sorted(searcher.languages))
            precisions = harness.average_precisions(queries, rankings, qrels)
            print(f"{system} {name} {harness.mean(precisions):.4f}", flush=True)
            yield name, precisions


def classify(system: str, vectors: Vectors) -> list[float]:
    """Mean accuracy over pairs of two languages on packages of the unseen half, by split."""
    by_lang = [encode_tested("ddtp", lang, system, vectors) for lang in LANGUAGES]
    pages = [page for of_lang, _, _ in by_lang for page in of_lang]
    encoded = np.concatenate([rows for _, rows, _ in by_lang])
    cross = [means.cross for means in accuracies(pages, encoded, SPLITS)]
    print(system, cross, flush=True)
    return cross


def main() -> None:
    """Write pages, train, measure, or write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["pages", "train", *COLLECTIONS, "ddtp", "table"])
    parser.add_argument("--folder", type=Path, required=True, help="vectors, models and what was measured")
    parser.add_argument("--encoder", default=DEFAULT, help="the lower one, a name or an exported folder")
    parser.add_argument("--checkpoint", help="Hugging Face folder that it was exported from, for --longformer")
    parser.add_argument("--longformer", action="store_true", help="baselines alone, this one too")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--sources", default="lohelp")
    parser.add_argument("--segmentation", choices=SEGMENTATIONS, default=PRESETS["small"].segmentation)
    arguments = parser.parse_args()
    vectors = Vectors.of(arguments.folder, arguments.encoder, arguments.checkpoint)
    folder = vectors.folder
    sources = arguments.sources.replace(",", "+")
    names = {int(seed): f"{sources}, {arguments.segmentation}, seed {seed}" for seed in arguments.seeds.split(",")}
    if arguments.part == "pages":
        write_pages(arguments.sources.split(","), folder / f"{sources}.pages.jsonl")
    elif arguments.part == "train":
        for seed, name in names.items():
            if not (folder / name).is_dir():
                train(
                    replace(PRESETS["small"], seed=seed, segmentation=arguments.segmentation),
                    arguments.sources.split(","),
                    folder / name,
                    vectors,
                )
    elif arguments.part == "table":
        command = "hmde table --folder FOLDER"
        lower = "" if arguments.encoder == DEFAULT else f", {folder.name}"
        if arguments.longformer:
            harness.write(f"HMDE's baselines{lower}", f"{command} --longformer", hmde_table.lines(folder, []))
        else:
            lines = hmde_table.lines(folder, list(names.values()))
            command = harness.command(command, arguments, "sources", "segmentation")
            harness.write(f"HMDE on unseen pages, trained on {sources}{lower}", command, lines)
    else:
        systems = BASELINES if arguments.longformer else [*METHODS, *names.values()]
        measure(arguments.part, systems, vectors)


def measure(part: str, systems: Sequence[str], vectors: Vectors) -> None:
    """Measure the baselines and models that are not in the part's file yet, and write the file after each."""
    file = vectors.folder / f"{part}.json"
    measured = hmde_table.read(file)
    encoder = vectors.open("sentences")
    memory: dict[tuple[str, str], FloatArray] = {}
    for name in systems:
        if len(measured.get(name, ())) == (SPLITS if part == "ddtp" else len(RANKINGS)):
            continue
        system = name if name in BASELINES else str(vectors.folder / name)
        if part == "ddtp":
            measured[name] = classify(system, vectors)
            file.write_text(json.dumps(measured), encoding="utf-8")
            continue
        for ranking, precisions in rank_topics(part, system, encoder, memory, vectors):
            measured.setdefault(name, {})[ranking] = precisions
            file.write_text(json.dumps(measured), encoding="utf-8")


if __name__ == "__main__":
    main()
