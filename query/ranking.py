"""Fair ranking: each target language asked with a corrected query, candidates compared by margin, then by passage.

Queries of one language are ranked together, because what takes time, the candidates' neighbourhoods among that
language's pseudo-queries, is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from encoders.document import BoolArray, FloatArray, Int32Array, Passages, unit_rows
from indexer.stores.contract import Candidates, Filters, VectorStore
from indexer.stores.matrix import largest
from query.calibration import Calibration
from query.fusion import DEPTH, fuse, lexical_scores, strongest
from query.hits import Detail, Parts, Ranking
from query.margin import Margin, centring, exponent, margin, neighbourhood

CANDIDATES = 50
"""Documents a language taken by their raw vectors: they hold 99.5 % of the exact ten best (docs/methods.md)."""
RESCORED = 100
"""Documents at the head of the merged ranking compared by their passages too; as many as are asked for if more."""

Words = Mapping[str, Sequence[tuple[str, float]]]
"""What the lexical arm found for a query: ids and BM25 scores by language."""

_WINDOW = 500
"""Characters of an opening: about the 128 tokens of a window in an alphabet."""

_Rows = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Choice:
    """How to rank with a calibration.

    Attributes:
        balance: 0 as the encoder ranks … 1 every language equal.
        margin: form of the margin.
        passages: compare the head of the ranking by passages too.
        hybrid: let the words that a query shares with documents change their order within a language.
    """

    balance: float
    margin: Margin
    passages: bool = True
    hybrid: bool = False

    @classmethod
    def of(cls, calibration: Calibration) -> Choice:
        """What the calibration found best."""
        return cls(calibration.balance, calibration.margin)


PLAIN = Choice(0.0, "absolute", passages=False)
"""Plain cosine: how a collection without a calibration is ranked."""


@dataclass(frozen=True)
class _Documents:
    """Documents of several languages, to be held against queries.

    Attributes:
        doc_ids: (n,) ids, one language's after the other's.
        languages: rows of each language, as a slice.
        raw: (n, dim) vectors as the encoder made them.
        vectors: (n, dim) corrected unit vectors.
    """

    doc_ids: Sequence[str]
    languages: Mapping[str, slice]
    raw: FloatArray
    vectors: FloatArray

    @cached_property
    def langs(self) -> list[str]:
        """(n,) the language of each."""
        return [lang for lang, rows in self.languages.items() for _ in range(rows.stop - rows.start)]

    def cosines(self, queries: FloatArray) -> FloatArray:
        """(n, queries)."""
        return self.vectors @ queries.T

    def fused(self, rows: _Rows, scores: FloatArray, words: Words) -> _Rows:
        """Ranked rows in the order that words give them within each language."""
        lexical = lexical_scores([self.doc_ids[int(row)] for row in rows], words)
        return rows[fuse([self.langs[int(row)] for row in rows], scores, lexical, strongest(words))]

    def ranking(self, rows: _Rows, scores: FloatArray, details: Sequence[Detail] | None) -> Ranking:
        """The documents of some rows."""
        return Ranking(
            [self.doc_ids[int(row)] for row in rows], [self.langs[int(row)] for row in rows], scores, details
        )


@dataclass(frozen=True)
class _WithPassages(_Documents):
    """The same with their passages.

    Attributes:
        stored: (n,) passages as they are stored.
        passages: (p, dim) corrected unit vectors, one document's after the other's.
        starts: (n,) first passage of each.
        openings: (n, dim) corrected unit vectors of the opening passages together.
    """

    stored: Sequence[Passages]
    passages: FloatArray
    starts: _Rows
    openings: FloatArray

    def cosines(self, queries: FloatArray) -> FloatArray:
        """(n, queries) mean over document, best passage and opening."""
        best, opening = self.passage_cosines(queries)
        mean: FloatArray = (super().cosines(queries) + best + opening) / np.float32(3)
        return mean

    def passage_cosines(self, queries: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, queries) of the best passage, and of the opening."""
        near = self.passages @ queries.T
        if not len(self.starts):
            return near, near
        best: FloatArray = np.maximum.reduceat(near, self.starts, axis=0)
        return best, self.openings @ queries.T


@dataclass(frozen=True)
class _Scored:
    """Documents compared with queries.

    Attributes:
        documents: which, and how they are compared.
        cosines: (queries, n); −∞ where a document is no candidate of that query.
        fwd: (queries, n) mean of the query's largest in the document's language.
        bwd: (n,) mean of the document's largest with the bank of pseudo-queries.
        scores: (queries, n) by margin; −∞ likewise.
    """

    documents: _Documents
    cosines: FloatArray
    fwd: FloatArray
    bwd: FloatArray
    scores: FloatArray

    def best(self, query: int, k: int) -> tuple[_Rows, FloatArray]:
        """Rows of a query's k best and their scores, best first; equal ones in their order."""
        scores = self.scores[query]
        order = largest(scores, k)
        finite: _Rows = order[np.isfinite(scores[order])]
        return finite, scores[finite]


