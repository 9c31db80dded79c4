"""Alignment of 20,000 documents with 20,000: seconds and memory, beside one plain numpy product of that shape."""

from __future__ import annotations

import argparse
import resource
import statistics

import numpy as np
import psutil

from benchmarks import results
from encoders.document import FloatArray, unit_rows
from query.alignment.matching import align

DIM = 384


def sides(count: int) -> tuple[FloatArray, FloatArray]:
    """Two sides, three quarters of whose documents are noisy copies of each other; the rest has no mate."""
    chance = np.random.default_rng(0)
    x, y = (chance.standard_normal((count, DIM)).astype(np.float32) for _ in range(2))
    mates = 3 * count // 4
    y[:mates] = x[:mates] + np.float32(1.5) * y[:mates]
    return unit_rows(x), unit_rows(y)


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    x, y = sides(arguments.count)
    before = psutil.Process().memory_info().rss / 2**20
    pairs = align(x, y)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before
    found = float((pairs.rows == pairs.cols).mean())
    whole = np.empty((arguments.count, arguments.count), np.float32)
    jobs = {"align": lambda: align(x, y), "product": lambda: np.matmul(x, y.T, out=whole)}
    seconds = results.in_turn(jobs, arguments.rounds)
    results.write(
        "Alignment",
        "python -m benchmarks.alignment",
        [
            f"| {arguments.count:,} × {arguments.count:,} documents, {DIM} numbers each | s "
            "| peak memory over the two sides, MB |",
            "|---|---:|---:|",
            f"| `align`: one-to-one pairs by ratio margin | **{statistics.median(seconds['align']):.1f}** "
            f"| {grown:,.0f} |",
            f"| one numpy product of the same shape, nothing kept but the matrix "
            f"| {statistics.median(seconds['product']):.1f} | {whole.nbytes / 2**20:,.0f} |",
            "",
            f"{results.ratio(seconds['align'], seconds['product'])} times the product; alignment takes two of them and "
            f"never holds the matrix. Three quarters of the documents have a mate: {found:.1%} of all pairs are right.",
        ],
    )


if __name__ == "__main__":
    main()
