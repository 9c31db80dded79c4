"""Cr5 on what it has not seen: mates of unseen concepts, topics over unseen pages, other collections, few concepts."""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks import harness
from encoders.cr5.settings import Cr5Settings
from encoders.document import FloatArray
from encoders.methods.registry import open_encoder
from encoders.text.words import folded
from indexer.collection.settings import Settings
from indexer.index import index
from indexer.readers.documents import Sources
from indexer.training.cr5 import train_cr5
from query.fitting.calibrate import calibrate
from query.ranking.choice import PLAIN, Choice
from query.ranking.searcher import Searcher
from query.reproduce.retrieval import RANKS, Precision, precision

if TYPE_CHECKING:
    from query.reproduce.cr5 import Retrieved

TRAINED = ("en", "de", "fr", "it", "es", "ru", "fi", "ja", "zh", "nl", "pl", "cs", "pt", "hu")
TESTED = ("en", "de", "fr", "it", "es", "ru", "ja", "zh")

Records = Mapping[str, Sequence[dict[str, str]]]
"""Records of a collection by language."""


def read(collection: str, langs: Sequence[str]) -> dict[str, list[harness.Record]]:
    """A collection's records by language."""
    return {lang: list(harness.read(collection, lang)) for lang in langs}


def concepts(records: Records) -> list[str]:
    """All concepts, in an order of their own."""
    return sorted({record["concept"] for some in records.values() for record in some})


def written(records: Iterable[dict[str, str]], file: Path) -> str:
    """A JSON lines file of records."""
    file.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return str(file)


def trained(records: Records, chosen: set[str], folder: Path, ridge: float | None = None) -> Path:
    """A Cr5 folder of some concepts' documents."""
    kept = (record for some in records.values() for record in some if record["concept"] in chosen)
    source = written(kept, folder / "training.jsonl")
    (report,) = train_cr5(Sources([source]), folder / "cr5", settings=Cr5Settings(ridge=ridge))
    print(f"  {report.concepts} concepts, ridge {report.ridge:g}, {report.folder.config.dim} dimensions", flush=True)
    return report.folder.path


def vectors(encoder_folder: Path, records: Records) -> dict[str, FloatArray]:
    """Documents' vectors by language."""
    from encoders.folder import ModelFolder

    encoder = open_encoder(ModelFolder.open(encoder_folder))
    return {lang: encoder.encode_documents(harness.documents(some, lang)).vectors for lang, some in records.items()}


def mates(encoder_folder: Path, records: Records) -> Precision:
    """Mates found, mean over ordered pairs of languages; all documents of a language are candidates."""
    return first_mates(vectors(encoder_folder, records), records)


def first_mates(encoded: Mapping[str, FloatArray], records: Records) -> Precision:
    """The same of vectors."""
    names = {lang: np.array([record["concept"] for record in some]) for lang, some in records.items()}
    found = []
    for lang, other in permutations(records, 2):
        rows = np.flatnonzero(np.isin(names[lang], names[other]))
        right = [set(np.flatnonzero(names[other] == names[lang][row]).tolist()) for row in rows]
        found.append(precision(encoded[lang][rows], encoded[other], right, source=encoded[lang]))
    cosine, csls = (
        {k: float(np.mean([some[k] for some in by])) for k in RANKS}
        for by in ([one.cosine for one in found], [one.csls for one in found])
    )
    return Precision(cosine, csls, sum(one.queries for one in found))


def only(records: Records, langs: Sequence[str], chosen: set[str]) -> dict[str, list[dict[str, str]]]:
    """Some languages' documents of some concepts."""
    return {lang: [record for record in records[lang] if record["concept"] in chosen] for lang in langs}


def ranked(searcher: Searcher, choice: Choice) -> tuple[float, float]:
    """MAP over all topics and languages, and the share of the first n hits in the query's own of n languages."""
    langs = sorted(searcher.languages)
    topics, judged = harness.topics("lohelp", "index", langs)
    queries, qrels = harness.answerable(
        harness.queries(topics), harness.judgements(judged, langs), set(searcher.store.ids())
    )
    return harness.scores(queries, searcher.rank(queries, choice=choice), qrels, len(langs))


def topics(encoder: str, records: Records, folder: Path) -> dict[str, tuple[float, float]]:
    """An index of documents, searched by plain cosine, centred, and by the default calibration."""
    source = written((record for some in records.values() for record in some), folder / "unseen.jsonl")
    settings = Settings.read(home=folder / "home")
    index([source], "unseen", settings=settings, encoder=encoder, device="cpu")
    calibrate("unseen", settings, device="cpu")
    return by_choice("unseen", settings)


def by_choice(collection: str, settings: Settings) -> dict[str, tuple[float, float]]:
    """MAP and own-language share by plain cosine, centred, and by the collection's calibration."""
    with Searcher.open(collection, settings, device="cpu") as searcher:
        return {
            "plain cosine": ranked(searcher, PLAIN),
            "centred": ranked(searcher, Choice(0.5, "ratio", passages=False)),
            "default calibration": ranked(searcher, searcher.choice),
        }


