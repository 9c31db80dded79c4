"""``dragoman reproduce lawdr``: tables of document alignment and of the language probe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from encoders.console import Console
from encoders.devices import Device
from encoders.document import EncoderSpec
from encoders.wording import counted
from indexer.collection.settings import Settings
from onnx_export.models import open_named
from query.alignment.gold import stated_pairs
from query.commands.help import Command
from query.commands.options import PATH, common_options, default_encoder_option, device_option, method_option
from query.commands.output.paper_table import PaperTable, data_json, documents_in_words
from query.reproduce.cached_encoder import CachedEncoder
from query.reproduce.lawdr import PAPER, PAPER_DATA, PAPER_PROBE, VARIANTS, Probe, Recalls, Variant, alignment_tables
from query.reproduce.lawdr_data import lett_files
from query.reproduce.systems import System, open_log, say_logged


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
@common_options
def command(
    lett: Path | None,
    pairs: Path | None,
    commentary: Path | None,
    rank: int,
    encoder: str,
    method: str | None,
    device: Device,
    settings: Settings,
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
    engine = click.get_current_context().with_resource(open_log(settings))
    loaded = CachedEncoder(open_named(encoder, method, console, device=device), settings.home, console)
    recalls, probed = alignment_tables(files, gold, commentary, rank, loaded, console)
    numbers: dict[tuple[str, Variant], int] = {}
    for task in recalls:
        source = commentary if task.task == "WMT19" else lett
        for variant in VARIANTS:
            system = System(
                f"lawdr, {task.task}",
                variant.name,
                loaded.spec,
                task.documents,
                task.runs(variant),
                source.name if source else "",
                settings={"rank": rank} if variant.debiased else {},
            )
            numbers[task.task, variant] = system.log(engine)
    our_data = {task.task: _our_data(task, len(files)) for task in recalls}
    our_data["probe"] = f"{probed.passages:,} passages in {', '.join(probed.languages)}"
    _show_tables(recalls, probed, f"{loaded.spec.name} by {loaded.spec.method}", our_data, console)
    console.emit(_as_json(recalls, probed, loaded.spec, our_data, numbers))
    say_logged(list(numbers.values()), console)
    loaded.say_cached()


def _our_data(task: Recalls, sites: int) -> str:
    """What the figures of a task are of."""
    source = f"{counted(task.pairs, 'pair')} of languages" if task.task == "WMT19" else counted(sites, "website")
    return f"{source}; documents: {documents_in_words(task.documents)}"


def _show_tables(
    recalls: Sequence[Recalls], probed: Probe, encoder: str, our_data: Mapping[str, str], console: Console
) -> None:
    for task in recalls:
        unit = "pairs of languages" if task.task == "WMT19" else "true pairs"
        title = f"{task.task}, recall in %, {task.pairs:,} {unit}"
        paper_data = PAPER_DATA[task.task]
        table = PaperTable(
            title,
            [""],
            ["paper: XLM, weighted"],
            [encoder],
            paper_data=paper_data,
            our_data=our_data[task.task],
        )
        for variant in VARIANTS:
            table.add([variant.name], [PAPER[task.task][variant]], [task.recall[variant]])
        table.show(console)
    table = PaperTable(
        f"Telling {len(probed.languages)} languages apart, accuracy in % of a linear SVM",
        [""],
        ["paper: XLM, rank 32"],
        [f"{encoder}, rank {probed.rank}"],
        paper_data=PAPER_DATA["probe"],
        our_data=our_data["probe"],
    )
    labels = ("vectors", "their language component", "what is left")
    for label, paper, ours in zip(labels, PAPER_PROBE, probed.accuracies, strict=True):
        table.add([label], [paper], [ours])
    table.show(console)
    if probed.choice.rank is None:
        console.say(f"no rank tried came below {probed.choice.bar:.0%}")


def _as_json(
    recalls: Sequence[Recalls],
    probed: Probe,
    encoder: EncoderSpec,
    our_data: Mapping[str, str],
    numbers: Mapping[tuple[str, Variant], int],
) -> dict[str, Any]:
    return {
        "encoder": encoder.name,
        "method": encoder.method,
        "recall": [
            {
                "task": task.task,
                "pairs": task.pairs,
                **data_json(PAPER_DATA[task.task], our_data[task.task]),
                "variants": [
                    {
                        **asdict(variant),
                        "evaluation": numbers[task.task, variant],
                        "paper": PAPER[task.task][variant],
                        "ours": round(task.recall[variant], 3),
                    }
                    for variant in VARIANTS
                ],
            }
            for task in recalls
        ],
        "probe": {
            "languages": list(probed.languages),
            **data_json(PAPER_DATA["probe"], our_data["probe"]),
            "paper": list(PAPER_PROBE),
            "rank": probed.choice.rank,
            "bar": round(probed.choice.bar, 6),
            "by_rank": {str(rank): round(value, 6) for rank, value in probed.choice.accuracies.items()},
            "accuracies": [round(value, 3) for value in probed.accuracies],
        },
    }
