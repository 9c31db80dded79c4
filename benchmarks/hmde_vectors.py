"""Documents of the open collections, encoded once by the baselines of HMDE and stored in a folder.

Sentences here are as long as the model takes (method *sentences*); ``dragoman train hmde`` and method *hmde* cut them
at 128 tokens. Windows are the same in both.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks import harness
from benchmarks.harness import LANGUAGES
from encoders.console import Console
from encoders.document import Document, Encoder, Int8Array, Passages, encode_in_batches, int8_rows
from encoders.hmde.triples import held_out
from onnx_export.hmde.hmde_settings import LONGFORMER
from onnx_export.models import DEFAULT
from papers.hmde_methods import open_method

METHODS = ("first", "segments", "sentences", "windows")
SEGMENTATIONS = ("sentences", "windows")
"""Methods whose passages training reads, so that all documents are encoded."""
BASELINES = (*METHODS, LONGFORMER)
SPLIT = 2023
"""Seed of the halves: not a training's seed, because training draws its validation concepts by the same hash."""
_BATCH = 64


@dataclass(frozen=True)
class StoredPassages:
    """Passages of some documents, one after another.

    Attributes:
        vectors: (passages, dim) int8.
        offsets: (passages, 2) characters.
        counts: (documents,) passages of each document.
    """

    vectors: Int8Array
    offsets: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int64]

    def of_documents(self) -> list[Passages]:
        """The passages of each document."""
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.counts)])
        return [Passages(self.vectors[start:end], self.offsets[start:end]) for start, end in pairwise(starts.tolist())]


def documents(collection: str, lang: str) -> list[Document]:
    """A collection's documents of one language."""
    return harness.documents(harness.read(collection, lang), lang)


def is_taught(document: Document) -> bool:
    """Whether a document is of the half of the concepts that is trained on."""
    return held_out(str(document.fields["concept"]), 0.5, SPLIT)


def tested(collection: str, pages: Sequence[Document]) -> list[Document]:
    """The documents that are not trained on; of *ntrex* all."""
    return [page for page in pages if collection == "ntrex" or not is_taught(page)]


@dataclass(frozen=True)
class Vectors:
    """The collections as encoded by one lower encoder.

    Attributes:
        folder: holds the vectors, the models and the measurements.
        encoder: name or exported folder of the lower encoder.
        checkpoint: Hugging Face folder that it was exported from, for *longformer*; the default encoder needs none.
    """

    folder: Path
    encoder: str = DEFAULT
    checkpoint: str | None = None

    @classmethod
    def of(cls, folder: Path, encoder: str, checkpoint: str | None = None) -> Vectors:
        """Make the folder of an encoder's vectors: the folder itself for the default encoder, else a subfolder."""
        folder = folder if encoder == DEFAULT else folder / Path(encoder).name
        folder.mkdir(parents=True, exist_ok=True)
        return cls(folder, encoder, checkpoint)

    def open(self, method: str) -> Encoder:
        """Open the encoder with a method."""
        reference = self.checkpoint or self.encoder if method == LONGFORMER else self.encoder
        return open_method(reference, method, "cpu", Console(quiet=True))

    def passages(self, collection: str, lang: str, method: str) -> StoredPassages:
        """Passages of a collection's documents of one language by a method; encoded if they are not stored.

        *sentences* and *windows* encode all documents, because training needs the taught half; other methods encode the
        tested documents.
        """
        file = self.folder / f"{collection}.{lang}.{method}.npz"
        if not file.is_file():
            encoder = self.open(method)
            pages = documents(collection, lang)
            if method not in SEGMENTATIONS:
                pages = tested(collection, pages)
            passages = [
                of_page
                for _, encoded in encode_in_batches(encoder, pages, _BATCH, lambda _: None)
                for of_page in encoded.passages
            ]
            np.savez(
                file.with_suffix(".part.npz"),
                vectors=np.concatenate([of_page.vectors for of_page in passages]),
                offsets=np.concatenate([of_page.offsets for of_page in passages]),
                counts=np.array([len(of_page.vectors) for of_page in passages], dtype=np.int64),
            )
            file.with_suffix(".part.npz").replace(file)
            print(file.name, len(pages), flush=True)
        with np.load(file) as stored:
            return StoredPassages(stored["vectors"], stored["offsets"], stored["counts"])

    def titles(self, collection: str, lang: str) -> Int8Array:
        """The titles of a collection's documents of one language as queries, (documents, dim)."""
        file = self.folder / f"{collection}.{lang}.titles.npy"
        if not file.is_file():
            queries = [
                Document(page.doc_id, lang, page.title or page.text[:200]) for page in documents(collection, lang)
            ]
            np.save(file, int8_rows(self.open("sentences").encode_queries(queries)))
            print(file.name, len(queries), flush=True)
        titles: Int8Array = np.load(file)
        return titles


def main() -> None:
    """Encode what is not stored yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--collections", default="ntrex,ddtp,lohelp")
    parser.add_argument("--encoder", default=DEFAULT, help="the lower one, a name or an exported folder")
    parser.add_argument("--checkpoint", help="Hugging Face folder that it was exported from, for longformer")
    parser.add_argument("--methods", default=",".join(METHODS), help="more: longformer")
    arguments = parser.parse_args()
    vectors = Vectors.of(arguments.folder, arguments.encoder, arguments.checkpoint)

    for collection in arguments.collections.split(","):
        for lang in LANGUAGES:
            if collection != "ntrex":
                vectors.titles(collection, lang)
            for method in arguments.methods.split(","):
                vectors.passages(collection, lang, method)


if __name__ == "__main__":
    main()
