"""The upper transformer and the loss of HMDE, against plain numpy; the lower encoder; the folder of both."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from encoders.console import Console
from encoders.document import Document
from encoders.folder.model_config import Precision
from encoders.hmde.upper import Form, UpperSession, UpperShape, padded
from encoders.methods.method_registry import open_encoder
from encoders.text.segmentation import windows
from onnx_export.graphs.parity import BARS, compare
from onnx_export.hmde import hmde_folder as publishing
from onnx_export.hmde import lower_base
from onnx_export.hmde.hmde_folder import publish
from onnx_export.hmde.hmde_settings import PRESETS, Settings
from onnx_export.hmde.lower_encoders.trained_lower import merge_adapters
from onnx_export.hmde.upper_model import Upper, contrastive_loss
from onnx_export.training.device import set_attention
from tests.conftest import Patch
from tests.onnx_export.hmde.conftest import SETTINGS, Train

pytestmark = pytest.mark.torch
Floats = npt.NDArray[np.float64]


def upper_of(form: Form = "paper", seed: int = 0) -> Any:
    torch.manual_seed(seed)
    upper = Upper(UpperShape(dim=16, layers=2, heads=4, feed_forward=24, sentences=7, form=form)).eval()
    with torch.no_grad():
        for weight in upper.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    return upper


def unit(rows: Floats) -> Floats:
    result: Floats = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    return result


def norm(rows: Floats, weights: dict[str, Floats], place: str) -> Floats:
    rows = rows - rows.mean(-1, keepdims=True)
    rows = rows / np.sqrt((rows**2).mean(-1, keepdims=True) + 1e-12)
    return rows * weights[f"{place}.weight"] + weights[f"{place}.bias"]


def linear(rows: Floats, weights: dict[str, Floats], place: str) -> Floats:
    return rows @ weights[f"{place}.weight"].T + weights[f"{place}.bias"]


def gelu(rows: Floats) -> Floats:
    result: Floats = rows * 0.5 * (1 + np.vectorize(math.erf)(rows / math.sqrt(2)))
    return result


def by_hand(upper: Any, sentences: Floats) -> Floats:
    """HMDE §2.1 of one document, (sentences, dim): [DBOS] before, positions, two layers, mean of the sentences."""
    weights = {name: value.detach().numpy().astype(np.float64) for name, value in upper.named_parameters()}
    place = "transformer.embeddings"
    states = np.concatenate([weights["start"][None], sentences])
    states = states + weights[f"{place}.position_embeddings.weight"][: len(states)]
    states = norm(states + weights[f"{place}.token_type_embeddings.weight"][0], weights, f"{place}.LayerNorm")
    for layer in range(2):
        place = f"transformer.encoder.layer.{layer}"
        query, key, value = (
            linear(states, weights, f"{place}.attention.self.{part}").reshape(len(states), 4, 4).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 2, 1) / 2
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (shares / shares.sum(-1, keepdims=True) @ value).transpose(1, 0, 2).reshape(len(states), 16)
        attended = linear(mixed, weights, f"{place}.attention.output.dense")
        states = norm(states + attended, weights, f"{place}.attention.output.LayerNorm")
        wide = gelu(linear(states, weights, f"{place}.intermediate.dense"))
        states = norm(states + linear(wide, weights, f"{place}.output.dense"), weights, f"{place}.output.LayerNorm")
    outputs = states[1:]
    if upper.shape.form == "weighted":
        bound = math.log(3)
        shares = np.exp(bound * np.tanh(outputs @ weights["weighing.weight"][0] / bound))
        mean = shares / shares.sum() @ sentences
        return unit(mean + weights["map.weight"] @ mean)
    return unit(outputs.mean(0))


def some(counts: list[int], seed: int = 1) -> list[Floats]:
    random = np.random.default_rng(seed)
    return [unit(random.standard_normal((count, 16))) for count in counts]


def encoded(upper: Any, documents: list[Floats]) -> npt.NDArray[np.float32]:
    stack, mask = padded([document.astype(np.float32) for document in documents])
    with torch.no_grad():
        result: npt.NDArray[np.float32] = upper(torch.from_numpy(stack), torch.from_numpy(mask)).numpy()
    return result


@pytest.mark.parametrize("form", get_args(Form))
def test_a_document_is_what_the_paper_says_whatever_it_is_padded_to(form: Form) -> None:
    upper, documents = upper_of(form), some([1, 7, 3])
    expected = np.stack([by_hand(upper, document) for document in documents])
    np.testing.assert_allclose(encoded(upper, documents), expected, atol=2e-6)
    there, back = encoded(upper, [documents[1], documents[1][::-1]])
    assert there @ back < 0.999, "the place of a sentence matters"


def test_before_training_a_weighted_document_is_the_mean_of_its_sentences() -> None:
    upper = Upper(UpperShape(dim=16, heads=4, feed_forward=24, sentences=7, form="weighted")).eval()
    documents = some([1, 7, 3])
    means = unit(np.stack([document.mean(0) for document in documents]))
    np.testing.assert_allclose(encoded(upper, documents), means, atol=1e-6)


@settings(max_examples=30)
@given(
    count=st.integers(1, 6),
    temperature=st.sampled_from([0.05, 0.1, 1.0]),
    concepts=st.lists(st.integers(0, 3), min_size=6, max_size=6),
    hard=st.booleans(),
)
def test_the_loss_is_equation_1(count: int, temperature: float, concepts: list[int], hard: bool) -> None:
    first, second, negative = (unit(np.random.default_rng(seed).standard_normal((count, 8))) for seed in range(3))
    expected = 0.0
    for i in range(count):
        below = math.exp(first[i] @ negative[i] / temperature) if hard else 0.0
        for j in range(count):
            if i == j or concepts[i] != concepts[j]:
                below += math.exp(first[i] @ second[j] / temperature)
        expected -= first[i] @ second[i] / temperature - math.log(below)
    loss = contrastive_loss(
        torch.from_numpy(first),
        torch.from_numpy(second),
        torch.from_numpy(negative) if hard else None,
        torch.tensor(concepts[:count]),
        temperature,
    )
    assert loss.item() == pytest.approx(expected / count, rel=1e-9, abs=1e-9)


def test_fused_attention_gives_the_same_vectors() -> None:
    upper = upper_of()
    sentences = torch.randn(3, 6, 16)
    mask = torch.tensor([[1] * 6, [1] * 2 + [0] * 4, [1] + [0] * 5])
    with torch.no_grad():
        plain = upper(sentences, mask)
        set_attention(upper, "fused")
        fused = upper(sentences, mask)
    assert upper.transformer.config._attn_implementation == "sdpa_always_masked"
    torch.testing.assert_close(fused, plain, atol=1e-6, rtol=0)


Lower = Callable[..., Any]


@pytest.fixture
def lower_of(small_model: Path, pages: list[Document]) -> Lower:

    def made(*, budget: int = 400, adapters: int = 0, **changes: Any) -> Any:
        settings = Settings(budget=budget, adapters=adapters, sentences=4, **changes)
        lower = lower_base.open_trained(str(small_model), settings, "cpu", Console(quiet=True)).lower
        lower.take([lower.prepare(pages[:7]), lower.prepare(pages[7:])])
        return lower

    return made


def segments(lower: Any, rows: list[int], **how: Any) -> Any:
    return torch.cat(lower.documents(rows, **how))


def gradients(lower: Any, rows: list[int]) -> dict[str, Any]:
    """Of a loss over all sentences and titles of some pages."""
    sentences, titles = segments(lower, rows, training=3), lower.queries(rows, training=3)
    torch.manual_seed(0)
    loss = (sentences @ torch.randn(64)).pow(2).sum() + (titles @ torch.randn(64)).sum()
    loss.backward()
    lower.learn()
    return {name: weight.grad for name, weight in lower.module.named_parameters() if weight.grad is not None}


def test_gradients_in_small_batches_are_those_of_one_large_batch(lower_of: Lower) -> None:
    at_once, in_parts = (lower_of(budget=budget) for budget in (10**6, 40))
    for lower in (at_once, in_parts):
        for layer in lower.module.modules():
            if isinstance(layer, torch.nn.Dropout):
                layer.p = 0.0  # dropout is drawn for a batch, so it differs between the two
    whole, cached = (gradients(lower, [3, 9, 50]) for lower in (at_once, in_parts))
    assert whole.keys() == cached.keys()
    for name, gradient in whole.items():
        torch.testing.assert_close(cached[name], gradient, rtol=1e-4, atol=1e-5, msg=name)


def test_with_dropout_the_second_pass_sees_what_the_first_saw(lower_of: Lower) -> None:
    lower = lower_of(budget=40)
    assert torch.equal(segments(lower, [3, 9], training=5), segments(lower, [3, 9], training=5))
    assert not torch.equal(segments(lower, [3, 9], training=5), segments(lower, [3, 9], training=6))
    assert torch.equal(segments(lower, [3, 9]), segments(lower, [3, 9]))


def test_adapters_learn_alone_and_are_merged_into_the_weights(lower_of: Lower) -> None:
    lower = lower_of(adapters=2)
    before = segments(lower, [1, 2])
    torch.testing.assert_close(before, segments(lower_of(), [1, 2]))
    assert all("parametrizations" in name for name in gradients(lower, [1, 2]))
    with torch.no_grad():
        for weight in lower.parameters():
            weight.add_(0.1)
    changed = segments(lower, [1, 2])
    assert not torch.allclose(changed, before)
    merge_adapters(lower.module)
    torch.testing.assert_close(segments(lower, [1, 2]), changed)


def test_what_is_kept_of_a_page_is_its_first_sentences_and_those_past_them_are_counted(lower_of: Lower) -> None:
    lower = lower_of()
    assert lower.lengths().max() == 4
    assert (lower.openings() >= 1).all()
    assert (lower.openings() < lower.lengths()).all()
    part = lower.prepare([Document(str(count), "de", "\n".join(["Ein Satz."] * count)) for count in (3, 4, 6)])
    assert (part["counts"].tolist(), part["left_out"].tolist()) == ([3, 4, 4], [0, 0, 2])
    assert lower.prepare([Document("1", "de", " \n ")])["counts"].tolist() == [0]
    part = lower.prepare([Document("1", "de", "Ein Satz."), Document("2", "de", "", "Ein Titel")])
    np.testing.assert_array_equal(part["openings"], [0, 0])


def test_windows_in_training_are_those_of_an_index_each_with_the_title_before_it(lower_of: Lower) -> None:
    lower = lower_of(segmentation="windows", tokens=32)
    document = Document("1", "en", " ".join(f"goat {number}" for number in range(80)), "Goats")
    (text,) = lower.tokenizer.tokenize([document.content])
    part = lower.prepare([document])
    lower.take([part])
    heading = text.tokens_in(0, len(document.title))[1]
    expected = windows(len(text) - heading, 32 - lower.tokenizer.document_overhead - heading, 0)[:4]
    assert (part["openings"].tolist(), part["counts"].tolist()) == ([0], [4])
    for ids, (start, end) in zip(lower.tokens(0), expected, strict=True):
        titled = np.concatenate([text.ids[:heading], text.ids[heading + start : heading + end]])
        np.testing.assert_array_equal(ids, lower.tokenizer.segment(titled))


SAID = {"settings": {"frozen": False}, "documents": 60, "languages": {"de": 20}, "best": 4, "steps": 12}
UNVALIDATED = {**SAID, "validated": False}


def base_of(model: Path, settings: Settings = SETTINGS) -> lower_base.TrainedBase:
    return lower_base.open_trained(str(model), settings, "cpu", Console(quiet=True))


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_both_graphs_pass_the_gate_and_the_folder_is_an_encoder(
    precision: Precision, finished: Train, small_model: Path, pages: list[Document], tmp_path: Path
) -> None:
    training, base = finished("paper"), base_of(small_model)
    base.lower.restore(training.lower.state())
    with torch.no_grad():
        for weight in base.lower.parameters():
            weight.add_(0.02)
    assert isinstance(training.upper, Upper)
    said = {**SAID, "validated": True, "untrained": 0.4, "score": 0.5}
    folder, report = publish(training.upper, base, tmp_path / "made", precision, said, {}, Console(quiet=True))
    assert report.passed
    untouched = base_of(small_model)
    assert untouched.source is not None
    assert folder.config.weights != untouched.source.weights
    encoder = open_encoder(folder, device="cpu")
    np.testing.assert_allclose(np.linalg.norm(encoder.encode_documents(pages[:3]).vectors, axis=1), 1.0, atol=1e-5)
    assert folder.config.precision == precision


def test_an_upper_graph_below_the_bar_is_told_as_forced(small_model: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    base = base_of(small_model)
    upper = Upper(UpperShape(64, 1, 1, 32))

    def published(name: str) -> tuple[str, dict[str, Any], str]:
        place, console = tmp_path / name, Console(quiet=True)
        folder, report = publishing.publish(upper, base, place, "fp32", UNVALIDATED, {}, console, force=True)
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


def test_as_published_a_query_is_a_token_s_state_a_document_its_beginning(small_model: Path, tmp_path: Path) -> None:
    settings = replace(PRESETS["paper"], layers=1, feed_forward=32, sentences=4)
    base = base_of(small_model, settings)
    upper = Upper(settings.shape(64))
    folder, _ = publish(upper, base, tmp_path / "made", "fp32", UNVALIDATED, {}, Console(quiet=True))
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
    whole_folder, _ = publish(upper, base, tmp_path / "whole", "fp32", UNVALIDATED, {}, Console(quiet=True))
    assert not np.allclose(UpperSession(whole_folder, "cpu").documents([sentences])[0], first)
    assert open_encoder(whole_folder, device="cpu").spec.model != encoder.spec.model


@pytest.mark.long
def test_a_document_of_ten_thousand_sentences_is_the_mean_of_its_windows(small_model: Path, tmp_path: Path) -> None:
    base = base_of(small_model)
    upper = Upper(UpperShape(64, 1, 1, 32))
    folder, _ = publish(upper, base, tmp_path / "made", "fp32", UNVALIDATED, {}, Console(quiet=True))
    long = Document("long", "de", "\n".join(f"Ziege {goat}." for goat in range(10_000)))
    encoded = open_encoder(folder, device="cpu").encode_documents([long])
    sentences = encoded.passages[0].unit_vectors()
    assert len(sentences) == 10_000
    session = UpperSession(folder, "cpu")
    windows = [sentences[at : at + 32] for at in range(0, 10_000, 32)]
    weights = [len(window) / place**2 for place, window in enumerate(windows, 1)]
    expected = np.average(session.documents(windows), axis=0, weights=weights)
    np.testing.assert_allclose(encoded.vectors[0], expected / np.linalg.norm(expected), atol=1e-4)
