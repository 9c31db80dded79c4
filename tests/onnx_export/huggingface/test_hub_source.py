"""Encoders of BERT, XLM-R and LaBSE shape: the graph says what torch says."""

import sys
from collections.abc import Mapping
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
from safetensors.numpy import load_file, save_file
from transformers import AutoModel

from encoders.document import FloatArray, unit_rows
from encoders.errors import BadInput, MissingPart
from encoders.folder.model_config import ModelConfig, Pooling
from encoders.folder.model_folder import ModelFolder
from onnx_export.default_model import default_source
from onnx_export.graphs.parity import GateText, check_parity, compare, encode, read_texts
from onnx_export.graphs.precision import convert
from onnx_export.graphs.samples import sample_texts, token_inputs
from onnx_export.huggingface import hub_source as huggingface
from onnx_export.huggingface.hub import find_source
from onnx_export.huggingface.hub_layout import Layout, choose_pooling, read_layout
from tests.onnx_export.conftest import POSITIONS, SHAPES, SaveModel, save_labse_layers

pytestmark = pytest.mark.torch


def load(folder: Path, pooling: Pooling | None = None) -> huggingface.SourceModel:
    layout = read_layout(folder)
    return huggingface.load(layout, choose_pooling(layout, pooling))


@pytest.fixture(scope="module")
def sources(hugging_face: Mapping[str, Path]) -> dict[str, huggingface.SourceModel]:
    return {shape: load(folder) for shape, folder in hugging_face.items()}


