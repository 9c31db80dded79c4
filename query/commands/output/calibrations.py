"""Calibrations for a person, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from encoders.console import Console
from encoders.methods.vector_parts import shown_weights
from encoders.wording import counted
from indexer.collection.collection import Collection
from query.calibration.calibration_choice import USUAL_MIX, Mix, OwnLanguageShares, TriedChoice
from query.calibration.summary import MatesSummary, Summary
from query.calibration.table import StoredCalibration
from query.fitting.calibrate import CalibrationReport
from query.fitting.upkeep import UpkeepReport

_DECIDED_BY = {
    "judgements": "by your judgements: MAP on half of the topics",
    "concepts": "by documents of one concept: MAP of half of the titles and first sentences",
    "mates": "by mates, documents about the same thing in several languages: MAP of half of the titles",
    "titles": "by titles that find the rest of their own document, and by their neighbours' languages",
    "languages": "by its languages, which a linear classifier can't tell apart",
    "you": "by you",
    "default": "by default: there was nothing to decide by",
}

_CLEARLY = 0.02
"""Least difference of two shares that is worth a sentence."""


def _directions(rank: int) -> str:
    """A rank in words; empty for 0."""
    return counted(rank, "direction") if rank else ""


def show_calibration(report: CalibrationReport, name: str, console: Console, *, table: bool = True) -> None:
    """Show how a calibration ranks, and by what that was decided."""
    decision, summary = report.decision, report.stored.summary
    console.emit(
        {
            "collection": name,
            "calibration": report.stored.id,
            **asdict(decision.choice),
            "decided_by": decision.decided_by,
            "taken_over": decision.taken_over,
            "languages": summary.as_json()["languages"],
            "few": dict(summary.few),
            "drift": dict(summary.drift),
            "told_apart": summary.separability and summary.separability.as_json(),
            "mates": summary.mates and asdict(summary.mates),
            "common_space": summary.common_space and asdict(summary.common_space),
            "own_language": _own_language_json(summary),
            "taught": dict(report.taught),
            "probe": [trial.as_dict() for trial in decision.tried],
        }
    )
    weights = shown_weights(summary.choice.weights)
    if decision.tried and table and not console.json:
        console.records(_trial_rows(decision.tried, summary), title="What the probe tried (✓: chosen)")
    choice = decision.choice
    rank = _directions(choice.rank)
    removed = f"{rank} of each language" if rank else "the language mean"
    mates_text = f", mates lift by {choice.lift:g}" if choice.lift else ""
    mates_text += ", with a second look" if choice.second_look else ""
    weights_text = f", weights {weights}" if weights else ""
    weights_text += _mix_text(choice.mix)
    console.result(
        f"{name}: calibration {report.stored.id}, balance {choice.balance:g}, {choice.margin} margin, "
        f"{removed} taken out{mates_text}{weights_text}; "
        f"{'as it was,' if decision.taken_over else 'decided'} {_DECIDED_BY[decision.decided_by]}"
    )
    if own_language := summary.own_language:
        console.say(_own_language_sentence(own_language))
    for sentence in _measured(decision.decided_by, summary):
        console.say(sentence)
    show_taught(report.taught, "the documents that this calibration was fitted on", console)
    if report.lost:
        console.warn(
            f"the previous calibration ranked with {report.lost} and the new one does not; to return: "
            f"dragoman calibrate -c {name} --list, then --use ID"
        )
    if maps := summary.maps:
        console.say(f"with maps: {maps.method}")
        if maps.unknown:
            ranked = "by the mean of the languages' maps" if maps.stands_in else "as without maps"
            console.warn(f"the maps know nothing of {', '.join(maps.unknown)}: ranked {ranked}")
    if summary.few:
        listed = ", ".join(f"{lang} {count}" for lang, count in sorted(summary.few.items()))
        console.say(f"few documents, so drawn towards the mean of all languages: {listed}")
    if summary.drift:
        worst = max(summary.drift, key=summary.drift.__getitem__)
        console.say(
            f"{summary.drift[worst]:.0%} of the pseudo-queries in {worst} have other documents among their first ten "
            "hits than with the previous calibration; no language has more"
        )


def show_taught(taught: Mapping[str, float], measured_by: str, console: Console) -> None:
    """Say which encoders learnt from the documents that they were measured by; ``taught`` has shares of these."""
    for name, share in taught.items():
        shown = f"{share:.0%}" if share >= 0.01 else "less than 1%"
        console.say(
            f"{name} learnt from {shown} of {measured_by}, which flatters it: expect less of documents that it has "
            "not seen"
        )


def _measured(decided_by: str, summary: Summary) -> list[str]:
    """Sentences about the collection's mates and common space, and how well its languages are told apart."""
    sentences = []
    if mates := summary.mates:
        sentences.append(
            _mates_sentence(mates) if decided_by == "mates" else "mates: too few or too unsure to decide by"
        )
    if space := summary.common_space:
        sentences.append(
            f"a common space, learnt from {counted(space.subjects, 'subject')}: mates of pseudo-queries that taught "
            f"nothing are found at a mean reciprocal rank of {space.after:.3f}, without it {space.before:.3f}"
        )
    if separability := summary.separability:
        sentences.append(
            f"a linear classifier tells the language of {separability.accuracy:.0%} of documents, of "
            f"{separability.languages} languages; below {separability.threshold:.0%} nothing would be balanced"
        )
    return sentences


