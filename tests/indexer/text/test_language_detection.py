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

from indexer.text import language_detection as module
from indexer.text.language_detection import SURE, Detection, Detector, detection_model
from tests.conftest import Patch
from trials import ROOT

TEXTS = ["Hochwasser an der Elbe", "the river", "ELBE", "наводнение", "エルベ川の洪水", "Ovo je tekst", "12:30", ""]


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector({"de", "en", "fr", "nb", "ru", "ja", "zh", "zh-Hant", "und"})


QUERIES = [
    ("Hochwasser an der Elbe", "de"), ("flooding on the river Elbe", "en"), ("les inondations de l'Elbe", "fr"),
    ("flom i elven etter regnet", "nb"), ("наводнение на Эльбе", "ru"), ("エルベ川の洪水", "ja"),
    ("易北河洪水泛滥", "zh"), ("易北河洪水氾濫", "zh-Hant"), ("図書館", "ja"), ("图书馆", "zh"), ("圖書館", "zh-Hant"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "lang"), QUERIES)
def test_short_queries_and_chinese_characters_are_detected(detector: Detector, text: str, lang: str) -> None:
    assert detector.detect(text).lang == lang


def test_other_texts_are_taken_for_a_given_language_by_their_beginning_and_signs_for_none(detector: Detector) -> None:
    assert detector.detect("talvella järvi jäätyy ja lumi peittää metsän").lang in (detector.languages or ())
    found = detector.detect("Die Katze sitzt auf der Mauer. " * 200_000)
    assert (found.lang, found.confidence >= SURE) == ("de", True)
    for text in ("", " \n", "12:30 — 45 %", "🙂 !?", "١٢٣"):
        assert detector.detect(text) == Detection("und", 0.0)


def test_unknown_languages_make_others_less_sure_and_without_languages_all_known_are_candidates() -> None:
    with_klingon, anything = Detector({"de", "tlh"}), Detector()
    assert with_klingon.detect("Hochwasser an der Elbe nach dem langen Regen").lang == "de"
    assert with_klingon.detect("tlhIngan maH taHjaj").confidence < SURE
    assert Detector({"tlh", "qya"}).detect("tlhIngan maH") == Detection("und", 0.0)
    assert anything.detect("Viime talvena järvi jäätyi jo marraskuussa.").lang == "fi"
    assert anything.detect("Das Wasser ist in der Nacht gestiegen.").lang == "de"
    assert anything.detect("Vannet steg i løpet av natten, og ingen visste hvorfor.").lang == "nb"


@pytest.mark.parametrize(
    ("languages", "text", "found", "unneeded"),
    [
        ("{'de'}", "flooding on the river", "de", "py3langid"),
        ("{'und'}", "flooding", "und", "py3langid"),
        ("{'de', 'nb'}", "ein Haus am See", "de", "langcodes"),
    ],
)
def test_a_single_search_imports_only_what_it_needs(languages: str, text: str, found: str, unneeded: str) -> None:
    program = (
        "import sys; from indexer.text.language_detection import Detector\n"
        f"lang = Detector({languages}).detect({text!r}).lang\n"
        f"print(lang, any(name.startswith({unneeded!r}) for name in sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout == f"{found} False\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: Patch) -> Iterator[Path]:
    """Where the cache has the decompressed model; the process has not loaded it yet."""
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path))
    module._model.cache_clear()
    yield tmp_path / f"language-detection-{version('py3langid')}"
    module._model.cache_clear()


def loaded(monkeypatch: Patch) -> tuple[Any, bool]:
    """The model as another process loads it, and whether it was decompressed."""
    decompress = Mock(wraps=LanguageIdentifier.from_model_file)
    with monkeypatch.context() as patch:
        patch.setattr(LanguageIdentifier, "from_model_file", decompress)
        module._model.cache_clear()
        return detection_model(), decompress.called


def test_the_model_of_the_cache_gives_the_same_probabilities(folder: Path, monkeypatch: Patch) -> None:
    compressed = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    assert loaded(monkeypatch)[1]
    mapped, decompressed = loaded(monkeypatch)
    assert not decompressed
    assert mapped.labels == compressed.labels
    few, expected = copy.copy(mapped), copy.copy(compressed)
    for one in (few, expected):
        one.set_languages(["de", "en", "sr", "ja"])
    for text in TEXTS:
        assert (mapped.rank(text), few.rank(text)) == (compressed.rank(text), expected.rank(text))
    assert len(few.rank("the river")) == 4


@pytest.mark.parametrize(
    "damage",
    [
        *(lambda folder, size=size: os.truncate(folder / "next.npy", size) for size in (1000, 0)),
        lambda folder: (folder / "about.json").write_text("[]"),
        lambda folder: (about := folder / "about.json").write_text(about.read_text().replace('"size": ', '"size": 1')),
    ],
)
def test_damaged_caches_are_mended(folder: Path, damage: Callable[[Path], object], monkeypatch: Patch) -> None:
    loaded(monkeypatch)
    damage(folder)
    assert loaded(monkeypatch)[1]
    assert not loaded(monkeypatch)[1]


def test_without_a_cache_the_model_is_decompressed(folder: Path, monkeypatch: Patch) -> None:
    folder.parent.rmdir()
    folder.parent.write_text("a file")
    for _ in range(2):
        model, decompressed = loaded(monkeypatch)
        assert decompressed
        assert model.rank("Hochwasser an der Elbe")[0][0] == "de"
