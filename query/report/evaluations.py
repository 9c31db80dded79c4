"""The evaluations a report is about: one, or two of the same topics that make a before and an after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from encoders.errors import BadInput
from query.evaluation import history
from query.evaluation.fairness import OWN_LANGUAGE, PEER, is_fairness
from query.evaluation.history import LoggedRun
from query.evaluation.measures import JUDGED
from query.evaluation.significance import Comparison, compare, corrected


@dataclass(frozen=True)
class ShownEvaluation:
    """One evaluation's main run.

    Attributes:
        label: how it ranked, in a word or two.
        run: the main run.
    """

    label: str
    run: LoggedRun

    @property
    def title(self) -> str:
        """The label with the evaluation's number."""
        number = f"evaluation {self.run.evaluation}"
        return self.label if self.label == number else f"{self.label} ({number})"

    @property
    def calibrated(self) -> bool:
        """Whether a calibration was used."""
        return not _plain(self.run)

    @property
    def own_language(self) -> tuple[float, int] | None:
        """Share of the first hits in the topic's language, and how many hits were looked at."""
        for measure, mean in self.run.means.items():
            if measure.startswith(f"{OWN_LANGUAGE}@"):
                return mean, int(measure.rpartition("@")[2])
        return None

    @property
    def peer(self) -> float | None:
        """Equal expected rank of the languages' documents."""
        return self.run.means.get(PEER)


def evaluations(engine: sa.Engine, collection: str, number: int | None = None) -> list[ShownEvaluation]:
    """The evaluation to show, with one of the same topics before it if there is any; empty where nothing is logged.

    Of two, plain cosine comes first, or else the older one.

    Args:
        engine: the database.
        collection: whose evaluations.
        number: which; the newest unless given.

    Raises:
        BadInput: there is no such evaluation of this collection.
    """
    mains = history.runs(engine, collection)
    if number is not None and number not in {run.evaluation for run in mains}:
        numbers = ", ".join(str(run.evaluation) for run in mains) or "none yet"
        raise BadInput(
            f"{collection} has no evaluation {number} (there are: {numbers}); "
            f"see them: dragoman runs list -c {collection}"
        )
    if not mains:
        return []
    run = next((run for run in mains if run.evaluation == number), mains[0])
    other = _counterpart(run, mains)
    if other is None:
        return [ShownEvaluation(_label(run), run)]
    pair = sorted((run, other), key=lambda one: (not _plain(one), one.evaluation))
    labels = [_label(one) for one in pair]
    if labels[0] == labels[1]:
        labels = [f"evaluation {one.evaluation}" for one in pair]
    return [ShownEvaluation(label, one) for label, one in zip(labels, pair, strict=True)]


def _counterpart(run: LoggedRun, mains: Sequence[LoggedRun]) -> LoggedRun | None:
    """The newest that ranked the same topics in another way; one that is plain where the run is not, or the reverse."""
    others = [
        other
        for other in mains
        if other.evaluation != run.evaluation
        and (other.setup.topics_hash, other.kind, other.lang) == (run.setup.topics_hash, run.kind, run.lang)
        and other.judged_as(run)
        and _ranked_by(other) != _ranked_by(run)
        and main_measure([other, run])
    ]
    unlike = [other for other in others if _plain(other) != _plain(run)]
    return next(iter(unlike or others), None)


def _plain(run: LoggedRun) -> bool:
    return not run.setup.settings.get("calibration")


def _ranked_by(run: LoggedRun) -> dict[str, object]:
    return {name: value for name, value in run.setup.settings.items() if name not in {"build", "languages"}}


def _label(run: LoggedRun) -> str:
    label = "plain cosine" if _plain(run) else "calibrated"
    return f"{label}, hybrid" if run.setup.settings.get("hybrid") else label


def main_measure(runs: Sequence[LoggedRun]) -> str | None:
    """The first measure that all of them have and that says how good they are: average precision, mostly."""
    shared = [name for name in runs[0].means if all(name in run.means for run in runs)]
    good = [name for name in shared if name != JUDGED and not is_fairness(name)]
    return "AP" if "AP" in good else next(iter(good), None)


def by_topic(engine: sa.Engine, before: ShownEvaluation, after: ShownEvaluation) -> Comparison:
    """The second against the first, a difference for each topic: the mean over the languages it was asked in."""
    measure = main_measure([before.run, after.run]) or "AP"
    scores = [history.scores(engine, one.run.id) for one in (before, after)]
    (found,) = corrected(compare(before.label, scores[0], after.label, scores[1], [measure], topic=after.run.topic))
    versions: dict[str, list[float]] = {}
    for qid, difference in found.topics.items():
        versions.setdefault(after.run.topic(qid), []).append(difference)
    topics = {topic: sum(differences) / len(differences) for topic, differences in versions.items()}
    return replace(
        found,
        topics=topics,
        wins=sum(difference > 0 for difference in topics.values()),
        losses=sum(difference < 0 for difference in topics.values()),
        ties=sum(difference == 0 for difference in topics.values()),
    )
