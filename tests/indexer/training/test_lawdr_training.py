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
from tests.indexer.training.indexed import indexed_by
from trials import DEMO, ROOT

SOURCES = [str(DEMO / f"docs.{lang}.jsonl") for lang in ("de", "ja")]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, default_folder: ModelFolder) -> ModelFolder:
    """A folder made by the command, of the demo's German and Japanese."""
    target = tmp_path_factory.mktemp("trained") / "e5-lawdr"
    assert run(["train", "lawdr", *SOURCES, "-o", str(target), "--sample", "200", "-q"]) == 0
    return ModelFolder.open(target)


@pytest.fixture(scope="module")
def small_trained(tmp_path_factory: pytest.TempPathFactory, small: ModelFolder) -> ModelFolder:
    """The same of the small encoder."""
    target = tmp_path_factory.mktemp("trained") / "small-lawdr"
    command = ["train", "lawdr", *SOURCES, "-o", str(target), "--encoder", str(small.path)]
    assert run([*command, "--sample", "200", "-q"]) == 0
    return ModelFolder.open(target)


@pytest.mark.long
def test_a_collection_is_indexed_and_searched_by_what_was_trained(
    trained: ModelFolder, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert indexed_by(trained, SOURCES, settings, capsys)["method"] == "lawdr"
    with Searcher.open("mini", settings, device="cpu") as searcher:
        hits = searcher.search("Wie lerne ich Schach?", lang="de", to=["ja"], k=3)
    assert "demo:ja:chess" in [hit.document.doc_id for hit in hits]
    home = ["--home", str(settings.home)]
    assert run(["index", *SOURCES, "-c", "mini", "--encoder", str(trained.path), "-q", *home]) == 0
    assert "48 unchanged" in capsys.readouterr().out


def test_a_folder_named_from_where_one_stands_is_found_from_elsewhere(
    small_trained: ModelFolder, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(small_trained.path.parent)
    index([SOURCES[0]], "near", settings=settings, encoder=small_trained.path.name, device="cpu")
    monkeypatch.chdir(tmp_path)
    with Searcher.open("near", settings, device="cpu") as searcher:
        assert searcher.spec.method == "lawdr"


def test_the_same_sources_in_another_order_give_the_same_density(
    small_trained: ModelFolder, small: ModelFolder, tmp_path: Path
) -> None:
    again = train_lawdr(Sources(SOURCES[::-1]), tmp_path / "again", sample=200, encoder=str(small.path))
    assert again.density.id == load_density(small_trained).id
    assert open_encoder(again.folder, device="cpu").spec == open_encoder(small_trained, device="cpu").spec
    other = train_lawdr(Sources(SOURCES), tmp_path / "other", sample=200, seed=1, encoder=str(small.path))
    assert other.density.id != again.density.id


def test_json_says_what_was_fitted_on_what(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], small: ModelFolder
) -> None:
    (tmp_path / "more.jsonl").write_text('{broken\n{"id": "1", "text": "Rivers flood the town. Goats swim."}\n')
    target = tmp_path / "m"
    sources = [SOURCES[0], str(tmp_path / "more.jsonl")]
    base = ["--encoder", str(small.path)]
    assert run(["train", "lawdr", *sources, "-o", str(target), "--sample", "20", *base, "--json"]) == 0
    captured = capsys.readouterr()
    told = json.loads(captured.out)
    assert told["sentences"] == {"de": 10, "en": 2}
    assert told["folder"] == str(target)
    assert told["density"] == load_density(ModelFolder.open(target)).id
    assert told["documents"] == 25
    assert [note["place"].endswith("more.jsonl:1") for note in told["refused"]] == [True]
    assert "a density of 12 sentences is rough" in captured.err


def test_an_encoder_trained_on_one_sentence_still_encodes(tmp_path: Path, small: ModelFolder) -> None:
    (tmp_path / "one.txt").write_text("Rivers flood.")
    report = train_lawdr(Sources([str(tmp_path / "one.txt")]), tmp_path / "m", encoder=str(small.path))
    vectors = np.eye(report.folder.config.dim, dtype=np.float32)
    assert ((report.density.weights(vectors) > 0) & (report.density.weights(vectors) <= 1)).all()


def test_what_cannot_be_trained_on_is_one_sentence_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], default_folder: ModelFolder
) -> None:
    (tmp_path / "broken.jsonl").write_text("{broken\n")
    (tmp_path / "strange.txt").write_text("\u200b\u200b")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "diary.txt").write_text("dear diary")
    cases = [
        (["nowhere.jsonl"], "m", "nowhere.jsonl does not exist"),
        ([str(tmp_path / "broken.jsonl")], "m", "no sentence could be read from"),
        ([str(tmp_path / "strange.txt")], "m", "the sources have nothing that multilingual-e5-small knows"),
        (SOURCES, "full", "holds something that is no model; choose another --output"),
        (SOURCES, "full/diary.txt", "is a file; choose another --output"),
        ([*SOURCES, "--encoder", "bert"], "m", "there is no encoder 'bert'"),
    ]
    for arguments, output, sentence in cases:
        assert run(["train", "lawdr", *arguments, "-o", str(tmp_path / output), "-q"]) == 1
        error = capsys.readouterr().err
        assert sentence in error
        assert len(error.strip().splitlines()) == 1
    assert (tmp_path / "full" / "diary.txt").read_text() == "dear diary"
    assert not (tmp_path / "m").exists()
    assert run(["train", "lawdr", *SOURCES]) == 2
    assert run(["train", "lawdr", *SOURCES, "-o", str(tmp_path / "m"), "--sample", "0"]) == 2
    assert run(["train", "lawdr", *SOURCES, "-o", str(tmp_path / "m"), "--field", "text"]) == 2


def test_training_needs_no_torch(tmp_path: Path, small: ModelFolder) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom indexer.readers.source_documents import Sources\n"
        "from indexer.training.lawdr_training import train_lawdr\n"
        f"sources, target = Sources([{SOURCES[0]!r}]), Path({str(tmp_path / 'm')!r})\n"
        f"train_lawdr(sources, target, sample=20, encoder={str(small.path)!r})\n"
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
