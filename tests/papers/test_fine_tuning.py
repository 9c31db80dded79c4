"""A document encoder trained for a classification: it begins as the exported one, and learns what that can't."""

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from encoders.console import QUIET
from encoders.document import Document
from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder
from encoders.hmde.upper import UpperShape
from encoders.methods.method_registry import open_encoder
from onnx_export.hmde import lower_base as bases
from onnx_export.hmde.hmde_folder import publish
from onnx_export.hmde.hmde_settings import Settings
from onnx_export.hmde.upper_model import Upper
from papers.fine_tuning import Classifier, Examples, load_documents
from papers.hmde_mldoc import FineTuning
from papers.trainable import copy_weights, open_trainable, restore_weights
from query.cli import run
from tests.onnx_export.conftest import SaveModel
from tests.papers.conftest import Ask

pytestmark = [pytest.mark.torch, pytest.mark.train]
UPPER = UpperShape(64, layers=1, heads=1, feed_forward=32)
SAID = {"lower": "small", "settings": {"frozen": False}, "documents": 60, "languages": {"de": 20}, "best": 4}
SAID |= {"steps": 12, "score": 0.5, "untrained": 0.4, "validated": True}


@pytest.fixture(scope="module")
def exported(small_model: Path, tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    """The small model as ``dragoman export`` makes a folder of it."""
    target = tmp_path_factory.mktemp("exported") / "small"
    assert run(["export", str(small_model), "-o", str(target), "--precision", "fp32", "-q"]) == 0
    return ModelFolder.open(target)


@pytest.fixture(scope="module")
def hmde(small_model: Path, tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    """An HMDE folder whose lower encoder learnt something."""
    base = bases.open_trained(str(small_model), Settings(), "cpu", QUIET)
    torch.manual_seed(3)
    with torch.no_grad():
        for weight in base.lower.parameters():
            weight.add_(0.02 * torch.randn_like(weight))
    upper = Upper(UPPER)
    return publish(upper, base, tmp_path_factory.mktemp("made") / "documents", "fp32", SAID, {}, QUIET)[0]


def opened(folder: ModelFolder, method: str, checkpoint: Path | None) -> Any:
    return open_trainable(str(folder.path), method, str(checkpoint) if checkpoint else None, "cpu", QUIET)


def texts(pages: Sequence[Document]) -> list[Document]:
    """Pages of a few sentences, one that is long and one that is nothing."""
    long = Document("long", "de", "\n".join(page.text for page in pages[:20]))
    return [*pages[:4], long, Document("none", "de", " \n ")]


@pytest.mark.parametrize("method", ["segments", "first", "first of cls", "hmde"])
def test_it_begins_with_the_vectors_of_the_exported_encoder(
    method: str, exported: ModelFolder, hmde: ModelFolder, small_model: Path, pages: list[Document], tmp_path: Path
) -> None:
    folder = hmde if method == "hmde" else exported
    if method == "first of cls":  # it learns with the pooling that it was exported with
        options = ["--precision", "fp32", "--pooling", "cls", "-q"]
        assert run(["export", str(small_model), "-o", str(tmp_path / "small"), *options]) == 0
        folder, method = ModelFolder.open(tmp_path / "small"), "first"
    encoder = opened(folder, method, small_model)
    asked = texts(pages)
    rows = load_documents(encoder, asked)
    with torch.no_grad():
        ours = encoder.documents(list(rows.values())).numpy()
    theirs = open_encoder(folder, method, device="cpu").encode_documents(asked)
    most = max(len(passages.without_title().vectors) for passages in theirs.passages)
    if method == "hmde":  # the index reads sentences as int8 rows
        assert most > UPPER.sentences
        assert (ours[:-1] * theirs.vectors[:-1]).sum(axis=1).min() > 0.999
        np.testing.assert_array_equal(ours[-1], 0)
    else:
        assert (most > 1) == (method == "segments")
        np.testing.assert_allclose(ours, theirs.vectors, atol=1e-5)


@pytest.fixture(scope="module")
def stories(small_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MLDoc's files: in each story one word out of twenty tells its class, among twenty that tell nothing."""
    vocabulary = json.loads((small_model / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    words = sorted((word for word in vocabulary if word.isalpha()), key=lambda word: (-len(word), word))
    telling, nothing = words[:20], words[20:]
    folder = tmp_path_factory.mktemp("mldoc")
    chance = np.random.default_rng(0)

    def lines(count: int) -> Iterator[str]:
        for number in range(count):
            story = [*chance.choice(nothing, 20).tolist(), telling[number % 20]]
            yield f"{'CCAT' if number % 2 else 'GCAT'}\t{' '.join(chance.permutation(story).tolist())}\n"

    for language in ("english", "german"):
        for part, count in (("train.1000", 400), ("dev", 80), ("test", 120)):
            (folder / f"{language}.{part}").write_text("".join(lines(count)), encoding="utf-8")
    return folder


def test_it_learns_what_frozen_ones_can_not(exported: ModelFolder, small_model: Path, stories: Path, ask: Ask) -> None:
    given = ["--mldoc", str(stories), "--encoder", str(exported.path), "--device", "cpu", "--json"]
    learnt = ["--fine-tuned", "--checkpoint", str(small_model), "--rate", "0.003", "--epochs", "9"]
    captured = ask("hmde-mldoc", *given, *learnt)
    told = json.loads(captured.out)
    assert told["languages"]["de"]["accuracy"] < 75
    assert told["fine_tuned"]["languages"]["de"]["accuracy"] > 85
    assert "epoch 1: loss" in captured.err


def test_trainings_over_several_lower_encoders_are_fine_tuned(
    hmde: ModelFolder, small_model: Path, stories: Path, tmp_path: Path, ask: Ask
) -> None:
    second = shutil.copytree(hmde.path, tmp_path / "second")
    given = [f"--encoder={hmde.path}", f"--encoder={second}", "--mldoc", str(stories), "--device", "cpu", "--json"]
    learnt = ["--fine-tuned", "--rate", "0.003", "--epochs", "1"]
    checkpoint = ["--checkpoint", str(small_model)]
    captured = ask("hmde-variants", *given, *learnt, *checkpoint, *checkpoint)
    first, other = (variant["xldc"] for variant in json.loads(captured.out)["variants"])
    assert first == other > 0
    assert captured.err.count("epoch 1: loss") == 2
    assert "epoch 2" not in captured.err
    assert "as many as --encoder" in ask("hmde-variants", *given, *learnt, *checkpoint * 3, status=2).err
    assert "belong to --fine-tuned" in ask("hmde-variants", *given, "--epochs", "1", status=2).err


def test_the_upper_learns_and_the_best_epoch_stays(hmde: ModelFolder, small_model: Path, pages: list[Document]) -> None:
    encoder = opened(hmde, "hmde", small_model)
    rows = load_documents(encoder, pages)
    labels = [str(page.fields["category"][0]) for page in pages]
    examples = Examples(list(rows.values()), labels)
    before = copy_weights(encoder.parameters())
    classifier = Classifier(encoder, labels, FineTuning(rate=0.02, epochs=5, batch=16))
    classifier.train(examples, examples, QUIET)
    assert classifier.losses[classifier.best - 1] == min(classifier.losses)
    assert abs(classifier.scores(examples)[0] - min(classifier.losses)) < 1e-4
    assert all((one != other).any() for one, other in zip(before, encoder.parameters(), strict=True) if one.ndim > 1)
    restore_weights(encoder.parameters(), before)
    assert all((one == other).all() for one, other in zip(before, encoder.parameters(), strict=True))


def test_without_known_labels_or_a_loss_it_is_told(hmde: ModelFolder, small_model: Path, pages: list[Document]) -> None:
    """Dev documents whose labels training lacks would have loss 0, the smallest: the first epoch would be the best."""
    encoder = opened(hmde, "hmde", small_model)
    rows = list(load_documents(encoder, pages[:8]).values())
    train = Examples(rows, ["a", "b"] * 4)
    classifier = Classifier(encoder, train.labels, FineTuning())
    for dev in (Examples(rows, ["c"] * 8), Examples([], [])):
        with pytest.raises(BadInput, match="no document of the part 'dev' has a label of the part 'train'"):
            classifier.train(train, dev, QUIET)
    encoder.parameters()[0].data.fill_(float("nan"))
    with pytest.raises(BadInput, match="no number any more at step 1; train with a smaller --rate"):
        classifier.train(train, train, QUIET)


def test_an_upper_encoder_keeps_weights_learnt_before(hmde: ModelFolder, small_model: Path, tmp_path: Path) -> None:
    before = (hmde.path / "weights.safetensors").read_bytes()
    base = bases.open_frozen(str(hmde.path), Settings(frozen=True), "cpu", QUIET)
    made, _ = publish(Upper(UpperShape(64, layers=1, heads=1)), base, tmp_path / "again", "fp32", SAID, {}, QUIET)
    assert opened(made, "segments", small_model).config.weights == hmde.config.weights
    assert (hmde.path / "weights.safetensors").read_bytes() == before


def test_what_can_not_learn_or_is_damaged_is_refused(
    exported: ModelFolder, hmde: ModelFolder, small_model: Path, save_model: SaveModel, tmp_path: Path
) -> None:
    for folder, method, checkpoint, said in (
        (exported, "segments", None, r"can't learn; name the Hugging Face folder .* --checkpoint FOLDER"),
        (exported, "segments", save_model("bert", "other", seed=1), r"is not what .* was exported from"),
        (hmde, "hmde", save_model("xlm-r", "sideways"), "is of another shape than the lower encoder of"),
        (exported, "windows", small_model, "by method windows can't be trained; give --method hmde or segments"),
    ):
        with pytest.raises(BadInput, match=said):
            opened(folder, method, checkpoint)
    damaged = ModelFolder.open(shutil.copytree(hmde.path, tmp_path / "damaged"))
    weights = damaged.path / "weights.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 0x40
    for content, said in (
        (data, r"is damaged or of another training; train it again"),
        (data[:100], r"weights.safetensors can't be read"),
        (None, r"has no weights.safetensors"),
    ):
        weights.unlink()
        if content:
            weights.write_bytes(content)
        with pytest.raises(BadInput, match=said):
            opened(damaged, "hmde", small_model)
