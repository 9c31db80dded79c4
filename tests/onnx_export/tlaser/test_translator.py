"""What the models compute, against longer ways to the same."""

from dataclasses import replace

import pytest
import torch

from encoders.tlaser.tlaser_settings import Sizes, Variant, preset
from onnx_export.tlaser.layers import EncoderLayer
from onnx_export.tlaser.loss import translation_loss
from onnx_export.tlaser.translator import BiLstmEncoder, TransformerDecoder, Translator

pytestmark = pytest.mark.torch

SIZES = Sizes(
    dim=16, token_width=16, layers=2, heads=4, ffn=32, decoder=16, language=4, vocabulary=30, shared=True, max_tokens=20
)
ROWS = [[2, 7, 9, 11, 5], [2, 8, 0, 0, 0]]


@pytest.mark.parametrize("variant", ["t", "laser"])
def test_padding_changes_no_vector(variant: Variant) -> None:
    torch.manual_seed(0)
    model = Translator(variant, SIZES, 30, 2).eval()
    together = model.encode(torch.tensor(ROWS))
    alone = model.encode(torch.tensor([ROWS[1][:2]]))
    assert together[1].tolist() == pytest.approx(alone[0].tolist(), abs=1e-6)


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
    ours = decoder.out(decoder.value(sentence))[:, None].expand(-1, 7, -1)
    assert torch.allclose(attended, ours, atol=1e-6)


@pytest.mark.parametrize("variant", ["t", "laser"])
def test_a_word_to_come_changes_nothing_before_it_and_the_language_changes_all(variant: Variant) -> None:
    torch.manual_seed(0)
    model = Translator(variant, SIZES, 30, 2).eval()
    sentence = model.encode(torch.tensor(ROWS[:1]))
    said = torch.tensor([[3, 7, 9, 11]])
    other = torch.tensor([[3, 7, 9, 25]])
    first, second = (model.decoder(sentence, tokens, 0) for tokens in (said, other))
    assert torch.allclose(first[:, :3], second[:, :3], atol=1e-6)
    assert not torch.allclose(first[:, 3], second[:, 3], atol=1e-3)
    assert not torch.allclose(first, model.decoder(sentence, said, 1), atol=1e-3)


@pytest.mark.parametrize("variant", ["t", "ct"])
def test_the_papers_preset_has_the_papers_number_of_parameters(variant: Variant) -> None:
    """246 million (Table 1), with a table of tokens each for encoder, decoder and output."""
    with torch.device("meta"):
        model = Translator(variant, preset("paper", variant).sizes, 50_000, 2)
    assert sum(weights.numel() for weights in model.parameters()) == pytest.approx(246e6, rel=0.02)


@pytest.mark.parametrize("variant", ["laser", "claser"])
def test_lasers_preset_has_the_settings_of_artetxe_and_schwenk(variant: Variant) -> None:
    plan = preset("paper", variant)
    training = plan.training
    assert (training.rate, training.warmup, training.dropout) == (1e-3, 0, 0.1)
    assert (training.smoothing, training.decay, training.batch_tokens * training.accumulate) == (0.0, 0.0, 128_000)
    with torch.device("meta"):
        model = Translator(variant, plan.sizes, 50_000, 2)
    assert isinstance(model.encoder, BiLstmEncoder)
    lstm = model.encoder.lstm
    assert (lstm.input_size, lstm.hidden_size, lstm.num_layers, lstm.bidirectional) == (320, 512, 6, True)
    assert model.decoder.lstm.hidden_size == 2048  # type: ignore[union-attr]


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
