"""Calibrations for a person, and as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from encoders.console import Alert, Console, Note, Part
from encoders.methods.vector_parts import shown_weights
from encoders.phrases import counted

if TYPE_CHECKING:  # fits, which a status doesn't need
    from query.calibration.calibration_summary import MatesSummary
    from query.calibration.calibration_table import StoredCalibration
    from query.calibration_fitting.calibration_fit import CalibrationReport
    from query.calibration_fitting.recalibration import UpkeepReport

_FAIR = 2
"""Own-language share up to which searches are called fair, as a multiple of the equal share."""
_DECIDED_BY = {
    "judgements": "by your judgements",
    "documents": "by the collection's documents",
    "you": "by you",
    "default": "by default: there was nothing to decide by",
}


def show_calibration(report: "CalibrationReport", name: str, console: Console) -> None:
    """Show how a calibration ranks, and by what that was decided."""
    stored = report.stored
    values = {**calibration_json(stored, name), "taken_over": report.taken_over, "taught": report.taught}
    parts = calibration_parts(stored, name, "as it was," if report.taken_over else "decided")
    taught = taught_parts(report.taught, "the documents that this calibration was fitted on")
    console.show(values, [*parts, *taught, *_lost_parts(report, name)])


def show_calibrations(calibrations: "Sequence[StoredCalibration]", name: str, model: str, console: Console) -> None:
    """Show how a collection's calibrations rank and what decided that, of the active one why, too."""
    if not calibrations:
        console.print(
            f"{name} has no calibration and is searched by plain cosine; make one: dragoman calibrate -c {name}"
        )
    for stored in calibrations:
        active = stored.active and stored.model == model
        first, *reasons = calibration_parts(stored, name)
        values = calibration_json(stored, name) | {"active": active, "created": stored.created}
        console.show(values, [f"{first}; active", *reasons] if active else [first])


def calibration_json(stored: "StoredCalibration", name: str) -> dict[str, Any]:
    """A collection's calibration as JSON."""
    return {"collection": name, "calibration": stored.id, **stored.summary.as_json()}


def calibration_parts(stored: "StoredCalibration", name: str, verb: str = "decided") -> Iterator[Part]:
    """How a calibration ranks, and what decided that."""
    summary = stored.summary
    parts = [f"balance {summary.balance:g}"]
    parts += [f"weights {weights}"] if (weights := shown_weights(summary.weights)) else []
    parts += ["common space"] if summary.common_space else []
    parts += ["mates count"] if summary.mates and summary.mates.count else []
    yield f"{name}: calibration {stored.id}, {', '.join(parts)}; {verb} {_DECIDED_BY[summary.decided_by]}"
    if summary.mates and summary.decided_by != "judgements":
        yield Note(_mates_sentence(summary.mates))
    if space := summary.common_space:
        yield Note(
            f"a common space, learnt from {counted(space.subjects, 'subject')}: mates of pseudo-queries that taught "
            f"nothing are found at a mean reciprocal rank of {space.after:.3f}, without it {space.before:.3f}"
        )
    if summary.map:
        yield Note(f"with maps: {summary.map.get('method', '')}")
        if unknown := summary.map.get("unknown"):
            ranked = "by the mean of the languages' maps" if summary.map.get("stands_in") else "as without maps"
            yield Alert(f"the maps know nothing of {', '.join(unknown)}: ranked {ranked}")
    if summary.few:
        listed = ", ".join(f"{lang} {count}" for lang, count in sorted(summary.few.items()))
        yield Note(f"few documents, so drawn towards the mean of all languages: {listed}")


def _lost_parts(report: "CalibrationReport", name: str) -> Iterator[Part]:
    if report.lost:
        yield Alert(
            f"the previous calibration ranked with {report.lost} and the new one does not; to return: "
            f"dragoman status -c {name} --calibration, then dragoman calibrate --use ID"
        )


def _mates_sentence(mates: "MatesSummary") -> str:
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


def show_upkeep(upkeep: "UpkeepReport", name: str, console: Console) -> None:
    """Show in a sentence how fair searches are after documents changed; why: ``dragoman status --calibration``."""
    report = upkeep.report
    if not report:
        fair = "" if upkeep.own_language is None else f". {fairness_sentence(upkeep)}"
        console.say(f"{name} keeps its calibration: {upkeep.reason}{fair}")
        return
    values = {**calibration_json(report.stored, name), "reason": upkeep.reason, "own_language": upkeep.own_language}
    mates = report.stored.summary.mates
    apart = "versions of a document are hits of their own: too few are sure to belong together"
    notes = [Note(apart)] if mates and not mates.count and upkeep.languages > 1 else []
    console.show(values, [fairness_sentence(upkeep), *notes, *_lost_parts(report, name)])


def fairness_sentence(upkeep: "UpkeepReport") -> str:
    """How much searches lean to the query's language."""
    languages, share = upkeep.languages, upkeep.own_language
    if share is None:
        return f"Searches treat {counted(languages, 'language')} alike." if languages > 1 else "There is one language."
    fair = "are fair" if share <= _FAIR / languages else "lean to the query's language"
    return (
        f"Searches {fair} across {languages} languages: own-language share {share:.0%}, equal would be "
        f"{1 / languages:.0%}."
    )
