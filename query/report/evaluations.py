"""The evaluations that a report shows: a single evaluation, or two of the same topics as before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from encoders.errors import BadInput
from query.evaluation import evaluation_log
from query.evaluation.evaluation_log import LoggedRun
from query.evaluation.fairness import OWN_LANGUAGE, PEER, is_fairness
from query.evaluation.measures import JUDGED
from query.evaluation.significance import Comparison, compare, corrected


@dataclass(frozen=True)
class ShownEvaluation:
    """The main run of an evaluation, with a label that says in a word or two how the run was ranked."""

    label: str
    run: LoggedRun

    @property
    def title(self) -> str:
        """The label with the evaluation's number."""
        number = f"evaluation {self.run.evaluation}"
        return self.label if self.label == number else f"{self.label} ({number})"

    @property
    def own_language(self) -> tuple[float, int] | None:
        """Share of the first hits in the topic's language, 0 to 1, and the number of hits counted."""
        mean = self.run.means.get(OWN_LANGUAGE)
        return (mean, self.run.targets) if mean is not None and self.run.targets else None

    @property
    def peer(self) -> float | None:
        """PEER of the run, 0 to 1: how equal the languages' expected ranks of equally relevant documents are."""
        return self.run.means.get(PEER)


def evaluations(engine: sa.Engine, collection: str, number: int | None = None) -> list[ShownEvaluation]:
    """The evaluation to show and, if there is one, its counterpart on the same topics; empty if nothing is logged.

    The evaluation to show is the newest unless ``number`` names another. Of two evaluations, plain cosine comes first,
    or else the older evaluation.

    Raises:
        BadInput: the collection has no evaluation of this number.
    """
    main_runs = [run for run in evaluation_log.runs(engine, collection) if not run.imported]
    if number is not None and number not in {run.evaluation for run in main_runs}:
        numbers = ", ".join(str(run.evaluation) for run in main_runs) or "none yet"
        raise BadInput(
            f"{collection} has no evaluation {number} (there are: {numbers}); "
            f"see them: dragoman runs list -c {collection}"
        )
    if not main_runs:
        return []
    run = next((run for run in main_runs if run.evaluation == number), main_runs[0])
    counterpart = _counterpart(run, main_runs)
    if counterpart is None:
        return [ShownEvaluation(_label(run), run)]
    pair = sorted((run, counterpart), key=lambda shown_run: (shown_run.calibrated, shown_run.evaluation))
    labels = [_label(shown_run) for shown_run in pair]
    if labels[0] == labels[1]:
        labels = [f"evaluation {shown_run.evaluation}" for shown_run in pair]
    return [ShownEvaluation(label, shown_run) for label, shown_run in zip(labels, pair, strict=True)]


def _counterpart(run: LoggedRun, main_runs: Sequence[LoggedRun]) -> LoggedRun | None:
    """The newest run of the same topics with other settings, preferably with one of the two runs plain."""
    candidates = [
        candidate
        for candidate in main_runs
        if candidate.evaluation != run.evaluation
        and (candidate.setup.topics_hash, candidate.kind, candidate.lang) == (run.setup.topics_hash, run.kind, run.lang)
        and candidate.judged_as(run)
        and _ranked_by(candidate) != _ranked_by(run)
        and main_measure([candidate, run])
    ]
    contrasting = [candidate for candidate in candidates if candidate.calibrated != run.calibrated]
    return next(iter(contrasting or candidates), None)


def _ranked_by(run: LoggedRun) -> dict[str, object]:
    return {
        name: value
        for name, value in run.setup.settings.items()
        if name not in {"build", "languages", "maps", "targets", "taught"}
    }


def _label(run: LoggedRun) -> str:
    settings = run.setup.settings
    label = "calibrated" if run.calibrated else "plain cosine"
    if run.calibrated and not settings.get("lift"):
        label += ", without mates"
    return f"{label}, hybrid" if settings.get("hybrid") else label


def main_measure(runs: Sequence[LoggedRun]) -> str | None:
    """The quality measure that all runs have: average precision, or else the first; None if there is none."""
    shared = [name for name in runs[0].means if all(name in run.means for run in runs)]
    good = [name for name in shared if name != JUDGED and not is_fairness(name)]
    return "AP" if "AP" in good else next(iter(good), None)


def by_topic(engine: sa.Engine, before: ShownEvaluation, after: ShownEvaluation) -> Comparison:
    """Compare two evaluations by topic: the mean difference over the languages of the topic's queries."""
    measure = main_measure([before.run, after.run]) or "AP"
    scores = [evaluation_log.scores(engine, evaluation.run.id) for evaluation in (before, after)]
    (comparison,) = corrected(
        compare(before.label, scores[0], after.label, scores[1], [measure], topic=after.run.topic)
    )
    values_by_topic: dict[str, list[float]] = {}
    for qid, difference in comparison.differences.items():
        values_by_topic.setdefault(after.run.topic(qid), []).append(difference)
    differences = {topic: sum(values) / len(values) for topic, values in values_by_topic.items()}
    return replace(
        comparison,
        differences=differences,
        wins=sum(difference > 0 for difference in differences.values()),
        losses=sum(difference < 0 for difference in differences.values()),
        ties=sum(difference == 0 for difference in differences.values()),
    )
