"""LAWDR's alignment tables: recall of each variant on WMT16 and WMT19, and the language probe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from encoders.console import Console
from encoders.document import Document, FloatArray
from encoders.errors import BadInput
from papers.cached_encoder import SentenceVectors
from papers.lawdr_data import Commentary, Site, match_urls, read_site
from papers.lawdr_vectors import (
    VARIANTS,
    Group,
    LanguageCorpus,
    SummedGroup,
    Variant,
    count_sentences,
    sum_sentences,
)
from papers.separability import RankChoice, accuracy_by_component, smallest_rank
from papers.systems import mean_scores, runs_of_pairs
from query.alignment.matching import align
from query.evaluation.drawing import empty_figure, plain_texts
from query.evaluation.scored_runs import ScoredRun

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LANGS = ("en", "fr")
"""Languages of WMT16."""
_SENTENCES = 2_000
"""Greatest number of a language's sentences that the probe takes."""
_NEIGHBOURS = 4
"""Neighbours of the margin; a quarter of the smaller side where that is less."""

Matched = Mapping[tuple[str, str], Mapping[str, bool]]
"""For each true pair whether it was matched, by languages."""


@dataclass(frozen=True)
class Recalls:
    """Recall of a task of ``PAPER`` by variant, in per cent."""

    task: str
    recall: dict[Variant, float]
    pairs: int  # number of true pairs; for WMT19, of language pairs
    matched: Mapping[Variant, Matched]  # for each true pair whether it was matched, by variant, then by languages
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
class Probe:
    """The result of the language probe on sentences' vectors."""

    task: str
    choice: RankChoice  # the choice of the paper's rule
    rank: int  # of the language components: the rank asked for, the rule's choice, or the largest rank tried
    # in per cent on the vectors, on their language component, and on their semantic component
    accuracies: tuple[float, float, float]
    vectors: FloatArray  # (sentences, dim) of the sentences
    langs: Sequence[str]  # languages of the sentences


@dataclass(frozen=True)
class Data:
    """The tasks' data."""

    lett: Sequence[Path]  # files of WMT16's sites
    gold: AbstractSet[tuple[str, str]]  # true pairs of their URLs
    corpora: Sequence[Commentary]  # of WMT19

    def pages(self) -> list[Group]:
        """The documents of WMT16, English and French of each site in turn."""
        originals = {french: english for english, french in self.gold}

        def name(page: Document) -> str:
            return originals.get(page.doc_id, page.doc_id)

        return [Group(lang, partial(_pages, file, lang), name) for file in self.lett for lang in LANGS]

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


def _pages(file: Path, lang: str) -> Sequence[Document]:
    site = _last_site(file)
    return site.first if lang == LANGS[0] else site.second


@lru_cache(maxsize=1)
def _last_site(file: Path) -> Site:
    return read_site(file, *LANGS)


def alignment_tables(
    data: Data, rank: int | None, sentences: SentenceVectors, dim: int, console: Console
) -> tuple[list[Recalls], list[Probe]]:
    """Tables 3 and 4: align each task's documents by algorithm 1 and probe the languages of its sentences.

    Subspaces and densities are those of the languages' own sentences in the task. ``rank`` is that of the subspaces;
    0: the mean; none: by the paper's rule, for each task. ``dim`` is the width of the sentences' vectors.
    """
    recalls: list[Recalls] = []
    probes: list[Probe] = []
    for task, groups in (("WMT16", data.pages()), ("WMT19", data.articles())):
        if not groups:
            continue
        with console.progress(f"encoding {task}", None, "documents") as progress:
            corpora = count_sentences(groups, sentences, dim, progress)
        probes.append(probe(task, corpora, rank))
        with console.progress(f"weighting {task}", None, "documents") as progress:
            summed = sum_sentences(groups, corpora, sentences, progress)
        taken_out = probes[-1].rank if rank is None else rank
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
    """Recall over all sites, with pairs within each site, without matching URLs and with matching URLs paired first.

    ``sites`` are the two sides of each site, ``gold`` the true pairs of URLs.
    """
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
    return [
        (first_ids[row], second_ids[col]) for row, col in zip(pairs.rows.tolist(), pairs.cols.tolist(), strict=True)
    ]


def probe(task: str, corpora: Mapping[str, LanguageCorpus], rank: int | None = None, seed: int = 0) -> Probe:
    """Accuracy of telling languages apart by sentences' vectors and by their components (tables 1 and 6).

    A document's sentences, and those of its translations, are all of the classifier's training or all of its test.
    ``rank`` is that of the components; none or 0: the choice of the paper's rule, or the largest rank tried. Raises
    BadInput: there are fewer than two languages, or too few sentences.
    """
    vectors, langs, names = [], list[str](), list[str]()
    for lang, corpus in sorted(corpora.items()):
        rows, of_documents = corpus.sample.drawn(corpus.dim)
        vectors.append(rows[:_SENTENCES])
        names += of_documents[:_SENTENCES]
        langs += [lang] * len(vectors[-1])
    all_vectors = np.concatenate(vectors)
    choice = smallest_rank(all_vectors, langs, names, seed=seed)
    chosen = rank or choice.rank or max(choice.accuracies)
    whole, inside, outside = accuracy_by_component(all_vectors, langs, names, chosen, seed)
    accuracies = (100 * whole, 100 * inside, 100 * outside)
    return Probe(task, choice, chosen, accuracies, all_vectors, langs)


def sentences_figure(probes: Sequence[Probe], encoder: str) -> Figure:
    """Draw the first two principal components of each task's sentences, coloured by language (figures 1 and 2)."""
    figure = empty_figure(4.6 * len(probes), 4.2)
    with plain_texts():
        for axes, probe_of_task in zip(np.atleast_1d(figure.subplots(1, len(probes))), probes, strict=True):
            centred = probe_of_task.vectors - probe_of_task.vectors.mean(axis=0)
            _, _, directions = np.linalg.svd(centred, full_matrices=False)
            places = centred @ directions[:2].T
            langs = np.array(probe_of_task.langs)
            for lang in np.unique(langs):
                axes.scatter(*places[langs == lang].T, s=4, alpha=0.5, label=str(lang))
            axes.set_title(f"{probe_of_task.task}, sentences by {encoder}", fontsize=10)
            axes.legend(frameon=False, fontsize=8, markerscale=2)
    return figure
