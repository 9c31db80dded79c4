"""Paired significance tests of two runs over topics, with Holm's step-down correction over all comparisons shown.

The two-sided randomisation test is Fisher's, which Smucker, Allan and Carterette (CIKM 2007) recommend for retrieval.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from encoders.errors import BadInput

ALPHA = 0.05
"""Corrected p below which a difference is marked."""
HIGHER, LOWER = "▲", "▼"
EXACT_TOPICS = 12
"""Greatest number of topics for which every assignment of signs is tried."""
RESAMPLES = 100_000
SEED = 20_250_101
_CHUNK = 1024

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Comparison:
    """One measure of two runs over the topics that both have.

    A topic asked in several languages (``qid.lang`` of a pooled run) is one observation to the tests: the sum over its
    versions, which depend on each other. All else is over versions.
    """

    measure: str
    baseline: str  # name of the run that ``run`` is compared with; ``baseline_mean`` is its mean over the common topics
    run: str  # name of the run that is compared; ``run_mean`` is its mean over the common topics
    baseline_mean: float
    run_mean: float
    difference: float  # ``run_mean - baseline_mean``
    effect: float  # difference by the standard deviation of the differences (Cohen's d for pairs); 0 if they don't vary
    wins: int  # number of topics where ``run`` is better; at ``losses`` it is worse, at ``ties`` both are equal
    losses: int
    ties: int
    p_randomisation: float  # two-sided p of the randomisation test
    p_t: float | None  # two-sided p of the paired t-test; none with a single topic
    p_holm: float  # ``p_randomisation`` corrected for all comparisons made together
    observations: int  # number of independent topics in the tests
    exact: bool  # whether all assignments of signs were tried
    differences: Mapping[str, float]  # by topic id, the value of ``run`` minus that of ``baseline``
    left_out: int  # number of topics that only one of the runs has

    @property
    def mark(self) -> str:
        """Whether the mean of ``run`` is significantly higher or lower, after correction; empty: neither."""
        if self.p_holm >= ALPHA:
            return ""
        return HIGHER if self.difference > 0 else LOWER


Topics = Mapping[str, Mapping[str, float]]
"""Values by topic id and measure: ``Scores.topics``."""


def means_by_topic(values: npt.NDArray[np.floating], topics: Sequence[str] | Sequence[int]) -> Floats:
    """(topics,) mean of the (n,) values of each topic, topics in order, so that a topic is one observation."""
    places = np.unique(topics, return_inverse=True)[1]
    return np.asarray(np.bincount(places, values) / np.bincount(places), dtype=np.float64)


def is_sure(gains: npt.NDArray[np.floating], by_chance: float = ALPHA) -> bool:
    """Whether the mean of (n,) gains is above zero by a one-sided t-test at ``by_chance``; false below two gains."""
    if len(gains) < 2:
        return False
    error = float(gains.std(ddof=1)) / len(gains) ** 0.5
    return bool(gains.mean() > errors_by_chance(len(gains), by_chance) * error)


def errors_by_chance(observations: int, by_chance: float) -> float:
    """Quantile of Student's t: standard errors by which a mean exceeds its expectation with a probability."""
    from scipy.special import stdtrit  # noqa: PLC0415 - only decisions need it

    return float(stdtrit(observations - 1, 1 - by_chance))


def compare(
    baseline: str,
    baseline_scores: Topics,
    run: str,
    run_scores: Topics,
    measures: Sequence[str],
    *,
    topic: Callable[[str], str] = str,
) -> list[Comparison]:
    """Compare a run with a baseline over their common topics: a comparison for each measure, not yet corrected.

    A topic without a value of a measure is left out of it. ``topic`` gives the topic that an id is a version of: the
    independent observations. Raises BadInput: the runs share no topic, or a run lacks a measure.
    """
    if not baseline_scores.keys() & run_scores.keys():
        raise BadInput(f"the runs {baseline} and {run} share no topic; compare runs over the same topics")
    by_topics: dict[tuple[str, ...], list[str]] = {}
    for measure in measures:
        of_both = baseline_scores, run_scores
        measured = [{qid for qid, values in scores.items() if measure in values} for scores in of_both]
        for name, of_run in zip((baseline, run), measured, strict=True):
            if not of_run:
                raise BadInput(f"the run {name} was not measured with {measure}; choose a measure that both have")
        common = measured[0] & measured[1]
        if not common:
            raise BadInput(f"the runs {baseline} and {run} share no topic with {measure}; choose another measure")
        by_topics.setdefault(tuple(sorted(common)), []).append(measure)
    left_out = len(baseline_scores.keys() ^ run_scores.keys())
    comparisons = {
        comparison.measure: comparison
        for qids, of_topics in by_topics.items()
        for comparison in _compare(baseline, baseline_scores, run, run_scores, of_topics, qids, left_out, topic)
    }
    return [comparisons[measure] for measure in measures]


