"""Cr5 on what it has not seen: mates of unseen concepts, topics over unseen pages, other collections, few concepts."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks import harness
from benchmarks.harness import LANGUAGES, TESTED, spread
from benchmarks.rankers import rank, rankers
from benchmarks.searchers import open_searcher
from encoders.cr5.algebra.ridge_choice import excerpts, mate_rank, split
from encoders.cr5.algebra.solver import solve
from encoders.cr5.bag_corpus import Corpus
from encoders.cr5.cr5_settings import Cr5Settings
from encoders.cr5.estimator import Cr5
from encoders.document import FloatArray
from encoders.folder.model_folder import ModelFolder
from encoders.methods.method_registry import open_encoder
from encoders.text.words import folded
from indexer.collection.settings import Settings
from indexer.index_sources import index
from indexer.readers.source_documents import Sources
from indexer.training.cr5_training import train_cr5
from papers.retrieval import RANKS, Precision, precision
from query.calibration_fitting.calibration_fit import calibrate
from query.ranking.fair_ranker import FairRanker
from query.ranking.searcher import Searcher

if TYPE_CHECKING:
    from papers.cr5 import Retrieved

TRAINED = (*LANGUAGES, "nl", "pl", "cs", "pt", "hu")

Records = Mapping[str, Sequence[harness.Record]]
"""Records of a collection by language."""


def read(collection: str, langs: Sequence[str]) -> dict[str, list[harness.Record]]:
    """A collection's records by language."""
    return {lang: list(harness.read(collection, lang)) for lang in langs}


def shuffled_concepts(records: Records, seed: int = 0) -> list[str]:
    """All concepts in a random order."""
    concepts = sorted({record["concept"] for record in flat(records)})
    return list(np.random.default_rng(seed).permutation(concepts).tolist())


def flat(records: Records) -> Iterator[harness.Record]:
    """Records of all languages, one language after another."""
    for of_lang in records.values():
        yield from of_lang


@contextmanager
def trained(
    records: Records, concepts: Sequence[str] | None = None, ridge: float | None = None
) -> Iterator[ModelFolder]:
    """Train Cr5 on the documents of some concepts or of all; the model's folder is temporary."""
    taught = None if concepts is None else set(concepts)
    with tempfile.TemporaryDirectory() as scratch:
        source = harness.write_records(
            (record for record in flat(records) if taught is None or record["concept"] in taught),
            Path(scratch) / "training.jsonl",
        )
        (report,) = train_cr5(Sources([source]), Path(scratch) / "cr5", settings=Cr5Settings(ridge=ridge))
        dim = report.folder.config.dim
        print(f"  {report.concepts} concepts, ridge {report.ridge:g}, {dim} dimensions", flush=True)
        yield report.folder


def vectors(folder: ModelFolder, records: Records) -> dict[str, FloatArray]:
    """Documents' vectors by language."""
    encoder = open_encoder(folder)
    return {
        lang: encoder.encode_documents(harness.documents(of_lang, lang)).vectors for lang, of_lang in records.items()
    }


def first_mates(encoded: Mapping[str, FloatArray], records: Records) -> Precision:
    """Precision of finding mates by vectors, the mean over ordered pairs of languages.

    All documents of a language are candidates.
    """
    concepts = {lang: np.array([record["concept"] for record in of_lang]) for lang, of_lang in records.items()}
    pairs = []
    for lang, target in permutations(records, 2):
        rows = np.flatnonzero(np.isin(concepts[lang], concepts[target]))
        mates = [set(np.flatnonzero(concepts[target] == concepts[lang][row]).tolist()) for row in rows]
        pairs.append(precision(encoded[lang][rows], encoded[target], mates, source=encoded[lang]))
    cosine, csls = (
        {k: float(np.mean([shares[k] for shares in by_pair])) for k in RANKS}
        for by_pair in ([pair.cosine for pair in pairs], [pair.csls for pair in pairs])
    )
    return Precision(cosine, csls, sum(pair.queries for pair in pairs))


def unseen_mates(records: Records, seed: int) -> Precision:
    """Precision of finding mates in a random fifth of the concepts, by Cr5 trained on the others."""
    order = shuffled_concepts(records, seed)
    cut = len(order) // 5
    unseen = only(records, TESTED, order[:cut])
    with trained(records, order[cut:]) as folder:
        return first_mates(vectors(folder, unseen), unseen)


def only(records: Records, langs: Sequence[str], concepts: Sequence[str]) -> dict[str, list[harness.Record]]:
    """Some languages' documents of some concepts."""
    chosen = set(concepts)
    return {lang: [record for record in records[lang] if record["concept"] in chosen] for lang in langs}


