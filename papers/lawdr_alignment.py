"""LAWDR's tables 3 and 4: documents' vectors by algorithm 1, and the recall of each variant on WMT16 and WMT19.

Subspaces and densities are of the task's own sentences.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import combinations, islice, product
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import numpy as np

from encoders.console import Console
from encoders.document import Document, Encoder, FloatArray, unit_rows
from encoders.errors import BadInput
from encoders.methods.density import DensityWeights
from encoders.methods.moments import Moments
from papers.cached_encoder import SentenceVectors
from papers.data import Commentary, read_site
from papers.lawdr_probe import Probe, probe
from papers.table import mean_scores, runs_of_pairs
from query.alignment.matching import align
from query.evaluation.scored_runs import ScoredRun

LANGS = ("en", "fr")
"""Languages of WMT16."""
SAMPLE = 20_000
"""Greatest number of sentences that the density of a language is estimated from."""
_PROBED = 2_000
"""Greatest number of a language's sentences that the probe takes."""
_BATCH = 64
_NEIGHBOURS = 4
"""Neighbours of the margin; a quarter of the smaller side where that is less."""
_site = lru_cache(maxsize=1)(read_site)


@dataclass(frozen=True)
class Variant:
    """A row of tables 3 and 4."""

    debiased: bool
    weighted: bool
    margin: bool

    @property
    def name(self) -> str:
        """As people read it."""
        bias, weights = ("debiased" if self.debiased else "biased"), ("weighted" if self.weighted else "mean")
        return f"{bias}, {weights}, {'margin' if self.margin else 'cosine'}"


VARIANTS = tuple(Variant(*choices) for choices in product((False, True), repeat=3))
"""The rows in the order of tables 3 and 4."""


class LanguageCorpus:
    """The sentences of one language in a task: their moments, and a uniform random sample of at most ``size``."""

    def __init__(self, dim: int, size: int = SAMPLE, seed: int = 0) -> None:
        """Make an empty corpus of vectors of this width."""
        self.moments = Moments(dim)
        self._size, self._seed, self._random = size, seed, np.random.default_rng(seed)
        self._rows: list[tuple[float, str, FloatArray]] = []

    def add(self, name: str, vectors: FloatArray) -> None:
        """Add a document's sentences; ``name`` is the same for translations of one document."""
        self.moments.add(vectors)
        draws = self._random.random(len(vectors)).tolist()
        self._rows += [(draw, name, row) for draw, row in zip(draws, vectors, strict=True)]
        if len(self._rows) > 2 * self._size:
            self.sample()

    def sample(self) -> tuple[FloatArray, list[str]]:
        """(sentences, dim) vectors in random order, and the names of their documents; no others are kept."""
        self._rows = sorted(self._rows, key=lambda row: row[0])[: self._size]
        rows = np.array([row for _, _, row in self._rows], np.float32).reshape(-1, self.moments.dim)
        return rows, [name for _, name, _ in self._rows]

    def density(self) -> DensityWeights:
        """The density of the sentences, estimated from the sample (section 4.1)."""
        return DensityWeights.fit(self.sample()[0], self._seed)


@dataclass(frozen=True)
class Group:
    """Documents of one language."""

    lang: str
    read: Callable[[], Sequence[Document]]  # reads the documents; they are read twice and not kept
    name: Callable[[Document], str]  # a name of a document that its translations share


@dataclass(frozen=True)
class SummedGroup:
    """The documents of a group that have a sentence; in sums and weights, weights are equal, then the density's."""

    doc_ids: Sequence[str]
    names: Sequence[str]
    corpus: LanguageCorpus
    sums: FloatArray  # (documents, 2, dim) weighted sums of the sentences' vectors (eq. 3)
    weights: FloatArray  # (documents, 2) sums of the weights

    def vectors(self, variant: Variant, rank: int) -> FloatArray:
        """(documents, dim) unit rows of a row of tables 3 and 4: w (v − UUᵀv) is linear in v (section 3.2).

        U is the language's subspace of this rank; with rank 0 each sentence loses the mean of the sentences.
        """
        kind = int(variant.weighted)
        sums, moments = self.sums[:, kind], self.corpus.moments
        if not variant.debiased:
            return unit_rows(sums)
        if not rank:
            return unit_rows(np.asarray(sums - self.weights[:, kind, None] * moments.mean, np.float32))
        subspace = moments.subspace(rank)
        return unit_rows(np.asarray(sums - sums @ subspace.T @ subspace, np.float32))


