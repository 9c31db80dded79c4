"""Fair ranking: each target language asked with a corrected query, candidates compared by margin, then by passage.

Queries of one language are ranked together, because what takes time, the candidates' neighbourhoods among that
language's pseudo-queries, is the same for all of them.

A ranking is made in stretches: the first fifty hits of fifty candidates a language, what follows up to the thousandth
of a thousand, and so on. Each stretch takes what those before left, and the neighbourhoods are the first one's. So the
first hits are the same however many are asked for: what an evaluation to depth 1,000 scores is what a search shows.
(A store whose kNN is approximate may find a little more for the first fifty where a thousand are asked for.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from encoders.document import BoolArray, FloatArray, Int32Array, Passages, unit_rows
from encoders.methods.vector_parts import VectorParts
from indexer.stores.contract import Filters, LexicalQuery, VectorStore
from indexer.stores.matrix import largest
from query.calibration.calibration import Calibration
from query.calibration.margin import centring, exponent, margin, neighbourhood
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
from query.ranking.fusion import DEPTH, lexical_scores, strongest
from query.ranking.hits import Detail, Parts, Ranking

STRETCHES = (50, 1_000, 10_000)
"""Where stretches of a ranking end, and how many candidates a language each is made of, taken by their raw vectors:
fifty hold 99.5 % of the exact ten best (docs/methods.md)."""
MANY = 10_000
"""Documents of a language: of more, twice as many candidates make the first stretch. Among 228,206 vectors in twelve
languages a hundred hold 99.6 % of the exact ten best, fifty 97.4 (docs/decisions/0006)."""
RESCORED = 150
"""Documents at the head of the merged ranking compared by their passages too; as many as a stretch has if more."""


_WINDOW = 500
"""Characters of an opening: about the 128 tokens of a window in an alphabet."""

_NEXT_TO_NOTHING = 1e-9


class FairRanker:
    """Ranks a collection's documents by a calibration.

    Attributes:
        calibration: the languages' statistics.
        choice: how to rank with them.
    """

    def __init__(self, store: VectorStore, calibration: Calibration, choice: Choice, documents: int = 0) -> None:
        """Take an open store that holds vectors of the calibration's model, and how many its largest language has."""
        self._store = store
        self._documents = documents
        self.calibration = calibration
        self.choice = choice
        self._share = centring(choice.balance)
        self._beta = exponent(choice.balance)
        self._banks: dict[str, tuple[FloatArray, dict[str, list[int]]]] = {}
        self._towards: dict[str, FairRanker] = {}

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
        if (calibration := self.calibration.towards(lang)) is not self.calibration:
            ranker = self._towards.setdefault(lang, type(self)(self._store, calibration, self.choice, self._documents))
            return ranker.rank(queries, lang, targets, k, filters, texts=texts, detailed=detailed)
        corrected = self.calibration.queries(queries, lang, self._share)
        ends = self._ends(k)
        langs = list(dict.fromkeys([*targets, lang]))  # its own, too, tells how much sharing words says
        wording = LexicalQuery(texts, langs, DEPTH, self._models) if self.choice.hybrid and texts else None
        found, words = self._found(corrected, targets, ends[-1], filters, wording)
        candidates, members, worded = self._candidates(found, words, ends)
        scored = self._scored(candidates, corrected, lang, members)
        if self.choice.passages:
            members = [one | worded for one in self._shortlists(scored, members, ends)]
            rows = np.flatnonzero(members[-1].any(axis=0))
            members = [one[:, rows] for one in members]
            scored = self._scored(self._with_passages(candidates, rows), corrected, lang, members)
        rankings = []
        plain = self.calibration.as_stored(queries, lang)
        for query in range(len(queries)):
            found_words = words[query] if words else None
            rows, scores = _in_stretches(scored, query, [one[query] for one in members], ends, found_words)
            rows, scores = rows[:k], scores[:k]
            details = (
                self._details(scored, query, rows, plain[query], corrected[query], found_words) if detailed else None
            )
            rankings.append(scored.documents.ranking(rows, scores, details))
        return rankings

    def _ends(self, k: int) -> list[int]:
        """Where the stretches end that k hits are made of; plain cosines of one part compare however many there are."""
        exact = len(self.calibration.parts.widths) == 1  # of several kNN takes candidates before they are on one scale
        if exact and not (self._share or self._beta or self.choice.passages or self.choice.hybrid):
            return [k]
        stretches = (STRETCHES[0] * (1 if self._documents <= MANY else 2), *STRETCHES[1:])
        needed = [end for end, before in zip(stretches, (0, *stretches), strict=False) if before < k]
        return [*needed, k] if k > stretches[-1] else needed

    def _found(
        self, queries: FloatArray, targets: Sequence[str], k: int, filters: Filters | None, wording: LexicalQuery | None
    ) -> tuple[CandidatesByLanguage, Sequence[Words]]:
        """The nearest documents of each language to corrected queries, and what the lexical arm finds for each."""
        asked = {target: self.calibration.asked(queries, target, self._share) for target in targets}
        model = self.calibration.model
        if wording is None:
            near = self._store.search(model, asked, k, filters=filters, with_vectors=len(queries) == 1)
            return list(near.items()), []
        near, words = self._store.search_with_words(model, asked, k, wording, filters=filters)
        return list(near.items()), words

    @property
    def _models(self) -> tuple[str, ...]:
        """Of documents' vectors: documents that only another encoder knew have words, too."""
        return (self.calibration.model,)

    def _raw(self, doc_ids: Sequence[str]) -> FloatArray:
        """(n, dim) stored vectors."""
        return self._store.vectors(self.calibration.model, doc_ids)

    def _stored(self, doc_ids: Sequence[str], raw: FloatArray) -> list[Passages]:  # noqa: ARG002
        """Stored passages of documents with these vectors."""
        return self._store.passages(self.calibration.model, doc_ids)

    def _candidates(
        self, found: CandidatesByLanguage, words: Sequence[Words], ends: Sequence[int]
    ) -> tuple[Documents, list[BoolArray], BoolArray]:
        """Every document that was found once; which each query found, for each stretch; and which by their words."""
        doc_ids: dict[str, int] = {}
        languages: dict[str, slice] = {}
        queries = len(found[0][1]) if found else 0
        places: list[list[list[int]]] = [[] for _ in range(queries)]
        worded: list[list[int]] = [[] for _ in range(queries)]
        for lang, lists in found:
            start = languages[lang].start if lang in languages else len(doc_ids)
            for own, one in zip(places, lists, strict=True):
                own.append([doc_ids.setdefault(doc_id, len(doc_ids)) for doc_id in one.doc_ids])
            for said, hits in zip(worded, words, strict=False):
                said += [doc_ids.setdefault(doc_id, len(doc_ids)) for doc_id, _ in hits[lang]]
            languages[lang] = slice(start, len(doc_ids))
        given = [one.vectors for _, lists in found for one in lists if one.vectors is not None]
        alone = bool(found) and len(given) == len(found)
        raw = np.concatenate(given) if alone else self._raw(list(doc_ids))
        vectors = self.calibration.mixed(raw, languages, self._share)
        by_words = np.zeros((queries, len(doc_ids)), dtype=np.bool_)
        members = [by_words.copy() for _ in ends]
        for query in range(queries):
            by_words[query, worded[query]] = True
            for member, end in zip(members, ends, strict=True):
                member[query, worded[query]] = True
                for place in places[query]:
                    member[query, place[:end]] = True
        return Documents(list(doc_ids), languages, raw, vectors, self.calibration.parts), members, by_words

    def _scored(
        self, documents: Documents, queries: FloatArray, query_lang: str, members: Sequence[BoolArray]
    ) -> Scored:
        """Margins of documents, those of each query that the last stretch has, by the neighbourhoods of the first."""
        cosines = documents.cosines(queries).T
        level = self._level(documents, queries, members[0])
        if self._beta == 0.0 or self.choice.margin == "absolute":
            scores = cosines * level.rate
            return Scored(documents, cosines, None, None, np.where(members[-1], scores, np.float32(-np.inf)))
        fwd = self._neighbourhoods(documents, np.where(members[0], cosines, np.float32(-np.inf))) + level.lift
        bank, sources = self._bank(query_lang)
        near = documents.cosines(bank)
        for row, doc_id in enumerate(documents.doc_ids):
            if doc_id in sources:  # a title must not meet its own document
                near[row, sources[doc_id]] = -np.inf
        bwd = neighbourhood(near, min(self.calibration.neighbours, max(1, len(bank) // 8)))
        scores = margin(cosines, fwd, bwd, self.choice.margin, self._beta) * level.rate
        return Scored(documents, cosines, fwd, bwd, np.where(members[-1], scores, np.float32(-np.inf)))

    def _level(self, documents: Documents, queries: FloatArray, members: BoolArray) -> ScoreScale:  # noqa: ARG002
        """What makes documents of several kinds comparable: there is one kind."""
        return ONE_SCALE

    def _neighbourhoods(self, documents: Documents, near: FloatArray) -> FloatArray:
        """(queries, n) mean of each query's largest in the document's language."""
        fwd = np.empty_like(near)
        for rows in documents.languages.values():
            fwd[:, rows] = neighbourhood(near[:, rows], self.calibration.neighbours)[:, None]
        return fwd

    def _bank(self, lang: str) -> tuple[FloatArray, dict[str, list[int]]]:
        if lang not in self._banks:
            vectors, sources = self.calibration.bank(lang, self._share)
            rows: dict[str, list[int]] = {}
            for row, doc_id in enumerate(sources):
                rows.setdefault(doc_id, []).append(row)
            self._banks[lang] = vectors, rows
        return self._banks[lang]

    def _shortlists(self, scored: Scored, members: Sequence[BoolArray], ends: Sequence[int]) -> list[BoolArray]:
        """(queries, n) for each stretch what is at the head of its ranking and not in a shortlist before.

        In the first each language's best, too, which make its neighbourhood.
        """
        shortlists: list[BoolArray] = []
        shortlist = np.zeros(scored.scores.shape, dtype=np.bool_)
        for member, end in zip(members, ends, strict=True):
            for query, among in enumerate(member):
                shortlist[query, scored.best(query, max(end, RESCORED), among)[0]] = True
                for rows in scored.documents.languages.values() if not shortlists else ():
                    near = np.where(among[rows], scored.scores[query, rows], np.float32(-np.inf))
                    nearest = largest(near, self.calibration.neighbours)
                    shortlist[query, nearest[np.isfinite(near[nearest])] + rows.start] = True
            shortlists.append(shortlist.copy())
        return shortlists

    def _with_passages(self, candidates: Documents, rows: Rows) -> DocumentsWithPassages:
        """Some of the candidates with their passages; a document without any is its own passage."""
        doc_ids = [candidates.doc_ids[int(row)] for row in rows]
        languages = {
            lang: slice(*(int(end) for end in np.searchsorted(rows, (those.start, those.stop))))
            for lang, those in candidates.languages.items()
        }
        stored = self._stored(doc_ids, candidates.raw[rows])
        lengths = np.array([max(len(one.vectors), 1) for one in stored], dtype=np.intp)
        borders = np.concatenate(([0], np.cumsum(lengths)))
        passages = np.empty((int(lengths.sum()), candidates.raw.shape[1]), dtype=np.float32)
        for row, start, end, one in zip(rows, borders[:-1], borders[1:], stored, strict=True):
            passages[start:end] = one.vectors if len(one.vectors) else candidates.raw[row]
        spans = {lang: slice(int(borders[those.start]), int(borders[those.stop])) for lang, those in languages.items()}
        corrected = self.calibration.passages(unit_rows(passages), spans, self._share)
        raw, vectors = candidates.raw[rows], candidates.vectors[rows]
        parts = self.calibration.parts
        openings = _openings(parts, corrected, borders[:-1], [opening(one.offsets) for one in stored])
        return DocumentsWithPassages(doc_ids, languages, raw, vectors, parts, stored, corrected, borders[:-1], openings)

    def _details(
        self, scored: Scored, query: int, rows: Rows, raw: FloatArray, corrected: FloatArray, words: Words | None
    ) -> list[Detail]:
        """What hits show of their documents; passages that the ranking had are not asked for again."""
        documents = scored.documents
        parts = _parts(scored, query, rows, raw, corrected, words)
        order = np.argsort(rows)
        shown = (
            documents if isinstance(documents, DocumentsWithPassages) else self._with_passages(documents, rows[order])
        )
        places = rows if shown is documents else np.argsort(order)
        near = shown.parts.cosines(shown.passages, corrected[None])[:, 0]
        ends = [*shown.starts[1:], len(near)]
        return [
            Detail(part, shown.stored[place], int(near[shown.starts[place] : ends[place]].argmax()))
            for part, place in zip(parts, places, strict=True)
        ]


def _in_stretches(
    scored: Scored, query: int, members: Sequence[BoolArray], ends: Sequence[int], words: Words | None
) -> tuple[Rows, FloatArray]:
    """A query's ranking: each stretch below the one before, its scores lowered as far as that takes."""
    rows, scores = np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.float32)
    for member, end in zip(members, ends, strict=True):
        left = member.copy()
        left[rows] = False
        more, theirs = scored.stretch(query, end - len(rows), left, words)
        if len(rows) and len(more):
            theirs = np.minimum(theirs - max(np.float32(0), theirs[0] - scores[-1]), scores[-1])
        rows, scores = np.concatenate((rows, more)), np.concatenate((scores, theirs))
    return rows, scores


def opening(offsets: Int32Array) -> int:
    """How many of a document's passages are its opening: the first, and those that follow it within a window.

    Windows overlap, and the first alone is an opening. Sentences follow on each other, and the first is the title.
    """
    if len(offsets) < 2 or offsets[1, 0] < offsets[0, 1]:
        return 1
    return max(1, int(np.searchsorted(offsets[:, 1], _WINDOW, side="right")))


def _openings(parts: VectorParts, passages: FloatArray, starts: Rows, lengths: Sequence[int]) -> FloatArray:
    """(n, dim) unit vectors of the first so many passages of each document together."""
    if max(lengths, default=1) == 1:
        return passages[starts]
    sums = np.stack([passages[at : at + many].sum(axis=0) for at, many in zip(starts, lengths, strict=True)])
    return parts.weighed(parts.unit(unit_rows(sums)))


def _parts(
    scored: Scored, query: int, rows: Rows, raw: FloatArray, corrected: FloatArray, words: Words | None
) -> list[Parts]:
    """What the scores of some documents are made of, for a query as the encoder made it and as it was corrected."""
    documents = scored.documents
    best = opening = None
    if isinstance(documents, DocumentsWithPassages):
        best, opening = (cosines[:, 0] for cosines in documents.passage_cosines(corrected[None]))
    lexical = None
    if words is not None:
        lexical = lexical_scores(documents.doc_ids, words) / max(strongest(words), _NEXT_TO_NOTHING)
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
