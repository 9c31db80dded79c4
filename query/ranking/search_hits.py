"""The results of a search: hits, rankings, and the parts of their scores."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache

import numpy as np

from encoders.console import values_of
from encoders.document import Document, FloatArray, Passages, unit_rows
from encoders.languages import UNDETERMINED
from encoders.methods.vector_parts import VectorParts
from encoders.printable import one_line
from encoders.text.segmentation import sentences
from encoders.text.words import word_around
from indexer.cluster.source_values import filter_texts
from indexer.stores.contract import EditedDocument, VectorStore
from indexer.text.language_detection import SURE
from query.calibration.margin import FLOOR, centring, exponent

JUDGED = 10
"""First hits that say whether there is a good answer."""
LANGUAGE_FACET = "lang"
"""Name of the facet that counts languages; every other name is a field's."""

_NEAR = 200
"""Characters around a passage in which its first sentence may begin and its last may end."""
RERANKED = 30
"""Best hits of a fair ranking that a reranker orders."""


@dataclass(frozen=True)
class Passage:
    """A passage of a hit.

    Attributes:
        start: first character in ``Document.content``.
        end: end in ``Document.content``, exclusive.
        cosine: plain cosine with the query.
        number: place among the document's passages, from 0.
        compared: cosine without the languages' means, by which passages are ranked.
    """

    text: str
    start: int
    end: int
    cosine: float
    number: int
    compared: float


@dataclass(frozen=True)
class ScoreParts:
    """The parts of a hit's score."""

    cosine: float  # cosine of query and document, as the encoder made them
    corrected: float  # the same without the languages' means
    # corrected cosine of the title; none if passages were not compared or the title is no passage of its own
    title: float | None
    # corrected cosine of the opening, the first window or sentences of its length; none if passages were not compared
    opening: float | None
    passage: float | None  # corrected cosine of the best passage; none likewise
    compared: float  # what the margin is taken of: the corrected cosine, or a mean with those of the parts
    fwd: float | None  # mean compared cosine of the query's nearest documents in this language; none without a margin
    # mean corrected cosine of the query language's pseudo-queries nearest to the document; none likewise
    bwd: float | None
    # the margin score. ``Hit.score`` differs by what mates add, where hybrid search moved the hit, where a subject has
    # the score of a better version, and beyond the first stretch of 150 hits, where scores are lowered below those of
    # the stretch before.
    score: float
    # id of the document about the same thing, in another language, that is most ahead of the hit by score, or least
    # behind; none: no mate is among the best candidates
    mate: str | None
    mates: float | None  # what mates add to the margin score, which may be less than 0; none likewise
    words: float | None  # BM25 score as a share of the best in any language; none without hybrid search
    # the reranker's score, with what mates add; it orders the first hits, and ``Hit.score`` stays with the place. None
    # if the hit was not reranked.
    reranked: float | None = None

    @property
    def fits(self) -> bool | None:
        """Whether the query is nearer than the queries of other documents are; none without a margin.

        ``bwd`` tells how near those come: the mean of the nearest pseudo-queries, without the document's own.
        """
        return None if self.bwd is None else self.corrected > self.bwd


@dataclass(frozen=True)
class Detail:
    """Details of a ranked document, for a hit."""

    doc_id: str  # the document's id
    parts: ScoreParts
    passages: Passages  # the document's passages as they are stored
    cosines: FloatArray  # (p,) cosines of the passages with the query, by corrected vectors; without a title's


@dataclass(frozen=True)
class Hit:
    """A document that a query found.

    Attributes:
        cosine: cosine of query and document, as the encoder made them.
        score: the score that hits are ordered by; a subject stands where its best version would.
        passage: the best passage; none if the document has no passages, or its owner has edited the text since they
            were made.
        parts: the parts of the score; none unless asked for.
        also: other documents about the same thing, best first, where subjects are asked for.
        alike: number of hits of its language that are nearly the same and not shown, where subjects are asked for.
        fits: as in ``ScoreParts``; of a subject, that of its version in the query's language, else of its best.
        passages: the best passages, best first, if several are asked for.
    """

    doc_id: str
    lang: str
    cosine: float
    score: float
    document: Document
    passage: Passage | None
    parts: ScoreParts | None = None
    also: Sequence[Hit] = ()
    alike: int = 0
    fits: bool | None = None
    passages: Sequence[Passage] = ()

    @property
    def id(self) -> str:
        """The document's id, ``doc_id``."""
        return self.doc_id

    @property
    def title(self) -> str:
        """The document's title, which may be empty."""
        return self.document.title

    @property
    def text(self) -> str:
        """The document's text, without its title."""
        return self.document.text


