"""``dragoman export``: a folder that every other command opens, proved, or nothing at all."""

# ruff: noqa: F811 - pytest fills a parameter with the fixture of its name, imported below

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from encoders.document import Document
from encoders.errors import BadInput, DragomanError, MissingPart
from encoders.folder.model_folder import ModelFolder
from encoders.inference.cross_encoder import Reranker
from encoders.methods.method_registry import open_encoder
from onnx_export.models import DEFAULT, encoder_names
from query.cli import run as dragoman
from query.commands.export import command as export
from tests.onnx_export.conftest import (  # noqa: F401
    SHAPES,
    SaveModel,
    _exports_once,
    hugging_face,
    save_model,
    save_reranker,
)

pytestmark = pytest.mark.torch


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(export, [str(argument) for argument in arguments])


def refusal(kind: type[DragomanError], *arguments: str | Path) -> str:
    result = run(*arguments)
    assert isinstance(result.exception, kind), result.output
    return str(result.exception)


def outliers(model: Any) -> None:
    """In each layer giant weights of an activation that is 0: no matter in float, but in int8 they leave no levels."""
    for layer in model.encoder.layer:
        layer.intermediate.dense.bias.data[0] = -1000.0
        layer.output.dense.weight.data[:, 0] = 3000.0


@pytest.fixture(scope="module")
def exported(hugging_face: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {}
    for shape in SHAPES:
        made[shape] = tmp_path_factory.mktemp("exported") / shape
        result = run(hugging_face[shape], "-o", made[shape], "--precision", "int8", "--languages", "ger,pt-BR,zh-Hant")
        assert result.exception is None, result.output
    return made


@pytest.mark.parametrize(("shape", "pooling"), [("bert", "mean"), ("xlm-r", "mean"), ("labse", "cls-dense-tanh")])
def test_the_folder_encodes_and_states_how_near_it_is(shape: str, pooling: str, exported: Mapping[str, Path]) -> None:
    folder = ModelFolder.open(exported[shape])
    encoder = open_encoder(folder, device="cpu")
    documents = [Document("1", "de", "Der Sauerteig braucht Zeit."), Document("2", "en", "tides " * 300, title="Sea")]
    vectors = encoder.encode_documents(documents).vectors
    queries = encoder.encode_queries([Document("q", "fr", "la marée")])
    assert (vectors.shape, queries.shape) == ((2, 64), (1, 64))
    np.testing.assert_allclose(np.linalg.norm(np.vstack((vectors, queries)), axis=1), 1, atol=1e-5)
    assert (folder.config.pooling, folder.config.precision, folder.config.name) == (pooling, "int8", f"tiny-{shape}")
    assert folder.config.languages == ("de", "pt", "zh-Hant")
    parity = json.loads((folder.path / "parity.json").read_text())
    assert (parity["passed"], parity["forced"], parity["texts"]) == (True, False, 72)
    assert parity["cosine_mean"] >= parity["bar"]["cosine_mean"]
    assert f"cosine mean | {parity['cosine_mean']:.5f} | ≥ 0.99 | ok" in (folder.path / "MODEL_CARD.md").read_text()
    names = {file.name for file in folder.path.iterdir()}
    table = {"pieces.db"} if shape == "xlm-r" else set()  # of unigram tokenizers
    assert names == {"config.json", "model.onnx", "tokenizer.json", "parity.json", "MODEL_CARD.md"} | table


@pytest.mark.parametrize("precision", ["fp32", "fp16", "q4"])
def test_builds_of_one_model_share_its_id_and_differ_in_theirs(
    precision: str, exported: Mapping[str, Path], hugging_face: Mapping[str, Path], tmp_path: Path
) -> None:
    result = run(hugging_face["bert"], "-o", tmp_path / "made", "--precision", precision, "--json")
    assert result.exception is None, result.output
    stated = json.loads(result.stdout)
    first, second = ModelFolder.open(exported["bert"]).config, ModelFolder.open(tmp_path / "made").config
    assert first.model_id("first") == second.model_id("first")
    assert first.build_id != second.build_id == stated["build"]
    assert (stated["folder"], stated["parity"]["passed"]) == (str(tmp_path / "made"), True)


def test_below_the_bar_nothing_is_published_unless_it_is_forced(save_model: SaveModel, tmp_path: Path) -> None:
    folder, made = save_model("bert", "outliers", change=outliers), tmp_path / "made"
    sentence = refusal(BadInput, folder, "-o", made)
    assert "differs too much from its source to be published (cosine_min" in sentence
    assert sentence.endswith("take another --precision, or --force")
    assert list(tmp_path.iterdir()) == []
    forced = run(folder, "-o", made, "--force", "-q")
    assert forced.exception is None
    assert "below" in forced.stdout
    assert forced.stderr.startswith("warning: published below the parity bar (cosine_min")
    parity = json.loads((made / "parity.json").read_text())
    assert (parity["passed"], parity["forced"]) == (False, True)
    assert "**not reached**; published because it was forced" in (made / "MODEL_CARD.md").read_text()
    assert run(folder, "-o", tmp_path / "exact", "--precision", "fp32").exception is None


def test_making_a_reranker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    source = save_reranker(tmp_path / "tiny-ranker")
    result = run(source, "--precision", "fp32", "--languages", "de,en", "--json")
    assert result.exception is None, result.output
    assert "a reranker: a score is the model's one logit; at most 128 tokens a pair" in result.stderr
    stated = json.loads(result.stdout)
    folder = tmp_path / "cache" / "models" / "tiny-ranker-fp32"
    assert (stated["folder"], stated["pooling"], stated["dim"]) == (str(folder), "cross-encoder", 1)
    assert (stated["parity"]["passed"], stated["parity"]["texts"]) == (True, 24)
    scores = Reranker(ModelFolder.open(folder), device="cpu").scores([("Brot", "Der Teig ruht."), ("Brot", "tides")])
    assert scores.shape == (2,)
    assert "A reranker, made from" in (folder / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert encoder_names() == [DEFAULT]
    for command, shown in ((["list"], "tiny-ranker-fp32 (reranker)"), (["show", "tiny-ranker-fp32"], "A reranker,")):
        assert dragoman(["encoders", *command]) == 0
        assert shown in capsys.readouterr().out


def test_with_a_pooling_it_becomes_an_encoder_and_without_one_it_takes_no_prefixes(tmp_path: Path) -> None:
    source, prefix = save_reranker(tmp_path / "tiny-ranker", labels=3), ("--query-prefix", "q: ")
    result = run(source, "-o", tmp_path / "made", "--precision", "fp32", "--pooling", "mean", *prefix)
    assert result.exception is None, result.output
    config = ModelFolder.open(tmp_path / "made").config
    assert (config.pooling, config.dim, config.query_prefix) == ("mean", 64, "q: ")
    sentence = refusal(BadInput, save_reranker(tmp_path / "another"), "-o", tmp_path / "other", *prefix)
    assert "is a reranker, which has no prefixes and no dimensions; leave them out, or state a --pooling" in sentence


def test_a_model_is_replaced(exported: Mapping[str, Path], hugging_face: Mapping[str, Path], tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert "holds something that is no exported model" in refusal(BadInput, hugging_face["bert"], "-o", tmp_path)
    assert "is a file; choose another" in refusal(BadInput, hugging_face["bert"], "-o", tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "mine"
    model = shutil.copytree(exported["xlm-r"], tmp_path / "model")
    before = ModelFolder.open(model).config
    assert run(hugging_face["xlm-r"], "-o", model, "--languages", "de,pt,zh-Hant", "--name", "again").exception is None
    assert ModelFolder.open(model).config == replace(before, name="again")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["{exported}"], "it is an exported folder already"),
        *(([name], f"there is no folder {name}") for name in ("./nowhere", "/nowhere/at/all", "a/b/c", "no name")),
        *((["{source}", "--name", name], "can't be a model's name") for name in ("a/b", ".hidden")),
        (["{source}", "--languages", "de,qqqq"], "is no language code"),
    ],
)
def test_what_can_not_be_exported_is_refused(
    arguments: list[str], sentence: str, exported: Mapping[str, Path], hugging_face: Mapping[str, Path]
) -> None:
    places = {"exported": exported["bert"], "source": hugging_face["bert"]}
    assert sentence in refusal(BadInput, *(argument.format(**places) for argument in arguments))


def test_a_name_is_looked_up_in_the_cache_and_needs_no_network_where_it_is_there(
    hugging_face: Mapping[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)  # the client reads its environment once, when imported
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    sentence = refusal(MissingPart, "somebody/some-encoder", "--name", "x")
    assert "is not in the local cache and the hub can't be reached; fetch it where there is a network" in sentence
    place = tmp_path / "models--somebody--tiny-e5"
    snapshot = place / "snapshots" / ("0" * 40)
    snapshot.parent.mkdir(parents=True)
    snapshot.symlink_to(hugging_face["xlm-r"])
    (place / "refs").mkdir()
    (place / "refs/main").write_text("0" * 40)
    result = run("somebody/tiny-e5", "-o", tmp_path / "made", "--precision", "fp32", "--document-prefix", "")
    assert result.exception is None, result.output
    assert "queries begin with 'query: ', documents with ''" in result.stderr
    assert "the model states no pooling, so the mean is taken; --pooling takes another" in result.stderr
    config = ModelFolder.open(tmp_path / "made").config
    assert (config.name, config.query_prefix, config.document_prefix) == ("tiny-e5", "query: ", "")
    assert "Made from `somebody/tiny-e5`" in (tmp_path / "made/MODEL_CARD.md").read_text()
