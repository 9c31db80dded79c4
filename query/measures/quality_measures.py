"""Scores of a run against relevance judgements, by ir-measures (which uses trec_eval's code)."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from subprocess import CalledProcessError
from typing import Any

from encoders.errors import BadInput
from query.trec_files.qrels import Qrel
from query.trec_files.trec_run import Run

DEFAULT_MEASURES = ("AP", "nDCG@10", "R@100", "P@10")
JUDGED = "Judged@10"
"""Share of the first ten hits that are judged: always measured, because an unjudged hit counts as not relevant."""

_HINT = f"use names of ir-measures such as {', '.join(DEFAULT_MEASURES)}, or of trec_eval"
MEASURE_NAME = re.compile(r"(?:\([^)]*\)?|[^\s,(])+")
"""A name between blanks and commas outside brackets: ``P(rel=2, judged_only=True)@5, AP`` has two."""
_TREC_NAME = re.compile(r"[A-Za-z_]+(?:[._]\d+(?:\.\d+)?)?")

Measure = Any
"""An ``ir_measures`` measure; the library has no types."""


@dataclass(frozen=True)
class Scores:
    """The scores of a run."""

    means: Mapping[str, float]  # mean over the topics by measure, in the order asked for; ``Judged@10`` is the last
    topics: Mapping[str, Mapping[str, float]]  # values by topic id and measure
    unjudged: Sequence[str] = ()  # ids of topics that are left out because the qrels have no relevant document for them
    without_hits: Sequence[str] = ()  # ids of topics that count 0 because the run has no hits for them

    def values(self, measure: str) -> dict[str, float]:
        """The values of one measure by topic id."""
        return {qid: values[measure] for qid, values in self.topics.items()}


def means_of(topics: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Mean of each measure over the topics that have it, of values by topic id and measure."""
    by_measure: dict[str, list[float]] = {}
    for values in topics.values():
        for measure, value in values.items():
            by_measure.setdefault(measure, []).append(value)
    return {measure: sum(values) / len(values) for measure, values in by_measure.items()}


def mean_name(measure: str) -> str:
    """The name of a measure's mean over topics: that of average precision has a name of its own, MAP."""
    return "MAP" if measure == "AP" else measure


def parse_measures(names: Iterable[str]) -> tuple[Measure, ...]:
    """Measures by names of ir-measures or trec_eval, and ``Judged@10``, several between blanks or commas.

    Raises BadInput: no measure is named, a name is no measure, or a measure lacks its cutoff or a program.
    """
    words = [word for name in names for word in MEASURE_NAME.findall(name)]
    if not words:
        raise BadInput(f"no measure is named; {_HINT}")
    measures = dict.fromkeys(map(_parse_measure, words))
    judged = _parse_measure(JUDGED)
    return (*(measure for measure in measures if measure != judged), judged)


def _parse_measure(name: str) -> Measure:
    import ir_measures  # noqa: PLC0415 - half a second

    try:
        measure = ir_measures.parse_measure(name)
        measure.validate_params()
    except (ValueError, NameError, KeyError, TypeError, AssertionError) as error:
        measure = _trec_measure(name)
        if measure is None:
            raise BadInput(f"{name!r} is no measure; {_HINT}") from error
    if "cutoff" in measure.params and measure["cutoff"] < 1:
        raise BadInput(f"{name!r} looks at no document at all; give it a number from 1")
    if not ir_measures.DefaultPipeline.supports(measure):
        raise BadInput(f"{name!r} lacks a cutoff such as @10, or a program that is not installed; {_HINT}")
    return measure


def _trec_measure(name: str) -> Measure | None:
    """The measure that trec_eval calls by a name, such as ``map``, ``ndcg_cut_10``, ``P_10``; none: not exactly one."""
    import ir_measures  # noqa: PLC0415
    import pytrec_eval  # noqa: PLC0415

    if not _TREC_NAME.fullmatch(name) or name in pytrec_eval.supported_nicknames:
        return None
    try:
        measures = ir_measures.parse_trec_measure(name)
    except (ValueError, KeyError, TypeError):
        return None
    return measures[0] if len(measures) == 1 else None