@pytest.fixture(scope="module")
def graphs(sources: Mapping[str, huggingface.SourceModel], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
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


def ragged(lengths: list[int], longest: int, padding: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    mask = (np.arange(longest) < np.array(lengths)[:, None]).astype(np.int64)
    return np.where(mask == 1, rng.integers(4, 300, mask.shape), padding), mask


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("lengths", [[1], [2, 1], [7], [64, 3, 1, 40, 17]])
def test_a_graph_says_what_torch_says_on_batches_of_any_shape(
    shape: str, lengths: list[int], sources: Mapping[str, huggingface.SourceModel], graphs: Mapping[str, Path]
) -> None:
    ids, mask = ragged(lengths, max(lengths), padding=1 if shape == "xlm-r" else 0)
    with torch.no_grad():
        expected = sources[shape].module(torch.from_numpy(ids), torch.from_numpy(mask)).numpy()
    np.testing.assert_allclose(run(graphs[shape], ids, mask), expected, atol=2e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_neither_padding_nor_the_other_texts_of_a_batch_change_a_vector(shape: str, graphs: Mapping[str, Path]) -> None:
    lengths = [5, 30, 12, 1]
    ids, mask = ragged(lengths, 30, padding=1)
    noise, _ = ragged(lengths, 30, padding=77)
    together = run(graphs[shape], ids, mask)
    np.testing.assert_allclose(run(graphs[shape], noise, mask), together, atol=2e-6)
    for row, length in enumerate(lengths):
        alone = run(graphs[shape], ids[row : row + 1, :length], mask[row : row + 1, :length])
        np.testing.assert_allclose(alone[0], together[row], atol=2e-6)


@pytest.mark.parametrize(
    ("shape", "pooling"),
    [("bert", "mean"), ("xlm-r", "mean"), ("bert", "cls"), ("bert", "cls-dense-tanh"), ("labse", None)],
)
def test_pooling_is_what_the_formula_says(
    shape: str, pooling: Pooling | None, hugging_face: Mapping[str, Path]
) -> None:
    folder = hugging_face[shape]
    ids, mask = ragged([9, 4, 1], 9, padding=1 if shape == "xlm-r" else 0)
    model = AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        states = model(input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(mask)).last_hidden_state.numpy()
        vectors = load(folder, pooling).module(torch.from_numpy(ids), torch.from_numpy(mask)).numpy()
    if pooling == "mean":
        pooled = np.stack([states[row, : int(mask[row].sum())].mean(axis=0) for row in range(3)])
    else:
        pooled = states[:, 0]
    if shape == "labse":
        dense = load_file(folder / "2_Dense/model.safetensors")
        pooled = np.tanh(pooled @ dense["linear.weight"].T + dense["linear.bias"])
    elif pooling == "cls-dense-tanh":
        dense = load_file(folder / "model.safetensors")
        pooled = np.tanh(pooled @ dense["pooler.dense.weight"].T + dense["pooler.dense.bias"])
    np.testing.assert_allclose(vectors, unit_rows(pooled), atol=2e-6)


@pytest.mark.long
def test_sentence_transformers_says_the_same_of_its_own_layout(hugging_face: Mapping[str, Path]) -> None:
    library = pytest.importorskip("sentence_transformers")
    texts = [text.text for text in read_texts()]
    expected = library.SentenceTransformer(str(hugging_face["labse"]), device="cpu").encode(texts)
    np.testing.assert_allclose(huggingface.reference_vectors(load(hugging_face["labse"]), texts), expected, atol=5e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_graph_keeps_the_contract_of_model_folders(shape: str, graphs: Mapping[str, Path]) -> None:
    graph = onnx.load(graphs[shape]).graph
    described = {
        info.name: (
            info.type.tensor_type.elem_type,
            [d.dim_param or d.dim_value for d in info.type.tensor_type.shape.dim],
        )
        for info in [*graph.input, *graph.output]
    }
    tokens = (onnx.TensorProto.INT64, ["texts", "tokens"])
    vectors = (onnx.TensorProto.FLOAT, ["texts", 64])
    assert described == {"input_ids": tokens, "attention_mask": tokens, "vectors": vectors}


def test_a_graph_names_no_file_of_the_machine_that_made_it(graphs: Mapping[str, Path]) -> None:
    for graph in graphs.values():
        content = graph.read_bytes()
        assert b"site-packages" not in content
        assert b".py" not in content


def test_the_longest_input_is_the_smallest_limit_stated(sources: Mapping[str, huggingface.SourceModel]) -> None:
    limits = {shape: source.max_tokens for shape, source in sources.items()}
    assert limits == {"bert": POSITIONS, "xlm-r": POSITIONS, "labse": 96}


def test_the_longest_input_really_runs(
    sources: Mapping[str, huggingface.SourceModel], graphs: Mapping[str, Path]
) -> None:
    for shape, graph in graphs.items():
        ids, mask = ragged([sources[shape].max_tokens], sources[shape].max_tokens, padding=1)
        assert np.isfinite(run(graph, ids, mask)).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_the_saved_tokenizer_gives_the_ids_of_transformers_and_cuts_nothing(
    shape: str, sources: Mapping[str, huggingface.SourceModel], tmp_path: Path
) -> None:
    huggingface.save_tokenizer(sources[shape], tmp_path / "tokenizer.json")
    saved = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in read_texts():
        assert saved.encode(text.text).ids == sources[shape].tokenizer(text.text)["input_ids"]
    assert len(saved.encode("a b " * 1000).ids) > 1000
    assert saved.padding is None


def test_lower_casing_moves_into_the_tokenizer(sources: Mapping[str, huggingface.SourceModel], tmp_path: Path) -> None:
    huggingface.save_tokenizer(replace(sources["bert"], lower_case=True), tmp_path / "tokenizer.json")
    saved = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert saved.encode("Kaffee IN Wien").ids == saved.encode("kaffee in wien").ids


def test_the_hash_of_weights_is_the_models_and_not_the_runs(save_model: SaveModel) -> None:
    first, again, other = (save_model("bert", "hashed", seed=seed) for seed in (1, 1, 2))
    assert load(first).weights == load(again).weights
    assert load(first).weights != load(other).weights
    assert load(first).weights == load(first, "cls").weights, "pooling is told apart by the model's id"
    assert load(first).weights != load(first, "cls-dense-tanh").weights, "the pooler's weights count where it is used"


def test_weights_that_are_missing_are_said_and_not_made_up(save_model: SaveModel) -> None:
    folder = save_model("bert", "half")
    weights = load_file(folder / "model.safetensors")
    del weights["encoder.layer.1.output.dense.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(BadInput, match=r"lack 1 tensors, encoder\.layer\.1\.output\.dense\.weight first; fetch"):
        load(folder)


def test_a_missing_pooler_is_missed_only_where_it_is_the_pooling(save_model: SaveModel) -> None:
    folder = save_model("bert", "without-pooler")
    weights = {name: w for name, w in load_file(folder / "model.safetensors").items() if not name.startswith("pooler")}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    assert load(folder).dim == 64
    with pytest.raises(BadInput, match=r"lack 2 tensors, pooler"):
        load(folder, "cls-dense-tanh")


def test_weights_that_are_no_weights_are_refused(save_model: SaveModel) -> None:
    folder = save_model("bert", "broken")
    (folder / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(BadInput, match=r"the weights in .*broken can't be loaded .*fetch the model again"):
        load(folder)


@pytest.mark.parametrize("kind", ["mt5", "bart"])
def test_of_a_model_that_also_decodes_the_encoder_alone_is_exported(
    kind: str, tmp_path: Path, hugging_face: Mapping[str, Path]
) -> None:
    torch.manual_seed(0)
    if kind == "mt5":
        size = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2}
        model = transformers.MT5Model(transformers.MT5Config(vocab_size=300, **size))
    else:
        size = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
        heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
        model = transformers.BartModel(transformers.BartConfig(vocab_size=300, **heads, **size))
    model.eval().save_pretrained(tmp_path)
    for file in hugging_face["bert"].glob("tokenizer*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    source = load(tmp_path, "mean")
    assert not any("decoder" in name for name in source.module.state_dict())
    ids, mask = ragged([9, 4, 1], 9, padding=0)
    with torch.no_grad():
        states = model.get_encoder()(torch.from_numpy(ids), torch.from_numpy(mask)).last_hidden_state.numpy()
    means = np.stack([states[row, : int(mask[row].sum())].mean(axis=0) for row in range(3)])
    huggingface.export_token_graph(source.module, tmp_path / "graph.onnx")
    np.testing.assert_allclose(run(tmp_path / "graph.onnx", ids, mask), unit_rows(means), atol=2e-6)


def test_a_tokenizer_in_python_only_is_refused(save_model: SaveModel) -> None:
    folder = save_model("bert", "slow")
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.json").write_text('{"<unk>": 0, "a</w>": 1, "<pad>": 2}')
    (folder / "merges.txt").write_text("#version: 0.2\n")
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "CTRLTokenizer"}')
    with pytest.raises(
        BadInput, match=r"tokenizer in Python only \(CTRLTokenizer\).*take a model with a fast tokenizer"
    ):
        load(folder)


def test_a_tokenizer_in_python_only_is_refused_before_weights_are_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "xlm"}')
    (tmp_path / "vocab.json").write_text('{"<unk>": 0, "a</w>": 1}')
    fetched = []

    def snapshot(_model: str, *, allow_patterns: list[str], local_files_only: bool = False, **_: object) -> str:
        if local_files_only:
            raise LocalEntryNotFoundError("not in the cache")
        fetched.extend(allow_patterns)
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    with pytest.raises(BadInput, match=r"tokenizer in Python only \(XLMTokenizer\)"):
        find_source("someone/xlm-mlm-100", lambda _: None, huggingface.require_fast_tokenizer)
    assert fetched
    assert not any("safetensors" in pattern or pattern.endswith(".bin") for pattern in fetched)
    with pytest.raises(BadInput, match=r"tokenizer in Python only \(XLMTokenizer\)"):
        find_source(str(tmp_path), lambda _: None, huggingface.require_fast_tokenizer)


def test_a_dense_layer_after_the_mean_that_narrows_is_exported(save_model: SaveModel, tmp_path: Path) -> None:
    folder = save_model("bert", "narrow")
    save_labse_layers(folder, activation="Identity", pooling="mean_tokens", width=24)
    source = load(folder)
    huggingface.export_token_graph(source.module, tmp_path / "graph.onnx")
    ids, mask = ragged([5], 5, padding=0)
    assert (source.dim, run(tmp_path / "graph.onnx", ids, mask).shape) == (24, (1, 24))


@pytest.mark.parametrize("package", ["torch", "transformers", "onnxscript"])
def test_without_torch_or_transformers_one_sentence_says_what_to_install(
    package: str, hugging_face: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        MissingPart, match=r"^this needs PyTorch and transformers; install them: make install EXTRAS=train$"
    ):
        load(hugging_face["bert"])


@pytest.mark.long
def test_e5_rebuilt_as_a_transformers_model_agrees_with_the_default_graph(
    default_folder: ModelFolder, tmp_path: Path
) -> None:
    default_source.save(tmp_path / "e5")
    source = load(tmp_path / "e5")
    config_of = replace(
        default_folder.config, precision="fp32", weights=source.weights, max_tokens=source.max_tokens, pieces=""
    )
    texts = read_texts()
    prefixes = {"query": config_of.query_prefix, "document": config_of.document_prefix}
    reference = huggingface.reference_vectors(source, [prefixes[text.role] + text.text for text in texts])
    huggingface.export_token_graph(source.module, tmp_path / "raw.onnx")
    folders = {name: _folder(tmp_path / name, source, replace(config_of, precision=name)) for name in ("fp32", "int8")}
    batches = list(token_inputs(huggingface.token_rows(source, sample_texts()), 1, source.max_tokens))
    convert(tmp_path / "raw.onnx", folders["fp32"].graph, "fp32", batches)
    convert(tmp_path / "raw.onnx", folders["int8"].graph, "int8", batches)

    assert check_parity(folders["fp32"], texts, reference).passed
    assert check_parity(folders["int8"], texts, reference).passed
    default = compare("int8", texts, encode(default_folder, texts), reference)
    assert default.passed, default.shortfalls()
    assert default.cosine_mean >= 0.99


def test_the_default_encoder_s_weights_are_saved_in_silence_and_are_those_of_its_graph(
    default_folder: ModelFolder, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    default_source.save(tmp_path)
    assert capfd.readouterr() == ("", "")
    texts = [GateText("de", "query", "Wer zahlt für das Wasser?"), GateText("ja", "query", "天気")]
    reference = huggingface.reference_vectors(
        load(tmp_path), [default_folder.config.query_prefix + text.text for text in texts]
    )
    assert (encode(default_folder, texts) * reference).sum(axis=1).min() >= 0.99


def _folder(path: Path, source: huggingface.SourceModel, config: ModelConfig) -> ModelFolder:
    path.mkdir()
    folder = ModelFolder(path, config)
    huggingface.save_tokenizer(source, folder.tokenizer)
    return folder


def test_a_folder_whose_dense_layer_is_gone_is_refused(save_model: SaveModel) -> None:
    folder = save_model("labse", "no-dense")
    (folder / "2_Dense/model.safetensors").unlink()
    with pytest.raises(BadInput, match=r"the dense layer in .*2_Dense can't be read .*fetch the model again"):
        load(folder)


def test_a_folder_without_a_pooler_can_not_be_pooled_by_it(tmp_path: Path, hugging_face: Mapping[str, Path]) -> None:
    config = transformers.DistilBertConfig(vocab_size=300, dim=32, n_layers=1, n_heads=2, hidden_dim=32)
    transformers.DistilBertModel(config).save_pretrained(tmp_path)
    for file in hugging_face["bert"].glob("tokenizer*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    assert load(tmp_path).dim == 32
    layout = Layout(transformer=tmp_path)
    with pytest.raises(BadInput, match="has no pooler to make cls-dense-tanh of"):
        huggingface.load(layout, choose_pooling(layout, "cls-dense-tanh"))
