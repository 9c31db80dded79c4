"""``dragoman migrate``: let another encoder answer a collection's queries, without encoding its documents again."""

from __future__ import annotations

import click

from encoders.console import Console
from encoders.machine.placement import Device
from encoders.methods.method_registry import METHODS
from indexer.collection.settings import Settings
from query.commands.help import Command
from query.commands.options import (
    collection_option,
    common_options_and_broker,
    device_option,
    encoder_option,
    seed_option,
)
from query.commands.output.migrations import show_migration, show_reencoding
from query.migration.document_reencoding import finish_migration, is_migrating
from query.migration.query_migration import SAMPLE, migrate


@click.command("migrate", cls=Command)
@collection_option("The collection.")
@encoder_option("The new encoder.", required=True)
@click.option("--method", type=click.Choice(METHODS), help="How it makes a document's vector.")
@click.option("--sample", type=click.IntRange(1), default=SAMPLE, show_default=True, help="Documents to encode anew.")
@click.option("--dry-run", is_flag=True, help="Say what migrating is worth, and change nothing.")
@click.option("--anyway", is_flag=True, help="Migrate even where the sample advises to stay.")
@click.option("--re-encode", is_flag=True, help="Encode the documents again too; broken off, the same command goes on.")
@seed_option("Seed of the sample.")
@device_option
@common_options_and_broker
def command(
    name: str,
    encoder: str,
    method: str | None,
    sample: int,
    dry_run: bool,
    anyway: bool,
    re_encode: bool,
    seed: int,
    device: Device,
    settings: Settings,
    console: Console,
) -> None:
    """Encode a collection's queries with another encoder, and map them into the space of the stored vectors.

    The new encoder encodes a sample of documents; a linear map is learnt from them, and the command prints how much of
    the ranking quality the map keeps. No document is changed. dragoman rollback -c NAME undoes the migration at any
    time. Documents indexed later are still encoded by the old encoder.

    With --re-encode every document also gets a vector of the new encoder. Meanwhile documents are found by their old
    vectors through the map. At the end the new encoder is the collection's encoder; dragoman rollback still undoes
    this. An attached index is not encoded again.

    With --broker, workers (dragoman worker -c NAME, on any machine) encode the documents. The run goes on without this
    command: Ctrl-C only stops watching. When the workers are done, the same command completes the migration.
    """
    if re_encode and dry_run:
        raise click.UsageError("--dry-run changes nothing; leave --re-encode out")
    if not (re_encode and is_migrating(name, encoder, method, settings)):
        report = migrate(
            name,
            encoder,
            method,
            settings,
            sample=sample,
            anyway=anyway,
            dry_run=dry_run,
            seed=seed,
            device=device,
            console=console,
        )
        show_migration(report, name, console, dry_run=dry_run)
        re_encode = re_encode and report.calibration is not None
    if re_encode:
        show_reencoding(finish_migration(name, settings, device=device, console=console), name, console)
