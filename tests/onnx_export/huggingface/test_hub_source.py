"""Encoders of BERT, XLM-R and LaBSE shape: the graph says what torch says, and so does that for cards."""

import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import tokenizers
import torch
import transformers
from huggingface_hub.errors import LocalEntryNotFoundError
from onnx import numpy_helper
from safetensors.numpy import load_file, save_file
from transformers import AutoModel

from encoders.document import FloatArray, unit_rows
from encoders.errors import BadInput, MissingPart
from encoders.folder.model_config import Pooling
from encoders.folder.model_folder import ModelFolder
from encoders.inference.graph import Inputs, load_graph
from encoders.inference.unpadded import remove_padding
from encoders.machine.placement import CPU
from onnx_export.default_model.making import save_source
from onnx_export.graphs.fused_attention import fuse_attention
from onnx_export.graphs.parity import GateText, encode, read_texts
from onnx_export.graphs.precision import convert
from onnx_export.graphs.samples import token_inputs
from onnx_export.huggingface import hub_source as huggingface
from onnx_export.huggingface.hub import find_source
from onnx_export.huggingface.hub_layout import choose_pooling, read_layout
from tests.conftest import Capture, Patch
from tests.onnx_export.conftest import POSITIONS, SHAPES, SaveModel
from tests.onnx_export.cuda_kernels import without_kernel

pytestmark = pytest.mark.torch
Paths = Mapping[str, Path]
Sources = Mapping[str, huggingface.SourceModel]


def load(folder: Path, pooling: Pooling | None = None) -> huggingface.SourceModel:
    layout = read_layout(folder)
    return huggingface.load(layout, choose_pooling(layout, pooling))


@pytest.fixture(scope="module")
def sources(hugging_face: Paths) -> dict[str, huggingface.SourceModel]:
    return {shape: load(folder) for shape, folder in hugging_face.items()}


