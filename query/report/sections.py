"""The sections of a report: each a picture and a text with its numbers, or the reason why there is no picture."""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from indexer.stores.contract import VectorStore
from query.calibration.calibration import Calibration
from query.measures.consistency import PERSISTENCE
from query.report import bias
from query.report.bias import NEIGHBOURS, VectorSample
from query.report.figures import balance_figure, inline_svg, languages_figure, pairs_figure
from query.report.language_pairs import PairTable, first_hits, shares_by_pair
from query.report.report_page import Section

LANGUAGES = "Where the languages lie"
BALANCE = "What the balance does"
PAIRS = "Which languages find which"

FIRST = 10
"""Hits per query whose languages are counted if there are no judgements."""
BALANCES = (0.0, 0.25, 0.5, 0.625, 0.75, 0.875, 1.0)
"""Balances of the picture of the dial."""
_FEWEST = NEIGHBOURS + 1


def languages_section(sample: VectorSample, without: str) -> Section:
    """The sample in the plane, raw and corrected; ``without`` says how to calibrate if there is no calibration."""
    if len(sample.raw) < _FEWEST:
        return Section(LANGUAGES, "", f"Too few documents for a picture: {len(sample.raw)}, and it takes {_FEWEST}.")
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


def balance_section(store: VectorStore, calibration: Calibration) -> Section:
    """Own-language share of the pseudo-queries' first hits against balance."""
    depth, without_mates = len(store.count()), replace(calibration, mates=False)
    hits = {balance: first_hits(store, without_mates, balance, depth) for balance in BALANCES}
    if not hits[0.0].query_langs:
        return Section(BALANCE, "", "The calibration has no pseudo-queries: there was no text to make them of.")
    shares = {balance: of_balance.own_language(depth) for balance, of_balance in hits.items()}
    fair = 1 / max(len(calibration.languages), 1)
    text = (
        "From balance 0 to 1, by documents' vectors alone, the share of the pseudo-queries' first hits that are in the "
        f"query's own language goes from {_percent(shares[0.0])} to {_percent(shares[1.0])}; {_percent(fair)} would be "
        f"fair. Searches use balance {calibration.balance:g}."
    )
    draw = partial(balance_figure, shares, calibration.balance, fair)
    return Section(BALANCE, inline_svg(draw, "dial", text), text)


def pair_shares(store: VectorStore, calibration: Calibration) -> dict[str, PairTable]:
    """Shares of the first hits by language pair for pseudo-queries, by plain cosine and calibrated."""
    hits = {
        "plain cosine": first_hits(store, replace(calibration, mates=False), 0.0, FIRST),
        "calibrated": first_hits(store, calibration, calibration.balance, FIRST),
    }
    return {title: shares_by_pair(of_title, sorted(store.count())) for title, of_title in hits.items()}


def pairs_section(tables: Mapping[str, PairTable], what: str) -> Section:
    """Heat maps of the ``tables`` by title; the sentence ``what`` explains a cell."""
    if not any(np.isfinite(table.values).any() for table in tables.values()):
        return Section(PAIRS, "", "Nothing could be counted: no query found a document whose language is known.")
    means_text = "; ".join(
        "{}: {} within one language, {} across languages".format(title, *map(_number, table.means()))
        for title, table in tables.items()
    )
    text = f"{what} In the mean: {means_text}. The nearer the two, the fairer."
    return Section(PAIRS, inline_svg(partial(pairs_figure, tables, "share of the first hits"), "pairs", text), text)


def with_overlaps(section: Section, means: Mapping[tuple[str, str], float]) -> Section:
    """Add to the section of pairs how alike a topic's rankings in two languages are, by pair of languages."""
    if not means:
        return section
    least, *langs = min((mean, *pair) for pair, mean in means.items())
    mean = sum(means.values()) / len(means)
    text = f"the same topic's rankings in two languages have {mean:.2f} in the mean, least in {' and '.join(langs)}"
    return replace(section, text=f"{section.text} Rank-biased overlap (p {PERSISTENCE:g}): {text}, {least:.2f}.")


def _percent(share: float) -> str:
    return f"{share:.0%}"


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2f}"
