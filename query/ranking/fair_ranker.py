"""Fair ranking: search each target language with a corrected query, compare candidates by margin, then by passages.

Mates among the candidates of the first stretch take part in each other's scores (``query/ranking/mates.py``).

Queries of one language are ranked together, so that the stored vectors are read once for all of them. So are queries of
several threads that differ in nothing else, if they wait because the process ranks as many as it may at once.

A ranking is made in stretches: hits 1–150 come from fifty candidates of each language (more in one or two languages,
and in large collections), the hits to 1,000 from a thousand, and so on. Each stretch ranks the candidates that earlier
stretches left, by the neighbourhoods of the first stretch. So the first hits do not depend on the number of hits asked
for: an evaluation to depth 1,000 scores what a search shows.
(A store with approximate kNN may find slightly more for the first stretch if a thousand are asked for.)
"""

from __future__ import annotations

import json
import os
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

import numpy as np

from encoders.cores import available_cores
from encoders.document import BoolArray, FloatArray
from indexer.stores.contract import Filters, LexicalHits, LexicalQuery, MissingDocuments, VectorQuery, VectorStore
from indexer.stores.embedded import EmbeddedStore
from indexer.stores.matrix import Rows
from query.calibration.calibration import Calibration
from query.calibration.corrected_queries import CorrectedQueries
from query.calibration.margin import best_of_languages, centring, exponent, language_neighbourhoods, margin
from query.ranking.bank_neighbourhoods import BankNeighbourhoods
from query.ranking.candidates import (
    CandidateDocuments,
    CandidatesWithPassages,
    CosinesByPart,
    RetrievedDocuments,
)
from query.ranking.fusion import DEPTH
from query.ranking.hits import Detail, Ranking
from query.ranking.mates import Mates, counterparts
from query.ranking.merged_candidates import MergedCandidates
from query.ranking.passages import with_passages
from query.ranking.scores import ScoredCandidates
from query.ranking.waiting_calls import WaitingCalls


class Stretch(NamedTuple):
    """Ranks that are ranked together: the last, and candidates per language by raw vectors."""

    last: int
    candidates: int


STRETCHES = (Stretch(150, 50), Stretch(1_000, 1_000), Stretch(10_000, 10_000))
"""The stretches of a ranking. Fifty candidates hold 99.5 % of the exact ten best of a language
(docs/methods/fair-ranking.md)."""
MANY = 10_000
"""Documents of the largest language above which the first stretch has twice as many candidates. Among 228,206 vectors
in twelve languages a hundred candidates hold 99.6 % of the exact ten best, fifty 97.4 % (docs/decisions/0006)."""
_BANKS = 16
"""Maximum banks in memory: with a common space of 42 languages a bank takes 17 MB."""
_NEIGHBOURHOODS = 200_000
"""Neighbourhoods in memory, of all banks, above which the bank that was asked longest ago is dropped: 30 MB."""
_TOGETHER = 8
"""Maximum waiting queries that are ranked together: each has its own candidates in memory."""


@dataclass(frozen=True)
class _Search:
    """All but the query that decides a ranking; searches are equal if their filters are so as JSON."""

    ranker: FairRanker
    lang: str
    targets: tuple[str, ...]
    k: int
    filters_as_json: str
    detailed: int
    filters: Filters | None = field(compare=False)


class _Query(NamedTuple):
    """A query by its vector, and by its text for hybrid search."""

    vector: FloatArray
    texts: tuple[str, ...]


