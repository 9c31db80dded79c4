"""Train a document encoder for classification with a linear layer over its vectors (HMDE eq. 2)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from encoders.console import Console
from encoders.document import Document
from encoders.errors import BadInput
from onnx_export.training.device import seed_torch
from papers.hmde_methods import FineTuning
from papers.trainable import Trainable, copy_weights, restore_weights

_TOGETHER = 64
_CLIP = 1.0
_UNKNOWN = -100


@dataclass(frozen=True)
class Examples:
    """Documents with labels."""

    rows: Sequence[int]  # rows of the documents, in the order in which the encoder took them
    labels: Sequence[str]


def load_documents(
    encoder: Trainable, documents: Sequence[Document], advance: Callable[[int], None] = lambda _: None
) -> dict[str, int]:
    """Give an encoder the documents for training and testing; return their rows by document id."""
    parts = []
    for start in range(0, len(documents), _TOGETHER):
        batch = documents[start : start + _TOGETHER]
        parts.append(encoder.prepare(batch))
        advance(len(batch))
    encoder.lower.take(parts)
    return {document.doc_id: row for row, document in enumerate(documents)}


class Classifier:
    """A document encoder and a linear layer, trained together."""

    def __init__(self, encoder: Trainable, labels: Sequence[str], settings: FineTuning) -> None:
        """Put a linear layer with random weights on an encoder; ``settings.seed`` decides the weights."""
        self.labels = sorted(set(labels))
        if len(self.labels) < 2:
            raise BadInput(f"the training documents have the label {labels[0]!r} alone; give some of two or more")
        self._encoder, self._settings = encoder, settings
        seed_torch(settings.seed)
        self._layer = torch.nn.Linear(encoder.config.dim, len(self.labels)).to(encoder.parameters()[0].device)
        self.losses: list[float] = []  # mean loss on ``dev`` after each epoch
        self.best = 0  # the epoch whose weights are kept, from 1

    def train(self, train: Examples, dev: Examples, console: Console) -> None:
        """Train, and keep the weights of the epoch with the smallest loss on ``dev``."""
        settings = self._settings
        if not set(dev.labels) & set(self.labels):
            raise BadInput("no document of the part 'dev' has a label of the part 'train'; give some that have")
        optimiser = torch.optim.AdamW(self._weights(), lr=settings.rate, weight_decay=0.0)
        steps = settings.epochs * -(-len(train.rows) // settings.batch)
        best_weights = copy_weights(self._weights())
        with console.progress("fine-tuning", steps, "steps") as progress:
            for epoch in range(settings.epochs):
                self._learn(epoch, train, optimiser, progress)
                scores = self._all_scores(dev)
                self.losses.append(self._loss(scores, dev))
                if not np.isfinite(self.losses[-1]):
                    raise BadInput(
                        f"the loss is no number any more after epoch {epoch + 1}; train with a smaller --rate"
                    )
                if self.losses[-1] < min(self.losses[:-1], default=float("inf")):
                    self.best, best_weights = epoch + 1, copy_weights(self._weights())
                accuracy = self._accuracy(scores, dev)
                console.say(f"epoch {epoch + 1}: loss {self.losses[-1]:.3f} and accuracy {accuracy:.3f} on dev")
                if epoch + 1 - self.best >= settings.patience:
                    break
        restore_weights(self._weights(), best_weights)

    def accuracy(self, examples: Examples) -> float:
        """Share of documents whose label is predicted; a label that training did not have counts as wrong."""
        return self._accuracy(self._all_scores(examples), examples)

    def _learn(
        self, epoch: int, train: Examples, optimiser: torch.optim.Optimizer, advance: Callable[[int], None]
    ) -> None:
        """Train for one epoch; the order of its documents is drawn from the epoch's number."""
        settings, rows, targets = self._settings, np.array(train.rows), self._targets(train)
        order = np.random.default_rng((settings.seed, epoch)).permutation(len(rows))
        batches = np.split(order, range(settings.batch, len(order), settings.batch))
        for step, batch in enumerate(batches, epoch * len(batches)):
            for group in optimiser.param_groups:
                group["lr"] = settings.rate_at(step, settings.epochs * len(batches))
            scores = self._scores(rows[batch].tolist(), (settings.seed << 20) + step)
            loss = torch.nn.functional.cross_entropy(scores, targets[batch].to(scores.device))
            if not torch.isfinite(loss):
                raise BadInput(f"the loss is no number any more at step {step + 1}; train with a smaller --rate")
            loss.backward()  # type: ignore[no-untyped-call]
            self._encoder.lower.learn()
            torch.nn.utils.clip_grad_norm_(self._weights(), _CLIP)
            optimiser.step()
            optimiser.zero_grad()
            advance(1)

    def _weights(self) -> list[torch.nn.Parameter]:
        return [*self._encoder.parameters(), *self._layer.parameters()]

    def _all_scores(self, examples: Examples) -> torch.Tensor:
        """Scores of the labels for all examples, (examples, labels) on the CPU, without gradients."""
        rows = examples.rows
        with torch.no_grad():
            return torch.cat(
                [self._scores(rows[start : start + _TOGETHER]) for start in range(0, len(rows), _TOGETHER)]
            ).cpu()

    def _scores(self, rows: Sequence[int], training: int | None = None) -> torch.Tensor:
        """Scores of the labels, (rows, labels); vectors are first scaled to length √dim, as a transformer's states."""
        vectors = self._encoder.documents(rows, training) * self._encoder.config.dim**0.5
        scores: torch.Tensor = self._layer(vectors)
        return scores

    def _loss(self, scores: torch.Tensor, examples: Examples) -> float:
        """Mean loss over the documents whose label occurs in training."""
        targets = self._targets(examples)
        total = torch.nn.functional.cross_entropy(scores, targets, ignore_index=_UNKNOWN, reduction="sum")
        return float(total) / int((targets != _UNKNOWN).sum())

    def _accuracy(self, scores: torch.Tensor, examples: Examples) -> float:
        return float((scores.argmax(dim=1) == self._targets(examples)).double().mean())

    def _targets(self, examples: Examples) -> torch.Tensor:
        indices = {label: index for index, label in enumerate(self.labels)}
        return torch.tensor([indices.get(label, _UNKNOWN) for label in examples.labels])
