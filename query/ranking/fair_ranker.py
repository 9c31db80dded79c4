"""Fair ranking: search each target language with a corrected query, compare candidates by margin, then by passages.

Queries of one language are ranked together: the candidates' neighbourhoods among that language's pseudo-queries take
most of the time, and all these queries share them.

A ranking is made in stretches: hits 1–50 come from fifty candidates of each language, hits 51–1,000 from a thousand,
and so on. Each stretch ranks the candidates that earlier stretches left, by the neighbourhoods of the first stretch. So
the first hits do not depend on the number of hits asked for: an evaluation to depth 1,000 scores what a search shows.
(A store with approximate kNN may find slightly more for the first fifty if a thousand are asked for.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from encoders.document import BoolArray, FloatArray, Int32Array, Passages, unit_rows
from encoders.methods.vector_parts import VectorParts
from indexer.stores.contract import Filters, LexicalQuery, VectorQuery, VectorStore
from indexer.stores.matrix import largest
from query.calibration.calibration import Bank, Calibration
from query.calibration.margin import centring, exponent, language_neighbourhoods, margin, neighbourhood
from query.ranking.candidates import (
    ONE_SCALE,
    CandidatesByLanguage,
    Documents,
    DocumentsWithPassages,
    Rows,
    Scored,
    ScoreScale,
    Words,
)
from query.ranking.choice import Choice
from query.ranking.fusion import DEPTH, best_lexical_score, lexical_scores
from query.ranking.hits import Detail, Parts, Ranking

STRETCHES = (50, 1_000, 10_000)
"""Last rank of each stretch, and its candidates per language by raw vectors: fifty hold 99.5 % of the exact ten best
(docs/methods.md)."""
MANY = 10_000
"""Documents of the largest language above which the first stretch has twice as many candidates. Among 228,206 vectors
in twelve languages a hundred candidates hold 99.6 % of the exact ten best, fifty 97.4 % (docs/decisions/0006)."""
RESCORED = 150
"""Documents at the head of the merged ranking that are compared by passages too; more if a stretch ends later."""


_WINDOW = 500
"""Characters of an opening: about the 128 tokens of a window, in an alphabetic script."""

_SMALLEST_BM25 = 1e-9


class FairRanker:
    """Ranks a collection's documents by a calibration and a choice."""

    def __init__(self, store: VectorStore, calibration: Calibration, choice: Choice, documents: int = 0) -> None:
        """Rank a store's vectors of the calibration's model; ``documents`` is the size of the largest language."""
        self._store = store
        self._documents = documents
        self.calibration = calibration
        self.choice = choice
        self._share = centring(choice.balance)
        self._beta = exponent(choice.balance)
        self._banks: dict[str, Bank] = {}
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
        detailed: bool = False,
    ) -> list[Ranking]:
        """The k best documents of the target languages for each query.

        Args:
            queries: (queries, dim) unit vectors as the encoder made them.
            lang: the language of all queries.
            targets: languages of documents.
            k: number of documents for each query.
            filters: values that a document's fields must have.
            texts: the queries' texts, for hybrid search.
            detailed: add the details that a hit shows; they take too much memory for an evaluation.
        """
        if (calibration := self.calibration.for_queries_in(lang)) is not self.calibration:
            ranker = self._rankers.setdefault(lang, type(self)(self._store, calibration, self.choice, self._documents))
            return ranker.rank(queries, lang, targets, k, filters, texts=texts, detailed=detailed)
        corrected = self.calibration.correct_queries(queries, lang, self._share)
        ends = self._ends(k)
        langs = list(dict.fromkeys([*targets, lang]))  # the query's own language sets the scale of BM25 scores
        lexical = LexicalQuery(texts, langs, DEPTH, filters, self._models) if self.choice.hybrid and texts else None
        nearest, words = self._search(corrected, targets, ends[-1], filters, lexical)
        candidates, members, by_words = self._candidates(nearest, words, ends)
        scored = self._scored(candidates, corrected, lang, members)
        if self.choice.passages:
            members = [shortlist | by_words for shortlist in self._shortlists(scored, members, ends)]
            rows = np.flatnonzero(members[-1].any(axis=0))
            members = [member[:, rows] for member in members]
            scored = self._scored(self._with_passages(candidates, rows), corrected, lang, members)
        rankings = []
        plain = self.calibration.queries_in_stored_space(queries, lang)
        for query in range(len(queries)):
            query_words = words[query] if words else None
            rows, scores = _in_stretches(scored, query, [member[query] for member in members], ends, query_words)
            rows, scores = rows[:k], scores[:k]
            details = (
                self._details(scored, query, rows, plain[query], corrected[query], query_words) if detailed else None
            )
            rankings.append(scored.documents.ranking(rows, scores, details))
        return rankings

    def _ends(self, k: int) -> list[int]:
        """Last ranks of the stretches that k hits need; a ranking by plain cosines of one part is a single stretch."""
        exact = len(self.calibration.parts.widths) == 1  # kNN takes candidates before several parts are on one scale
        if exact and not (self._share or self._beta or self.choice.passages or self.choice.hybrid):
            return [k]
        stretches = (STRETCHES[0] * (1 if self._documents <= MANY else 2), *STRETCHES[1:])
        needed = [end for end, before in zip(stretches, (0, *stretches), strict=False) if before < k]
        return [*needed, k] if k > stretches[-1] else needed

    def _search(
        self, queries: FloatArray, targets: Sequence[str], k: int, filters: Filters | None, lexical: LexicalQuery | None
    ) -> tuple[CandidatesByLanguage, Sequence[Words]]:
        """The documents of each language nearest to corrected queries, and each query's lexical hits."""
        raw_queries = {target: self.calibration.queries_for_store(queries, target, self._share) for target in targets}
        with_vectors = lexical is None and len(queries) == 1
        query = VectorQuery(self.calibration.model, raw_queries, k, filters, with_vectors)
        if lexical is None:
            return list(self._store.search(query).items()), []
        nearest, words = self._store.search_with_words(query, lexical)
        return list(nearest.items()), words

    @property
    def _models(self) -> tuple[str, ...]:
        """Models of the documents' vectors; lexical hits without a vector of these models are left out."""
        return (self.calibration.model,)

    def _vectors(self, doc_ids: Sequence[str]) -> FloatArray:
        """(n, dim) stored vectors."""
        return self._store.vectors(self.calibration.model, doc_ids)

    def _passages(self, doc_ids: Sequence[str], raw: FloatArray) -> list[Passages]:  # noqa: ARG002
        """Stored passages of documents with the raw vectors."""
        return self._store.passages(self.calibration.model, doc_ids)

    def _candidates(
        self, nearest: CandidatesByLanguage, words: Sequence[Words], ends: Sequence[int]
    ) -> tuple[Documents, list[BoolArray], BoolArray]:
        """Merge the queries' candidates.

        Returns:
            each candidate once; for each stretch, (queries, n) whether the query has the candidate there; (queries, n)
            whether the query's lexical search found the candidate.
        """
        row_of: dict[str, int] = {}
        languages: dict[str, slice] = {}
        queries = len(nearest[0][1]) if nearest else 0
        dense_rows: list[list[list[int]]] = [[] for _ in range(queries)]
        lexical_rows: list[list[int]] = [[] for _ in range(queries)]
        for lang, by_query in nearest:
            start = languages[lang].start if lang in languages else len(row_of)
            for query_rows, candidates in zip(dense_rows, by_query, strict=True):
                query_rows.append([row_of.setdefault(doc_id, len(row_of)) for doc_id in candidates.doc_ids])
            for word_rows, hits in zip(lexical_rows, words, strict=False):
                word_rows += [row_of.setdefault(doc_id, len(row_of)) for doc_id, _ in hits[lang]]
            languages[lang] = slice(start, len(row_of))
        returned = [
            candidates.vectors for _, by_query in nearest for candidates in by_query if candidates.vectors is not None
        ]
        complete = bool(nearest) and len(returned) == len(nearest)
        raw = np.concatenate(returned) if complete else self._vectors(list(row_of))
        vectors = self.calibration.correct_documents(raw, languages, self._share)
        by_words = np.zeros((queries, len(row_of)), dtype=np.bool_)
        members = [by_words.copy() for _ in ends]
        for query in range(queries):
            by_words[query, lexical_rows[query]] = True
            for member, end in zip(members, ends, strict=True):
                member[query, lexical_rows[query]] = True
                for rows in dense_rows[query]:
                    member[query, rows[:end]] = True
        return Documents(list(row_of), languages, raw, vectors, self.calibration.parts), members, by_words

    def _scored(
        self, documents: Documents, queries: FloatArray, query_lang: str, members: Sequence[BoolArray]
    ) -> Scored:
        """Margins of the last stretch's candidates, with neighbourhoods among the first stretch's candidates."""
        cosines = documents.cosines(queries).T
        scale = self._score_scale(documents, queries, members[0])
        if self._beta == 0.0 or self.choice.margin == "absolute":
            scores = cosines * scale.rate
            return Scored(documents, cosines, None, None, np.where(members[-1], scores, np.float32(-np.inf)))
        fwd = self._neighbourhoods(documents, np.where(members[0], cosines, np.float32(-np.inf))) + scale.lift
        bank = self._bank(query_lang)
        bank_cosines = documents.cosines(bank.vectors)
        bank.exclude_sources(bank_cosines, documents.doc_ids)
        bwd = neighbourhood(bank_cosines, bank.neighbours)
        scores = margin(cosines, fwd, bwd, self.choice.margin, self._beta) * scale.rate
        return Scored(documents, cosines, fwd, bwd, np.where(members[-1], scores, np.float32(-np.inf)))

    def _score_scale(self, documents: Documents, queries: FloatArray, members: BoolArray) -> ScoreScale:  # noqa: ARG002
        """The scale that makes documents with different kinds of vectors comparable; here all have the same kind."""
        return ONE_SCALE

    def _neighbourhoods(self, documents: Documents, cosines: FloatArray) -> FloatArray:
        """(queries, n) mean of each query's k largest cosines in the document's language."""
        return language_neighbourhoods(cosines, documents.languages.values(), self.calibration.neighbours)

    def _bank(self, lang: str) -> Bank:
        if lang not in self._banks:
            self._banks[lang] = self.calibration.bank(lang, self._share)
        return self._banks[lang]

    def _shortlists(self, scored: Scored, members: Sequence[BoolArray], ends: Sequence[int]) -> list[BoolArray]:
        """(queries, n) for each stretch, the candidates to compare by passages: the head of its ranking.

        Each shortlist includes the earlier stretches' shortlists. The first also has the best of each language, which
        make that language's neighbourhood.
        """
        shortlists: list[BoolArray] = []
        shortlist = np.zeros(scored.scores.shape, dtype=np.bool_)
        for member, end in zip(members, ends, strict=True):
            for query, among in enumerate(member):
                shortlist[query, scored.best(query, max(end, RESCORED), among)[0]] = True
                for rows in scored.documents.languages.values() if not shortlists else ():
                    scores = np.where(among[rows], scored.scores[query, rows], np.float32(-np.inf))
                    best = largest(scores, self.calibration.neighbours)
                    shortlist[query, best[np.isfinite(scores[best])] + rows.start] = True
            shortlists.append(shortlist.copy())
        return shortlists

    def _with_passages(self, candidates: Documents, rows: Rows) -> DocumentsWithPassages:
        """The candidates of the rows, ascending, with passages; a document without passages is its own passage."""
        doc_ids = [candidates.doc_ids[int(row)] for row in rows]
        languages = {
            lang: slice(*(int(end) for end in np.searchsorted(rows, (span.start, span.stop))))
            for lang, span in candidates.languages.items()
        }
        stored = self._passages(doc_ids, candidates.raw[rows])
        lengths = np.array([max(len(passages.vectors), 1) for passages in stored], dtype=np.intp)
        borders = np.concatenate(([0], np.cumsum(lengths)))
        passage_vectors = np.empty((int(lengths.sum()), candidates.raw.shape[1]), dtype=np.float32)
        for row, start, end, passages in zip(rows, borders[:-1], borders[1:], stored, strict=True):
            passage_vectors[start:end] = passages.vectors if len(passages.vectors) else candidates.raw[row]
        spans = {lang: slice(int(borders[span.start]), int(borders[span.stop])) for lang, span in languages.items()}
        corrected = self.calibration.correct_documents(unit_rows(passage_vectors), spans, self._share, "passage")
        raw, vectors = candidates.raw[rows], candidates.vectors[rows]
        parts = self.calibration.parts
        openings = _openings(parts, corrected, borders[:-1], [opening(passages.offsets) for passages in stored])
        return DocumentsWithPassages(doc_ids, languages, raw, vectors, parts, stored, corrected, borders[:-1], openings)

    def _details(
        self, scored: Scored, query: int, rows: Rows, raw: FloatArray, corrected: FloatArray, words: Words | None
    ) -> list[Detail]:
        """Details of the hits; passages are read from the store only if the ranking did not use them."""
        documents = scored.documents
        parts = _parts(scored, query, rows, raw, corrected, words)
        order = np.argsort(rows)
        shown = (
            documents if isinstance(documents, DocumentsWithPassages) else self._with_passages(documents, rows[order])
        )
        shown_rows = rows if shown is documents else np.argsort(order)
        cosines = shown.parts.cosines(shown.passages, corrected[None])[:, 0]
        ends = [*shown.starts[1:], len(cosines)]
        return [
            Detail(part, shown.stored[row], int(cosines[shown.starts[row] : ends[row]].argmax()))
            for part, row in zip(parts, shown_rows, strict=True)
        ]


