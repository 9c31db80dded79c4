"""``dragoman index``: read sources, encode and store documents, resume an interrupted run, and calibrate."""

from typing import Any

import click

from encoders.console import Console
from encoders.errors import BadInput
from encoders.machine.placement import Device
from encoders.methods.combined_encoder import SEPARATOR
from encoders.methods.method_registry import METHODS
from indexer.collection.settings import Settings
from indexer.index_sources import index, index_by_workers, switch_built
from indexer.indexing.duplicates import ON_DUPLICATE
from indexer.readers.records.source import ReadOptions
from indexer.workers.run_watch import watch_run
from onnx_export.models import DEFAULT
from query.calibration_fitting.recalibration import calibrating_before_switch, finish_indexing
from query.commands.options import completion
from query.commands.options.common_options import collection_option, common_options_and_broker
from query.commands.options.encoder_options import device_option
from query.commands.options.help import Command
from query.commands.options.option_types import choice_option
from query.commands.options.source_options import reading_options, sources_argument
from query.commands.output.calibrations import show_upkeep
from query.commands.output.reports import show_index_report

_HINT = "stored documents stay. Give the same command again to go on"


@click.command("index", cls=Command)
@sources_argument
@collection_option("Name of the collection to put them into.", from_environment=True, required=True)
@click.option(
    "--encoder",
    "encoders",
    multiple=True,
    metavar="NAME|FOLDER",
    help=f"Encoder of a new collection; twice: both as one, their vectors combined.  [default: {DEFAULT}]",
    shell_complete=completion.encoders,
)
@click.option(
    "--method",
    "methods",
    multiple=True,
    type=click.Choice(METHODS),
    help=f"How a document's vector is made.  [default: {METHODS[0]}; what the encoder was trained for]",
)
@device_option
@reading_options
@choice_option(
    "--on-duplicate",
    ON_DUPLICATE,
    "If several documents of the SOURCEs have one id: nothing is indexed; or of those with the highest revision "
    "the last or the first is.",
)
@click.option("--prune", is_flag=True, help="Remove documents that none of the SOURCEs has; name all of them.")
@click.option(
    "--rebuild",
    is_flag=True,
    help="Build the collection anew from the SOURCEs, with another --encoder or --method if you like, beside the one "
    "that is searched; it takes its place when it is complete. dragoman rollback returns.",
)
@click.option("--no-calibration", is_flag=True, help="Leave the collection's calibration as it is, or without one.")
@common_options_and_broker("none: work in this process.")
def command(
    sources: tuple[str, ...],
    name: str,
    encoders: tuple[str, ...],
    methods: tuple[str, ...],
    device: Device,
    no_calibration: bool,
    options: ReadOptions,
    settings: Settings,
    console: Console,
    **choices: Any,
) -> None:
    """Read documents from SOURCEs, encode what is new or changed, and store it in a collection.

    A SOURCE is a file (.jsonl, .json, .csv, .tsv, .html, .txt, .lett, TREC or CLEF SGML, a dump of Wikipedia; with .gz,
    .zst, .bz2 or .xz too), a folder of such files, - for standard input (JSON lines, or --format), ir-datasets:NAME, or
    elastic:INDEX on the server that DRAGOMAN_ELASTIC_URL names (elastic:https://HOST:9200/INDEX). An interrupted run
    goes on where it stopped when the same command is given again. At the end the collection is calibrated, unless its
    calibration still fits.

    The id of a whole file is its SOURCE's name and its path in it (notes/2024/may.txt). A CSV, TSV or JSON record
    without id, _id, docid, doc_id or docno gets one of its file and line, on standard input of a hash of all that is
    given and the line.

    With --broker the sources are read here, and workers (dragoman worker, on any machine) encode and store. Once the
    sources are read, the run goes on without this command: Ctrl-C only stops watching.
    """
    encoder, method = SEPARATOR.join(encoders) or None, SEPARATOR.join(methods) or None
    stated: dict[str, Any] = {"settings": settings, "options": options, "encoder": encoder, "method": method, **choices}
    before = None if no_calibration else calibrating_before_switch(device, console)
    if settings.broker:
        with console.if_interrupted(_HINT):
            ledger = index_by_workers(sources, name, console=console, **stated)
        again = "the same command calibrates and searches the rebuilt collection" if choices["rebuild"] else ""
        report = watch_run(ledger, settings, console, again)
        with console.if_interrupted(_HINT):
            switch_built(ledger.run, settings, before, device, console)
    else:
        with console.if_interrupted(_HINT):
            report = index(sources, name, device=device, before_switch=before, console=console, **stated)
    show_index_report(report, name, console)
    if not report.encoded and not report.unchanged:
        raise BadInput(f"nothing of the sources could be indexed; see why: dragoman status -c {name}")
    with console.if_interrupted(_HINT):
        upkeep = finish_indexing(name, settings, calibrate=not no_calibration, device=device, console=console)
        if upkeep:
            show_upkeep(upkeep, name, console)
