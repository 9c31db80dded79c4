"""A lower encoder that learnt is exported with the upper one, and both graphs say what torch says."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from encoders.console import Console
from encoders.document import Document
from encoders.folder.model_config import Precision
from encoders.hmde.upper import UpperSession, UpperShape
from encoders.methods.method_registry import open_encoder
from onnx_export.graphs.parity import BARS, compare
from onnx_export.hmde import hmde_folder as publishing
from onnx_export.hmde import lower_base as bases
from onnx_export.hmde.hmde_folder import publish
from onnx_export.hmde.hmde_settings import PRESETS, Settings
from onnx_export.hmde.upper_model import Upper
from tests.onnx_export.hmde.conftest import SETTINGS, training_of

pytestmark = pytest.mark.torch
SAID = {"settings": {"frozen": False}, "documents": 60, "languages": {"de": 20}, "best": 4, "steps": 12}


@pytest.mark.parametrize(
    ("adapters", "precision"), [(0, "fp32"), (0, "int8"), pytest.param(2, "fp32", marks=pytest.mark.train)]
)
def test_both_graphs_pass_the_gate_and_the_folder_is_an_encoder(
    adapters: int,
    precision: Precision,
    finished: Callable[[str], Any],
    small_model: Path,
    pages: list[Document],
    tmp_path: Path,
) -> None:
    settings: Settings = replace(SETTINGS, adapters=adapters)
    if adapters:
        training = training_of(small_model, pages, tmp_path, settings)
        training.resume("it")
        training.run(Console(quiet=True))
    else:
        training = finished("paper")
    base = bases.open_trained(str(small_model), settings, "cpu", Console(quiet=True))
    base.lower.restore(training.lower.state())
    with torch.no_grad():
        for weight in base.lower.parameters():
            weight.add_(0.02)
    assert isinstance(training.upper, Upper)
    said = {**SAID, "validated": True, "untrained": 0.4, "score": 0.5}
    folder, report = publish(training.upper, base, tmp_path / "made", precision, said, {}, Console(quiet=True))
    assert report.passed
    untouched = bases.open_trained(str(small_model), SETTINGS, "cpu", Console(quiet=True))
    assert untouched.source is not None
    assert folder.config.weights != untouched.source.weights
    encoder = open_encoder(folder, device="cpu")
    vectors = encoder.encode_documents(pages[:3]).vectors
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    assert folder.config.precision == precision


def test_an_upper_graph_below_the_bar_is_published_as_forced_and_its_vectors_are_its_own(
    small_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = bases.open_trained(str(small_model), SETTINGS, "cpu", Console(quiet=True))
    upper = Upper(UpperShape(64, 1, 1, 32))
    said = {**SAID, "validated": False}

    def published(name: str) -> tuple[str, dict[str, Any], str]:
        folder, report = publishing.publish(
            upper, base, tmp_path / name, "fp32", said, {}, Console(quiet=True), force=True
        )
        facts = json.loads((folder.path / "hmde.json").read_text(encoding="utf-8"))
        assert facts["parity"]["forced"] == report.forced
        return open_encoder(folder, device="cpu").spec.model, facts, (folder.path / "MODEL_CARD.md").read_text()

    model, facts, _ = published("passed")
    assert not facts["parity"]["forced"]
    out_of_reach = replace(BARS["fp32"], cosine_min=1.1)
    monkeypatch.setattr(publishing, "compare", lambda *given: replace(compare(*given), bar=out_of_reach))
    forced_model, facts, card = published("forced")
    assert facts["parity"]["forced"]
    assert "published because it was forced" in card
    assert forced_model != model


def test_as_published_a_query_is_the_first_tokens_state_and_a_document_its_first_sentences(
    small_model: Path, tmp_path: Path
) -> None:
    settings = replace(PRESETS["paper"], layers=1, feed_forward=32, sentences=4)
    base = bases.open_trained(str(small_model), settings, "cpu", Console(quiet=True))
    upper = Upper(settings.shape(64))
    said = {**SAID, "validated": False}
    folder, _ = publish(upper, base, tmp_path / "made", "fp32", said, {}, Console(quiet=True))
    encoder = open_encoder(folder, device="cpu")
    query = Document("q", "de", "Ziege im Garten")
    tokens = transformers.AutoTokenizer.from_pretrained(small_model)(query.content, return_tensors="pt")
    with torch.no_grad():
        states = transformers.AutoModel.from_pretrained(small_model)(**tokens).last_hidden_state
    expected = torch.nn.functional.normalize(states[0, 0], dim=0).numpy()
    np.testing.assert_allclose(encoder.encode_queries([query])[0], expected, atol=1e-5)
    assert folder.config.pooling == "cls"
    assert "the further segments of a longer document are left out" in (folder.path / "MODEL_CARD.md").read_text()

    sentences = np.random.default_rng(0).normal(size=(9, 64)).astype(np.float32)
    cut, first = UpperSession(folder, "cpu").documents([sentences, sentences[:4]])
    np.testing.assert_array_equal(cut, first)
    upper.shape = replace(upper.shape, whole=True)
    whole_folder, _ = publish(upper, base, tmp_path / "whole", "fp32", said, {}, Console(quiet=True))
    assert not np.allclose(UpperSession(whole_folder, "cpu").documents([sentences])[0], first)
    assert open_encoder(whole_folder, device="cpu").spec.model != encoder.spec.model


@pytest.mark.long
def test_a_document_of_ten_thousand_sentences_is_the_mean_of_its_windows(small_model: Path, tmp_path: Path) -> None:
    base = bases.open_trained(str(small_model), SETTINGS, "cpu", Console(quiet=True))
    said = {**SAID, "validated": False}
    upper = Upper(UpperShape(64, 1, 1, 32))
    folder, _ = publish(upper, base, tmp_path / "made", "fp32", said, {}, Console(quiet=True))
    long = Document("long", "de", "\n".join(f"Ziege {goat}." for goat in range(10_000)))
    encoded = open_encoder(folder, device="cpu").encode_documents([long])
    sentences = encoded.passages[0].unit_vectors()
    assert len(sentences) == 10_000
    session = UpperSession(folder, "cpu")
    windows = [sentences[at : at + 32] for at in range(0, 10_000, 32)]
    weights = [len(window) / place**2 for place, window in enumerate(windows, 1)]
    expected = np.average(session.documents(windows), axis=0, weights=weights)
    np.testing.assert_allclose(encoded.vectors[0], expected / np.linalg.norm(expected), atol=1e-4)
