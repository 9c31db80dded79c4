"""``dragoman calibrate``: make languages comparable; list calibrations, choose one."""

from pathlib import Path

import click

from encoders.console import Console
from encoders.machine.placement import Device
from encoders.maps.space_maps import SpaceMaps
from encoders.methods.vector_parts import parsed_weights
from indexer.collection import collection as collections
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database
from query.calibration import calibration_table
from query.calibration.calibration import NONE
from query.calibration.lineage import cancel_abandoned_migration
from query.calibration_fitting.calibration_fit import calibrate
from query.calibration_fitting.calibration_request import CalibrationRequest, JudgedTopics
from query.commands.options.common_options import (
    common_options,
    searched_collection_option,
    seed_option,
    stated_options,
)
from query.commands.options.encoder_options import device_option
from query.commands.options.help import Command
from query.commands.options.option_types import PATH, Number
from query.commands.options.search_options import files_option
from query.commands.output.calibrations import show_calibration
from query.query_log.judged_queries import logged_queries
from query.trec_files.topic_set import read_judged, read_queries


@click.command("calibrate", cls=Command)
@searched_collection_option("The collection to calibrate.")
@click.option(
    "--use", "wanted", default="", metavar="ID|none", help="Search with this calibration from now on; make none."
)
@files_option("--topics", "topic_files", "Topics to decide by, with --qrels.")
@files_option("--qrels", "qrel_files", "Their judgements, in TREC format.")
@files_option("--queries", "log_files", "Queries of real users, in a format of topics.")
@click.option("--from-log", is_flag=True, help="Use the queries that dragoman serve --log kept, too.")
@click.option(
    "--balance",
    type=Number(0, 1),
    metavar="0…1",
    help="0: nothing is balanced … 1: every language equal.  [default: 0.75, or what --topics decide]",
)
@click.option(
    "--weights",
    default="",
    metavar="W,W…",
    help="Weights of the encoders that the collection combines, in their order.  [default: equal]",
)
@click.option("--map", "mapping", type=PATH, metavar="FOLDER", help="Rank with maps of dragoman train mapping.")
@seed_option("Seed of the random samples.")
@device_option
@common_options
def command(
    name: str,
    wanted: str,
    topic_files: tuple[str, ...],
    qrel_files: tuple[str, ...],
    log_files: tuple[str, ...],
    from_log: bool,
    balance: float | None,
    weights: str,
    mapping: Path | None,
    seed: int,
    device: Device,
    settings: Settings,
    console: Console,
) -> None:
    """Take statistics of a sample of each language, and decide how to rank with them.

    Mates are documents about the same thing in several languages. They teach a common space: how queries of one
    language meet documents of another. It is kept if queries that taught nothing then find more. Mates also take part
    in each other's scores, if they are sure and such queries don't find less by that.

    With --topics and --qrels the topics decide both, and the balance. No document is encoded again, and the index is
    not touched.
    """
    if wanted:
        if stated := stated_options(_OF_A_NEW_CALIBRATION):
            raise click.UsageError(f"--use makes no calibration; leave {', '.join(stated)} out")
        with open_database(settings.database) as engine:
            calibration_id = calibration_table.use(engine, collections.require(engine, name), wanted)
            cancel_abandoned_migration(engine, name)
        ranking = "plain cosine" if calibration_id == NONE else f"calibration {calibration_id}"
        console.print(f"{name} is searched with {ranking} now")
        return
    if bool(topic_files) != bool(qrel_files):
        raise click.UsageError("--topics and --qrels belong together; give both")
    request = CalibrationRequest(
        balance,
        parsed_weights(weights) if weights else (),
        JudgedTopics(*read_judged(topic_files, qrel_files)) if topic_files else None,
        [*read_queries(log_files, "queries"), *(logged_queries(name, settings) if from_log else ())],
        SpaceMaps.read(mapping) if mapping else None,
        seed,
    )
    show_calibration(calibrate(name, settings, request, device=device, console=console), name, console)


_OF_A_NEW_CALIBRATION = (
    "topic_files", "qrel_files", "log_files", "from_log", "balance", "weights", "mapping", "seed", "device",
)  # fmt: skip
"""Parameters without a meaning for ``--use``."""