class FairRanker:
    """Ranks a collection's documents by a calibration."""

    def __init__(
        self,
        store: VectorStore,
        calibration: Calibration,
        balance: float | None = None,
        *,
        hybrid: bool = False,
        passages: bool = True,
        largest_language: int | None = None,
    ) -> None:
        """Rank a store's vectors of the calibration's model, by the calibration's balance unless another is given.

        ``hybrid``: by shared words, too. ``passages=False``: by documents' vectors alone. ``largest_language`` is the
        number of documents of the language that has most; unless given, the store counts.
        """
        self._store = store
        self._largest_language = largest_language
        self.calibration = calibration
        self._hybrid, self._passages = hybrid, passages
        self.balance = calibration.balance if balance is None else balance
        self._share = centring(self.balance)
        self._beta = exponent(self.balance)
        # where means are not wholly taken out, scores of two languages have two scales
        self._mates_count = calibration.mates and self._share == 1.0
        self._banks: dict[str, BankNeighbourhoods] = {}
        self._lock = Lock()

    def rank(
        self,
        queries: FloatArray,
        lang: str,
        targets: Sequence[str],
        k: int,
        filters: Filters | None = None,
        *,
        texts: Sequence[str] = (),
        detailed: int = 0,
    ) -> list[Ranking]:
        """The k best documents of the target languages for each of (queries, dim) unit vectors of one language.

        The queries' texts are for hybrid search. ``detailed`` is the number of first hits that get the details that a
        hit shows; those of all take too much memory for an evaluation. Documents that are deleted during the ranking
        are left out.
        """
        as_json = json.dumps(filters, sort_keys=True, default=repr)
        search = _Search(self, lang, tuple(targets), k, as_json, detailed, filters)
        if len(queries) == 1:
            return _waiting[isinstance(self._store, EmbeddedStore)].call(search, [_Query(queries[0], tuple(texts))])
        return self.rank_together(search, queries, texts)

    def rank_together(self, search: _Search, queries: FloatArray, texts: Sequence[str]) -> list[Ranking]:
        """The rankings of (queries, dim) unit vectors by one search."""
        corrected = self.calibration.correct_queries(queries, search.lang, self._share)
        plain = self.calibration.queries_in_stored_space(queries, search.lang) if search.detailed else None
        return self._rank(search, corrected, texts=texts, plain=plain)

    def rank_without(
        self, queries: FloatArray, lang: str, targets: Sequence[str], k: int, without: Sequence[Collection[str]]
    ) -> list[Ranking]:
        """The same as ``rank``, as if each query's documents of ``without`` were not stored."""
        search = _Search(self, lang, tuple(targets), k, "", 0, None)
        return self._rank(search, self.calibration.correct_queries(queries, lang, self._share), without=without)

    def rank_similar(
        self, doc_id: str, lang: str, targets: Sequence[str], k: int, filters: Filters | None = None
    ) -> tuple[Ranking, FloatArray]:
        """The k documents of the target languages that are most similar to a document of a language, with details.

        Both sides are documents, and each loses the mean of its language's documents. The document itself is left out.

        Returns:
            The ranking, and the (1, dim) stored vector of the document.

        Raises:
            MissingDocuments: the document is not stored.
        """
        raw = self._store.vectors(self.calibration.model, [doc_id])
        corrected = self.calibration.correct_documents(raw, {lang: slice(0, 1)}, self._share, query_lang=lang)
        search = _Search(self, lang, tuple(targets), k, "", k, filters)
        return self._rank(search, corrected, plain=raw, without=[{doc_id}])[0], raw

    def _rank(
        self,
        search: _Search,
        corrected: FloatArray,
        *,
        texts: Sequence[str] = (),
        plain: FloatArray | None = None,
        without: Sequence[Collection[str]] = (),
    ) -> list[Ranking]:
        """The rankings of corrected queries; ``plain`` are the queries in the stored space, for the details.

        ``without`` are the documents that each query does not meet; empty: all meet all.
        """
        calibration, lang, targets = self.calibration, search.lang, search.targets
        asked = calibration.compared(corrected, lang, self._share)
        stretches = self._stretches(search.k, len(targets))
        langs = list(dict.fromkeys([*targets, lang]))  # the query's own language sets the scale of BM25 scores
        vectors = {
            target: calibration.queries_for_store(asked.toward(target), target, self._share, lang=lang)
            for target in targets
        }
        count = stretches[-1].candidates + max(map(len, without), default=0)
        with_vectors = len(asked) == 1 and not self._hybrid
        query = VectorQuery(calibration.model, vectors, count, search.filters, with_vectors)
        lexical_hits: Sequence[LexicalHits] = []
        if self._hybrid and texts:
            lexical = LexicalQuery(texts, langs, DEPTH, search.filters, (calibration.model,))
            nearest, lexical_hits = self._store.search_with_words(query, lexical)
        else:
            nearest = self._store.search(query)
        retrieved = RetrievedDocuments(list(nearest.items()), lexical_hits).without(without)
        while True:
            try:
                return self._ranked(retrieved, asked, search, stretches, plain)
            except MissingDocuments as missing:
                retrieved = retrieved.without([missing.doc_ids] * len(asked))

    def counterparts(self, ranking: Ranking, lang: str) -> dict[str, list[str]]:
        """For hits of a query in a language, the other hits about the same thing; none if the calibration has no mates.

        Raises:
            MissingDocuments: hits were deleted since they were ranked.
        """
        if not self.calibration.mates:
            return {}
        documents = self._documents(ranking, lang)
        doc_ids = documents.doc_ids
        same = counterparts(documents, np.arange(len(doc_ids)))
        return {doc_ids[row]: [doc_ids[other] for other in others] for row, others in same.items()}

    def with_mates(self, ranking: Ranking, scores: FloatArray, lang: str) -> FloatArray:
        """(n,) other scores of a ranking's hits for a query in a language, with what mates among these hits add.

        Raises:
            MissingDocuments: hits were deleted since they were ranked.
        """
        if not self._mates_count or len(set(ranking.langs)) < 2:
            return scores
        documents = self._documents(ranking, lang)
        row_of = {doc_id: row for row, doc_id in enumerate(documents.doc_ids)}
        rows = np.array([row_of[doc_id] for doc_id in ranking.doc_ids], dtype=np.intp)
        by_row = np.empty_like(scores)
        by_row[rows] = scores
        return Mates.among(documents, np.arange(len(rows)), by_row).added(by_row)[rows]

    def _documents(self, ranking: Ranking, query_lang: str) -> CandidateDocuments:
        """A ranking's hits, without the means of their languages."""
        doc_ids = [doc_id for _, doc_id in sorted(zip(ranking.langs, ranking.doc_ids, strict=True))]
        langs = sorted(ranking.langs)
        languages = {lang: slice(bisect_left(langs, lang), bisect_right(langs, lang)) for lang in dict.fromkeys(langs)}
        raw = self._store.vectors(self.calibration.model, doc_ids)
        vectors = self.calibration.correct_documents(raw, languages, query_lang=query_lang)
        return CandidateDocuments(doc_ids, languages, raw, vectors, self.calibration.vector_parts)

    def _ranked(
        self,
        retrieved: RetrievedDocuments,
        queries: CorrectedQueries,
        search: _Search,
        stretches: Sequence[Stretch],
        plain: FloatArray | None,
    ) -> list[Ranking]:
        """The rankings of the documents found; the first have details if ``plain`` has the queries in the stored space.

        Raises:
            MissingDocuments: candidates were deleted since they were found.
        """
        lexical_hits, lang = retrieved.lexical_hits, search.lang
        merged = MergedCandidates.of(retrieved)
        in_stretches = [merged.in_stretch(stretch.candidates) for stretch in stretches]
        ends = [stretch.last for stretch in stretches]
        candidates = self._read(retrieved, merged, lang)
        scored = self._scored(candidates, queries, lang, in_stretches)
        mates = self._mates(scored, in_stretches[0])
        if self._passages:
            scored = scored.with_mates(mates)
            in_stretches = [shortlist | merged.by_words for shortlist in self._shortlists(scored, in_stretches, ends)]
            rows = np.flatnonzero(in_stretches[-1].any(axis=0))
            in_stretches = [in_stretch[:, rows] for in_stretch in in_stretches]
            scored = self._scored(self._with_passages(candidates, rows, lang), queries, lang, in_stretches)
            mates = [of_query.selected(rows, in_stretches[0][query]) for query, of_query in enumerate(mates)]
        scored = scored.with_mates(mates)
        rankings = []
        for query in range(len(queries)):
            query_hits = lexical_hits[query] if lexical_hits else None
            of_query = [in_stretch[query] for in_stretch in in_stretches]
            rows, scores = _rank_stretches(scored, query, of_query, ends, query_hits)
            rows, scores = rows[: search.k], scores[: search.k]
            details = (
                self._details(scored, query, rows[: search.detailed], plain[query], queries, query_hits, lang)
                if plain is not None
                else None
            )
            rankings.append(scored.documents.ranking(rows, scores, details))
        return rankings

    def _stretches(self, k: int, languages: int) -> list[Stretch]:
        """The stretches that k hits need; a ranking by plain cosines of one part is a single stretch.

        In few languages the first stretch has more candidates, so that as many documents are compared by passages.
        """
        one_part = len(self.calibration.vector_parts.widths) == 1
        if one_part and not (self._share or self._passages or self._hybrid or self.calibration.mates):
            return [Stretch(k, k)]  # kNN takes candidates before several parts are on one scale
        if self._largest_language is None:
            self._largest_language = max(self._store.count().values(), default=0)
        last, candidates = STRETCHES[0]
        candidates *= 1 if self._largest_language <= MANY else 2
        stretches = (Stretch(last, max(candidates, -(-last // max(1, languages)))), *STRETCHES[1:])
        before = (0, *(stretch.last for stretch in stretches))
        needed = [stretch for stretch, start in zip(stretches, before, strict=False) if start < k]
        return [*needed, Stretch(k, k)] if k > stretches[-1].last else needed

    def _read(self, retrieved: RetrievedDocuments, candidates: MergedCandidates, query_lang: str) -> CandidateDocuments:
        """The candidates with their vectors: those that the store returned if it returned all, else read anew."""
        raw = retrieved.vectors(candidates.doc_ids)
        if raw is None:
            raw = self._store.vectors(self.calibration.model, candidates.doc_ids)
        vectors = self.calibration.correct_documents(raw, candidates.languages, self._share, query_lang=query_lang)
        return CandidateDocuments(candidates.doc_ids, candidates.languages, raw, vectors, self.calibration.vector_parts)

    def _scored(
        self,
        documents: CandidateDocuments,
        queries: CorrectedQueries,
        query_lang: str,
        in_stretches: Sequence[BoolArray],
    ) -> ScoredCandidates:
        """Margins of the last stretch's candidates, with neighbourhoods among the first stretch's candidates."""
        cosines = documents.cosines(queries).T
        fwd = bwd = None
        scores = cosines
        if self._beta:
            in_first = np.where(in_stretches[0], cosines, np.float32(-np.inf))
            fwd = language_neighbourhoods(in_first, documents.languages.values())
            bwd = self._bank(query_lang).of(documents)
            scores = margin(cosines, fwd, bwd, self._beta)
        return ScoredCandidates(documents, cosines, fwd, bwd, np.where(in_stretches[-1], scores, np.float32(-np.inf)))

    def _mates(self, scored: ScoredCandidates, in_first_stretch: BoolArray) -> list[Mates]:
        """The mates among each query's candidates of the first stretch; none if mates don't count."""
        if not self._mates_count or len(scored.documents.languages) < 2:
            return []
        return [
            Mates.among(scored.documents, rows, scores[rows])
            for scores, rows in zip(scored.scores, map(np.flatnonzero, in_first_stretch), strict=True)
        ]

    def _bank(self, lang: str) -> BankNeighbourhoods:
        """The neighbourhoods in a language's bank; those of the languages asked last are kept."""
        with self._lock:
            bank = self._banks.pop(lang, None) or BankNeighbourhoods(self.calibration.bank(lang, self._share))
            self._banks[lang] = bank
            kept = sum(bank.count for bank in self._banks.values())
            if len(self._banks) > _BANKS or (kept > _NEIGHBOURHOODS and len(self._banks) > 1):
                del self._banks[next(iter(self._banks))]
            return bank

    def _shortlists(
        self, scored: ScoredCandidates, in_stretches: Sequence[BoolArray], ends: Sequence[int]
    ) -> list[BoolArray]:
        """(queries, n) for each stretch, the candidates to compare by passages: the head of its ranking.

        Each shortlist includes the earlier stretches' shortlists. The first also has the best of each language, which
        make that language's neighbourhood.
        """
        shortlists: list[BoolArray] = []
        first = np.where(in_stretches[0], scored.scores, np.float32(-np.inf))
        shortlist = best_of_languages(first, scored.documents.languages.values())
        for in_stretch, end in zip(in_stretches, ends, strict=True):
            for query, among in enumerate(in_stretch):
                shortlist[query, scored.best(query, end, among)[0]] = True
            shortlists.append(shortlist.copy())
        return shortlists

    def _with_passages(self, candidates: CandidateDocuments, rows: Rows, query_lang: str) -> CandidatesWithPassages:
        """The candidates of the rows, ascending, with passages."""
        documents = candidates.selected(rows)
        stored = self._store.passages(self.calibration.model, documents.doc_ids)
        return with_passages(documents, stored, self.calibration, self._share, query_lang)

    def _details(
        self,
        scored: ScoredCandidates,
        query: int,
        rows: Rows,
        raw: FloatArray,
        queries: CorrectedQueries,
        lexical_hits: LexicalHits | None,
        query_lang: str,
    ) -> list[Detail]:
        """Details of the hits; passages are read from the store only if the ranking did not use them."""
        documents = scored.documents
        order = np.argsort(rows)
        shown = (
            documents
            if isinstance(documents, CandidatesWithPassages)
            else self._with_passages(documents, rows[order], query_lang)
        )
        shown_rows = rows if shown is documents else np.argsort(order)
        by_part, passages = shown.cosines_by_part(queries.selected(query))
        of_rows = CosinesByPart(*(cosines[shown_rows, 0] for cosines in by_part))
        parts = scored.parts_of_scores(query, rows, raw, of_rows, lexical_hits)
        starts, ends = shown.borders[:-1], shown.borders[1:] - shown.has_title
        return [
            Detail(part, shown.stored[row], passages[starts[row] : ends[row], 0])
            for part, row in zip(parts, shown_rows, strict=True)
        ]


def _rank_stretches(
    scored: ScoredCandidates,
    query: int,
    in_stretches: Sequence[BoolArray],
    ends: Sequence[int],
    lexical_hits: LexicalHits | None,
) -> tuple[Rows, FloatArray]:
    """Rows and scores of a query's ranking; a stretch's scores are lowered below those of the stretch before."""
    rows, scores = np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.float32)
    for in_stretch, end in zip(in_stretches, ends, strict=True):
        unranked = in_stretch.copy()
        unranked[rows] = False
        next_rows, next_scores = scored.stretch(query, end - len(rows), unranked, lexical_hits)
        if len(rows) and len(next_rows):
            next_scores = np.minimum(next_scores - max(np.float32(0), next_scores[0] - scores[-1]), scores[-1])
        rows, scores = np.concatenate((rows, next_rows)), np.concatenate((scores, next_scores))
    return rows, scores


def _rank_waiting(search: _Search, queries: Sequence[_Query]) -> list[Ranking]:
    vectors, texts = zip(*queries, strict=True)
    return search.ranker.rank_together(search, np.stack(vectors), [text for of_query in texts for text in of_query])


_waiting: dict[bool, WaitingCalls[_Search, _Query, Ranking]] = {}
"""The rankings of single queries, of all rankers of the process, by whether the vectors are in memory."""


def _make_room() -> None:
    """Let as many be ranked at once as there are cores, and four times as many where a server is waited for."""
    for in_memory, times in ((True, 1), (False, 4)):
        _waiting[in_memory] = WaitingCalls(_rank_waiting, at_once=times * available_cores(), most=_TOGETHER)


_make_room()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_make_room)  # threads that were ranking are not forked with their room
