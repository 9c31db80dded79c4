"""Train HMDE: the training loop, its validation, and its checkpoints, from which a killed training resumes."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from encoders.console import Console
from encoders.document import FloatArray, unit_rows
from encoders.errors import BadInput
from encoders.hmde.triples import Rows, TripleDocument, Triples
from encoders.hmde.upper import UpperShape
from onnx_export.hmde.hmde_settings import Curve, CurvePoint, Settings
from onnx_export.hmde.lower_encoders.lower import Lower
from onnx_export.hmde.objective import Objective
from onnx_export.hmde.upper_model import Upper
from onnx_export.training.device import seed_torch, set_attention
from onnx_export.training.training_checkpoint import SavingTimes, load_checkpoint, save_checkpoint
from onnx_export.training.training_progress import TrainingProgress, interrupt_later

_TOGETHER = 64
_DEPTH = 100
_QUERIES = 500
"""Maximum titles of held-out pages that validate; they are taken at equal distances."""
State = dict[str, dict[str, torch.Tensor]]


class Training:
    """One training: its model, its optimiser, its curve.

    On the CPU the same threads, settings and documents give the same weights bit for bit, also after a kill: every step
    has its own seed, and a checkpoint holds the whole state.
    """

    def __init__(
        self, lower: Lower, shape: UpperShape, triples: Triples, validation: Rows, settings: Settings, *, place: Path
    ) -> None:
        """Make the upper transformer, on the device of ``lower``, and the optimiser; ``lower`` has taken all documents.

        ``validation`` has rows of held-out documents; without them the last weights stay. ``place`` is a checkpoint.
        """
        self.lower, self._triples, self._validation = lower, triples, validation
        self.settings, self._checkpoint_file = settings, place
        seed_torch(settings.seed)
        self.upper = Upper(shape, settings.dropout).to(lower.device)
        if lower.device.startswith("cuda"):
            set_attention(self.upper, "fused")
        self._weights = [*self.upper.parameters(), *lower.parameters()]
        self._optimiser = torch.optim.AdamW(self._weights, lr=settings.rate, weight_decay=settings.decay)
        self._objective = Objective(self.upper, lower, triples, settings)
        self.curve = Curve(validated=bool(len(validation)))
        self.step = 0
        self._best: State = self._copy_weights()
        self._losses: list[float] = []
        self._about = ""

    def resume(self, about: str) -> bool:
        """Whether a checkpoint of ``about``, documents and settings, was resumed. Raises BadInput: it doesn't fit."""
        self._about = about
        if (state := load_checkpoint(self._checkpoint_file, random=False)) is None:
            return False
        if state["about"] != about:
            raise BadInput(
                f"{self._checkpoint_file} is of a training with other documents, settings or encoder; "
                "give the same again to go on, or delete it to begin anew"
            )
        self._set_weights(state["now"])
        self._best = state["best"]
        self._objective.means = state["means"]
        self._optimiser.load_state_dict(state["optimiser"])
        history = json.loads(state["said"])
        self.step, self._losses = history["step"], history["losses"]
        points = [CurvePoint(**point) for point in history["points"]]
        self.curve = Curve(points, history["best"], history["stopped"], history["validated"])
        return True

    def run(self, console: Console) -> Curve:
        """Train to the end, with checkpoints; then load the best weights into the model.

        Raises MissingPart: the disk is full; BadInput: the loss is not a finite number; KeyboardInterrupt: Ctrl-C was
        pressed; the current step was finished and saved.
        """
        settings = self.settings
        if not self.curve.points:
            self._objective.measure_means()
            self._validate(console)
        saving = SavingTimes()
        progress = TrainingProgress(console, self.step, settings.steps)
        with interrupt_later() as interrupted:
            while self.step < settings.steps and not self.curve.stopped:
                tokens_before = self.lower.encoded_tokens
                loss = self._learn()
                self.step += 1
                tokens = self.lower.encoded_tokens - tokens_before
                progress(loss, triples=settings.batch * settings.accumulate, tokens=tokens)
                if self.step % settings.evaluate == 0 or self.step == settings.steps:
                    self._validate(console)
                saving.after_step(self.step, self.save, console, interrupted=interrupted())
        self.save()
        self._set_weights(self._best)
        return self.curve

    def save(self) -> None:
        """Write the checkpoint. Raises MissingPart: the disk is full."""
        history = {"step": self.step, "losses": self._losses, **asdict(self.curve)}
        state: dict[str, Any] = {
            "about": self._about,
            "now": self._weights_now(),
            "best": self._best,
            "means": self._objective.means,
            "optimiser": self._optimiser.state_dict(),
            "said": json.dumps(history),
        }
        save_checkpoint(self._checkpoint_file, state)

    def documents(self, rows: Sequence[int]) -> FloatArray:
        """Vectors of documents without their titles by the current weights, (rows, dim)."""
        self.upper.eval()
        lengths = self.lower.lengths()
        order = sorted(range(len(rows)), key=lambda index: int(lengths[rows[index]]))
        result = np.zeros((len(rows), self.upper.shape.dim), dtype=np.float32)
        with torch.no_grad():
            for start in range(0, len(order), _TOGETHER):
                batch = order[start : start + _TOGETHER]
                result[batch] = self._objective.documents([rows[index] for index in batch], None, 1.0).cpu().numpy()
        return result

    def score(self) -> float:
        """MAP on held-out concepts by the current weights; 0 if there are none."""
        rows = self._validation.tolist()
        pages = [self._triples.pages[row] for row in rows]
        queries: FloatArray = np.zeros((0, self.upper.shape.dim), dtype=np.float32)
        if rows:
            with torch.no_grad():
                queries = self.lower.queries(rows).cpu().numpy()
        return mean_average_precision(self.documents(rows), queries, pages)

    def _learn(self) -> float:
        """Take one step of the optimiser; return its loss."""
        settings = self.settings
        self.upper.train()
        for group in self._optimiser.param_groups:
            group["lr"] = self._rate()
        losses: list[torch.Tensor] = []  # numbers stay on the device: to read one waits for it
        for batch in range(settings.accumulate):
            batch_number = self.step * settings.accumulate + batch
            loss = self._objective.loss(batch_number, (settings.seed << 32) + 2 * batch_number)
            (loss / settings.accumulate).backward()  # type: ignore[no-untyped-call]
            self.lower.learn()
            losses.append(loss.detach())
        total: float = sum(torch.stack(losses).tolist()) / settings.accumulate
        if not np.isfinite(total):
            raise BadInput(f"the loss is no number any more at step {self.step + 1}; train with a smaller --rate")
        torch.nn.utils.clip_grad_norm_(self._weights, settings.clip)
        self._optimiser.step()
        self._optimiser.zero_grad()
        self._losses.append(total)
        return total

    def _rate(self) -> float:
        """Learning rate of the current step: it rises linearly to the peak, then falls linearly to 0."""
        settings = self.settings
        rising = (self.step + 1) / max(settings.warmup, 1)
        falling = (settings.steps - self.step) / max(settings.steps - settings.warmup, 1)
        return settings.rate * min(rising, falling, 1.0)

    def _validate(self, console: Console) -> None:
        score = self.score()
        loss = float(np.mean(self._losses)) if self._losses else float(self._first_loss())
        point = CurvePoint(self.step, round(loss, 6), self._rate() if self.step < self.settings.steps else 0.0, score)
        self.curve.points.append(point)
        self._losses = []
        earlier_best = max((earlier_point.score for earlier_point in self.curve.points[:-1]), default=-1.0)
        improved = score > earlier_best or not self.curve.validated
        if improved:
            self.curve.best, self._best = self.step, self._copy_weights()
        console.say(
            f"step {self.step:,}: loss {loss:.3f}, rate {point.rate:.1e}"
            + (f", MAP on held-out concepts {score:.4f}" if self.curve.validated else "")
            + (" (best)" if improved and self.curve.validated else "")
        )
        best_index = [earlier_point.step for earlier_point in self.curve.points].index(self.curve.best)
        patience = self.settings.patience
        is_early = self.step < self.settings.steps
        if is_early and patience and len(self.curve.points) - 1 - best_index >= patience:
            self.curve.stopped = f"no better MAP in {patience} validations"

    def _first_loss(self) -> float:
        self.upper.eval()
        with torch.no_grad():
            return self._objective.loss(0, None).item()

    def _weights_now(self) -> State:
        """The weights as they are; the next step changes them."""
        return {"upper": self.upper.state_dict(), "lower": self.lower.state()}

    def _copy_weights(self) -> State:
        """A copy of the weights in main memory."""
        return {
            part: {name: weight.detach().to("cpu", copy=True) for name, weight in weights.items()}
            for part, weights in self._weights_now().items()
        }

    def _set_weights(self, state: State) -> None:
        self.upper.load_state_dict(state["upper"])
        self.lower.restore(state["lower"])


