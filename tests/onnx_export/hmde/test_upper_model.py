"""The upper transformer and the loss of HMDE, against plain numpy."""

import math
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from encoders.hmde.upper import Form, UpperShape, padded
from onnx_export.hmde.upper_model import Upper, contrastive_loss
from onnx_export.huggingface.hub_source import export_module
from onnx_export.training.device import set_attention

pytestmark = pytest.mark.torch
Floats = npt.NDArray[np.float64]


def upper_of(form: Form = "paper", seed: int = 0) -> Any:
    """A small one with weights that all matter."""
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


def test_the_place_of_a_sentence_matters() -> None:
    upper, (document,) = upper_of(), some([5])
    there, back = encoded(upper, [document, document[::-1]])
    assert there @ back < 0.999


def test_before_training_a_weighted_document_is_the_mean_of_its_sentences() -> None:
    upper = Upper(UpperShape(dim=16, heads=4, feed_forward=24, sentences=7, form="weighted")).eval()
    documents = some([1, 7, 3])
    means = unit(np.stack([document.mean(0) for document in documents]))
    np.testing.assert_allclose(encoded(upper, documents), means, atol=1e-6)


@pytest.mark.parametrize("form", get_args(Form))
@pytest.mark.long
def test_the_graph_says_what_torch_says_for_any_number_of_documents_and_sentences(form: Form, tmp_path: Path) -> None:
    upper = upper_of(form)
    example = {"sentences": torch.randn(2, 4, 16), "mask": torch.ones((2, 4), dtype=torch.int64)}
    export_module(upper, example, ("documents", "sentences"), tmp_path / "upper.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "upper.onnx")
    for counts in ([1], [7], [1, 7, 3], [2, 2]):
        documents = some(counts)
        stack, mask = padded([document.astype(np.float32) for document in documents])
        (vectors,) = session.run(["vectors"], {"sentences": stack, "mask": mask})
        np.testing.assert_allclose(vectors, encoded(upper, documents), atol=1e-5)


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
