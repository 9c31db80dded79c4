"""Documents like a document: does a document find those on its subject in other languages, and how is it compared?"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks import harness
from benchmarks.searchers import open_searcher
from query.ranking.ranking_options import RankingOptions
from query.ranking.searcher import Searcher

_DEPTH = 50


def average_precision_and_first(searcher: Searcher, every: int) -> tuple[list[float], list[bool]]:
    """Of every n-th document that has others on its concept: average precision of fifty, and whether the first is."""
    documents = [one.document for page in searcher.store.scan(searcher.stored_model) for one in page]
    of_concept: dict[str, dict[str, str]] = {}
    for document in documents:
        of_concept.setdefault(document.fields["concept"], {})[document.doc_id] = document.lang
    precisions, first = [], []
    for document in documents[::every]:
        same = of_concept[document.fields["concept"]]
        relevant = {doc_id for doc_id, lang in same.items() if lang != document.lang}
        if not relevant:
            continue
        right = np.array([hit.doc_id in relevant for hit in searcher.similar(document.doc_id, k=_DEPTH)])
        precisions.append(float((right * right.cumsum() / np.arange(1, len(right) + 1)).sum() / len(relevant)))
        first.append(bool(right[0]))
    return precisions, first


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collection", help="A calibrated collection whose documents have the field concept.")
    parser.add_argument("--home", type=Path, required=True, help="Where it is indexed.")
    parser.add_argument("--every", type=int, default=1, help="Take every n-th document.")
    arguments = parser.parse_args()
    table = harness.Table(
        ["| documents are compared by | MAP of fifty | the first is on the same concept |", "|---|---:|---:|"]
    )
    with open_searcher(arguments.collection, arguments.home) as searcher:
        assert searcher.calibration is not None
        ways = {
            "cosines, as the encoder made them": replace(searcher, calibration=None, ranking=RankingOptions()),
            "without the languages' means": replace(searcher, calibration=replace(searcher.calibration, mates=False)),
            "**and with mates**": replace(searcher, calibration=replace(searcher.calibration, mates=True)),
        }
        for way, changed in ways.items():
            precisions, first = average_precision_and_first(changed, arguments.every)
            table.add(f"| {way} | {np.mean(precisions):.3f} | {np.mean(first):.1%} of {len(first)} |")
    command = harness.command(f"similar {arguments.collection} --home HOME", arguments, "every")
    harness.write(f"Documents like a document: {arguments.collection}", command, table)


if __name__ == "__main__":
    main()
