"""Language detection among a collection's languages, by a model that is decompressed once."""

import copy
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from indexer.text import detection_model as module
from indexer.text.detection_model import detection_model
from indexer.text.language_detection import SURE, Detection, Detector
from trials import ROOT

TEXTS = ["Hochwasser an der Elbe", "the river", "ELBE", "наводнение", "エルベ川の洪水", "Ovo je tekst", "12:30", ""]


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector({"de", "en", "fr", "nb", "ru", "ja", "zh", "zh-Hant", "und"})


@pytest.mark.parametrize(
    ("text", "lang"),
    [
        ("Hochwasser an der Elbe", "de"),
        ("flooding on the river Elbe", "en"),
        ("les inondations de l'Elbe", "fr"),
        ("flom i elven etter regnet", "nb"),
        ("наводнение на Эльбе", "ru"),
        ("エルベ川の洪水", "ja"),
        ("易北河洪水泛滥", "zh"),
        ("易北河洪水氾濫", "zh-Hant"),
        ("図書館", "ja"),
        ("图书馆", "zh"),
        ("圖書館", "zh-Hant"),
    ],
)
def test_short_queries_are_detected_and_chinese_characters_alone_by_what_each_writes(
    detector: Detector, text: str, lang: str
) -> None:
    assert detector.detect(text).lang == lang


@pytest.mark.parametrize("text", ["", " \n", "12:30 — 45 %", "🙂 !?", "١٢٣"])
def test_a_text_without_letters_is_undetermined(detector: Detector, text: str) -> None:
    assert detector.detect(text) == Detection("und", 0.0)


def test_the_answer_is_always_one_of_the_languages_given(detector: Detector) -> None:
    assert detector.detect("talvella järvi jäätyy ja lumi peittää metsän").lang in (detector.languages or ())


def test_a_language_the_model_does_not_know_breaks_nothing_and_makes_the_others_less_sure() -> None:
    with_klingon = Detector({"de", "tlh"})
    assert with_klingon.detect("Hochwasser an der Elbe nach dem langen Regen").lang == "de"
    assert with_klingon.detect("tlhIngan maH taHjaj").confidence < SURE
    assert Detector({"tlh", "qya"}).detect("tlhIngan maH") == Detection("und", 0.0)


def test_without_languages_all_that_the_model_knows_are_candidates() -> None:
    anything = Detector()
    assert anything.detect("Viime talvena järvi jäätyi jo marraskuussa.").lang == "fi"
    assert anything.detect("Das Wasser ist in der Nacht gestiegen.").lang == "de"
    assert anything.detect("Vannet steg i løpet av natten, og ingen visste hvorfor.").lang == "nb"


def test_a_long_text_is_detected_by_its_beginning(detector: Detector) -> None:
    found = detector.detect("Die Katze sitzt auf der Mauer. " * 200_000)
    assert found.lang == "de"
    assert found.confidence >= SURE


@pytest.mark.parametrize(
    ("languages", "text", "found", "unneeded"),
    [
        ("{'de'}", "flooding on the river", "de", "py3langid"),
        ("{'und'}", "flooding", "und", "py3langid"),
        ("{'de', 'nb'}", "ein Haus am See", "de", "langcodes"),
    ],
)
def test_a_single_search_waits_for_no_module_that_it_does_without(
    languages: str, text: str, found: str, unneeded: str
) -> None:
    program = (
        "import sys; from indexer.text.language_detection import Detector\n"
        f"lang = Detector({languages}).detect({text!r}).lang\n"
        f"print(lang, any(name.startswith({unneeded!r}) for name in sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout == f"{found} False\n"


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


def test_the_model_of_the_cache_gives_the_same_probabilities(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compressed = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
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


def of_another_model(folder: Path) -> None:
    about = folder / "about.json"
    about.write_text(about.read_text().replace('"size": ', '"size": 1'))


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: os.truncate(folder / "next.npy", 1000),
        lambda folder: os.truncate(folder / "next.npy", 0),
        lambda folder: (folder / "about.json").write_text("[]"),
        of_another_model,
    ],
)
def test_a_damaged_or_older_cache_is_made_again(
    folder: Path, damage: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
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
