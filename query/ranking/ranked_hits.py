"""Hits of a ranking: its documents, each with the passages that a reader is shown."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from encoders.document import Document, FloatArray, unit_rows
from encoders.methods.vector_parts import VectorParts
from encoders.text.segmentation import sentences
from encoders.text.words import word_around
from indexer.stores.contract import EditedDocument, VectorStore
from query.ranking.search_hits import Detail, Hit, Passage, Ranking


def ranked_hits(
    store: VectorStore,
    ranking: Ranking,
    query: FloatArray,
    parts: VectorParts,
    *,
    explain: bool = False,
    passages: int = 0,
) -> list[Hit]:
    """The documents of a ranking with details, for a query in the stored space; options are as of ``Searcher.search``.

    Raises:
        MissingDocuments: documents were deleted since they were ranked.
    """
    hits = []
    documents, details = store.get(ranking.doc_ids), ranking.details_of(ranking.doc_ids)
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


def best_passages(
    document: Document, detail: Detail, query: FloatArray, parts: VectorParts, count: int
) -> list[Passage]:
    """The best passages, best first; none if the document has no passages or its text was edited since."""
    passages = detail.passages
    if not len(passages.vectors) or isinstance(document, EditedDocument):
        return []
    best = np.argsort(-detail.cosines, kind="stable")[:count]
    plain = parts.plain_cosines(unit_rows(passages.vectors[best]), query[None])[:, 0]
    ranked = []
    for number, cosine in zip(best.tolist(), plain.tolist(), strict=True):
        start, end = _whole_sentences(document, *(int(offset) for offset in passages.offsets[number]))
        compared = float(detail.cosines[number])
        ranked.append(Passage(document.content[start:end], start, end, cosine, number, compared))
    return ranked


def _whole_sentences(document: Document, start: int, end: int) -> tuple[int, int]:
    """Borders of a passage for a reader: of whole words, and without a cut-off first sentence if half remains."""
    start, end = word_around(document.content, start)[0], word_around(document.content, end)[1]
    if document.title and start == 0 and end > len(document.title) + 1:
        start = len(document.title) + 1  # a hit shows the title anyway
    text = document.content[start:end]
    spans = sentences(text, document.lang)
    if not spans:
        return start, end
    whole = start == 0 or document.content[start - 1] in "\n.!?。！？" or len(spans) == 1
    first = spans[0] if whole or len(text) - spans[1][0] < len(text) // 2 else spans[1]
    return start + first[0], start + spans[-1][1]
