"""Which documents teach: of fitting length, about a concept that another language has too, linked over languages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from encoders.cr5.corpus import Counts
from encoders.cr5.settings import WordLimits
from encoders.errors import BadInput

IntArray = npt.NDArray[np.int64]
Rows = Mapping[str, IntArray]
"""Rows of each language's documents."""

_ENOUGH = 0.5
"""Share of the concepts that must be left for documents to be refused for their length."""


def of_fitting_length(counts: Mapping[str, Counts], limits: WordLimits) -> tuple[Rows, str]:
    """Documents within the limits; all of them, and a sentence that says so, where too few concepts would be left."""
    every = {lang: np.arange(len(one.concepts)) for lang, one in counts.items()}
    within: Rows = {
        lang: np.flatnonzero((one.distinct >= limits.least) & (one.distinct <= limits.most))
        for lang, one in counts.items()
    }
    some, all_ = (len(_shared(counts, rows)) for rows in (within, every))
    if some >= _ENOUGH * all_:
        return within, ""
    said = (
        f"only {some:,} of {all_:,} concepts have documents of {limits.least} to {limits.most:,} different words "
        "in two languages, so documents of every length are taken"
    )
    return every, said


def linked(counts: Mapping[str, Counts], rows: Rows) -> Rows:
    """Documents whose concept has one in another language too; languages without any are left out.

    Raises:
        BadInput: none is left, or the languages fall apart into groups that share no concept.
    """
    if len(counts) < 2:
        raise BadInput(
            f"the documents are all in one language ({', '.join(counts) or 'none'}); "
            "give some about the same concepts in another"
        )
    shared = np.array(sorted(_shared(counts, rows)), dtype=np.int64)
    kept = {lang: those[np.isin(counts[lang].concepts[those], shared)] for lang, those in rows.items()}
    kept = {lang: those for lang, those in kept.items() if len(those)}
    if not kept:
        raise BadInput(
            "no concept has documents in two languages; "
            "translations of one document need the same value in their field concept (--field concept=THEIRS)"
        )
    groups = _groups({lang: set(counts[lang].concepts[those].tolist()) for lang, those in kept.items()})
    if len(groups) > 1:
        apart = " from ".join(", ".join(group) for group in groups)
        raise BadInput(
            f"no concept links {apart}; give documents that do, in these or in a third language, "
            "or train them apart with --languages"
        )
    return kept


def dealt(counts: Mapping[str, Counts], rows: Rows, pivots: Sequence[str]) -> Rows:
    """Transitive training: a concept keeps its pivots' documents and one other language's, the languages taking turns.

    So no two languages but pivots share a concept, as in figure 1(c) of the paper, whose concepts that would be shared
    are left out altogether.

    Raises:
        BadInput: a pivot is not among the languages.
    """
    missing = [pivot for pivot in pivots if pivot not in counts]
    if missing:
        raise BadInput(f"there are no documents in the pivot {missing[0]}; choose among {', '.join(sorted(counts))}")
    holders: dict[int, list[str]] = {}
    at_pivot = {int(concept) for pivot in pivots for concept in counts[pivot].concepts[rows[pivot]]}
    for lang in sorted(set(rows) - set(pivots)):
        for concept in np.unique(counts[lang].concepts[rows[lang]]).tolist():
            if concept in at_pivot:
                holders.setdefault(concept, []).append(lang)
    taken = dict.fromkeys(rows, 0)
    chosen: dict[int, str] = {}
    for concept in sorted(holders, key=lambda one: (len(holders[one]), one)):
        chosen[concept] = min(holders[concept], key=lambda lang: (taken[lang], lang))
        taken[chosen[concept]] += 1
    return {
        lang: those
        if lang in pivots
        else those[[chosen.get(int(concept)) == lang for concept in counts[lang].concepts[those]]]
        for lang, those in rows.items()
    }


def _shared(counts: Mapping[str, Counts], rows: Rows) -> set[int]:
    """Concepts of documents in at least two languages."""
    langs: dict[int, int] = {}
    for lang, those in rows.items():
        for concept in np.unique(counts[lang].concepts[those]).tolist():
            langs[concept] = langs.get(concept, 0) + 1
    return {concept for concept, count in langs.items() if count > 1}


def _groups(concepts: Mapping[str, set[int]]) -> list[list[str]]:
    """Languages in groups that share concepts, directly or by way of others of the group."""
    groups: list[tuple[list[str], set[int]]] = []
    for lang, own in sorted(concepts.items()):
        touching = [group for group in groups if group[1] & own]
        merged = (
            [name for names, _ in touching for name in names] + [lang],
            own.union(*(seen for _, seen in touching)),
        )
        groups = [group for group in groups if group not in touching] + [merged]
    return [sorted(names) for names, _ in groups]
