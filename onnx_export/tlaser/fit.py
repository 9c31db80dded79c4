"""The training loop: from a corpus to the weights with the lowest error on the validation sentences."""

import json
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from encoders.console import Console
from encoders.document import FloatArray, unit_rows
from encoders.errors import BadInput
from encoders.inference.session import token_batches
from encoders.machine.placement import Device
from encoders.tlaser.similarity import search_errors
from encoders.tlaser.tlaser_settings import CONSTRAINED, TlaserPlan, TlaserTraining
from encoders.tlaser.token_corpus import Corpus
from onnx_export.tlaser.loss import distances, draw_negatives, total_loss, translation_loss
from onnx_export.tlaser.pair_batches import Batch, Batches, encoder_input, padded
from onnx_export.tlaser.translator import Translator
from onnx_export.training.curve import write_rows
from onnx_export.training.device import mixed_precision, seed_torch, to_device, training_device
from onnx_export.training.training_checkpoint import SavingTimes, load_checkpoint, save_checkpoint
from onnx_export.training.training_progress import TrainingProgress, interrupt_later

_LAST, _BEST, CURVE = "last.pt", "best.pt", "curve.jsonl"
_GPU_BUDGET, _CPU_BUDGET = 32_768, 2048
"""Padded tokens per validation batch: on a CPU a transformer takes half as long again at 8,192, the LSTM at 512."""


@dataclass(frozen=True)
class Fitted:
    """A trained model."""

    model: Translator  # the model with the weights of the lowest validation error, on the CPU, in evaluation mode
    curve: list[dict[str, float]]  # rows: step, tokens, mean loss and terms since the last, rate, validation error
    best: dict[str, float]  # the row of the curve at which the weights were saved
    rate: float  # target tokens per second of this run, validation included; 0 if there was nothing left to train


def fit(
    corpus: Corpus, plan: TlaserPlan, vocabulary: int, folder: Path, *, device: Device = "auto", console: Console
) -> Fitted:
    """Train a model; resume from the checkpoint in ``folder`` if there is one, to more steps if the plan has more.

    A run that was killed and resumes gives the same curve, byte for byte on the CPU with the same number of threads.
    ``vocabulary`` is the number of tokens; ``folder`` gets the checkpoints and ``curve.jsonl``. Raises BadInput: the
    checkpoint is of another plan or corpus, or the loss is not a finite number; MissingPart: CUDA is missing, or a
    checkpoint can't be written; KeyboardInterrupt: Ctrl-C was pressed; the current step was finished and saved.
    """
    run = _Run(corpus, plan, vocabulary, folder, training_device(device, console))
    if run.step:
        console.say(f"going on from step {run.step:,}")
    saving = SavingTimes()
    progress = TrainingProgress(console, run.step, plan.training.steps)
    with interrupt_later() as interrupted:
        while run.step < plan.training.steps:
            loss, tokens = run.update()
            progress(loss, tokens=tokens)
            if run.step % plan.training.interval == 0:
                run.record(console)
            saving.after_step(run.step, run.save, console, interrupted=interrupted())
    if run.steps_since_row:
        run.record(console)
    run.save()
    return run.fitted(progress.counts["tokens"] / progress.seconds)


