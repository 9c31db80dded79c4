"""T-LASER's models, and their folders in every precision; its loss against the paper's equations, in numpy."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest
import tokenizers
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from encoders.console import Console
from encoders.folder.model_config import Precision
from encoders.folder.model_folder import ModelFolder
from encoders.tlaser.joint_vocabulary import learn_vocabulary
from encoders.tlaser.tlaser_settings import Constraint, Sizes, TlaserPlan, TlaserTraining, Variant, preset
from onnx_export.graphs.parity import ParityReport, read_texts
from onnx_export.tlaser.loss import distances, draw_negatives, total_loss, translation_loss
from onnx_export.tlaser.tlaser_folder import publish, write_encoder
from onnx_export.tlaser.translator import EncoderLayer, TransformerDecoder, Translator, UnitVectors

pytestmark = pytest.mark.torch


def published(
    target: Path, tokenizer: tokenizers.Tokenizer, plan: TlaserPlan, precision: Precision
) -> tuple[ModelFolder, ParityReport]:
    torch.manual_seed(0)
    model = Translator(plan.variant, plan.sizes, tokenizer.get_vocab_size(), 2).eval()
    curve = [{"step": 1, "loss": 1.0, "error": 0.5}]
    return publish(
        model, tokenizer, plan, ["de", "en"], target, precision,
        texts=read_texts(), curve=curve, about={"Training": "none"}, console=Console(quiet=True),
    )  # fmt: skip


@pytest.mark.parametrize("precision", ["int8", "fp16", "q4"])
@pytest.mark.parametrize("variant", ["laser", "ct"])
def test_the_graph_passes_the_gate_in_every_precision(variant: Variant, precision: Precision, tmp_path: Path) -> None:
    tokenizer = learn_vocabulary((text.text for text in read_texts()), 600, variant)
    folder, report = published(tmp_path / "m", tokenizer, preset("small", variant), precision)
    assert report.passed
    assert {file.name for file in folder.path.iterdir()} == {
        *("config.json", "curve.jsonl", "curve.png", "MODEL_CARD.md", "model.onnx", "parity.json", "tokenizer.json")
    }


@pytest.mark.parametrize(("variant", "layers", "words"), [("laser", 3, 12), ("claser", 1, 8), ("t", 2, 12)])
def test_a_padded_batch_gives_torchs_vectors(variant: Variant, layers: int, words: int, tmp_path: Path) -> None:
    sizes = Sizes(12, words, layers, 2, 16, 12, 4, 40, shared=words == 12, max_tokens=32)
    torch.manual_seed(0)
    model = Translator(variant, sizes, 40, 2).eval()
    write_encoder(model, TlaserPlan(variant, sizes, TlaserTraining(1, 64, 1, 1e-3, 1, 0.0)), tmp_path / "graph.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "graph.onnx"), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    for lengths in ((5, 1, 9), (1,), (30, 31)):
        ids = np.zeros((len(lengths), max(lengths)), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, length in enumerate(lengths):
            ids[row, :length] = rng.integers(4, 40, length)
            mask[row, :length] = 1
        (ours,) = session.run(["vectors"], {"input_ids": ids, "attention_mask": mask})
        with torch.no_grad():
            theirs = UnitVectors(model.encoder).eval()(torch.from_numpy(ids), torch.from_numpy(mask)).numpy()
        assert np.allclose(ours, theirs, atol=1e-5)
        assert np.allclose(np.linalg.norm(ours, axis=1), 1, atol=1e-5)


SIZES = Sizes(16, 16, 2, 4, 32, 16, 4, 30, shared=True, max_tokens=20)
ROWS = [[2, 7, 9, 11, 5], [2, 8, 0, 0, 0]]


@pytest.mark.parametrize("variant", ["t", "laser"])
def test_padding_changes_no_vector_a_word_to_come_nothing_before_it_the_language_all(variant: Variant) -> None:
    torch.manual_seed(0)
    model = Translator(variant, SIZES, 30, 2).eval()
    together = model.encode(torch.tensor(ROWS))
    alone = model.encode(torch.tensor([ROWS[1][:2]]))
    assert together[1].tolist() == pytest.approx(alone[0].tolist(), abs=1e-6)
    sentence = model.encode(torch.tensor(ROWS[:1]))
    said = torch.tensor([[3, 7, 9, 11]])
    first, second = (model.decoder(sentence, tokens, 0) for tokens in (said, torch.tensor([[3, 7, 9, 25]])))
    assert torch.allclose(first[:, :3], second[:, :3], atol=1e-6)
    assert not torch.allclose(first[:, 3], second[:, 3], atol=1e-3)
    assert not torch.allclose(first, model.decoder(sentence, said, 1), atol=1e-3)


def test_the_last_layer_computes_the_first_place_of_a_whole_layer() -> None:
    torch.manual_seed(0)
    layer = EncoderLayer(16, 4, 32, 0.0).eval()
    states, mask = torch.randn(3, 6, 16), torch.ones(3, 1, 1, 6, dtype=torch.bool)
    assert torch.allclose(layer(states, mask)[:, :1], layer(states, mask, first_alone=True), atol=1e-6)


def test_attention_over_the_sentence_alone_is_a_linear_map_of_it() -> None:
    """Eq. 5 by torch's own multi-head attention with P as the one thing to attend to."""
    torch.manual_seed(0)
    decoder = Translator("t", SIZES, 30, 2).eval().decoder
    assert isinstance(decoder, TransformerDecoder)
    whole = torch.nn.MultiheadAttention(16, 4, batch_first=True).eval()
    with torch.no_grad():
        whole.in_proj_weight[32:].copy_(decoder.value.weight)
        whole.in_proj_bias[32:].copy_(decoder.value.bias)
        whole.out_proj.weight.copy_(decoder.out.weight)
        whole.out_proj.bias.copy_(decoder.out.bias)
    sentence, queries = torch.randn(2, 16), torch.randn(2, 7, 16)
    attended, _ = whole(queries, sentence[:, None], sentence[:, None])
    assert torch.allclose(attended, decoder.out(decoder.value(sentence))[:, None].expand(-1, 7, -1), atol=1e-6)


