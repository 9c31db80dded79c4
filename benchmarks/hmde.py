"""HMDE against *first*, *segments* and *sentences*: trained on half of the concepts, asked of the rest.

``train`` makes a model folder for each seed, ``lohelp``, ``ntrex`` and ``ddtp`` measure it and the baselines of the
same lower encoder, ``table`` writes the section. Sentence vectors are made once (``benchmarks.hmde_vectors``), so
``train`` says how long the upper part alone learns; ``pages`` writes what it learns from as JSON lines, of which
``time dragoman train hmde FILE -o FOLDER`` does it all.
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
from benchmarks.harness import LANGUAGES
from benchmarks.hmde_table import COLLECTIONS, SPLITS, WAYS
from benchmarks.hmde_vectors import BASELINES, METHODS, Vectors, documents, seen
from encoders.console import Console
from encoders.document import Document, Encoded, Encoder, FloatArray, Passages, unit_rows
from encoders.folder import ModelFolder
from encoders.hmde.triples import Triples, held_out, page_of
from encoders.hmde.upper import UpperSession
from indexer.stores.contract import StoredDocument
from indexer.stores.embedded import EmbeddedStore
from indexer.text.language_detection import Detector
from indexer.training.hmde import training_facts
from onnx_export.hmde.lower_encoders.lower import Part
from onnx_export.hmde.settings import PRESETS, Settings
from onnx_export.models import DEFAULT
from query.calibration.setting import Setting
from query.fitting import evidence
from query.fitting.probe import probe
from query.fitting.statistics import draw_samples, fit_statistics
from query.ranking.choice import PLAIN, Choice
from query.ranking.searcher import Searcher
from query.reproduce.classification import Labelled, averages, split, zero_shot
from query.reproduce.classification import Part as Share

QUIET = Console(quiet=True)


def material(collection: str, vectors: Vectors, most: int) -> Iterator[tuple[Document, Part]]:
    """Pages of the half that teaches, and what training keeps of each."""
    for lang in LANGUAGES:
        kept, queries = vectors.passages(collection, lang, "sentences"), vectors.titles(collection, lang)
        starts = kept.starts
        for at, page in enumerate(documents(collection, lang)):
            if seen(page):
                own = slice(starts[at], min(starts[at + 1], starts[at] + most))
                count = own.stop - own.start
                opening = int((kept.offsets[own, 1] <= len(page.title)).sum())
                yield (
                    page,
                    {
                        "counts": np.array([count]),
                        "openings": np.array([opening if opening < count else 0]),
                        "vectors": kept.vectors[own],
                        "queries": queries[at : at + 1],
                    },
                )


def write_pages(collections: Sequence[str], file: Path) -> None:
    """The half that teaches, as records that ``dragoman`` reads, in the order in which ``train`` takes them."""
    with file.open("w", encoding="utf-8") as out:
        for collection in collections:
            for lang in LANGUAGES:
                for page in documents(collection, lang):
                    if seen(page):
                        told = {"id": page.doc_id, "lang": lang, "title": page.title, "text": page.text, **page.fields}
                        out.write(json.dumps(told, ensure_ascii=False) + "\n")
    print(file, flush=True)


def train(settings: Settings, collections: Sequence[str], target: Path, vectors: Vectors) -> None:
    """Make a model folder, as ``dragoman train hmde`` does of the same pages."""
    from onnx_export.hmde import base as bases
    from onnx_export.hmde.publish import publish
    from onnx_export.hmde.training import Training

    base = bases.open_frozen(vectors.encoder, settings, "cpu", QUIET)
    found = [one for collection in collections for one in material(collection, vectors, settings.sentences)]
    base.lower.take([part for _, part in found])
    pages = [page_of(page.lang, page.fields) for page, _ in found]
    concepts = {page.concept for page in pages}
    away = {concept for concept in concepts if held_out(concept, settings.held_out, settings.seed)}
    triples = Triples(pages, settings.seed, away)
    validation = np.array([row for row, page in enumerate(pages) if page.concept in away], dtype=np.int64)
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
    )


def encoded(collection: str, lang: str, system: str, vectors: Vectors) -> list[tuple[Document, FloatArray, Passages]]:
    """Documents that were not trained on, their vectors and passages by a baseline or by a trained folder."""
    method = system if system in BASELINES else "sentences"
    kept = vectors.passages(collection, lang, method)
    whole = documents(collection, lang)
    asked = [page for page in whole if collection == "ntrex" or not seen(page)]
    # Of sentences all documents are kept, of the other two what is asked.
    wanted = {page.doc_id for page in asked}
    rows = [at for at, page in enumerate(whole) if page.doc_id in wanted]
    rows = rows if len(kept.counts) == len(whole) else list(range(len(asked)))
    own = [Passages(kept.vectors[a:b], kept.offsets[a:b]) for a, b in [kept.starts[row : row + 2] for row in rows]]
    unit = [one.unit_vectors() for one in own]
    if system in BASELINES:
        made = unit_rows(np.stack([one.mean(axis=0) for one in unit]))
    else:
        made = UpperSession(ModelFolder.open(Path(system)), "cpu").documents(unit)
    return list(zip(asked, made, own, strict=True))


def judged(collection: str, present: set[str]) -> tuple[list[Document], list[Qrel]]:
    """Topics in each language that have a page, and their judgements."""
    topics, judged = harness.topics(collection, harness.KINDS[collection], LANGUAGES)
    return harness.answerable(harness.queries(topics), harness.judgements(judged, LANGUAGES), present)


def searched(
    collection: str, system: str, encoder: Encoder, memory: dict[tuple[str, str], FloatArray], vectors: Vectors
) -> Iterator[tuple[str, dict[str, float]]]:
    """Each way to rank, and average precision by topic: the calibration and its probe are the product's."""
    model = encoder.spec.model
    with tempfile.TemporaryDirectory() as place:
        store = EmbeddedStore(Path(place), "unseen")
        store.create(model, encoder.spec.dim)
        for lang in LANGUAGES:
            found = encoded(collection, lang, system, vectors)
            for start in range(0, len(found), 64):
                pages, rows, own = zip(*found[start : start + 64], strict=True)
                both = Encoded(np.stack(rows), own, np.ones((len(own), 1), np.bool_))
                store.put(model, [StoredDocument.of(page, both, at) for at, page in enumerate(pages)])
        asking = harness.StoredEncoder(encoder, store, memory)
        with Searcher("unseen", asking, store, store.count(), Detector(store.count().keys())) as searcher:
            samples = draw_samples(store, asking)
            known = evidence.from_concepts(store, model, samples)
            setting = probe(samples, model, known)[0] if known else Setting()
            made = fit_statistics(samples, model, rank=setting.rank)
            made = made.with_choice(balance=setting.balance, margin=setting.margin)
            queries, qrels = judged(collection, set(store.ids()))
            for way, calibrated, choice in (
                ("plain cosine", None, PLAIN),
                ("centred", fit_statistics(samples, model), Choice(0.5, "ratio", passages=False)),
                ("calibrated", made, Choice.of(made)),
            ):
                ranked = replace(searcher, calibration=calibrated).rank(queries, choice=choice)
                precisions = harness.average_precisions(queries, ranked, qrels)
                print(f"{system} {way} {harness.mean(precisions):.4f} {setting}", flush=True)
                yield way, precisions


