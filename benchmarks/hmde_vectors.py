"""Documents of the open collections and what the baselines of HMDE make of them, encoded once and kept in a folder.

Sentences here are as long as the model takes (method *sentences*); ``dragoman train hmde`` and method *hmde* cut them
at 128 tokens.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks import harness
from benchmarks.harness import LANGUAGES
from encoders.batches import encode_in_batches
from encoders.console import Console
from encoders.document import Document, Encoder, Int8Array, int8_rows
from encoders.hmde.triples import held_out
from onnx_export.hmde.settings import LONGFORMER
from onnx_export.models import DEFAULT
from query.reproduce.hmde_methods import open_method

METHODS = ("first", "segments", "sentences")
BASELINES = (*METHODS, LONGFORMER)
SPLIT = 2023
"""Seed of the halves: another one than a training's, which draws its validation concepts by the same hash."""
_TOGETHER = 64


@dataclass(frozen=True)
class Kept:
    """Passages of some documents, one after another.

    Attributes:
        vectors: (passages, dim) int8.
        offsets: (passages, 2) characters.
        counts: (documents,) passages of each.
    """

    vectors: Int8Array
    offsets: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int64]

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """Where each document begins, and where the last one ends."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.counts)])


def documents(collection: str, lang: str) -> list[Document]:
    """A collection's documents of one language."""
    return harness.documents(harness.read(collection, lang), lang)


def seen(document: Document) -> bool:
    """Whether a document is of the half of the concepts that is trained on."""
    return held_out(str(document.fields["concept"]), 0.5, SPLIT)


@dataclass(frozen=True)
class Vectors:
    """What one lower encoder makes of the collections.

    Attributes:
        folder: where it is kept; models and measurements stand there, too.
        encoder: the lower one, a name or an exported folder.
        checkpoint: Hugging Face folder that it was exported from, for *longformer*; none of the default's is needed.
    """

    folder: Path
    encoder: str = DEFAULT
    checkpoint: str | None = None

    @classmethod
    def of(cls, folder: Path, encoder: str, checkpoint: str | None = None) -> Vectors:
        """The default encoder's in the folder itself, another's in a folder of its name inside."""
        return cls(folder if encoder == DEFAULT else folder / Path(encoder).name, encoder, checkpoint)

    def open(self, method: str) -> Encoder:
        """The encoder by a method."""
        reference = self.checkpoint or self.encoder if method == LONGFORMER else self.encoder
        return open_method(reference, method, "cpu", Console(quiet=True))

    def passages(self, collection: str, lang: str, method: str) -> Kept:
        """What a method makes of a collection's documents of one language.

        Of *sentences* of all, which teach too; of other methods of the unseen half. *ntrex* is all unseen.
        """
        file = self.folder / f"{collection}.{lang}.{method}.npz"
        if not file.is_file():
            encoder = self.open(method)
            asked = [
                one
                for one in documents(collection, lang)
                if method == "sentences" or collection == "ntrex" or not seen(one)
            ]
            found = [
                passages
                for _, encoded in encode_in_batches(encoder, asked, _TOGETHER, lambda _: None)
                for passages in encoded.passages
            ]
            np.savez(
                file.with_suffix(".part.npz"),
                vectors=np.concatenate([one.vectors for one in found]),
                offsets=np.concatenate([one.offsets for one in found]),
                counts=np.array([len(one.vectors) for one in found], dtype=np.int64),
            )
            file.with_suffix(".part.npz").replace(file)
            print(file.name, len(asked), flush=True)
        with np.load(file) as kept:
            return Kept(kept["vectors"], kept["offsets"], kept["counts"])

    def titles(self, collection: str, lang: str) -> Int8Array:
        """The titles of a collection's documents of one language as queries, (documents, dim)."""
        file = self.folder / f"{collection}.{lang}.titles.npy"
        if not file.is_file():
            asked = [Document(one.doc_id, lang, one.title or one.text[:200]) for one in documents(collection, lang)]
            np.save(file, int8_rows(self.open("sentences").encode_queries(asked)))
            print(file.name, len(asked), flush=True)
        found: Int8Array = np.load(file)
        return found


def main() -> None:
    """Encode what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--collections", default="ntrex,ddtp,lohelp")
    parser.add_argument("--encoder", default=DEFAULT, help="the lower one, a name or an exported folder")
    parser.add_argument("--checkpoint", help="Hugging Face folder that it was exported from, for longformer")
    parser.add_argument("--methods", default=",".join(METHODS), help="more: longformer")
    arguments = parser.parse_args()
    vectors = Vectors.of(arguments.folder, arguments.encoder, arguments.checkpoint)
    vectors.folder.mkdir(parents=True, exist_ok=True)
    for collection in arguments.collections.split(","):
        for lang in LANGUAGES:
            if collection != "ntrex":
                vectors.titles(collection, lang)
            for method in arguments.methods.split(","):
                vectors.passages(collection, lang, method)


if __name__ == "__main__":
    main()
