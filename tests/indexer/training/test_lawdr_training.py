"""``dragoman train lawdr``: from documents to a folder that ``index --encoder`` takes."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from encoders.folder.model_folder import ModelFolder
from encoders.methods.lawdr_method import load_density
from encoders.methods.method_registry import open_encoder
from indexer.collection.settings import Settings
from indexer.index_sources import index
from indexer.readers.source_documents import Sources
from indexer.training.lawdr_training import train_lawdr
from query.cli import run
from query.ranking.searcher import Searcher
from tests.indexer.training.indexed import indexed_by, refused, train
from trials import DEMO, ROOT

SOURCES = [str(DEMO / f"docs.{lang}.jsonl") for lang in ("de", "ja")]
TRAIN = ["train", "lawdr"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, small: ModelFolder) -> ModelFolder:
    """A folder made by the command of the small encoder and the demo's German and Japanese."""
    target = tmp_path_factory.mktemp("trained") / "small-lawdr"
    return train("lawdr", SOURCES, target, "--sample", "200", "--encoder", str(small.path))


@pytest.mark.long
@pytest.mark.usefixtures("default_folder")
def test_a_collection_is_indexed_and_searched_by_what_was_trained(
    tmp_path: Path, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = train("lawdr", SOURCES, tmp_path / "e5-lawdr", "--sample", "200")
    assert indexed_by(trained, SOURCES, settings, capsys)["method"] == "lawdr"
    with Searcher.open("mini", settings, device="cpu") as searcher:
        hits = searcher.search("Wie lerne ich Schach?", lang="de", to=["ja"], k=3)
    assert "demo:ja:chess" in [hit.document.doc_id for hit in hits]
    home = ["--home", str(settings.home)]
    assert run(["index", *SOURCES, "-c", "mini", "--encoder", str(trained.path), "-q", *home]) == 0
    assert "48 unchanged" in capsys.readouterr().out


def test_a_folder_named_from_where_one_stands_is_found_from_elsewhere(
    trained: ModelFolder, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "few.jsonl").write_text('{"id": "1", "text": "Rivers flood the town."}')
    monkeypatch.chdir(trained.path.parent)
    index([str(tmp_path / "few.jsonl")], "near", settings=settings, encoder=trained.path.name, device="cpu")
    monkeypatch.chdir(tmp_path)
    with Searcher.open("near", settings, device="cpu") as searcher:
        assert searcher.spec.method == "lawdr"


def test_the_same_sources_in_another_order_give_the_same_density(
    trained: ModelFolder, small: ModelFolder, tmp_path: Path
) -> None:
    again = train_lawdr(Sources(SOURCES[::-1]), tmp_path / "again", sample=200, encoder=str(small.path))
    assert again.density.id == load_density(trained).id
    assert open_encoder(again.folder, device="cpu").spec == open_encoder(trained, device="cpu").spec
    other = train_lawdr(Sources(SOURCES), tmp_path / "other", sample=200, seed=1, encoder=str(small.path))
    assert other.density.id != again.density.id


def test_json_says_what_was_fitted_on_what(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], small: ModelFolder
) -> None:
    more, target = tmp_path / "more.jsonl", tmp_path / "m"
    more.write_text('{broken\n{"id": "1", "text": "Rivers flood the town. Goats swim."}\n')
    options = ["-o", str(target), "--sample", "20", "--encoder", str(small.path), "--json"]
    assert run([*TRAIN, SOURCES[0], str(more), *options]) == 0
    captured = capsys.readouterr()
    told = json.loads(captured.out)
    assert (told["sentences"], told["documents"]) == ({"de": 10, "en": 2}, 25)
    assert (told["folder"], told["density"]) == (str(target), load_density(ModelFolder.open(target)).id)
    assert [note["place"].endswith("more.jsonl:1") for note in told["refused"]] == [True]
    assert "a density of 12 sentences is rough" in captured.err


def test_an_encoder_trained_on_one_sentence_still_encodes(tmp_path: Path, small: ModelFolder) -> None:
    (tmp_path / "one.txt").write_text("Rivers flood.")
    report = train_lawdr(Sources([str(tmp_path / "one.txt")]), tmp_path / "m", encoder=str(small.path))
    weights = report.density.weights(np.eye(report.folder.config.dim, dtype=np.float32))
    assert ((weights > 0) & (weights <= 1)).all()


def test_what_cannot_be_trained_on_is_one_sentence_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], small: ModelFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.jsonl").write_text("{broken\n")
    (tmp_path / "strange.txt").write_text("\u200b\u200b")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "diary.txt").write_text("dear diary")
    for sources, output, sentence in (
        (["nowhere.jsonl"], "m", "nowhere.jsonl does not exist"),
        (["broken.jsonl"], "m", "no sentence could be read from"),
        (["strange.txt"], "m", f"the sources have nothing that {small.config.name} knows"),
        (SOURCES, "full", "holds something that is no model; choose another --output"),
        (SOURCES, "full/diary.txt", "is a file; choose another --output"),
    ):
        assert sentence in refused([*TRAIN, *sources, "-o", output, "--encoder", str(small.path)], capsys)
    assert "there is no encoder 'bert'" in refused([*TRAIN, *SOURCES, "-o", "m", "--encoder", "bert"], capsys)
    assert (tmp_path / "full" / "diary.txt").read_text() == "dear diary"
    for wrong in ([], ["-o", "m", "--sample", "0"], ["-o", "m", "--field", "text"]):
        assert run([*TRAIN, *SOURCES, *wrong]) == 2
    assert not (tmp_path / "m").exists()


def test_training_needs_no_torch(tmp_path: Path, small: ModelFolder) -> None:
    (tmp_path / "one.txt").write_text("Rivers flood.")
    code = (
        "import sys\nfrom query.cli import run\n"
        f"run(['train', 'lawdr', {str(tmp_path / 'one.txt')!r}, '-o', {str(tmp_path / 'm')!r}, '--encoder', "
        f"{str(small.path)!r}])\nsys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert ModelFolder.open(tmp_path / "m").path.is_dir()
