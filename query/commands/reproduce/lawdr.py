"""``dragoman reproduce lawdr``: tables of document alignment and of the language probe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from encoders.console import Console
from encoders.devices import Device
from encoders.document import EncoderSpec
from onnx_export.models import open_named
from query.alignment.gold import stated_pairs
from query.commands.help import Command
from query.commands.options import PATH, default_encoder_option, device_option, method_option, output_options
from query.commands.output.paper_table import PaperTable
from query.reproduce.lawdr import PAPER, PAPER_PROBE, VARIANTS, Probe, Recalls, alignment_tables
from query.reproduce.lawdr_data import lett_files


@click.command("lawdr", cls=Command)
@click.option("--wmt16", "lett", type=PATH, metavar="DIR", help="Folder of DOMAIN.lett.gz files.")
@click.option("--pairs", type=PATH, metavar="FILE", help="True pairs of WMT16: URL in English, tab, in French.")
@click.option("--wmt19", "commentary", type=PATH, metavar="DIR", help="Unpacked documents.tgz, or the .tsv.gz files.")
@click.option(
    "--rank", type=click.IntRange(0), default=0, show_default=True, help="Rank of the language subspace; 0: the mean."
)
@default_encoder_option()
@method_option
@device_option
@output_options
def command(
    lett: Path | None,
    pairs: Path | None,
    commentary: Path | None,
    rank: int,
    encoder: str,
    method: str | None,
    device: Device,
    console: Console,
) -> None:
    """Document alignment on WMT16 and on the news commentary of WMT19, and the language probe.

    --wmt16 takes the folder of the task's websites, --wmt19 the unpacked documents of news commentary v14: a folder a
    language, in it a file a document, of the same name in every language; or the .tsv.gz files of pairs of languages.
    """
    if not (lett or commentary):
        raise click.UsageError("name the data: --wmt16 DIR --pairs FILE, --wmt19 DIR, or both")
    if bool(lett) != bool(pairs):
        raise click.UsageError("--wmt16 and --pairs belong together; give both")
    gold = stated_pairs(pairs) if pairs else set()
    files = lett_files(lett) if lett else []
    loaded = open_named(encoder, method, console, device=device)
    recalls, probed = alignment_tables(files, gold, commentary, rank, loaded, console)
    _show_tables(recalls, probed, f"{loaded.spec.name} by {loaded.spec.method}", console)
    console.emit(_as_json(recalls, probed, loaded.spec))


def _show_tables(recalls: Sequence[Recalls], probed: Probe, encoder: str, console: Console) -> None:
    for task in recalls:
        unit = "pairs of languages" if task.task == "WMT19" else "true pairs"
        title = f"{task.task}, recall in %, {task.pairs:,} {unit}"
        table = PaperTable(title, [""], ["paper: XLM, weighted"], [encoder])
        for variant in VARIANTS:
            name = f"{'debiased' if variant.debiased else 'biased'}, {'margin' if variant.margin else 'cosine'}"
            table.add([name], [PAPER[task.task][variant]], [task.recall[variant]])
        table.show(console)
    title = f"Telling {len(probed.languages)} languages apart, accuracy in % of a linear SVM"
    table = PaperTable(title, [""], ["paper: XLM, rank 32"], [f"{encoder}, rank {probed.rank}"])
    labels = ("vectors", "their language component", "what is left")
    for label, paper, ours in zip(labels, PAPER_PROBE, probed.accuracies, strict=True):
        table.add([label], [paper], [ours])
    table.show(console)
    if probed.choice.rank is None:
        console.say(f"no rank tried came below {probed.choice.bar:.0%}")


def _as_json(recalls: Sequence[Recalls], probed: Probe, encoder: EncoderSpec) -> dict[str, Any]:
    return {
        "encoder": encoder.name,
        "method": encoder.method,
        "recall": [
            {
                "task": task.task,
                "pairs": task.pairs,
                "variants": [
                    {**asdict(variant), "paper": PAPER[task.task][variant], "ours": round(task.recall[variant], 3)}
                    for variant in VARIANTS
                ],
            }
            for task in recalls
        ],
        "probe": {
            "languages": list(probed.languages),
            "rank": probed.choice.rank,
            "bar": round(probed.choice.bar, 6),
            "by_rank": {str(rank): round(value, 6) for rank, value in probed.choice.accuracies.items()},
            "accuracies": [round(value, 3) for value in probed.accuracies],
        },
    }