@pytest.mark.parametrize("variant", ["t", "ct"])
def test_the_papers_preset_has_the_papers_number_of_parameters(variant: Variant) -> None:
    """246 million (Table 1), with a table of tokens each for encoder, decoder and output."""
    with torch.device("meta"):
        model = Translator(variant, preset("paper", variant).sizes, 50_000, 2)
    assert sum(weights.numel() for weights in model.parameters()) == pytest.approx(246e6, rel=0.02)


def test_with_three_tables_word_and_language_fill_the_decoders_width_and_nothing_projects_them() -> None:
    """Eq. 3."""
    torch.manual_seed(0)
    decoder = Translator("t", replace(SIZES, shared=False), 30, 2).eval().decoder
    assert isinstance(decoder, TransformerDecoder)
    assert isinstance(decoder.input, torch.nn.Identity)
    assert decoder.tokens.weight.shape[1] == SIZES.decoder - SIZES.language
    seen: list[torch.Tensor] = []
    hook = decoder.before_attention.register_forward_pre_hook(lambda _, states: seen.append(states[0]))
    decoder(torch.zeros(1, 16), torch.tensor([[7, 9]]), 1)
    hook.remove()
    joined = torch.cat((decoder.tokens.weight[9] * 12**0.5, decoder.languages.weight[1]))
    assert torch.allclose(seen[0][0, 1], joined + decoder.get_buffer("places")[1], atol=1e-6)


@pytest.mark.parametrize("variant", ["t", "laser"])
def test_every_weight_of_encoder_and_decoder_learns(variant: Variant) -> None:
    torch.manual_seed(0)
    model = Translator(variant, replace(SIZES, shared=False), 30, 2)
    wanted = torch.tensor([[7, 9, 3], [8, 3, 0]])
    places = torch.tensor([0, 1, 2, 3, 4])
    logits = model.logits(model.encode(torch.tensor(ROWS)), torch.tensor([[3, 7, 9], [3, 8, 0]]), 1, places)
    assert logits.shape == (5, 30)
    torch.autograd.backward(translation_loss(logits, wanted[wanted != 0], 0.1))
    still = [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert [name for name in still if not name.endswith("key.bias")] == []  # softmax takes a shift of keys away


Matrix = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]
EPSILON = 1e-6


def norm(vector: Matrix) -> float:
    """|·|², read as the squared norm."""
    return float(sum(value**2 for value in vector))


