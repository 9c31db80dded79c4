"""One call gets documents out: encode the query, ask every target language, merge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from encoders.console import Console
from encoders.document import Document, Encoder, EncoderSpec, FloatArray, Passages, short_hash
from encoders.errors import BadInput
from encoders.languages import normalise
from encoders.methods import open_encoder
from encoders.segmentation import sentences
from encoders.session import Device
from indexer import collection as collections
from indexer.database import connect
from indexer.detection import Detection, Detector
from indexer.settings import Settings
from indexer.stores.contract import Candidates, Filters, VectorStore
from onnx_export.models import find_model
from query.hits import Hit, Passage, Ranking

_BLOCK = 64
"""Queries ranked at once: to depth 1,000 in many languages their candidates are what takes memory."""


@dataclass
class Searcher:
    """A collection, opened for queries: the one path of the command, the evaluation and the service.

    Attributes:
        collection: its name.
        encoder: encodes the queries.
        store: holds the documents.
        languages: documents by language.
        detector: tells a query's language among them.
    """

    collection: str
    encoder: Encoder
    store: VectorStore
    languages: Mapping[str, int]
    detector: Detector

    @classmethod
    def open(
        cls,
        collection: str,
        settings: Settings | None = None,
        *,
        device: Device = "auto",
        console: Console | None = None,
    ) -> Self:
        """Open a collection by its name.

        Args:
            collection: its name.
            settings: where things are; read from the environment unless given.
            device: where to encode queries.
            console: where progress goes, should the default encoder have to be made; nowhere unless given.

        Raises:
            BadInput: there is none of that name, or nothing is in it.
            ModelMismatch: the encoder it was indexed with is not the one its name leads to now.
            StoreError: store or database can't be opened.
        """
        settings = settings or Settings.read()
        engine = connect(settings.database)
        try:
            found = collections.require(engine, collection)
        finally:
            engine.dispose()
        store = found.open_store(settings)
        languages = store.count()
        if not languages:
            store.close()
            raise BadInput(
                f"collection {collection} holds no documents; put some in: dragoman index SOURCE -c {collection}"
            )
        detector = Detector(languages.keys())
        try:
            model = find_model(found.encoder, console or Console(quiet=True))
            encoder = open_encoder(model, found.method, device=device)
            found.check(encoder.spec)
        except BaseException:
            store.close()
            raise
        return cls(collection, encoder, store, languages, detector)

    @property
    def spec(self) -> EncoderSpec:
        """What encodes the queries."""
        return self.encoder.spec

    @property
    def space(self) -> str:
        """Id of the space that rankings are made in: the model and the calibration, of which there is none yet."""
        return short_hash(self.spec.model, "no calibration")

    def describe(self) -> dict[str, Any]:
        """What decides a ranking, for the evaluation log."""
        return {
            "encoder": self.spec.name,
            "method": self.spec.method,
            "model": self.spec.model,
            "build": self.spec.build,
            "space": self.space,
            "languages": dict(self.languages),
        }

    def detect(self, text: str) -> Detection:
        """The language of a query, among those of the collection."""
        return self.detector.detect(text)

    def search(
        self,
        text: str,
        *,
        lang: str | None = None,
        to: Sequence[str] | None = None,
        k: int = 10,
        filters: Filters | None = None,
    ) -> list[Hit]:
        """The k best documents for a query, best first, with the passage that matches.

        Args:
            text: the query.
            lang: its language; detected unless given.
            to: languages of documents; all of the collection's unless given.
            k: how many.
            filters: the user's fields a document must have.

        Raises:
            BadInput: the text is empty, or a language is not in the collection.
        """
        if not text.strip():
            raise BadInput("the query is empty; type what you look for")
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise BadInput("the query is not UTF-8; see to the terminal's encoding")
        query = Document("query", normalise(lang) if lang else self.detect(text).lang, text)
        vectors = self.encoder.encode_queries([query])
        ranking = self._rank_vectors([query], vectors, k, self.targets(to), filters)[0]
        try:
            documents = self.store.get(ranking.doc_ids)
            passages = self.store.passages(self.spec.model, ranking.doc_ids)
        except KeyError:  # deleted since: the ranking is made again, without it
            return self.search(text, lang=query.lang, to=to, k=k, filters=filters)
        return [
            Hit(
                doc_id=document.doc_id,
                lang=document.lang,
                cosine=float(score),
                score=float(score),
                document=document,
                passage=_best_passage(document, segments, vectors[0]),
            )
            for document, segments, score in zip(documents, passages, ranking.scores, strict=True)
        ]

    def rank(
        self,
        queries: Sequence[Document],
        *,
        k: int = 1000,
        to: Sequence[str] | None = None,
        filters: Filters | None = None,
    ) -> list[Ranking]:
        """The k best documents for each query, without their content: what an evaluation takes.

        Raises:
            BadInput: a language of ``to`` is not in the collection.
        """
        targets = self.targets(to)
        vectors = self.encoder.encode_queries(queries)
        rankings = []
        for start in range(0, len(queries), _BLOCK):
            block = slice(start, start + _BLOCK)
            rankings += self._rank_vectors(queries[block], vectors[block], k, targets, filters)
        return rankings

    def targets(self, to: Sequence[str] | None) -> list[str]:
        """Languages to ask: those given, or all of the collection's.

        Raises:
            BadInput: a language is not in the collection.
        """
        if to is None:
            return sorted(self.languages)
        wanted = list(dict.fromkeys(normalise(code) for code in to))
        for code in wanted:
            if code not in self.languages:
                raise BadInput(
                    f"collection {self.collection} has no documents in {code!r}; "
                    f"it has {', '.join(sorted(self.languages))}"
                )
        return wanted

    def _rank_vectors(
        self, queries: Sequence[Document], vectors: FloatArray, k: int, targets: Sequence[str], filters: Filters | None
    ) -> list[Ranking]:
        corrected = self._correct(vectors, targets)
        found = self.store.search(self.spec.model, corrected, k, filters=filters)
        return [_merge({lang: found[lang][at] for lang in targets}, k) for at in range(len(queries))]

    def _correct(self, vectors: FloatArray, targets: Sequence[str]) -> dict[str, FloatArray]:
        """The queries as each target language is to be asked; without a calibration, as they are."""
        return dict.fromkeys(targets, vectors)

    def close(self) -> None:
        """Let go of the store."""
        self.store.close()

    def __enter__(self) -> Self:
        """Open already."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()


