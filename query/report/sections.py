"""The sections of a report: each a picture and a text with its numbers, or the reason why there is no picture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from indexer.stores.contract import VectorStore
from query.calibration.calibration import Calibration
from query.calibration.calibration_choice import differing_in_balance
from query.calibration.summary import Summary
from query.evaluation.measures import mean_name
from query.evaluation.significance import Comparison
from query.fitting import bias
from query.fitting.bias import NEIGHBOURS, VectorSample
from query.fitting.probe import BALANCES
from query.fitting.separability import separability
from query.ranking.search_choice import PLAIN, SearchChoice
from query.report.figures import (
    BalancePoint,
    balance_figure,
    inline_svg,
    languages_figure,
    pairs_figure,
    separability_figure,
)
from query.report.first_hits import first_hits
from query.report.language_pairs import PairTable, shares_by_pair
from query.report.page import Section, Table

LANGUAGES = "Where the languages lie"
SEPARABILITY = "Whether a classifier can tell the languages apart"
BALANCE = "What the balance does"
PAIRS = "Which languages find which"
TOPICS = "Topic by topic"

FIRST = 10
"""Hits per query whose languages are counted if there are no judgements."""
_FEWEST = NEIGHBOURS + 1
_EVIDENCE = {
    "judgements": "MAP of held-out topics",
    "concepts": "MAP of held-out pseudo-queries",
    "mates": "MAP of held-out pseudo-queries",
    "titles": "MRR of a title's own document",
    "languages": "MRR of a title's own document",
}


def languages_section(sample: VectorSample, without: str) -> Section:
    """The sample in the plane, raw and corrected; ``without`` says how to calibrate if there is no calibration."""
    if len(sample.raw) < _FEWEST:
        too_few = f"Too few documents for a picture: {len(sample.raw)}, and it takes {_FEWEST}."
        return Section(LANGUAGES, "", too_few)
    vectors_by_title = {"as the encoder made them": sample.raw}
    if sample.corrected is not None:
        vectors_by_title["corrected by the calibration"] = sample.corrected
    shares = [bias.neighbour_share(vectors, sample.langs) for vectors in vectors_by_title.values()]
    text = (
        f"Each dot is one of {len(sample.raw):,} documents, its colour and form the language; dots of one kind that "
        f"lie together are a language that keeps to itself. Of a document's {NEIGHBOURS} nearest neighbours "
        f"{_percent(shares[0])} are in its own language as the encoder made them"
    )
    text += f", and {_percent(shares[1])} corrected" if len(shares) > 1 else ""
    text += f"; {_percent(bias.fair_share(sample.langs))} would be fair."
    text += f" {without}" if sample.corrected is None else ""
    panels = {title: bias.projection(vectors) for title, vectors in vectors_by_title.items()}
    return Section(LANGUAGES, inline_svg(partial(languages_figure, panels, sample.langs), "languages", text), text)


def separability_section(sample: VectorSample) -> Section:
    """Accuracy of the language classifier, raw and corrected."""
    raw = separability(sample.raw, sample.langs)
    if raw is None:
        return Section(SEPARABILITY, "", "Telling languages apart takes five documents in each of two languages.")
    accuracies = {"as the encoder made them": raw.accuracy}
    corrected = separability(sample.corrected, sample.langs) if sample.corrected is not None else None
    if corrected:
        accuracies["corrected"] = corrected.accuracy
    chance = 1 / raw.languages
    text = (
        "A linear classifier (SVM) learns the languages of four fifths of the sample and guesses those of the rest: "
        f"it is right for {_percent(raw.accuracy)} of them as the encoder made them"
    )
    text += f", and for {_percent(corrected.accuracy)} corrected" if corrected else ""
    text += f"; blind guessing gives {_percent(chance)}."
    if corrected and corrected.accuracy < chance:
        text += " Below guessing is no better than it: the means that were taken out are those of these very documents."
    picture = inline_svg(partial(separability_figure, accuracies, chance), "separability", text)
    return Section(SEPARABILITY, picture, text)


def balance_section(store: VectorStore, calibration: Calibration, summary: Summary) -> Section:
    """Own-language share and quality against balance: from the probe's table, or measured by pseudo-queries."""
    points = _probed(summary)
    measure = _EVIDENCE.get(summary.decided_by, "")
    fair = 1 / max(len(calibration.languages), 1)
    share = "the share of the first hits that are no answers"  # the hits that the probe counts
    if len(points) < 3:
        points = _measured(store, calibration)
        share = "by documents' vectors alone, the share of the pseudo-queries' first hits"
        measure = ""
        if not points:
            return Section(BALANCE, "", "The calibration has no pseudo-queries: there was no text to make them of.")
    first, last = points[0], points[-1]
    text = (
        f"From balance {first.balance:g} to {last.balance:g}, {share} that "
        f"are in the query's own language goes from {_percent(first.own_language)} to {_percent(last.own_language)}; "
        f"{_percent(fair)} would be fair."
    )
    if first.value is not None and last.value is not None:
        best = max(points, key=lambda point: point.value or 0.0)
        text += (
            f" Meanwhile {measure} goes from {first.value:.3f} to {last.value:.3f}, and is best at balance "
            f"{best.balance:g}."
        )
    text += f" Searches use balance {calibration.balance:g}."
    draw = partial(balance_figure, points, calibration.balance, fair, measure)
    return Section(BALANCE, inline_svg(draw, "dial", text), text)


