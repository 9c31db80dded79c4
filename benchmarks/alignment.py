"""Alignment of 20,000 documents with 20,000: seconds and memory, beside one plain numpy product of that shape.

Documents are aligned by their vectors alone, and by the default plan: passages, and maps learnt from the clear pairs.
``large`` aligns more documents by vectors alone; the whole matrix of their cosines would not fit into memory.
"""

from __future__ import annotations

import argparse
import statistics

import numpy as np
import psutil

from benchmarks import harness
from encoders.document import FloatArray, Passages, int8_rows, unit_rows
from query.alignment.coverage import PassageRows
from query.alignment.matching import Pairs, align
from query.alignment.mining import AlignmentPlan, mine
from query.alignment.side import Side

DIM = 384
PASSAGES = 4


def sides(count: int) -> tuple[FloatArray, FloatArray]:
    """Vectors of two sides: three quarters of the documents are noisy copies of each other, the rest has no mate."""
    chance = np.random.default_rng(0)
    x, y = (chance.standard_normal((count, DIM)).astype(np.float32) for _ in range(2))
    mates = 3 * count // 4
    y[:mates] = x[:mates] + np.float32(1.5) * y[:mates]
    return unit_rows(x), unit_rows(y)


def with_passages(name: str, vectors: FloatArray, seed: int) -> Side:
    """A side whose documents have four passages each, noisy copies of the document's vector."""
    chance = np.random.default_rng(seed)
    passages = [
        Passages(
            int8_rows(vector + np.float32(0.05) * chance.standard_normal((PASSAGES, DIM)).astype(np.float32)),
            np.zeros((PASSAGES, 2), np.int32),
        )
        for vector in vectors
    ]
    names = [str(row) for row in range(len(vectors))]
    return Side(name, names, vectors, PassageRows.pack(passages, vectors), [None] * len(names))


def resident() -> float:
    """Memory that this process has resident now, in MB."""
    return float(psutil.Process().memory_info().rss) / 2**20


def right_share(pairs: Pairs) -> float:
    """Share of the pairs that are right."""
    return float((pairs.rows == pairs.cols).mean())


def by_default(x: FloatArray, y: FloatArray) -> str:
    """A row of the table: one run of the default plan."""
    a, b = with_passages("a", x, 1), with_passages("b", y, 2)
    before = resident()
    with harness.Stopwatch() as watch:
        mined = mine(a, b, AlignmentPlan())
    growth = harness.peak_memory() - before
    maps = f"maps of {mined.learnt_from:,} pairs" if mined.learnt_from else "maps tried and declined"
    return (
        f"| the default plan, {PASSAGES} passages a document, {maps}; {right_share(mined.pairs):.1%} of all pairs are "
        f"right | **{watch.seconds:.0f}** ({watch.cpu:.0f} of processor time) | {growth:,.0f} |"
    )


def by_vectors(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Align once by vectors alone: the share of right pairs, and the most memory beyond the sides, in MB."""
    before = resident()
    pairs = align(x, y)
    growth = harness.peak_memory() - before
    return right_share(pairs), growth


def large(count: int) -> None:
    """Align many documents once, and write the section."""
    x, y = sides(count)
    with harness.Stopwatch() as watch:
        right, growth = by_vectors(x, y)
    lines = [
        "| documents, 384 numbers each | s | of processor time, s | memory of the two sides, MB | peak over them, MB |",
        "|---|---:|---:|---:|---:|",
        f"| {count:,} × {count:,} | {watch.seconds:,.0f} | {watch.cpu:,.0f} "
        f"| {(x.nbytes + y.nbytes) / 2**20:,.0f} | {growth:,.0f} |",
        "",
        f"Three quarters of the documents have a mate: {right:.1%} of all pairs are right. The whole "
        f"matrix would take {4 * count**2 / 2**30:,.0f} GB.",
    ]
    harness.write("Alignment, large", f"alignment large --count {count}", lines)


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["compared", "large"], nargs="?", default="compared")
    parser.add_argument("--count", type=int, help="documents of a side  [default: 20,000; large: 200,000]")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.part == "large":
        large(arguments.count or 200_000)
        return
    count = arguments.count or 20_000
    x, y = sides(count)
    right, growth = by_vectors(x, y)
    default = by_default(x, y)
    product = np.empty((count, count), np.float32)
    jobs = {"align": lambda: align(x, y), "product": lambda: np.matmul(x, y.T, out=product)}
    seconds = harness.in_turn(jobs, arguments.rounds)
    harness.write(
        "Alignment",
        "alignment",
        [
            f"| {count:,} × {count:,} documents, {DIM} numbers each | s | peak memory over the two sides, MB |",
            "|---|---:|---:|",
            f"| `align`: one-to-one pairs by ratio margin | **{statistics.median(seconds['align']):.1f}** "
            f"| {growth:,.0f} |",
            default,
            f"| one numpy product of the same shape, nothing kept but the matrix "
            f"| {statistics.median(seconds['product']):.1f} | {product.nbytes / 2**20:,.0f} |",
            "",
            f"{harness.ratio(seconds['align'], seconds['product'])} times the product; alignment takes two of them and "
            f"never holds the matrix. Three quarters of the documents have a mate: {right:.1%} of all pairs are right.",
        ],
    )


if __name__ == "__main__":
    main()
