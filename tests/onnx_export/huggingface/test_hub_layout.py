"""What a Hugging Face folder states is taken; what no graph has is refused with a sentence."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from encoders.errors import BadInput
from encoders.folder.model_config import Pooling
from onnx_export.huggingface.hub import find_source, read_card
from onnx_export.huggingface.hub_layout import DenseLayer, Layout, choose_pooling, choose_prefixes, read_layout
from tests.conftest import Patch
from tests.onnx_export.conftest import write_json

HERE = Path("model")
CLS = {"pooling_mode": "cls"}
TANH, IDENTITY = DenseLayer(HERE / "2_Dense", "tanh"), DenseLayer(HERE / "2_Dense", "identity")


def sentence_layout(folder: Path, *kinds: str, pooling: dict[str, Any], dense: dict[str, Any] | None = None) -> Path:
    new = "sentence_transformers.sentence_transformer.modules"
    modules = [(f"{at}_{kind}" if at else "", f"{new}.{kind.lower()}.{kind}") for at, kind in enumerate(kinds)]
    write_json(folder / "modules.json", [{"path": path, "type": kind} for path, kind in modules])
    write_json(folder / "1_Pooling/config.json", pooling)
    write_json(folder / "2_Dense/config.json", dense or {})
    return folder


@pytest.mark.parametrize(
    "pooling",
    [{"pooling_mode": one} for one in ("cls", ["cls"])]
    + [{"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}],
)
def test_both_spellings_of_pooling_are_read_or_none_is_stated(tmp_path: Path, pooling: dict[str, Any]) -> None:
    write_json(tmp_path / "config.json", {"model_type": "bert"})
    assert read_layout(tmp_path) == Layout(transformer=tmp_path)
    layout = read_layout(sentence_layout(tmp_path, "Transformer", "Pooling", "Normalize", pooling=pooling))
    assert (layout.pooling, layout.dense) == ("cls", ())


def test_labses_layout_is_read_whole(tmp_path: Path) -> None:
    pooling = {"pooling_mode": "cls", "include_prompt": True}
    dense = {"activation_function": "torch.nn.modules.activation.Tanh"}
    kinds = "Transformer", "Pooling", "Dense", "Normalize"
    folder = sentence_layout(tmp_path, *kinds, pooling=pooling, dense=dense)
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 256, "do_lower_case": True})
    write_json(folder / "config_sentence_transformers.json", {"prompts": {"query": "ask: ", "document": ""}})
    layers = (DenseLayer(folder / "2_Dense", "tanh"),)
    assert read_layout(folder) == Layout(
        folder, "cls", layers, 256, lower_case=True, prompts={"query": "ask: ", "document": ""}
    )


@pytest.mark.parametrize(
    ("pooling", "dense", "sentence"),
    [
        ({"pooling_mode": "mean_sqrt_len"}, {}, "asks for pooling by mean_sqrt_len; one of mean, cls, max"),
        ({"pooling_mode_max_tokens": True, "pooling_mode_cls_token": True}, {}, "pooling by max and cls"),
        ({"pooling_mode": "mean", "include_prompt": False}, {}, "leaves the prompt's tokens out of pooling"),
        ({}, {}, "asks for pooling by nothing"),
        (CLS, {"activation_function": "torch.nn.modules.activation.ReLU"}, "has the activation ReLU; dense layers"),
        (CLS, {"use_residual": True}, "a residual"),
        (CLS, {"module_input_name": "token_embeddings"}, "on single tokens"),
    ],
)
def test_a_pooling_or_a_dense_layer_that_no_graph_has_is_one_sentence(
    tmp_path: Path, pooling: dict[str, Any], dense: dict[str, Any], sentence: str
) -> None:
    folder = sentence_layout(tmp_path, "Transformer", "Pooling", "Dense", pooling=pooling, dense=dense)
    with pytest.raises(BadInput, match=sentence) as caught:
        read_layout(folder)
    assert not re.search(r"[.!?]\s+[A-Z]|\n", str(caught.value))


@pytest.mark.parametrize("kinds", [("StaticEmbedding",), ("Transformer", "WordWeights", "Pooling"), ("Transformer",)])
def test_modules_of_another_kind_are_named_and_refused(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    with pytest.raises(BadInput, match=f"is made of {', '.join(kinds)}; a model that can be exported is"):
        read_layout(sentence_layout(tmp_path, *kinds, pooling={}))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "holds no Hugging Face model: it has neither config.json nor modules.json"),
        ("{", "config.json can't be read .*; fetch the model again"),
        ("[]", "is not a JSON object"),
        ("{}", "names no model_type, so it is no transformer's$"),
        ('{"format": 1, "graph": "0"}', "it is an exported folder already"),
    ],
)
def test_a_folder_that_is_no_model_is_refused(tmp_path: Path, content: str | None, sentence: str) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(BadInput, match=sentence):
        read_layout(tmp_path)


@pytest.mark.parametrize(
    ("stated", "layers", "asked", "pooling", "dense"),
    [
        *[(None, (), asked, asked or "mean", ()) for asked in (None, "cls", "cls-dense-tanh")],
        ("mean", (), None, "mean", ()),
        *[("cls", (TANH,), asked, "cls-dense-tanh", (TANH,)) for asked in (None, "cls-dense-tanh")],
        ("cls", (TANH,), "mean", "mean", ()),
        ("mean", (TANH,), None, "mean", (TANH,)),
        ("cls", (IDENTITY,), None, "cls", (IDENTITY,)),
    ],
)
def test_the_user_decides_pooling_then_the_folder_then_the_mean(
    stated: Any, layers: tuple[DenseLayer, ...], asked: Pooling | None, pooling: Pooling, dense: tuple[DenseLayer, ...]
) -> None:
    recipe = choose_pooling(Layout(HERE, stated, layers), asked)
    pooler = pooling == "cls-dense-tanh" and not dense
    assert (recipe.pooling, recipe.dense, recipe.pooler) == (pooling, dense, pooler)
    silent = (asked is None and stated) or dense or (asked in ("mean", "cls") and not layers)
    assert bool(recipe.remark) is not bool(silent), "a choice that nobody stated is said"
    with pytest.raises(BadInput, match="needs one dense layer with tanh"):
        choose_pooling(Layout(HERE, "cls", (IDENTITY,)), "cls-dense-tanh")


@pytest.mark.parametrize(
    ("name", "prompts", "default", "expected"),
    [
        *[(name, {}, None, ("query: ", "passage: ")) for name in ("multilingual-e5-small", "mE5_base")],
        *[(name, {}, None, ("", "")) for name in ("multilingual-e5-large-instruct", "base5-bert", "LaBSE")],
        ("any", {"query": "q: ", "passage": "p: "}, None, ("q: ", "p: ")),
        ("any", {"query": "q: ", "document": "d: "}, None, ("q: ", "d: ")),
        ("e5", {"query": "q: "}, None, ("q: ", "")),
        ("any", {"retrieval": "r: ", "query": "q: "}, "retrieval", ("q: ", "r: ")),
    ],
)
def test_prefixes_are_prompts_or_e5s(name: str, prompts: dict[str, str], default: str | None, expected: object) -> None:
    assert choose_prefixes(Layout(HERE, prompts=prompts, default_prompt=default), name)[:2] == expected
    assert "for web_query: --query-prefix" in choose_prefixes(Layout(HERE, prompts={"web_query": "q: "}), name)[2]


@pytest.mark.torch
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("---\nlicense: mit\nlanguage: [de, no, multilingual, pt-BR, de]\n---\n# A model", ("mit", ("de", "nb", "pt"))),
        ("---\nlanguage: fr\n---\n", ("", ("fr",))),
        ("---\nlanguage: no\n---\n", ("", ("nb",))),
        *[(text, ("", ())) for text in ("---\nlanguage:\n---\n", "---\nlanguage: [fr\n---\n", "# No header", None)],
    ],
)
def test_a_card_has_licence_and_languages(tmp_path: Path, text: str | None, expected: object) -> None:
    if text is not None:
        (tmp_path / "README.md").write_text(text)
    assert read_card(tmp_path) == expected


@pytest.mark.torch
@pytest.mark.parametrize("transformer", ["model.safetensors", "pytorch_model.bin"])
def test_weights_of_all_layers_are_fetched(tmp_path: Path, monkeypatch: Patch, transformer: str) -> None:
    from huggingface_hub.errors import LocalEntryNotFoundError
    from huggingface_hub.utils import filter_repo_objects

    hub, cache = tmp_path / "hub", tmp_path / "cache"
    sentence_layout(hub, "Transformer", "Pooling", "Dense", pooling={"pooling_mode": "mean"})
    (dense,) = {"model.safetensors", "pytorch_model.bin"} - {transformer}
    weights = {transformer, f"2_Dense/{dense}"}
    for file in (*weights, "2_Dense/model.onnx"):
        (hub / file).write_bytes(b"")

    def snapshot(_model: str, *, allow_patterns: list[str], local_files_only: bool = False, **ignored: Any) -> str:
        if local_files_only and not cache.exists():
            raise LocalEntryNotFoundError("not in the cache")
        files = (str(file.relative_to(hub)) for file in hub.rglob("*") if file.is_file() and not local_files_only)
        for file in filter_repo_objects(files, allow_patterns=allow_patterns, **ignored):
            (cache / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(hub / file, cache / file)
        return str(cache)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    for missing in (*weights, None):
        assert find_source("someone/model", lambda _: None) == cache
        assert weights <= {str(file.relative_to(cache)) for file in cache.rglob("*")}
        if missing:
            (cache / missing).unlink()
    assert not (cache / "2_Dense/model.onnx").exists()


@pytest.mark.torch
def test_a_cached_model_that_cannot_be_exported_asks_no_hub(tmp_path: Path, monkeypatch: Patch) -> None:
    sentence_layout(tmp_path, "Transformer", "Pooling", pooling={"pooling_mode": "max"})
    (tmp_path / "model.safetensors").write_bytes(b"")

    def snapshot(_model: str, *, local_files_only: bool = False, **_: Any) -> str:
        assert local_files_only
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    assert find_source("someone/model", lambda _: None) == tmp_path
