"""The detection model is decompressed once; from the cache it gives the same probabilities."""

import copy
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from indexer.text import detection_model as module
from indexer.text.detection_model import detection_model

TEXTS = ["Hochwasser an der Elbe", "the river", "ELBE", "наводнение", "エルベ川の洪水", "Ovo je tekst", "12:30", ""]


@pytest.fixture(scope="module")
def compressed() -> Any:
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the cache has the decompressed model; the process has not loaded it yet."""
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path))
    module._model.cache_clear()
    yield tmp_path / f"language-detection-{version('py3langid')}"
    module._model.cache_clear()


def loaded(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, bool]:
    """The model as another process loads it, and whether it was decompressed."""
    decompress = Mock(wraps=LanguageIdentifier.from_model_file)
    with monkeypatch.context() as patch:
        patch.setattr(LanguageIdentifier, "from_model_file", decompress)
        module._model.cache_clear()
        return detection_model(), decompress.called


def test_the_model_of_the_cache_gives_the_same_probabilities(
    folder: Path, compressed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert loaded(monkeypatch)[1]
    mapped, decompressed = loaded(monkeypatch)
    assert not decompressed
    assert mapped.labels == compressed.labels
    few, expected = copy.copy(mapped), copy.copy(compressed)
    few.set_languages(["de", "en", "sr", "ja"])
    expected.set_languages(["de", "en", "sr", "ja"])
    for text in TEXTS:
        assert mapped.rank(text) == compressed.rank(text)
        assert few.rank(text) == expected.rank(text)
    assert len(few.rank("the river")) == 4


def shorten(folder: Path) -> None:
    os.truncate(folder / "next.npy", 1000)


def empty(folder: Path) -> None:
    os.truncate(folder / "next.npy", 0)


def of_another_model(folder: Path) -> None:
    about = folder / "about.json"
    about.write_text(about.read_text().replace('"size": ', '"size": 1'))


def no_object(folder: Path) -> None:
    (folder / "about.json").write_text("[]")


@pytest.mark.parametrize("damage", [shorten, empty, of_another_model, no_object])
def test_a_damaged_or_older_cache_is_made_again(folder: Path, damage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded(monkeypatch)
    damage(folder)
    assert loaded(monkeypatch)[1]
    assert not loaded(monkeypatch)[1]


def test_without_a_cache_the_model_is_decompressed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.parent.rmdir()
    folder.parent.write_text("a file")
    for _ in range(2):
        model, decompressed = loaded(monkeypatch)
        assert decompressed
        assert model.rank("Hochwasser an der Elbe")[0][0] == "de"


def test_languages_of_labels_need_no_langcodes() -> None:
    """A single search would wait for it."""
    code = (
        "import sys; from indexer.text.language_detection import Detector\n"
        "Detector(['de', 'nb']).detect('ein Haus am See'); print('langcodes' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "False\n"
