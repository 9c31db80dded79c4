"""Reports of index runs, and of looks at an attached index, for a person and as JSON."""

from __future__ import annotations

from dataclasses import asdict

from encoders.console import Console
from indexer.indexing.pipeline import RunReport
from query.commands.output.notes import show_notes


def show_index_report(report: RunReport, name: str, console: Console) -> None:
    """Print how many documents of a collection were encoded, unchanged, removed and refused, and why."""
    values = asdict(report)
    notes = {
        kind: [finding.as_json() for finding in getattr(report, kind)]
        for kind in ("refused", "remarks")
        if values.pop(kind, None) is not None
    }
    values = {kind: value for kind, value in values.items() if kind not in {"seconds", "languages"}}
    console.emit({"collection": name, **values, "seconds": round(report.seconds, 3), **notes})
    counts = [f"{values[kind]:,} {kind}" for kind in ("encoded", "unchanged")]
    counts += [f"{values[kind]:,} {kind}" for kind in ("pruned", "removed") if values.get(kind)]
    counts += [f"{len(report.refused):,} refused"] if report.refused else []
    console.result(f"{name}: {', '.join(counts)} in {report.seconds:,.1f} s")
    places = [(note["place"], note["text"]) for of_kind in notes.values() for note in of_kind]
    show_notes(places, console, f"dragoman status -c {name}")
