"""Keep a collection's calibration as long as it fits its documents, and make another when it does not."""

from __future__ import annotations

from dataclasses import dataclass

from encoders.console import Console
from encoders.errors import StoreError
from encoders.session import Device
from indexer.collection import collection as collections
from indexer.ledger.database import connect
from indexer.settings import Settings
from indexer.stores.contract import VectorStore
from query.calibration import table as calibration_table
from query.calibration.calibration import Calibration
from query.fitting.calibrate import CalibrationReport, calibrate
from query.fitting.decision import CalibrationInput
from query.fitting.drift import drift

DRIFT = 0.25
"""Drift of a language from which on a collection is calibrated again: where documents have not changed it is below half
of this (docs/methods.md)."""


@dataclass(frozen=True)
class UpkeepReport:
    """What became of a collection's calibration after documents were added.

    Attributes:
        report: the new calibration, if one was made.
        reason: why it was, or was not.
    """

    report: CalibrationReport | None
    reason: str


def is_calibrated(name: str, settings: Settings) -> bool:
    """Whether a collection's calibration knows all its languages; one that a person searches without is all right."""
    engine = connect(settings.database)
    try:
        found = collections.require(engine, name)
        if calibration_table.active(engine, found) is None:
            return bool(calibration_table.every(engine, name))
        active = calibration_table.load(engine, found)
        store = found.open_store(settings)
        try:
            return active is None or not _new_languages(store, active)
        finally:
            store.close()
    except StoreError:
        return False  # what can't be read is made again
    finally:
        engine.dispose()


def keep_calibrated(
    name: str, settings: Settings | None = None, *, device: Device = "auto", console: Console | None = None
) -> UpkeepReport:
    """See to a collection's calibration after documents came or went: the active one stays as long as it fits.

    A new one is made where there is none, where a language has come, or where the documents have drifted. What a person
    gave the one before stays: a setting, judgements' decision, queries out of a log.
    """
    settings = settings or Settings.read()
    engine = connect(settings.database)
    try:
        found = collections.require(engine, name)
        kept = calibration_table.active(engine, found)
        if kept is None and any(one.model == found.model for one in calibration_table.every(engine, name)):
            return UpkeepReport(None, "it is searched without a calibration, as you chose")
        active, reason = None, "it had none"
        if kept:
            try:
                active = calibration_table.load(engine, found)
            except StoreError:
                reason = "the one it had can't be read"
        if active is not None:
            store = found.open_store(settings)
            try:
                reason, fits = _fit(store, active)
            finally:
                store.close()
            if fits:
                return UpkeepReport(None, reason)
    finally:
        engine.dispose()
    given = CalibrationInput.of(kept, active) if kept else None
    return UpkeepReport(calibrate(name, settings, given=given, device=device, console=console), reason)


def _new_languages(store: VectorStore, active: Calibration) -> list[str]:
    """Languages of stored documents that a calibration knows nothing of."""
    return sorted(store.count().keys() - active.languages.keys())


def _fit(store: VectorStore, active: Calibration) -> tuple[str, bool]:
    """Whether a calibration still fits what is stored, and a sentence that says why."""
    if new := _new_languages(store, active):
        return f"new languages: {', '.join(new)}", False
    shares = drift(store, active)
    worst = max(shares, key=shares.__getitem__, default="")
    said = f"first tens that would change: {shares[worst]:.0%} in {worst}, the most" if worst else "there is no bank"
    return said, not worst or shares[worst] < DRIFT