def without(home: Path, unseen: set[str], folder: Path) -> dict[str, tuple[float, float]]:
    """The same of a collection indexed with another encoder, its other documents taken out of a copy."""
    shutil.copytree(home, folder / "copy")
    settings = Settings.read(home=folder / "copy")
    with Searcher.open("lohelp", settings, device="cpu") as searcher:
        searcher.store.delete([doc_id for doc_id in searcher.store.ids() if doc_id not in unseen])
    calibrate("lohelp", settings, device="cpu")
    return by_choice("lohelp", settings)


def spread(values: Sequence[float]) -> str:
    """Mean ± standard deviation."""
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else f"{values[0]:.3f}"


def split_rows(records: Records, splits: int, e5: Path | None) -> list[str]:
    """Mates of unseen concepts, and topics over unseen pages, on several splits by concept."""
    every = concepts(records)
    found, told = [], dict[str, list[tuple[float, float]]]()
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(every).tolist()
        with tempfile.TemporaryDirectory() as place:
            cut = len(order) // 5
            folder = trained(records, set(order[cut:]), Path(place))
            found.append(mates(folder, only(records, TESTED, set(order[:cut]))).cosine[1])
        print(f"split {seed}: mates {found[-1]:.4f}", flush=True)
        with tempfile.TemporaryDirectory() as place:
            half = len(order) // 2
            folder = trained(records, set(order[half:]), Path(place))
            unseen = only(records, TESTED, set(order[:half]))
            for name, value in topics(str(folder), unseen, Path(place)).items():
                told.setdefault(f"Cr5, {name}", []).append(value)
            if e5:
                ids = {record["id"] for some in unseen.values() for record in some}
                for name, value in without(e5, ids, Path(place)).items():
                    told.setdefault(f"multilingual-E5-small, {name}", []).append(value)
        print(f"split {seed}:", {name: values[-1] for name, values in told.items()}, flush=True)
    lines = [
        f"lohelp, {splits} splits by concept, mean ± standard deviation. Mates: trained on four fifths of the concepts "
        f"in 14 languages, P@1 by cosine over the ordered pairs of {len(TESTED)} languages ({', '.join(TESTED)}) on "
        f"the rest, all documents of a language being candidates: **{spread(found)}**.",
        "",
        f"Topics: trained on one half, index topics in {len(TESTED)} languages over the pages of the other half, those "
        "with a page left.",
        "",
        "| encoder and ranking | MAP | own-language share (fair: 12.5 %) |",
        "|---|---:|---:|",
    ]
    for name, values in told.items():
        shares = 100 * np.array([share for _, share in values])
        lines.append(f"| {name} | {spread([ap for ap, _ in values])} | {shares.mean():.1f} % |")
    return lines


def mate_rows(records: Records, splits: int) -> list[str]:
    """Mates of unseen concepts alone, on several splits by concept."""
    every = concepts(records)
    found = []
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(every).tolist()
        cut = len(order) // 5
        with tempfile.TemporaryDirectory() as place:
            folder = trained(records, set(order[cut:]), Path(place))
            found.append(mates(folder, only(records, TESTED, set(order[:cut]))))
        print(f"split {seed}: mates {found[-1]}", flush=True)
    return [
        f"lohelp, {splits} splits by concept, trained on four fifths of the concepts in {len(TRAINED)} languages; mean "
        f"over the ordered pairs of {len(TESTED)} languages on the rest, all documents of a language being candidates "
        f"(P@1 by cosine: {', '.join(f'{one.cosine[1]:.3f}' for one in found)}).",
        "",
        "| mates by | P@1 | P@5 | P@10 |",
        "|---|---:|---:|---:|",
        f"| cosine | {' | '.join(spread([one.cosine[k] for one in found]) for k in RANKS)} |",
        f"| CSLS | {' | '.join(spread([one.csls[k] for one in found]) for k in RANKS)} |",
    ]


