"""Several encoders as one: made-up Cr5 models, of which one lacks a language that the other knows."""

from pathlib import Path

import numpy as np
import pytest

from encoders.console import Console
from encoders.cr5.cr5_settings import Cr5Settings
from encoders.cr5.estimator import Cr5
from encoders.document import Document
from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder
from encoders.methods.combined_encoder import SEPARATOR, Combined, nearest_spans
from encoders.methods.method_registry import open_encoder
from onnx_export.cr5_folder import publish
from onnx_export.models import absolute, open_named
from tests.encoders.cr5.conftest import corpus

FRENCH = Document("2", "fr", "fr3x1 fr3x2 fr3x0")
GERMAN = Document("1", "de", " ".join(f"de1x{number % 5}" for number in range(200)), title="de1x4")
NOTHING = Document("3", "ja", "hana")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[ModelFolder]:
    """Of three languages, and of two of these."""
    place = tmp_path_factory.mktemp("models")
    wide = Cr5(Cr5Settings(dimensions=8, ridge=0.3)).fit(corpus(["de", "en", "fr"]))
    narrow = Cr5(Cr5Settings(dimensions=6, ridge=0.3)).fit(corpus(["de", "en"], seed=1))
    return [publish(one.model_, place / name, "fp32", {}) for one, name in ((wide, "wide"), (narrow, "narrow"))]


def test_vectors_are_those_of_both_with_equal_weight(folders: list[ModelFolder]) -> None:
    parts = [open_encoder(folder) for folder in folders]
    both = Combined(parts)
    expected = np.concatenate([part.encode_queries([GERMAN]) for part in parts], axis=1) / np.sqrt(2)
    np.testing.assert_allclose(both.encode_queries([GERMAN]), expected, atol=1e-6)
    np.testing.assert_allclose(both.encode_documents([GERMAN]).vectors, expected, atol=1e-6)
    assert both.spec.dim == 14
    assert both.spec.widths == (8, 6)
    assert both.spec.languages == ("de", "en", "fr")


def test_what_one_part_does_not_know_is_known_by_the_other_and_said(folders: list[ModelFolder]) -> None:
    encoded = Combined([open_encoder(folder) for folder in folders]).encode_documents([GERMAN, FRENCH, NOTHING])
    assert encoded.known.tolist() == [[True, True], [True, False], [False, False]]
    assert not encoded.vectors[1, 8:].any()
    np.testing.assert_allclose(np.linalg.norm(encoded.vectors, axis=1), [1, 1, 0], atol=1e-6)
    assert not encoded.passages[1].vectors[:, 8:].any()


def test_passages_are_the_first_encoders_with_the_others_vectors_beside(folders: list[ModelFolder]) -> None:
    parts = [open_encoder(folder) for folder in folders]
    (both,) = Combined(parts).encode_documents([GERMAN]).passages
    first, second = (part.encode_documents([GERMAN]).passages[0] for part in parts)
    assert len(both.offsets) > 1
    np.testing.assert_array_equal(both.offsets, first.offsets)
    expected = np.concatenate([first.unit_vectors(), second.unit_vectors()], axis=1) / np.sqrt(2)
    assert (both.unit_vectors() * expected).sum(axis=1).min() > 0.999


def test_where_the_first_has_no_passages_the_next_ones_are_taken(folders: list[ModelFolder]) -> None:
    wide, narrow = (open_encoder(folder) for folder in folders)
    (passages,) = Combined([narrow, wide]).encode_documents([FRENCH]).passages
    assert len(passages.offsets) == 1
    assert not passages.vectors[0, :6].any()
    assert passages.vectors[0, 6:].any()


def test_spans_meet_where_they_share_most() -> None:
    spans = np.array([(0, 10), (8, 20), (40, 50)], np.int32)
    others = np.array([(0, 4), (4, 12), (12, 30)], np.int32)
    assert nearest_spans(spans, others) == [1, 2, None]
    assert nearest_spans(spans, others[:0]) == [None, None, None]


def test_a_combination_is_opened_by_its_name_from_anywhere(
    folders: list[ModelFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folders[0].path.parent)
    name = absolute(SEPARATOR.join(("wide", "narrow")))
    monkeypatch.chdir("/")
    opened = open_named(name, None, Console(quiet=True))
    assert opened.spec.method == "cr5 + cr5"
    assert open_named(name, opened.spec.method, Console(quiet=True)).spec == opened.spec
    assert open_named(str(folders[0].path), None, Console(quiet=True)).spec.widths == ()


@pytest.mark.parametrize(
    ("names", "method", "said"),
    [
        (("wide", "wide"), None, "the same vectors twice"),
        (("wide", "narrow"), "cr5", r"is 2 encoders, and cr5 \(--method, or else the collection's\) is 1 method;"),
        (("wide", "missing"), None, "there is no encoder"),
    ],
)
def test_what_is_no_combination_is_one_sentence(
    folders: list[ModelFolder], names: tuple[str, str], method: str | None, said: str
) -> None:
    place: Path = folders[0].path.parent
    with pytest.raises(BadInput, match=said):
        open_named(SEPARATOR.join(str(place / name) for name in names), method, Console(quiet=True))
