"""``dragoman reproduce lawdr``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import click

from encoders.console import Console
from encoders.document import Document, Encoder
from encoders.methods.registry import METHODS
from encoders.session import Device
from onnx_export.models import DEFAULT, open_named
from query.alignment.gold import stated_pairs
from query.alignment.side import Side, encoded_side
from query.commands.options import device_option, output_options
from query.reproduce.lawdr import PAPER, PAPER_PROBE, VARIANTS, Probe, Recalls, probe, wmt16, wmt19
from query.reproduce.lawdr_data import lett_files, read_commentary, read_site

_FOLDER = click.Path(path_type=Path, exists=False)
_FIRST, _SECOND = "en", "fr"


@click.command("lawdr")
@click.option("--wmt16", "lett", type=_FOLDER, metavar="DIR", help="Folder of DOMAIN.lett.gz files.")
@click.option("--pairs", type=_FOLDER, metavar="FILE", help="True pairs of WMT16: URL in English, tab, in French.")
@click.option(
    "--wmt19", "commentary", type=_FOLDER, metavar="DIR", help="Unpacked documents.tgz, or the .tsv.gz files."
)
@click.option("--rank", type=click.IntRange(0), default=0, show_default=True, help="Of the subspace; 0: the mean.")
@click.option("--encoder", metavar="NAME|FOLDER", default=DEFAULT, show_default=True)
@click.option("--method", type=click.Choice(METHODS), help="How a document's vector is made.")
@device_option
@output_options
def command(
    lett: Path | None,
    pairs: Path | None,
    commentary: Path | None,
    rank: int,
    encoder: str,
    method: str | None,
    device: str,
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
    loaded = open_named(encoder, method, console, device=cast("Device", device))
    tables: list[Recalls] = []
    probed_sides: list[tuple[str, Side]] = []
    if files:
        sites = _sites(files, loaded, console)
        tables += wmt16(sites, gold, (_FIRST, _SECOND), rank)
        probed_sides += [(lang, side) for pair in sites for lang, side in zip((_FIRST, _SECOND), pair, strict=True)]
    if commentary:
        corpora = [
            {lang: _encoded(f"{lang} of WMT19", documents, loaded, console) for lang, documents in corpus.items()}
            for corpus in read_commentary(commentary)
        ]
        tables.append(wmt19(corpora, rank))
        probed_sides += [(lang, side) for corpus in corpora for lang, side in corpus.items()]
    _show_tables(tables, probe(probed_sides), loaded, console)


def _sites(files: Sequence[Path], encoder: Encoder, console: Console) -> list[tuple[Side, Side]]:
    sites = []
    for file in files:
        site = read_site(file, _FIRST, _SECOND)
        sites.append(
            (
                _encoded(f"{site.name}, {_FIRST}", site.first, encoder, console),
                _encoded(f"{site.name}, {_SECOND}", site.second, encoder, console),
            )
        )
    return sites


def _encoded(name: str, documents: Sequence[Document], encoder: Encoder, console: Console) -> Side:
    with console.progress(f"encoding {name}", len(documents), "documents") as progress:
        return encoded_side(name, documents, encoder, "concept", progress)


def _show_tables(tables: Sequence[Recalls], probed: Probe, encoder: Encoder, console: Console) -> None:
    encoder_name = f"{encoder.spec.name} by {encoder.spec.method}"
    for table in tables:
        rows = []
        for variant in VARIANTS:
            name = f"{'debiased' if variant.debiased else 'biased'}, {'margin' if variant.margin else 'cosine'}"
            rows.append([name, f"{PAPER[table.task][variant]:.1f}", f"{table.recall[variant]:.1f}"])
        unit = "pairs of languages" if table.task == "WMT19" else "true pairs"
        title = f"{table.task}, recall in %, {table.pairs:,} {unit}"
        console.table(["", ">paper: XLM, weighted", f">{encoder_name}"], rows, title=title)
    labels = ("vectors", "their language component", "what is left")
    console.table(
        ["", ">paper: XLM, rank 32", f">{encoder_name}, rank {probed.rank}"],
        [
            [label, f"{paper:.1f}", f"{ours:.1f}"]
            for label, paper, ours in zip(labels, PAPER_PROBE, probed.accuracies, strict=True)
        ],
        title=f"Telling {len(probed.languages)} languages apart, accuracy in % of a linear SVM",
    )
    if probed.choice.rank is None:
        console.say(f"no rank tried came below {probed.choice.bar:.0%}")
    console.emit(_as_json(tables, probed, encoder))


def _as_json(tables: Sequence[Recalls], probed: Probe, encoder: Encoder) -> dict[str, Any]:
    return {
        "encoder": encoder.spec.name,
        "method": encoder.spec.method,
        "recall": [
            {
                "task": table.task,
                "pairs": table.pairs,
                "variants": [
                    {
                        "debiased": variant.debiased,
                        "margin": variant.margin,
                        "paper": PAPER[table.task][variant],
                        "ours": round(table.recall[variant], 3),
                    }
                    for variant in VARIANTS
                ],
            }
            for table in tables
        ],
        "probe": {
            "languages": list(probed.languages),
            "rank": probed.choice.rank,
            "bar": round(probed.choice.bar, 6),
            "by_rank": {str(rank): round(value, 6) for rank, value in probed.choice.accuracies.items()},
            "accuracies": [round(value, 3) for value in probed.accuracies],
        },
    }
