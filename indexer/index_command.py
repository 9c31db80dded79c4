"""``dragoman index``: read sources, encode, store; go on where it stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import cast

import click

from encoders.console import Console, output_options
from encoders.errors import BadInput
from encoders.methods import METHODS
from encoders.session import Device
from indexer.indexing import index
from indexer.pipeline import IndexReport
from indexer.readers import FORMATS, ReadOptions
from indexer.settings import Settings, place_options
from onnx_export.models import DEFAULT


@click.command("index", short_help="Read, encode and store documents; go on where it stopped.")
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE…")
@click.option("-c", "--collection", "name", required=True, help="Name of the collection to put them into.")
@click.option("--encoder", metavar="NAME|FOLDER", help=f"Encoder of a new collection.  [default: {DEFAULT}]")
@click.option("--method", type=click.Choice(METHODS), help=f"How a document's vector is made.  [default: {METHODS[0]}]")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), help="Format of the files.  [default: by name and first bytes]"
)
@click.option(
    "--field", "fields", multiple=True, metavar="OURS=THEIRS", help="Name of a field in the source: text=body."
)
@click.option("--lang", default="", help="Language of records that name none.  [default: detected]")
@click.option(
    "--encoding", default="", help="Character encoding of the files.  [default: UTF-8, then what they declare]"
)
@click.option("--prune", is_flag=True, help="Remove documents that none of the SOURCEs has; name all of them.")
@place_options
@output_options
def command(
    sources: tuple[str, ...],
    name: str,
    encoder: str | None,
    method: str | None,
    device: str,
    format_: str | None,
    fields: tuple[str, ...],
    lang: str,
    encoding: str,
    prune: bool,
    settings: Settings,
    console: Console,
) -> None:
    """Read documents from SOURCEs, encode what is new or changed, and store it in a collection.

    A SOURCE is a file (.jsonl, .csv, .tsv, .html, .txt, TREC or CLEF SGML; .gz and .zst too), a folder of such files,
    or ir-datasets:NAME. An interrupted run goes on where it stopped when the same command is given again.
    """
    options = ReadOptions(format=format_ or "", fields=_pairs(fields), lang=lang, encoding=encoding)
    if settings.broker:
        raise BadInput("this version indexes in its own process only; leave --broker and DRAGOMAN_BROKER out")
    try:
        report = index(
            sources,
            name,
            settings=settings,
            options=options,
            encoder=encoder,
            method=method,
            device=cast("Device", device),
            prune=prune,
            console=console,
        )
    except KeyboardInterrupt:
        console.warn("interrupted; what is stored stays. Give the same command again to go on")
        raise
    _tell(report, name, console)
    if not report.encoded and not report.unchanged:
        raise BadInput(f"nothing of the sources could be indexed; see why: dragoman status -c {name}")


def _pairs(fields: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for field in fields:
        ours, equals, theirs = field.partition("=")
        if not (ours and equals and theirs):
            raise click.UsageError(f"--field takes OURS=THEIRS, as in --field text=body, not {field!r}")
        pairs[ours] = theirs
    return pairs


def _tell(report: IndexReport, name: str, console: Console) -> None:
    console.emit(
        {
            "collection": name,
            "run": report.run,
            "resumed": report.resumed,
            "encoded": report.encoded,
            "unchanged": report.unchanged,
            "pruned": report.pruned,
            "seconds": round(report.seconds, 3),
            "refused": [asdict(note) for note in report.refused],
            "remarks": [asdict(note) for note in report.remarks],
        }
    )
    parts = [f"{report.encoded:,} encoded", f"{report.unchanged:,} unchanged"]
    parts += [f"{report.pruned:,} pruned"] if report.pruned else []
    parts += [f"{len(report.refused):,} refused"] if report.refused else []
    console.result(f"{name}: {', '.join(parts)} in {report.seconds:,.1f} s")
    for note in [*report.refused, *report.remarks][:_SHOWN]:
        console.say(f"  {note.place}: {note.text}")
    more = len(report.refused) + len(report.remarks) - _SHOWN
    if more > 0:
        console.say(f"  … and {more:,} more: dragoman status -c {name}")


_SHOWN = 10