def classified(system: str, vectors: Vectors) -> list[float]:
    """Mean accuracy over pairs of two languages on packages of the unseen half, by split."""
    found = {lang: encoded("ddtp", lang, system, vectors) for lang in LANGUAGES}
    names: tuple[Share, ...] = ("train", "dev", "test")
    told = []
    for seed in range(SPLITS):
        data = {}
        for lang, rows in found.items():
            parts = np.array(split([page for page, _, _ in rows], seed))
            stack = np.stack([vector for _, vector, _ in rows])
            labels = np.array([page.fields["label"] for page, _, _ in rows])
            data[lang] = {name: Labelled(stack[parts == name], labels[parts == name]) for name in names}
        told.append(averages(zero_shot(data)).cross)
    print(system, told, flush=True)
    return told


def main() -> None:
    """Do one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["pages", "train", *COLLECTIONS, "ddtp", "table"])
    parser.add_argument("--folder", type=Path, required=True, help="vectors, models and what was measured")
    parser.add_argument("--encoder", default=DEFAULT, help="the lower one, a name or an exported folder")
    parser.add_argument("--checkpoint", help="Hugging Face folder that it was exported from, for --longformer")
    parser.add_argument("--longformer", action="store_true", help="baselines alone, this one too")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--sources", default="lohelp")
    arguments = parser.parse_args()
    vectors = Vectors.of(arguments.folder, arguments.encoder, arguments.checkpoint)
    folder = vectors.folder
    folder.mkdir(parents=True, exist_ok=True)
    sources = arguments.sources.replace(",", "+")
    names = {int(seed): f"{sources}, seed {seed}" for seed in arguments.seeds.split(",")}
    if arguments.part == "pages":
        write_pages(arguments.sources.split(","), folder / f"{sources}.pages.jsonl")
    elif arguments.part == "train":
        for seed, name in names.items():
            if not (folder / name).is_dir():
                train(replace(PRESETS["small"], seed=seed), arguments.sources.split(","), folder / name, vectors)
    elif arguments.part == "table":
        command = "python -m benchmarks.hmde table --folder FOLDER"
        other = "" if arguments.encoder == DEFAULT else f", {folder.name}"
        if arguments.longformer:
            harness.write(f"HMDE's baselines{other}", f"{command} --longformer", hmde_table.lines(folder, []))
        else:
            told = hmde_table.lines(folder, list(names.values()))
            name = f"HMDE on unseen pages, trained on {sources}{other}"
            harness.write(name, f"{command} --sources {arguments.sources}", told)
    else:
        systems = BASELINES if arguments.longformer else [*METHODS, *names.values()]
        measure(arguments.part, systems, vectors)


def measure(part: str, systems: Sequence[str], vectors: Vectors) -> None:
    """Measure what is not measured yet of baselines and models, and keep it after each."""
    file = vectors.folder / f"{part}.json"
    told = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    encoder = vectors.open("sentences")
    memory: dict[tuple[str, str], FloatArray] = {}
    for name in systems:
        if len(told.get(name, ())) == (SPLITS if part == "ddtp" else len(WAYS)):
            continue
        system = name if name in BASELINES else str(vectors.folder / name)
        if part == "ddtp":
            told[name] = classified(system, vectors)
            file.write_text(json.dumps(told), encoding="utf-8")
            continue
        for way, values in searched(part, system, encoder, memory, vectors):
            told.setdefault(name, {})[way] = values
            file.write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main()
