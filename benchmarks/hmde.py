"""HMDE against *first*, *segments* and *sentences*: trained on half of the concepts, asked of the rest.

``train`` makes a model folder for each seed, ``lohelp``, ``ntrex`` and ``ddtp`` measure it and the baselines of the
same lower encoder, ``table`` writes the section. Sentence vectors are made once (``benchmarks.hmde_vectors``).
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from ir_measures import Qrel

from benchmarks import results
from benchmarks.combined import Kept
from benchmarks.hmde_vectors import LANGUAGES, METHODS, documents, passages, seen, titles
from encoders.console import Console
from encoders.document import Document, Encoded, Encoder, FloatArray, Passages, unit_rows
from encoders.folder import ModelFolder
from encoders.hmde.triples import Triples, held_out, page_of
from encoders.hmde.upper import UpperSession, UpperShape
from encoders.methods import open_encoder
from indexer.detection import Detector
from indexer.hmde_training import heads_of, training_facts
from indexer.stores.contract import StoredDocument
from indexer.stores.embedded import EmbeddedStore
from onnx_export.hmde.lower import Part
from onnx_export.hmde.settings import PRESETS, Settings
from onnx_export.models import DEFAULT, find_model
from query import evidence
from query.classification import Labelled, averages, split, zero_shot
from query.classification import Part as Share
from query.evaluation import evaluate, parse_measures
from query.language_statistics import calibration, draw
from query.probe import Setting, probe
from query.qrels import read_qrels
from query.ranking import PLAIN, Choice
from query.run import Run
from query.searcher import Searcher
from query.significance import compare, corrected
from query.topics import read_topics

QUIET = Console(quiet=True)
WAYS = ("plain cosine", "centred", "calibrated")
SPLITS = 3


def material(collection: str, folder: Path, most: int) -> Iterator[tuple[Document, Part]]:
    """Pages of the half that teaches, and what training keeps of each."""
    for lang in LANGUAGES:
        kept, queries = passages(collection, lang, "sentences", folder), titles(collection, lang, folder)
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


def train(settings: Settings, collections: Sequence[str], target: Path, folder: Path) -> None:
    """Make a model folder, as ``dragoman train hmde`` does of the same pages."""
    from onnx_export.hmde import base as bases
    from onnx_export.hmde.publish import publish
    from onnx_export.hmde.training import Training

    base = bases.frozen(DEFAULT, settings, "cpu", QUIET)
    found = [one for collection in collections for one in material(collection, folder, settings.sentences)]
    base.lower.take([part for _, part in found])
    pages = [page_of(page.lang, page.fields) for page, _ in found]
    concepts = {page.concept for page in pages}
    away = {concept for concept in concepts if held_out(concept, settings.held_out, settings.seed)}
    triples = Triples(pages, settings.seed, away)
    validation = np.array([row for row, page in enumerate(pages) if page.concept in away], dtype=np.int64)
    dim = base.config.dim
    shape = UpperShape(
        dim, settings.layers, heads_of(dim), settings.feed_forward, settings.sentences, settings.tokens, settings.form
    )
    training = Training(
        base.lower, shape, triples, validation, settings, place=target.with_name(f"{target.name}.checkpoint")
    )
    training.resume(repr((settings, collections)))
    curve = training.run(Console())
    drawn = triples.languages(triples.draw(0, training.step * settings.batch * settings.accumulate))
    langs = Counter(page.lang for page in pages)
    publish(
        training.upper,
        base,
        target,
        "int8",
        training_facts(settings, curve, training.step, langs, drawn, DEFAULT),
        {},
        QUIET,
    )


def encoded(collection: str, lang: str, system: str, folder: Path) -> list[tuple[Document, FloatArray, Passages]]:
    """Documents that were not trained on, their vectors and passages by a baseline or by a trained folder."""
    method = system if system in METHODS else "sentences"
    kept = passages(collection, lang, method, folder)
    whole = documents(collection, lang)
    asked = [page for page in whole if collection == "ntrex" or not seen(page)]
    # Of sentences all documents are kept, of the other two what is asked.
    wanted = {page.doc_id for page in asked}
    rows = [at for at, page in enumerate(whole) if page.doc_id in wanted]
    rows = rows if len(kept.counts) == len(whole) else list(range(len(asked)))
    own = [Passages(kept.vectors[a:b], kept.offsets[a:b]) for a, b in [kept.starts[row : row + 2] for row in rows]]
    unit = [one.unit_vectors() for one in own]
    if system in METHODS:
        vectors = unit_rows(np.stack([one.mean(axis=0) for one in unit]))
    else:
        vectors = UpperSession(ModelFolder.open(Path(system)), "cpu").documents(unit)
    return list(zip(asked, vectors, own, strict=True))


def judged(collection: str, present: set[str]) -> tuple[list[Document], list[Qrel]]:
    """Topics in each language that have a page, and their judgements."""
    place, kind = results.DATA / collection, {"lohelp": "index", "ntrex": "headline"}[collection]
    topics = [topic for topic in read_topics(place / f"topics.{kind}.tsv") if topic.lang in LANGUAGES]
    files = [place / f"qrels.{kind}.{lang}.txt" for lang in LANGUAGES]
    here = [one for one in read_qrels(files) if one.doc_id in present]
    qrels = [one._replace(query_id=f"{one.query_id}.{lang}") for lang in LANGUAGES for one in here]
    answered = {one.query_id for one in qrels if one.relevance > 0}
    queries = [
        Document(f"{topic.qid}.{topic.lang}", topic.lang, topic.text(("title", "description"))) for topic in topics
    ]
    return [query for query in queries if query.doc_id in answered], qrels


def searched(
    collection: str, system: str, encoder: Encoder, memory: dict[tuple[str, str], FloatArray], folder: Path
) -> Iterator[tuple[str, dict[str, float]]]:
    """Each way to rank, and average precision by topic: the calibration and its probe are the product's."""
    model = encoder.spec.model
    with tempfile.TemporaryDirectory() as place:
        store = EmbeddedStore(Path(place), "unseen")
        store.create(model, encoder.spec.dim)
        for lang in LANGUAGES:
            found = encoded(collection, lang, system, folder)
            for start in range(0, len(found), 64):
                pages, vectors, own = zip(*found[start : start + 64], strict=True)
                both = Encoded(np.stack(vectors), own, np.ones((len(own), 1), np.bool_))
                store.put(model, [StoredDocument.of(page, both, at) for at, page in enumerate(pages)])
        asking = Kept(encoder, store, memory)
        with Searcher("unseen", asking, store, store.count(), Detector(store.count().keys())) as searcher:
            samples = draw(store, asking)
            known = evidence.from_concepts(store, model, samples)
            setting = probe(samples, model, known)[0] if known else Setting()
            made = calibration(samples, model, rank=setting.rank)
            made = made.with_choice(balance=setting.balance, margin=setting.margin)
            queries, qrels = judged(collection, set(store.ids()))
            for way, calibrated, choice in (
                ("plain cosine", None, PLAIN),
                ("centred", calibration(samples, model), Choice(0.5, "ratio", passages=False)),
                ("calibrated", made, Choice.of(made)),
            ):
                ranked = replace(searcher, calibration=calibrated).rank(queries, choice=choice)
                run = Run(
                    system,
                    {
                        query.doc_id: list(zip(one.doc_ids, map(float, one.scores), strict=True))
                        for query, one in zip(queries, ranked, strict=True)
                    },
                )
                scores = evaluate(run, qrels, parse_measures(["AP"]), {query.doc_id for query in queries})
                print(f"{system} {way} {scores.means['AP']:.4f} {setting}", flush=True)
                yield way, {qid: values["AP"] for qid, values in scores.topics.items()}


