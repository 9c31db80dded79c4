"""Select training documents: of fitting length, about a concept of two languages, and linked over all languages."""

from collections.abc import Mapping, Sequence

import numpy as np

from encoders.cr5.bag_corpus import Counts
from encoders.cr5.cr5_settings import WordLimits
from encoders.document import IntArray
from encoders.errors import BadInput

Rows = Mapping[str, IntArray]
"""Rows of each language's documents."""

_ENOUGH = 0.5
"""Share of the concepts that the limits on length must leave; otherwise the limits are ignored."""


def rows_within_limits(counts: Mapping[str, Counts], limits: WordLimits) -> tuple[Rows, str]:
    """Documents within the limits and no remark; or, if too few concepts would be left, all documents and a remark."""
    all_rows = {lang: np.arange(len(lang_counts.concepts)) for lang, lang_counts in counts.items()}
    within: Rows = {
        lang: np.flatnonzero((lang_counts.distinct >= limits.least) & (lang_counts.distinct <= limits.most))
        for lang, lang_counts in counts.items()
    }
    fitting, total = (len(_shared(counts, rows)) for rows in (within, all_rows))
    if fitting >= _ENOUGH * total:
        return within, ""
    remark = (
        f"only {fitting:,} of {total:,} concepts have documents of {limits.least} to {limits.most:,} different words "
        "in two languages, so documents of every length are taken"
    )
    return all_rows, remark


def linked_rows(counts: Mapping[str, Counts], rows: Rows) -> Rows:
    """Documents whose concept has a document in another language too; languages without such documents are left out.

    Raises BadInput: no document is left, or the languages form groups that share no concept.
    """
    if len(counts) < 2:
        raise BadInput(
            f"the documents with a concept are all in one language ({', '.join(counts) or 'none'}); "
            "give some about the same concepts in another"
        )
    shared = np.array(sorted(_shared(counts, rows)), dtype=np.int64)
    linked_rows = {
        lang: documents[np.isin(counts[lang].concepts[documents], shared)] for lang, documents in rows.items()
    }
    linked_rows = {lang: documents for lang, documents in linked_rows.items() if len(documents)}
    if not linked_rows:
        raise BadInput(
            "no concept has documents in two languages; "
            "translations of one document need the same value in their field concept (--field concept=THEIRS)"
        )
    groups = _groups({lang: set(counts[lang].concepts[documents].tolist()) for lang, documents in linked_rows.items()})
    if len(groups) > 1:
        separate = " from ".join(", ".join(group) for group in groups)
        raise BadInput(
            f"no concept links {separate}; give documents that do, in these or in a third language, "
            "or train them apart with --languages"
        )
    return linked_rows


def transitive_rows(
    counts: Mapping[str, Counts], rows: Rows, pivots: Sequence[str], *, published: bool = False
) -> Rows:
    """Documents for transitive training: those of the pivots and of one other language for each concept.

    A concept that several other languages have goes to the language that has the fewest so far; as ``published``, to
    none of them, as in figure 1(c) of the paper. Raises BadInput: a pivot is not among the languages.
    """
    if missing := [pivot for pivot in pivots if pivot not in counts]:
        raise BadInput(f"there are no documents in the pivot {missing[0]}; choose among {', '.join(sorted(counts))}")
    holders: dict[int, list[str]] = {}
    pivot_concepts = {int(concept) for pivot in pivots for concept in counts[pivot].concepts[rows[pivot]]}
    for lang in sorted(set(rows) - set(pivots)):
        for concept in np.unique(counts[lang].concepts[rows[lang]]).tolist():
            if concept in pivot_concepts:
                holders.setdefault(concept, []).append(lang)
    dealt_concepts = dict.fromkeys(rows, 0)
    chosen_langs: dict[int, str] = {}
    if published:
        holders = {concept: langs for concept, langs in holders.items() if len(langs) == 1}
    for concept in sorted(holders, key=lambda number: (len(holders[number]), number)):
        chosen_langs[concept] = min(holders[concept], key=lambda lang: (dealt_concepts[lang], lang))
        dealt_concepts[chosen_langs[concept]] += 1
    return {
        lang: documents
        if lang in pivots
        else documents[[chosen_langs.get(int(concept)) == lang for concept in counts[lang].concepts[documents]]]
        for lang, documents in rows.items()
    }


def _shared(counts: Mapping[str, Counts], rows: Rows) -> set[int]:
    """Concepts of documents in at least two languages."""
    of_langs = [np.unique(counts[lang].concepts[documents]) for lang, documents in rows.items()]
    concepts, langs = np.unique(np.concatenate([np.zeros(0, np.int64), *of_langs]), return_counts=True)
    return set(concepts[langs > 1].tolist())


def _groups(concepts: Mapping[str, set[int]]) -> list[list[str]]:
    """Group languages that share concepts, directly or through other languages of the group."""
    groups: list[tuple[list[str], set[int]]] = []
    for lang, lang_concepts in sorted(concepts.items()):
        overlapping = [group for group in groups if group[1] & lang_concepts]
        merged = (
            [name for names, _ in overlapping for name in names] + [lang],
            lang_concepts.union(*(group_concepts for _, group_concepts in overlapping)),
        )
        groups = [group for group in groups if group not in overlapping] + [merged]
    return [sorted(names) for names, _ in groups]
