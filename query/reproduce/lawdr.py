"""LAWDR's alignment tables: recall of each variant on WMT16 and WMT19, and the language probe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np

from encoders.console import Console
from encoders.document import Document, Encoder, FloatArray, unit_rows
from encoders.errors import BadInput
from encoders.methods.moments import Moments
from query.alignment.mining import AlignmentPlan, mine
from query.alignment.side import Side, encoded_side
from query.evaluation.scored_runs import ScoredRun
from query.fitting.separability import RankChoice, accuracy_by_component, smallest_rank
from query.reproduce.lawdr_data import match_urls, read_commentary, read_site
from query.reproduce.systems import mean_scores, runs_of_pairs

LANGS = ("en", "fr")
"""Languages of WMT16."""
_SENTENCES = 2_000
"""Greatest number of passages that the probe takes from a side, and from a language."""


@dataclass(frozen=True)
class Variant:
    """A row of the paper's tables: debiased or not, scored by the margin or by the cosine."""

    debiased: bool
    margin: bool

    @property
    def name(self) -> str:
        """Name of the variant."""
        return f"{'debiased' if self.debiased else 'biased'}, {'margin' if self.margin else 'cosine'}"

    @property
    def plan(self) -> AlignmentPlan:
        """The paper's alignment: by documents' vectors alone, without learnt maps; debiasing is done over all sites."""
        return AlignmentPlan(margin="ratio" if self.margin else "absolute", debias=None, passages=False, rounds=0)


VARIANTS = tuple(Variant(debiased, margin) for debiased in (False, True) for margin in (False, True))

PAPER = {
    "WMT16": dict(zip(VARIANTS, (17.6, 18.5, 88.4, 88.8), strict=True)),
    "WMT16 with URLs": dict(zip(VARIANTS, (64.0, 64.4, 94.0, 94.8), strict=True)),
    "WMT19": dict(zip(VARIANTS, (8.5, 16.1, 90.0, 91.0), strict=True)),
}
"""Recall in per cent of the paper's best encoder, weighted sentence vectors of XLM, mean pooling (tables 3 and 4)."""

PAPER_DATA = {
    "WMT16": "203 websites in English and French",
    "WMT16 with URLs": "203 websites in English and French",
    "WMT19": "news commentary v14: 15 languages, 99 pairs of languages",
    "probe": "parallel pages of eu2007.de: 1,356 English and 1,295 French sentences",
}
"""What the paper's figures are of."""

PAPER_PROBE = (97.3, 100.0, 53.5)
"""Accuracy in per cent with XLM, mean pooling: vectors, language component, semantic component (table 1; m = 32)."""


Matched = Mapping[tuple[str, str], Mapping[str, bool]]
"""For each true pair whether it was matched, by languages."""


@dataclass(frozen=True)
class Recalls:
    """Recall of a task of ``PAPER`` by variant, in per cent.

    Attributes:
        pairs: number of true pairs; for WMT19, of language pairs.
        matched: for each true pair whether it was matched, by variant, then by languages.
        documents: number of documents by language.
    """

    task: str
    recall: dict[Variant, float]
    pairs: int
    matched: Mapping[Variant, Matched]
    documents: Mapping[str, int]

    def runs(self, variant: Variant) -> list[ScoredRun]:
        """The runs of a variant: its recall of each true pair, by the languages."""
        scores = {
            langs: mean_scores({qid: {"R@1": float(is_matched)} for qid, is_matched in by_pair.items()})
            for langs, by_pair in self.matched[variant].items()
        }
        return runs_of_pairs(scores, {})


@dataclass(frozen=True)
class Probe:
    """The result of the language probe on passages' vectors.

    Attributes:
        rank: the choice of the paper's rule, or the largest rank tried.
        accuracies: in per cent on the vectors, on their language component, and on their semantic component.
        passages: number of passages.
    """

    choice: RankChoice
    rank: int
    accuracies: tuple[float, float, float]
    languages: Sequence[str]
    passages: int