def classified(system: str, folder: Path) -> list[float]:
    """Mean accuracy over pairs of two languages on packages of the unseen half, by split."""
    found = {lang: encoded("ddtp", lang, system, folder) for lang in LANGUAGES}
    names: tuple[Share, ...] = ("train", "dev", "test")
    told = []
    for seed in range(SPLITS):
        data = {}
        for lang, rows in found.items():
            parts = np.array(split([page for page, _, _ in rows], seed))
            vectors = np.stack([vector for _, vector, _ in rows])
            labels = np.array([page.fields["label"] for page, _, _ in rows])
            data[lang] = {name: Labelled(vectors[parts == name], labels[parts == name]) for name in names}
        told.append(averages(zero_shot(data)).cross)
    print(system, told, flush=True)
    return told


def table(folder: Path, models: Sequence[str]) -> list[str]:
    """Figures of all that was measured, and the comparison with the best baseline."""
    lines = []
    for collection in ("lohelp", "ntrex"):
        file = folder / f"{collection}.json"
        if not file.is_file():
            continue
        told: Mapping[str, Mapping[str, Mapping[str, float]]] = json.loads(file.read_text(encoding="utf-8"))
        means = {way: {name: float(np.mean(list(one[way].values()))) for name, one in told.items()} for way in WAYS}
        some = next(iter(told.values()))[WAYS[0]]
        topics = {qid.rpartition(".")[0] for qid in some}
        lines += [
            f"**{collection}**, MAP, {len(topics)} topics in {len(LANGUAGES)} languages ({len(some):,} queries):",
            "",
        ]
        lines += [f"| | {' | '.join(WAYS)} |", f"|---|{'---:|' * len(WAYS)}"]
        lines += [f"| *{name}* | {' | '.join(f'{means[way][name]:.3f}' for way in WAYS)} |" for name in METHODS]
        for name in models:
            lines.append(f"| HMDE, {name} | {' | '.join(f'{means[way][name]:.3f}' for way in WAYS)} |")
        lines.append("")
        for way in WAYS[1:]:
            best = max(METHODS, key=lambda name: means[way][name])
            values = [{q: {"AP": v} for q, v in told[name][way].items()} for name in (best, *models)]
            compared = corrected(
                [
                    one
                    for name, topics_of in zip(models, values[1:], strict=True)
                    for one in compare(
                        best, values[0], name, topics_of, ["AP"], topic=lambda qid: qid.rpartition(".")[0]
                    )
                ]
            )
            told_ps = ", ".join(
                f"{one.difference:+.3f} (p = {one.p_randomisation:.2g}, Holm {one.p_holm:.2g})" for one in compared
            )
            lines += [f"{way[0].upper()}{way[1:]}, against *{best}*: {told_ps}.", ""]
    file = folder / "ddtp.json"
    if file.is_file():
        accuracies: Mapping[str, Sequence[float]] = json.loads(file.read_text(encoding="utf-8"))
        lines += [
            "**ddtp**, zero-shot accuracy in another language, mean over splits (spread):",
            "",
            "| | cross |",
            "|---|---:|",
        ]
        for name in (*METHODS, *models):
            values_of = 100 * np.array(accuracies[name])
            shown = f"*{name}*" if name in METHODS else f"HMDE, {name}"
            lines.append(f"| {shown} | {values_of.mean():.1f} ({values_of.min():.1f} … {values_of.max():.1f}) |")
    return lines


