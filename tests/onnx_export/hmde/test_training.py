"""Training: it learns, stops, goes on after it was killed as if nothing had been, and a large batch has room."""

import signal
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from encoders.console import Console
from encoders.errors import BadInput
from onnx_export.hmde import objective
from onnx_export.training.device import mixed_precision, set_attention
from onnx_export.training.training_progress import interrupt_later
from tests.conftest import Patch
from tests.onnx_export.hmde.conftest import AS_SMALL, KINDS, SETTINGS, Train

pytestmark = [pytest.mark.torch, pytest.mark.train]


def weights(training: Any) -> bytes:
    state = {**training.upper.state_dict(), **training.lower.state()}
    return b"".join(state[name].numpy().tobytes() for name in sorted(state))


def run(training: Any) -> Any:
    """A training of which "it" is told, or that goes on, run to its end."""
    training.resume("it")
    training.run(Console(quiet=True))
    return training


@pytest.mark.parametrize("kind", ["paper", "small", pytest.param("titles", marks=pytest.mark.long)])
def test_the_loss_falls_and_the_best_weights_are_kept(kind: str, finished: Train) -> None:
    curve = finished(kind).curve
    assert [point.step for point in curve.points] == [0, 4, 8, 12]
    assert curve.points[-1].loss < curve.points[0].loss
    assert curve.best_score == max(point.score for point in curve.points)
    assert curve.best in {point.step for point in curve.points if point.score == curve.best_score}


@pytest.mark.parametrize("seed", [2**12, 2**32, 2**64])
def test_a_seed_may_be_large(train: Train, seed: int) -> None:
    assert np.isfinite(run(train(replace(AS_SMALL, seed=seed, steps=1, adapters=2))).curve.points[-1].loss)


def test_the_weights_that_are_kept_score_what_the_curve_says(train: Train) -> None:
    settings = replace(AS_SMALL, rate=0.05, steps=6, evaluate=1, accumulate=1)
    training = train(settings, frozenset({"1", "3", "5", "8", "12", "14"}))
    curve = run(training).curve
    assert curve.points[-1].score < curve.best_score  # such a rate makes it worse
    assert training.score() == curve.best_score


@pytest.mark.parametrize("warmup", [0, 1, 2])
def test_the_rate_rises_to_its_peak_and_falls_to_nothing_after_the_last_step(train: Train, warmup: int) -> None:
    training = train(replace(SETTINGS, rate=1.0, warmup=warmup))
    rates = []
    for training.step in range(13):
        rates.append(training._rate())
    falling = [(12 - step) / (12 - warmup) for step in range(warmup, 13)]
    assert rates == pytest.approx([*((step + 1) / warmup for step in range(warmup)), *falling])
    assert (max(rates), rates[-1]) == (1.0, 0.0)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_is_noted_once_and_interrupts_the_second_time_and_stays_ignored() -> None:
    with interrupt_later() as asked:
        assert not asked()
        signal.raise_signal(signal.SIGINT)
        assert asked()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interrupt_later() as asked:
        signal.raise_signal(signal.SIGINT)
        assert not asked()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.parametrize(("steps", "stopped"), [(12, "no better MAP in 2 validations"), (4, "")])
def test_it_stops_when_nothing_gets_better_but_not_at_its_last_step(train: Train, steps: int, stopped: str) -> None:
    training = run(train(replace(SETTINGS, rate=1e-12, steps=steps, warmup=0, evaluate=2, patience=2)))
    assert (training.curve.stopped, training.step < steps) == (stopped, bool(stopped))


@pytest.mark.parametrize("kind", ["paper", "small"])
def test_a_checkpoint_goes_on_to_the_same_bytes(train: Train, kind: str, finished: Train, monkeypatch: Patch) -> None:
    first = train(KINDS[kind])
    first.resume("it")
    learn = first._learn

    def step() -> Any:
        if first.step == 7:
            first.save()
            raise KeyboardInterrupt
        return learn()

    monkeypatch.setattr(first, "_learn", step)
    with pytest.raises(KeyboardInterrupt):
        first.run(Console(quiet=True))
    training, whole = train(KINDS[kind]), finished(kind)
    assert training.resume("it")
    assert training.step == 7
    training.run(Console(quiet=True))
    assert (weights(training), training.curve) == (weights(whole), whole.curve)