def _merge(found: Mapping[str, Candidates], k: int) -> Ranking:
    """One ranking over languages, by score; equal scores by language and place in it."""
    doc_ids = [doc_id for candidates in found.values() for doc_id in candidates.doc_ids]
    langs = [lang for lang, candidates in found.items() for _ in candidates.doc_ids]
    scores = np.concatenate([candidates.scores for candidates in found.values()]) if found else np.zeros(0, np.float32)
    order = np.argsort(-scores, kind="stable")[:k]
    return Ranking([doc_ids[at] for at in order], [langs[at] for at in order], scores[order])


def _best_passage(document: Document, passages: Passages, query: FloatArray) -> Passage | None:
    if not len(passages.vectors):
        return None
    cosines = passages.unit_vectors() @ query
    best = int(cosines.argmax())
    start, end = _whole_sentences(document, *(int(place) for place in passages.offsets[best]))
    return Passage(document.content[start:end], start, end, float(cosines[best]))


def _whole_sentences(document: Document, start: int, end: int) -> tuple[int, int]:
    """A passage for a reader: a sentence cut off at its start goes if half of the passage stays."""
    if document.title and start == 0 and end > len(document.title) + 1:
        start = len(document.title) + 1  # the title is shown anyway
    text = document.content[start:end]
    spans = sentences(text, document.lang)
    if not spans:
        return start, end
    whole = start == 0 or document.content[start - 1] in "\n.!?。！？" or len(spans) == 1
    first = spans[0] if whole or len(text) - spans[1][0] < len(text) // 2 else spans[1]
    return start + first[0], start + spans[-1][1]
