"""Train HMDE: the loop, what it keeps, and where it goes on after it was killed."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from encoders.console import Console
from encoders.document import FloatArray
from encoders.errors import BadInput
from encoders.hmde.triples import Rows, Triples
from encoders.hmde.upper import UpperShape
from onnx_export.hmde.lower_encoders.lower import Lower
from onnx_export.hmde.model import Upper
from onnx_export.hmde.objective import Objective
from onnx_export.hmde.settings import Curve, CurvePoint, Settings
from onnx_export.hmde.validation import mean_average_precision
from onnx_export.training.checkpoint import load_checkpoint, save_checkpoint
from onnx_export.training.interrupt import interrupt_later
from onnx_export.training.progress import TrainingProgress
from onnx_export.training.seeds import seed_torch

_SAVE_SECONDS = 30.0
_TOGETHER = 64
State = dict[str, dict[str, torch.Tensor]]


class Training:
    """One training: its model, its optimiser, its curve.

    On the CPU, with as many threads, the same settings and documents give the same weights bit for bit, whether the
    process ran through or was killed and started again: every step draws from its own seed, and what is saved is all
    there is.

    Attributes:
        upper: the upper transformer.
        lower: the lower encoder.
        curve: so far.
        step: done.
    """

    def __init__(
        self,
        lower: Lower,
        shape: UpperShape,
        triples: Triples,
        validation: Rows,
        settings: Settings,
        *,
        place: Path,
        device: str = "cpu",
    ) -> None:
        """Take what is trained on what.

        Args:
            lower: with all documents prepared.
            shape: of the upper transformer.
            triples: of the documents that teach.
            validation: rows of the documents that are held out; where there are none, the last weights are kept.
            settings: how.
            place: file of the checkpoint.
            device: of the upper transformer.
        """
        self.lower, self._triples, self._validation = lower, triples, validation
        self.settings, self._place, self._device = settings, place, device
        seed_torch(settings.seed)
        self.upper = Upper(shape, settings.dropout).to(device)
        self._weights = [*self.upper.parameters(), *lower.parameters()]
        self._optimiser = torch.optim.AdamW(self._weights, lr=settings.rate, weight_decay=settings.decay)
        self._objective = Objective(self.upper, lower, triples, settings)
        self.curve = Curve(validated=bool(len(validation)))
        self.step = 0
        self._best: State = self._copied()
        self._losses: list[float] = []
        self._about = ""

    def resume(self, about: str) -> bool:
        """Go on from the checkpoint, if there is one.

        Args:
            about: identifies documents and settings.

        Raises:
            BadInput: it is damaged, or of another training.
        """
        self._about = about
        state = load_checkpoint(self._place, random=False)
        if state is None:
            return False
        if state["about"] != about:
            raise BadInput(
                f"{self._place} is of a training with other documents, settings or encoder; "
                "give the same again to go on, or delete it to begin anew"
            )
        self._set(state["now"])
        self._best = state["best"]
        self._objective.means = state["means"]
        self._optimiser.load_state_dict(state["optimiser"])
        said = json.loads(state["said"])
        self.step, self._losses = said["step"], said["losses"]
        points = [CurvePoint(**point) for point in said["points"]]
        self.curve = Curve(points, said["best"], said["stopped"], said["validated"])
        return True

    def run(self, console: Console) -> Curve:
        """Train to the end, saving now and then; the best weights are then the model's.

        Raises:
            MissingPart: the disk is full.
            BadInput: the loss is no number any more.
            KeyboardInterrupt: Ctrl-C was pressed; the step it came in is done and saved.
        """
        settings = self.settings
        if not self.curve.points:
            self._objective.measure_means()
            self._validate(console)
        saved = time.monotonic()
        progress = TrainingProgress(console, self.step, settings.steps, "triples")
        with interrupt_later() as interrupted:
            while self.step < settings.steps and not self.curve.stopped:
                loss = self._learn()
                self.step += 1
                progress(settings.batch * settings.accumulate, loss)
                if self.step % settings.evaluate == 0 or self.step == settings.steps:
                    self._validate(console)
                if interrupted():
                    self.save()
                    console.warn(f"stopped after step {self.step:,}; the same command goes on from there")
                    raise KeyboardInterrupt
                if time.monotonic() - saved > _SAVE_SECONDS:
                    self.save()
                    saved = time.monotonic()
        self.save()
        self._set(self._best)
        return self.curve

    def save(self) -> None:
        """Write the checkpoint.

        Raises:
            MissingPart: the disk is full.
        """
        said = {"step": self.step, "losses": self._losses, **asdict(self.curve)}
        state: dict[str, Any] = {
            "about": self._about,
            "now": self._copied(),
            "best": self._best,
            "means": self._objective.means,
            "optimiser": self._optimiser.state_dict(),
            "said": json.dumps(said),
        }
        save_checkpoint(self._place, state)

    def documents(self, rows: Sequence[int]) -> FloatArray:
        """Vectors of documents without their titles by the model as it is, (rows, dim)."""
        self.upper.eval()
        lengths = self.lower.lengths()
        order = sorted(range(len(rows)), key=lambda at: int(lengths[rows[at]]))
        result = np.zeros((len(rows), self.upper.shape.dim), dtype=np.float32)
        with torch.no_grad():
            for start in range(0, len(order), _TOGETHER):
                batch = order[start : start + _TOGETHER]
                result[batch] = self._objective.documents([rows[at] for at in batch], None, 1.0).cpu().numpy()
        return result

    def score(self) -> float:
        """MAP on held-out concepts by the model as it is; 0 where there are none."""
        rows = self._validation.tolist()
        pages = [self._triples.pages[row] for row in rows]
        queries: FloatArray = np.zeros((0, self.upper.shape.dim), dtype=np.float32)
        if rows:
            with torch.no_grad():
                queries = self.lower.queries(rows).cpu().numpy()
        return mean_average_precision(self.documents(rows), queries, pages)

    def _learn(self) -> float:
        """One step of the optimiser; returns its loss."""
        settings = self.settings
        self.upper.train()
        for group in self._optimiser.param_groups:
            group["lr"] = self._rate()
        total = 0.0
        for part in range(settings.accumulate):
            number = self.step * settings.accumulate + part
            loss = self._objective.loss(number, (settings.seed << 32) + 2 * number)
            (loss / settings.accumulate).backward()  # type: ignore[no-untyped-call]
            self.lower.learn()
            total += loss.item() / settings.accumulate
        if not np.isfinite(total):
            raise BadInput(f"the loss is no number any more at step {self.step + 1}; train with a smaller --rate")
        torch.nn.utils.clip_grad_norm_(self._weights, settings.clip)
        self._optimiser.step()
        self._optimiser.zero_grad()
        self._losses.append(total)
        return total

    def _rate(self) -> float:
        """Up in a line to the peak, then down in a line to nothing."""
        settings = self.settings
        up = (self.step + 1) / max(settings.warmup, 1)
        down = (settings.steps - self.step) / max(settings.steps - settings.warmup, 1)
        return settings.rate * min(up, down, 1.0)

    def _validate(self, console: Console) -> None:
        score = self.score()
        loss = float(np.mean(self._losses)) if self._losses else float(self._first_loss())
        point = CurvePoint(self.step, round(loss, 6), self._rate() if self.step < self.settings.steps else 0.0, score)
        self.curve.points.append(point)
        self._losses = []
        better = score > max((one.score for one in self.curve.points[:-1]), default=-1.0) or not self.curve.validated
        if better:
            self.curve.best, self._best = self.step, self._copied()
        console.say(
            f"step {self.step:,}: loss {loss:.3f}, rate {point.rate:.1e}"
            + (f", MAP on held-out concepts {score:.4f}" if self.curve.validated else "")
            + (" (best)" if better and self.curve.validated else "")
        )
        since = [one.step for one in self.curve.points].index(self.curve.best)
        patience = self.settings.patience
        if patience and len(self.curve.points) - 1 - since >= patience:
            self.curve.stopped = f"no better MAP in {patience} validations"

    def _first_loss(self) -> float:
        self.upper.eval()
        with torch.no_grad():
            return self._objective.loss(0, None).item()

    def _copied(self) -> State:
        return {
            "upper": {name: weight.detach().cpu().clone() for name, weight in self.upper.state_dict().items()},
            "lower": {name: weight.cpu().clone() for name, weight in self.lower.state().items()},
        }

    def _set(self, state: State) -> None:
        self.upper.load_state_dict(state["upper"])
        self.lower.restore(state["lower"])