class _Run:
    """A model in training: weights, optimiser, position in the corpus, curve."""

    def __init__(self, corpus: Corpus, plan: TlaserPlan, vocabulary: int, folder: Path, device: torch.device) -> None:
        training = plan.training
        self.corpus, self.plan, self.folder, self.device = corpus, plan, folder, device
        self.fingerprint = fingerprint(corpus, plan, vocabulary)
        seed_torch(training.seed)
        self.model = Translator(plan.variant, plan.sizes, vocabulary, len(corpus.pivots), training.dropout).to(device)
        # Weight decay is separate from the gradient, as in fairseq: with decay inside the gradient, Adam would soon
        # reduce the weights of rare tokens to zero.
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=training.rate, betas=(0.9, 0.98), weight_decay=training.decay, fused=True
        )
        self.step, self.tokens = 0, 0
        self.curve: list[dict[str, float]] = []
        self.sums: dict[str, float] = defaultdict(float)
        self.best: Mapping[str, torch.Tensor] = {}
        self.batches = Batches(corpus, plan.variant, training.batch_tokens, training.seed)
        self._resume()

    def _resume(self) -> None:
        if (stored := load_checkpoint(self.folder / _LAST)) is None:
            return
        check_same(with_earlier_settings(json.loads(stored["told"])), self.fingerprint, self.folder)
        self.model.load_state_dict(stored["model"])
        self.optimizer.load_state_dict(stored["optimizer"])
        self.step, self.tokens = stored["step"], stored["tokens"]
        self.curve = json.loads(stored["curve"])
        self.batches.drawn = list(stored["drawn"])
        if "best" in stored:
            self.best = stored["best"]
            self.sums.update(stored["sums"])
        elif (stored := load_checkpoint(self.folder / _BEST, random=False)) is None:  # version 0.1
            raise BadInput(f"{self.folder} lacks {_BEST}; remove the folder to begin anew")
        else:
            self.best = stored["model"]

    @property
    def steps_since_row(self) -> int:
        return self.step - (int(self.curve[-1]["step"]) if self.curve else 0)

    def update(self) -> tuple[float, int]:
        """Update the weights; return loss and target tokens. Raises BadInput: loss or gradient is not finite."""
        training = self.plan.training
        self.model.train()
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.step + 1, training)
        tokens = 0
        sums: dict[str, torch.Tensor | float] = {}
        for _ in range(training.accumulate):
            batch = next(self.batches)
            loss, terms = self._loss(batch)
            torch.autograd.backward(loss / training.accumulate)
            tokens += batch.tokens
            for name, value in {"loss": loss, **terms}.items():  # on the device: to read a number waits for it
                sums[name] = sums.get(name, 0.0) + value.detach().double() / training.accumulate
        gradient_norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), training.clip)
        for name, total in sums.items():
            self.sums[name] += float(total)
        mean = float(sums["loss"])
        if not (math.isfinite(mean) and math.isfinite(gradient_norm.item())):
            raise BadInput(
                f"the loss is no number at step {self.step + 1:,}; remove {self.folder} and give a lower --rate"
            )
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        self.tokens += tokens
        return mean, tokens

    def _loss(self, batch: Batch) -> tuple[torch.Tensor, Mapping[str, torch.Tensor]]:
        constraint = self.plan.constraint
        with mixed_precision(self.device):
            source = self.model.encode(torch.from_numpy(batch.source))
            logits = self.model.logits(
                source, self._tensor(batch.decoder_input), batch.language, self._tensor(batch.places)
            )
            target = self.model.encode(torch.from_numpy(batch.target)) if constraint.beta or constraint.lam else None
        labels = self._tensor(batch.labels.ravel()[batch.places])
        translation = translation_loss(logits, labels, self.plan.training.smoothing)
        sentences_per_token = len(source) / batch.tokens
        if target is None:
            return total_loss(translation, None, constraint, sentences_per_token), {"translation": translation}
        forward, backward = (
            to_device(draw_negatives(len(source), constraint.negatives), self.device) for _ in range(2)
        )
        terms = distances(source.float(), target.float(), forward, backward, constraint.margin)
        total = total_loss(translation, terms, constraint, sentences_per_token)
        return total, {"translation": translation, "paired": terms.paired, "delta": terms.delta}

    def _tensor(self, ids: np.ndarray) -> torch.Tensor:
        return to_device(torch.from_numpy(ids), self.device)

    def record(self, console: Console) -> None:
        """Validate, add a row to the curve, and keep the weights if they are the best."""
        row = {
            "step": self.step,
            "tokens": self.tokens,
            **{name: total / self.steps_since_row for name, total in self.sums.items()},
            "rate": learning_rate(self.step, self.plan.training),
            "error": validation_error(self.model, self.corpus, self.plan, self.device),
        }
        self.sums.clear()
        is_best = not self.curve or row["error"] < min(earlier["error"] for earlier in self.curve)
        self.curve.append(row)
        if is_best:
            self.best = {name: weight.to("cpu", copy=True) for name, weight in self.model.state_dict().items()}
        console.say(f"step {self.step:,}: loss {row['loss']:.3f}, search error {100 * row['error']:.1f} %")

    def save(self) -> None:
        save_checkpoint(
            self.folder / _LAST,
            {
                "told": json.dumps(self.fingerprint),
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "step": self.step,
                "tokens": self.tokens,
                "curve": json.dumps(self.curve),
                "drawn": self.batches.drawn,
                "sums": dict(self.sums),
                "best": self.best,
            },
        )
        write_rows(self.curve, self.folder / CURVE)

    def fitted(self, rate: float) -> Fitted:
        self.model.load_state_dict(self.best)
        best = min(self.curve, key=lambda row: row["error"])
        return Fitted(self.model.cpu().eval(), self.curve, best, rate)