@pytest.fixture(scope="module")
def graphs(sources: Sources, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    files = {}
    for shape, source in sources.items():
        folder = tmp_path_factory.mktemp(shape)
        huggingface.export_token_graph(source.module, folder / "fp32.onnx")
        files[shape] = folder / f"{shape}.onnx"
        convert(folder / "fp32.onnx", files[shape], "fp32", [])
    return files


def run(graph: Path, ids: Any, mask: Any) -> FloatArray:
    session = onnxruntime.InferenceSession(str(graph), providers=["CPUExecutionProvider"])
    vectors: FloatArray = session.run(["vectors"], {"input_ids": ids, "attention_mask": mask})[0]
    return vectors


def copy_tokenizer(source: Path, target: Path) -> None:
    for file in source.glob("tokenizer*"):
        shutil.copy(file, target)


def ragged(lengths: list[int], longest: int, padding: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    mask = (np.arange(longest) < np.array(lengths)[:, None]).astype(np.int64)
    return np.where(mask == 1, rng.integers(4, 300, mask.shape), padding), mask


@pytest.mark.parametrize("shape", SHAPES)
def test_a_graph_says_what_torch_says_on_batches_of_any_shape(shape: str, sources: Sources, graphs: Paths) -> None:
    assert not re.search(rb"site-packages|\.py", graphs[shape].read_bytes()), "files of the machine that made it"
    longest = sources[shape].max_tokens
    assert longest == (96 if shape == "labse" else POSITIONS), "the smallest limit that is stated"
    for lengths in ([1], [2, 1], [7], [64, 3, 1, 40, 17], [longest]):
        ids, mask = ragged(lengths, max(lengths), padding=1 if shape == "xlm-r" else 0)
        with torch.no_grad():
            expected = sources[shape].module(torch.from_numpy(ids), torch.from_numpy(mask)).numpy()
        np.testing.assert_allclose(run(graphs[shape], ids, mask), expected, atol=2e-6)


@pytest.mark.parametrize(
    ("shape", "pooling"),
    [("bert", "mean"), ("xlm-r", "mean"), ("bert", "cls"), ("bert", "cls-dense-tanh"), ("labse", None)],
)
def test_pooling_is_what_the_formula_says(shape: str, pooling: Pooling | None, hugging_face: Paths) -> None:
    folder = hugging_face[shape]
    ids, mask = ragged([9, 4, 1], 9, padding=1 if shape == "xlm-r" else 0)
    model = AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        states = model(input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(mask)).last_hidden_state.numpy()
        vectors = load(folder, pooling).module(torch.from_numpy(ids), torch.from_numpy(mask)).numpy()
    pooled = states[:, 0]
    if pooling == "mean":
        pooled = np.stack([row[:length].mean(axis=0) for row, length in zip(states, mask.sum(axis=1), strict=True)])
    elif pooling != "cls":
        place, name = ("2_Dense/", "linear") if shape == "labse" else ("", "pooler.dense")
        dense = load_file(folder / f"{place}model.safetensors")
        pooled = np.tanh(pooled @ dense[f"{name}.weight"].T + dense[f"{name}.bias"])
    np.testing.assert_allclose(vectors, unit_rows(pooled), atol=2e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_saved_tokenizer_is_transformers_and_cuts_nothing(shape: str, sources: Sources, tmp_path: Path) -> None:
    huggingface.save_tokenizer(sources[shape], tmp_path / "tokenizer.json")
    saved = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in read_texts():
        assert saved.encode(text.text).ids == sources[shape].tokenizer(text.text)["input_ids"]
    assert len(saved.encode("a b " * 1000).ids) > 1000
    assert saved.padding is None
    if shape == "bert":  # lower-casing moves into the tokenizer
        huggingface.save_tokenizer(replace(sources["bert"], lower_case=True), tmp_path / "tokenizer.json")
        saved = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
        assert saved.encode("Kaffee IN Wien").ids == saved.encode("kaffee in wien").ids


def test_the_hash_of_weights_is_the_models_and_not_the_runs(save_model: SaveModel) -> None:
    first, again, other = (save_model("bert", "hashed", seed=seed) for seed in (1, 1, 2))
    assert load(first).weights == load(again).weights
    assert load(first).weights != load(other).weights
    assert load(first).weights == load(first, "cls").weights, "pooling is told apart by the model's id"
    assert load(first).weights != load(first, "cls-dense-tanh").weights, "the pooler's weights count where it is used"


@pytest.mark.parametrize(
    ("missing", "pooling", "said"),
    [
        ("encoder.layer.1.output.dense.weight", None, r"lack 1 tensors, encoder\.layer\.1\..* first; fetch"),
        ("pooler", "cls-dense-tanh", r"lack 2 tensors, pooler"),
    ],
)
def test_missing_weights_are_refused(missing: str, pooling: Pooling | None, said: str, save_model: SaveModel) -> None:
    folder = save_model("bert", "half")
    kept = {name: w for name, w in load_file(folder / "model.safetensors").items() if not name.startswith(missing)}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(BadInput, match=said):
        load(folder, pooling)
    assert not pooling or load(folder).dim == 64, "a pooler is missed only where it is the pooling"


def test_a_folder_whose_weights_are_no_weights_or_whose_dense_layer_is_gone_is_refused(save_model: SaveModel) -> None:
    broken, without = save_model("bert", "broken"), save_model("labse", "no-dense")
    (broken / "model.safetensors").write_bytes(b"not weights")
    (without / "2_Dense/model.safetensors").unlink()
    with pytest.raises(BadInput, match=r"the weights in .*broken can't be loaded .*fetch the model again"):
        load(broken)
    with pytest.raises(BadInput, match=r"the dense layer in .*2_Dense can't be read .*fetch the model again"):
        load(without)


@pytest.mark.parametrize("kind", ["mt5", "bart"])
def test_of_a_model_that_decodes_the_encoder_alone_is_exported(kind: str, tmp_path: Path, hugging_face: Paths) -> None:
    torch.manual_seed(0)
    if kind == "mt5":
        size = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2}
        model = transformers.MT5Model(transformers.MT5Config(vocab_size=300, **size))
    else:
        each = {"layers": 1, "ffn_dim": 32, "attention_heads": 2}
        size = {f"{part}_{name}": value for part in ("encoder", "decoder") for name, value in each.items()}
        model = transformers.BartModel(transformers.BartConfig(vocab_size=300, d_model=32, **size))
    model.eval().save_pretrained(tmp_path)
    copy_tokenizer(hugging_face["bert"], tmp_path)
    source = load(tmp_path, "mean")
    assert not any("decoder" in name for name in source.module.state_dict())
    ids, mask = ragged([9, 4, 1], 9, padding=0)
    with torch.no_grad():
        states = model.get_encoder()(torch.from_numpy(ids), torch.from_numpy(mask)).last_hidden_state.numpy()
    means = np.stack([states[row, : int(mask[row].sum())].mean(axis=0) for row in range(3)])
    huggingface.export_token_graph(source.module, tmp_path / "graph.onnx")
    np.testing.assert_allclose(run(tmp_path / "graph.onnx", ids, mask), unit_rows(means), atol=2e-6)


def test_code_of_a_model_is_never_run(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "mine", "auto_map": {"AutoConfig": "code.Config"}}')
    with pytest.raises(BadInput, match="code of its own is never run"):
        huggingface._load_encoder(tmp_path, keep_pooler=False)


def test_a_slow_tokenizer_is_refused_before_any_weights(tmp_path: Path, monkeypatch: Patch) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "xlm"}')
    (tmp_path / "vocab.json").write_text('{"<unk>": 0, "a</w>": 1}')
    fetched = []

    def snapshot(_model: str, *, allow_patterns: list[str], local_files_only: bool = False, **_: object) -> str:
        if local_files_only:
            raise LocalEntryNotFoundError("not in the cache")
        fetched.extend(allow_patterns)
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    for name in ("someone/xlm-mlm-100", str(tmp_path)):
        with pytest.raises(BadInput, match=r"tokenizer in Python only \(XLMTokenizer\)"):
            find_source(name, lambda _: None, huggingface.require_fast_tokenizer)
    assert fetched
    assert not any("safetensors" in pattern or pattern.endswith(".bin") for pattern in fetched)


@pytest.mark.parametrize("package", ["torch", "transformers", "onnxscript"])
def test_without_torch_one_sentence_says_what_to_install(package: str, hugging_face: Paths, monkeypatch: Patch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    said = r"^this needs PyTorch and transformers; install them: make install EXTRAS=train$"
    with pytest.raises(MissingPart, match=said):
        load(hugging_face["bert"])


def test_the_default_weights_are_saved_in_silence(default_folder: ModelFolder, tmp_path: Path, capfd: Capture) -> None:
    save_source(tmp_path)
    assert capfd.readouterr() == ("", "")
    texts = [GateText("de", "query", "Wer zahlt für das Wasser?"), GateText("ja", "query", "天気")]
    queries = [default_folder.config.query_prefix + text.text for text in texts]
    reference = huggingface.reference_vectors(load(tmp_path), queries)
    assert (encode(default_folder, texts) * reference).sum(axis=1).min() >= 0.99


def test_a_folder_without_a_pooler_can_not_be_pooled_by_it(tmp_path: Path, hugging_face: Paths) -> None:
    config = transformers.DistilBertConfig(vocab_size=300, dim=32, n_layers=1, n_heads=2, hidden_dim=32)
    transformers.DistilBertModel(config).save_pretrained(tmp_path)
    copy_tokenizer(hugging_face["bert"], tmp_path)
    assert load(tmp_path).dim == 32
    with pytest.raises(BadInput, match="has no pooler to make cls-dense-tanh of"):
        load(tmp_path, "cls-dense-tanh")


ROWS = [np.random.default_rng(length).integers(4, 60, length).tolist() for length in (5, 40, 17, 3, 90, 5, 9)]
BATCHES = [*token_inputs(ROWS, 1, 100), *token_inputs(ROWS[:1], 1, 100)]


@pytest.fixture(params=SHAPES)
def plain(request: pytest.FixtureRequest, sources: Sources, tmp_path: Path) -> Path:
    huggingface.export_token_graph(sources[request.param].module, tmp_path / "plain.onnx")
    return tmp_path / "plain.onnx"


def _fused(plain: Path, batches: Sequence[Inputs]) -> Path:
    graph = plain.with_name("graph.onnx")
    shutil.copyfile(plain, graph)  # the weights beside it are those of both
    fuse_attention(graph, batches)
    return graph


def _operations(graph: Path) -> list[str]:
    return [node.op_type for node in onnx.load(graph, load_external_data=False).graph.node]


def test_padded_or_not_both_graphs_give_the_same_vectors(plain: Path, tmp_path: Path) -> None:
    fused = _fused(plain, BATCHES)
    assert _operations(fused).count("MultiHeadAttention") == 2
    assert not {"Softmax", "GatherND", "Where", "Range"} & set(_operations(fused))
    half = tmp_path / "half.onnx"
    convert(fused, half, "fp16", BATCHES)
    assert without_kernel(onnx.load(half)) == []
    assert remove_padding(onnx.load(half))
    sessions = [load_graph(graph, CPU) for graph in (plain, fused, half)]
    for batch in BATCHES:
        expected, vectors, by_half = (session.run(None, dict(batch))[0] for session in sessions)
        np.testing.assert_allclose(vectors, expected, atol=1e-5)
        np.testing.assert_allclose(by_half, expected, atol=0.01)


def test_attention_that_depends_on_more_than_the_padding_stays_as_it_is(plain: Path) -> None:
    """The first token here sees nothing of the third: its mask says so whatever the padding."""
    model = onnx.load(plain)
    far = np.zeros((1, 1, 1, 3), dtype=np.float32)
    far[..., 2] = -1e4
    three = [{name: array[:, :3] for name, array in batch.items()} for batch in BATCHES]
    model.graph.initializer.append(numpy_helper.from_array(far, "far"))
    for node in list(model.graph.node):
        if node.op_type == "Softmax":
            (scores,) = (other for other in model.graph.node if node.input[0] in other.output)
            scores.input[1] = "far"
    onnx.save(model, plain)
    before = plain.read_bytes()
    assert _fused(plain, three).read_bytes() == before
    assert sorted(file.suffix for file in plain.parent.iterdir()) == [".data", ".onnx", ".onnx"]
