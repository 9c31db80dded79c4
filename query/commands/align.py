"""``dragoman align``: one-to-one pairs of documents of two languages, from collections or files."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from encoders.console import Console, Note, Part
from encoders.phrases import counted
from indexer.collection.settings import Settings
from onnx_export.models import DEFAULT
from query.alignment.gold import Gold, recall_of, shared_values, stated_pairs
from query.alignment.matching import MARGINS, Margin
from query.alignment.mining import AlignmentPlan, Mined, mine
from query.alignment.side import Side
from query.alignment.side_sources import Sides
from query.commands.options.common_options import common_options
from query.commands.options.encoder_options import device_option, encoder_option, method_option
from query.commands.options.help import Command
from query.commands.options.option_types import FILE, PATH, Number, choice_option, default_option
from query.trec_files.output_files import require_writable, write_lines


@click.command("align", cls=Command)
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("-o", "--output", type=FILE, help="Write the pairs here.")
@click.option("--format", "format_", type=click.Choice(["tsv", "jsonl"]), default="tsv", show_default=True)
@click.option(
    "--threshold", type=Number(-10, 10), help="Least score of a pair.  [default: as many pairs as there can be]"
)
@choice_option("--margin", MARGINS, "Form of the score.")
@default_option("--neighbours", click.IntRange(1, 1000), 4, "Neighbours of the margin.")
@default_option(
    "--debias",
    click.STRING,
    "mean",
    "Take each side's mean out of it, or its M strongest directions.",
    metavar="none|mean|M",
)
@click.option("--no-passages", is_flag=True, help="Score by documents' vectors alone.")
@click.option("--no-maps", is_flag=True, help="Learn nothing from the clear pairs.")
@click.option("--gold", metavar="FIELD", default="", help="Score the pairs: true ones share this field's value.")
@click.option("--gold-file", type=PATH, help="Score the pairs: true ones, id_a TAB id_b a line.")
@encoder_option(f"Encoder of files.  [default: the collection's, or {DEFAULT}]")
@method_option
@device_option
@common_options
def command(
    a: str,
    b: str,
    output: Path | None,
    format_: str,
    threshold: float | None,
    margin: Margin,
    neighbours: int,
    debias: str,
    no_passages: bool,
    no_maps: bool,
    gold: str,
    gold_file: Path | None,
    settings: Settings,
    console: Console,
    **encoding: Any,
) -> None:
    """Find the documents of A and B that are translations of each other, each in one pair at most, best first.

    A and B are COLLECTION:LANG of indexed collections, or files and folders of documents, which are encoded on the way.
    """
    plan = AlignmentPlan(
        margin=margin,
        k=neighbours,
        threshold=-math.inf if threshold is None else threshold,
        debias=_debias_rank(debias),
        passages=not no_passages,
        rounds=0 if no_maps else 1,
    )
    if gold and gold_file:
        raise click.UsageError("--gold and --gold-file both say which pairs are true; give one of them")
    if output:
        require_writable(output)
    truth = stated_pairs(gold_file) if gold_file else None
    sides = Sides(settings, console, gold, **encoding).open(a, b)
    expected = truth or (shared_values(*sides, gold) if gold else None)
    with console.progress("aligning", None, "documents") as progress:
        mined = mine(*sides, plan)
        progress(sum(len(side.doc_ids) for side in sides))
    if mined.k < plan.k and plan.margin != "absolute":
        console.say(f"the margin is of {counted(mined.k, 'neighbour')} and not of {plan.k}: a side has few documents")
    _show(mined, sides, expected, output, format_, console)


def _show(
    mined: Mined, sides: tuple[Side, Side], expected: Gold | None, output: Path | None, format_: str, console: Console
) -> None:
    """Write the pairs to the file or stdout; their number and recall go to stderr if the pairs are on stdout."""
    recall = recall_of(mined.pairs, *sides, expected) if expected else None
    a, b = ({"name": side.name, "documents": len(side.doc_ids)} for side in sides)
    pairs: dict[str, Any] = {"file": output} if output else {"pairs": _records(mined, sides)}
    lines = _lines(mined, sides, format_)
    if output:
        write_lines(output, lines)
    summary = f"{counted(len(mined.pairs.rows), 'pair')} of {a['documents']:,} and {b['documents']:,} documents"
    summary += f", learnt from the {mined.learnt_from:,} clearest" if mined.learnt_from else ""
    parts: list[Part] = [Note(f"{summary}; written to {output}" if output else summary)]
    if recall:
        line = f"one-to-one recall: {recall.recall:.3f} ({recall.found:,} of {counted(recall.gold, 'true pair')})"
        parts.append(line if output else Note(line))
    console.show(
        {
            "a": a,
            "b": b,
            "learnt_from": mined.learnt_from,
            "found": len(mined.pairs.rows),
            "gold": recall and {"pairs": recall.gold, "found": recall.found, "recall": round(recall.recall, 6)},
            **pairs,
        },
        [*(line.removesuffix("\n") for line in lines if not output), *parts],
    )


def _records(mined: Mined, sides: tuple[Side, Side]) -> Iterator[dict[str, object]]:
    (a, b), pairs = sides, mined.pairs
    columns = (values.tolist() for values in (pairs.rows, pairs.cols, pairs.scores, pairs.cosines))
    for row, col, score, cosine in zip(*columns, strict=True):
        ids = {"id_a": a.doc_ids[row], "id_b": b.doc_ids[col]}
        yield {**ids, "score": round(score, 6), "cosine": round(cosine, 6)}


def _lines(mined: Mined, sides: tuple[Side, Side], format_: str) -> Iterator[str]:
    if format_ == "jsonl":
        yield from (json.dumps(record, ensure_ascii=False) + "\n" for record in _records(mined, sides))
        return
    yield "id_a\tid_b\tscore\tcosine\n"
    for record in _records(mined, sides):
        yield "{id_a}\t{id_b}\t{score:.6f}\t{cosine:.6f}\n".format_map(record)


def _debias_rank(text: str) -> int | None:
    if text in {"none", "mean"}:
        return 0 if text == "mean" else None
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= 1000):
        raise click.UsageError(f"--debias takes none, mean, or a rank such as 1, not {text!r}")
    return int(text)