def rank_topics(searcher: Searcher, ranker: FairRanker) -> tuple[float, float]:
    """MAP over all topics and languages, and the share of the first n hits in the query's own of n languages."""
    langs = sorted(searcher.languages)
    topics, judged = harness.topics("lohelp", "index", langs)
    queries, qrels = harness.answerable(
        harness.queries(topics), harness.judgements(judged, langs), set(searcher.store.ids())
    )
    rankings = rank(ranker, queries, searcher.encoder.encode_queries(queries), langs)
    return harness.scores(queries, rankings, qrels, len(langs))


def by_ranking(collection: str, settings: Settings) -> dict[str, tuple[float, float]]:
    """Calibrate a collection: MAP and own-language share by ranking."""
    calibrate(collection, settings, device="cpu")
    with open_searcher(collection, settings.home) as searcher:
        assert searcher.calibration is not None
        ways = rankers(searcher.store, searcher.calibration)
        return {name: rank_topics(searcher, ranker) for name, ranker in ways.items()}


def index_records(folder: ModelFolder, records: Records) -> dict[str, tuple[float, float]]:
    """What each ranking reaches on records that are indexed with an encoder's folder."""
    with tempfile.TemporaryDirectory() as scratch:
        source = harness.write_records(flat(records), Path(scratch) / "unseen.jsonl")
        settings = Settings.read(home=Path(scratch) / "home")
        index([source], "unseen", settings=settings, encoder=str(folder.path), device="cpu")
        return by_ranking("unseen", settings)


def copy_indexed(home: Path, records: Records) -> dict[str, tuple[float, float]]:
    """What each ranking reaches on records as a home has them indexed, in a copy without its other documents."""
    doc_ids = {record["id"] for record in flat(records)}
    with tempfile.TemporaryDirectory() as scratch:
        settings = Settings.read(home=Path(scratch) / "copy")
        shutil.copytree(home, settings.home)
        with open_searcher("lohelp", settings.home) as searcher:
            searcher.store.delete([doc_id for doc_id in searcher.store.ids() if doc_id not in doc_ids])
        return by_ranking("lohelp", settings)


def split_rows(records: Records, splits: int, e5: Path | None) -> list[str]:
    """Mates of unseen concepts, and topics over unseen pages, on several splits by concept."""
    mate_shares = []
    by_name: dict[str, list[tuple[float, float]]] = {}
    for seed in range(splits):
        mate_shares.append(unseen_mates(records, seed).cosine[1])
        print(f"split {seed}: mates {mate_shares[-1]:.4f}", flush=True)
        order = shuffled_concepts(records, seed)
        half = len(order) // 2
        unseen = only(records, TESTED, order[:half])
        with trained(records, order[half:]) as folder:
            scores = {f"Cr5, {name}": score for name, score in index_records(folder, unseen).items()}
        if e5:
            scores |= {f"multilingual-E5-small, {name}": score for name, score in copy_indexed(e5, unseen).items()}
        for name, score in scores.items():
            by_name.setdefault(name, []).append(score)
        print(f"split {seed}:", scores, flush=True)
    lines = [
        f"lohelp, {splits} splits by concept, mean ± standard deviation. Mates: trained on four fifths of the concepts "
        f"in 14 languages, P@1 by cosine over the ordered pairs of {len(TESTED)} languages ({', '.join(TESTED)}) on "
        f"the rest, all documents of a language being candidates: **{spread(mate_shares)}**.",
        "",
        f"Topics: trained on one half, index topics in {len(TESTED)} languages over the pages of the other half, those "
        "with a page left.",
        "",
        "| encoder and ranking | MAP | own-language share (fair: 12.5 %) |",
        "|---|---:|---:|",
    ]
    for name, pairs in by_name.items():
        shares = 100 * np.array([share for _, share in pairs])
        lines.append(f"| {name} | {spread([mean for mean, _ in pairs])} | {shares.mean():.1f} % |")
    return lines


def mate_rows(records: Records, splits: int) -> list[str]:
    """Mates of unseen concepts alone, on several splits by concept."""
    by_split = []
    for seed in range(splits):
        by_split.append(unseen_mates(records, seed))
        print(f"split {seed}: mates {by_split[-1]}", flush=True)
    return [
        f"lohelp, {splits} splits by concept, trained on four fifths of the concepts in {len(TRAINED)} languages; mean "
        f"over the ordered pairs of {len(TESTED)} languages on the rest, all documents of a language being candidates "
        f"(P@1 by cosine: {', '.join(f'{split.cosine[1]:.3f}' for split in by_split)}).",
        "",
        "| mates by | P@1 | P@5 | P@10 |",
        "|---|---:|---:|---:|",
        f"| cosine | {' | '.join(spread([split.cosine[k] for split in by_split]) for k in RANKS)} |",
        f"| CSLS | {' | '.join(spread([split.csls[k] for split in by_split]) for k in RANKS)} |",
    ]