def _in_stretches(
    scored: Scored, query: int, members: Sequence[BoolArray], ends: Sequence[int], words: Words | None
) -> tuple[Rows, FloatArray]:
    """Rows and scores of a query's ranking; a stretch's scores are lowered below those of the stretch before."""
    rows, scores = np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.float32)
    for member, end in zip(members, ends, strict=True):
        unranked = member.copy()
        unranked[rows] = False
        next_rows, next_scores = scored.stretch(query, end - len(rows), unranked, words)
        if len(rows) and len(next_rows):
            next_scores = np.minimum(next_scores - max(np.float32(0), next_scores[0] - scores[-1]), scores[-1])
        rows, scores = np.concatenate((rows, next_rows)), np.concatenate((scores, next_scores))
    return rows, scores


def opening(offsets: Int32Array) -> int:
    """Number of passages in a document's opening: the first, and sentences after it up to ``_WINDOW`` characters.

    Passages that overlap are windows, and the first alone is the opening. Sentences do not overlap, and the first is
    the title.
    """
    if len(offsets) < 2 or offsets[1, 0] < offsets[0, 1]:
        return 1
    return max(1, int(np.searchsorted(offsets[:, 1], _WINDOW, side="right")))


def _openings(parts: VectorParts, passages: FloatArray, starts: Rows, lengths: Sequence[int]) -> FloatArray:
    """(n, dim) unit vector of the sum of each document's opening passages; ``lengths`` says how many these are."""
    if max(lengths, default=1) == 1:
        return passages[starts]
    sums = np.stack(
        [passages[start : start + length].sum(axis=0) for start, length in zip(starts, lengths, strict=True)]
    )
    return parts.weighed(parts.unit(unit_rows(sums)))


