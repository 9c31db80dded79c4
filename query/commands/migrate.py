"""``dragoman migrate``: another encoder answers a collection's queries; ``rollback``: undo that, or a rebuild."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import click

from encoders.console import Alert, Console, Note, Part, values_of
from encoders.machine.placement import Device
from encoders.maps.space_maps import QueryEncoderSpec
from encoders.methods.method_registry import METHODS
from encoders.phrases import counted
from encoders.table_layout import Table
from indexer.collection import collection as collections
from indexer.collection import generations
from indexer.collection.collection import Collection
from indexer.collection.settings import Settings
from indexer.index_sources import collection_lock
from indexer.ledger.database import open_database
from query.calibration import calibration_table
from query.calibration.calibration import NONE
from query.calibration.lineage import leave_migration
from query.commands.options.common_options import (
    collection_option,
    common_options,
    common_options_and_broker,
    seed_option,
    stated_options,
)
from query.commands.options.encoder_options import device_option, encoder_option
from query.commands.options.help import Command
from query.commands.options.option_types import default_option
from query.commands.output.calibrations import taught_parts
from query.migration.document_reencoding import ReencodingReport, finish_migration, is_encoded_again, is_migrating
from query.migration.overlap import Comparison
from query.migration.paired_sample import FEWEST
from query.migration.query_migration import SAMPLE, MigrationReport, migrate
from query.migration.store_layout import move_vectors
from query.ranking.query_encoder import query_encoder_spec

_KEPT = 0.95
"""Least share of re-encoding's mean reciprocal rank that a map should keep."""


@click.command("migrate", cls=Command)
@collection_option("The collection.", from_environment=True, required=True)
@encoder_option("The new encoder; without it, an earlier version's index gets the present layout.")
@click.option("--method", type=click.Choice(METHODS), help="How it makes a document's vector.")
@default_option("--sample", click.IntRange(1), SAMPLE, "Documents to encode anew.")
@click.option("--dry-run", is_flag=True, help="Say what migrating is worth, and change nothing.")
@click.option("--anyway", is_flag=True, help="Migrate even where the sample advises to stay.")
@click.option("--re-encode", is_flag=True, help="Encode the documents again too; broken off, the same command goes on.")
@seed_option("Seed of the sample.")
@device_option
@common_options_and_broker("none: work in this process.")
def command(
    name: str,
    encoder: str | None,
    method: str | None,
    dry_run: bool,
    re_encode: bool,
    device: Device,
    settings: Settings,
    console: Console,
    **choices: Any,
) -> None:
    """Encode a collection's queries with another encoder, and map them into the space of the stored vectors.

    The new encoder encodes a sample of documents; a linear map is learnt from them, and the command prints how much of
    the ranking quality the map keeps. No document is changed. dragoman rollback -c NAME undoes the migration at any
    time. Documents indexed later are still encoded by the old encoder.

    With --re-encode every document also gets a vector of the new encoder. Meanwhile documents are found by their old
    vectors through the map. At the end the new encoder is the collection's encoder; dragoman rollback still undoes
    this. An attached index is not encoded again.

    Without --encoder the vectors of an Elasticsearch index that an earlier version made are copied into a new index,
    where each language has a field of its own; nothing is encoded.

    With --broker, workers (dragoman worker -c NAME, on any machine) encode the documents. The run goes on without this
    command: Ctrl-C only stops watching. When the workers are done, the same command completes the migration.
    """
    if encoder is None:
        if stated := stated_options(["method", "sample", "dry_run", "anyway", "re_encode"]):
            raise click.UsageError(f"name the new --encoder too, or leave {', '.join(stated)} out")
        moved = move_vectors(name, settings, console)
        done = f"{counted(moved, 'document')} of {name} moved; back again: dragoman rollback -c {name}"
        sentence = done if moved else f"{name} has the present layout already"
        console.show({"collection": name, "moved": moved}, sentence)
        return
    if re_encode and dry_run:
        raise click.UsageError("--dry-run changes nothing; leave --re-encode out")
    if re_encode and is_encoded_again(name, encoder, method, settings, console):
        sentence = f"every document of {name} is encoded by {encoder} already"
        console.show({"collection": name, "encoder": encoder}, sentence)
        return
    if not (re_encode and is_migrating(name, encoder, method, settings)):
        report = migrate(name, encoder, method, settings, dry_run=dry_run, device=device, console=console, **choices)
        _show_migration(report, name, console, dry_run=dry_run)
        re_encode = re_encode and report.calibration is not None
    if re_encode:
        show_reencoding(finish_migration(name, settings, device=device, console=console), name, console)


@click.command("rollback", cls=Command)
@collection_option("The collection.", required=True)
@common_options
def rollback(name: str, settings: Settings, console: Console) -> None:
    """Undo dragoman migrate, or else dragoman index --rebuild.

    Nothing is deleted. After a rebuild or a complete --re-encode is undone, the same command returns to it; documents
    indexed since are only there. After any other migration is undone, dragoman migrate migrates again.
    """
    with open_database(settings.database) as engine:
        if calibration_id := leave_migration(engine, name):
            collection = collections.require(engine, name)
            query_encoder = query_encoder_spec(calibration_table.load(engine, collection))
            parts = _rolled_back(collection, calibration_id, query_encoder)
            console.show({"collection": name, "calibration": calibration_id}, parts)
            return
        with collection_lock(name, engine):
            generation = generations.roll_back(engine, name, settings)
    console.show(
        {"collection": name, **asdict(generation)},
        f"{name} is searched as generation {generation.number} again: "
        f"{generation.encoder} by {generation.method} (model {generation.model})",
    )