def test_a_rate_that_blows_the_weights_up_is_said(train: Train) -> None:
    with pytest.raises(BadInput, match=r"the loss is no number any more at step \d+; train with a smaller --rate"):
        run(train(replace(SETTINGS, rate=float("inf"))))


@pytest.mark.parametrize("kind", ["paper", "titles", "small"])
def test_a_batch_waits_for_no_number_from_the_device(train: Train, kind: str) -> None:
    """Tensors of torch's device meta have no numbers: to read one is an error, as to wait for a card would be."""
    training = train(KINDS[kind])
    training.lower.device = "meta"
    for module in (training.upper, training.lower.module):
        set_attention(module.to("meta"), "fused")
    training._objective.loss(0, 1).backward()
    training.lower.learn()
    assert {weight.grad.device.type for weight in training.lower.parameters() if weight.grad is not None} == {"meta"}


def test_the_upper_encoder_is_in_half_precision_and_the_loss_not(train: Train, monkeypatch: Patch) -> None:
    """On CUDA; here the CPU stands for it."""
    training = train()
    assert isinstance(mixed_precision("cpu"), nullcontext)
    plain = training._objective.loss(0, 1)
    monkeypatch.setattr(objective, "mixed_precision", lambda _: torch.autocast("cpu", torch.bfloat16))
    seen: dict[str, Any] = {}
    layer = training.upper.transformer.encoder.layer[0].intermediate.dense
    layer.register_forward_hook(lambda _module, _inputs, output: seen.update(product=output.dtype))
    training.upper.register_forward_hook(lambda _module, _inputs, output: seen.update(vectors=output.dtype))
    loss = training._objective.loss(0, 1)
    loss.backward()
    assert seen == {"product": torch.bfloat16, "vectors": torch.float32}
    assert {weight.grad.dtype for weight in training.upper.parameters()} == {torch.float32}
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(plain.item(), rel=0.02)


SEED = 7


def objective_of(train: Train, dropout: float = 0.1) -> Any:
    training = train(replace(SETTINGS, dropout=dropout))
    training.upper.train()
    return training._objective


def kept(of_step: Any, rows: Sequence[int]) -> int:
    """Bytes that the graph of some documents' vectors keeps until their gradients are wanted."""
    found: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        found[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        vectors = of_step.documents(rows, SEED, 0.0)
    assert len(vectors) == len(rows)
    return sum(found.values())


def test_a_large_batch_keeps_no_more_than_a_small_one(train: Train) -> None:
    of_step = objective_of(train)
    small = kept(of_step, range(60))
    assert small > 10**6
    assert kept(of_step, [*range(60)] * 4) < kept(of_step, [*range(60)] * 8) < small


def gradients(of_step: Any, rows: Sequence[int]) -> list[Any]:
    vectors = of_step.documents(rows, SEED, 0.5)
    torch.manual_seed(1)  # gradients are taken after other things were drawn
    (vectors @ torch.randn(64, 3)).pow(2).sum().backward()
    of_step._lower._given.clear()
    found = [weight.grad.clone() for weight in of_step._upper.parameters()]
    of_step._upper.zero_grad()
    return found


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_gradients_in_parts_are_those_at_once(train: Train, dropout: float, monkeypatch: Patch) -> None:
    of_step, rows = objective_of(train, dropout), [*range(60)] * 3
    in_parts = gradients(of_step, rows)
    if dropout:  # it is drawn for a part, so the same parts are taken, kept in memory
        monkeypatch.setattr(objective, "checkpoint", lambda function, *given, **_: function(*given))
    else:
        monkeypatch.setattr(objective, "_TOGETHER", len(rows))
    for part, whole in zip(in_parts, gradients(of_step, rows), strict=True):
        torch.testing.assert_close(part, whole, rtol=1e-4, atol=1e-5)


def test_of_a_page_only_the_segments_of_its_excerpt_are_encoded(train: Train) -> None:
    of_step = train(replace(SETTINGS, excerpt=1))._objective
    lower, rows = of_step._lower, [row for row, count in enumerate(of_step._lower.lengths()) if count > 1]
    excerpts = of_step._excerpts(rows, SEED)
    assert excerpts.shape == (len(rows), 64)
    longest = sum(max(map(len, lower.tokens(row))) for row in rows)
    assert 0 < lower.encoded_tokens <= longest < sum(len(ids) for row in rows for ids in lower.tokens(row))