@dataclass(frozen=True)
class Facets:
    """How many of a search's best documents have which language, and which values of their fields.

    Attributes:
        total: number of documents that were searched: those of the wanted languages that pass the filters. A ranking
            leaves none of them out, however far they are from the query, so not all of them are answers.
        counted: number of the best of these, which the counts are of.
        counts: by ``lang`` or a field's name, the number of documents with each value, the largest first. Values are
            texts that a filter takes; a document whose field is a list counts for each of its items.
    """

    total: int
    counted: int
    counts: Mapping[str, Mapping[str, int]]

    @classmethod
    def of(cls, documents: Sequence[Document], paths: Mapping[str, str], total: int) -> Facets:
        """Count documents by facets, whose values are at these paths in the documents' fields, by the facets' names."""
        counts = {
            name: Counter(
                value
                for document in documents
                for value in ([document.lang] if name == LANGUAGE_FACET else filter_texts(document.fields, path))
            )
            for name, path in paths.items()
        }
        ordered = {
            name: dict(sorted(of_name.items(), key=lambda item: (-item[1], item[0])))
            for name, of_name in counts.items()
        }
        return cls(total, len(documents), ordered)


class Hits(list[Hit]):
    """The hits of a search, best first: a list, with the language of the query.

    Attributes:
        lang: language of the query, stated or detected; normalised BCP 47 tag, ``und`` if no language is likely.
        confidence: probability of the likeliest language, 0 to 1; none if the language was stated.
        facets: counts of the best documents; none unless asked for.
        reranking: seconds that reranking took; none without a reranker.
        good: number of first hits that fit the query, 0: there is no good answer; none if unknown, or without hits.
    """

    def __init__(
        self,
        hits: Iterable[Hit],
        lang: str,
        confidence: float | None = None,
        facets: Facets | None = None,
        reranking: float | None = None,
        good: int | None = None,
    ) -> None:
        super().__init__(hits)
        self.lang, self.confidence, self.facets, self.reranking = lang, confidence, facets, reranking
        self.good = None if good is None else min(good, len(self))


@dataclass(frozen=True)
class Ranking:
    """The documents of one query, best first, without their content: what an evaluation needs."""

    doc_ids: Sequence[str]
    langs: Sequence[str]  # (n,) languages of the documents
    scores: FloatArray  # (n,) float32, descending
    # makes the details of documents of the ranking, by their ids; none unless asked for. It holds the candidates of all
    # queries that were ranked together in memory.
    details: Callable[[Sequence[str]], list[Detail]] | None = None
    reranked: Mapping[str, float] = field(default_factory=dict)  # scores of a reranker by id
    # of a ranking with details, by id: vectors as they are stored, and the documents that were read meanwhile
    vectors: Mapping[str, FloatArray] = field(default_factory=dict)
    texts: Mapping[str, Document] = field(default_factory=dict)

    @property
    def scored(self) -> list[tuple[str, float]]:
        """Documents' ids with their scores."""
        return list(zip(self.doc_ids, self.scores.tolist(), strict=True))

    def first(self, k: int) -> Ranking:
        """The ranking of the k best of these documents."""
        return replace(self, doc_ids=self.doc_ids[:k], langs=self.langs[:k], scores=self.scores[:k])

    def ordered(self, rows: Sequence[int]) -> Ranking:
        """The documents of the rows in their order; scores stay with the places."""
        doc_ids, langs = ([values[row] for row in rows] for values in (self.doc_ids, self.langs))
        return replace(self, doc_ids=doc_ids, langs=langs, scores=self.scores[: len(rows)])

    def selected(self, rows: Sequence[int]) -> Ranking:
        """The documents of the rows with their own scores."""
        return replace(self.ordered(rows), scores=self.scores[list(rows)])

    def followed_by(self, longer: Ranking) -> Ranking:
        """The ranking, and below it the other documents of a longer one; both have details."""
        known = set(self.doc_ids)
        rest = longer.selected([row for row, doc_id in enumerate(longer.doc_ids) if doc_id not in known])

        def details(doc_ids: Sequence[str]) -> list[Detail]:
            own, others = ([doc_id for doc_id in doc_ids if (doc_id in known) == is_own] for is_own in (True, False))
            by_id = {detail.doc_id: detail for detail in (*self.details_of(own), *longer.details_of(others))}
            return [by_id[doc_id] for doc_id in doc_ids]

        return Ranking(
            [*self.doc_ids, *rest.doc_ids],
            [*self.langs, *rest.langs],
            np.concatenate((self.scores, rest.scores)),
            details,
            self.reranked,
            {**longer.vectors, **self.vectors},
            {**longer.texts, **self.texts},
        )

    def documents(self, store: VectorStore, doc_ids: Sequence[str]) -> list[Document]:
        """Documents of the ranking; the store is asked for those not read yet. Raises MissingDocuments."""
        unread = [doc_id for doc_id in doc_ids if doc_id not in self.texts]
        read = dict(zip(unread, store.get(unread), strict=True)) if unread else {}
        return [read.get(doc_id) or self.texts[doc_id] for doc_id in doc_ids]

    def details_of(self, doc_ids: Sequence[str]) -> list[Detail]:
        """Details of some documents of a ranking that can make details."""
        if self.details is None:
            raise ValueError("the ranking was made without details")
        return self.details(doc_ids) if doc_ids else []