def _rolled_back(collection: Collection, calibration_id: str, query_encoder: QueryEncoderSpec | None) -> Iterator[Part]:
    """How a collection is asked after a migration was undone, and what another rollback does."""
    name = collection.name
    if query_encoder:
        yield (
            f"{name} is asked by {query_encoder.encoder} by {query_encoder.method} again (calibration {calibration_id})"
        )
        yield Note(f"dragoman rollback once more leaves that migration too: dragoman rollback -c {name}")
        return
    plain = calibration_id == NONE
    ranking = "without a calibration" if plain else f"by calibration {calibration_id}"
    yield f"{name} is asked by its own encoder again, and ranked {ranking}"
    if collection.previous:
        yield Note("dragoman rollback once more returns to what it was before its rebuild")


def _show_migration(report: MigrationReport, name: str, console: Console, *, dry_run: bool) -> None:
    quality, calibration = report.quality, report.calibration
    values = {
        "collection": name,
        "migrated": bool(calibration),
        "calibration": calibration.id if calibration else None,
        "encoder": report.query_encoder,
        "documents": report.documents,
        "way": report.recipe,
        **asdict(quality),
        "kept": quality.kept,
        "overlap": report.comparison.overlap,
        "overlap_queries": report.comparison.queries,
        "logged": report.comparison.logged,
        "taught": report.taught,
    }
    console.show(values, _migration_parts(report, name, dry_run=dry_run))


def _migration_parts(report: MigrationReport, name: str, *, dry_run: bool) -> Iterator[Part]:
    quality, calibration = report.quality, report.calibration
    yield Table(
        ["queries", "~documents", ">MRR"],
        [
            ["old encoder", "old vectors, as it is", f"{quality.old:.3f}"],
            ["new encoder", "new vectors, all encoded again", f"{quality.new:.3f}"],
            ["new encoder", "old vectors, through the map", f"{quality.mapped:.3f}"],
        ],
        f"{counted(quality.queries, 'pseudo-query', 'pseudo-queries')} of held-out documents, answered by their own "
        "document",
    )
    yield Note(
        f"the map, learnt from {counted(sum(report.documents.values()), 'document')}, keeps {quality.kept:.0%} of what "
        "encoding everything again would give"
    )
    yield from taught_parts(report.taught, "the documents that the map was learnt from")
    if quality.queries < FEWEST:
        asked = counted(quality.queries, "query", "queries")
        yield Alert(f"the advice is that of {asked}; more documents, or a larger --sample, say more")
    verb = "are" if calibration else "would be"
    yield Note(f"of the first ten hits of {_overlap_text(report.comparison)} {verb} the same as before")
    if calibration:
        if not quality.pays:
            yield Alert("the sample says that staying with the old encoder is better: dragoman rollback")
        elif quality.kept < _KEPT:
            yield Alert(f"the map keeps less than {_KEPT:.0%}; a larger --sample, or encoding again, finds more")
        yield (
            f"{name} is asked by {report.query_encoder.encoder} from now on (calibration {calibration.id}); "
            f"back again: dragoman rollback -c {name}"
        )
    elif dry_run:
        yield f"{name} stays as it is: this was a dry run; {'migrating' if quality.pays else 'staying'} is better"
    else:
        yield f"{name} stays as it is: the map would find less than the old encoder does; --anyway migrates"


def show_reencoding(report: ReencodingReport, name: str, console: Console) -> None:
    """Show how many documents were encoded again, and that the collection is the new encoder's."""
    run, encoder = report.run, report.encoder.encoder
    values = {
        "collection": name,
        "encoder": report.encoder,
        **values_of(run, "encoded", "unchanged", "seconds"),
        "refused": [finding.doc_id for finding in run.refused],
        **asdict(report.comparison),
    }
    filled = counted(run.encoded + run.unchanged, "document has a vector", "documents have a vector")
    refused = Alert(
        f"{encoder} knows nothing of {counted(len(run.refused), 'document')}; see what is not found any more: "
        f"dragoman status -c {name}"
    )
    console.show(
        values,
        [
            Note(f"{filled} of {encoder}"),
            Note(f"of the first ten hits of {_overlap_text(report.comparison)} are those of the old encoder"),
            *([refused] if run.refused else []),
            f"{name} is a collection of {encoder} by {report.encoder.method} from now on; "
            f"back again: dragoman rollback -c {name}",
        ],
    )


def _overlap_text(comparison: Comparison) -> str:
    nouns = ("query of the log", "queries of the log") if comparison.logged else ("pseudo-query", "pseudo-queries")
    return f"{counted(comparison.queries, *nouns)} {comparison.overlap:.0%}"
