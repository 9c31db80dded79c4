"""The trained lower encoder: gradients that are cached, adapters, what is kept of a document."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from encoders.console import Console
from encoders.document import Document
from encoders.text.segmentation import windows
from onnx_export.hmde import lower_base
from onnx_export.hmde.hmde_settings import Settings
from onnx_export.hmde.lower_encoders.adapters import merge_adapters

pytestmark = pytest.mark.torch


def lower_of(model: Path, pages: list[Document], *, budget: int, adapters: int = 0, **changes: Any) -> Any:
    lower = lower_base.open_trained(
        str(model), Settings(budget=budget, adapters=adapters, sentences=4, **changes), "cpu", Console(quiet=True)
    ).lower
    lower.take([lower.prepare(pages[:7]), lower.prepare(pages[7:])])
    return lower


def segments(lower: Any, rows: list[int], **how: Any) -> Any:
    """Vectors of all segments of some pages."""
    return torch.cat(lower.documents(rows, **how))


def gradients(lower: Any, rows: list[int]) -> dict[str, Any]:
    """Of a loss over all sentences and titles of some pages."""
    sentences, titles = segments(lower, rows, training=3), lower.queries(rows, training=3)
    torch.manual_seed(0)
    loss = (sentences @ torch.randn(64)).pow(2).sum() + (titles @ torch.randn(64)).sum()
    loss.backward()
    lower.learn()
    return {name: weight.grad for name, weight in lower.module.named_parameters() if weight.grad is not None}


def test_gradients_in_small_batches_are_those_of_one_large_batch(small_model: Path, pages: list[Document]) -> None:
    at_once, in_parts = (lower_of(small_model, pages, budget=budget) for budget in (10**6, 40))
    for lower in (at_once, in_parts):
        for layer in lower.module.modules():
            if isinstance(layer, torch.nn.Dropout):
                layer.p = 0.0  # dropout is drawn for a batch, so it differs between the two
    whole, cached = (gradients(lower, [3, 9, 50]) for lower in (at_once, in_parts))
    assert whole.keys() == cached.keys()
    for name, gradient in whole.items():
        torch.testing.assert_close(cached[name], gradient, rtol=1e-4, atol=1e-5, msg=name)


def test_with_dropout_the_second_pass_sees_what_the_first_saw(small_model: Path, pages: list[Document]) -> None:
    lower = lower_of(small_model, pages, budget=40)
    assert torch.equal(segments(lower, [3, 9], training=5), segments(lower, [3, 9], training=5))
    assert not torch.equal(segments(lower, [3, 9], training=5), segments(lower, [3, 9], training=6))
    assert torch.equal(segments(lower, [3, 9]), segments(lower, [3, 9]))


def test_adapters_learn_alone_and_are_merged_into_the_weights(small_model: Path, pages: list[Document]) -> None:
    lower = lower_of(small_model, pages, budget=400, adapters=2)
    before = segments(lower, [1, 2])
    torch.testing.assert_close(before, segments(lower_of(small_model, pages, budget=400), [1, 2]))
    assert all("parametrizations" in name for name in gradients(lower, [1, 2]))
    with torch.no_grad():
        for weight in lower.parameters():
            weight.add_(0.1)
    changed = segments(lower, [1, 2])
    assert not torch.allclose(changed, before)
    merge_adapters(lower.module)
    torch.testing.assert_close(segments(lower, [1, 2]), changed)


def test_what_is_kept_of_a_page_is_its_first_sentences_and_which_of_them_are_its_title(
    small_model: Path, pages: list[Document]
) -> None:
    lower = lower_of(small_model, pages, budget=400)
    assert lower.lengths().max() == 4
    assert (lower.openings() >= 1).all()
    assert (lower.openings() < lower.lengths()).all()


def test_sentences_past_those_that_are_kept_are_counted(small_model: Path, pages: list[Document]) -> None:
    lower = lower_of(small_model, pages, budget=400)
    several = [Document(str(count), "de", "\n".join(["Ein Satz."] * count)) for count in (3, 4, 6)]
    part = lower.prepare(several)
    assert part["counts"].tolist() == [3, 4, 4]
    assert part["left_out"].tolist() == [0, 0, 2]


def test_a_text_without_anything_known_keeps_nothing(small_model: Path, pages: list[Document]) -> None:
    lower = lower_of(small_model, pages, budget=400)
    assert lower.prepare([Document("1", "de", " \n ")])["counts"].tolist() == [0]
    part = lower.prepare([Document("1", "de", "Ein Satz."), Document("2", "de", "", "Ein Titel")])
    np.testing.assert_array_equal(part["openings"], [0, 0])


def test_windows_in_training_are_those_of_an_index_each_with_the_title_before_it(
    small_model: Path, pages: list[Document]
) -> None:
    lower = lower_of(small_model, pages, budget=400, segmentation="windows", tokens=32)
    document = Document("1", "en", " ".join(f"goat {number}" for number in range(80)), "Goats")
    (text,) = lower.tokenizer.tokenize([document.content])
    part = lower.prepare([document])
    lower.take([part])
    heading = text.tokens_in(0, len(document.title))[1]
    expected = windows(len(text) - heading, 32 - lower.tokenizer.document_overhead - heading, 0)[:4]
    assert part["openings"].tolist() == [0]
    assert part["counts"].tolist() == [4]
    for ids, (start, end) in zip(lower.tokens(0), expected, strict=True):
        titled = np.concatenate([text.ids[:heading], text.ids[heading + start : heading + end]])
        np.testing.assert_array_equal(ids, lower.tokenizer.segment(titled))