def curve_rows(records: Records, sizes: Sequence[int], splits: int) -> list[str]:
    """Mates and topics by the number of training concepts; within a split the same concepts are tested."""
    lines = ["| training concepts | mates, P@1 | topics, MAP by plain cosine |", "|---:|---:|---:|"]
    by_size: dict[int, list[tuple[float, float]]] = {size: [] for size in sizes}
    for seed in range(splits):
        order = shuffled_concepts(records, seed)
        unseen = only(records, TESTED, order[: len(order) // 4])
        for size in sizes:
            with trained(records, order[len(order) - size :]) as folder:
                mean, _ = index_records(folder, unseen)["plain cosine"]
                by_size[size].append((first_mates(vectors(folder, unseen), unseen).cosine[1], mean))
            print(size, by_size[size][-1], flush=True)
    for size, pairs in by_size.items():
        lines.append(f"| {size} | {' | '.join(spread(figures) for figures in zip(*pairs, strict=True))} |")
    return lines


def ridge_rows(
    collection: str, langs: Sequence[str], sizes: Sequence[int], splits: int, dimensions: int = 300
) -> list[str]:
    """Mean reciprocal rank of a few words' mates by λ and number of training concepts; the same concepts are tested."""
    records = read(collection, langs)
    corpus = Corpus()
    for lang, of_lang in records.items():
        for document in harness.documents(of_lang, lang):
            corpus.add(document)
    _, blocks = Cr5().blocks(corpus)
    concepts = np.unique(np.concatenate([block.concepts for block in blocks.values()]))
    ranks: dict[tuple[int, float], list[float]] = {}
    for seed in range(splits):
        random = np.random.default_rng(seed)
        order = random.permutation(concepts)
        cut = len(order) // 5
        _, tested = split(blocks, order, order[:cut])
        words = excerpts(tested, random)
        for size in sizes:
            taught, _ = split(blocks, np.concatenate([order[:cut], order[cut:][:size]]), order[:cut])
            for lam in _RIDGES:
                ranks.setdefault((size, lam), []).append(
                    mate_rank(solve(taught, dimensions, lam, seed=seed).columns, tested, words)
                )
            print(collection, seed, size, [round(ranks[size, lam][-1], 4) for lam in _RIDGES], flush=True)
    means = {key: float(np.mean(values)) for key, values in ranks.items()}
    table = [
        f"{collection}, {', '.join(langs)}, {dimensions} dimensions, {splits} splits: mean reciprocal rank of mates "
        f"of five words of a document, in a fifth of the {len(concepts):,} concepts, all documents of a language there "
        "being candidates.",
        "",
        f"| training concepts | {' | '.join(f'λ {lam:g}' for lam in _RIDGES)} |",
        f"|---:|{'---:|' * len(_RIDGES)}",
    ]
    for size in sizes:
        best = max(means[size, lam] for lam in _RIDGES)
        cells = (f"{means[size, lam]:.3f}" for lam in _RIDGES)
        table.append(f"| {size:,} | {' | '.join(f'**{cell}**' if cell == f'{best:.3f}' else cell for cell in cells)} |")
    return [*table, ""]


_RIDGES = (0.1, 0.3, 1.0, 3.0, 10.0)


def transfer_rows(records: Records) -> list[str]:
    """Mates in other collections, of a model that was trained on all of lohelp."""
    table = harness.Table(
        ["| tested on | mates by cosine, P@1 | P@5 | P@10 | by CSLS, P@1 | P@5 | P@10 |", f"|---|{'---:|' * 6}"]
    )
    with trained(records) as folder:
        for name in ("ntrex", "ddtp"):
            unseen = read(name, [lang for lang in TESTED if harness.file_of(name, lang).is_file()])
            mates = first_mates(vectors(folder, unseen), unseen)
            cells = " | ".join(f"{shares[k]:.3f}" for shares in (mates.cosine, mates.csls) for k in RANKS)
            table.add(f"| {name}, {len(unseen)} languages | {cells} |")
    return table


def word_rows(records: Records) -> list[str]:
    """Words of FreeDict, interface sentences and news, English and each language, by a model of all help pages."""
    from encoders.cr5.bags_of_words import load_model
    from papers import cr5 as tables

    table = harness.Table(
        ["| queries → candidates | P@1, P@5, P@10 by cosine | by CSLS | queries |", "|---|---|---|---:|"]
    )
    with trained(records, ridge=0.3) as folder:
        model = load_model(folder)
        for lang, entries in sorted(dictionaries().items()):
            if lang in model.vocabularies:
                english, words = set(model.vocabularies["en"]), set(model.vocabularies[lang])
                common = {
                    word: translations & words
                    for word, translations in entries.items()
                    if word in english and translations & words
                }
                count = sum(map(len, common.values()))
                for retrieved in tables.retrieve_words(model, ("en", lang), common, count):
                    table.add(row("words", retrieved))
        for kind, pairs_of in (("sentences", interface_sentences), ("news", news)):
            for lang in ("de", "fr", "ru", "fi", "ja", "zh"):
                texts = pairs_of(lang)
                for retrieved in tables.retrieve_sentences(model, ("en", lang), texts, 1000, len(texts[0])):
                    table.add(row(kind, retrieved))
    return table


def dictionaries() -> dict[str, dict[str, set[str]]]:
    """FreeDict's translations of English words by language, folded as the model's words are."""
    entries: dict[str, dict[str, set[str]]] = {}
    for lang, word, translations in harness.tsv("freedict/en-x.tsv.gz"):
        entry = entries.setdefault(lang, {}).setdefault(folded(word, "en"), set())
        entry.update(folded(translation, lang) for translation in translations.split("|"))
    return entries


def interface_sentences(lang: str) -> tuple[list[str], list[str]]:
    """LibreOffice's sentences in English and their translations."""
    english, translated = (
        {sid: text for sid, text, *_ in harness.tsv(f"lostrings/{code}.tsv.gz")} for code in ("en", lang)
    )
    common = sorted(english.keys() & translated.keys())
    return [english[sid] for sid in common], [translated[sid] for sid in common]


def news(lang: str) -> tuple[list[str], list[str]]:
    """Sentences of ntrex's articles in English and their translations, without articles whose lines don't match."""
    english, translated = (
        {record["concept"]: record["text"].split("\n") for record in records}
        for records in read("ntrex", ("en", lang)).values()
    )
    common = [
        concept
        for concept in sorted(english.keys() & translated.keys())
        if len(english[concept]) == len(translated[concept])
    ]
    return (
        [line for concept in common for line in english[concept]],
        [line for concept in common for line in translated[concept]],
    )


def row(kind: str, retrieved: Retrieved) -> str:
    """A row of the table."""
    ours = retrieved.ours
    by_cosine, by_csls = (
        " ".join(f"{100 * share:.1f}" for share in shares.values()) for shares in (ours.cosine, ours.csls)
    )
    langs = " → ".join(retrieved.langs)
    return f"| {kind}, {langs} | {by_cosine} | {by_csls} | {ours.queries:,} among {retrieved.candidates:,} |"


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["splits", "mates", "curve", "ridge", "transfer", "words"])
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--sizes", default="50,100,200,400,700")
    parser.add_argument("--e5", type=Path, help="Home of a collection lohelp indexed with the default encoder.")
    arguments = parser.parse_args()
    records = read("lohelp", TRAINED)
    options: tuple[str, ...] = ("splits",)
    if arguments.part == "splits":
        name, lines = "Cr5 on unseen concepts", split_rows(records, arguments.splits, arguments.e5)
    elif arguments.part == "mates":
        name, lines = "Cr5: mates of unseen concepts", mate_rows(records, arguments.splits)
    elif arguments.part == "curve":
        name, options = "Cr5 by training concepts", ("splits", "sizes")
        lines = curve_rows(records, [int(size) for size in arguments.sizes.split(",")], arguments.splits)
    elif arguments.part == "ridge":
        name, lines = (
            "Cr5: λ by training concepts",
            [
                *ridge_rows("lohelp", TESTED, (100, 200, 400, 800), arguments.splits),
                *(
                    line
                    for dimensions in (100, 300, 600)
                    for line in ridge_rows(
                        "ddtp", ("de", "en", "fr", "it"), (100, 200, 400, 800, 1436), arguments.splits, dimensions
                    )
                ),
            ],
        )
    elif arguments.part == "words":
        name, options, lines = "Cr5: words and sentences", (), word_rows(records)
    else:
        name, options, lines = "Cr5 elsewhere", (), transfer_rows(records)
    command = harness.command(f"cr5_quality {arguments.part}", arguments, *options)
    with_e5 = " --e5 HOME" if arguments.part == "splits" and arguments.e5 else ""
    harness.write(name, command + with_e5, lines)


if __name__ == "__main__":
    main()
