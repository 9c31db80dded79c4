"""``dragoman worker``: encode and store chunks of index runs, here and on other machines."""

import sys
from typing import Any

import click

from encoders.console import Console
from encoders.machine.placement import Device
from indexer.collection.collection import encoder_of_work
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database
from indexer.workers.celery_worker import WorkerPlan, serve
from onnx_export.models import DEFAULT
from query.commands.options.common_options import collection_option, common_options_and_broker
from query.commands.options.encoder_options import device_option, encoder_option, method_option
from query.commands.options.help import Command
from query.commands.options.option_types import Address, default_option, seconds


@click.command("worker", cls=Command)
@collection_option("Collection whose encoder to load; other collections of this encoder are served too.")
@encoder_option(f"Encoder to load.  [default: {DEFAULT}, or the collection's]")
@method_option
@device_option
@click.option(
    "--concurrency",
    type=click.IntRange(1),
    help="Processes, which share the cores; on GPUs of each.  [default: 1, on GPUs 1 for each two cores]",
)
@default_option(
    "--lease",
    seconds(1),
    60.0,
    "A worker without a heartbeat for so long loses its chunk to others.",
    "lease_seconds",
    metavar="SECONDS",
)
@default_option(
    "--grace",
    seconds(0),
    30.0,
    "Time to finish the chunk after SIGTERM or Ctrl-C; then it is returned. It may end 10 s later.",
    metavar="SECONDS",
)
@click.option(
    "--metrics-port",
    "metrics_address",
    type=Address(),
    metavar="[ADDRESS:]PORT",
    help="Answer Prometheus at this port, on this machine alone unless an ADDRESS is given (0.0.0.0: all).",
)
@common_options_and_broker("needed, here or in the variable.")
def command(
    name: str | None,
    encoder: str | None,
    method: str | None,
    device: Device,
    settings: Settings,
    console: Console,
    **limits: Any,
) -> None:
    """Work on index runs that were begun with --broker: take a chunk, encode it, store it, until SIGTERM or Ctrl-C.

    Broker, database and store must be reached from here: --broker and --database as given to dragoman index; a store's
    credentials in DRAGOMAN_ELASTIC_USER and _PASSWORD, or _API_KEY. A worker serves every collection of its encoder.
    For a collection that dragoman migrate --re-encode has handed out, the worker loads the new encoder. If the encoder
    is a folder with another path on this machine, give --encoder as well as -c.
    Logs go to stderr, with --json as JSON lines.

    With --device cuda each NVIDIA GPU of a machine gets processes, which are started again if they fail; they answer
    Prometheus at --metrics-port and the ports after it. With --device cuda:1 one GPU works. A slice of a GPU needs a
    worker of its own: CUDA_VISIBLE_DEVICES=MIG-UUID.
    """
    if name:
        with open_database(settings.database) as engine:
            own_encoder, own_method = encoder_of_work(engine, name)
        encoder, method = encoder or own_encoder, method or own_method
    sys.exit(serve(WorkerPlan(encoder or DEFAULT, method, device, **limits), settings, console))
