"""A smaller collection: the documents of some concepts, drawn at random, in all languages. JSON lines on stdout."""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Iterator

import numpy as np

from benchmarks import results


def records(name: str) -> Iterator[dict[str, str]]:
    """Every document of one of the open collections, language by language."""
    for file in sorted((results.DATA / name).glob("docs.*.jsonl.gz")):
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def main() -> None:
    """Draw and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collection")
    parser.add_argument("--concepts", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    concepts = sorted({record["concept"] for record in records(arguments.collection)})
    drawn = set(np.random.default_rng(arguments.seed).permutation(concepts)[: arguments.concepts].tolist())
    for record in records(arguments.collection):
        if record["concept"] in drawn:
            sys.stdout.write(json.dumps(record, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
