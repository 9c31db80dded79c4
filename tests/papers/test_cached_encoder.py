"""Vectors that an encoder made before are read from the home."""

import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from encoders.console import Console
from encoders.document import Document, Encoded, EncoderSpec, FloatArray, Passages, int8_rows, unit_rows
from papers.cached_encoder import FOLDER, CachedEncoder

TEXTS = [Document("1", "en", "rivers and lakes", "water"), Document("2", "de", ""), Document("3", "en", "lakes")]


class CountingEncoder:
    """Makes vectors of the texts' lengths; a document has a passage for each word."""

    def __init__(self, build: str = "build") -> None:
        self.spec = EncoderSpec("toy", "first", 3, (), "model", build)
        self.calls = 0

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        self.calls += 1
        vectors = np.array([[len(text.text), len(text.title), 1] for text in documents], dtype=np.float32)
        counts = [len(text.text.split()) for text in documents]
        passages = [
            Passages(
                int8_rows(np.repeat(row[None], count, axis=0)), np.arange(2 * count, dtype=np.int32).reshape(-1, 2)
            )
            for row, count in zip(vectors, counts, strict=True)
        ]
        return Encoded(unit_rows(vectors), passages, np.array(counts)[:, None] > 0)

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        return -self.encode_documents(queries).vectors


def cached(encoder: CountingEncoder, home: Path) -> CachedEncoder:
    return CachedEncoder(encoder, home, Console(quiet=True))


def assert_same(first: Encoded, second: Encoded) -> None:
    np.testing.assert_array_equal(first.vectors, second.vectors)
    np.testing.assert_array_equal(first.known, second.known)
    for ours, theirs in zip(first.passages, second.passages, strict=True):
        np.testing.assert_array_equal(ours.vectors, theirs.vectors)
        np.testing.assert_array_equal(ours.offsets, theirs.offsets)
        assert (ours.vectors.dtype.name, ours.offsets.dtype.name) == ("int8", "int32")


def test_sentences_vectors_of_any_length_are_encoded_once(tmp_path: Path) -> None:
    encoder, calls = CountingEncoder(), []

    def encode(documents: Sequence[Document]) -> list[FloatArray]:
        calls.append(len(documents))
        return [np.full((len(text.text.split()), 3), 7.5, np.float32) for text in documents]

    first, again = (cached(encoder, tmp_path).sentences(encode, TEXTS) for _ in range(2))
    for rows, read in zip(first, again, strict=True):
        np.testing.assert_array_equal(rows, read)
        assert read.dtype == np.float32
    assert [len(rows) for rows in again] == [3, 0, 1]
    assert calls == [3]


def test_a_second_encoder_of_the_same_build_encodes_nothing_again(tmp_path: Path) -> None:
    first, second = CountingEncoder(), CountingEncoder()
    documents = cached(first, tmp_path).encode_documents(TEXTS)
    folder = tmp_path / FOLDER
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    queries = cached(first, tmp_path).encode_queries(TEXTS)
    assert first.calls == 2
    again = cached(second, tmp_path)
    assert_same(again.encode_documents(TEXTS), documents)
    np.testing.assert_array_equal(again.encode_queries(TEXTS), queries)
    assert (second.calls, again.cached, again.encoded) == (0, 6, 0)


def test_other_texts_and_other_builds_are_encoded(tmp_path: Path) -> None:
    encoder = CountingEncoder()
    cached(encoder, tmp_path).encode_documents(TEXTS)
    last = TEXTS[2]
    for changed in (replace(last, text="fr"), replace(last, title="fr"), replace(last, lang="fr")):
        cached(encoder, tmp_path).encode_documents([*TEXTS[:2], changed])
    assert encoder.calls == 4
    other = CountingEncoder("another build")
    cached(other, tmp_path).encode_documents(TEXTS)
    assert other.calls == 1


@pytest.mark.parametrize("kept", [0, 20, 200, -1])
def test_a_torn_or_damaged_file_is_encoded_again(kept: int, tmp_path: Path) -> None:
    encoder = CountingEncoder()
    documents = cached(encoder, tmp_path).encode_documents(TEXTS)
    (file,) = (tmp_path / FOLDER).iterdir()
    content = bytearray(file.read_bytes())
    if kept < 0:
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    else:
        file.write_bytes(content[:kept])
    assert_same(cached(encoder, tmp_path).encode_documents(TEXTS), documents)
    assert encoder.calls == 2
    assert_same(cached(encoder, tmp_path).encode_documents(TEXTS), documents)
    assert encoder.calls == 2


def test_where_the_home_cannot_be_written_the_vectors_are_given_and_it_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / FOLDER).write_text("a file, no folder")
    encoder = CountingEncoder()
    unwritable = cached(encoder, tmp_path)
    for _ in range(2):
        assert len(unwritable.encode_documents(TEXTS).vectors) == 3
    assert encoder.calls == 2
    assert capsys.readouterr().err.count("can't be written") == 1
