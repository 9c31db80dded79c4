"""Status of a collection: languages, encoder, calibrations, index runs, refused documents."""

from contextlib import closing
from types import SimpleNamespace
from typing import Any

from encoders.console import values_of
from encoders.errors import DragomanError
from indexer.collection.collection_record import PlainCollection, read_collections
from indexer.collection.settings import Settings
from indexer.ledger.plain_rows import Rows, read_rows
from query.calibration.calibration_summary import Summary

CALIBRATIONS = (
    "SELECT id, model, created, active, summary FROM calibrations WHERE collection = :name ORDER BY created, id"
)
_RUNS = "SELECT * FROM index_runs WHERE collection = :name ORDER BY id"
_FINDINGS = """SELECT kind, place, doc_id AS id, text FROM findings
WHERE run_id IN (SELECT id FROM index_runs WHERE collection = :name)
GROUP BY kind, place, doc_id, text ORDER BY min(findings.id)"""


def statuses(settings: Settings, name: str | None = None) -> list[dict[str, Any]]:
    """Status of the collection of a name, or of each collection, as JSON carries it.

    Raises NoCollection: there is none of this name; BadInput: none can have it; StoreError: the database fails.
    """

    def read(rows: Rows) -> list[list[Any]]:
        queries = _RUNS, _FINDINGS, CALIBRATIONS
        return [[row, *(rows(query, name=row.name) for query in queries)] for row in read_collections(rows, name)]

    return [_status(settings, *rows) for rows in read_rows(settings.database, read)]


def _status(
    settings: Settings,
    collection: PlainCollection,
    runs: list[SimpleNamespace],
    findings: list[SimpleNamespace],
    calibrations: list[SimpleNamespace],
) -> dict[str, Any]:
    trouble = ""
    try:
        with closing(collection.open_store(settings)) as store:
            languages, searchable = store.count(), store.count(collection.model)
    except DragomanError as error:  # a broken store must not hide other collections
        languages, searchable, trouble = {}, {}, str(error)
    summaries = [Summary.from_json(calibration.summary) for calibration in calibrations]
    notes = [vars(finding) for finding in findings]
    return {
        "collection": collection.name,
        "store": collection.place(settings),
        **values_of(collection, "encoder", "method", "model", "dim"),
        "created": _time(collection.created),
        **values_of(collection, "generation", "building", "previous"),
        "documents": sum(languages.values()),
        "trouble": trouble,
        "not_found": sum(languages.values()) - sum(searchable.values()),
        "languages": languages,
        "calibrations": [
            {
                "calibration": calibration.id,
                "active": bool(calibration.active and calibration.model == collection.model),
                "model": calibration.model,
                "created": _time(calibration.created),
                **values_of(summary, "balance", "decided_by"),
                "weights": list(summary.weights),
                "mates": bool(summary.mates and summary.mates.count),
                "map": _map_of(summary),
                "without": sorted(languages.keys() - summary.languages.keys()),
            }
            for calibration, summary in zip(calibrations, summaries, strict=True)
        ],
        "runs": [
            {
                "run": run.id,
                "state": "interrupted" if run.state == "running" and not run.spooled else run.state,
                "sources": run.sources,
                "started": _time(run.started),
                "finished": _time(run.finished) if run.finished else None,
                **values_of(run, "build", "builds", "encoded", "unchanged", "pruned"),
            }
            for run in runs
        ],
        "refused": [note for note in notes if note["kind"] == "refused"],
        "remarks": [note for note in notes if note["kind"] == "remark"],
    }


def _time(stored: Any) -> str:
    """A time without a zone, as a driver has it, to the second."""
    return str(stored)[:19].replace(" ", "T")


def _map_of(summary: Summary) -> str | None:
    """What queries are mapped by; none if they are not."""
    if summary.map:
        return str(summary.map.get("method", ""))
    return "a common space" if summary.common_space else None