def v_norm(first: Matrix, second: Matrix) -> float:
    """The average over all sentences of the batch of what |·|² is."""
    return float(np.mean([norm(row) for row in (*first, *second)]))


def d_p(first: Matrix, second: Matrix, row: int) -> float:
    """Eq. 7."""
    return norm(first[row] - second[row]) / (v_norm(first, second) + EPSILON)


def delta(first: Matrix, second: Matrix, row: int, other: int, margin: float) -> float:
    """Eq. 9, a → b; b → a with the sides changed. Eq. 8 is its d_n."""
    d_n = norm(first[row] - second[other]) / (v_norm(first, second) + EPSILON)
    return max(0.0, margin - (d_n - d_p(first, second, row)))


def margin_term(first: Matrix, second: Matrix, others: Rows, backward: Rows, margin: float) -> float:
    """(1/N_s) Σ_j (δ^{a→b} + δ^{b→a}), the mean over pairs."""
    pairs = []
    for row in range(len(first)):
        forth = [delta(first, second, row, int(other), margin) for other in others[row]]
        back = [delta(second, first, row, int(other), margin) for other in backward[row]]
        pairs.append((sum(forth) + sum(back)) / len(forth))
    return float(np.mean(pairs))


def translation(logits: Matrix, wanted: Rows, smoothing: float) -> float:
    losses = []
    for scores, word in zip(logits, wanted, strict=True):
        log_p = scores - np.log(np.exp(scores).sum())
        losses.append(-(1 - smoothing) * log_p[word] - smoothing * log_p.mean())
    return float(np.mean(losses))


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), pairs=st.integers(2, 9), dim=st.integers(1, 8), near=st.floats(0.0, 2.0))
def test_every_term_is_the_papers(seed: int, pairs: int, dim: int, near: float) -> None:
    rng = np.random.default_rng(seed)
    first = rng.normal(size=(pairs, dim))
    second = first + near * rng.normal(size=(pairs, dim))
    logits, wanted = rng.normal(size=(5, 7)), rng.integers(0, 7, 5)
    torch.manual_seed(seed)
    others, backward = draw_negatives(pairs, 20), draw_negatives(pairs, 20)
    constraint = Constraint()
    assert (constraint.beta, constraint.lam, constraint.margin, constraint.negatives) == (0.25, 0.125, 0.5, 20)
    terms = distances(torch.from_numpy(first), torch.from_numpy(second), others, backward, constraint.margin)
    paired = float(np.mean([d_p(first, second, row) for row in range(pairs)]))
    deltas = margin_term(first, second, others.numpy(), backward.numpy(), 0.5)
    assert terms.paired.item() == pytest.approx(paired, rel=1e-9, abs=1e-12)
    assert terms.delta.item() == pytest.approx(deltas, rel=1e-9, abs=1e-9)
    said = translation_loss(torch.from_numpy(logits), torch.from_numpy(wanted), 0.1)
    mt = translation(logits, wanted, 0.1)
    assert said.item() == pytest.approx(mt, rel=1e-5)
    # Eq. 10 is the loss of a sentence, whose translation loss is a sum: over all pairs, and divided by the tokens.
    tokens = 5
    batch = pairs * (0.25 * paired + 0.125 * deltas) + 0.5 * tokens * mt
    assert total_loss(said, terms, constraint, pairs / tokens).item() == pytest.approx(batch / tokens, rel=1e-5)
    assert total_loss(said, None, constraint, pairs / tokens).item() == pytest.approx(0.5 * mt, rel=1e-5)


def test_a_single_pair_has_no_negatives_and_a_finite_loss() -> None:
    none = draw_negatives(1, 20)
    terms = distances(torch.ones(1, 3), torch.zeros(1, 3), none, none, 0.5)
    assert terms.delta.item() == 0.0
    assert terms.paired.item() == pytest.approx(2.0, rel=1e-4)


@given(pairs=st.integers(2, 50), seed=st.integers(0, 1000))
def test_no_sentence_is_its_own_negative(pairs: int, seed: int) -> None:
    torch.manual_seed(seed)
    drawn = draw_negatives(pairs, 20).numpy()
    assert drawn.shape == (pairs, 20)
    assert (drawn != np.arange(pairs)[:, None]).all()
    assert 0 <= drawn.min() <= drawn.max() < pairs
