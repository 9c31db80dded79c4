"""What a step of HMDE minimises: the paper's loss over pairs of documents, and two that ask as searches do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint

from encoders.hmde.triples import Rows, Triples
from onnx_export.hmde.lower_encoders.lower import Lower, each
from onnx_export.hmde.model import Upper, contrastive_loss
from onnx_export.hmde.settings import Settings
from onnx_export.training.seeds import seed_torch

_SAMPLE = 256
_TOGETHER = 64


class Objective:
    """The loss of a batch, by its number.

    Attributes:
        means: (languages, dim) of documents, titles and excerpts before training, where they are taken out.
    """

    def __init__(self, upper: Upper, lower: Lower, triples: Triples, settings: Settings) -> None:
        """Take what gives the vectors and where batches come from."""
        self._upper, self._lower, self._triples, self._settings = upper, lower, triples, settings
        pages = triples.pages
        self._langs = _numbered([page.lang for page in pages])
        self._concepts = _numbered([page.concept for page in pages])
        self.means: dict[str, torch.Tensor] = {}

    def measure_means(self) -> None:
        """Means of the languages over a sample of each, by the encoders as they are: documents as plain means."""
        if not self._settings.centred:
            return
        found: dict[str, list[torch.Tensor]] = {"documents": [], "titles": [], "excerpts": []}
        for lang in range(self._langs.max() + 1):
            own = np.flatnonzero((self._langs == lang) & (self._lower.lengths() > 0))
            rows = np.random.default_rng((self._settings.seed, lang)).permutation(own)[:_SAMPLE].tolist()
            if not rows:  # none of its pages is ever drawn
                for means in found.values():
                    means.append(torch.zeros(self._upper.shape.dim))
                continue
            with torch.no_grad():
                plain = torch.cat([self._plain(rows[at : at + _TOGETHER]) for at in range(0, len(rows), _TOGETHER)])
                found["documents"].append(torch.nn.functional.normalize(plain, dim=1).mean(dim=0).cpu())
                found["excerpts"].append(plain.mean(dim=0).cpu())
                found["titles"].append(self._lower.queries(rows).mean(dim=0).cpu())
        self.means = {kind: torch.stack(means) for kind, means in found.items()}

    def loss(self, number: int, seed: int | None) -> torch.Tensor:
        """Of a batch by its number; with a seed for training."""
        settings = self._settings
        triples = self._triples.draw(number * settings.batch, settings.batch)
        used = triples if settings.pairs and settings.hard else triples[:, :2] if settings.pairs else triples[:, 1:2]
        rows, places = np.unique(used, return_inverse=True)
        vectors = self._centred("documents", self.documents(rows.tolist(), seed, settings.bare), rows)
        columns = [vectors[torch.from_numpy(column).to(vectors.device)] for column in places.reshape(used.shape).T]
        pages = triples[:, 0]
        mates = columns[1] if settings.pairs else columns[0]
        concepts = torch.from_numpy(self._concepts[pages]).to(vectors.device)
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
        """Document vectors, a share of them without their titles.

        Of more than 64 the upper encoder sees 64 at once, and once more when their gradients are wanted: of a large
        batch nothing but vectors is kept in between.
        """
        sentences = self._lower.sentences(rows, training=seed)
        counts, titles = (values[list(rows)] for values in (self._lower.lengths(), self._lower.openings()))
        without = np.random.default_rng((seed or 0, 1)).random(len(rows)) < bare
        left_out = np.where(without, titles, 0)
        kept = [one[start:] for one, start in zip(each(counts.tolist(), sentences), left_out.tolist(), strict=True)]
        if seed is not None:
            seed_torch(seed)
        if len(kept) <= _TOGETHER:
            return self._upward(*kept)
        parts = [kept[at : at + _TOGETHER] for at in range(0, len(kept), _TOGETHER)]
        return torch.cat([checkpoint(self._upward, *part, use_reentrant=False) for part in parts])

    def _upward(self, *sentences: torch.Tensor) -> torch.Tensor:
        """Vectors of documents, (documents, dim), of their sentences'."""
        stack = torch.nn.utils.rnn.pad_sequence(list(sentences), batch_first=True)
        mask = np.arange(stack.shape[1])[None, :] < np.array([len(one) for one in sentences])[:, None]
        vectors: torch.Tensor = self._upper(stack, torch.from_numpy(mask.astype(np.int64)).to(stack.device))
        return vectors

    def _excerpts(self, rows: Sequence[int], seed: int | None) -> torch.Tensor:
        """The mean of a few sentences of each document, (rows, dim), not of unit length."""
        chance = np.random.default_rng((seed or 0, 2))
        sentences = self._lower.sentences(rows, training=seed)
        counts = self._lower.lengths()[list(rows)].tolist()
        means = []
        for one in each(counts, sentences):
            drawn = torch.from_numpy(chance.permutation(len(one))[: self._settings.excerpt]).to(one.device)
            means.append(one[drawn].mean(dim=0))
        return torch.stack(means)

    def _plain(self, rows: Sequence[int]) -> torch.Tensor:
        """The mean of all sentences of each document, (rows, dim), not of unit length."""
        counts = self._lower.lengths()[list(rows)].tolist()
        return torch.stack([one.mean(dim=0) for one in each(counts, self._lower.sentences(rows))])

    def _centred(self, kind: str, vectors: torch.Tensor, rows: Rows) -> torch.Tensor:
        """Unit rows, their language's mean taken out where that is wanted."""
        if self.means:
            vectors = vectors - self.means[kind][torch.from_numpy(self._langs[rows])].to(vectors.device)
        return torch.nn.functional.normalize(vectors, dim=1)


def _numbered(names: Sequence[str]) -> Rows:
    """Equal names by equal numbers, from 0 as they come."""
    numbers = {name: at for at, name in enumerate(dict.fromkeys(names))}
    return np.array([numbers[name] for name in names], dtype=np.int64)