def _compare(
    baseline: str,
    baseline_scores: Topics,
    run: str,
    run_scores: Topics,
    measures: Sequence[str],
    qids: Sequence[str],
    left_out: int,
    topic: Callable[[str], str],
) -> list[Comparison]:
    baseline_values, run_values = (
        np.array([[scores[qid][measure] for measure in measures] for qid in qids], dtype=np.float64)
        for scores in (baseline_scores, run_scores)
    )
    differences = run_values - baseline_values
    clusters, members = np.unique([topic(qid) for qid in qids], return_inverse=True)
    observed = np.zeros((len(clusters), len(measures)))
    np.add.at(observed, members, differences)
    p_values = randomisation_test(observed)
    return [
        Comparison(
            measure=measure,
            baseline=baseline,
            run=run,
            baseline_mean=float(baseline_values[:, column].mean()),
            run_mean=float(run_values[:, column].mean()),
            difference=float(difference.mean()),
            effect=0.0 if _all_equal(difference) else float(difference.mean() / difference.std(ddof=1)),
            wins=int((difference > 0).sum()),
            losses=int((difference < 0).sum()),
            ties=int((difference == 0).sum()),
            p_randomisation=float(p_values[column]),
            p_t=t_test(observed[:, column]),
            p_holm=float(p_values[column]),
            observations=len(clusters),
            exact=len(clusters) <= EXACT_TOPICS,
            differences=dict(zip(qids, difference.tolist(), strict=True)),
            left_out=left_out,
        )
        for column, (measure, difference) in enumerate(zip(measures, differences.T, strict=True))
    ]


def corrected(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The same comparisons with ``p_holm`` set for all of them together."""
    p_values = holm([comparison.p_randomisation for comparison in comparisons])
    return [replace(comparison, p_holm=p_value) for comparison, p_value in zip(comparisons, p_values, strict=True)]


def randomisation_test(differences: Floats) -> Floats:
    """(measures,) two-sided p in (0, 1] that the mean (topics, measures) difference is 0, by flipping topics' signs.

    With up to ``EXACT_TOPICS`` topics all assignments of signs are tried, else ``RESAMPLES`` random ones and the
    observed, the same in every call, so that p is never 0.
    """
    topics, measures = differences.shape
    exact = topics <= EXACT_TOPICS
    total = 1 << topics if exact else RESAMPLES
    sums = differences.sum(axis=0)
    tolerance = 1e-12 * np.maximum(np.abs(differences).sum(axis=0), 1e-300)
    at_least = np.zeros(measures, dtype=np.int64) if exact else np.ones(measures, dtype=np.int64)
    random = np.random.default_rng(SEED)
    for start in range(0, total, _CHUNK):
        count = min(_CHUNK, total - start)
        if exact:
            flips = (np.arange(start, start + count, dtype=np.int64)[:, None] >> np.arange(topics)) & 1
        else:
            packed = random.integers(0, 256, size=(count, -(-topics // 8)), dtype=np.uint8)
            flips = np.unpackbits(packed, axis=1, count=topics).astype(np.int64)
        flipped = sums - 2 * (flips.astype(np.float64) @ differences)
        at_least += (np.abs(flipped) >= np.abs(sums) - tolerance).sum(axis=0)
    return at_least / (total if exact else total + 1)


def t_test(differences: Floats) -> float | None:
    """Two-sided p of the paired t-test over (topics,) differences; none with one topic. If all are equal: 1 or 0."""
    if len(differences) < 2:
        return None
    if _all_equal(differences):
        return 0.0 if differences.any() else 1.0
    from scipy import stats  # noqa: PLC0415 - half a second

    return float(stats.ttest_1samp(differences, 0.0).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p values by Holm's step-down method: to reject those below α has a family-wise error of at most α."""
    order = np.argsort(p_values, kind="stable")
    corrected_ps = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected_ps[index] = highest
    return corrected_ps


def _all_equal(differences: Floats) -> bool:
    return bool(np.ptp(differences) <= 1e-12 * np.abs(differences).max())
