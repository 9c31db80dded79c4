"""Vectors of documents by language and ``concept``: what maps between languages are learnt from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice

import numpy as np

from encoders.console import Console, Progress
from encoders.document import Document, Encoder, FloatArray
from encoders.errors import BadInput
from encoders.languages import UNDETERMINED
from encoders.maps.parallel import Parallel
from indexer.readers import Reading, ReadOptions, Refusal, read
from indexer.stores.contract import VectorStore
from indexer.text.language_detection import Detector

_TOGETHER = 64


@dataclass
class ByConcept:
    """One document a concept and language: the first that was seen.

    Attributes:
        vectors: (dim,) by concept, by language.
        duplicates: documents left out because their language had one of their concept already.
        without: documents left out because they have no ``concept``, or the encoder knows nothing in them.
        refused: records that could not be read.
    """

    vectors: dict[str, dict[str, FloatArray]] = field(default_factory=dict)
    duplicates: int = 0
    without: int = 0
    refused: list[Refusal] = field(default_factory=list)

    def add(self, document: Document, vector: FloatArray) -> None:
        """See a document's vector."""
        concept = document.fields.get("concept")
        if concept in (None, "") or not vector.any():
            self.without += 1
        elif str(concept) in self.vectors.setdefault(document.lang, {}):
            self.duplicates += 1
        else:
            self.vectors[document.lang][str(concept)] = vector

    def only(self, langs: Sequence[str]) -> ByConcept:
        """Some languages, in their order; all where none is named.

        Raises:
            BadInput: there is no document with a concept in one of them, or in fewer than two.
        """
        chosen = list(langs) or sorted(self.vectors)
        for lang in chosen:
            if lang not in self.vectors:
                said = ", ".join(sorted(self.vectors)) or "none"
                raise BadInput(f"no document in {lang!r} has a concept; there are some in: {said}")
        if len(chosen) < 2:
            raise BadInput(
                "documents of two languages at least need the field `concept`, the same for translations of one "
                f"another, and there are some in: {', '.join(chosen) or 'none'}; name theirs with --field concept=NAME"
            )
        return replace(self, vectors={lang: self.vectors[lang] for lang in chosen})

    def parallel(self, langs: Sequence[str] = ()) -> Parallel:
        """The concepts that all of some languages have, in an order of their own."""
        chosen = langs or list(self.vectors)
        common = sorted(set.intersection(*(set(self.vectors[lang]) for lang in chosen)))
        empty = np.zeros((0, _width(self.vectors)), dtype=np.float32)
        rows = {
            lang: np.stack([self.vectors[lang][concept] for concept in common]) if common else empty for lang in chosen
        }
        return Parallel(common, rows)


def _width(vectors: Mapping[str, Mapping[str, FloatArray]]) -> int:
    return len(next(iter(chain.from_iterable(some.values() for some in vectors.values()))))


def encoded_by_concept(
    sources: Sequence[str], encoder: Encoder, langs: Sequence[str], options: ReadOptions, console: Console
) -> ByConcept:
    """Read sources and encode the documents of some languages; of all where none is named.

    Raises:
        BadInput: a source can't be read.
    """
    found = ByConcept()
    readings = chain.from_iterable([read(source, options) for source in sources])
    return encoded(found, _wanted(readings, langs, found), encoder, console)


def _wanted(readings: Iterable[Reading], langs: Sequence[str], found: ByConcept) -> Iterator[Document]:
    detector = Detector(None)
    for reading in readings:
        match reading:
            case Document():
                document = _with_language(reading, detector)
                if not langs or document.lang in langs:
                    yield document
            case Refusal():
                found.refused.append(reading)


def encoded(found: ByConcept, documents: Iterable[Document], encoder: Encoder, console: Console) -> ByConcept:
    """Encode documents, some at a time."""
    waiting = iter(documents)
    with console.progress("encoding", None, "documents") as progress:
        while batch := list(islice(waiting, _TOGETHER)):
            _encode(batch, encoder, found, progress)
    return found


def _with_language(document: Document, detector: Detector) -> Document:
    if document.lang != UNDETERMINED:
        return document
    return replace(document, lang=detector.detect(document.content).lang)


def _encode(batch: Sequence[Document], encoder: Encoder, found: ByConcept, progress: Progress) -> None:
    with_concept = [one for one in batch if one.fields.get("concept") not in (None, "")]
    found.without += len(batch) - len(with_concept)
    if with_concept:
        for document, vector in zip(with_concept, encoder.encode_documents(with_concept).vectors, strict=True):
            found.add(document, vector)
    progress(len(batch))


def stored_by_concept(store: VectorStore, model: str, langs: Sequence[str], console: Console) -> ByConcept:
    """The documents of a collection, with the vectors it holds."""
    found, counts = ByConcept(), store.count()
    chosen = [lang for lang in (langs or sorted(counts)) if lang in counts]
    with console.progress("reading", sum(counts[lang] for lang in chosen), "documents") as progress:
        for lang in chosen:
            for page in store.scan(model, lang=lang):
                for item in page:
                    found.add(item.document, item.vector)
                progress(len(page))
    return found
