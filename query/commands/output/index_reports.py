"""Reports of index runs, and of looks at an attached index, for a person and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from encoders.console import Console
from encoders.wording import counted
from indexer.indexing.pipeline import IndexReport, RunReport
from indexer.ledger.findings import Finding
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
    counts += [counted(values["duplicates"], "duplicate id")] if values.get("duplicates") else []
    counts += [f"{len(report.refused):,} refused"] if report.refused else []
    console.result(f"{name}: {', '.join(counts)} in {report.seconds:,.1f} s")
    refusals = [(refusal.place, refusal.text) for refusal in report.refused]
    remarks = _by_text(report.remarks) if isinstance(report, IndexReport) else []
    show_notes([*refusals, *remarks], console, f"dragoman status -c {name}")


def _by_text(remarks: Sequence[Finding]) -> list[tuple[str, str]]:
    """Each sentence once, with the first of its places."""
    places: dict[str, list[str]] = {}
    for remark in remarks:
        places.setdefault(remark.text, []).append(remark.place)
    return [
        (first if not others else f"{first} and {counted(len(others), 'other')}", text)
        for text, (first, *others) in places.items()
    ]
