"""An encoder that is measured by the pages that taught it is named, with their share."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest

from encoders.console import Console
from encoders.folder.model_folder import ModelFolder
from encoders.folder.training_texts import FILE, count_taught, has_training_texts, text_key, write_training_texts
from indexer.collection.settings import Settings
from onnx_export.models import taught_shares
from query.cli import run
from tests.conftest import Capture
from tests.indexer.training.indexed import printed, train
from trials import DEMO

Index = Callable[..., None]


def sources(*langs: str) -> list[str]:
    return [str(DEMO / f"docs.{lang}.jsonl") for lang in langs]


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    """A Cr5 folder of the demo's articles in two languages."""
    target = tmp_path_factory.mktemp("trained") / "words"
    return train("cr5", sources("de", "en"), target, "--dimensions", "20", "--ridge", "1")


@pytest.fixture
def home(settings: Settings) -> list[str]:
    return ["-c", "mini", "--home", str(settings.home)]


@pytest.fixture
def indexed(words: ModelFolder, small: ModelFolder, home: list[str]) -> Index:
    """Index languages by a sentence encoder and the one of words."""

    def index(*langs: str) -> None:
        encoder = f"{small.path} + {words.path}"
        assert run(["index", *sources(*langs), "--encoder", encoder, "--no-calibration", "-q", *home]) == 0

    return index


def test_texts_are_counted_by_their_hashes(tmp_path: Path) -> None:
    hashes = [f"{number:032x}" for number in range(1 << 64, 9 << 64, 1 << 64)]
    assert not has_training_texts(tmp_path)
    write_training_texts(tmp_path, map(text_key, [*hashes[:3], hashes[0]]))
    assert [count_taught(tmp_path, hashes), count_taught(tmp_path, hashes[2:]), count_taught(tmp_path, [])] == [3, 1, 0]
    assert ((tmp_path / FILE).stat().st_size, count_taught(tmp_path, [f"{100 << 64:032x}"])) == (128 + 3 * 8, 0)
    write_training_texts(tmp_path, [])
    assert count_taught(tmp_path, hashes) == 0
    write_training_texts(tmp_path, None)
    assert not has_training_texts(tmp_path)


def test_what_taught_an_encoder_is_unknown_without_it(words: ModelFolder, tmp_path: Path, capsys: Capture) -> None:
    def shares(name: str, method: str, hashes: Sequence[str] = ("f" * 32,)) -> dict[str, float]:
        return taught_shares([(name, method)], lambda: hashes, Console())

    damaged = tmp_path / "damaged"
    copytree(words.path, damaged)
    learnt = [f"{int(key):016x}{'0' * 16}" for key in np.load(damaged / FILE)[:2]]
    assert shares(str(damaged), "cr5", [*learnt, "f" * 32, "e" * 32]) == {str(damaged): 0.5}
    assert (shares(str(damaged), "sentences", learnt), capsys.readouterr().err) == ({}, "")
    (damaged / FILE).write_bytes(b"no array")
    assert (shares(str(damaged), "cr5"), shares(str(tmp_path / "gone"), "cr5")) == ({}, {})
    assert capsys.readouterr().err.count("is not known (") == 2


@pytest.mark.parametrize(("langs", "share"), [(["de", "en"], 1.0), (["en", "es"], 0.5), (["es", "fr"], 0.0)])
def test_calibrate_names_an_encoder_that_learnt_from_the_collections_pages(
    words: ModelFolder, indexed: Index, home: list[str], capsys: Capture, langs: Sequence[str], share: float
) -> None:
    indexed(*langs)
    capsys.readouterr()
    assert run(["calibrate", "--json", *home]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["taught"] == ({str(words.path): share} if share else {})
    named = f"learnt from {share:.0%} of the documents that this calibration was fitted on" in told.err
    assert named == bool(share)


def test_migrate_and_evaluate_name_an_encoder_that_learnt_from_the_pages(
    words: ModelFolder, small: ModelFolder, indexed: Index, home: list[str], capsys: Capture
) -> None:
    indexed("de", "en", "es")
    plain = ["-c", "plain", *home[2:]]
    index = ["index", *sources("de", "en", "es"), "--encoder", str(small.path), "--no-calibration", "-q", *plain]
    assert run(index) == 0
    (told,) = printed(["migrate", "--encoder", str(words.path), "--dry-run", "--json", "-q", *plain], capsys)
    assert told["taught"] == {str(words.path): pytest.approx(2 / 3)}
    judged = ["--topics", str(DEMO / "topics.tsv"), "--qrels", str(DEMO / "qrels.txt"), "--langs", "de"]
    for to, share in (("de", 1.0), ("es", 0.0)):
        assert run(["evaluate", *judged, "--to", to, "--baseline", "none", "--json", *home]) == 0
        captured = capsys.readouterr()
        assert json.loads(captured.out)["settings"]["taught"] == ({str(words.path): share} if share else {})
        assert ("learnt from 100% of the relevant documents" in captured.err) == bool(share)