def standard_name(name: str) -> str:
    """The name that measures are logged by, for one of trec_eval or MAP; a name of no measure of theirs unchanged."""
    try:
        return str(_parse_measure(name))
    except BadInput:
        return name


def relevant_topics(qrels: Iterable[Qrel]) -> set[str]:
    """Ids of topics with a relevant document."""
    return {qrel.query_id for qrel in qrels if qrel.relevance > 0}


def score(
    run: Run, qrels: Sequence[Qrel], measures: Sequence[Measure], topics: Collection[str] | None = None
) -> Scores:
    """Score a run. A topic with relevant documents and no hits counts 0; without any relevant document it is left out.

    ``topics`` are by default those of the run and of the qrels. Raises BadInput: no topic has a relevant document, or a
    measure can't be computed from these grades.
    """
    import ir_measures  # noqa: PLC0415

    topic_ids = set(topics) if topics is not None else {*run.rankings, *(qrel.query_id for qrel in qrels)}
    judged = relevant_topics(qrels) & topic_ids
    if not judged:
        raise BadInput(
            f"no topic of {run.tag!r} ({len(topic_ids):,}) has a relevant document in the qrels; "
            "check that topics and qrels belong together and name their topics alike"
        )
    qids = sorted(judged)
    numbers = {qid: str(number) for number, qid in enumerate(qids)}  # gdeval, which computes ERR, knows numbers alone
    try:
        result = ir_measures.calc(
            measures,
            [qrel._replace(query_id=numbers[qrel.query_id]) for qrel in qrels if qrel.query_id in judged],
            [ir_measures.ScoredDoc(numbers[qid], *scored) for qid in qids for scored in run.rankings.get(qid, ())],
        )
    except (ArithmeticError, CalledProcessError) as error:
        failed = f"one of {', '.join(map(str, measures))} fails ({error})"
        raise BadInput(f"{failed}; leave it out: ERR takes no grade above 4 and no id with a blank") from error
    values: dict[str, dict[str, float]] = {qid: dict.fromkeys(map(str, measures), 0.0) for qid in qids}
    for metric in result.per_query:
        values[qids[int(metric.query_id)]][str(metric.measure)] = float(metric.value)
    return Scores(
        means={str(measure): float(result.aggregated[measure]) for measure in measures},
        topics=values,
        unjudged=sorted(topic_ids - judged),
        without_hits=[qid for qid in qids if not run.rankings.get(qid)],
    )


def average_precision(doc_ids: Sequence[str], relevant: Collection[str]) -> float:
    """Average precision of a ranking with a relevant document, 0 to 1; trec_eval's AP where no scores are equal."""
    ranks = [rank for rank, doc_id in enumerate(doc_ids, 1) if doc_id in relevant]
    return sum(count / rank for count, rank in enumerate(ranks, 1)) / len(relevant)


def pooled(scores: Mapping[str, Scores], measures: Sequence[Measure]) -> Scores:
    """The scores of all topic languages' runs, by topic language, as of one run whose topics are ``qid.lang``."""
    topics = {
        f"{qid}.{lang}": values for lang, lang_scores in scores.items() for qid, values in lang_scores.topics.items()
    }
    means: dict[str, float] = {}
    for measure in measures:
        total = measure.aggregator()
        for values in topics.values():
            total.add(values[str(measure)])
        means[str(measure)] = float(total.result())
    return Scores(
        means=means,
        topics=topics,
        unjudged=[f"{qid}.{lang}" for lang, lang_scores in scores.items() for qid in lang_scores.unjudged],
        without_hits=[f"{qid}.{lang}" for lang, lang_scores in scores.items() for qid in lang_scores.without_hits],
    )
