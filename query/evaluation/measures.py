"""Scores: a run against relevance judgements, by ir-measures (trec_eval's own code behind it)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encoders.errors import BadInput
from query.evaluation.trec_run import Run

if TYPE_CHECKING:
    from ir_measures import Qrel

DEFAULT_MEASURES = ("AP", "nDCG@10", "R@100", "P@10")
JUDGED = "Judged@10"
"""Share of the first ten that somebody judged: always measured, because unjudged counts as wrong."""

_HINT = f"use names of ir-measures such as {', '.join(DEFAULT_MEASURES)}"

Measure = Any
"""An ``ir_measures`` measure; the library has no types."""


@dataclass(frozen=True)
class Scores:
    """What a run reached.

    Attributes:
        means: over the topics, by measure, in the order asked for; ``Judged@10`` is the last.
        topics: by topic id, its value by measure.
        unjudged: ids of topics asked for that have no relevant document in the qrels, and so are left out.
        without_hits: ids of topics that count 0 because the run found nothing.
    """

    means: Mapping[str, float]
    topics: Mapping[str, Mapping[str, float]]
    unjudged: Sequence[str] = ()
    without_hits: Sequence[str] = ()

    def values(self, measure: str) -> dict[str, float]:
        """One measure's value by topic id."""
        return {qid: values[measure] for qid, values in self.topics.items()}


def parse_measures(names: Iterable[str]) -> tuple[Measure, ...]:
    """Measures by their ir-measures names, several in a string with blanks or commas between; adds ``Judged@10``.

    Raises:
        BadInput: none is named, or a name is no measure, or one that needs a number or a program that is not there.
    """
    words = [word for name in names for word in _words(name)]
    if not words:
        raise BadInput(f"no measure is named; {_HINT}")
    measures = dict.fromkeys(map(_parse_measure, words))
    judged = _parse_measure(JUDGED)
    return (*(measure for measure in measures if measure != judged), judged)


def _words(names: str) -> Iterator[str]:
    """Parts between blanks and commas that stand outside brackets: ``P(rel=2, judged_only=True)@5, AP`` is two."""
    depth, word = 0, ""
    for letter in names:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth <= 0 and (letter.isspace() or letter == ","):
            if word:
                yield word
            word = ""
        else:
            word += letter
    if word:
        yield word


def _parse_measure(name: str) -> Measure:
    import ir_measures  # noqa: PLC0415 - half a second

    try:
        measure = ir_measures.parse_measure(name)
        measure.validate_params()
    except (ValueError, NameError, KeyError, TypeError, AssertionError) as error:
        raise BadInput(f"{name!r} is no measure; {_HINT}") from error
    if "cutoff" in measure.params and measure["cutoff"] < 1:
        raise BadInput(f"{name!r} looks at no document at all; give it a number from 1")
    if not ir_measures.DefaultPipeline.supports(measure):
        raise BadInput(f"{name!r} lacks a cutoff such as @10, or a program that is not installed; {_HINT}")
    return measure


def relevant_topics(qrels: Iterable[Qrel]) -> set[str]:
    """Ids of topics with a relevant document."""
    return {qrel.query_id for qrel in qrels if qrel.relevance > 0}


def evaluate(
    run: Run, qrels: Sequence[Qrel], measures: Sequence[Measure], topics: Collection[str] | None = None
) -> Scores:
    """Score a run.

    A topic with relevant documents and no hits counts 0; one without any relevant document is left out.

    Args:
        run: what was found.
        qrels: the judgements; those of topics that are not asked for don't count.
        measures: from ``parse_measures``.
        topics: ids that were asked; by default those of the run and of the qrels.

    Raises:
        BadInput: no topic is left.
    """
    import ir_measures  # noqa: PLC0415

    asked = set(topics) if topics is not None else {*run.rankings, *(qrel.query_id for qrel in qrels)}
    judged = relevant_topics(qrels) & asked
    if not judged:
        raise BadInput(
            f"no topic of {run.tag!r} ({len(asked):,}) has a relevant document in the qrels; "
            "check that topics and qrels belong together and name their topics alike"
        )
    result = ir_measures.calc(
        measures,
        [qrel for qrel in qrels if qrel.query_id in judged],
        [ir_measures.ScoredDoc(qid, *scored) for qid in judged for scored in run.rankings.get(qid, ())],
    )
    values: dict[str, dict[str, float]] = {qid: dict.fromkeys(map(str, measures), 0.0) for qid in sorted(judged)}
    for metric in result.per_query:
        values[metric.query_id][str(metric.measure)] = float(metric.value)
    return Scores(
        means={str(measure): float(result.aggregated[measure]) for measure in measures},
        topics=values,
        unjudged=sorted(asked - judged),
        without_hits=sorted(qid for qid in judged if not run.rankings.get(qid)),
    )


def pooled(scores: Mapping[str, Scores], measures: Sequence[Measure]) -> Scores:
    """The scores of all topic languages' runs as of one run whose topics are ``qid.lang``.

    Args:
        scores: by topic language.
        measures: from ``parse_measures``.
    """
    topics = {f"{qid}.{lang}": values for lang, one in scores.items() for qid, values in one.topics.items()}
    means: dict[str, float] = {}
    for measure in measures:
        total = measure.aggregator()
        for values in topics.values():
            total.add(values[str(measure)])
        means[str(measure)] = float(total.result())
    return Scores(
        means=means,
        topics=topics,
        unjudged=[f"{qid}.{lang}" for lang, one in scores.items() for qid in one.unjudged],
        without_hits=[f"{qid}.{lang}" for lang, one in scores.items() for qid in one.without_hits],
    )