def alignment_tables(
    lett: Sequence[Path],
    gold: AbstractSet[tuple[str, str]],
    commentary: Path | None,
    rank: int,
    encoder: Encoder,
    console: Console,
) -> tuple[list[Recalls], Probe]:
    """Align WMT16's sites and WMT19's news commentary, each if given, and probe the languages of their passages.

    ``rank`` is the rank of the language subspace that is taken out; 0: the mean.

    Raises:
        BadInput: a file can't be read, or the data has no true pair, no second language or too few passages.
    """
    recalls: list[Recalls] = []
    sides: list[tuple[str, Side]] = []
    if lett:
        sites = [_encoded_site(file, encoder, console) for file in lett]
        recalls += wmt16(sites, gold, LANGS, rank)
        sides += [(lang, side) for site in sites for lang, side in zip(LANGS, site, strict=True)]
    if commentary:
        corpora = [
            {lang: _encoded(f"{lang} of WMT19", documents, encoder, console) for lang, documents in corpus.items()}
            for corpus in read_commentary(commentary)
        ]
        recalls.append(wmt19(corpora, rank))
        sides += [(lang, side) for corpus in corpora for lang, side in corpus.items()]
    return recalls, probe(sides)


def _encoded_site(file: Path, encoder: Encoder, console: Console) -> tuple[Side, Side]:
    site = read_site(file, *LANGS)
    return (
        _encoded(f"{site.name}, {LANGS[0]}", site.first, encoder, console),
        _encoded(f"{site.name}, {LANGS[1]}", site.second, encoder, console),
    )


def _encoded(name: str, documents: Sequence[Document], encoder: Encoder, console: Console) -> Side:
    with console.progress(f"encoding {name}", len(documents), "documents") as progress:
        return encoded_side(name, documents, encoder, "concept", progress)


def wmt16(
    sides: Sequence[tuple[Side, Side]], gold: AbstractSet[tuple[str, str]], langs: tuple[str, str], rank: int
) -> list[Recalls]:
    """Recall over all sites, with pairs within each site, without matching URLs and with matching URLs paired first.

    ``sides`` are the two sides of each site, ``gold`` the true pairs of URLs.

    Raises:
        BadInput: no true pair has both URLs in these sites.
    """
    site_urls = {url for pair in sides for side in pair for url in side.doc_ids}
    if not any(first in site_urls and second in site_urls for first, second in gold):
        raise BadInput("no true pair is of these sites; see that the pairs' file belongs to them, English URLs first")
    debiased_by_lang = (_without_bias([pair[index] for pair in sides], rank) for index in (0, 1))
    debiased = list(zip(*debiased_by_lang, strict=True))
    by_url = [match_urls(first.doc_ids, second.doc_ids, langs) for first, second in sides]
    documents = {lang: sum(len(pair[index].doc_ids) for pair in sides) for index, lang in enumerate(langs)}
    tables = []
    for task, url_pairs in (("WMT16", [[] for _ in sides]), ("WMT16 with URLs", by_url)):
        recall, matched_gold = {}, {}
        for variant in VARIANTS:
            matched: set[tuple[str, str]] = set()
            for site, site_url_pairs in zip(debiased if variant.debiased else sides, url_pairs, strict=True):
                first, second = _rest(site[0], site[1], site_url_pairs)
                matched |= {*site_url_pairs}
                matched |= {(first.doc_ids[row], second.doc_ids[col]) for row, col in _mined(first, second, variant)}
            recall[variant] = 100 * len(matched & gold) / len(gold)
            matched_gold[variant] = {langs: {" ".join(pair): pair in matched for pair in sorted(gold)}}
        tables.append(Recalls(task, recall, len(gold), matched_gold, documents))
    return tables


