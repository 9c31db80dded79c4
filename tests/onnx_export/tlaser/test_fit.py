"""The training loop: its schedule, its gradients, what it refuses; batches by tokens, each of one direction."""

import json
import signal
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from encoders.console import Console
from encoders.errors import BadInput
from encoders.tlaser.joint_vocabulary import END_ID, PAD_ID, TAG_ID, learn_vocabulary
from encoders.tlaser.tlaser_settings import TlaserPlan, TlaserTraining, Variant, preset
from encoders.tlaser.token_corpus import Corpus, Direction, Sentences
from onnx_export.tlaser.fit import Fitted, _Run, check_same, fingerprint, fit, learning_rate, with_earlier_settings
from onnx_export.tlaser.loss import total_loss, translation_loss
from onnx_export.tlaser.pair_batches import Batches
from onnx_export.tlaser.translator import Translator
from onnx_export.training.training_checkpoint import load_checkpoint, save_checkpoint
from tests.conftest import Capture, Patch

pytestmark = pytest.mark.torch

_TEXTS = {"de": [f"das Haus Nummer {n}" for n in range(20)], "en": [f"house number {n}" for n in range(20)]}


def train(plan: TlaserPlan, place: Path, *, held: int = 4, quiet: bool = True) -> Fitted:
    corpus, size = _corpus(held)
    return fit(corpus, plan, size, place, device="cpu", console=Console(quiet=quiet))


def _plan(variant: Variant = "t", **training: Any) -> TlaserPlan:
    plan = preset("small", variant)
    sizes = replace(plan.sizes, dim=16, token_width=16, ffn=16, decoder=16, layers=1, vocabulary=100)
    return replace(plan, sizes=sizes, training=replace(plan.training, batch_tokens=64, **training))


def _corpus(held: int = 4) -> tuple[Corpus, int]:
    tokenizer = learn_vocabulary((text for texts in _TEXTS.values() for text in texts), 100, "t")
    sentences = {lang: Sentences(tokenizer, texts) for lang, texts in _TEXTS.items()}
    rows = np.stack([np.arange(20)] * 2, axis=1)
    directions = [Direction("de", "en", rows), Direction("en", "de", rows)]
    validation = {lang: [own[row] for row in range(held)] for lang, own in sentences.items()}
    return Corpus(("de", "en"), ("en", "de"), sentences, directions, validation), tokenizer.get_vocab_size()


def test_the_rate_rises_in_a_line_and_falls_with_the_inverse_square_root_or_is_constant() -> None:
    training = TlaserTraining(30_000, 512, 1, rate=3e-3, warmup=200, dropout=0.0)
    for step, share in ((1, 1 / 200), (100, 0.5), (200, 1.0), (800, 0.5), (20_000, 0.1)):
        assert learning_rate(step, training) == pytest.approx(3e-3 * share)
    training = TlaserTraining(30_000, 512, 1, rate=1e-3, warmup=0, dropout=0.1)
    assert [learning_rate(step, training) for step in (1, 20_000)] == [1e-3, 1e-3]


@pytest.mark.parametrize("variant", ["ct", "claser"])
def test_the_constraint_holds_and_a_checkpoint_of_another_one_is_refused(variant: Variant, tmp_path: Path) -> None:
    plan = _plan(variant, steps=2, interval=2)
    (row,) = train(plan, tmp_path).curve
    assert row["paired"] > 0
    assert row["loss"] > 0.5 * row["translation"]
    other = replace(plan, constraint=replace(plan.constraint, margin=1.0))
    with pytest.raises(BadInput, match=r"checkpoint of another training .margin 0.5, now 1.0"):
        train(other, tmp_path)


