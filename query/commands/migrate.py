"""``dragoman migrate``: let another encoder answer a collection's queries, without encoding its documents again."""

from __future__ import annotations

from dataclasses import asdict

import click

from encoders.console import Console
from encoders.methods.registry import METHODS
from encoders.session import Device
from encoders.wording import counted
from indexer.collection.settings import Settings
from query.commands.options import collection_option, common_options, device_option, encoder_option, seed_option
from query.migration.candidate_maps import FEWEST
from query.migration.finish import ReencodingReport, finish_migration, is_migrating
from query.migration.migrate import KEPT, SAMPLE, MigrationReport, migrate


@click.command("migrate")
@collection_option("The collection.")
@encoder_option("The new encoder.", required=True)
@click.option("--method", type=click.Choice(METHODS), help="How it makes a document's vector.")
@click.option("--sample", type=click.IntRange(1), default=SAMPLE, show_default=True, help="Documents to encode anew.")
@click.option("--dry-run", is_flag=True, help="Say what migrating is worth, and change nothing.")
@click.option("--anyway", is_flag=True, help="Migrate even where the sample advises to stay.")
@click.option("--re-encode", is_flag=True, help="Encode the documents again too; broken off, the same command goes on.")
@seed_option("Of the sample.")
@device_option
@common_options
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
    """Encode queries by another encoder from now on, and map them into the space of the vectors that are stored.

    A sample of documents is encoded by it, a linear map is learnt from that, and what it keeps is said; no document is
    touched. dragoman rollback -c NAME goes back at any moment. Documents that come later are encoded as before.

    With --re-encode every document gets a vector of the new encoder beside the old one: a random sample of up to 2,000
    first, then those that logged searches showed most, then the rest. Meanwhile all are found, by the new vector or by
    the old one through the map. At the end the collection is the new encoder's; dragoman rollback still goes back. An
    attached index is not encoded again.

    With --broker workers (dragoman worker -c NAME, on any machine) encode all but the sample. They go on without this
    command: Ctrl-C then only ends looking on, and the same command makes the change when they are done.
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
        _show_migration(report, name, console, dry_run=dry_run)
        re_encode = re_encode and report.calibration is not None
    if re_encode:
        _show_reencoding(finish_migration(name, settings, device=device, console=console), name, console)


def _show_reencoding(report: ReencodingReport, name: str, console: Console) -> None:
    values = asdict(report)
    console.emit({"collection": name, **values, "refused": [note["doc_id"] for note in values["refused"]]})
    console.say(f"{counted(report.encoded, 'document')} encoded again, {report.unchanged:,} had their vector before")
    console.say(
        f"of the first ten hits of {_queries_counted(report)} {report.overlap:.0%} are those of the old encoder"
    )
    if report.refused:
        console.warn(
            f"{report.encoder.encoder} knows nothing of {counted(len(report.refused), 'document')}; see what is not "
            f"found any more: dragoman status -c {name}"
        )
    console.result(
        f"{name} is a collection of {report.encoder.encoder} by {report.encoder.method} from now on; "
        f"back again: dragoman rollback -c {name}"
    )


def _queries_counted(report: ReencodingReport | MigrationReport) -> str:
    if report.logged:
        return counted(report.queries, "query of the log", "queries of the log")
    return counted(report.queries, "pseudo-query", "pseudo-queries")


_EXPECTED_ANSWERS = {"concepts": "a document of their concept in another language", "titles": "their own document"}


def _show_migration(report: MigrationReport, name: str, console: Console, *, dry_run: bool) -> None:
    quality, calibration = report.worth, report.calibration
    console.emit(
        {
            "collection": name,
            "migrated": bool(calibration),
            "calibration": calibration.id if calibration else None,
            "encoder": asdict(report.asker),
            "documents": dict(report.documents),
            "way": asdict(report.way),
            "mates": asdict(report.mates),
            **asdict(quality),
            "kept": quality.kept,
            "overlap": report.overlap,
            "overlap_queries": report.queries,
            "logged": report.logged,
        }
    )
    console.table(
        ["queries", "documents", ">MRR"],
        [
            ["old encoder", "old vectors, as it is", f"{quality.old:.3f}"],
            ["new encoder", "new vectors, all encoded again", f"{quality.new:.3f}"],
            ["new encoder", "old vectors, through the map", f"{quality.mapped:.3f}"],
        ],
        title=f"{counted(quality.queries, 'pseudo-query', 'pseudo-queries')} of held-out documents, answered by "
        + _EXPECTED_ANSWERS[quality.kind],
    )
    console.say(
        f"the map, learnt of {counted(sum(report.documents.values()), 'document')}, finds {report.mates.rate:.1%} of "
        f"held-out documents' new vectors, and keeps {quality.kept:.0%} of what encoding everything again would give"
    )
    if quality.queries < FEWEST:
        console.warn(
            f"the advice is that of {counted(quality.queries, 'query', 'queries')}; a larger --sample says more"
        )
    verb = "are" if calibration else "would be"
    console.say(f"of the first ten hits of {_queries_counted(report)} {report.overlap:.0%} {verb} the same as before")
    if calibration:
        if not quality.pays:
            console.warn("the sample says that staying with the old encoder is better: dragoman rollback")
        elif quality.kept < KEPT:
            console.warn(f"the map keeps less than {KEPT:.0%}; a larger --sample, or encoding again, finds more")
        console.result(
            f"{name} is asked by {report.asker.encoder} from now on (calibration {calibration.id}); "
            f"back again: dragoman rollback -c {name}"
        )
    elif dry_run:
        console.result(
            f"{name} stays as it is: this was a dry run; {'migrating' if quality.pays else 'staying'} is better"
        )
    else:
        console.result(f"{name} stays as it is: the map would find less than the old encoder does; --anyway migrates")