def good_hits(hits: Sequence[Hit]) -> int | None:
    """Number of first hits that fit the query, with the fewest exceptions among them and below; none if unknown.

    The first ``JUDGED`` decide by themselves, so that an answer is as good however many hits are asked for.
    """
    if all(hit.fits is None for hit in hits):
        return None
    leads = [0, *itertools.accumulate(0 if hit.fits is None else 1 if hit.fits else -1 for hit in hits)]
    judged = max(range(len(leads[: JUDGED + 1])), key=lambda count: (leads[count], count))
    return judged if judged < JUDGED else max(range(len(leads)), key=lambda count: (leads[count], count))


def answer_notes(hits: Hits, say_language: str) -> list[str]:
    """Sentences about an answer: an unsure language, with how to ``say_language``, and whether there is an answer."""
    notes, confidence = [], 1.0 if hits.confidence is None else hits.confidence
    if confidence < SURE and hits.lang == UNDETERMINED:
        notes.append(f"the query's language is unsure; say which: {say_language.format('LANG')}")
    elif confidence < SURE:
        notes.append(f"is this {hits.lang}? say so: {say_language.format(hits.lang)}")
    if hits and hits.good == 0:
        notes.append("no good answer here: most of these hits fit other queries as well as this one")
    return notes


def explanation(parts: ScoreParts, score: float, balance: float) -> str:
    """How a hit's score comes of its parts by a balance, in words: the numbers lead to the score at the end."""
    line = f"cosine {parts.cosine:.3f}"
    if centring(balance) and parts.corrected != parts.cosine:
        line += f", without what its language shares {parts.corrected:.3f}"
    elif f"{parts.corrected:.3f}" != f"{parts.cosine:.3f}":  # a map or weights changed it
        line += f", as compared {parts.corrected:.3f}"
    if parts.passage is not None and parts.opening is not None:
        line += f"; title {parts.title:.3f}" if parts.title is not None else ""
        line += f"; opening {parts.opening:.3f}; best passage, which counts twice, {parts.passage:.3f}"
        line += f"; mean of all {parts.compared:.3f}"
    if parts.fwd is not None and parts.bwd is not None:
        least = f" (at least {FLOOR:g})" if (parts.fwd + parts.bwd) / 2 < FLOOR else ""
        line += (
            f"; divided by the mean of what is usual near the query, {parts.fwd:.3f}, and near the document, "
            f"{parts.bwd:.3f}{least}, to the power {exponent(balance):g}: {parts.score:.3f}"
        )
    total = parts.score + (parts.mates or 0.0)
    added = round(total, 3) - round(parts.score, 3)  # so that the shown numbers add up
    if parts.mate is not None and f"{abs(added):.3f}" != "0.000":
        line += f"; documents about the same thing, such as [{one_line(parts.mate)}], add {added:.3f}"
    if parts.words is not None:
        line += f"; its words have {parts.words:.2f} of the best document's BM25 score"
    if parts.reranked is not None:
        line += f"; the reranker gives {parts.reranked:.3f}"
    moved = "" if f"{score:.3f}" == f"{total:.3f}" else ", that of its place"
    return f"{line}; score {score:.3f}{moved}"