def main() -> None:
    """Do one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["train", "lohelp", "ntrex", "ddtp", "table"])
    parser.add_argument("--folder", type=Path, required=True, help="vectors, models and what was measured")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--sources", default="lohelp")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    names = {int(seed): f"{arguments.sources.replace(',', '+')}, seed {seed}" for seed in arguments.seeds.split(",")}
    if arguments.part == "train":
        for seed, name in names.items():
            if not (folder / name).is_dir():
                train(replace(PRESETS["small"], seed=seed), arguments.sources.split(","), folder / name, folder)
        return
    if arguments.part == "table":
        command = f"python -m benchmarks.hmde table --folder FOLDER --sources {arguments.sources}"
        results.write("HMDE on unseen pages", command, table(folder, list(names.values())))
        return
    file = folder / f"{arguments.part}.json"
    told = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    encoder = open_encoder(find_model(DEFAULT, QUIET), "sentences", device="cpu")
    memory: dict[tuple[str, str], FloatArray] = {}
    for name in (*METHODS, *names.values()):
        if len(told.get(name, ())) == (SPLITS if arguments.part == "ddtp" else len(WAYS)):
            continue
        system = name if name in METHODS else str(folder / name)
        if arguments.part == "ddtp":
            told[name] = classified(system, folder)
            file.write_text(json.dumps(told), encoding="utf-8")
            continue
        for way, values in searched(arguments.part, system, encoder, memory, folder):
            told.setdefault(name, {})[way] = values
            file.write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main()
