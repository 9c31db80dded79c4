"""Texts → vectors by the methods that programs already call: those of sentence-transformers and of fastembed."""

import os
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np

from encoders.console import Console
from encoders.cr5.bags_of_words import BagsOfWords
from encoders.document import Document, FloatArray
from encoders.errors import BadInput
from encoders.languages import UNDETERMINED
from encoders.machine.placement import Device
from encoders.methods.combined_encoder import SEPARATOR
from encoders.printable import HALF_CHARACTER, has_surrogate
from onnx_export.models import DEFAULT, open_named


class TextEncoder:
    """An encoder that sets the prefixes of queries and documents itself.

    The vectors are float32 rows of unit length; zeros for a document without words. They are made by the encoder's
    default method, as ``index`` and a search make those of texts without title and language. A document is read whole;
    the end of a query that is longer than the encoder reads is left out.

    The arguments ``show_progress_bar`` and ``parallel`` are those of the libraries and change nothing: no progress is
    shown, and the encoder uses all cores. Every argument of ``encode`` and ``encode_query`` but the first needs its
    name, as the second of sentence-transformers is the name of a prompt.
    """

    def __init__(self, name: str | os.PathLike[str] = DEFAULT, *, device: Device = "auto") -> None:
        """Load the default encoder, or another by its name or folder.

        Raises:
            BadInput: there is no such encoder, it encodes words and no texts, or the name is of several encoders.
            MissingPart: the device or the default encoder's weights are missing.
        """
        name = os.fspath(name)
        if SEPARATOR in name:
            raise BadInput(f"{name!r} names several encoders; make a TextEncoder of each")
        self._encoder = open_named(name, None, Console(quiet=True), device=device)
        if self._encoder.spec.method == BagsOfWords.method:
            raise BadInput(f"{name!r} encodes words of known languages and no texts; name another encoder")

    @property
    def embedding_size(self) -> int:
        """Width of the vectors."""
        return self._encoder.spec.dim

    def get_sentence_embedding_dimension(self) -> int:
        """Width of the vectors."""
        return self.embedding_size

    def encode(
        self,
        sentences: str | Iterable[str],
        *,
        batch_size: int = 64,
        show_progress_bar: bool | None = None,  # noqa: ARG002 - see the class
        convert_to_numpy: bool = True,
        normalize_embeddings: bool = True,
    ) -> FloatArray:
        """Encode documents to (documents, dim) rows, or one text to (dim,).

        Raises:
            BadInput: ``batch_size`` is below 1, ``convert_to_numpy`` or ``normalize_embeddings`` is false, or a text is
                no string or has half of a surrogate pair.
        """
        _check_result(convert_to_numpy, normalize_embeddings)
        return self._result(self.embed(sentences, batch_size), sentences)

    encode_document = encode

    def encode_query(
        self,
        sentences: str | Iterable[str],
        *,
        batch_size: int = 64,
        show_progress_bar: bool | None = None,  # noqa: ARG002 - see the class
        convert_to_numpy: bool = True,
        normalize_embeddings: bool = True,
    ) -> FloatArray:
        """Encode queries to (queries, dim) rows, or one query to (dim,); each alone, so ``batch_size`` changes nothing.

        Raises BadInput: as ``encode``.
        """
        _check_result(convert_to_numpy, normalize_embeddings)
        _check_batch_size(batch_size)
        return self._result(self.query_embed(sentences), sentences)

    def embed(
        self,
        documents: str | Iterable[str],
        batch_size: int = 64,
        parallel: int | None = None,  # noqa: ARG002 - see the class
    ) -> Iterator[FloatArray]:
        """Encode documents one after the other, each to (dim,); ``batch_size`` documents are encoded at once.

        Raises BadInput: ``batch_size`` is below 1, or a text is no string or has half of a surrogate pair.
        """
        _check_batch_size(batch_size)
        texts = _documents(documents)
        while batch := list(islice(texts, batch_size)):
            yield from self._encoder.encode_documents(batch).vectors

    passage_embed = embed

    def query_embed(self, query: str | Iterable[str]) -> Iterator[FloatArray]:
        """Encode queries one after the other, each to (dim,).

        Raises BadInput: a query is no string or has half of a surrogate pair.
        """
        for text in _documents(query):
            yield self._encoder.encode_queries([text])[0]

    def _result(self, rows: Iterator[FloatArray], sentences: object) -> FloatArray:
        """The row of a single text, else the rows as a matrix."""
        if isinstance(sentences, str):
            return next(rows)
        return np.array(list(rows), dtype=np.float32).reshape(-1, self.embedding_size)


def _check_result(convert_to_numpy: bool, normalize_embeddings: bool) -> None:
    if not convert_to_numpy:
        raise BadInput("the vectors are NumPy's; leave convert_to_numpy out")
    if not normalize_embeddings:
        raise BadInput("the encoder's vectors have unit length; leave normalize_embeddings out")


def _check_batch_size(batch_size: int) -> None:
    if batch_size < 1:
        raise BadInput(f"batch_size is {batch_size}; give 1 or more")


def _documents(texts: object) -> Iterator[Document]:
    """The texts, or one text, as documents. Raises BadInput: a text is no string or has half of a surrogate pair."""
    several: Iterable[object] = texts if isinstance(texts, Iterable) and not isinstance(texts, str) else [texts]
    for number, text in enumerate(several, start=1):
        if not isinstance(text, str):
            raise BadInput(f"text {number} is no string; it is {type(text).__name__}; leave it out or give its text")
        if has_surrogate(text):
            raise BadInput(f"text {number} {HALF_CHARACTER}")
        yield Document("", UNDETERMINED, text)
