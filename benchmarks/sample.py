"""Makes smaller collections of an open one: documents of random concepts, thinned, or short texts.

Documents are JSON lines on stdout. ``--sentences`` writes a collection of short texts without titles and concepts to a
folder: a document is an article's first two sentences, a topic its third and fourth.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from benchmarks import harness
from encoders.text.segmentation import sentences

_SENTENCES = 2
"""Sentences of a short document, and of its topic."""


def one_language_each(records: Iterable[harness.Record], seed: int) -> Iterator[harness.Record]:
    """One document of each concept, in a language drawn at random: no document has a counterpart."""
    by_concept: dict[str, list[harness.Record]] = {}
    for record in records:
        by_concept.setdefault(record["concept"], []).append(record)
    chance = np.random.default_rng(seed)
    for concept in sorted(by_concept):
        yield by_concept[concept][chance.integers(len(by_concept[concept]))]


def write_sentences(records: Iterable[harness.Record], folder: Path) -> None:
    """Write documents, topics and judgements: an article's first sentences are asked for by the next sentences."""
    folder.mkdir(parents=True, exist_ok=True)
    documents, topics, qrels = [], ["qid\tlang\ttitle"], []
    for record in records:
        text = " ".join(record["text"].split())
        spans = sentences(text, record["lang"])[: 2 * _SENTENCES]
        if len(spans) < 2 * _SENTENCES:
            continue
        border = spans[_SENTENCES][0]
        documents.append({"id": record["id"], "lang": record["lang"], "text": text[:border].strip()})
        topics.append(f"{record['concept']}\t{record['lang']}\t{text[border : spans[-1][1]]}")
        qrels.append(f"{record['concept']} 0 {record['id']} 1")
    harness.write_records(documents, folder / "docs.jsonl")
    (folder / "topics.tsv").write_text("\n".join(topics) + "\n", encoding="utf-8")
    (folder / "qrels.txt").write_text("\n".join(qrels) + "\n", encoding="utf-8")


def main() -> None:
    """Draw concepts, and write their documents."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collection")
    parser.add_argument("--concepts", type=int, default=400)
    parser.add_argument("--languages", default="", help="With commas; all, unless given.")
    parser.add_argument("--one-language", action="store_true", help="One language a concept.")
    parser.add_argument("--sentences", type=Path, metavar="FOLDER", help="Short texts, with topics and judgements.")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    concepts = sorted({record["concept"] for record in harness.read_all(arguments.collection)})
    drawn = set(np.random.default_rng(arguments.seed).permutation(concepts)[: arguments.concepts].tolist())
    languages = set(filter(None, arguments.languages.split(",")))
    records: Iterable[harness.Record] = [
        record
        for record in harness.read_all(arguments.collection)
        if record["concept"] in drawn and (not languages or record["lang"] in languages)
    ]
    if arguments.one_language:
        records = one_language_each(records, arguments.seed)
    if arguments.sentences:
        write_sentences(records, arguments.sentences)
        return
    for record in records:
        sys.stdout.write(json.dumps(record, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
