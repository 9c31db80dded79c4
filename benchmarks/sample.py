"""Draws a smaller collection: all languages' documents of random concepts, as JSON lines on stdout."""

from __future__ import annotations

import argparse
import json
import sys

import numpy as np

from benchmarks import harness


def main() -> None:
    """Draw concepts, and write their documents."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collection")
    parser.add_argument("--concepts", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    concepts = sorted({record["concept"] for record in harness.read_all(arguments.collection)})
    drawn = set(np.random.default_rng(arguments.seed).permutation(concepts)[: arguments.concepts].tolist())
    for record in harness.read_all(arguments.collection):
        if record["concept"] in drawn:
            sys.stdout.write(json.dumps(record, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
