"""An encoder whose vectors are cached in files, so that a table that is computed again encodes nothing again."""

import hashlib
import io
import json
import tempfile
from collections.abc import Callable, Iterable, Sequence, Sized
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from encoders.console import Console
from encoders.document import Document, Encoded, Encoder, EncoderSpec, FloatArray, Passages, encode_in_batches
from encoders.folder.whole_folder import make_private_folder
from encoders.phrases import counted
from query import __version__

FOLDER = "vectors"
"""Name of the cache's folder in the home; it may be deleted at any time."""
SentenceVectors = Callable[[Sequence[Document]], Sequence[FloatArray]]
"""Documents → the (sentences, dim) vectors of each."""
_DIGEST = 32
_Arrays = dict[str, npt.NDArray[Any]]


class CachedEncoder:
    """Gives the vectors that an encoder made of the same texts before, and caches those that it makes.

    A file, of texts that were encoded together, is named by the SHA-256 of this program's version, the ids of model and
    build, and the texts. It begins with the SHA-256 of its content: what is damaged or torn is encoded again.
    """

    def __init__(self, encoder: Encoder, home: Path, console: Console) -> None:
        """Take the encoder and the home; the console warns if the home can't be written."""
        self.spec: EncoderSpec = encoder.spec
        self.encoded = self.cached = 0  # texts that were encoded, and texts whose vectors were in the cache at first
        self._encoder, self._folder, self._console = encoder, home / FOLDER, console
        self._writable = True
        self._counted: set[str] = set()

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        """Vectors of documents that are encoded together; passages, which no table shows, are left out."""

        def make() -> _Arrays:
            encoded = self._encoder.encode_documents(documents)
            return {"vectors": encoded.vectors, "known": encoded.known}

        arrays = self._arrays("documents", documents, make)
        none = Passages(np.zeros((0, self.spec.dim), np.int8), np.zeros((0, 2), np.int32))
        return Encoded(arrays["vectors"], [none] * len(documents), arrays["known"])

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        """(queries, dim) vectors of queries that are encoded together."""
        return self._arrays("queries", queries, lambda: {"vectors": self._encoder.encode_queries(queries)})["vectors"]

    def sentences(self, kind: str, encode: SentenceVectors, documents: Sequence[Document]) -> Sequence[FloatArray]:
        """The (sentences, dim) vectors of each of some documents, by a function of this encoder; ``kind`` names it."""

        def make() -> _Arrays:
            vectors = encode(documents)
            return {"vectors": np.concatenate(vectors), "ends": np.cumsum([len(rows) for rows in vectors])}

        arrays = self._arrays(f"sentences, {kind}", documents, make)
        return np.split(arrays["vectors"], arrays["ends"][:-1])

    def say_cached(self) -> None:
        """Say how many texts' vectors came from the cache; nothing if none did."""
        if self.cached:
            self._console.say(
                f"The vectors of {self.cached:,} of {counted(self.cached + self.encoded, 'text')} were cached; to "
                f"encode all again, delete {self._folder}"
            )

    def _arrays(self, kind: str, texts: Sequence[Document], make: Callable[[], _Arrays]) -> _Arrays:
        """The arrays of some texts, from their file; they are made if it is missing or damaged."""
        contents = [(text.lang, text.title, text.text) for text in texts]
        key = json.dumps([__version__, kind, self.spec.model, self.spec.build, contents])
        file = self._folder / f"{hashlib.sha256(key.encode()).hexdigest()}.npz"
        try:
            content = file.read_bytes()
        except OSError:
            content = b""
        is_sound = content[:_DIGEST] == hashlib.sha256(content[_DIGEST:]).digest()
        if file.name not in self._counted:  # texts that a table reads twice count once
            self._counted.add(file.name)
            self.cached += len(texts) if is_sound else 0
            self.encoded += 0 if is_sound else len(texts)
        if is_sound:
            with np.load(io.BytesIO(content[_DIGEST:]), allow_pickle=False) as arrays:
                return dict(arrays)
        made = make()
        if self._writable:
            self._write(file, made)
        return made

    def _write(self, file: Path, arrays: _Arrays) -> None:
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **arrays)
        try:
            make_private_folder(self._folder)
            with tempfile.TemporaryDirectory(dir=self._folder) as folder:
                temporary = Path(folder) / file.name
                temporary.touch(0o600)
                temporary.write_bytes(hashlib.sha256(buffer.getvalue()).digest() + buffer.getvalue())
                temporary.replace(file)
        except OSError as error:
            self._writable = False
            self._console.warn(
                f"{self._folder} can't be written ({error.strerror}), so that the same command will encode again; make "
                "room there, or name another --home"
            )


def vectors_by_id(
    title: str, documents: Iterable[Document], encoder: Encoder, batch_size: int, console: Console
) -> dict[str, FloatArray]:
    """Encode documents as they are read; returns (dim,) unit vectors by id, of equal ids the last document's."""
    total = len(documents) if isinstance(documents, Sized) else None
    vectors: dict[str, FloatArray] = {}
    with console.progress(title, total, "documents") as progress:
        for batch, encoded in encode_in_batches(encoder, documents, batch_size, progress):
            vectors.update(zip((document.doc_id for document in batch), encoded.vectors, strict=True))
    return vectors