def as_json(hit: Hit) -> dict[str, object]:
    """A hit as a JSON object."""
    passage = hit.passage
    return {
        "id": hit.doc_id,
        "lang": hit.lang,
        "score": round(hit.score, 6),
        "cosine": round(hit.cosine, 6),
        "title": hit.document.title,
        "fields": dict(hit.document.fields),
        "passage": passage and {**values_of(passage, "text", "start", "end"), "cosine": round(passage.cosine, 6)},
        **({"parts": asdict(hit.parts)} if hit.parts else {}),
        **({"also": [as_json(other) for other in hit.also]} if hit.also else {}),
        **({"alike": hit.alike} if hit.alike else {}),
    }


def ranked_hits(
    store: VectorStore,
    ranking: Ranking,
    query: FloatArray,
    parts: VectorParts,
    *,
    explain: bool = False,
    passages: int = 0,
) -> list[Hit]:
    """The hits of a ranking with details; see ``Searcher.search``. Raises MissingDocuments: some were deleted."""
    hits = []
    documents, details = ranking.documents(store, ranking.doc_ids), ranking.details_of(ranking.doc_ids)
    for document, score, detail in zip(documents, ranking.scores, details, strict=True):
        best = best_passages(document, detail, query, parts, max(1, passages))
        hits.append(
            Hit(
                doc_id=document.doc_id,
                lang=document.lang,
                cosine=detail.parts.cosine,
                score=float(score),
                document=document,
                passage=best[0] if best else None,
                parts=replace(detail.parts, reranked=ranking.reranked.get(document.doc_id)) if explain else None,
                fits=detail.parts.fits,
                passages=best if passages else (),
            )
        )
    return hits


_sentences = lru_cache(2_000)(sentences)  # of passages that were shown before


def best_passages(
    document: Document, detail: Detail, query: FloatArray, parts: VectorParts, count: int
) -> list[Passage]:
    """The best passages, best first; none if the document has no passages or its text was edited since."""
    passages = detail.passages
    if not len(passages.vectors) or isinstance(document, EditedDocument):
        return []
    best = np.argsort(-detail.cosines, kind="stable")[:count]
    plain = parts.plain_cosines(unit_rows(passages.vectors[best]), query[None])[:, 0]
    text, body = document.content, len(document.title) + 1 if document.title else 0  # a hit shows the title anyway
    ranked = []
    for number, cosine in zip(best.tolist(), plain.tolist(), strict=True):
        # borders for a reader: of sentences that are near, else of words; a cut-off first sentence goes if half remains
        start, end = (word_around(text, int(border))[at] for at, border in enumerate(passages.offsets[number]))
        start = body if start == 0 and end > body else start + len(text[start:end]) - len(text[start:end].lstrip())
        early = max(body if start >= body else 0, word_around(text, max(0, start - _NEAR))[0])
        early, late = max(early, text.rfind("\n", early, start)), word_around(text, end + _NEAR)[1]
        around = text[early : text.find("\n", end, late) + 1 or late]  # a line break ends a sentence
        spans = [(early + begin, early + stop) for begin, stop in _sentences(around, document.lang)]
        if spans := [span for span in spans if span[0] < end and span[1] > start]:
            second = spans[0][0] < start and len(spans) > 1 and (end - spans[1][0]) * 2 >= end - start
            start = start if spans[second][0] == early > body else spans[second][0]
            end = end if spans[-1][1] == early + len(around) < len(text) else spans[-1][1]
        compared = float(detail.cosines[number])
        ranked.append(Passage(text[start:end], start, end, cosine, number, compared))
    return ranked
