"""*cr5*: a text's vector is the sum of its words' vectors, in any language, without a neural network or a graph."""

import json
from collections.abc import Sequence

import numpy as np

from encoders.cr5.cr5_model import Cr5Model, Table
from encoders.document import Document, Encoded, FloatArray, Int32Array, Passages, int8_rows, unit_rows
from encoders.errors import BadInput
from encoders.folder.model_cache import file_hash
from encoders.folder.model_folder import ModelFolder
from encoders.text.segmentation import windows
from encoders.text.words import Pieces, pieces

_PIECE = 42
_WINDOW, _OVERLAP = 3, 1
DATA = "model.onnx.data"
ALIGNMENT = 4096
"""The scales of an int8 table begin at a multiple of this number of bytes."""


class BagsOfWords:
    """Document encoder of a Cr5 folder; queries are encoded like documents.

    A document is the sum over its words, each (1 + ln tf) · idf times the word's column of Φ. A passage is a window of
    126 words that shares a third with the window before; a window without a known word is left out.
    """

    method = "cr5"

    def __init__(self, folder: ModelFolder) -> None:
        """Load the vocabularies; word vectors are read from disk when used. Raises BadInput: the folder is damaged."""
        self.model = load_model(folder)
        self.spec = folder.config.spec(self.method, window=_WINDOW * _PIECE, overlap=_OVERLAP * _PIECE)

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        """Encode documents, their windows and titles; a text in a language that the model lacks is unknown."""
        cut = [self._cut(document) for document in documents]
        spans = [windows(len(text.ends) - 1, _WINDOW, _OVERLAP) for _, text in cut]
        bags = [ids for ids, _ in cut]
        bags += [
            ids[text.ends[start] : text.ends[end]]
            for (ids, text), text_spans in zip(cut, spans, strict=True)
            for start, end in text_spans
        ]
        sums = unit_rows(self.model.sums(bags))
        vectors, window_vectors = sums[: len(cut)], sums[len(cut) :]
        titles = self.model.encode([Document(document.doc_id, document.lang, document.title) for document in documents])
        passages = []
        first = 0
        for document, title, (_, text), text_spans in zip(documents, titles, cut, spans, strict=True):
            rows = window_vectors[first : first + len(text_spans)]
            first += len(text_spans)
            known_windows = np.flatnonzero(rows.any(axis=1)).tolist()
            offsets = [
                (text.places[text_spans[window][0]], text.places[text_spans[window][1]]) for window in known_windows
            ]
            rows = rows[known_windows]
            if len(rows) and title.any() and document.text.strip():
                rows = np.concatenate([rows, title[None]])
                offsets.append((0, len(document.title)))
            passages.append(Passages(int8_rows(rows), np.array(offsets, np.int32).reshape(-1, 2)))
        known = np.array([[bool(row.any())] for row in vectors], dtype=np.bool_).reshape(-1, 1)
        return Encoded(vectors, passages, known)

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        """Queries → (queries, dim) float32 unit rows; a zero row where the model has no word of a query."""
        return self.model.encode(queries)

    def _cut(self, document: Document) -> tuple[Int32Array, Pieces]:
        """A document's pieces, and the rows of their words in the table; none in a language that the model lacks."""
        lang = self.model.language(document.lang)
        cut = pieces(document.content if lang else "", document.lang, _PIECE)
        return self.model.ids(cut.words, lang) if lang else np.zeros(0, np.int32), cut


def is_cr5(folder: ModelFolder) -> bool:
    """Whether a folder holds a Cr5 model."""
    return folder.config.pooling == "sum"


def load_model(folder: ModelFolder) -> Cr5Model:
    """Load a folder's model; its table is memory-mapped. Raises BadInput: the folder is damaged."""
    advice = "train it again: dragoman train cr5 SOURCE… -o FOLDER"
    try:
        vocabularies = json.loads(folder.tokenizer.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"{folder.tokenizer} can't be read ({error}); {advice}") from error
    are_words = isinstance(vocabularies, dict) and all(
        isinstance(words, list) and all(isinstance(word, str) for word in words) for words in vocabularies.values()
    )
    if file_hash(folder.tokenizer) != folder.config.tokenizer or not are_words:
        raise BadInput(f"{folder.tokenizer} is not the one that the model was made with; {advice}")
    rows, dim = 1 + sum(map(len, vocabularies.values())), folder.config.dim
    file = folder.path / DATA
    int8 = folder.config.precision == "int8"
    start = scales_start(rows, dim)
    size = start + 4 * rows if int8 else 4 * rows * dim
    if not file.is_file() or file.stat().st_size != size:
        raise BadInput(f"{file} is not there or not of {size:,} bytes; {advice}")
    table = np.memmap(file, np.int8 if int8 else np.float32, "r", shape=(rows, dim))
    scales = np.memmap(file, np.float32, "r", offset=start, shape=(rows,)) if int8 else None
    return Cr5Model(vocabularies, Table(table, scales), dim)


def scales_start(rows: int, dim: int) -> int:
    """Offset in bytes of an int8 table's scales in the data file."""
    return -(-rows * dim // ALIGNMENT) * ALIGNMENT
