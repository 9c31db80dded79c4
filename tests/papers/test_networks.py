"""The papers' networks: NCA's and the classifier's layers against NumPy; mLongformer begins as its encoder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from encoders.console import QUIET
from encoders.document import Document, FloatArray
from encoders.errors import BadInput
from onnx_export.huggingface.hub_layout import choose_pooling, read_layout
from onnx_export.huggingface.hub_source import load, reference_vectors
from papers.networks import HIDDEN, Nca, predict, train_classifier
from papers.trainable import TILES, TorchEncoder, WholeText, converted, open_trainable
from tests.onnx_export.conftest import POSITIONS
from tests.papers.conftest import Ask

pytestmark = pytest.mark.torch


def rows(count: int, dim: int, seed: int) -> FloatArray:
    return np.random.default_rng(seed).standard_normal((count, dim), dtype=np.float32)


def layers(network: torch.nn.Sequential) -> list[tuple[FloatArray, FloatArray]]:
    linear = [layer for layer in network if isinstance(layer, torch.nn.Linear)]
    return [(layer.weight.detach().numpy().T, layer.bias.detach().numpy()) for layer in linear]


def test_nca_scales_rows_by_the_training_rows_and_has_one_layer_of_elu_units() -> None:
    x, held_out, turn = rows(120, 6, 0) + 2, rows(40, 6, 1) + 2, rows(6, 4, 2)
    network = Nca((x, 3 * np.tanh(x @ turn)), (held_out, 3 * np.tanh(held_out @ turn)), epochs=5)
    np.testing.assert_allclose(network.mean, x.mean(axis=0), atol=1e-6)
    assert network.scale == pytest.approx((x - x.mean(axis=0)).std(), rel=1e-5)
    (weights, biases), (output_weights, output_biases) = layers(network.network)
    assert weights.shape == (6, HIDDEN)
    queries = rows(10, 6, 3)
    states = (queries - network.mean) / network.scale @ weights + biases
    mapped = np.where(states > 0, states, np.expm1(np.minimum(states, 0))) @ output_weights + output_biases
    target = 3 * np.tanh(x @ turn)
    np.testing.assert_allclose(network.transform(queries), mapped * (target - target.mean(axis=0)).std(), atol=1e-4)


def test_the_last_of_the_best_epochs_on_development_is_kept() -> None:
    """Development turns the classes round, so that accuracy falls while the network learns."""
    classes = np.arange(60) % 2
    vectors = (np.eye(4)[classes] + 0.1 * rows(60, 4, 0)).astype(np.float32)
    learnt = train_classifier((vectors, classes), (vectors, classes), epochs=60)
    assert np.mean(predict(learnt, vectors) == classes) == 1.0
    turned = train_classifier((vectors, classes), (vectors, 1 - classes), epochs=60)
    assert np.mean(predict(turned, vectors) == classes) < 0.7
    lacking = train_classifier((vectors, classes), (vectors, np.full(60, -1)), epochs=1)
    assert set(predict(lacking, vectors).tolist()) <= {0, 1}
    network = train_classifier((rows(20, 6, 0), np.arange(20) % 3), (rows(20, 6, 0), np.arange(20) % 3), epochs=1)
    first, second, last = layers(network)  # tanh, without dropout when it predicts
    assert [weights.shape for weights, _ in (first, second, last)] == [(6, 10), (10, 8), (8, 3)]
    states = np.tanh(np.tanh(rows(20, 6, 0) @ first[0] + first[1]) @ second[0] + second[1]) @ last[0] + last[1]
    np.testing.assert_array_equal(predict(network, rows(20, 6, 0)), np.argmax(states, axis=1))


def tokens(model: Any, *lengths: int) -> tuple[Any, Any]:
    """Texts of random ids, padded, and their mask."""
    torch.manual_seed(5)
    ids = torch.randint(4, model.config.vocab_size, (len(lengths), max(lengths)))
    mask = (torch.arange(max(lengths))[None, :] < torch.tensor(lengths)[:, None]).long()
    return ids.masked_fill(mask == 0, model.config.pad_token_id), mask


@pytest.mark.parametrize("shape", ["bert", "xlm-r"])
def test_it_begins_as_the_encoder_and_reads_on_where_that_ends(shape: str, hugging_face: Mapping[str, Path]) -> None:
    base = transformers.AutoModel.from_pretrained(hugging_face[shape]).eval()
    ids, mask = tokens(base, POSITIONS // 2 + 1, 9, 1)
    with torch.no_grad():
        expected = base(input_ids=ids, attention_mask=mask).last_hidden_state
        whole = WholeText(converted(base))
        states = whole.states(ids, mask)
    torch.testing.assert_close(states[mask.bool()], expected[mask.bool()], atol=1e-4, rtol=1e-4)
    assert whole.longest == TILES * POSITIONS
    ids, mask = tokens(whole.longformer, whole.longest)
    other = ids.clone()
    other[0, POSITIONS + 100 :] = 7
    with torch.no_grad():
        first, second, short = whole(ids, mask), whole(other, mask), whole(ids[:, :POSITIONS], mask[:, :POSITIONS])
    assert (first @ second.T).item() < 0.99
    assert (first @ short.T).item() < 0.999
    torch.testing.assert_close(first.norm(), torch.tensor(1.0))


def test_as_an_encoder_short_texts_have_the_vectors_of_its_base(hugging_face: Mapping[str, Path]) -> None:
    folder = hugging_face["xlm-r"]
    encoder = TorchEncoder(open_trainable(str(folder), "longformer", None, "cpu", QUIET), "longformer")
    texts = ["Der Fluss trat über die Ufer.", "la marée"]
    documents = [*(Document(text, "de", text) for text in texts), Document("none", "de", " \n ")]
    documents.append(Document("long", "de", " ".join(texts * 100)))
    encoded = encoder.encode_documents(documents)
    layout = read_layout(folder)
    expected = reference_vectors(load(layout, choose_pooling(layout, None)), texts)
    np.testing.assert_allclose(encoded.vectors[:2], expected, atol=1e-4)
    np.testing.assert_allclose(encoder.encode_queries(documents[:2]), expected, atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(encoded.vectors, axis=1), [1, 1, 0, 1], atol=1e-5)
    assert encoded.known[:, 0].tolist() == [True, True, False, True]


def test_another_kind_of_model_is_refused() -> None:
    config = transformers.T5Config(vocab_size=32, d_model=16, num_layers=1, num_heads=2, d_ff=8, d_kv=8)
    with pytest.raises(BadInput, match="of type t5 can't be made a Longformer; take a BERT or an XLM-R"):
        converted(transformers.T5EncoderModel(config))


def test_the_papers_table_is_made_by_it(hugging_face: Mapping[str, Path], tmp_path: Path, ask: Ask) -> None:
    for language in ("english", "german"):
        for part in ("train.1000", "dev", "test"):
            (tmp_path / f"{language}.{part}").write_text("CCAT\taaaa bbbb\nGCAT\t1234 5678\n" * 3, encoding="utf-8")
    given = ["--mldoc", str(tmp_path), "--encoder", str(hugging_face["bert"]), "--device", "cpu", "--json", "-q"]
    told = ask("hmde-mldoc", *given, "--method", "longformer", "--fine-tuned", "--epochs", "1").json
    assert (told["encoder"], told["languages"]["de"]["accuracy"]) == ("tiny-bert by longformer", 100.0)
    assert told["fine_tuned"]["languages"].keys() == {"de", "en"}