class FairRanker:
    """Ranks a collection's documents by a calibration.

    Attributes:
        calibration: the languages' statistics.
        choice: how to rank with them.
    """

    def __init__(self, store: VectorStore, calibration: Calibration, choice: Choice) -> None:
        """Take an open store that holds vectors of the calibration's model."""
        self._store = store
        self.calibration = calibration
        self.choice = choice
        self._share = centring(choice.balance)
        self._beta = exponent(choice.balance)
        self._banks: dict[str, tuple[FloatArray, dict[str, list[int]]]] = {}

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
        """The k best documents of some languages for each query.

        Args:
            queries: (queries, dim) unit vectors as the encoder made them.
            lang: the language of all of them.
            targets: languages of documents.
            k: how many documents a query.
            filters: the user's fields a document must have.
            texts: of the queries; a hybrid choice asks for their words.
            detailed: give what a hit shows, too: an evaluation has no room for that.
        """
        corrected = self.calibration.queries(queries, lang, self._share)
        asked = {target: self.calibration.asked(corrected, target, self._share) for target in targets}
        words = [self._words(text, lang, targets, filters) for text in texts] if self.choice.hybrid else []
        found = self._store.search(
            self.calibration.model,
            asked,
            max(k, CANDIDATES),
            filters=filters,
            with_vectors=len(queries) == 1 and not words,
        )
        candidates, member, worded = self._candidates(found, words)
        scored = self._scored(candidates, corrected, lang, member)
        if self.choice.passages:
            shortlist = self._shortlist(scored, max(k, RESCORED)) | worded
            rows = np.flatnonzero(shortlist.any(axis=0))
            scored = self._scored(self._with_passages(candidates, rows), corrected, lang, shortlist[:, rows])
        rankings = []
        for query in range(len(queries)):
            rows, scores = scored.best(query, k if not words else len(candidates.doc_ids))
            if words:
                rows = scored.documents.fused(rows, scores, words[query])
            rows, scores = rows[:k], scores[:k]
            details = self._details(scored, query, rows, queries[query], corrected[query]) if detailed else None
            rankings.append(scored.documents.ranking(rows, scores, details))
        return rankings

    def _words(self, text: str, lang: str, targets: Sequence[str], filters: Filters | None) -> Words:
        """What the lexical arm finds; in the query's own language too, which tells how much sharing words says."""
        return self._store.lexical(text, list(dict.fromkeys([*targets, lang])), DEPTH, filters=filters)

    def _candidates(
        self, found: Mapping[str, Sequence[Candidates]], words: Sequence[Words]
    ) -> tuple[_Documents, BoolArray, BoolArray]:
        """Every document that was found once; for each query which it found; and which of these by their words."""
        doc_ids: dict[str, int] = {}
        languages = {}
        queries = len(next(iter(found.values()), []))
        places: list[list[int]] = [[] for _ in range(queries)]
        worded: list[list[int]] = [[] for _ in range(queries)]
        for lang, lists in found.items():
            start = len(doc_ids)
            for place, one in zip(places, lists, strict=True):
                place += [doc_ids.setdefault(doc_id, len(doc_ids)) for doc_id in one.doc_ids]
            for place, hits in zip(worded, words, strict=False):
                place += [doc_ids.setdefault(doc_id, len(doc_ids)) for doc_id, _ in hits[lang]]
            languages[lang] = slice(start, len(doc_ids))
        given = [one.vectors for lists in found.values() for one in lists if one.vectors is not None]
        alone = bool(found) and len(given) == len(found)
        raw = np.concatenate(given) if alone else self._store.vectors(self.calibration.model, list(doc_ids))
        vectors = self.calibration.mixed(raw, languages, self._share)
        member, by_words = np.zeros((2, queries, len(doc_ids)), dtype=np.bool_)
        for query in range(queries):
            by_words[query, worded[query]] = True
            member[query, places[query]] = True
        return _Documents(list(doc_ids), languages, raw, vectors), member | by_words, by_words

    def _scored(self, documents: _Documents, queries: FloatArray, query_lang: str, member: BoolArray) -> _Scored:
        """Margins of documents, those of each query that ``member`` says."""
        cosines = np.where(member, documents.cosines(queries).T, np.float32(-np.inf))
        if self._beta == 0.0 or self.choice.margin == "absolute":
            nothing = np.zeros((1, len(documents.doc_ids)), dtype=np.float32)
            return _Scored(documents, cosines, nothing.repeat(len(queries), axis=0), nothing[0], cosines)
        fwd = np.empty_like(cosines)
        for rows in documents.languages.values():
            fwd[:, rows] = neighbourhood(cosines[:, rows], self.calibration.neighbours)[:, None]
        bank, sources = self._bank(query_lang)
        near = documents.cosines(bank)
        for row, doc_id in enumerate(documents.doc_ids):
            if doc_id in sources:  # a title must not meet its own document
                near[row, sources[doc_id]] = -np.inf
        bwd = neighbourhood(near, min(self.calibration.neighbours, max(1, len(bank) // 8)))
        return _Scored(documents, cosines, fwd, bwd, margin(cosines, fwd, bwd, self.choice.margin, self._beta))

    def _bank(self, lang: str) -> tuple[FloatArray, dict[str, list[int]]]:
        if lang not in self._banks:
            vectors, sources = self.calibration.bank(lang, self._share)
            rows: dict[str, list[int]] = {}
            for row, doc_id in enumerate(sources):
                rows.setdefault(doc_id, []).append(row)
            self._banks[lang] = vectors, rows
        return self._banks[lang]

    def _shortlist(self, scored: _Scored, k: int) -> BoolArray:
        """(queries, n) what is at the head of a ranking, and each language's best, which make its neighbourhood."""
        shortlist = np.zeros(scored.scores.shape, dtype=np.bool_)
        for query, scores in enumerate(scored.scores):
            shortlist[query, scored.best(query, k)[0]] = True
            for rows in scored.documents.languages.values():
                nearest = largest(scores[rows], self.calibration.neighbours) + rows.start
                shortlist[query, nearest[np.isfinite(scores[nearest])]] = True
        return shortlist

    def _with_passages(self, candidates: _Documents, rows: _Rows) -> _WithPassages:
        """Some of the candidates with their passages; a document without any is its own passage."""
        doc_ids = [candidates.doc_ids[int(row)] for row in rows]
        languages = {
            lang: slice(*(int(end) for end in np.searchsorted(rows, (those.start, those.stop))))
            for lang, those in candidates.languages.items()
        }
        stored = self._store.passages(self.calibration.model, doc_ids)
        lengths = np.array([max(len(one.vectors), 1) for one in stored], dtype=np.intp)
        borders = np.concatenate(([0], np.cumsum(lengths)))
        passages = np.empty((int(lengths.sum()), candidates.raw.shape[1]), dtype=np.float32)
        for row, start, end, one in zip(rows, borders[:-1], borders[1:], stored, strict=True):
            passages[start:end] = one.vectors if len(one.vectors) else candidates.raw[row]
        spans = {lang: slice(int(borders[those.start]), int(borders[those.stop])) for lang, those in languages.items()}
        corrected = self.calibration.passages(unit_rows(passages), spans, self._share)
        raw, vectors = candidates.raw[rows], candidates.vectors[rows]
        openings = _openings(corrected, borders[:-1], [opening(one.offsets) for one in stored])
        return _WithPassages(doc_ids, languages, raw, vectors, stored, corrected, borders[:-1], openings)

    def _details(
        self, scored: _Scored, query: int, rows: _Rows, raw: FloatArray, corrected: FloatArray
    ) -> list[Detail]:
        """What hits show of their documents; passages that the ranking had are not asked for again."""
        documents = scored.documents
        if isinstance(documents, _WithPassages):
            passages = [documents.stored[int(row)] for row in rows]
        else:
            passages = self._store.passages(self.calibration.model, [documents.doc_ids[int(row)] for row in rows])
        return list(map(Detail, _parts(scored, query, rows, raw, corrected), passages))


def opening(offsets: Int32Array) -> int:
    """How many of a document's passages are its opening: the first, and those that follow it within a window.

    Windows overlap, and the first alone is an opening. Sentences follow on each other, and the first is the title.
    """
    if len(offsets) < 2 or offsets[1, 0] < offsets[0, 1]:
        return 1
    return max(1, int(np.searchsorted(offsets[:, 1], _WINDOW, side="right")))


def _openings(passages: FloatArray, starts: _Rows, lengths: Sequence[int]) -> FloatArray:
    """(n, dim) unit vectors of the first so many passages of each document together."""
    if max(lengths, default=1) == 1:
        return passages[starts]
    return unit_rows(np.stack([passages[at : at + many].sum(axis=0) for at, many in zip(starts, lengths, strict=True)]))


def _parts(scored: _Scored, query: int, rows: _Rows, raw: FloatArray, corrected: FloatArray) -> list[Parts]:
    """What the scores of some documents are made of, for a query as the encoder made it and as it was corrected."""
    documents = scored.documents
    best = opening = None
    if isinstance(documents, _WithPassages):
        best, opening = (cosines[:, 0] for cosines in documents.passage_cosines(corrected[None]))
    return [
        Parts(
            cosine=float(documents.raw[row] @ raw),
            corrected=float(documents.vectors[row] @ corrected),
            passage=float(best[row]) if best is not None else None,
            opening=float(opening[row]) if opening is not None else None,
            compared=float(scored.cosines[query, row]),
            fwd=float(scored.fwd[query, row]),
            bwd=float(scored.bwd[row]),
        )
        for row in rows
    ]
