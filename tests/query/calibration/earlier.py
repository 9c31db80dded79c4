"""Calibrations as the earlier version of Dragoman kept them: in format 2, with settings that are gone."""

import io
import json
from typing import Any

import numpy as np

from indexer.collection import collection as collections
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database, transaction
from query.calibration import calibration_table
from query.calibration.calibration import Calibration
from query.calibration.calibration_summary import Summary

SETTINGS: dict[str, Any] = {
    "rank": 0,
    "neighbours": 3,
    "margin": "ratio",
    "lift": 0.8,
    "bar": 0.5,
    "second_look": False,
    "mix": [1, 1, 1, 2],
}
"""What the header had besides: the usual settings."""


def earlier_artifact(calibration: Calibration, *without: str, **settings: object) -> bytes:
    """The artifact of a calibration in format 2, with other settings, or without some of them.

    Beside each mean there was a language's subspace, of as many rows as the rank says.
    """
    with np.load(io.BytesIO(calibration.to_bytes())) as archive:
        header = json.loads(str(archive["header"]))
        arrays = {name: archive[name] for name in archive.files if name not in {"header", "allow_pickle"}}
    assert header.pop("mates") in (True, False)
    header |= SETTINGS | settings | {"format": 2}
    for name in without:
        del header[name]
    for name in [name for name in arrays if name.endswith("mean")]:
        arrays[f"{name.removesuffix('mean')}subspace"] = np.eye(header["rank"], len(arrays[name]), dtype=np.float32)
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, header=np.array(json.dumps(header)), **arrays)
    return buffer.getvalue()


def earlier_summary(calibration: Calibration, decided_by: str, **settings: object) -> dict[str, Any]:
    """The JSON of a calibration's summary in that version; ``decided_by`` is one of its words, as *concepts*."""
    values = Summary.of(calibration, "default").as_json()
    values = {name: value for name, value in values.items() if value is not None}
    values |= {**SETTINGS, "weights": list(calibration.vector_parts.weights), "decided_by": decided_by, **settings}
    choice = {name: values[name] for name in ("balance", "weights", *SETTINGS) if name != "neighbours"}
    return {
        **values,
        "probe": [{**choice, "value": 0.5, "held_out": 0.4, "own_language": 0.3, "chosen": True}],
        "told_apart": {"accuracy": 0.9, "languages": 2, "bar": 0.6},
        "mates": {"share": 0.75, "confirmed": 0.95, "margin": 1.1},
    }


def make_earlier(settings: Settings, name: str, decided_by: str, **others: object) -> None:
    """Let a collection's active calibration be one of that version."""
    with open_database(settings.database) as engine:
        stored = calibration_table.active(engine, collections.require(engine, name))
        assert stored is not None
        calibration = calibration_table.read(engine, name, stored.id)
        with transaction(engine) as session:
            row = session.get_one(calibration_table.CalibrationRow, (name, stored.id))
            row.artifact = earlier_artifact(calibration, **others)
            row.summary = row.summary | earlier_summary(calibration, decided_by, **others)
