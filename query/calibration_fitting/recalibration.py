"""Keep a collection's calibration while it fits the documents, and calibrate again when it does not."""

from typing import NamedTuple

from encoders.console import Console
from encoders.machine.placement import Device
from indexer.collection import collection as collections
from indexer.collection.collection import Collection
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database, transaction
from indexer.ledger.index_runs import runs
from indexer.ledger.tables import ACTIVE
from query.calibration import calibration_table
from query.calibration.calibration import Calibration
from query.calibration.calibration_table import StoredCalibration
from query.calibration_fitting.calibration_fit import CalibrationReport, calibrate_open
from query.calibration_fitting.calibration_request import CalibrationRequest
from query.calibration_fitting.drift import drift, own_language_share
from query.calibration_fitting.open_collection import OpenCollection

DRIFT = 0.25
"""Least drift of a language that makes a collection be calibrated again; drift of unchanged documents is below half of
this (docs/methods/fair-ranking.md)."""


class UpkeepReport(NamedTuple):
    """The report of a collection's new calibration, none if the old one stays; why; and how fair searches are."""

    report: CalibrationReport | None
    reason: str
    languages: int = 0  # languages of the collection
    own_language: float | None = None  # see ``own_language_share``; none if it was not measured


def finish_indexing(
    name: str, settings: Settings, *, calibrate: bool = True, device: Device = "auto", console: Console | None = None
) -> UpkeepReport | None:
    """The last step of indexing: keep the collection calibrated, if runs changed it since this was last looked at.

    Without ``calibrate`` the calibration stays as it is. None: nothing was due. After an interruption, another call
    does it.
    """
    with open_database(settings.database) as engine:
        collection = collections.require(engine, name)
        checked = [run for run in runs(engine, name) if run.id > collection.checked_run and run.state not in ACTIVE]
        changed = any(run.encoded or run.pruned for run in checked)
        report = None
        if calibrate and (changed or not is_calibrated(name, settings)):
            report = keep_calibrated(name, settings, device=device, console=console)
        if checked:
            with transaction(engine) as session:
                collections.hold(session, collection, as_searched=False)
                session.get_one(Collection, name).checked_run = checked[-1].id
    return report


def is_calibrated(name: str, settings: Settings) -> bool:
    """Whether a calibration knows all languages of a collection, or a person chose to search without a calibration."""
    with OpenCollection.open(name, settings) as opened:
        return _left_without(opened) or not _misfit(opened, opened.stored_calibration(), opened.calibration())


def keep_calibrated(
    name: str, settings: Settings | None = None, *, device: Device = "auto", console: Console | None = None
) -> UpkeepReport:
    """Calibrate a collection again, unless the active calibration still fits; a person's input to the old stays.

    It does not fit if there is none, an earlier version made it, it lacks a language, or the documents have drifted.
    """
    with OpenCollection.open(name, settings or Settings.read(), device, console) as opened:
        if _left_without(opened):
            return UpkeepReport(None, "it is searched without a calibration, as you chose")
        stored, active = opened.stored_calibration(), opened.calibration()
        reason = _misfit(opened, stored, active)
        if active and not reason:
            shares = drift(opened.store, active)
            worst = max(shares, key=shares.__getitem__, default="")
            if not worst:
                return UpkeepReport(None, "it has no pseudo-queries to measure drift with")
            reason = f"it would change the first ten hits of {shares[worst]:.0%} of the queries in {worst}"
            if shares[worst] < DRIFT:
                return UpkeepReport(None, "it still fits", *_fairness(opened, active))
        request = CalibrationRequest()
        report = calibrate_open(opened, request.after(stored, active) if stored else request)
        return UpkeepReport(report, reason, *_fairness(opened, opened.calibration()))


def _fairness(opened: OpenCollection, calibration: Calibration | None) -> tuple[int, float | None]:
    with opened.console.waiting("looking at how fair searches are"):
        return len(opened.store.count()), own_language_share(opened.store, calibration) if calibration else None


def _left_without(opened: OpenCollection) -> bool:
    """Whether a person chose that none of the calibrations of a collection's model is active."""
    calibrations = calibration_table.all_calibrations(opened.engine, opened.collection.name)
    of_model = [stored for stored in calibrations if stored.model == opened.collection.model]
    return bool(of_model) and not any(stored.active for stored in of_model)


def _misfit(opened: OpenCollection, stored: StoredCalibration | None, active: Calibration | None) -> str:
    """Why a collection needs another calibration, whatever its drift; empty: the active calibration may stay."""
    if stored is None:
        return "it had no calibration"
    if stored.summary.is_earlier:
        return "an earlier version of Dragoman made its calibration, with settings that are gone"
    if active is None:
        return "its calibration can't be read"
    new = sorted(opened.store.count().keys() - active.languages.keys())
    return f"new languages: {', '.join(new)}" if new else ""
