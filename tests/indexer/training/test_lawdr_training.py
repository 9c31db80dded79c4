"""``dragoman train lawdr``: from documents to a folder that ``index --encoder`` takes.

Its sample of sentences has as many of each language, whatever their order, in bounded memory.
"""

import json
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from encoders.document import Document
from encoders.folder.model_folder import ModelFolder
from encoders.methods.lawdr_method import load_density
from encoders.methods.method_registry import open_encoder
from indexer.collection.settings import Settings
from indexer.index_sources import index
from indexer.readers.source_documents import Sources
from indexer.training.lawdr_training import SentenceSample, train_lawdr
from query.cli import run
from query.ranking.searcher import Searcher
from tests.conftest import Capture, Patch
from tests.indexer.training.indexed import refused, train
from trials import DEMO, ROOT

SOURCES = [str(DEMO / f"docs.{lang}.jsonl") for lang in ("de", "ja")]
TRAIN = ["train", "lawdr"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, small: ModelFolder) -> ModelFolder:
    """A folder made by the command of the small encoder and the demo's German and Japanese."""
    target = tmp_path_factory.mktemp("trained") / "small-lawdr"
    return train("lawdr", SOURCES, target, "--sample", "200", "--encoder", str(small.path))


def test_a_folder_named_from_where_one_stands_is_found_from_elsewhere(
    trained: ModelFolder, settings: Settings, tmp_path: Path, monkeypatch: Patch
) -> None:
    (tmp_path / "few.jsonl").write_text('{"id": "1", "text": "Rivers flood the town."}')
    monkeypatch.chdir(trained.path.parent)
    index([str(tmp_path / "few.jsonl")], "near", settings=settings, encoder=trained.path.name, device="cpu")
    monkeypatch.chdir(tmp_path)
    with Searcher.open("near", settings, device="cpu") as searcher:
        assert searcher.spec.method == "lawdr"


def test_the_order_of_sources_changes_nothing(trained: ModelFolder, small: ModelFolder, tmp_path: Path) -> None:
    again = train_lawdr(Sources(SOURCES[::-1]), tmp_path / "again", sample=200, encoder=str(small.path))
    assert again.density.id == load_density(trained).id
    assert open_encoder(again.folder, device="cpu").spec == open_encoder(trained, device="cpu").spec
    other = train_lawdr(Sources(SOURCES), tmp_path / "other", sample=200, seed=1, encoder=str(small.path))
    assert other.density.id != again.density.id


def test_json_says_what_was_fitted(tmp_path: Path, capsys: Capture, small: ModelFolder) -> None:
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


def test_what_teaches_nothing_is_said(tmp_path: Path, capsys: Capture, small: ModelFolder, monkeypatch: Patch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.jsonl").write_text("{broken\n")
    (tmp_path / "strange.txt").write_text("\U0001f389\U0001f6a2")
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


def _documents(counts: dict[str, int]) -> list[Document]:
    return [
        Document(f"{lang}:{number}", lang, f"{lang} is {number}.\nIt ends {number}.")
        for lang, count in counts.items()
        for number in range(count)
    ]


def _draw(documents: list[Document], size: int, seed: int = 0) -> dict[str, list[str]]:
    sample = SentenceSample(size, seed)
    for document in documents:
        sample.add(document)
    return sample.by_language()


@examples(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(
    counts=st.dictionaries(st.sampled_from(["de", "en", "fi", "ja"]), st.integers(1, 40), min_size=1),
    size=st.integers(1, 120),
    turn=st.integers(0, 9),
)
def test_each_language_has_an_equal_part_whatever_the_order(counts: dict[str, int], size: int, turn: int) -> None:
    documents = _documents(counts)
    drawn, part = _draw(documents, size), max(size // len(counts), 1)
    sizes = {lang: len(texts) for lang, texts in drawn.items()}
    assert sizes == {lang: min(part, 2 * count) for lang, count in counts.items()}
    random.Random(turn).shuffle(documents)
    assert _draw(documents, size) == drawn


def test_every_sentence_is_as_likely_as_any_other() -> None:
    documents = _documents({"en": 50})
    seen = dict.fromkeys((f"{a} {number}." for number in range(50) for a in ("en is", "It ends")), 0)
    for seed in range(400):
        for text in _draw(documents, 10, seed)["en"]:
            seen[text] += 1
    assert sum(seen.values()) == 4000
    assert min(seen.values()) > 15
    assert max(seen.values()) < 75


def test_another_seed_draws_another_sample_and_a_larger_one_holds_the_smaller() -> None:
    documents = _documents({"en": 50, "de": 50})
    assert _draw(documents, 10, 1) == _draw(documents, 10, 1) != _draw(documents, 10, 2)
    for small, large in pairwise([_draw(documents, size) for size in (2, 10, 40, 1000)]):
        assert all(set(small[lang]) <= set(large[lang]) for lang in small)


def test_no_more_is_kept_than_asked_for_while_documents_come() -> None:
    sample = SentenceSample(20)
    for document in _documents({"en": 60, "de": 60, "fi": 60}):
        sample.add(document)
        assert sum(map(len, sample.by_language().values())) <= 20
    assert sample.documents == 180
    sample.add(Document("1", "sv", " \n\n "))
    assert "sv" not in sample.by_language()
