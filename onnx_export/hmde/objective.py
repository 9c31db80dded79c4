"""The loss of HMDE: the paper's, over pairs of documents, and two that use titles and excerpts as queries."""

from collections.abc import Sequence

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint

from encoders.document import IntArray
from encoders.hmde.triples import Rows, Triples
from onnx_export.hmde.hmde_settings import Settings
from onnx_export.hmde.lower_encoders.lower import Lower
from onnx_export.hmde.upper_model import Upper, contrastive_loss
from onnx_export.training.device import mixed_precision, seed_torch, to_device

_SAMPLE = 256
_TOGETHER = 64


class Objective:
    """The loss of a batch, which is identified by its number."""

    def __init__(self, upper: Upper, lower: Lower, triples: Triples, settings: Settings) -> None:
        self._upper, self._lower, self._triples, self._settings = upper, lower, triples, settings
        pages = triples.pages
        self._langs = _label_numbers([page.lang for page in pages])
        self._concepts = _label_numbers([page.concept for page in pages])
        self.means: dict[str, torch.Tensor] = {}  # (languages, dim) by kind of text; empty unless subtracted

    def measure_means(self) -> None:
        """Measure the mean of each language over a sample, by the lower encoder; documents are means of sentences."""
        if not self._settings.centred:
            return
        kind_means: dict[str, list[torch.Tensor]] = {"documents": [], "titles": [], "excerpts": []}
        for lang in range(self._langs.max() + 1):
            members = np.flatnonzero((self._langs == lang) & (self._lower.lengths() > 0))
            rows = np.random.default_rng((self._settings.seed, lang)).permutation(members)[:_SAMPLE].tolist()
            if not rows:  # no page of this language is ever drawn
                for means in kind_means.values():
                    means.append(torch.zeros(self._upper.shape.dim))
                continue
            with torch.no_grad():
                batches = [rows[start : start + _TOGETHER] for start in range(0, len(rows), _TOGETHER)]
                documents = (document for batch in batches for document in self._lower.documents(batch))
                plain = torch.stack([document.mean(dim=0) for document in documents])
                kind_means["documents"].append(torch.nn.functional.normalize(plain, dim=1).mean(dim=0).cpu())
                kind_means["excerpts"].append(plain.mean(dim=0).cpu())
                kind_means["titles"].append(self._lower.queries(rows).mean(dim=0).cpu())
        self.means = {kind: torch.stack(means) for kind, means in kind_means.items()}

    def loss(self, number: int, seed: int | None) -> torch.Tensor:
        """Loss of a batch by its number; ``seed`` is the step's seed in training, None outside training."""
        settings = self._settings
        triples = self._triples.draw(number * settings.batch, settings.batch)
        needed = triples if settings.pairs and settings.hard else triples[:, :2] if settings.pairs else triples[:, 1:2]
        rows, positions = np.unique(needed, return_inverse=True)
        vectors = self._centred("documents", self.documents(rows.tolist(), seed, settings.bare), rows)
        columns = [vectors[_to_device_of(vectors, column)] for column in positions.reshape(needed.shape).T]
        pages = triples[:, 0]
        mates = columns[1] if settings.pairs else columns[0]
        concepts = _to_device_of(vectors, self._concepts[pages])
        total = vectors.new_zeros(())
        if settings.pairs:
            negatives = columns[2] if settings.hard else None
            total = settings.pairs * contrastive_loss(columns[0], mates, negatives, concepts, settings.temperature)
        if settings.titles:
            titles = self._centred("titles", self._lower.queries(pages.tolist(), training=seed), pages)
            total = total + settings.titles * contrastive_loss(titles, mates, None, concepts, settings.temperature)
        if settings.excerpts:
            excerpts = self._centred("excerpts", self._excerpts(pages.tolist(), seed), pages)
            total = total + settings.excerpts * contrastive_loss(excerpts, mates, None, concepts, settings.temperature)
        return total

    def documents(self, rows: Sequence[int], seed: int | None, bare: float) -> torch.Tensor:
        """Document vectors, (rows, dim); the share ``bare`` of the documents is encoded without titles.

        Beyond 64 documents the upper encoder reads them again for their gradients, so that only vectors stay in memory.
        """
        sentences = self._lower.documents(rows, training=seed)
        titles = self._lower.openings()[list(rows)]
        without_title = np.random.default_rng((seed or 0, 1)).random(len(rows)) < bare
        left_out = np.where(without_title, titles, 0)
        documents = [document[skipped:] for document, skipped in zip(sentences, left_out.tolist(), strict=True)]
        if seed is not None:
            seed_torch(seed)
        if len(documents) <= _TOGETHER:
            return self._document_vectors(*documents)
        batches = [documents[start : start + _TOGETHER] for start in range(0, len(documents), _TOGETHER)]
        return torch.cat([checkpoint(self._document_vectors, *batch, use_reentrant=False) for batch in batches])

    def _document_vectors(self, *documents: torch.Tensor) -> torch.Tensor:
        """Vectors of documents, (documents, dim), from the sentence vectors of each."""
        stack = torch.nn.utils.rnn.pad_sequence(list(documents), batch_first=True)
        mask = np.arange(stack.shape[1])[None, :] < np.array([len(document) for document in documents])[:, None]
        with mixed_precision(stack.device):
            vectors: torch.Tensor = self._upper(stack, _to_device_of(stack, mask.astype(np.int64)))
        return vectors

    def _excerpts(self, rows: Sequence[int], seed: int | None) -> torch.Tensor:
        """The mean of a few random sentences of each document, (rows, dim), not of unit length."""
        generator = np.random.default_rng((seed or 0, 2))
        drawn = [
            generator.permutation(length)[: self._settings.excerpt]
            for length in self._lower.lengths()[list(rows)].tolist()
        ]
        return torch.stack([document.mean(dim=0) for document in self._lower.documents(rows, drawn, training=seed)])

    def _centred(self, kind: str, vectors: torch.Tensor, rows: Rows) -> torch.Tensor:
        """Unit rows; the mean of their language is subtracted first if means were measured."""
        if self.means:
            vectors = vectors - to_device(self.means[kind][torch.from_numpy(self._langs[rows])], vectors.device)
        return torch.nn.functional.normalize(vectors, dim=1)


def _to_device_of(vectors: torch.Tensor, numbers: IntArray) -> torch.Tensor:
    return to_device(torch.from_numpy(numbers), vectors.device)


def _label_numbers(labels: Sequence[str]) -> Rows:
    """A number for each label, from 0 in order of first appearance; equal labels have equal numbers."""
    numbers = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    return np.array([numbers[label] for label in labels], dtype=np.int64)
