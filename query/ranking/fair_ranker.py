"""Fair ranking: search each target language with a corrected query, compare candidates by margin, then by passages.

Mates among the candidates of the first stretch lift each other (``query/ranking/mates.py``).

Queries of one language are ranked together, so that the stored vectors are read once for all of them. So are queries of
several threads that differ in nothing else, if they wait because the process ranks as many as it may at once.

A ranking is made in stretches: hits 1–50 come from fifty candidates of each language (more in one or two languages, and
in large collections), the hits to 1,000 from a thousand, and so on. Each stretch ranks the candidates that earlier
stretches left, by the neighbourhoods of the first stretch. So the first hits do not depend on the number of hits asked
for: an evaluation to depth 1,000 scores what a search shows.
(A store with approximate kNN may find slightly more for the first fifty if a thousand are asked for.)
"""

from __future__ import annotations

import json
import os
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import NamedTuple

import numpy as np

from encoders.cores import available_cores
from encoders.document import BoolArray, FloatArray, unit_rows
from encoders.largest import largest
from indexer.stores.contract import Filters, LexicalHits, LexicalQuery, MissingDocuments, VectorStore
from indexer.stores.embedded import EmbeddedStore
from indexer.stores.matrix import Rows
from query.calibration.calibration import Calibration
from query.calibration.corrected_queries import CorrectedQueries
from query.calibration.margin import best_of_languages, centring, exponent, margin
from query.calibration.old_and_new_calibration import OldAndNewCalibration
from query.ranking.bank_neighbourhoods import BankNeighbourhoods
from query.ranking.candidates import (
    CandidateDocuments,
    CandidatesWithPassages,
    CosinesByPart,
    NearestByLanguage,
    RetrievedDocuments,
)
from query.ranking.fusion import DEPTH
from query.ranking.hits import Detail, Ranking
from query.ranking.mates import Mates, counterparts
from query.ranking.merged_candidates import MergedCandidates
from query.ranking.old_and_new_vectors import OldAndNewVectors
from query.ranking.passages import with_passages
from query.ranking.scores import ScoredCandidates
from query.ranking.search_choice import SearchChoice
from query.ranking.stored_vectors import StoredVectors
from query.ranking.waiting_calls import WaitingCalls

