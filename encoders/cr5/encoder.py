"""*cr5*: a text is the sum of its words' vectors, in whatever language; no network, no graph."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from encoders.cr5.model import Cr5Model, Table
from encoders.document import (
    Document,
    Encoded,
    EncoderSpec,
    FloatArray,
    Int32Array,
    Passages,
    int8_rows,
    unit_rows,
)
from encoders.errors import BadInput
from encoders.folder import ModelFolder, file_hash
from encoders.text.segmentation import windows
from encoders.text.words import pieces

_PIECE = 42
_WINDOW, _OVERLAP = 3, 1
DATA = "model.onnx.data"
ALIGNMENT = 4096
"""Bytes to whose multiple the scales of an int8 table begin."""


class BagsOfWords:
    """Document encoder of a Cr5 folder; queries go the same way as documents.

    A document is the sum over all of its words, each (1 + ln tf) · idf times its column of Φ. A passage is a window of
    126 words that shares a third with the one before; a window without a known word is none.
    """

    method = "cr5"

    def __init__(self, folder: ModelFolder) -> None:
        """Load the vocabularies; the vectors stay on disk until they are asked for.

        Raises:
            BadInput: the folder is damaged.
        """
        self.model = load_model(folder)
        config = folder.config
        self.spec = EncoderSpec(
            name=config.name,
            method=self.method,
            dim=config.dim,
            languages=config.languages,
            model=config.model_id(self.method, window=_WINDOW * _PIECE, overlap=_OVERLAP * _PIECE),
            build=config.build_id,
        )

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        """Whole documents and their windows; nothing is known of a text in a language that the model lacks."""
        cut = [self._cut(document) for document in documents]
        spans = [windows(len(one.ends) - 1, _WINDOW, _OVERLAP) for one in cut]
        bags = [one.ids for one in cut]
        bags += [
            one.ids[one.ends[start] : one.ends[end]]
            for one, some in zip(cut, spans, strict=True)
            for start, end in some
        ]
        sums = unit_rows(self.model.sums(bags))
        vectors, inside = sums[: len(cut)], sums[len(cut) :]
        passages = []
        at = 0
        for one, some in zip(cut, spans, strict=True):
            own = inside[at : at + len(some)]
            at += len(some)
            kept = np.flatnonzero(own.any(axis=1)).tolist()
            places = [(one.places[some[window][0]], one.places[some[window][1]]) for window in kept]
            passages.append(Passages(int8_rows(own[kept]), np.array(places, np.int32).reshape(-1, 2)))
        known = np.array([[bool(row.any())] for row in vectors], dtype=np.bool_).reshape(-1, 1)
        return Encoded(vectors, passages, known)

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        """Queries → (queries, dim) float32 unit rows; a row of nothing where the model has no word of a query."""
        return self.model.encode(queries)

    def _cut(self, document: Document) -> _Cut:
        lang = self.model.language(document.lang)
        if not lang:
            return _Cut(np.zeros(0, np.int32), [0], [0])
        found = pieces(document.content, document.lang, _PIECE)
        return _Cut(self.model.ids(found.words, lang), found.ends, found.places)


@dataclass(frozen=True)
class _Cut:
    """A document in pieces.

    Attributes:
        ids: rows of its words in the table.
        ends: where pieces begin and end among these.
        places: where they do in characters.
    """

    ids: Int32Array
    ends: Sequence[int]
    places: Sequence[int]


def is_cr5(folder: ModelFolder) -> bool:
    """Whether a folder holds a Cr5 model."""
    return folder.config.pooling == "sum"


def load_model(folder: ModelFolder) -> Cr5Model:
    """The model in a folder; its table is mapped from the graph's own file, and read where it is used.

    Raises:
        BadInput: it is damaged.
    """
    train = "train it again: dragoman train cr5 SOURCE… -o FOLDER"
    try:
        vocabularies = json.loads(folder.tokenizer.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"{folder.tokenizer} can't be read ({error}); {train}") from error
    if file_hash(folder.tokenizer) != folder.config.tokenizer or not _are_words(vocabularies):
        raise BadInput(f"{folder.tokenizer} is not the one that the model was made with; {train}")
    rows, dim = 1 + sum(map(len, vocabularies.values())), folder.config.dim
    file = folder.path / DATA
    int8 = folder.config.precision == "int8"
    start = scales_start(rows, dim)
    size = start + 4 * rows if int8 else 4 * rows * dim
    if not file.is_file() or file.stat().st_size != size:
        raise BadInput(f"{file} is not there or not of {size:,} bytes; {train}")
    table = np.memmap(file, np.int8 if int8 else np.float32, "r", shape=(rows, dim))
    scales = np.memmap(file, np.float32, "r", offset=start, shape=(rows,)) if int8 else None
    return Cr5Model(vocabularies, Table(table, scales), dim)


def _are_words(vocabularies: object) -> bool:
    """Whether it is lists of words by language."""
    return isinstance(vocabularies, dict) and all(
        isinstance(words, list) and all(isinstance(word, str) for word in words) for words in vocabularies.values()
    )


def scales_start(rows: int, dim: int) -> int:
    """Byte of the file at which the scales of an int8 table begin."""
    return -(-rows * dim // ALIGNMENT) * ALIGNMENT
