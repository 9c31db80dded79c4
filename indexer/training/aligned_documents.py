"""Document vectors by language and ``concept``; maps between languages are learnt from them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice

import numpy as np

from encoders.console import Console
from encoders.document import Document, Encoder, FloatArray
from encoders.errors import BadInput
from encoders.maps.parallel import Parallel
from indexer.readers.records.source import Refusal
from indexer.stores.contract import VectorStore

_BATCH = 64


@dataclass
class AlignedVectors:
    """One vector per concept and language: that of the first document."""

    vectors: dict[str, dict[str, FloatArray]] = field(default_factory=dict)  # language → concept → (dim,)
    duplicates: int = 0  # number of documents left out because their language already had a document of their concept
    without: int = 0  # documents left out: without ``concept``, or the encoder knows none of their words
    refused: list[Refusal] = field(default_factory=list)

    def add(self, document: Document, vector: FloatArray) -> None:
        """Store a document's vector under its language and concept, or count why it is left out."""
        concept = document.fields.get("concept")
        if concept in (None, "") or not vector.any():
            self.without += 1
        elif str(concept) in self.vectors.setdefault(document.lang, {}):
            self.duplicates += 1
        else:
            self.vectors[document.lang][str(concept)] = vector

    def only(self, langs: Sequence[str]) -> "AlignedVectors":
        """Keep some languages' vectors (empty: all). Raises BadInput: a language lacks concepts, or one is left."""
        chosen = list(langs) or sorted(self.vectors)
        for lang in chosen:
            if lang not in self.vectors:
                available = ", ".join(sorted(self.vectors)) or "none"
                raise BadInput(f"no document in {lang!r} has a concept; there are some in: {available}")
        if len(chosen) < 2:
            raise BadInput(
                "documents of two languages at least need the field `concept`, the same for translations of one "
                f"another, and there are some in: {', '.join(chosen) or 'none'}; name theirs with --field concept=NAME"
            )
        return replace(self, vectors={lang: self.vectors[lang] for lang in chosen})

    def without_concepts(self, concepts: set[str]) -> "AlignedVectors":
        """The vectors of all other concepts, without the counts."""
        return AlignedVectors(
            {
                lang: {concept: vector for concept, vector in vectors.items() if concept not in concepts}
                for lang, vectors in self.vectors.items()
            }
        )

    def shared(self, langs: Sequence[str]) -> list[str]:
        """The concepts that all given languages have, sorted."""
        return sorted(set.intersection(*(set(self.vectors[lang]) for lang in langs)))

    def parallel(self, langs: Sequence[str] = ()) -> Parallel:
        """The vectors of the concepts that all given languages share, sorted by concept; all languages by default."""
        chosen = langs or list(self.vectors)
        common = self.shared(chosen)
        dim = len(next(iter(chain.from_iterable(vectors.values() for vectors in self.vectors.values()))))
        empty = np.zeros((0, dim), dtype=np.float32)
        rows = {
            lang: np.stack([self.vectors[lang][concept] for concept in common]) if common else empty for lang in chosen
        }
        return Parallel(common, rows)


def add_encoded(
    vectors: AlignedVectors, documents: Iterable[Document], encoder: Encoder, console: Console
) -> AlignedVectors:
    """Encode documents batch by batch and add their vectors to ``vectors``, which is returned."""
    remaining = iter(documents)
    with console.progress("encoding", None, "documents") as progress:
        while batch := list(islice(remaining, _BATCH)):
            with_concept = [document for document in batch if document.fields.get("concept") not in (None, "")]
            vectors.without += len(batch) - len(with_concept)
            if with_concept:
                for document, vector in zip(with_concept, encoder.encode_documents(with_concept).vectors, strict=True):
                    vectors.add(document, vector)
            progress(len(batch))
    return vectors


def stored_by_concept(store: VectorStore, model: str, langs: Sequence[str], console: Console) -> AlignedVectors:
    """Read the vectors that a collection stores for its documents, by language and concept."""
    vectors, counts = AlignedVectors(), store.count()
    chosen = [lang for lang in (langs or sorted(counts)) if lang in counts]
    with console.progress("reading", sum(counts[lang] for lang in chosen), "documents") as progress:
        for lang in chosen:
            for page in store.scan(model, lang=lang):
                for item in page:
                    vectors.add(item.document, item.vector)
                progress(len(page))
    return vectors
