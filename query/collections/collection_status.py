"""Status of a collection: languages, encoder, calibrations, index runs, refused documents."""

from contextlib import closing
from typing import Any

import sqlalchemy as sa

from encoders.console import values_of
from encoders.errors import DragomanError
from indexer.collection.collection import Collection
from indexer.collection.settings import Settings
from indexer.ledger import index_runs, tables
from indexer.ledger.findings import findings_of
from query.calibration import calibration_table
from query.calibration.calibration_summary import Summary


def describe(engine: sa.Engine, collection: Collection, settings: Settings) -> dict[str, Any]:
    """Status of a collection, as JSON carries it."""
    try:
        with closing(collection.open_store(settings)) as store:
            languages, searchable, trouble = store.count(), store.count(collection.model), ""
    except DragomanError as error:  # a broken store must not hide other collections
        languages, searchable, trouble = {}, {}, str(error)
    runs = index_runs.runs(engine, collection.name)
    findings = findings_of(engine, [run.id for run in runs])
    calibrations = calibration_table.all_calibrations(engine, collection.name)
    return {
        "collection": collection.name,
        "store": collection.place(settings),
        **values_of(collection, "encoder", "method", "model", "dim"),
        "created": collection.created.isoformat(timespec="seconds"),
        **values_of(collection, "generation", "building", "previous"),
        "documents": sum(languages.values()),
        "trouble": trouble,
        "not_found": sum(languages.values()) - sum(searchable.values()),
        "languages": languages,
        "calibrations": [
            {
                "calibration": calibration.id,
                "active": calibration.active and calibration.model == collection.model,
                "model": calibration.model,
                "created": calibration.created.isoformat(timespec="seconds"),
                **values_of(calibration.summary, "balance", "decided_by"),
                "weights": list(calibration.summary.weights),
                "mates": bool(calibration.summary.mates and calibration.summary.mates.count),
                "map": _map_of(calibration.summary),
                "without": sorted(languages.keys() - calibration.summary.languages.keys()),
            }
            for calibration in calibrations
        ],
        "runs": [
            {
                "run": run.id,
                "state": "interrupted" if run.state == tables.RUNNING and not run.spooled else run.state,
                "sources": run.sources,
                "started": run.started.isoformat(timespec="seconds"),
                "finished": run.finished.isoformat(timespec="seconds") if run.finished else None,
                **values_of(run, "build", "builds", "encoded", "unchanged", "pruned"),
            }
            for run in runs
        ],
        "refused": [finding.as_json() for finding in findings if finding.kind == tables.REFUSED],
        "remarks": [finding.as_json() for finding in findings if finding.kind == tables.REMARK],
    }


def _map_of(summary: Summary) -> str | None:
    """What queries are mapped by; none if they are not."""
    if summary.map:
        return str(summary.map.get("method", ""))
    return "a common space" if summary.common_space else None