def unit_sentences(encoder: Encoder, documents: Sequence[Document]) -> Sequence[FloatArray]:
    """The sentences' unit vectors, by an encoder whose passages are sentences."""
    encoded = encoder.encode_documents(documents)
    return [passages.without_title().unit_vectors() for passages in encoded.passages]


def sum_sentences(
    task: str, groups: Sequence[Group], sentences: SentenceVectors, dim: int, console: Console
) -> tuple[Mapping[str, LanguageCorpus], list[SummedGroup]]:
    """The sentences of each language over all of its groups, and the sums of each document's sentences."""
    corpora = {group.lang: LanguageCorpus(dim) for group in groups}
    with console.progress(f"encoding {task}", None, "documents") as progress:
        for group in groups:
            for document, rows in _sentences(group, sentences, progress):
                corpora[group.lang].add(group.name(document), rows)
    densities = {lang: corpus.density() for lang, corpus in corpora.items() if corpus.moments.count}
    summed = []
    with console.progress(f"weighting {task}", None, "documents") as progress:
        for group in groups:
            doc_ids, names = list[str](), list[str]()
            sums, totals = [np.zeros((0, 2, dim), np.float32)], [np.zeros((0, 2), np.float32)]
            for document, rows in _sentences(group, sentences, progress):
                if len(rows):
                    doc_ids.append(document.doc_id)
                    names.append(group.name(document))
                    weights = np.stack([np.ones(len(rows), np.float32), densities[group.lang].weights(rows)])
                    sums.append((weights @ rows)[None])
                    totals.append(weights.sum(axis=1)[None])
            side = SummedGroup(doc_ids, names, corpora[group.lang], np.concatenate(sums), np.concatenate(totals))
            summed.append(side)
    return corpora, summed


def _sentences(
    group: Group, sentences: SentenceVectors, progress: Callable[[int], None]
) -> Iterator[tuple[Document, FloatArray]]:
    """Each document of a group with its sentences' vectors; ``progress`` gets numbers of encoded documents."""
    documents = iter(group.read())
    while batch := list(islice(documents, _BATCH)):
        yield from zip(batch, sentences(batch), strict=True)
        progress(len(batch))


@dataclass(frozen=True)
class Recalls:
    """Which true pairs of a task each variant matches."""

    task: str
    pairs: int  # number of true pairs; for WMT19, of language pairs
    # for true pairs of two languages, for WMT19 of one corpus, whether each was matched
    matched: Mapping[Variant, Sequence[tuple[tuple[str, str], Mapping[str, bool]]]]
    documents: Mapping[str, int]  # number of documents by language
    rank: int  # of the language subspaces that were taken out; 0: the mean was

    def recall(self, variant: Variant) -> float:
        """Recall in per cent, the mean over pairs of languages."""
        return float(np.mean([100 * sum(found.values()) / len(found) for _, found in self.matched[variant]]))

    def runs(self, variant: Variant) -> list[ScoredRun]:
        """The runs of a variant: its recall of each true pair, by the languages."""
        topics: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
        for langs, found in self.matched[variant]:
            topics.setdefault(langs, {}).update({qid: {"R@1": float(is_found)} for qid, is_found in found.items()})
        return runs_of_pairs({langs: mean_scores(by_pair) for langs, by_pair in topics.items()})


