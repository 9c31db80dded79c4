"""``dragoman train tlaser``: from parallel text to a folder that index, search and calibrate take."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from encoders.document import unit_rows
from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from indexer.parallel.aligned_sentence import AlignedSentence
from indexer.training.aligned_corpus import gather, hold_out
from indexer.training.tlaser_training import gate_texts
from onnx_export.graphs.parity import compare
from onnx_export.training.training_checkpoint import locked
from query.cli import run
from query.ranking.searcher import Searcher
from tests.conftest import Capture, until
from tests.indexer.training.indexed import printed, refused
from tests.onnx_export.conftest import _exports_once  # noqa: F401
from trials.servers.shared import once

pytestmark = pytest.mark.torch

_SIZES = {"dim": 16, "layers": 2, "vocabulary": 120, "batch-tokens": 256, "interval": 10}
_SMALL = [*(f"--{name}={size}" for name, size in _SIZES.items()), "--precision=fp32", "--device=cpu", "--json", "-q"]
_NUMBERS = {
    "en": ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"],
    "de": ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"],
    "es": ["uno", "dos", "tres", "cuatro", "cinco", "seis", "siete", "ocho", "nueve"],
}


@pytest.fixture(scope="module")
def parallel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sums in three languages: a language small enough to be learnt in seconds."""
    rng = np.random.default_rng(0)
    lines = ["\t".join(_NUMBERS)]
    for _ in range(300):
        digits = rng.integers(9, size=rng.integers(2, 6))
        lines.append("\t".join(" ".join(words[digit] for digit in digits) for words in _NUMBERS.values()))
    file = tmp_path_factory.mktemp("parallel") / "sums.tsv"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def _command(parallel: Path, target: Path, steps: int = 60, variant: str = "ct") -> list[str]:
    return ["train", "tlaser", str(parallel), "-o", str(target), "--steps", str(steps), "--variant", variant, *_SMALL]


@pytest.fixture(
    scope="module", params=["ct", *(pytest.param(variant, marks=pytest.mark.train) for variant in ("t", "laser"))]
)
def trained(request: pytest.FixtureRequest, parallel: Path) -> ModelFolder:
    def make(folder: Path) -> Path:
        target = folder / f"sums-{request.param}"
        assert run(_command(parallel, target, variant=request.param)) == 0
        return target

    return ModelFolder.open(once(f"tlaser-{request.param}", make))


