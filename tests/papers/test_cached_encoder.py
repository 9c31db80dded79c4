"""Vectors that an encoder made before are read from the home."""

import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from encoders.console import Console
from encoders.document import Document, Encoded, EncoderSpec, FloatArray, unit_rows
from papers.cached_encoder import FOLDER, CachedEncoder

TEXTS = [Document("1", "en", "rivers and lakes", "water"), Document("2", "de", ""), Document("3", "en", "lakes")]


class CountingEncoder:
    """Makes vectors of the texts' lengths."""

    def __init__(self, build: str = "build") -> None:
        self.spec = EncoderSpec("toy", "first", 3, (), "model", build)
        self.calls = 0

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        self.calls += 1
        vectors = np.array([[len(text.text), len(text.title), 1] for text in documents], dtype=np.float32)
        return Encoded(unit_rows(vectors), (), vectors[:, :1] > 0)

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        return -self.encode_documents(queries).vectors


def cached(encoder: CountingEncoder, home: Path) -> CachedEncoder:
    return CachedEncoder(encoder, home, Console(quiet=True))


def assert_same(first: Encoded, second: Encoded) -> None:
    np.testing.assert_array_equal(first.vectors, second.vectors)
    np.testing.assert_array_equal(first.known, second.known)
    assert first.vectors.dtype == second.vectors.dtype == np.float32


def test_sentences_vectors_of_any_length_are_encoded_once_for_each_kind(tmp_path: Path) -> None:
    calls: list[int] = []

    def encode(documents: Sequence[Document]) -> list[FloatArray]:
        calls.append(len(documents))
        return [np.full((len(text.text.split()), 3), 7.5, np.float32) for text in documents]

    kinds = ("unit", "unit", "own lengths")
    first, again, _ = (cached(CountingEncoder(), tmp_path).sentences(kind, encode, TEXTS) for kind in kinds)
    for rows, read in zip(first, again, strict=True):
        np.testing.assert_array_equal(rows, read)
        assert read.dtype == np.float32
    assert ([len(rows) for rows in again], calls) == ([3, 0, 1], [3, 3])


def test_the_same_texts_are_encoded_once_and_other_texts_or_builds_anew(tmp_path: Path) -> None:
    first, second, other = CountingEncoder(), CountingEncoder(), CountingEncoder("another build")
    documents = cached(first, tmp_path).encode_documents(TEXTS)
    folder = tmp_path / FOLDER
    (file,) = folder.iterdir()
    assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(folder.stat().st_mode)) == (0o600, 0o700)
    queries = cached(first, tmp_path).encode_queries(TEXTS)
    again = cached(second, tmp_path)
    assert_same(again.encode_documents(TEXTS), documents)
    np.testing.assert_array_equal(again.encode_queries(TEXTS), queries)
    assert (first.calls, second.calls, again.cached, again.encoded) == (2, 0, 6, 0)
    for changed in (replace(TEXTS[2], text="fr"), replace(TEXTS[2], title="fr"), replace(TEXTS[2], lang="fr")):
        cached(second, tmp_path).encode_documents([*TEXTS[:2], changed])
    cached(other, tmp_path).encode_documents(TEXTS)
    assert (second.calls, other.calls) == (3, 1)


@pytest.mark.parametrize("kept", [0, 20, 200, -1])
def test_a_torn_or_damaged_file_is_encoded_again(kept: int, tmp_path: Path) -> None:
    encoder = CountingEncoder()
    documents = cached(encoder, tmp_path).encode_documents(TEXTS)
    (file,) = (tmp_path / FOLDER).iterdir()
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content if kept < 0 else file.read_bytes()[:kept])
    for _ in range(2):
        assert_same(cached(encoder, tmp_path).encode_documents(TEXTS), documents)
        assert encoder.calls == 2
