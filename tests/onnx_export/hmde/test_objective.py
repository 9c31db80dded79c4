"""The loss of a step: what a large batch keeps in memory, and that it learns the same."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from encoders.document import Document
from onnx_export.hmde import objective as module
from tests.onnx_export.hmde.conftest import SETTINGS, training_of

pytestmark = [pytest.mark.torch, pytest.mark.train]
SEED = 7


def objective_of(model: Path, pages: list[Document], place: Path, dropout: float = 0.1) -> Any:
    training = training_of(model, pages, place, replace(SETTINGS, dropout=dropout))
    training.upper.train()
    return training._objective


def kept(objective: Any, rows: Sequence[int]) -> int:
    """Bytes that the graph of some documents' vectors keeps until their gradients are wanted."""
    found: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        found[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        vectors = objective.documents(rows, SEED, 0.0)
    assert len(vectors) == len(rows)
    return sum(found.values())


def test_a_large_batch_keeps_no_more_than_a_small_one(small_model: Path, pages: list[Document], tmp_path: Path) -> None:
    objective = objective_of(small_model, pages, tmp_path)
    small = kept(objective, range(60))
    assert small > 10**6
    assert kept(objective, [*range(60)] * 4) < kept(objective, [*range(60)] * 8) < small


def gradients(objective: Any, rows: Sequence[int]) -> list[Any]:
    vectors = objective.documents(rows, SEED, 0.5)
    torch.manual_seed(1)  # gradients are taken after other things were drawn
    (vectors @ torch.randn(64, 3)).pow(2).sum().backward()
    objective._lower._given.clear()
    found = [weight.grad.clone() for weight in objective._upper.parameters()]
    objective._upper.zero_grad()
    return found


def direct(function: Callable[..., Any], *given: Any, use_reentrant: bool) -> Any:
    assert not use_reentrant
    return function(*given)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_gradients_in_parts_are_those_of_all_at_once(
    dropout: float, small_model: Path, pages: list[Document], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objective, rows = objective_of(small_model, pages, tmp_path, dropout), [*range(60)] * 3
    in_parts = gradients(objective, rows)
    if dropout:  # it is drawn for a part, so the same parts are taken, kept in memory
        monkeypatch.setattr(module, "checkpoint", direct)
    else:
        monkeypatch.setattr(module, "_TOGETHER", len(rows))
    for part, whole in zip(in_parts, gradients(objective, rows), strict=True):
        torch.testing.assert_close(part, whole, rtol=1e-4, atol=1e-5)


def test_of_a_page_only_the_segments_of_its_excerpt_are_encoded(
    small_model: Path, pages: list[Document], tmp_path: Path
) -> None:
    objective = training_of(small_model, pages, tmp_path, replace(SETTINGS, excerpt=1))._objective
    lower, rows = objective._lower, [row for row, count in enumerate(objective._lower.lengths()) if count > 1]
    excerpts = objective._excerpts(rows, SEED)
    assert excerpts.shape == (len(rows), 64)
    longest = sum(max(map(len, lower.tokens(row))) for row in rows)
    assert 0 < lower.encoded_tokens <= longest < sum(len(ids) for row in rows for ids in lower.tokens(row))
