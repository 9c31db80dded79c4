"""Migrations to another encoder for a person, and as JSON."""

from __future__ import annotations

from dataclasses import asdict

from encoders.console import Console, values_of
from encoders.wording import counted
from query.commands.output.calibrations import show_taught
from query.migration.document_reencoding import ReencodingReport
from query.migration.overlap import Comparison
from query.migration.paired_sample import FEWEST
from query.migration.query_migration import MigrationReport

_KEPT = 0.95
"""Least share of re-encoding's mean reciprocal rank that a map should keep."""


def show_migration(report: MigrationReport, name: str, console: Console, *, dry_run: bool) -> None:
    """Show what a migration is worth, and whether the collection is migrated."""
    quality, calibration = report.quality, report.calibration
    console.emit(
        {
            "collection": name,
            "migrated": bool(calibration),
            "calibration": calibration.id if calibration else None,
            "encoder": asdict(report.query_encoder),
            "documents": dict(report.documents),
            "way": asdict(report.recipe),
            **asdict(quality),
            "kept": quality.kept,
            "overlap": report.comparison.overlap,
            "overlap_queries": report.comparison.queries,
            "logged": report.comparison.logged,
            "taught": dict(report.taught),
        }
    )
    console.table(
        ["queries", "~documents", ">MRR"],
        [
            ["old encoder", "old vectors, as it is", f"{quality.old:.3f}"],
            ["new encoder", "new vectors, all encoded again", f"{quality.new:.3f}"],
            ["new encoder", "old vectors, through the map", f"{quality.mapped:.3f}"],
        ],
        title=f"{counted(quality.queries, 'pseudo-query', 'pseudo-queries')} of held-out documents, answered by "
        "their own document",
    )
    console.say(
        f"the map, learnt from {counted(sum(report.documents.values()), 'document')}, keeps {quality.kept:.0%} of what "
        "encoding everything again would give"
    )
    show_taught(report.taught, "the documents that the map was learnt from", console)
    if quality.queries < FEWEST:
        console.warn(
            f"the advice is that of {counted(quality.queries, 'query', 'queries')}; a larger --sample says more"
        )
    verb = "are" if calibration else "would be"
    console.say(f"of the first ten hits of {_overlap_text(report.comparison)} {verb} the same as before")
    _show_outcome(report, name, console, dry_run=dry_run)


def _show_outcome(report: MigrationReport, name: str, console: Console, *, dry_run: bool) -> None:
    quality, calibration = report.quality, report.calibration
    if calibration:
        if not quality.pays:
            console.warn("the sample says that staying with the old encoder is better: dragoman rollback")
        elif quality.kept < _KEPT:
            console.warn(f"the map keeps less than {_KEPT:.0%}; a larger --sample, or encoding again, finds more")
        console.result(
            f"{name} is asked by {report.query_encoder.encoder} from now on (calibration {calibration.id}); "
            f"back again: dragoman rollback -c {name}"
        )
    elif dry_run:
        console.result(
            f"{name} stays as it is: this was a dry run; {'migrating' if quality.pays else 'staying'} is better"
        )
    else:
        console.result(f"{name} stays as it is: the map would find less than the old encoder does; --anyway migrates")


def show_reencoding(report: ReencodingReport, name: str, console: Console) -> None:
    """Show how many documents were encoded again, and that the collection is the new encoder's."""
    run = report.run
    console.emit(
        {
            "collection": name,
            "encoder": asdict(report.encoder),
            **values_of(run, "encoded", "unchanged", "seconds"),
            "refused": [finding.doc_id for finding in run.refused],
            **asdict(report.comparison),
        }
    )
    filled = counted(run.encoded + run.unchanged, "document has a vector", "documents have a vector")
    console.say(f"{filled} of {report.encoder.encoder}")
    console.say(f"of the first ten hits of {_overlap_text(report.comparison)} are those of the old encoder")
    if run.refused:
        console.warn(
            f"{report.encoder.encoder} knows nothing of {counted(len(run.refused), 'document')}; see what is not "
            f"found any more: dragoman status -c {name}"
        )
    console.result(
        f"{name} is a collection of {report.encoder.encoder} by {report.encoder.method} from now on; "
        f"back again: dragoman rollback -c {name}"
    )


def _overlap_text(comparison: Comparison) -> str:
    nouns = ("query of the log", "queries of the log") if comparison.logged else ("pseudo-query", "pseudo-queries")
    return f"{counted(comparison.queries, *nouns)} {comparison.overlap:.0%}"
