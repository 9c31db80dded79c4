"""Every command that encodes says where, in one sentence, and refuses a card that is not there in one sentence."""

from pathlib import Path

import pytest

from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from query.cli import run
from tests.encoders.gpus import Library, install_cards, install_provider
from tests.query.conftest import copied
from trials import DEMO

COMMANDS = {
    "index": "{docs} -c other --encoder {words} --no-calibration",
    "search": "bees -c demo",
    "calibrate": "-c demo",
    "evaluate": "-c demo --topics {topics} --qrels {qrels} --baseline none",
    "migrate": "-c demo --encoder {words} --method first --anyway",
}


def arguments(name: str, settings: Settings, word_model: ModelFolder) -> list[str]:
    """The command's words, on the demo collection of a home."""
    places = {
        "docs": DEMO / "docs.de.jsonl",
        "topics": DEMO / "topics.tsv",
        "qrels": DEMO / "qrels.txt",
        "words": word_model.path,
    }
    words = [word.format(**places) for word in COMMANDS[name].split()]
    return [name, *words, "--home", str(settings.home), "--device", "cuda"]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_on_which_card_it_works(
    name: str,
    calibrated_by_words: Settings,
    word_model: ModelFolder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = arguments(name, copied(calibrated_by_words.home, tmp_path), word_model)
    install_cards(monkeypatch, Library(["H100"]))
    install_provider(monkeypatch)
    assert run(words) == 0
    captured = capsys.readouterr()
    assert "words works on the H100, in fp32\n" in captured.err
    assert "libcudnn" not in captured.out


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_without_its_card_is_refused(
    name: str, calibrated_by_words: Settings, word_model: ModelFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments(name, calibrated_by_words, word_model)) == 1
    assert "Error: CUDA was asked for, but this ONNX Runtime has no CUDA; install it: " in capsys.readouterr().err