def test_the_gradient_of_several_batches_is_the_mean_of_theirs(tmp_path: Path) -> None:
    corpus, size = _corpus()
    plan = _plan(steps=1, accumulate=2, clip=1e9, interval=1)
    torch.manual_seed(plan.training.seed)
    model = Translator("t", plan.sizes, size, 2)
    batches = Batches(corpus, "t", plan.training.batch_tokens, plan.training.seed)
    losses = []
    for batch in (next(batches) for _ in range(2)):
        arrays = (batch.source, batch.decoder_input, batch.labels, batch.places)
        source, decoder_input, labels, places = map(torch.from_numpy, arrays)
        logits = model.logits(model.encode(source), decoder_input, batch.language, places)
        losses.append(total_loss(translation_loss(logits, labels[labels != PAD_ID], 0.1), None, plan.constraint, 1.0))
    expected = torch.autograd.grad((losses[0] + losses[1]) / 2, list(model.parameters()))
    seen: list[torch.Tensor] = []

    def remember(optimizer: torch.optim.Optimizer, *_: object) -> None:
        seen.extend(weight.grad.clone() for group in optimizer.param_groups for weight in group["params"])

    hook = register_optimizer_step_pre_hook(remember)
    try:
        fitted = train(plan, tmp_path)
    finally:
        hook.remove()
    assert len(seen) == len(expected)
    assert all(torch.allclose(ours, mean, atol=1e-6) for ours, mean in zip(seen, expected, strict=True))
    assert fitted.curve[0]["loss"] == pytest.approx(float(sum(loss.item() for loss in losses)) / 2, rel=1e-5)


