"""Train a document encoder for classification with a linear layer over its vectors (HMDE eq. 2)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from encoders.console import Console
from encoders.document import Document
from encoders.errors import BadInput
from onnx_export.training.device import seed_torch
from papers.classification import LabelledSplit, all_documents
from papers.hmde_mldoc import FineTuning
from papers.trainable import Trainable, copy_weights, restore_weights

_TOGETHER = 64
_CLIP = 1.0
_UNKNOWN = -100


@dataclass(frozen=True)
class Examples:
    """Documents with labels."""

    rows: Sequence[int]  # rows of the documents, in the order in which the encoder took them
    labels: Sequence[str]


def fine_tune(
    encoder: Trainable, settings: FineTuning, console: Console, splits: Sequence[LabelledSplit]
) -> list[dict[str, float]]:
    """Train anew for each split; returns the accuracies in the languages of its test documents, 0 to 1."""
    documents = all_documents(splits)
    with console.progress("reading", len(documents), "documents") as progress:
        rows = load_documents(encoder, documents, progress)
    untrained = copy_weights(encoder.parameters())

    def examples(part: Sequence[Document]) -> Examples:
        labels = [str(document.fields["label"]) for document in part]
        return Examples([rows[document.doc_id] for document in part], labels)

    accuracies = []
    for seed, split in enumerate(splits):
        restore_weights(encoder.parameters(), untrained)
        train = examples(split.train)
        classifier = Classifier(encoder, train.labels, replace(settings, seed=seed))
        classifier.train(train, examples(split.dev), console)
        accuracies.append({lang: classifier.scores(examples(part))[1] for lang, part in split.tests.items()})
    return accuracies


def load_documents(
    encoder: Trainable, documents: Sequence[Document], advance: Callable[[int], None] = lambda _: None
) -> dict[str, int]:
    """Give an encoder the documents for training and testing; return their rows by document id."""
    parts = []
    for start in range(0, len(documents), _TOGETHER):
        parts.append(encoder.lower.prepare(documents[start : start + _TOGETHER]))
        advance(len(parts[-1]["counts"]))
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
        settings, weights = self._settings, [*self._encoder.parameters(), *self._layer.parameters()]
        if not set(dev.labels) & set(self.labels):
            raise BadInput("no document of the part 'dev' has a label of the part 'train'; give some that have")
        optimiser = torch.optim.AdamW(weights, lr=settings.rate, weight_decay=0.0)
        rows, targets, best_weights = np.array(train.rows), self._targets(train), copy_weights(weights)
        steps = settings.epochs * -(-len(rows) // settings.batch)
        with console.progress("fine-tuning", steps, "steps") as progress:
            for epoch in range(settings.epochs):
                order = np.random.default_rng((settings.seed, epoch)).permutation(len(rows))
                batches = np.split(order, range(settings.batch, len(order), settings.batch))
                for step, batch in enumerate(batches, epoch * len(batches)):
                    optimiser.param_groups[0]["lr"] = settings.rate_at(step, steps)
                    scores = self._scores(rows[batch].tolist(), (settings.seed << 20) + step)
                    loss = torch.nn.functional.cross_entropy(scores, targets[batch].to(scores.device))
                    _require_number(float(loss.detach()), f"at step {step + 1}")
                    loss.backward()  # type: ignore[no-untyped-call]
                    self._encoder.lower.learn()
                    torch.nn.utils.clip_grad_norm_(weights, _CLIP)
                    optimiser.step()
                    optimiser.zero_grad()
                    progress(1)
                dev_loss, accuracy = self.scores(dev)
                _require_number(dev_loss, f"after epoch {epoch + 1}")
                self.losses.append(dev_loss)
                if dev_loss < min(self.losses[:-1], default=float("inf")):
                    self.best, best_weights = epoch + 1, copy_weights(weights)
                console.say(f"epoch {epoch + 1}: loss {dev_loss:.3f} and accuracy {accuracy:.3f} on dev")
                if epoch + 1 - self.best >= settings.patience:
                    break
        restore_weights(weights, best_weights)

    def scores(self, examples: Examples) -> tuple[float, float]:
        """Mean loss of the documents whose label occurs in training, and the share of all whose label is predicted."""
        rows, targets = examples.rows, self._targets(examples)
        with torch.no_grad():
            scores = torch.cat(
                [self._scores(rows[start : start + _TOGETHER]) for start in range(0, len(rows), _TOGETHER)]
            ).cpu()
            loss = torch.nn.functional.cross_entropy(scores, targets, ignore_index=_UNKNOWN)
        return float(loss), float((scores.argmax(dim=1) == targets).double().mean())

    def _scores(self, rows: Sequence[int], training: int | None = None) -> torch.Tensor:
        """Scores of the labels, (rows, labels); vectors are first scaled to length √dim, as a transformer's states."""
        scores: torch.Tensor = self._layer(self._encoder.documents(rows, training) * self._encoder.config.dim**0.5)
        return scores

    def _targets(self, examples: Examples) -> torch.Tensor:
        """Numbers of the labels; a label that training did not have is never predicted."""
        indices = {label: index for index, label in enumerate(self.labels)}
        return torch.tensor([indices.get(label, _UNKNOWN) for label in examples.labels])


def _require_number(loss: float, when: str) -> None:
    if not np.isfinite(loss):
        raise BadInput(f"the loss is no number any more {when}; train with a smaller --rate")