def _parts(
    scored: Scored, query: int, rows: Rows, raw: FloatArray, corrected: FloatArray, words: Words | None
) -> list[Parts]:
    """The parts of the scores of the rows' documents, for a query vector as encoded (``raw``) and as corrected."""
    documents = scored.documents
    best = opening = None
    if isinstance(documents, DocumentsWithPassages):
        best, opening = (cosines[:, 0] for cosines in documents.passage_cosines(corrected[None]))
    lexical = None
    if words is not None:
        lexical = lexical_scores(documents.doc_ids, words) / max(best_lexical_score(words), _SMALLEST_BM25)
    return [
        Parts(
            cosine=float(documents.parts.plain_cosines(documents.raw[row : row + 1], raw[None])[0, 0]),
            corrected=float(documents.parts.cosines(documents.vectors[row : row + 1], corrected[None])[0, 0]),
            passage=float(best[row]) if best is not None else None,
            opening=float(opening[row]) if opening is not None else None,
            compared=float(scored.cosines[query, row]),
            fwd=float(scored.fwd[query, row]) if scored.fwd is not None else None,
            bwd=float(scored.bwd[row]) if scored.bwd is not None else None,
            score=float(scored.scores[query, row]),
            words=float(lexical[row]) if lexical is not None else None,
        )
        for row in rows
    ]
