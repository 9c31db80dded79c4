"""Fair ranking: search each target language with a corrected query, compare candidates by margin, then by passages.

Queries of one language are ranked together, so that stored vectors are read once; so are those of waiting threads. A
ranking is made in stretches of the candidates that earlier stretches left, by the neighbourhoods of the first, so the
first hits do not depend on the number asked for (a store with approximate kNN may find slightly more).
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from encoders.document import BoolArray, FloatArray
from encoders.machine.cores import available_cores
from encoders.waiting_calls import WaitingCalls
from indexer.stores.contract import (
    Filters,
    LexicalHits,
    LexicalQuery,
    MissingDocuments,
    OnServer,
    VectorQuery,
    VectorStore,
)
from indexer.stores.embedded import EmbeddedStore
from indexer.stores.matrix import Rows
from query.calibration.calibration import Calibration
from query.calibration.comparison_space import CorrectedQueries
from query.calibration.margin import centring, exponent, language_neighbourhoods, margin
from query.ranking.bank_neighbourhoods import BankNeighbourhoods
from query.ranking.candidate_mates import Mates, subjects
from query.ranking.candidates import CandidateDocuments, CandidatesWithPassages, CosinesByPart, RetrievedDocuments
from query.ranking.fusion import DEPTH
from query.ranking.passages import with_passages
from query.ranking.scores import ScoredCandidates, shortlists
from query.ranking.search_hits import Detail, Ranking


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
_FEWEST = 25
"""Least candidates of a language; more than nine languages have ``_KEPT_FOR_A_HIT`` for each hit in all. Lohelp in 21
languages has a MAP of .2848 with 25 of each, of .2845 ± .0010 with 50; ntrex in 42 languages has .9820 with both."""
_KEPT_FOR_A_HIT = 3
"""Candidates that a stretch keeps for each of its hits before bank and mates are asked. Three cost nothing (ntrex in 42
languages, MAP .9732 with and without), two cost .002 in a mixed collection."""
_PROMISING = (_KEPT_FOR_A_HIT, 1.5)
"""Candidates of a stretch whose vectors are read from a server for each hit, and with them passages, by estimates."""
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
    detailed: bool
    filters: Filters | None = field(compare=False)


def candidates_of_a_language(languages: int, *, many: bool) -> int:
    """Candidates of each language in the first stretch; fewer languages have more; ``many`` as of ``FairRanker``."""
    last, most = STRETCHES[0]
    in_all = max(_FEWEST, -(-_KEPT_FOR_A_HIT * last // max(1, languages)))
    return max(min(most, in_all) * (2 if many else 1), -(-last // max(1, languages)))


_Query = tuple[FloatArray, tuple[str, ...]]
"""A query by its vector, and by its text for hybrid search."""


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
        many: bool | None = None,
    ) -> None:
        """Rank a store's vectors of the calibration's model, by the calibration's balance unless another is given.

        ``hybrid``: by shared words, too. ``passages=False``: by documents' vectors alone. ``many``: a language has more
        documents than ``MANY``; unless given, the store counts.
        """
        self._store = store
        self.calibration = calibration
        self._hybrid, self._passages, self._many = hybrid, passages, many
        self.balance = calibration.balance if balance is None else balance
        self._share = centring(self.balance)
        self._beta = exponent(self.balance)
        # where means are not wholly taken out, scores of two languages have two scales
        self._mates_count = calibration.mates and self._share == 1.0
        # reading costs where the store is on a server, and its scores say enough where vectors are compared as they are
        one_part, as_stored = len(calibration.vector_parts.widths) == 1, calibration.space.maps_of_documents is None
        self._reads_promising = one_part and as_stored and isinstance(store, OnServer)
        self._neighbourhoods = BankNeighbourhoods(partial(calibration.bank, share=self._share))

    def rank(
        self,
        queries: FloatArray,
        lang: str,
        targets: Sequence[str],
        k: int,
        filters: Filters | None = None,
        *,
        texts: Sequence[str] = (),
        detailed: bool = False,
        without: Sequence[Collection[str]] = (),
    ) -> list[Ranking]:
        """The k best documents of the target languages for each of (queries, dim) unit vectors of one language.

        ``texts`` are for hybrid search; ``detailed`` rankings can make details; each query's ``without`` is left out.
        """
        as_json = json.dumps(filters, sort_keys=True, default=repr)
        search = _Search(self, lang, tuple(targets), k, as_json, detailed, filters)
        if len(queries) == 1 and not without:
            return _waiting[isinstance(self._store, EmbeddedStore)].call(search, [(queries[0], tuple(texts))])
        return self.rank_together(search, queries, texts, without)

    def rank_together(
        self, search: _Search, queries: FloatArray, texts: Sequence[str], without: Sequence[Collection[str]] = ()
    ) -> list[Ranking]:
        """The rankings of (queries, dim) unit vectors by one search."""
        corrected = self.calibration.correct_queries(queries, search.lang, self._share)
        plain = self.calibration.queries_in_stored_space(queries, search.lang) if search.detailed else None
        return self._rank(search, corrected, texts=texts, plain=plain, without=without)

    def rank_similar(
        self, doc_id: str, lang: str, targets: Sequence[str], k: int, filters: Filters | None = None
    ) -> tuple[Ranking, FloatArray]:
        """The k documents most similar to a stored document, with details, and its (1, dim) stored vector.

        Each side loses its language's mean; the document is left out. Raises MissingDocuments: it is not stored.
        """
        raw = self._store.vectors(self.calibration.model, [doc_id])
        corrected = self.calibration.correct_documents(raw, {lang: slice(0, 1)}, self._share, query_lang=lang)
        search = _Search(self, lang, tuple(targets), k, "", True, filters)
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
        """The rankings of corrected queries; ``plain`` are the queries in the stored space, for the details."""
        calibration, lang, targets = self.calibration, search.lang, search.targets
        asked = calibration.compared(corrected, lang, self._share)
        stretches = self._stretches(search.k, len(targets))
        langs = list(dict.fromkeys([*targets, lang]))  # the query's own language sets the scale of BM25 scores
        vectors = {
            target: calibration.queries_for_store(asked.toward(target), target, self._share, lang=lang)
            for target in targets
        }
        count = stretches[-1].candidates + max(map(len, without), default=0)
        with_vectors = len(asked) == 1 and not self._hybrid and not self._reads_promising
        query = VectorQuery(calibration.model, vectors, count, search.filters, with_vectors)
        lexical_hits: Sequence[LexicalHits] = []
        if self._hybrid and texts:
            lexical = LexicalQuery(texts, langs, DEPTH, search.filters, (calibration.model,))
            nearest, lexical_hits = self._store.search_with_words(query, lexical)
        else:
            nearest = self._store.search(query)
        retrieved = RetrievedDocuments(nearest, vectors, lexical_hits).without(without)
        while True:
            try:
                return self._ranked(retrieved, asked, search, stretches, plain)
            except MissingDocuments as missing:
                retrieved = retrieved.without([missing.doc_ids] * len(asked))

    def subjects(
        self, ranking: Ranking, groups: Sequence[Sequence[int]], lang: str
    ) -> tuple[list[list[int]], Counter[int]]:
        """``subjects`` of a ranking's hits. Raises MissingDocuments: hits were deleted."""
        documents, ranks = self._with_vectors(ranking, lang)
        bar, mates = self.calibration.bar, self.calibration.mates
        return subjects(documents, ranks, groups, bar, self._store.get, mates=mates)

    def with_mates(self, ranking: Ranking, scores: FloatArray, lang: str) -> FloatArray:
        """(n,) other scores of hits with what mates add. Raises MissingDocuments: hits were deleted since."""
        if not self._mates_count or len(set(ranking.langs)) < 2:
            return scores
        documents, order = self._with_vectors(ranking, lang)
        result = np.empty_like(scores)
        mates = Mates.among(documents, np.arange(len(order)), scores[order], self.calibration.bar)
        result[order] = mates.added(scores[order])
        return result

    def _with_vectors(self, ranking: Ranking, query_lang: str) -> tuple[CandidateDocuments, Rows]:
        """A ranking's hits, language after language, wholly without the means of these; and their (n,) ranks."""
        order = np.argsort(ranking.langs, kind="stable")
        langs, counts = np.unique(ranking.langs, return_counts=True)
        ends = np.cumsum(counts)
        languages = {lang: slice(*span) for lang, *span in zip(langs.tolist(), ends - counts, ends, strict=True)}
        return self._documents([ranking.doc_ids[rank] for rank in order], languages, query_lang, share=1.0), order

    def _ranked(
        self,
        retrieved: RetrievedDocuments,
        queries: CorrectedQueries,
        search: _Search,
        stretches: Sequence[Stretch],
        plain: FloatArray | None,
    ) -> list[Ranking]:
        """The rankings, with details if ``plain`` is given. Raises MissingDocuments: candidates were deleted since."""
        lang = search.lang
        ends = [stretch.last for stretch in stretches]
        if len(queries) == 1 and self._reads_promising:
            needs_passages = self._passages or plain is not None
            candidates, in_stretches, by_words = self._promising(retrieved, lang, stretches, passages=needs_passages)
        else:
            doc_ids, languages, in_stretches, by_words = retrieved.merged([stretch.candidates for stretch in stretches])
            candidates = self._documents(doc_ids, languages, lang, self._share, retrieved.vectors(doc_ids))
        scored = self._compared(candidates, queries, in_stretches)
        if self._beta and len(candidates.doc_ids) > _KEPT_FOR_A_HIT * ends[0]:
            without_bank = self._by_margin(scored, scored.fwd)
            kept = [_KEPT_FOR_A_HIT * end for end in ends]
            rows, in_stretches = shortlists(without_bank, in_stretches, by_words, kept)
            scored, by_words = scored.selected(rows), by_words[:, rows]
        candidates = scored.documents
        bwd = self._neighbourhoods.of(candidates, lang) if self._beta else None
        scored = self._by_margin(scored, bwd)
        mates = self._mates(scored, in_stretches[0])
        if self._passages:
            rows, in_stretches = shortlists(scored.with_mates(mates), in_stretches, by_words, ends)
            scored = self._compared(self._with_passages(candidates, rows, lang), queries, in_stretches)
            scored = self._by_margin(scored, None if bwd is None else bwd[rows])
            mates = [of_query.selected(rows, in_stretches[0][query]) for query, of_query in enumerate(mates)]
        scored = scored.with_mates(mates)
        documents, rankings = scored.documents, []
        for query in range(len(queries)):
            lexical_hits = retrieved.lexical_hits[query] if retrieved.lexical_hits else None
            rows, scores = scored.ranking(query, [in_stretch[query] for in_stretch in in_stretches], ends, lexical_hits)
            doc_ids, langs = (
                [values[row] for row in rows[: search.k]] for values in (documents.doc_ids, documents.langs)
            )
            details = None
            if plain is not None:
                asked = queries.selected(query)
                details = partial(self._details, scored, query, plain[query], asked, lexical_hits, lang)
            rankings.append(Ranking(doc_ids, langs, scores[: search.k], details))
        return rankings

    def _stretches(self, k: int, languages: int) -> list[Stretch]:
        """The stretches that k hits need; a ranking by plain cosines of one part is a single stretch."""
        one_part = len(self.calibration.vector_parts.widths) == 1
        if one_part and not (self._share or self._passages or self._hybrid or self.calibration.mates):
            return [Stretch(k, k)]  # kNN takes candidates before several parts are on one scale
        if self._many is None:
            self._many = max(self._store.count().values(), default=0) > MANY
        first = Stretch(STRETCHES[0].last, candidates_of_a_language(languages, many=self._many))
        stretches = (first, *STRETCHES[1:])
        before = (0, *(stretch.last for stretch in stretches))
        needed = [stretch for stretch, start in zip(stretches, before, strict=False) if start < k]
        return [*needed, Stretch(k, k)] if k > stretches[-1].last else needed

    def _promising(
        self, retrieved: RetrievedDocuments, query_lang: str, stretches: Sequence[Stretch], *, passages: bool
    ) -> tuple[CandidateDocuments, list[BoolArray], BoolArray]:
        """The candidates that may be hits by their estimated cosines, the best with ``passages`` if these are needed.

        Vectors and passages are read at once. As of ``merged`` also whether they are in stretches, and found by words.
        """
        doc_ids, languages, in_stretches, by_words = retrieved.merged([stretch.candidates for stretch in stretches])
        nothing, parts = np.empty((len(doc_ids), 0), dtype=np.float32), self.calibration.vector_parts
        unread = CandidateDocuments(doc_ids, languages, nothing, nothing, parts)
        means = {lang: self.calibration.mean("document", lang) * np.float32(self._share) for lang in languages}
        estimated = self._scored(unread, CosinesByPart(retrieved.estimated_cosines(doc_ids, means)), in_stretches)
        estimated = self._by_margin(estimated, estimated.fwd)
        kept, with_passages = ([int(times * stretch.last) for stretch in stretches] for times in _PROMISING)
        best = shortlists(estimated, in_stretches, by_words, with_passages)[0].tolist() if passages else []
        rows, in_stretches = shortlists(estimated, in_stretches, by_words, kept)
        unread, passages_of = unread.selected(rows), {doc_ids[row] for row in best}
        raw, by_id = self._store.encoded(self.calibration.model, unread.doc_ids, passages_of)
        documents = self._documents(unread.doc_ids, unread.languages, query_lang, self._share, raw)
        return replace(documents, passages_by_id=by_id), in_stretches, by_words[:, rows]

    def _documents(
        self,
        doc_ids: Sequence[str],
        languages: Mapping[str, slice],
        query_lang: str,
        share: float,
        raw: FloatArray | None = None,
    ) -> CandidateDocuments:
        """Documents, language after language, with their vectors, which are read from the store unless given."""
        raw = self._store.vectors(self.calibration.model, doc_ids) if raw is None else raw
        vectors = self.calibration.correct_documents(raw, languages, share, query_lang=query_lang)
        return CandidateDocuments(doc_ids, languages, raw, vectors, self.calibration.vector_parts)

    def _compared(
        self, documents: CandidateDocuments, queries: CorrectedQueries, in_stretches: Sequence[BoolArray]
    ) -> ScoredCandidates:
        """The last stretch's candidates by cosines, with the queries' neighbourhoods among the first stretch's."""
        return self._scored(documents, documents.cosines_by_part(queries), in_stretches)

    def _scored(
        self, documents: CandidateDocuments, by_part: CosinesByPart, in_stretches: Sequence[BoolArray]
    ) -> ScoredCandidates:
        cosines, fwd = by_part.mean().T, None
        if self._beta:
            in_first = np.where(in_stretches[0], cosines, np.float32(-np.inf))
            fwd = language_neighbourhoods(in_first, documents.languages.values())
        scores = np.where(in_stretches[-1], cosines, np.float32(-np.inf))
        return ScoredCandidates(documents, by_part, cosines, fwd, None, scores)

    def _by_margin(self, compared: ScoredCandidates, bwd: FloatArray | None) -> ScoredCandidates:
        """The same candidates by margins; ``bwd`` are the documents' neighbourhoods, (n,) or (queries, n)."""
        if compared.fwd is None or bwd is None:
            return compared
        margins = margin(compared.cosines, compared.fwd, bwd, self._beta)
        return replace(compared, bwd=bwd, scores=np.where(np.isfinite(compared.scores), margins, compared.scores))

    def _mates(self, scored: ScoredCandidates, in_first_stretch: BoolArray) -> list[Mates]:
        """The mates among each query's candidates of the first stretch; none if mates don't count."""
        if not self._mates_count or len(scored.documents.languages) < 2:
            return []
        return [
            Mates.among(scored.documents, rows, scores[rows], self.calibration.bar)
            for scores, rows in zip(scored.scores, map(np.flatnonzero, in_first_stretch), strict=True)
        ]

    def _with_passages(self, candidates: CandidateDocuments, rows: Rows, query_lang: str) -> CandidatesWithPassages:
        """The candidates of the rows, ascending, with passages."""
        documents = candidates.selected(rows)
        unread = [doc_id for doc_id in documents.doc_ids if doc_id not in documents.passages_by_id]
        read = self._store.passages(self.calibration.model, unread) if unread else []
        by_id = documents.passages_by_id | dict(zip(unread, read, strict=True))
        stored = [by_id[doc_id] for doc_id in documents.doc_ids]
        return with_passages(documents, stored, self.calibration, self._share, query_lang)

    def _details(
        self,
        scored: ScoredCandidates,
        query: int,
        plain: FloatArray,
        asked: CorrectedQueries,
        lexical_hits: LexicalHits | None,
        query_lang: str,
        doc_ids: Sequence[str],
    ) -> list[Detail]:
        """Details of hits of a query; passages are read from the store only if the ranking did not use them."""
        row_of = {doc_id: row for row, doc_id in enumerate(scored.documents.doc_ids)}
        rows = np.array([row_of[doc_id] for doc_id in doc_ids], dtype=np.intp)
        shown, cosines, column, places = scored.documents, scored.by_part.passages, query, rows
        if not isinstance(shown, CandidatesWithPassages):
            ascending, places = np.unique(rows, return_inverse=True)
            shown = self._with_passages(shown, ascending, query_lang)
            cosines, column = shown.cosines_by_part(asked).passages, 0
        starts, ends = shown.borders[:-1], shown.borders[1:] - shown.has_title
        parts = scored.parts(query, rows, plain, lexical_hits)
        return [
            Detail(doc_id, of_row, shown.stored[place], cosines[starts[place] : ends[place], column])
            for doc_id, of_row, place in zip(doc_ids, parts, places.tolist(), strict=True)
        ]


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