STRETCHES = (50, 1_000, 10_000)
"""Last rank of each stretch, and its candidates per language by raw vectors: fifty hold 99.5 % of the exact ten best
(docs/methods/fair-ranking.md)."""
_FIRST_LOOK = 20
"""Candidates per language that the query alone finds before a second look, where the first stretch has fifty."""
_SECOND_LOOK = 400
"""Candidates of a second look over all languages; at least ``_FIRST_LOOK`` and at most fifty a language, in proportion
more where the first stretch is longer."""
_BEST = 3
"""Number of best hits, each of another language, that are added to the query of a second look."""
MANY = 10_000
"""Documents of the largest language above which the first stretch has twice as many candidates. Among 228,206 vectors
in twelve languages a hundred candidates hold 99.6 % of the exact ten best, fifty 97.4 % (docs/decisions/0006)."""
_BANKS = 16
"""Maximum banks in memory: with a common space of 42 languages a bank takes 17 MB."""
_NEIGHBOURHOODS = 200_000
"""Neighbourhoods in memory, of all banks, above which the bank that was asked longest ago is dropped: 30 MB."""
_TOGETHER = 8
"""Maximum waiting queries that are ranked together: each has its own candidates in memory."""
RESCORED = 150
"""Documents at the head of the merged ranking that are compared by passages too; more if a stretch ends later."""


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
    """Ranks a collection's documents by a calibration and a choice."""

    def __init__(
        self,
        store: VectorStore,
        calibration: Calibration,
        choice: SearchChoice,
        largest_language: int | None = None,
        stored: StoredVectors | None = None,
    ) -> None:
        """Rank a store's vectors of the calibration's model.

        ``largest_language`` is the number of documents of the language that has most; unless given, the store counts.
        ``stored`` finds and reads the vectors; unless given, they are the store's.
        """
        self._store = store
        self._largest_language = largest_language
        self.calibration = calibration
        if isinstance(calibration, OldAndNewCalibration):  # whose two kinds of cosines have no common scale yet
            choice = replace(choice, second_look=False)
        self.choice = choice
        self._stored: StoredVectors | OldAndNewVectors = stored or (
            OldAndNewVectors(store, calibration, choice)
            if isinstance(calibration, OldAndNewCalibration)
            else StoredVectors(store, calibration, choice)
        )
        self._share = centring(choice.balance)
        self._beta = exponent(choice.balance)
        self._banks: dict[str, BankNeighbourhoods] = {}
        self._lock = Lock()
        self._rankers: dict[str, FairRanker] = {}

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
        if (calibration := self.calibration.for_queries_in(lang)) is not self.calibration:
            return self._ranker(calibration, lang).rank(
                queries, lang, targets, k, filters, texts=texts, detailed=detailed
            )
        as_json = json.dumps(filters, sort_keys=True, default=repr)
        search = _Search(self, lang, tuple(targets), k, as_json, detailed, filters)
        if len(queries) == 1:
            return _waiting[isinstance(self._store, EmbeddedStore)].call(search, [_Query(queries[0], tuple(texts))])
        return self.rank_together(search, queries, texts)

    def rank_together(self, search: _Search, queries: FloatArray, texts: Sequence[str]) -> list[Ranking]:
        """The rankings of (queries, dim) unit vectors by one search."""
        lang, targets, k, detailed = search.lang, search.targets, search.k, search.detailed
        corrected = self.calibration.correct_queries(queries, lang, self._share)
        plain = self.calibration.queries_in_stored_space(queries, lang) if detailed else None
        return self._rank(corrected, lang, targets, k, search.filters, texts=texts, plain=plain, detailed=detailed)

    def rank_similar(
        self, doc_id: str, lang: str, targets: Sequence[str], k: int, filters: Filters | None = None
    ) -> tuple[Ranking, FloatArray]:
        """The k documents of the target languages that are most similar to a document of a language, with details.

        Both sides are documents, and each loses the component of its language's documents. The document itself is left
        out.

        Returns:
            The ranking, and the (1, dim) stored vector of the document; in a collection that is being encoded again
            as old and new vector.

        Raises:
            MissingDocuments: the document is not stored.
        """
        if (calibration := self.calibration.for_queries_in(lang)) is not self.calibration:
            return self._ranker(calibration, lang).rank_similar(doc_id, lang, targets, k, filters)
        raw = self._stored.vectors([doc_id])
        corrected = self.calibration.correct_documents(raw, {lang: slice(0, 1)}, self._share)
        plain = self.calibration.comparable_with_stored(raw, lang)
        return self._rank(corrected, lang, targets, k, filters, plain=plain, detailed=k, without=(doc_id,))[0], plain

    def _rank(
        self,
        corrected: FloatArray,
        lang: str,
        targets: Sequence[str],
        k: int,
        filters: Filters | None,
        *,
        texts: Sequence[str] = (),
        plain: FloatArray | None = None,
        detailed: int = 0,
        without: Collection[str] = (),
    ) -> list[Ranking]:
        """The rankings of corrected queries; ``plain`` are the queries in the stored space, for the details."""
        asked = self.calibration.compared(corrected, lang, self._share)
        ends = self._ends(k, len(targets))
        langs = list(dict.fromkeys([*targets, lang]))  # the query's own language sets the scale of BM25 scores
        hybrid = self.choice.hybrid and texts
        lexical = LexicalQuery(texts, langs, DEPTH, filters, self._stored.models) if hybrid else None
        count = self._candidates(ends)[-1] + len(without)
        nearest, lexical_hits = self._stored.search(asked, targets, count, filters, lexical)
        retrieved = RetrievedDocuments(nearest, lexical_hits).without(without)
        while True:
            try:
                if self.choice.second_look and not retrieved.near_hits:
                    retrieved = replace(retrieved, near_hits=self._near_hits(retrieved, asked, targets, filters))
                return self._ranked(retrieved, asked, lang, ends, k, plain, detailed)
            except MissingDocuments as missing:
                retrieved = retrieved.without(missing.doc_ids)

    def counterparts(self, ranking: Ranking, lang: str) -> dict[str, list[str]]:
        """For hits of a query in a language, the other hits about the same thing; none if mates don't count.

        Raises:
            MissingDocuments: hits were deleted since they were ranked.
        """
        if (calibration := self.calibration.for_queries_in(lang)) is not self.calibration:
            return self._ranker(calibration, lang).counterparts(ranking, lang)
        if not self.choice.lift:
            return {}
        documents = self._documents(ranking)
        doc_ids = documents.doc_ids
        same = counterparts(documents, np.arange(len(doc_ids)), self.choice.bar)
        return {doc_ids[row]: [doc_ids[other] for other in others] for row, others in same.items()}

    def lifted(self, ranking: Ranking, scores: FloatArray, lang: str) -> FloatArray:
        """(n,) other scores of a ranking's hits for a query in a language, lifted by mates among these hits.

        Raises:
            MissingDocuments: hits were deleted since they were ranked.
        """
        if (calibration := self.calibration.for_queries_in(lang)) is not self.calibration:
            return self._ranker(calibration, lang).lifted(ranking, scores, lang)
        if not self.choice.lift or len(set(ranking.langs)) < 2:
            return scores
        documents = self._documents(ranking)
        row_of = {doc_id: row for row, doc_id in enumerate(documents.doc_ids)}
        rows = np.array([row_of[doc_id] for doc_id in ranking.doc_ids], dtype=np.intp)
        by_row = np.empty_like(scores)
        by_row[rows] = scores
        lift, bar = self.choice.lift, self.choice.bar
        return Mates.among(documents, np.arange(len(rows)), by_row, lift=lift, bar=bar).lifted(by_row)[rows]

    def _documents(self, ranking: Ranking) -> CandidateDocuments:
        """A ranking's hits, without the languages' components."""
        doc_ids = [doc_id for _, doc_id in sorted(zip(ranking.langs, ranking.doc_ids, strict=True))]
        langs = sorted(ranking.langs)
        languages = {lang: slice(bisect_left(langs, lang), bisect_right(langs, lang)) for lang in dict.fromkeys(langs)}
        raw = self._stored.vectors(doc_ids)
        vectors = self.calibration.correct_documents(raw, languages)
        return CandidateDocuments(doc_ids, languages, raw, vectors, self.calibration.vector_parts)

    def _ranker(self, calibration: Calibration, lang: str) -> FairRanker:
        """The ranker of queries in a language whose calibration is another."""
        with self._lock:
            ranker = self._rankers.pop(lang, None)
            if ranker is None:
                ranker = FairRanker(self._store, calibration, self.choice, self._largest_language)
            self._rankers[lang] = ranker
            while len(self._rankers) > _BANKS:
                self._rankers.pop(next(iter(self._rankers)))
        return ranker

    def _ranked(
        self,
        retrieved: RetrievedDocuments,
        queries: CorrectedQueries,
        lang: str,
        ends: Sequence[int],
        k: int,
        plain: FloatArray | None,
        detailed: int,
    ) -> list[Ranking]:
        """The rankings of the documents found; the first have details if ``plain`` has the queries in the stored space.

        Raises:
            MissingDocuments: candidates were deleted since they were found.
        """
        lexical_hits = retrieved.lexical_hits
        merged = MergedCandidates.of(retrieved)
        in_stretches = [merged.in_stretch(count) for count in self._candidates(ends)]
        candidates = self._read(retrieved, merged)
        scored = self._scored(candidates, queries, lang, in_stretches)
        mates = self._mates(scored, in_stretches[0])
        if self.choice.passages:
            scored = scored.lifted(mates)
            in_stretches = [shortlist | merged.by_words for shortlist in self._shortlists(scored, in_stretches, ends)]
            rows = np.flatnonzero(in_stretches[-1].any(axis=0))
            in_stretches = [in_stretch[:, rows] for in_stretch in in_stretches]
            scored = self._scored(self._with_passages(candidates, rows), queries, lang, in_stretches)
            mates = [of_query.selected(rows, in_stretches[0][query]) for query, of_query in enumerate(mates)]
        scored = scored.lifted(mates)
        rankings = []
        for query in range(len(queries)):
            query_hits = lexical_hits[query] if lexical_hits else None
            of_query = [in_stretch[query] for in_stretch in in_stretches]
            rows, scores = _rank_stretches(scored, query, of_query, ends, query_hits)
            rows, scores = rows[:k], scores[:k]
            details = (
                self._details(scored, query, rows[:detailed], plain[query], queries.selected(query), query_hits)
                if plain is not None
                else None
            )
            rankings.append(scored.documents.ranking(rows, scores, details))
        return rankings

    def _ends(self, k: int, languages: int) -> list[int]:
        """Last ranks of the stretches that k hits need; a ranking by plain cosines of one part is a single stretch.

        In few languages the first stretch is longer, so that as many documents are compared by passages as in many.
        """
        choice, one_part = self.choice, len(self.calibration.vector_parts.widths) == 1
        compared = self._share or self._beta or choice.passages or choice.hybrid or choice.lift or choice.second_look
        if one_part and not compared:  # kNN takes candidates before several parts are on one scale
            return [k]
        if self._largest_language is None:
            self._largest_language = max(self._store.count().values(), default=0)
        first = STRETCHES[0] * (1 if self._largest_language <= MANY else 2)
        stretches = (max(first, -(-RESCORED // max(1, languages))), *STRETCHES[1:])
        needed = [end for end, before in zip(stretches, (0, *stretches), strict=False) if before < k]
        return [*needed, k] if k > stretches[-1] else needed

    def _candidates(self, ends: Sequence[int]) -> list[int]:
        """Candidates per language by raw vectors of each stretch, by the stretches' last ranks."""
        first = ends[0] * _FIRST_LOOK // STRETCHES[0] if self.choice.second_look else ends[0]
        return [first, *ends[1:]]

    def _near_hits(
        self, retrieved: RetrievedDocuments, queries: CorrectedQueries, targets: Sequence[str], filters: Filters | None
    ) -> NearestByLanguage:
        """The documents of each language nearest to the query and its best hits together (Rocchio, weights of 1).

        The best hits are the nearest document of each of the best languages.
        """
        best = RetrievedDocuments(
            [(lang, [hits.first(1) for hits in by_query]) for lang, by_query in retrieved.nearest]
        )
        merged = MergedCandidates.of(best)
        documents = self._read(best, merged)
        cosines = documents.cosines(queries).T
        best_hits = np.zeros_like(queries.vectors)
        for query, rows_by_language in enumerate(merged.nearest):
            rows = np.array([row for rows in rows_by_language for row in rows], dtype=np.intp)
            if len(rows):
                rows = rows[largest(cosines[query, rows], _BEST)]
                best_hits[query] = unit_rows(documents.vectors[rows].mean(axis=0, keepdims=True))[0]
        each = min(STRETCHES[0], max(_FIRST_LOOK, _SECOND_LOOK // len(targets)))
        count = each * self._candidates(self._ends(1, len(targets)))[0] // _FIRST_LOOK
        return self._stored.search(queries.moved(best_hits), targets, count, filters, None)[0]

    def _read(self, retrieved: RetrievedDocuments, candidates: MergedCandidates) -> CandidateDocuments:
        """The candidates with their vectors: those that the store returned if it returned all, else read anew."""
        raw = retrieved.vectors(candidates.doc_ids)
        if raw is None:
            raw = self._stored.vectors(candidates.doc_ids)
        vectors = self.calibration.correct_documents(raw, candidates.languages, self._share)
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
        scale = self._stored.scale(documents, queries, in_stretches[0])
        if self._beta == 0.0 or self.choice.margin == "absolute":
            scores = cosines * scale.score_factor
            return ScoredCandidates(
                documents, cosines, None, None, np.where(in_stretches[-1], scores, np.float32(-np.inf))
            )
        fwd = (
            self._stored.neighbourhoods(documents, np.where(in_stretches[0], cosines, np.float32(-np.inf)))
            + scale.neighbourhood_offset
        )
        bwd = self._bank(query_lang).of(documents)
        scores = margin(cosines, fwd, bwd, self.choice.margin, self._beta) * scale.score_factor
        return ScoredCandidates(documents, cosines, fwd, bwd, np.where(in_stretches[-1], scores, np.float32(-np.inf)))

    def _mates(self, scored: ScoredCandidates, in_first_stretch: BoolArray) -> list[Mates]:
        """The mates among each query's candidates of the first stretch; none if mates don't count."""
        if not self.choice.lift or len(scored.documents.languages) < 2:
            return []
        documents, lift, bar = scored.documents, self.choice.lift, self.choice.bar
        if self._share < 1.0:
            vectors = self.calibration.correct_documents(documents.raw, documents.languages)
            documents = replace(documents, vectors=vectors)
        return [
            Mates.among(documents, rows, scores[rows], lift=lift, bar=bar)
            for scores, rows in zip(scored.scores, map(np.flatnonzero, in_first_stretch), strict=True)
        ]

    def _bank(self, lang: str) -> BankNeighbourhoods:
        """The neighbourhoods in a language's bank; those of the languages asked last are kept."""
        with self._lock:
            bank = self._banks.pop(lang) if lang in self._banks else BankNeighbourhoods(self._stored.bank(lang))
            self._banks[lang] = bank
            kept = sum(map(len, self._banks.values()))
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
        shortlist = best_of_languages(first, scored.documents.languages.values(), self.calibration.neighbours)
        for in_stretch, end in zip(in_stretches, ends, strict=True):
            for query, among in enumerate(in_stretch):
                shortlist[query, scored.best(query, max(end, RESCORED), among)[0]] = True
            shortlists.append(shortlist.copy())
        return shortlists

    def _with_passages(self, candidates: CandidateDocuments, rows: Rows) -> CandidatesWithPassages:
        """The candidates of the rows, ascending, with passages."""
        documents = candidates.selected(rows)
        stored = self._stored.passages(documents.doc_ids, documents.raw)
        return with_passages(documents, stored, self.calibration, self._share, self.choice.mix)

    def _details(
        self,
        scored: ScoredCandidates,
        query: int,
        rows: Rows,
        raw: FloatArray,
        corrected: CorrectedQueries,
        lexical_hits: LexicalHits | None,
    ) -> list[Detail]:
        """Details of the hits; passages are read from the store only if the ranking did not use them."""
        documents = scored.documents
        order = np.argsort(rows)
        shown = (
            documents if isinstance(documents, CandidatesWithPassages) else self._with_passages(documents, rows[order])
        )
        shown_rows = rows if shown is documents else np.argsort(order)
        by_part, passages = shown.cosines_by_part(corrected)
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