def _trial_rows(trials: Sequence[TriedChoice], summary: Summary) -> list[dict[str, str]]:
    """The rows of the table of what the probe tried, as narrow as a terminal; some settings only if they vary."""
    measure = "own title" if summary.decided_by in ("titles", "languages") else "MAP"
    has_weights = bool(shown_weights(summary.choice.weights))
    bars_vary, looks_vary, mixes_vary = (
        len({getattr(trial.choice, setting) for trial in trials}) > 1 for setting in ("bar", "second_look", "mix")
    )
    return [
        {
            "taken\nout": str(trial.choice.rank or "mean"),
            "margin": trial.choice.margin,
            ">balance": f"{trial.choice.balance:g}",
            ">lift": f"{trial.choice.lift:g}",
            **({">bar": f"{trial.choice.bar:g}"} if bars_vary else {}),
            **({"2nd\nlook": "yes" if trial.choice.second_look else "no"} if looks_vary else {}),
            **({"mix": _shown_mix(trial.choice.mix)} if mixes_vary else {}),
            **({">weights": shown_weights(trial.choice.weights) or "equal"} if has_weights else {}),
            f">{measure}": f"{trial.value:.3f}",
            ">other\nhalf": f"{trial.held_out:.3f}",
            ">own\nlanguage": f"{trial.own_language:.0%}",
            "": "✓" if trial.chosen else "",
        }
        for trial in trials
    ]


def _maps_mark(summary: Summary) -> str:
    if summary.maps:
        return ", maps"
    return ", common space" if summary.common_space else ""


def _mix_text(mix: Mix) -> str:
    return f", document:title:opening:best passage as {_shown_mix(mix)}" if mix != USUAL_MIX else ""


def _shown_mix(mix: Mix) -> str:
    """Weights of document, title, opening and best passage: ``1:1:1:2``."""
    return ":".join(f"{weight:g}" for weight in mix)


def _mates_sentence(mates: MatesSummary) -> str:
    share = f"mates: {mates.share:.0%} of documents have a mate"
    if mates.confirmed is None:
        return f"{share} in the other language; there is no third to confirm it"
    return f"{share} that a third language confirms; {mates.confirmed:.0%} of the mates checked are confirmed"


def _own_language_json(summary: Summary) -> dict[str, Any] | None:
    return summary.own_language.as_json() if summary.own_language else None


def _own_language_sentence(shares: OwnLanguageShares) -> str:
    """The own-language share that is reached, the equal share, and the shares of both ends of the dial that differ."""
    others = [
        f"with --balance {balance:g}: {share:.0%}"
        for balance, share in shares.by_balance.items()
        if balance in (0.0, 1.0) and abs(share - shares.reached) >= _CLEARLY
    ]
    reached = f"{shares.reached:.0%} of the first {shares.hits} hits that are not answers"
    return "; ".join([f"own language {reached}, {shares.equal:.0%} would be equal", *others])


def show_upkeep(upkeep: UpkeepReport, name: str, console: Console) -> None:
    """Show whether the collection was calibrated anew after its documents changed, and why."""
    if upkeep.report:
        console.say(f"{name} is calibrated anew: {upkeep.reason}")
        show_calibration(upkeep.report, name, console, table=False)
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
            | {"own_language": _own_language_json(calibration.summary)}
        )
    if console.json:
        return
    if not calibrations:
        console.result(
            f"{name} has no calibration and is searched by plain cosine; make one: dragoman calibrate -c {name}"
        )
        return
    has_weights = any(_weights(calibration) for calibration in calibrations)
    rows = [
        {
            "calibration": calibration.id,
            "-made (UTC)": f"{calibration.created:%Y-%m-%d %H:%M}",
            ">balance": f"{calibration.summary.choice.balance:g}",
            "margin": calibration.summary.choice.margin,
            ">taken\nout": str(calibration.summary.choice.rank or "mean"),
            ">lift": f"{calibration.summary.choice.lift:g}",
            **({">weights": _weights(calibration)} if has_weights else {}),
            ">languages": f"{len(calibration.summary.languages)}",
            "~decided by": calibration.summary.decided_by + _maps_mark(calibration.summary),
            "~": _state(calibration, active, collection.model),
        }
        for calibration in calibrations
    ]
    console.records(rows, title=f"Calibrations of {name}")
    if not active:
        console.say(f"none is active: plain cosine; choose one with: dragoman calibrate --use ID -c {name}")


def _weights(calibration: StoredCalibration) -> str:
    return shown_weights(calibration.summary.choice.weights)


def _state(calibration: StoredCalibration, active: set[str], model: str) -> str:
    if calibration.id in active:
        return "active"
    return "" if calibration.model == model else "of another model"