def mean_average_precision(documents: FloatArray, queries: FloatArray, pages: Sequence[TripleDocument]) -> float:
    """MAP over titles as queries; each title searches the pages in other languages, which are encoded without titles.

    The mean of each language is subtracted first: otherwise the score would measure how far apart the languages are.
    Documents and queries are (pages, dim) unit rows; without pages the score is 0.
    """
    from ir_measures import AP, Qrel, ScoredDoc, calc_aggregate  # noqa: PLC0415 - training alone needs it

    if not pages:
        return 0.0
    langs = np.array([page.lang for page in pages])
    concepts = np.array([page.concept for page in pages])
    documents, queries = _centred(documents, langs), _centred(queries, langs)
    qrels, run = [], []
    for row in range(0, len(pages), -(-len(pages) // _QUERIES)):
        candidates = np.flatnonzero(langs != langs[row])
        relevant = candidates[concepts[candidates] == concepts[row]]
        if not len(relevant):
            continue
        scores = documents[candidates] @ queries[row]
        best = np.argsort(-scores, kind="stable")[:_DEPTH]
        qrels += [Qrel(str(row), str(mate), 1) for mate in relevant.tolist()]
        run += [ScoredDoc(str(row), str(candidates[index]), float(scores[index])) for index in best.tolist()]
    return float(calc_aggregate([AP], qrels, run)[AP]) if qrels else 0.0


def _centred(rows: FloatArray, langs: np.ndarray[tuple[int], np.dtype[np.str_]]) -> FloatArray:
    result = rows.copy()
    for lang in np.unique(langs):
        in_language = langs == lang
        result[in_language] -= rows[in_language].mean(axis=0)
    return unit_rows(result)
