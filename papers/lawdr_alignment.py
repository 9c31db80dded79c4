"""LAWDR's alignment tables: recall of each variant on WMT16 and WMT19."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import combinations
from pathlib import Path

import numpy as np

from encoders.console import Console
from encoders.document import Document
from encoders.errors import BadInput
from papers.cached_encoder import SentenceVectors
from papers.lawdr_data import Commentary, match_urls, read_site
from papers.lawdr_probe import Probe, probe_sentences
from papers.lawdr_vectors import VARIANTS, Group, SummedGroup, Variant, sum_sentences
from papers.systems import mean_scores, runs_of_pairs
from query.alignment.matching import align
from query.evaluation.scored_runs import ScoredRun

LANGS = ("en", "fr")
"""Languages of WMT16."""
_NEIGHBOURS = 4
"""Neighbours of the margin; a quarter of the smaller side where that is less."""
_site = lru_cache(maxsize=1)(read_site)


@dataclass(frozen=True)
class Recalls:
    """Recall of a task of ``PAPER`` by variant, in per cent."""

    task: str
    recall: dict[Variant, float]
    pairs: int  # number of true pairs; for WMT19, of language pairs
    # for each true pair whether it was matched, by variant, then by languages
    matched: Mapping[Variant, Mapping[tuple[str, str], Mapping[str, bool]]]
    documents: Mapping[str, int]  # number of documents by language
    rank: int  # of the language subspaces that were taken out; 0: the mean was

    def runs(self, variant: Variant) -> list[ScoredRun]:
        """The runs of a variant: its recall of each true pair, by the languages."""
        scores = {
            langs: mean_scores({qid: {"R@1": float(is_matched)} for qid, is_matched in by_pair.items()})
            for langs, by_pair in self.matched[variant].items()
        }
        return runs_of_pairs(scores, {})


@dataclass(frozen=True)
class Data:
    """The tasks' data."""

    lett: Sequence[Path]  # files of WMT16's sites
    gold: AbstractSet[tuple[str, str]]  # true pairs of their URLs
    corpora: Sequence[Commentary]  # of WMT19

    def pages(self) -> list[Group]:
        """The documents of WMT16, English and French of each site in turn."""
        originals = {french: english for english, french in self.gold}

        def read(file: Path, lang: str) -> Sequence[Document]:
            return _site(file)[lang]

        def name(page: Document) -> str:
            return originals.get(page.doc_id, page.doc_id)

        return [Group(lang, partial(read, file, lang), name) for file in self.lett for lang in LANGS]

    def articles(self) -> list[Group]:
        """The documents of WMT19, corpus by corpus.

        Several corpora may have the same English article; its text is the name of the article and its translations.
        """

        def name(number: int, originals: Mapping[str, str], article: Document) -> str:
            concept = article.fields["concept"]
            return originals.get(concept, f"{number}:{concept}")

        groups = []
        for number, corpus in enumerate(self.corpora, 1):
            originals = {article.fields["concept"]: article.text for article in corpus.get("en", ())}
            of_corpus = partial(name, number, originals)
            groups += [Group(lang, partial(list, documents), of_corpus) for lang, documents in corpus.items()]
        return groups


def alignment_tables(
    data: Data, rank: int | None, sentences: SentenceVectors, dim: int, console: Console
) -> tuple[list[Recalls], dict[str, Probe]]:
    """Tables 3 and 4: align each task's documents by algorithm 1 and probe the languages of its sentences.

    ``rank`` is that of the subspaces; 0: the mean; none: by the paper's rule, for each task. ``dim`` is the width of
    the sentences' vectors.
    """
    recalls: list[Recalls] = []
    probes: dict[str, Probe] = {}
    for task, groups in (("WMT16", data.pages()), ("WMT19", data.articles())):
        if not groups:
            continue
        corpora, summed = sum_sentences(task, groups, sentences, dim, console)
        probes[task] = probe_sentences(corpora, rank)
        taken_out = probes[task].rank if rank is None else rank
        if task == "WMT16":
            recalls += wmt16(list(zip(summed[::2], summed[1::2], strict=True)), data.gold, taken_out)
        else:
            remaining = iter(summed)
            by_corpus = [{lang: next(remaining) for lang in corpus} for corpus in data.corpora]
            recalls.append(wmt19(by_corpus, taken_out))
    return recalls, probes


