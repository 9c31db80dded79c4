"""Pairs of documents for a person, as a file, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from encoders.console import Console
from encoders.wording import counted
from query.alignment.gold import Gold, recall_of
from query.alignment.mining import Mined
from query.alignment.side import Side
from query.trec_files.output_files import write_lines


def show_pairs(
    mined: Mined, sides: tuple[Side, Side], expected: Gold | None, output: Path | None, format_: str, console: Console
) -> None:
    """Write the pairs to the file or stdout; their number and recall go to stderr if the pairs are on stdout.

    Args:
        mined: the pairs.
        sides: the documents that are paired.
        expected: the true pairs; None: recall is not measured.
        output: the file to write; None: stdout.
        format_: ``tsv`` or ``jsonl``.
        console: shows all this.
    """
    recall = recall_of(mined.pairs, *sides, expected) if expected else None
    summary: dict[str, Any] = {
        "a": {"name": sides[0].name, "documents": len(sides[0].doc_ids)},
        "b": {"name": sides[1].name, "documents": len(sides[1].doc_ids)},
        "learnt_from": mined.learnt_from,
        "found": len(mined.pairs.rows),
        "gold": recall and {"pairs": recall.gold, "found": recall.found, "recall": round(recall.recall, 6)},
    }
    if output:
        write_lines(output, _lines(mined, sides, format_))
        console.emit({**summary, "file": str(output)})
    elif console.json:
        console.emit({**summary, "pairs": list(_records(mined, sides))})
    else:
        for line in _lines(mined, sides, format_):
            console.result(line.removesuffix("\n"))
    summary_line = (
        f"{counted(len(mined.pairs.rows), 'pair')} of {len(sides[0].doc_ids):,} and {len(sides[1].doc_ids):,} documents"
    )
    summary_line += f", learnt from the {mined.learnt_from:,} clearest" if mined.learnt_from else ""
    console.say(f"{summary_line}; written to {output}" if output else summary_line)
    if recall:
        recall_line = (
            f"one-to-one recall: {recall.recall:.3f} ({recall.found:,} of {counted(recall.gold, 'true pair')})"
        )
        tell = console.result if output else console.say
        tell(recall_line)


def _records(mined: Mined, sides: tuple[Side, Side]) -> Iterator[dict[str, object]]:
    pairs = mined.pairs
    columns = (values.tolist() for values in (pairs.rows, pairs.cols, pairs.scores, pairs.cosines))
    for row, col, score, cosine in zip(*columns, strict=True):
        yield {
            "id_a": sides[0].doc_ids[row],
            "id_b": sides[1].doc_ids[col],
            "score": round(score, 6),
            "cosine": round(cosine, 6),
        }


def _lines(mined: Mined, sides: tuple[Side, Side], format_: str) -> Iterator[str]:
    if format_ == "jsonl":
        yield from (json.dumps(record, ensure_ascii=False) + "\n" for record in _records(mined, sides))
        return
    yield "id_a\tid_b\tscore\tcosine\n"
    for record in _records(mined, sides):
        yield "{id_a}\t{id_b}\t{score:.6f}\t{cosine:.6f}\n".format_map(record)
