"""The evaluations that a report shows: a single evaluation, or two as before and after, over the topics of both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from encoders.errors import BadInput
from encoders.phrases import counted
from query.evaluation import evaluation_log
from query.evaluation.evaluation_log import LoggedRun
from query.measures.fairness import OWN_LANGUAGE, is_fairness
from query.measures.quality_measures import JUDGED, means_of
from query.measures.significance import Comparison, Topics, compare, corrected

_NAMED = 10
"""Topics that a sentence names."""


@dataclass(frozen=True)
class ShownEvaluation:
    """The main run of an evaluation, with a label that says in a word or two how the run was ranked."""

    label: str
    run: LoggedRun
    scores: Topics  # by id and measure, of the topics that are shown: all, or the topics that both evaluations have

    @property
    def title(self) -> str:
        """The label with the evaluation's number."""
        number = f"evaluation {self.run.evaluation}"
        return self.label if self.label == number else f"{self.label} ({number})"

    @property
    def means(self) -> Mapping[str, float]:
        """Mean of each measure over the topics that are shown."""
        if len(self.scores) == self.run.topics:
            return self.run.means
        means = means_of(self.scores)
        return {name: means[name] for name in self.run.means if name in means}

    def ranked(self, lang: str, qid: str) -> bool:
        """Whether a topic of a language's run is among the topics that are shown."""
        return (f"{qid}.{lang}" if self.run.kind == "pooled" else qid) in self.scores

    @property
    def own_language(self) -> tuple[float, int] | None:
        """Share of the first hits in the topic's language, 0 to 1, and the number of hits counted."""
        mean = self.means.get(OWN_LANGUAGE)
        return (mean, self.run.targets) if mean is not None and self.run.targets else None


def evaluations(engine: sa.Engine, collection: str, number: int | None = None) -> list[ShownEvaluation]:
    """The evaluation to show, by default the newest, and its counterpart, plain cosine first; empty without a log.

    Both have the scores of the topics in common. Raises BadInput: there is no evaluation of this number.
    """
    main_runs = [run for run in evaluation_log.runs(engine, collection) if "file" not in run.setup.settings]
    if number is not None and number not in {run.evaluation for run in main_runs}:
        numbers = ", ".join(str(run.evaluation) for run in main_runs) or "none yet"
        raise BadInput(
            f"{collection} has no evaluation {number} (there are: {numbers}); "
            f"see them: dragoman runs list -c {collection}"
        )
    if not main_runs:
        return []
    run = next((run for run in main_runs if run.evaluation == number), main_runs[0])
    scores = evaluation_log.scores(engine, run.id)
    for counterpart in _counterparts(run, main_runs):
        scores_by_run = {run.id: scores, counterpart.id: evaluation_log.scores(engine, counterpart.id)}
        common = scores.keys() & scores_by_run[counterpart.id].keys()
        if not common:
            continue
        alike = _label(run) == _label(counterpart)
        return [
            ShownEvaluation(
                f"evaluation {shown.evaluation}" if alike else _label(shown),
                shown,
                {qid: values for qid, values in scores_by_run[shown.id].items() if qid in common},
            )
            for shown in sorted((run, counterpart), key=lambda shown: (shown.calibrated, shown.evaluation))
        ]
    return [ShownEvaluation(_label(run), run, scores)]


def common_topics(shown_evaluations: Sequence[ShownEvaluation]) -> str:
    """The sentence that says which topics two evaluations have in common; empty if they have the same topics."""
    if all(len(evaluation.scores) == evaluation.run.topics for evaluation in shown_evaluations):
        return ""
    counts = " and ".join(
        f"evaluation {evaluation.run.evaluation} has {counted(evaluation.run.topics, 'topic')}"
        for evaluation in shown_evaluations
    )
    qids = sorted(shown_evaluations[0].scores)
    names = ", ".join(qids[:_NAMED]) + (f" … {qids[-1]}" if len(qids) > _NAMED else "")
    return f"Both evaluations are compared over the {counted(len(qids), 'topic')} in common ({names}): {counts}."


def _counterparts(run: LoggedRun, main_runs: Sequence[LoggedRun]) -> list[LoggedRun]:
    """Runs with other settings and the same judgements: first the same topics, then plain cosine, then the newest."""
    candidates = (
        candidate
        for candidate in main_runs
        if candidate.evaluation != run.evaluation
        and (candidate.kind, candidate.lang) == (run.kind, run.lang)
        and candidate.judged_by == run.judged_by
        and _ranked_by(candidate) != _ranked_by(run)
        and main_measure([candidate, run])
    )

    def order(candidate: LoggedRun) -> tuple[bool, bool]:
        return candidate.setup.topics_hash != run.setup.topics_hash, candidate.calibrated == run.calibrated

    return sorted(candidates, key=order)


def _ranked_by(run: LoggedRun) -> dict[str, object]:
    others = {"build", "languages", "lexicons", "maps", "reranking_seconds", "targets", "taught"}
    return {name: value for name, value in run.setup.settings.items() if name not in others}


def _label(run: LoggedRun) -> str:
    hybrid = ", hybrid" if run.setup.settings.get("hybrid") else ""
    return f"{'calibrated' if run.calibrated else 'plain cosine'}{hybrid}"


def main_measure(runs: Sequence[LoggedRun]) -> str | None:
    """The quality measure that all runs have: average precision, or else the first; None if there is none."""
    shared = [name for name in runs[0].means if all(name in run.means for run in runs)]
    good = [name for name in shared if name != JUDGED and not is_fairness(name)]
    return "AP" if "AP" in good else next(iter(good), None)


def by_topic(before: ShownEvaluation, after: ShownEvaluation) -> Comparison:
    """Compare two evaluations by topic: the mean difference over the languages of the topic's queries."""
    measure = main_measure([before.run, after.run]) or "AP"
    (comparison,) = corrected(
        compare(before.label, before.scores, after.label, after.scores, [measure], topic=after.run.topic)
    )
    values_by_topic: dict[str, list[float]] = {}
    for qid, difference in comparison.differences.items():
        values_by_topic.setdefault(after.run.topic(qid), []).append(difference)
    differences = {topic: sum(values) / len(values) for topic, values in values_by_topic.items()}
    wins, losses = (sum(sign * value > 0 for value in differences.values()) for sign in (1, -1))
    ties = len(differences) - wins - losses
    return replace(comparison, differences=differences, wins=wins, losses=losses, ties=ties)