def _probed(summary: Summary) -> list[BalancePoint]:
    """The probe's trials that differ from the chosen trial in nothing but the balance, sorted by balance."""
    chosen = next((trial.choice for trial in summary.tried if trial.chosen), None)
    points = [
        BalancePoint(trial.choice.balance, trial.own_language, trial.held_out)
        for trial in (differing_in_balance(summary.tried, chosen) if chosen else ())
    ]
    return sorted(points, key=lambda point: point.balance)


def _measured(store: VectorStore, calibration: Calibration) -> list[BalancePoint]:
    depth = len(store.count())
    points = []
    for balance in BALANCES:
        hits = first_hits(store, calibration, SearchChoice(balance, calibration.margin, passages=False), depth)
        if not hits.query_langs:
            return []
        points.append(BalancePoint(balance, hits.own_language(depth), None))
    return points


def pair_shares(store: VectorStore, calibration: Calibration) -> dict[str, PairTable]:
    """Shares of the first hits by language pair for pseudo-queries, by plain cosine and calibrated."""
    tables = {}
    for title, choice in (
        ("plain cosine", PLAIN),
        ("calibrated", replace(SearchChoice.of(calibration), passages=False)),
    ):
        tables[title] = shares_by_pair(first_hits(store, calibration, choice, FIRST), sorted(store.count()))
    return tables


def pairs_section(tables: Mapping[str, PairTable], measure: str, what: str) -> Section:
    """Heat maps of the ``tables`` by title, with ``measure`` in the cells; the sentence ``what`` explains a cell."""
    if not any(table.values.size and not _empty(table) for table in tables.values()):
        return Section(PAIRS, "", "Nothing could be counted: no query found a document whose language is known.")
    means = [(title, *table.means()) for title, table in tables.items()]
    means_text = "; ".join(
        f"{title}: {_number(same)} within one language, {_number(across)} across languages"
        for title, same, across in means
    )
    text = f"{what} In the mean: {means_text}. The nearer the two, the fairer."
    return Section(PAIRS, inline_svg(partial(pairs_figure, tables, measure), "pairs", text), text)


def with_verdicts(section: Section, title: str, table: PairTable) -> Section:
    """Add to the section of pairs what each pair has of what the documents' own language has, in one ranking."""
    shares = table.shares_of_own()
    across = [
        (shares[row, column], lang, documents)
        for row, lang in enumerate(table.queries)
        for column, documents in enumerate(table.documents)
        if lang != documents and np.isfinite(shares[row, column])
    ]
    if not across:
        return section
    share, lang, documents = min(across)
    weakest = f"topics in {lang} get {_percent(share)} of what topics in {documents} get for documents in {documents}"
    text = f"{section.text} The weakest pair ({title}): {weakest}. The table has this share for every pair."
    rows = [
        (f"asked in {lang}", [_percent(value) if np.isfinite(value) else "–" for value in shares[row]])
        for row, lang in enumerate(table.queries)
    ]
    columns = [f"documents in {documents}" for documents in table.documents]
    return replace(section, text=text, table=Table(columns, rows))


def topics_section(comparison: Comparison) -> Section:
    """Difference between two evaluations, a bar for each topic."""
    from query.evaluation.plots import difference_figure  # noqa: PLC0415 - matplotlib is only for this

    text = (
        f"Each bar is a topic, as high as {comparison.run} is better at it than {comparison.baseline}: "
        f"{comparison.wins} of {len(comparison.differences)} topics gain, {comparison.losses} lose; "
        f"{mean_name(comparison.measure)} goes from {comparison.baseline_mean:.3f} to {comparison.run_mean:.3f}."
    )
    return Section(TOPICS, inline_svg(partial(difference_figure, [comparison]), "topics", text), text)


def nothing_to_compare(languages: Sequence[str]) -> list[Section]:
    """The sections on languages for a collection with a single language: each says that nothing can be compared."""
    text = f"All documents are in one language ({', '.join(languages)}): there is none to compare it with."
    return [Section(title, "", text) for title in (LANGUAGES, SEPARABILITY, BALANCE, PAIRS)]


def _empty(table: PairTable) -> bool:
    return all(math.isnan(value) for value in table.values.ravel())


def _percent(share: float) -> str:
    return f"{share:.0%}"


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2f}"