@dataclass(frozen=True)
class Data:
    """The tasks' data."""

    lett: Sequence[Path]  # files of WMT16's sites
    gold: AbstractSet[tuple[str, str]]  # true pairs of their URLs
    corpora: Sequence[Commentary]  # of WMT19

    def pages(self) -> list[Group]:
        """The documents of WMT16, English and French of each site in turn."""
        originals = {french: english for english, french in self.gold}

        def group(file: Path, lang: str) -> Group:
            return Group(lang, lambda: _site(file)[lang], lambda page: originals.get(page.doc_id, page.doc_id))

        return [group(file, lang) for file in self.lett for lang in LANGS]

    def articles(self) -> list[Group]:
        """The documents of WMT19, corpus by corpus; an English article's text names it and its translations."""

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
    """Align each task's documents by algorithm 1, and probe the languages of a sample of its sentences.

    ``rank`` is that of the subspaces; 0: the mean; none: by the paper's rule, for each task.
    """
    recalls: list[Recalls] = []
    probes: dict[str, Probe] = {}
    for task, groups in (("WMT16", data.pages()), ("WMT19", data.articles())):
        if not groups:
            continue
        corpora, summed = sum_sentences(task, groups, sentences, dim, console)
        samples = {lang: corpus.sample() for lang, corpus in sorted(corpora.items())}
        langs = [lang for lang, (_, names) in samples.items() for _ in names[:_PROBED]]
        documents = [name for _, names in samples.values() for name in names[:_PROBED]]
        probes[task] = probe(np.concatenate([rows[:_PROBED] for rows, _ in samples.values()]), langs, documents, rank)
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
    """Recall of the true pairs of these sites' URLs, first by vectors alone, then with matching URLs paired first."""
    hosts = {urlsplit(url).hostname for site in sites for side in site for url in side.doc_ids}
    gold = {pair for pair in gold if {urlsplit(url).hostname for url in pair} <= hosts}
    if not gold:
        raise BadInput("no true pair is of these sites; see that the pairs' file belongs to them, English URLs first")
    url_pairs = [match_urls(first.doc_ids, second.doc_ids) for first, second in sites]
    documents = {lang: sum(len(site[index].doc_ids) for site in sites) for index, lang in enumerate(LANGS)}
    tables = []
    for task, given_pairs in (("WMT16", [[] for _ in sites]), ("WMT16 with URLs", url_pairs)):
        matched = {}
        for variant in VARIANTS:
            found: set[tuple[str, str]] = set()
            for site, site_pairs in zip(sites, given_pairs, strict=True):
                found |= {*site_pairs, *_aligned(*site, variant, rank, {url for pair in site_pairs for url in pair})}
            matched[variant] = [(LANGS, {" ".join(pair): pair in found for pair in sorted(gold)})]
        tables.append(Recalls(task, len(gold), matched, documents, rank))
    return tables


def wmt19(corpora: Iterable[Mapping[str, SummedGroup]], rank: int) -> Recalls:
    """Recall on news commentary, the mean over all pairs of languages of each corpus; a true pair shares its name."""
    matched: dict[Variant, list[tuple[tuple[str, str], Mapping[str, bool]]]] = {variant: [] for variant in VARIANTS}
    documents: Counter[str] = Counter()
    for sides in corpora:
        documents.update({lang: len(side.doc_ids) for lang, side in sides.items()})
        for langs in combinations(sides, 2):
            first, second = (dict(zip(sides[lang].doc_ids, sides[lang].names, strict=True)) for lang in langs)
            common = sorted({*first.values()} & {*second.values()})
            for variant in VARIANTS if common else ():
                pairs = _aligned(sides[langs[0]], sides[langs[1]], variant, rank)
                found = {first[doc_id] for doc_id, other in pairs if first[doc_id] == second[other]}
                matched[variant].append((langs, {name: name in found for name in common}))
    count = len(matched[VARIANTS[0]])
    if not count:
        raise BadInput("no two languages share a document; translations have files of the same name")
    return Recalls("WMT19", count, matched, documents, rank)


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


_LANGUAGE = re.compile(
    r"(?:^|[-_.])(?:en[-_](?:us|uk|gb|ca|au|ie|in|nz|za|en)|fr[-_](?:fr|ca|be|ch|lu)|english|anglais|englisch|eng|en|gb"
    r"|us|uk|e|french|francais|français|franzoesisch|fra|fre|fr|f)(?![a-zA-Z0-9])",
    re.IGNORECASE,
)
"""The name or code of a language of WMT16 with the separator before it; no letter or digit may follow."""
_LANGUAGE_KEYS = re.compile(r"^(?:\w*lang(?:uage|ue)?|\w*locale|hl)$", re.IGNORECASE)


def match_urls(first: Iterable[str], second: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of URLs that differ only in the language that one or both name, each URL in one pair, in order."""
    sides: tuple[dict[str, list[str]], ...] = ({}, {})
    for urls_by_key, urls in zip(sides, (first, second), strict=True):
        for url in sorted(set(urls)):
            urls_by_key.setdefault(neutral(url), []).append(url)
    pairs = []
    for key, urls in sides[0].items():
        pairs += [(a, b) for a, b in zip(urls, sides[1].get(key, []), strict=False) if a != b]
    return pairs


def neutral(url: str) -> str:
    """A URL without its scheme, its fragment, and the names of the languages in its path and its query."""
    parts = urlsplit(url if "://" in url else f"http://{url}")

    def stripped(text: str) -> str:
        return _LANGUAGE.sub("", text).strip("-_.")

    path = "/".join(segment for part in parts.path.split("/") if (segment := stripped(part)))
    query = [
        (key, rest)
        for key, value in parse_qsl(parts.query, keep_blank_values=True)
        if not _LANGUAGE_KEYS.match(key) and ((rest := stripped(value)) or not value)
    ]
    return f"{parts.hostname or ''}/{path}?{urlencode(query)}"
