"""Calibrations for a person, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from encoders.console import Alert, Console, Note, Part
from encoders.methods.vector_parts import shown_weights
from encoders.phrases import counted
from query.calibration.calibration_summary import MatesSummary, Summary
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
    stored = report.stored
    values = {"collection": name, "calibration": stored.id, **stored.summary.as_json()}
    console.show(values | {"taken_over": report.taken_over, "taught": report.taught}, _calibration_parts(report, name))


def _calibration_parts(report: CalibrationReport, name: str) -> Iterator[Part]:
    summary = report.stored.summary
    decided = f"{'as it was,' if report.taken_over else 'decided'} {_DECIDED_BY[summary.decided_by]}"
    yield f"{name}: calibration {report.stored.id}, {ranking_text(summary)}; {decided}"
    if summary.mates and summary.decided_by != "judgements":
        yield Note(_mates_sentence(summary.mates))
    if space := summary.common_space:
        yield Note(
            f"a common space, learnt from {counted(space.subjects, 'subject')}: mates of pseudo-queries that taught "
            f"nothing are found at a mean reciprocal rank of {space.after:.3f}, without it {space.before:.3f}"
        )
    yield from taught_parts(report.taught, "the documents that this calibration was fitted on")
    if report.lost:
        yield Alert(
            f"the previous calibration ranked with {report.lost} and the new one does not; to return: "
            f"dragoman calibrate -c {name} --list, then --use ID"
        )
    if summary.map:
        yield Note(f"with maps: {summary.map.get('method', '')}")
        if unknown := summary.map.get("unknown"):
            ranked = "by the mean of the languages' maps" if summary.map.get("stands_in") else "as without maps"
            yield Alert(f"the maps know nothing of {', '.join(unknown)}: ranked {ranked}")
    if summary.few:
        listed = ", ".join(f"{lang} {count}" for lang, count in sorted(summary.few.items()))
        yield Note(f"few documents, so drawn towards the mean of all languages: {listed}")


def ranking_text(summary: Summary) -> str:
    """How a calibration ranks, in a few words."""
    parts = [f"balance {summary.balance:g}"]
    parts += [f"weights {weights}"] if (weights := shown_weights(summary.weights)) else []
    parts += ["common space"] if summary.common_space else []
    return ", ".join([*parts, *(["mates count"] if summary.mates and summary.mates.count else [])])


def _mates_sentence(mates: MatesSummary) -> str:
    if not mates.queries:
        return "mates don't count: too few documents have sure mates to decide by"
    verdict = "mates count" if mates.count else "mates don't count, as held-out queries lose by them"
    return (
        f"{verdict}: the MAP of {counted(mates.queries, 'held-out query', 'held-out queries')} is {mates.without:.3f} "
        f"without and {mates.with_mates:.3f} with them"
    )


def taught_parts(taught: Mapping[str, float], measured_by: str) -> Iterator[Part]:
    """Which encoders learnt from the documents that they were measured by; ``taught`` has shares of these."""
    for name, share in taught.items():
        shown = f"{share:.0%}" if share >= 0.01 else "less than 1%"
        yield Note(
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
