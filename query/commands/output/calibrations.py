"""Calibrations for a person, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from encoders.console import Console
from encoders.methods.vector_parts import shown_weights
from encoders.wording import counted
from indexer.collection.collection import Collection
from query.calibration.calibration_summary import MatesSummary, Summary
from query.calibration.calibration_table import StoredCalibration
from query.calibration_fitting.calibration_fit import CalibrationReport
from query.calibration_fitting.recalibration import UpkeepReport

_DECIDED_BY = {
    "judgements": "by your judgements",
    "documents": "by the collection's documents",
    "you": "by you",
    "default": "by default: there was nothing to decide by",
}


def show_calibration(report: CalibrationReport, name: str, console: Console) -> None:
    """Show how a calibration ranks, and by what that was decided."""
    summary = report.stored.summary
    console.emit(
        {
            "collection": name,
            "calibration": report.stored.id,
            **summary.as_json(),
            "taken_over": report.taken_over,
            "taught": dict(report.taught),
        }
    )
    console.result(
        f"{name}: calibration {report.stored.id}, {ranking_text(summary)}; "
        f"{'as it was,' if report.taken_over else 'decided'} {_DECIDED_BY[summary.decided_by]}"
    )
    if summary.mates and summary.decided_by != "judgements":
        console.say(_mates_sentence(summary.mates))
    if space := summary.common_space:
        console.say(
            f"a common space, learnt from {counted(space.subjects, 'subject')}: mates of pseudo-queries that taught "
            f"nothing are found at a mean reciprocal rank of {space.after:.3f}, without it {space.before:.3f}"
        )
    show_taught(report.taught, "the documents that this calibration was fitted on", console)
    if report.lost:
        console.warn(
            f"the previous calibration ranked with {report.lost} and the new one does not; to return: "
            f"dragoman calibrate -c {name} --list, then --use ID"
        )
    if summary.map:
        console.say(f"with maps: {summary.map.get('method', '')}")
        if unknown := summary.map.get("unknown"):
            ranked = "by the mean of the languages' maps" if summary.map.get("stands_in") else "as without maps"
            console.warn(f"the maps know nothing of {', '.join(unknown)}: ranked {ranked}")
    if summary.few:
        listed = ", ".join(f"{lang} {count}" for lang, count in sorted(summary.few.items()))
        console.say(f"few documents, so drawn towards the mean of all languages: {listed}")


def ranking_text(summary: Summary) -> str:
    """How a calibration ranks, in a few words."""
    parts = [f"balance {summary.balance:g}"]
    parts += [f"weights {weights}"] if (weights := shown_weights(summary.weights)) else []
    parts += ["common space"] if summary.common_space else []
    return ", ".join([*parts, *(["mates count"] if summary.mates and summary.mates.count else [])])


def _mates_sentence(mates: MatesSummary) -> str:
    """Why mates count, or do not."""
    if not mates.queries:
        return "mates don't count: too few documents have sure mates to decide by"
    verdict = "mates count" if mates.count else "mates don't count, as held-out queries lose by them"
    return (
        f"{verdict}: the MAP of {counted(mates.queries, 'held-out query', 'held-out queries')} is {mates.without:.3f} "
        f"without and {mates.with_mates:.3f} with them"
    )


def show_taught(taught: Mapping[str, float], measured_by: str, console: Console) -> None:
    """Say which encoders learnt from the documents that they were measured by; ``taught`` has shares of these."""
    for name, share in taught.items():
        shown = f"{share:.0%}" if share >= 0.01 else "less than 1%"
        console.say(
            f"{name} learnt from {shown} of {measured_by}, which flatters it: expect less of documents that it has "
            "not seen"
        )


def show_upkeep(upkeep: UpkeepReport, name: str, console: Console) -> None:
    """Show whether the collection was calibrated anew after its documents changed, and why."""
    if upkeep.report:
        console.say(f"{name} is calibrated anew: {upkeep.reason}")
        show_calibration(upkeep.report, name, console)
    else:
        console.say(f"{name} keeps its calibration: {upkeep.reason}")


def show_calibrations(calibrations: Sequence[StoredCalibration], collection: Collection, console: Console) -> None:
    """List the calibrations of a collection."""
    name = collection.name
    active = {
        calibration.id for calibration in calibrations if calibration.active and calibration.model == collection.model
    }
    for calibration in calibrations:
        console.emit(
            {
                "calibration": calibration.id,
                "active": calibration.id in active,
                "created": calibration.created.isoformat(timespec="seconds"),
            }
            | calibration.summary.as_json()
        )
    if console.json:
        return
    if not calibrations:
        console.result(
            f"{name} has no calibration and is searched by plain cosine; make one: dragoman calibrate -c {name}"
        )
        return
    has_weights = any(calibration.summary.weights for calibration in calibrations)
    rows = [
        {
            "calibration": calibration.id,
            "-made (UTC)": f"{calibration.created:%Y-%m-%d %H:%M}",
            ">balance": f"{calibration.summary.balance:g}",
            **({">weights": shown_weights(calibration.summary.weights)} if has_weights else {}),
            "mates": _mates_text(calibration.summary),
            ">languages": f"{len(calibration.summary.languages)}",
            "~decided by": calibration.summary.decided_by + _maps_mark(calibration.summary),
            "~": _state(calibration, active, collection.model),
        }
        for calibration in calibrations
    ]
    console.records(rows, title=f"Calibrations of {name}")
    if not active:
        console.say(f"none is active: plain cosine; choose one with: dragoman calibrate --use ID -c {name}")


def _mates_text(summary: Summary) -> str:
    if summary.mates is None:
        return ""
    return "yes" if summary.mates.count else "no"


def _maps_mark(summary: Summary) -> str:
    if summary.map:
        return ", maps"
    return ", common space" if summary.common_space else ""


def _state(calibration: StoredCalibration, active: set[str], model: str) -> str:
    if calibration.id in active:
        return "active"
    return "" if calibration.model == model else "of another model"
