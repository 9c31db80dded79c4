"""One search: rankings of a query become hits, flat or by subjects; a reranker orders the best, facets count them."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from encoders.document import Document, FloatArray
from encoders.errors import StoreError
from indexer.stores.contract import ChecksFields, Filters, MissingDocuments, VectorStore
from query.ranking.fair_ranker import STRETCHES, FairRanker
from query.ranking.hit_reranker import HitReranker
from query.ranking.search_hits import LANGUAGE_FACET, RERANKED, Facets, Hit, Ranking

_DEPTHS = (1, 100, 1000)
"""Minimum documents ranked by each attempt at a search: what is gone, or hidden from the caller, is then left out."""
_POOLS = tuple(stretch.last for stretch in STRETCHES)
"""Hits that subjects are made of: those of the first stretch; if these are about fewer than k, those to the next."""


@dataclass
class QuerySearch:
    """The search of a query in a collection."""

    ranker: FairRanker
    query: Document
    vectors: FloatArray  # (1, dim) the query as its encoder made it
    targets: Sequence[str]
    filters: Filters | None
    reranker: HitReranker | None
    hits_of: Callable[[Ranking], list[Hit]]  # makes the hits of a ranking
    reranking: float = field(default=0.0, init=False)  # seconds that reranking took

    def flat(self, count: int, depth: int) -> list[Hit]:
        """The best ``count`` hits of at least ``depth`` ranked documents."""
        ranking = self._ranked(max(count, depth, RERANKED if self.reranker else 1))
        return self.hits_of(self._reranked(ranking).first(count))

    def by_subjects(self, k: int, preferred: Sequence[str], _depth: int) -> list[Hit]:
        """The best k subjects, each in the first of the preferred languages that it has, else as its best hit."""
        best, groups, alike = None, list[list[int]](), Counter[int]()
        for pool in _POOLS:
            longer = self._ranked(pool)
            best = best.followed_by(longer) if best else self._reranked(longer)
            groups, alike = self.ranker.subjects(best, groups, self.query.lang)
            if len(groups) >= k or len(longer.doc_ids) < pool:
                break
        ranks = [rank for group in groups[:k] for rank in group]
        hits = self.hits_of(best.selected(ranks)) if best else []
        shown = {
            rank: replace(hit, alike=alike[rank], fits=None) if alike[rank] else hit  # near it are their queries
            for rank, hit in zip(ranks, hits, strict=True)
        }
        return [_subject([shown[rank] for rank in group], preferred) for group in groups[:k]]

    def _ranked(self, count: int) -> Ranking:
        lang, texts = self.query.lang, [self.query.content]
        return self.ranker.rank(self.vectors, lang, self.targets, count, self.filters, texts=texts, detailed=True)[0]

    def _reranked(self, ranking: Ranking) -> Ranking:
        if self.reranker:
            ranking, self.reranking = self.reranker.reranked(ranking, self.query, self.ranker, self.hits_of)
        return ranking


def until_read(
    collection: str, store: VectorStore, attempt: Callable[[int], list[Hit]], filters: Filters | None
) -> list[Hit]:
    """The hits of an attempt at a search, made anew if documents were deleted after they were ranked.

    Raises BadInput: no document has a field of the filters; StoreError: documents are deleted faster than read.
    """
    for depth in _DEPTHS:
        with suppress(MissingDocuments):
            hits = attempt(depth)
            if not hits and filters and isinstance(store, ChecksFields):
                store.require_fields(filters)
            return hits
    raise StoreError(f"documents of {collection} vanish while it is searched; search again when that is over")


def _subject(versions: Sequence[Hit], preferred: Sequence[str]) -> Hit:
    """The version in the first of the preferred languages that a version has, else the first; the others below it.

    Its score is that of the best version, by which the subject stands where it does; ``fits`` asks for no preference.
    """
    face = next((hit for lang in preferred for hit in versions if hit.lang == lang), versions[0])
    asked = next((hit for hit in versions if hit.lang == preferred[-1]), versions[0])  # in the query's language
    return replace(face, score=versions[0].score, fits=asked.fits, also=[hit for hit in versions if hit is not face])


def facet_paths(store: VectorStore, names: Sequence[str]) -> dict[str, str]:
    """The paths of facets' values in the documents' fields, by name. Raises BadInput: a facet can't be filtered by."""
    checks = store if isinstance(store, ChecksFields) else None
    return {name: checks.value_path(name) if checks and name != LANGUAGE_FACET else name for name in names}


def facets_of(
    hits: Sequence[Hit],
    paths: Mapping[str, str],
    store: VectorStore,
    languages: Mapping[str, int],
    filters: Filters | None,
) -> Facets:
    """Facets of the hits' documents; ``paths`` as of ``facet_paths``. Raises BadInput: no document has a field."""
    total = store.count_passing(list(languages), filters) if filters else sum(languages.values())
    documents = [shown.document for hit in hits for shown in (hit, *hit.also)]
    facets = Facets.of(documents, paths, max(total, len(documents)))
    if isinstance(store, ChecksFields):
        store.require_fields([name for name, of_name in facets.counts.items() if not of_name and documents])
    return facets
