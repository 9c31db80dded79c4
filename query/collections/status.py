"""What is known of a collection: languages, encoder, calibrations, index runs, what was refused."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from encoders.errors import DragomanError
from indexer.collection.collection import Collection
from indexer.ledger import ledger, tables
from indexer.settings import Settings
from query.calibration import table as calibration_table
from query.calibration.lineage import leads_to
from query.calibration.loading import second_field


def describe(engine: sa.Engine, collection: Collection, settings: Settings) -> dict[str, Any]:
    """What is known of a collection, as JSON carries it."""
    languages, trouble = _count(collection, settings)
    held, _ = _count(collection, settings, collection.model)
    runs = ledger.runs(engine, collection.name)
    notes = ledger.findings(engine, [run.id for run in runs])
    calibrations = calibration_table.every(engine, collection.name)
    return {
        "collection": collection.name,
        "store": collection.store or settings.home_store,
        "encoder": collection.encoder,
        "method": collection.method,
        "model": collection.model,
        "dim": collection.dim,
        "created": collection.created.isoformat(timespec="seconds"),
        "generation": collection.generation,
        "building": collection.building,
        "previous": collection.previous,
        "documents": sum(languages.values()),
        "trouble": trouble,
        "not_found": sum(languages.values()) - sum(held.values()),
        "encoding_again": _encoding_again(engine, collection, settings),
        "languages": languages,
        "calibrations": [
            {
                "calibration": one.id,
                "active": one.active and one.model == collection.model,
                "model": one.model,
                "created": one.created.isoformat(timespec="seconds"),
                "balance": one.summary.setting.balance,
                "margin": one.summary.setting.margin,
                "rank": one.summary.setting.rank,
                "decided_by": one.summary.decided_by,
                "weights": list(one.summary.setting.weights),
                "map": one.summary.maps.method if one.summary.maps else None,
                "without": sorted(languages.keys() - one.summary.languages.keys()),
            }
            for one in calibrations
        ],
        "runs": [
            {
                "run": run.id,
                "state": "interrupted" if run.state == tables.RUNNING and not run.spooled else run.state,
                "sources": run.sources,
                "started": run.started.isoformat(timespec="seconds"),
                "finished": run.finished.isoformat(timespec="seconds") if run.finished else None,
                "build": run.build,
                "builds": run.builds,
                "encoded": run.encoded,
                "unchanged": run.unchanged,
                "pruned": run.pruned,
            }
            for run in runs
        ],
        "refused": [asdict(note) for note in notes if note.kind == tables.REFUSED],
        "remarks": [asdict(note) for note in notes if note.kind == tables.REMARK],
    }


def _encoding_again(engine: sa.Engine, collection: Collection, settings: Settings) -> dict[str, Any] | None:
    """The second field of vectors, where there is one: whose, and of how many documents."""
    kept = second_field(engine, collection)
    if kept is None:
        return None
    active = calibration_table.active(engine, collection)
    documents, trouble = _count(collection, settings, kept.model)
    return {
        "model": kept.model,
        "documents": sum(documents.values()),
        "searched": not trouble and leads_to(active, kept.model),
    }


def _count(collection: Collection, settings: Settings, model: str = "") -> tuple[dict[str, int], str]:
    """Documents by language, or what keeps from counting them: one broken store must not hide the others."""
    try:
        store = collection.open_store(settings)
        try:
            return store.count(model), ""
        finally:
            store.close()
    except DragomanError as error:
        return {}, str(error)
