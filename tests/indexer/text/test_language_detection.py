"""Language detection among a collection's languages."""

import subprocess
import sys

import pytest

from indexer.text.language_detection import SURE, Detection, Detector
from trials import ROOT


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
    ],
)
def test_short_queries_are_detected(detector: Detector, text: str, lang: str) -> None:
    assert detector.detect(text).lang == lang


@pytest.mark.parametrize(("text", "lang"), [("図書館", "ja"), ("图书馆", "zh"), ("圖書館", "zh-Hant")])
def test_chinese_characters_alone_are_told_apart_by_what_each_writes(detector: Detector, text: str, lang: str) -> None:
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


def test_a_collection_of_one_language_or_none_loads_no_model() -> None:
    program = (
        "import sys; from indexer.text.language_detection import Detector\n"
        "found = Detector({'de'}).detect('flooding on the river'), Detector({'und'}).detect('flooding')\n"
        "print([item.lang for item in found], any(name.startswith('py3langid') for name in sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout.strip() == "['de', 'und'] False"