def wmt16(
    sites: Sequence[tuple[SummedGroup, SummedGroup]], gold: AbstractSet[tuple[str, str]], rank: int
) -> list[Recalls]:
    """Recall of the true pairs of URLs over all sites, first by vectors alone, then with matching URLs paired first."""
    site_urls = {url for site in sites for side in site for url in side.doc_ids}
    if not any(first in site_urls and second in site_urls for first, second in gold):
        raise BadInput("no true pair is of these sites; see that the pairs' file belongs to them, English URLs first")
    url_pairs = [match_urls(first.doc_ids, second.doc_ids, LANGS) for first, second in sites]
    documents = {lang: sum(len(site[index].doc_ids) for site in sites) for index, lang in enumerate(LANGS)}
    tables = []
    for task, given_pairs in (("WMT16", [[] for _ in sites]), ("WMT16 with URLs", url_pairs)):
        recall, matched_gold = {}, {}
        for variant in VARIANTS:
            matched: set[tuple[str, str]] = set()
            for site, site_pairs in zip(sites, given_pairs, strict=True):
                matched |= {*site_pairs, *_aligned(*site, variant, rank, {url for pair in site_pairs for url in pair})}
            recall[variant] = 100 * len(matched & gold) / len(gold)
            matched_gold[variant] = {LANGS: {" ".join(pair): pair in matched for pair in sorted(gold)}}
        tables.append(Recalls(task, recall, len(gold), matched_gold, documents, rank))
    return tables


def wmt19(corpora: Iterable[Mapping[str, SummedGroup]], rank: int) -> Recalls:
    """Recall on news commentary, the mean over all pairs of languages of each corpus; a true pair shares its name."""
    recalls: dict[Variant, list[float]] = {variant: [] for variant in VARIANTS}
    matched: dict[Variant, dict[tuple[str, str], dict[str, bool]]] = {variant: {} for variant in VARIANTS}
    documents: dict[str, int] = {}
    for sides in corpora:
        for lang, side in sides.items():
            documents[lang] = documents.get(lang, 0) + len(side.doc_ids)
        for a, b in combinations(sides, 2):
            first, second = (dict(zip(sides[lang].doc_ids, sides[lang].names, strict=True)) for lang in (a, b))
            common = set(first.values()) & set(second.values())
            for variant in VARIANTS if common else ():
                pairs = _aligned(sides[a], sides[b], variant, rank)
                shared = {first[doc_id] for doc_id, other in pairs if first[doc_id] == second[other]}
                recalls[variant].append(100 * len(shared) / len(common))
                by_name = matched[variant].setdefault((a, b), {})
                by_name.update({name: name in shared for name in sorted(common)})
    if not any(recalls.values()):
        raise BadInput("no two languages share a document; translations have files of the same name")
    means = {variant: float(np.mean(values)) for variant, values in recalls.items()}
    return Recalls("WMT19", means, len(recalls[VARIANTS[0]]), matched, documents, rank)


def _aligned(
    first: SummedGroup, second: SummedGroup, variant: Variant, rank: int, left_out: AbstractSet[str] = frozenset()
) -> list[tuple[str, str]]:
    """Ids of the documents that a variant pairs; ``left_out`` are paired already."""
    sides = []
    for side in (first, second):
        rows = [row for row, doc_id in enumerate(side.doc_ids) if doc_id not in left_out]
        sides.append(([side.doc_ids[row] for row in rows], side.vectors(variant, rank)[rows]))
    (first_ids, x), (second_ids, y) = sides
    k = max(1, min(_NEIGHBOURS, len(first_ids) // 4, len(second_ids) // 4))  # a mean over most documents is near 0
    pairs = align(x, y, k=k, margin="ratio" if variant.margin else "absolute")
    places = zip(pairs.rows.tolist(), pairs.cols.tolist(), strict=True)
    return [(first_ids[row], second_ids[col]) for row, col in places]