def wmt19(corpora: Iterable[Mapping[str, Side]], rank: int) -> Recalls:
    """Recall on news commentary, the mean over all pairs of languages of each corpus; a true pair shares its concept.

    Raises:
        BadInput: no two languages share a document.
    """
    recalls: dict[Variant, list[float]] = {variant: [] for variant in VARIANTS}
    matched: dict[Variant, dict[tuple[str, str], dict[str, bool]]] = {variant: {} for variant in VARIANTS}
    documents: dict[str, int] = {}
    for number, sides in enumerate(corpora, 1):
        for lang, side in sides.items():
            documents[lang] = documents.get(lang, 0) + len(side.doc_ids)
        debiased = {lang: _without_bias([side], rank)[0] for lang, side in sides.items()}
        for a, b in combinations(sides, 2):
            concepts = set(sides[a].values) & set(sides[b].values)
            for variant in VARIANTS if concepts else ():
                variant_sides = debiased if variant.debiased else sides
                first, second = variant_sides[a], variant_sides[b]
                mined = [(first.values[row], second.values[col]) for row, col in _mined(first, second, variant)]
                shared = {concept for concept, other in mined if concept == other}
                recalls[variant].append(100 * len(shared) / len(concepts))
                by_concept = matched[variant].setdefault((a, b), {})
                by_concept.update({f"{number}:{concept}": concept in shared for concept in sorted(map(str, concepts))})
    if not any(recalls.values()):
        raise BadInput("no two languages share a document; translations have files of the same name")
    means = {variant: float(np.mean(values)) for variant, values in recalls.items()}
    return Recalls("WMT19", means, len(recalls[VARIANTS[0]]), matched, documents)


def _mined(first: Side, second: Side, variant: Variant) -> list[tuple[int, int]]:
    """Positions of the paired documents in both sides."""
    pairs = mine(first, second, variant.plan).pairs
    return list(zip(pairs.rows.tolist(), pairs.cols.tolist(), strict=True))


def probe(sides: Iterable[tuple[str, Side]], seed: int = 0) -> Probe:
    """Accuracy of telling languages apart by passages' vectors and by their components (table 1, section 10.1).

    ``sides`` are languages and sides; a language may have several sides.

    Raises:
        BadInput: there are fewer than two languages, or too few passages.
    """
    passages: dict[str, list[FloatArray]] = {}
    for lang, side in sides:
        passages.setdefault(lang, []).append(_drawn(side, seed))
    vectors, langs = [], []
    chance = np.random.default_rng(seed)
    for lang, parts in sorted(passages.items()):
        rows = np.concatenate(parts)
        vectors.append(rows[chance.permutation(len(rows))[:_SENTENCES]])
        langs += [lang] * len(vectors[-1])
    all_vectors = np.concatenate(vectors)
    choice = smallest_rank(all_vectors, langs, seed=seed)
    rank = choice.rank or max(choice.accuracies)
    whole, inside, outside = accuracy_by_component(all_vectors, langs, rank, seed)
    return Probe(choice, rank, (100 * whole, 100 * inside, 100 * outside), sorted(passages), len(langs))


def _drawn(side: Side, seed: int) -> FloatArray:
    """A random sample of a side's passages as unit rows, in the order of the passages."""
    rows = side.passages.vectors
    sample = np.random.default_rng(seed).permutation(len(rows))[:_SENTENCES]
    return unit_rows(rows[np.sort(sample)])


def _without_bias(sides: Sequence[Side], rank: int) -> list[Side]:
    """The sides of one language without what the documents of all of its sites share (LAWDR, section 3.2)."""
    moments = Moments(sides[0].vectors.shape[1])
    for side in sides:
        moments.add(side.vectors)
    mean, subspace = moments.mean.astype(np.float32), moments.subspace(rank)
    changed = []
    for side in sides:
        shared = side.vectors @ subspace.T @ subspace if rank else mean
        changed.append(replace(side, vectors=unit_rows((side.vectors - shared).astype(np.float32, copy=False))))
    return changed


def _rest(first: Side, second: Side, url_pairs: Sequence[tuple[str, str]]) -> tuple[Side, Side]:
    """Both sides without the documents that are paired by URL."""
    paired_urls = {url for pair in url_pairs for url in pair}
    free_first, free_second = (
        np.array([position for position, url in enumerate(side.doc_ids) if url not in paired_urls], np.int64)
        for side in (first, second)
    )
    return first.only(free_first), second.only(free_second)
