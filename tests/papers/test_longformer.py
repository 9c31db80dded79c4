"""mLongformer begins as the encoder it is made of: the same on short texts, and it reads on where that one ends."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from encoders.console import Console
from encoders.document import Document
from encoders.errors import BadInput
from onnx_export.huggingface.hub_layout import choose_pooling, read_layout
from onnx_export.huggingface.hub_source import load, reference_vectors
from papers import trainable
from papers.trainable import TILES, TorchEncoder, WholeText, converted, open_trainable
from tests.onnx_export.conftest import POSITIONS
from tests.papers.conftest import Ask

pytestmark = pytest.mark.torch
QUIET = Console(quiet=True)


def tokens(model: Any, *lengths: int) -> tuple[Any, Any]:
    """Texts of random ids, padded, and their mask."""
    torch.manual_seed(5)
    ids = torch.randint(4, model.config.vocab_size, (len(lengths), max(lengths)))
    mask = (torch.arange(max(lengths))[None, :] < torch.tensor(lengths)[:, None]).long()
    return ids.masked_fill(mask == 0, model.config.pad_token_id), mask


@pytest.mark.parametrize("shape", ["bert", "xlm-r"])
def test_up_to_half_a_window_its_states_are_those_of_the_encoder_and_it_reads_on_where_that_ends(
    shape: str, hugging_face: Mapping[str, Path]
) -> None:
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


def test_as_an_encoder_short_texts_have_the_vectors_of_its_base_and_nothing_has_none(
    hugging_face: Mapping[str, Path],
) -> None:
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


def test_on_a_cpu_texts_are_encoded_one_by_one_to_the_vectors_that_they_have_together(
    hugging_face: Mapping[str, Path],
) -> None:
    opened = open_trainable(str(hugging_face["xlm-r"]), "longformer", None, "cpu", QUIET)
    encoder, given = TorchEncoder(opened, "longformer"), []
    opened.lower.module.register_forward_pre_hook(lambda _, batch: given.append(batch))
    documents = [Document(str(length), "de", "la marée " * length) for length in (150, 1, 20)]
    vectors = encoder.encode_documents(documents).vectors
    assert [len(ids) for ids, _ in given] == [1, 1, 1]
    ids, mask = tokens(opened.lower.module.longformer, *(ids.shape[1] for ids, _ in reversed(given)))
    for row, (alone, _) in enumerate(reversed(given)):
        ids[row, : alone.shape[1]] = alone[0]
    together = opened.lower.module(ids, mask).detach().numpy()
    np.testing.assert_allclose(vectors[[0, 2, 1]], together, atol=1e-5)


def test_another_kind_of_model_is_refused() -> None:
    config = transformers.T5Config(vocab_size=32, d_model=16, num_layers=1, num_heads=2, d_ff=8, d_kv=8)
    with pytest.raises(BadInput, match="of type t5 can't be made a Longformer; take a BERT or an XLM-R"):
        converted(transformers.T5EncoderModel(config))


def test_the_papers_table_is_made_by_it_opened_once(
    hugging_face: Mapping[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ask: Ask,
) -> None:
    made, opened = trainable.converted, []

    def counted(encoder: Any) -> Any:
        opened.append(encoder)
        return made(encoder)

    monkeypatch.setattr(trainable, "converted", counted)
    for language in ("english", "german"):
        for part in ("train.1000", "dev", "test"):
            (tmp_path / f"{language}.{part}").write_text("CCAT\taaaa bbbb\nGCAT\t1234 5678\n" * 3, encoding="utf-8")
    given = ["--mldoc", str(tmp_path), "--encoder", str(hugging_face["bert"]), "--device", "cpu", "--json", "-q"]
    told = ask("hmde-mldoc", *given, "--method", "longformer", "--fine-tuned", "--epochs", "1").json
    assert told["encoder"] == "tiny-bert by longformer"
    assert told["languages"]["de"]["accuracy"] == 100.0
    assert told["fine_tuned"]["languages"].keys() == {"de", "en"}
    assert len(opened) == 1
