"""Fair ranking: search each target language with a corrected query, compare candidates by margin, then by passages.

Queries of one language are ranked together, so that stored vectors are read once; so are those of waiting threads. A
ranking is made in stretches of the candidates that earlier stretches left, by the neighbourhoods of the first, so the
first hits do not depend on the number asked for (a store with approximate kNN may find slightly more).
"""

import json
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from encoders.document import BoolArray, FloatArray, Rows
from encoders.machine.cores import available_cores
from encoders.waiting_calls import WaitingCalls
from indexer.stores.contract import (
    Filters,
    LexicalHits,
    LexicalQuery,
    MissingDocuments,
    ReadsTexts,
    VectorQuery,
    VectorStore,
)
from indexer.stores.embedded import EmbeddedStore
from query.calibration.calibration import Calibration
from query.calibration.comparison_space import CorrectedQueries
from query.calibration.margin import centring, exponent, language_neighbourhoods, margin
from query.ranking.bank_neighbourhoods import BankNeighbourhoods
from query.ranking.candidate_mates import Mates, subjects
from query.ranking.candidates import CandidateDocuments, CandidatesWithPassages, RetrievedDocuments
from query.ranking.fusion import DEPTH
from query.ranking.passages import with_passages
from query.ranking.scores import ScoredCandidates, shortlists
from query.ranking.search_hits import Detail, Ranking


class Stretch(NamedTuple):
    """Ranks that are ranked together: the last, and candidates per language by raw vectors."""

    last: int
    candidates: int


STRETCHES = (Stretch(150, 50), Stretch(1_000, 1_000), Stretch(10_000, 10_000))
"""The stretches of a ranking. Of dense vectors 40 candidates hold 99.8 % of a language's exact ten best
(docs/decisions/0006). MAP of lohelp's 851 topics in en, ja, ru is .446; with 50, 100, 300 hits in the first stretch
instead of 150 it is .435, .443, .447, each p < .01 after Holm."""
_FEWEST = 40
"""Least candidates of a language; more than nine languages have ``_KEPT_FOR_A_HIT`` for each hit in all. Lohelp in 21
languages has a MAP of .2848 with 25 of each, of .2845 ± .0010 with 50; ntrex in 42 languages has .9820 with both."""
_KEPT_FOR_A_HIT = 3
"""Candidates that a stretch keeps for each of its hits before bank and mates are asked. Three cost nothing (ntrex in 42
languages, MAP .9732 with and without), two cost .002 in a mixed collection."""
_MANY = 10_000
"""Documents of a language above which plain queries, of ``lengths_are_unknown``, need twice as many candidates: 50 hold
97.5 % of the exact ten best of dense vectors, 100 hold 99.6 % (docs/decisions/0006)."""
_TEXTS_FOR_A_HIT = 3
"""Candidates whose texts are read with the passages, for each hit; the texts of other hits need one more request."""
_TOGETHER = 4
"""Maximum waiting queries that are ranked together: the first of them waits for the last (docs/decisions/0011)."""


@dataclass(frozen=True)
class _Search:
    """All but the query that decides a ranking; searches are equal if their filters are so as JSON."""

    ranker: "FairRanker"
    lang: str
    targets: tuple[str, ...]
    k: int
    filters_as_json: str
    detailed: bool
    filters: Filters | None = field(compare=False)