def curve_rows(records: Records, sizes: Sequence[int], splits: int) -> list[str]:
    """Mates and topics by the number of training concepts; what is tested stays the same within a split."""
    every = concepts(records)
    lines = ["| training concepts | mates, P@1 | topics, MAP by plain cosine |", "|---:|---:|---:|"]
    reached: dict[int, list[tuple[float, float]]] = {size: [] for size in sizes}
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(every).tolist()
        unseen = only(records, TESTED, set(order[: len(order) // 4]))
        for size in sizes:
            with tempfile.TemporaryDirectory() as place:
                folder = trained(records, set(order[len(order) - size :]), Path(place))
                ap, _ = topics(str(folder), unseen, Path(place))["plain cosine"]
                reached[size].append((mates(folder, unseen).cosine[1], ap))
            print(size, reached[size][-1], flush=True)
    for size, values in reached.items():
        lines.append(f"| {size} | {spread([one[0] for one in values])} | {spread([one[1] for one in values])} |")
    return lines


def transfer_rows(records: Records) -> list[str]:
    """Trained on all of lohelp, tested elsewhere."""
    lines = ["| tested on | mates by cosine, P@1 | P@5 | P@10 | by CSLS, P@1 | P@5 | P@10 |", f"|---|{'---:|' * 6}"]
    with tempfile.TemporaryDirectory() as place:
        folder = trained(records, set(concepts(records)), Path(place))
        for name in ("ntrex", "ddtp"):
            theirs = read(name, [lang for lang in TESTED if (harness.DATA / name / f"docs.{lang}.jsonl.gz").is_file()])
            found = mates(folder, theirs)
            cells = " | ".join(f"{some[k]:.3f}" for some in (found.cosine, found.csls) for k in RANKS)
            lines.append(f"| {name}, {len(theirs)} languages | {cells} |")
            print(lines[-1], flush=True)
    return lines


def word_rows(records: Records) -> list[str]:
    """Words of FreeDict, interface sentences and news, English and each language, by a model of all help pages."""
    from encoders.cr5.encoder import load_model
    from encoders.folder import ModelFolder
    from query.reproduce import cr5 as tables

    lines = ["| queries → candidates | P@1, P@5, P@10 by cosine | by CSLS | queries |", "|---|---|---|---:|"]
    with tempfile.TemporaryDirectory() as place:
        model = load_model(ModelFolder.open(trained(records, set(concepts(records)), Path(place), 0.3)))
        english = columns("lostrings/en.tsv.gz")
        for lang, entries in sorted(dictionaries().items()):
            if lang in model.vocabularies:
                own, theirs = set(model.vocabularies["en"]), set(model.vocabularies[lang])
                common = {word: found & theirs for word, found in entries.items() if word in own and found & theirs}
                every = sum(map(len, common.values()))
                lines += [shown("words", one) for one in tables.retrieve_words(model, ("en", lang), common, every)]
        for lang in ("de", "fr", "ru", "fi", "ja", "zh"):
            strings = columns(f"lostrings/{lang}.tsv.gz")
            both = sorted(english.keys() & strings.keys())
            texts = [english[sid] for sid in both], [strings[sid] for sid in both]
            lines += [
                shown("sentences", one)
                for one in tables.retrieve_sentences(model, ("en", lang), texts, 1000, len(both))
            ]
        for lang in ("de", "fr", "ru", "fi", "ja", "zh"):
            texts = news(lang)
            lines += [
                shown("news", one) for one in tables.retrieve_sentences(model, ("en", lang), texts, 1000, len(texts[0]))
            ]
    return lines


def dictionaries() -> dict[str, dict[str, set[str]]]:
    """FreeDict's translations of English words by language, folded as the model's words are."""
    entries: dict[str, dict[str, set[str]]] = {}
    for lang, word, translations in harness.tsv("freedict/en-x.tsv.gz"):
        own = entries.setdefault(lang, {}).setdefault(folded(word, "en"), set())
        own.update(folded(one, lang) for one in translations.split("|"))
    return entries


def news(lang: str) -> tuple[list[str], list[str]]:
    """Sentences of ntrex's articles in English and their translations, but of articles whose lines don't match."""
    english, theirs = (
        {record["concept"]: record["text"].split("\n") for record in records}
        for records in read("ntrex", ("en", lang)).values()
    )
    both = [one for one in sorted(english.keys() & theirs.keys()) if len(english[one]) == len(theirs[one])]
    return [line for one in both for line in english[one]], [line for one in both for line in theirs[one]]


def columns(file: str) -> dict[str, str]:
    """Sentences by their number."""
    return {sid: text for sid, text, *_ in harness.tsv(file)}


def shown(kind: str, one: Retrieved) -> str:
    """A row of the table."""
    figures = (" ".join(f"{100 * value:.1f}" for value in some.values()) for some in (one.ours.cosine, one.ours.csls))
    by_cosine, by_csls = figures
    row = (
        f"| {kind}, {' → '.join(one.langs)} | {by_cosine} | {by_csls} | {one.ours.queries:,} among {one.candidates:,} |"
    )
    print(row, flush=True)
    return row


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["splits", "mates", "curve", "transfer", "words"])
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--sizes", default="50,100,200,400,700")
    parser.add_argument("--e5", type=Path, help="Home of a collection lohelp indexed with the default encoder.")
    arguments = parser.parse_args()
    records = read("lohelp", TRAINED)
    command = f"python -m benchmarks.cr5_quality {arguments.part}"
    lines: list[str]
    if arguments.part == "splits":
        name, lines = "Cr5 on unseen concepts", split_rows(records, arguments.splits, arguments.e5)
        command += f" --splits {arguments.splits}" + (" --e5 HOME" if arguments.e5 else "")
    elif arguments.part == "mates":
        name, lines = "Cr5: mates of unseen concepts", mate_rows(records, arguments.splits)
        command += f" --splits {arguments.splits}"
    elif arguments.part == "curve":
        name = "Cr5 by training concepts"
        lines = curve_rows(records, [int(size) for size in arguments.sizes.split(",")], arguments.splits)
        command += f" --splits {arguments.splits} --sizes {arguments.sizes}"
    elif arguments.part == "words":
        name, lines = "Cr5: words and sentences", word_rows(records)
    else:
        name, lines = "Cr5 elsewhere", transfer_rows(records)
    harness.write(name, command, lines)


if __name__ == "__main__":
    main()