def test_a_training_that_diverges_ends_in_one_sentence_and_writes_nothing_down(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"the loss is no number at step \d+; remove .* and give a lower --rate"):
        train(_plan(steps=20, rate=1e38), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_without_validation_goes_on_and_one_of_other_sentences_is_refused(tmp_path: Path) -> None:
    plan = _plan(steps=2, interval=2)
    for _ in range(2):
        train(plan, tmp_path)
    with pytest.raises(BadInput, match=r"checkpoint of another training .validation sentences"):
        train(plan, tmp_path, held=5)
    told = json.loads(json.dumps(fingerprint(_corpus()[0], _plan(), 100)))
    older = {name: value for name, value in told.items() if name != "validation sentences"}
    check_same(older, told, tmp_path)
    with pytest.raises(BadInput, match="batch_tokens 64, now 65"):
        check_same(older, {**told, "batch_tokens": 65}, tmp_path)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_training_ends_its_step_and_goes_on(tmp_path: Path, monkeypatch: Patch, capsys: Capture) -> None:
    taken = Batches.__next__

    def interrupted(batches: Batches) -> object:
        if sum(batches.drawn) == 3:
            signal.raise_signal(signal.SIGINT)
        return taken(batches)

    monkeypatch.setattr(Batches, "__next__", interrupted)
    plan = _plan(steps=7, interval=2)
    with pytest.raises(KeyboardInterrupt):
        train(plan, tmp_path)
    assert "stopped after step 4; the same command goes on from there" in capsys.readouterr().err
    fitted = train(plan, tmp_path, quiet=False)
    assert "going on from step 4" in capsys.readouterr().err
    assert [row["step"] for row in fitted.curve] == [2, 4, 6, 7]


def test_a_checkpoint_of_the_first_version_keeps_its_best_weights(tmp_path: Path) -> None:
    plan = _plan(steps=4, interval=2)
    first = train(plan, tmp_path)
    state = load_checkpoint(tmp_path / "last.pt")
    assert state is not None
    del state["sums"]
    save_checkpoint(tmp_path / "best.pt", {"model": state.pop("best")})
    save_checkpoint(tmp_path / "last.pt", state)
    again = train(plan, tmp_path)
    assert again.curve == first.curve
    weights = again.model.state_dict()
    assert all(weight.equal(weights[name]) for name, weight in first.model.state_dict().items())


@pytest.mark.parametrize("variant", ["t", "ct", "laser", "claser"])
def test_a_batch_waits_for_no_number_from_the_device(variant: Variant, tmp_path: Path) -> None:
    """Tensors of torch's device meta have no numbers: to read one is an error, as to wait for a card would be."""
    corpus, size = _corpus()
    run = _Run(corpus, _plan(variant), size, tmp_path, torch.device("meta"))
    loss, _ = run._loss(next(run.batches))
    torch.autograd.backward(loss)
    assert loss.device.type == "meta"


@pytest.mark.parametrize("variant", ["t", "ct", "laser"])
@pytest.mark.parametrize("shared", [True, False])
def test_a_checkpoint_of_the_first_version_goes_on_if_it_fits(variant: Variant, shared: bool, tmp_path: Path) -> None:
    plan = preset("small", variant)
    now = fingerprint(_corpus()[0], replace(plan, sizes=replace(plan.sizes, shared=shared)), 100)
    later = {"token_width", "summed", *asdict(plan.constraint)}
    stored = with_earlier_settings({name: value for name, value in now.items() if name not in later})
    if shared and variant != "ct":
        check_same(stored, now, tmp_path)
        return
    with pytest.raises(BadInput, match="summed False, now True" if shared else "token_width of version 0.1.0, now"):
        check_same(stored, now, tmp_path)


TEXTS = {
    "de": [f"das Haus Nummer {n} " + "ist groß " * (n % 7) for n in range(40)],
    "en": [f"house number {n} " + "is large " * (n % 7) for n in range(40)],
    "es": [f"la casa número {n} " + "es grande " * (n % 7) for n in range(12)],
}


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    tokenizer = learn_vocabulary((text for texts in TEXTS.values() for text in texts), 200, "ct")
    both = [("de", "en", 40), ("de", "es", 12), ("en", "es", 12), ("es", "en", 12)]
    return Corpus(
        languages=("de", "en", "es"),
        pivots=("en", "es"),
        sentences={lang: Sentences(tokenizer, texts) for lang, texts in TEXTS.items()},
        directions=[Direction(a, b, np.stack([np.arange(n)] * 2, axis=1)) for a, b, n in both],
        validation={},
    )


def test_a_batch_stays_within_its_budget_and_says_the_same_sentence_on_both_sides(corpus: Corpus) -> None:
    batches = Batches(corpus, "ct", 100, 0)
    for batch in (next(batches) for _ in range(60)):
        rows, width = batch.source.shape
        assert rows == 1 or rows * max(width, batch.labels.shape[1]) <= 100
        assert (batch.source[:, 0] == TAG_ID).all()
        assert (batch.decoder_input[:, 0] == END_ID).all()
        assert batch.tokens == (batch.labels != PAD_ID).sum()
        assert ((batch.labels == END_ID).sum(axis=1) == 1).all()
        said = np.where(batch.labels == END_ID, PAD_ID, batch.labels)
        assert np.array_equal(batch.decoder_input[:, 1:], said[:, :-1])
        assert np.array_equal(batch.target[:, 1:], batch.decoder_input[:, 1:])
    source = next(Batches(corpus, "laser", 100, 0)).source
    assert ((source == END_ID).sum(axis=1) == 1).all()
    assert not (source == TAG_ID).any()


def test_directions_are_drawn_alike_however_many_pairs_they_have(corpus: Corpus) -> None:
    batches = Batches(corpus, "ct", 100, 0)
    for _ in range(2000):
        next(batches)
    assert 400 < min(batches.drawn) <= max(batches.drawn) < 600


def test_a_pass_takes_every_pair_once(corpus: Corpus) -> None:
    batches = Batches(corpus, "ct", 100, 0)
    seen: Counter[bytes] = Counter()
    while batches.drawn[0] < 100:
        before = batches.drawn[0]
        batch = next(batches)
        if batches.drawn[0] > before:
            seen.update(row[row != PAD_ID].tobytes() for row in batch.source)
    assert len(seen) == 40
    assert max(seen.values()) - min(seen.values()) <= 1