def learning_rate(step: int, training: TlaserTraining) -> float:
    """Rate of a step, from 1: linear rise to the peak, then inverse square root decay; constant without warm-up."""
    if not training.warmup:
        return training.rate
    return float(training.rate * min(step / training.warmup, (training.warmup / step) ** 0.5))


def fingerprint(corpus: Corpus, plan: TlaserPlan, vocabulary: int) -> dict[str, Any]:
    """Values that a checkpoint must share with the run that resumes from it, by name."""
    return {
        "variant": plan.variant,
        **asdict(plan.sizes),
        **asdict(plan.constraint),
        "summed": True,  # version 0.1.0 took the mean
        **{name: value for name, value in asdict(plan.training).items() if name != "steps"},
        "tokens of the vocabulary": vocabulary,
        "sentences": corpus.hash(),
        "validation sentences": corpus.validation_hash(),
    }


def with_earlier_settings(stored: Mapping[str, Any]) -> dict[str, Any]:
    """A checkpoint's values, by default those of 0.1.0: cT-LASER took the mean, and three tables had another shape."""
    earlier: dict[str, Any] = {"token_width": stored["dim"] if stored["shared"] else "of version 0.1.0"}
    if stored["variant"] in CONSTRAINED:
        earlier["summed"] = False
    return {**earlier, **stored}


def check_same(stored: Mapping[str, Any], now: Mapping[str, Any], folder: Path) -> None:
    """Check that a checkpoint belongs to this training. Raises BadInput: some values differ; the message names them."""
    differing = [
        f"{name} {stored[name]}, now {value}" for name, value in now.items() if stored.get(name, value) != value
    ]
    if differing:
        raise BadInput(
            f"{folder} has a checkpoint of another training ({'; '.join(differing[:3])}); give the same sources and "
            "options to go on with it, or remove the folder to begin anew"
        )


def validation_error(model: Translator, corpus: Corpus, plan: TlaserPlan, device: torch.device) -> float:
    """Mean similarity-search error over all ordered pairs of languages on the validation sentences."""
    model.eval()
    vectors, present = {}, {}
    for lang, sentences in corpus.validation.items():
        inputs = [encoder_input(ids, plan.variant) for ids in sentences if ids is not None]
        present[lang] = np.array([ids is not None for ids in sentences], dtype=np.bool_)
        vectors[lang] = np.zeros((len(sentences), plan.sizes.dim), dtype=np.float32)
        vectors[lang][present[lang]] = unit_rows(_encode(model, inputs, plan.sizes.dim, device))
    return float(np.mean(list(search_errors(vectors, present).values())))


def _encode(model: Translator, inputs: list[Any], dim: int, device: torch.device) -> FloatArray:
    result = np.zeros((len(inputs), dim), dtype=np.float32)
    budget = _GPU_BUDGET if device.type == "cuda" else _CPU_BUDGET
    with torch.no_grad(), mixed_precision(device):
        for batch in token_batches([len(ids) for ids in inputs], budget):
            ids = torch.from_numpy(padded([inputs[row] for row in batch]))
            result[batch] = model.encode(ids).float().cpu().numpy()
    return result
