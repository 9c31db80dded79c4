"""The build that a name stands for: int8 on a CPU, fp16 on a card, with vectors of one model."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from encoders import console
from encoders.console import Console
from encoders.document import Document, unit_rows
from encoders.errors import BadInput, MissingPart
from encoders.folder.model_cache import model_cache
from encoders.folder.model_folder import ModelFolder
from encoders.machine.placement import CPU, place
from indexer.collection.settings import Settings
from indexer.index_sources import index
from onnx_export.default_model.default_export import export_default
from onnx_export.graphs.parity import ParityReport
from onnx_export.models import DEFAULT, absolute, are_for_gpus, default_path, find_model, open_named
from query.cli import run
from query.ranking.searcher import Searcher
from tests.encoders.gpus import Library, Sessions, install_cards, install_provider
from trials import DEMO
from trials.servers.shared import once

TEXTS = [Document(str(number), "en", f"A text about the subject number {number}.", "A title") for number in range(30)]


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> Sessions:
    """A pretended card that runs graphs."""
    install_cards(monkeypatch, Library(["H100"]))
    monkeypatch.setattr(console, "_warned", set())
    return install_provider(monkeypatch)


@pytest.fixture(scope="session")
def half(default_folder: ModelFolder) -> tuple[Path, ParityReport]:
    """The default encoder exported to fp16, made once for all tests, and its comparison with float32."""

    def make(folder: Path) -> tuple[Path, ParityReport]:
        made, report = export_default(folder / "fp16", "fp16", Console(quiet=True))
        return made.path, report

    return once("default-model-fp16", make)


@pytest.mark.parts
def test_documents_of_a_card_and_queries_of_a_cpu_meet_in_one_collection(
    settings: Settings, default_folder: ModelFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    source = [str(DEMO / "docs.de.jsonl"), str(DEMO / "docs.ja.jsonl")]
    with pytest.MonkeyPatch.context() as patch:
        install_cards(patch, Library(["H100"]))
        sessions = install_provider(patch)
        index(source, "demo", settings=settings, device="auto", console=Console())
        assert "multilingual-e5-small works on the H100, in fp16" in capsys.readouterr().err
        assert {Path(graph).parent for graph, providers in sessions.asked if len(providers) == 2} == {
            default_path("fp16")
        }
    encoder = open_named(DEFAULT, None, Console(quiet=True), device="cpu")
    with Searcher.open("demo", settings, device="cpu") as searcher:
        assert searcher.spec == encoder.spec
        documents = searcher.store.get(searcher.store.sample(searcher.spec.model, "de", 20))
        stored = searcher.store.vectors(searcher.spec.model, [one.doc_id for one in documents])
        found = [searcher.search("Erdbeben", lang="de", to=[lang], k=1)[0] for lang in ("de", "ja")]
    cosines = np.einsum("nd,nd->n", unit_rows(stored), encoder.encode_documents(documents).vectors)
    assert cosines.min() > 0.99  # int8 and fp16 agree: .994 at least over texts in twelve languages
    assert len({hit.document.fields["concept"] for hit in found}) == 1


def test_a_reference_becomes_absolute_unless_it_is_the_default_encoders_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of this name in the working directory stands for nothing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for folder in (DEFAULT, "mine", "home/theirs"):
        (tmp_path / folder).mkdir(parents=True)
    assert absolute(f"{DEFAULT} + mine + ~/theirs + other") == (
        f"{DEFAULT} + {tmp_path / 'mine'} + {tmp_path / 'home/theirs'} + other"
    )


@pytest.mark.parts
def test_all_builds_of_the_default_encoder_are_one_model(
    default_folder: ModelFolder, half: tuple[Path, ParityReport]
) -> None:
    folder, report = ModelFolder.open(half[0]), half[1]
    assert report.cosine_min > 0.9999
    assert folder.config.precision == "fp16"
    assert folder.config.model_id("windows") == default_folder.config.model_id("windows")
    assert folder.config.build_id != default_folder.config.build_id
    (file,) = folder.path.glob("parity.json")
    assert '"forced": false' in file.read_text(encoding="utf-8")


def test_the_command_refuses_what_the_default_encoder_has_already(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", DEFAULT, "--pooling", "cls"]) == 2
    assert "has its own name, pooling, prefixes and languages" in capsys.readouterr().err


@pytest.mark.parts
def test_where_cuda_fails_auto_takes_the_build_for_cpus_and_says_so_once(
    cards: Sessions, default_folder: ModelFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    cards.error = "CUDA failure 999: unknown error"
    for _ in range(2):
        encoder = open_named(DEFAULT, None, Console(), device="auto")
        assert len(encoder.encode_documents(TEXTS[:2]).vectors) == 2
    assert capsys.readouterr().err == (
        "warning: works on the CPU: the H100 can't run the graph (CUDA failure 999: unknown error); see nvidia-smi\n"
    )
    with pytest.raises(MissingPart, match="CUDA failure 999"):
        open_named(DEFAULT, None, Console(), device="cuda")


@pytest.mark.parts
def test_a_model_in_int8_stands_for_its_build_for_cards(
    cards: Sessions, default_folder: ModelFolder, half: tuple[Path, ParityReport], monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path))
    alone = open_named(str(default_folder.path), None, Console(), device="auto")
    assert "works on the CPU: it is in int8, which cards can't run" in capsys.readouterr().err
    with pytest.raises(BadInput, match="in int8, which runs on CPUs alone"):
        open_named(str(default_folder.path), None, Console(), device="cuda")
    shutil.copytree(half[0], model_cache() / "mine-fp16")
    assert find_model(str(default_folder.path), Console(), place("cuda")).path == model_cache() / "mine-fp16"
    assert find_model(str(default_folder.path), Console(), CPU).path == default_folder.path
    on_gpu = open_named(str(default_folder.path), None, Console(quiet=True), device="cuda")
    assert on_gpu.spec.model == alone.spec.model
    assert on_gpu.spec.build != alone.spec.build


@pytest.mark.parts
def test_a_trained_document_encoder_never_stands_for_its_base_model(
    cards: Sessions, default_folder: ModelFolder, half: tuple[Path, ParityReport], monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    """It has the weights' and the tokenizer's hashes of its base model, and more beside them."""
    trained = tmp_path / "trained"
    shutil.copytree(default_folder.path, trained)
    (trained / "hmde.json").write_text("{}", encoding="utf-8")
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    shutil.copytree(half[0], model_cache() / "mine-fp16")
    placement = place("cuda")
    assert find_model(str(default_folder.path), Console(), placement).path == model_cache() / "mine-fp16"
    assert find_model(str(trained), Console(), placement).path == trained
    assert not are_for_gpus(str(trained), Console(), placement)
    assert are_for_gpus(f"{DEFAULT} + {default_folder.path}", Console(), placement)