def candidates_of_a_language(languages: int) -> int:
    """Candidates of each language in the first stretch; fewer languages have more."""
    last, most = STRETCHES[0]
    in_all = max(_FEWEST, -(-_KEPT_FOR_A_HIT * last // max(1, languages)))
    return max(min(most, in_all), -(-last // max(1, languages)))


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
    ) -> None:
        """Rank a store's vectors of the calibration's model, by the calibration's balance unless another is given.

        ``hybrid``: by shared words, too. ``passages=False``: by documents' vectors alone.
        """
        self._store = store
        self.calibration = calibration
        self._hybrid, self._passages = hybrid, passages
        self._read = partial(store.vectors, calibration.model)
        self.balance = calibration.balance if balance is None else balance
        self._share = centring(self.balance)
        self._beta = exponent(self.balance)
        # where means are not wholly taken out, scores of two languages have two scales
        self._mates_count = calibration.mates and self._share == 1.0
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
            target: calibration.candidate_queries(asked.toward(target), target, self._share, lang=lang)
            for target in targets
        }
        count = stretches[-1].candidates + max(map(len, without), default=0)
        query = VectorQuery(calibration.model, vectors, count, search.filters, with_vectors=len(asked) <= _TOGETHER)
        lexical_hits: Sequence[LexicalHits] = []
        if self._hybrid and texts:
            lexical = LexicalQuery(texts, langs, DEPTH, search.filters, (calibration.model,))
            nearest, lexical_hits = self._store.search_with_words(query, lexical)
        else:
            nearest = self._store.search(query)
        retrieved = RetrievedDocuments(nearest, lexical_hits).without(without)
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
        return subjects(documents, ranks, groups, bar, partial(ranking.documents, self._store), mates=mates)

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
        doc_ids = [ranking.doc_ids[rank] for rank in order]
        vectors = [ranking.vectors[doc_id] for doc_id in doc_ids] if ranking.vectors else []
        raw = np.stack(vectors) if vectors else self._read(doc_ids)
        return self._documents(doc_ids, languages, query_lang, 1.0, raw), order

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
        doc_ids, languages, in_stretches, by_words = retrieved.merged([stretch.candidates for stretch in stretches])
        raw = retrieved.vectors(doc_ids, self._read)
        candidates = self._documents(doc_ids, languages, lang, self._share, raw)
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
            with_mates = scored.with_mates(mates)
            likely = (
                with_mates.best_of_queries(_TEXTS_FOR_A_HIT * search.k, in_stretches[-1]) if plain is not None else []
            )
            rows, in_stretches = shortlists(with_mates, in_stretches, by_words, ends)
            scored = self._compared(self._with_passages(candidates, rows, lang, likely), queries, in_stretches)
            scored = self._by_margin(scored, None if bwd is None else bwd[rows])
            mates = [of_query.selected(rows, in_stretches[0][query]) for query, of_query in enumerate(mates)]
        scored = scored.with_mates(mates)
        lexical_hits: Sequence[LexicalHits | None] = retrieved.lexical_hits or [None] * len(queries)
        ends = [min(end, search.k) for end in ends]
        ranked = [
            scored.ranking(query, [in_stretch[query] for in_stretch in in_stretches], ends, of_query)
            for query, of_query in enumerate(lexical_hits)
        ]
        if plain is None:
            return [_ranking(scored.documents, rows, scores) for rows, scores in ranked]
        shown, passages = scored.documents, scored.by_part.passages
        if not isinstance(shown, CandidatesWithPassages):
            rows = np.unique(np.concatenate([rows for rows, _ in ranked]))
            shown = self._with_passages(shown, rows, lang, rows)
            passages = shown.cosines_by_part(queries).passages
        rankings = []
        for query, (rows, scores) in enumerate(ranked):
            details = partial(_details, scored, query, plain[query], shown, passages, lexical_hits[query])
            ranking = _ranking(scored.documents, rows, scores)
            vectors = dict(zip(ranking.doc_ids, scored.documents.raw[rows], strict=True))
            rankings.append(replace(ranking, details=details, vectors=vectors, texts=shown.texts))
        return rankings

    def _stretches(self, k: int, languages: int) -> list[Stretch]:
        """The stretches that k hits need; a ranking by plain cosines of one part is a single stretch."""
        one_part = len(self.calibration.vector_parts.widths) == 1
        if one_part and not (self._share or self._passages or self._hybrid or self.calibration.mates):
            return [Stretch(k, k)]  # kNN takes candidates before several parts are on one scale
        times = 2 if self.calibration.lengths_are_unknown and self._largest > _MANY else 1
        stretches = (Stretch(STRETCHES[0].last, times * candidates_of_a_language(languages)), *STRETCHES[1:])
        before = (0, *(stretch.last for stretch in stretches))
        needed = [stretch for stretch, start in zip(stretches, before, strict=False) if start < k]
        return [*needed, Stretch(k, k)] if k > stretches[-1].last else needed

    @cached_property
    def _largest(self) -> int:
        """Documents of the largest language, counted once."""
        return max(self._store.count().values(), default=0)

    def _documents(
        self, doc_ids: Sequence[str], languages: Mapping[str, slice], query_lang: str, share: float, raw: FloatArray
    ) -> CandidateDocuments:
        """Documents, language after language, with their vectors."""
        vectors = self.calibration.correct_documents(raw, languages, share, query_lang=query_lang)
        return CandidateDocuments(doc_ids, languages, raw, vectors, self.calibration.vector_parts)

    def _compared(
        self, documents: CandidateDocuments, queries: CorrectedQueries, in_stretches: Sequence[BoolArray]
    ) -> ScoredCandidates:
        """The last stretch's candidates by cosines, with the queries' neighbourhoods among the first stretch's."""
        by_part = documents.cosines_by_part(queries)
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

    def _with_passages(
        self, candidates: CandidateDocuments, rows: Rows, query_lang: str, texts_of: Collection[int]
    ) -> CandidatesWithPassages:
        """The candidates of the rows, ascending, with passages; a server's store gives some rows' texts, too."""
        documents, store, model = candidates.selected(rows), self._store, self.calibration.model
        if len(texts_of) and isinstance(store, ReadsTexts):
            ids = {candidates.doc_ids[row] for row in texts_of}
            stored, texts = store.passages_and_texts(model, documents.doc_ids, ids)
        else:
            stored, texts = store.passages(model, documents.doc_ids), {}
        return replace(with_passages(documents, stored, self.calibration, self._share, query_lang), texts=texts)


def _ranking(documents: CandidateDocuments, rows: Rows, scores: FloatArray) -> Ranking:
    return Ranking([documents.doc_ids[row] for row in rows], [documents.langs[row] for row in rows], scores)


def _details(
    scored: ScoredCandidates,
    query: int,
    plain: FloatArray,
    shown: CandidatesWithPassages,
    passages: FloatArray,
    lexical_hits: LexicalHits | None,
    doc_ids: Sequence[str],
) -> list[Detail]:
    """Details of hits of a query by their ids; ``passages`` are (p, queries) cosines of those of ``shown``."""
    rows, places = scored.documents.rows_of(doc_ids), shown.rows_of(doc_ids)
    starts, ends = shown.borders[:-1], shown.borders[1:] - shown.has_title
    parts = scored.parts(query, rows, plain, lexical_hits)
    return [
        Detail(doc_id, of_row, shown.stored[place], passages[starts[place] : ends[place], query])
        for doc_id, of_row, place in zip(doc_ids, parts, places.tolist(), strict=True)
    ]


def _rank_waiting(search: _Search, queries: Sequence[_Query]) -> list[Ranking]:
    vectors, texts = zip(*queries, strict=True)
    return search.ranker.rank_together(search, np.stack(vectors), [text for of_query in texts for text in of_query])


_waiting: dict[bool, WaitingCalls[_Search, _Query, Ranking]] = {}
"""The rankings of single queries, of all rankers of the process, by whether the vectors are in memory."""


def _make_room(rankings: int) -> None:
    """Let so many rankings in memory be made at once, and four for each core where a server is waited for."""
    for in_memory, at_once in ((True, rankings), (False, 4 * available_cores())):
        _waiting[in_memory] = WaitingCalls(_rank_waiting, at_once=at_once, most=_TOGETHER)


_make_room(max(1, available_cores() // 2))  # other threads encode and make hits
if hasattr(os, "register_at_fork"):  # threads that were ranking are not forked with their room
    os.register_at_fork(after_in_child=partial(_make_room, 1))
