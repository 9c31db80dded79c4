"""Alignment of 200,000 documents with 200,000 by their vectors: seconds, and memory over the two sides.

The whole matrix of their cosines would not fit into memory.
"""

from argparse import Namespace

import numpy as np

from benchmarks import harness
from encoders.document import FloatArray, unit_rows
from query.alignment.matching import align

_DIM = 384


def sides(count: int) -> tuple[FloatArray, FloatArray]:
    """Vectors of two sides: three quarters of the documents are noisy copies of each other, the rest has no mate."""
    chance = np.random.default_rng(0)
    x, y = (chance.standard_normal((count, _DIM)).astype(np.float32) for _ in range(2))
    mates = 3 * count // 4
    y[:mates] = x[:mates] + np.float32(1.5) * y[:mates]
    return unit_rows(x), unit_rows(y)


@harness.benchmark("Alignment", count=200_000)
def measure(arguments: Namespace) -> list[str]:
    count = arguments.count
    x, y = sides(count)
    before = harness.resident_memory()
    with harness.Stopwatch() as watch:
        pairs = align(x, y)
    growth = harness.peak_memory() - before
    header = "documents, 384 numbers each | s | of processor time, s | memory of the two sides, MB | peak over them, MB"
    figures = watch.seconds, watch.cpu, (x.nbytes + y.nbytes) / 2**20, growth
    return [
        *harness.table(header, [[f"{count:,} × {count:,}", *(f"{figure:,.0f}" for figure in figures)]]),
        "",
        f"Three quarters of the documents have a mate: {(pairs.rows == pairs.cols).mean():.1%} of all pairs are right. "
        f"The whole matrix would take {4 * count**2 / 2**30:,.0f} GB.",
    ]