def test_the_folder_says_what_it_is_and_how_it_came_to_be(trained: ModelFolder) -> None:
    assert trained.config.languages == ("de", "en", "es")
    assert trained.config.pooling == ("max" if trained.path.name.endswith("laser") else "cls")
    assert json.loads((trained.path / "parity.json").read_text(encoding="utf-8"))["passed"]
    rows = [json.loads(line) for line in (trained.path / "curve.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["step"] for row in rows] == [10, 20, 30, 40, 50, 60]
    assert rows[-1]["loss"] < rows[0]["loss"]
    assert (trained.path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert "de-en, de-es, en-es, es-en" in (trained.path / "MODEL_CARD.md").read_text(encoding="utf-8")


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """Nine documents of four words in each language, whose translations are one concept."""
    lines = [
        {"id": f"{lang}{n}", "lang": lang, "text": " ".join(words[(n + k) % 9] for k in range(4)), "concept": str(n)}
        for lang, words in _NUMBERS.items()
        for n in range(9)
    ]
    file = tmp_path / "docs.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return file


def test_a_collection_is_searched_with_it(trained: ModelFolder, documents: Path, settings: Settings) -> None:
    place = ["--home", str(settings.home)]
    assert run(["index", str(documents), "-c", "sums", "--encoder", str(trained.path), "-q", *place]) == 0
    with Searcher.open("sums", settings, device="cpu") as searcher:
        assert searcher.calibration is not None
        assert searcher.calibration.model == searcher.spec.model
        assert searcher.search("drei vier fünf sechs", lang="de", to=["de"], k=3)[0].doc_id == "de2"
        assert len(searcher.search("drei vier fünf", lang="de", to=["en"], k=3)) == 3


def test_the_gate_refuses_a_graph_that_shuffles_rankings_on_few_sentences_too() -> None:
    """Vectors that lie close together keep every cosine when they are swapped: the rankings alone tell."""
    rows = [AlignedSentence(str(n), {"de": f"Satz {n}", "en": f"sentence {n}"}) for n in range(20)]
    train, held = hold_out(gather(rows))
    texts = gate_texts(held, train, ["de", "en"])
    assert len({text.text for text in texts}) == 40
    rng = np.random.default_rng(0)
    right = unit_rows((np.eye(1, 16) + 0.02 * rng.normal(size=(len(texts), 16))).astype(np.float32))
    assert compare("int8", texts, right, right).passed
    report = compare("int8", texts, right[::-1], right)
    assert report.cosine_min > 0.97
    assert not report.passed


@pytest.mark.train
def test_a_killed_training_goes_on_to_the_same_curve_and_graph(parallel: Path, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    script = (
        "import sys; from onnx_export.training import training_checkpoint as checkpoint; from query.cli import run; "
        "checkpoint._LEAST_SECONDS = 0.0; sys.exit(run(sys.argv[1:]))"
    )
    program = [sys.executable, "-c", script]
    checkpoint = killed.with_name("killed.training") / "last.pt"
    process = subprocess.Popen([*program, *_command(parallel, killed, 80, "laser")], env=environment)
    until(lambda: checkpoint.exists() or process.poll() is not None, 120)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (checkpoint.exists(), killed.exists()) == (True, False)
    for target in (killed, whole):
        subprocess.run([*program, *_command(parallel, target, 80, "laser")], env=environment, check=True)
    for name in ("curve.jsonl", "model.onnx"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes(), name


@pytest.mark.train
def test_a_finished_training_goes_on_with_more_steps(parallel: Path, tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "m"
    few, more = _command(parallel, target, 10), _command(parallel, target, 20)
    assert (run(few), run([*few, "--precision", "int8", "--force"])) == (0, 0)
    assert ModelFolder.open(target).config.precision == "int8"
    (told,) = printed(more, capsys)
    assert told["directions"] == ["de-en", "de-es", "en-es", "es-en"]
    assert 0 < told["words_per_second"] < told["tokens_per_second"]
    assert told["parameters"] > 16 * told["vocabulary"]
    assert [json.loads(row)["step"] for row in (target / "curve.jsonl").read_bytes().splitlines()] == [10, 20]
    (told,) = printed(few, capsys)
    assert "had 20 steps already, which are exported; remove it to train fewer" in " ".join(told["remarks"])
    assert told["words_per_second"] == 0
    error = refused([*few, "--dim", "32"], capsys)
    assert "has a checkpoint of another training (dim 16, now 32" in error
    assert "give the same sources and options to go on with it, or remove the folder" in error
    with locked(tmp_path / "m.training"):
        assert "another process trains in" in refused(few, capsys)


def test_long_pairs_and_unpaired_languages_are_told(parallel: Path, tmp_path: Path, capsys: Capture) -> None:
    lines = [{"pt": "um " * 4000, "de": "eins " * 4000}, {"en": "", "de": "eins"}]
    lines += [{"fr": f"un {n}", "it": f"uno {n}"} for n in range(30)]
    extra = tmp_path / "extra.jsonl"
    extra.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    options = ["--languages", "de,en,es,fr,it,ja,pt", *("--pivot=en", "--pivot=es", "--pivot=pt"), str(extra)]
    (told,) = printed([*_command(parallel, tmp_path / "m", 10), *options, "--vocabulary", "5000"], capsys)
    remarks = " | ".join(told["remarks"])
    assert "1 pair has a side of more than 127 tokens" in remarks
    assert "fr has no pair with en or es or pt to learn from and was left out; name another --pivot" in remarks
    assert "tokens that come twice, not 5,000" in remarks
    assert "no sentence in ja stands beside another in the sources" in remarks
    assert [note["text"] for note in told["refused"]] == ["its en side is empty"]


@pytest.mark.train
def test_each_pivot_is_translated_into_from_others(parallel: Path, tmp_path: Path, capsys: Capture) -> None:
    (told,) = printed([*_command(parallel, tmp_path / "m", 10), "--pivot", "de", "--pivot", "en"], capsys)
    assert told["directions"] == ["de-en", "en-de", "es-de", "es-en"]


def test_what_teaches_nothing_is_one_sentence(parallel: Path, tmp_path: Path, capsys: Capture) -> None:
    for options, said in (
        ("--pivot en,ja", "pivot ja is not in the sources, which have de, en, es; choose of these"),
        ("--pivot en,de --languages de,es", "pivot en is not among the languages de, es; add it to --lang"),
        ("--languages de", "(of 300 sentences none is in two of de)"),
        ("--max-tokens 8 --languages de,ja", "no sentence in two languages could be read"),
    ):
        assert said in refused([*_command(parallel, tmp_path / "m", 10), *options.split()], capsys)
        assert not (tmp_path / "m").exists()
