"""*lawdr*: a document is the sum of its sentences' vectors, weighted by the rarity of their content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from encoders.document import Document, Encoded, unit_rows
from encoders.errors import BadInput
from encoders.folder import ModelFolder, link_files, publishing
from encoders.methods.density import DensityWeights
from encoders.methods.sentence import SentenceEncoder
from encoders.methods.sentences import Sentences
from encoders.training_texts import FILE as TRAINING_TEXTS

_FILE = "lawdr.npz"
_CARD = "MODEL_CARD.md"


class Lawdr(Sentences):
    """Document encoder over weighted sentences (LAWDR eq. 3); *sentences* is the same without weights.

    The sum is over the passages as they are stored, so that a density fitted later could weigh an index again without
    encoding it. The language's subspace is not removed here: its removal is linear, and the calibration removes it from
    the query.
    """

    method = "lawdr"

    def __init__(self, sentence: SentenceEncoder, density: DensityWeights) -> None:
        """Take a loaded sentence encoder and the density of its sentences."""
        super().__init__(sentence)
        self._density = density
        self.spec = sentence.folder.config.spec(self.method, density=density.id)

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        """Encode documents; each sentence is a passage, and the title is another."""
        encoded = super().encode_documents(documents)
        sums = np.zeros_like(encoded.vectors)
        for row, passages in enumerate(encoded.passages):
            vectors = passages.without_title().unit_vectors()
            sums[row] = self._density.weights(vectors) @ vectors
        return replace(encoded, vectors=unit_rows(sums))


def has_density(folder: ModelFolder) -> bool:
    """Whether a model folder holds a density of its sentences."""
    return (folder.path / _FILE).is_file()


def load_density(folder: ModelFolder) -> DensityWeights:
    """The density in a model folder.

    Raises:
        BadInput: the folder has no density, a damaged one, or a density of another model.
    """
    command = "dragoman train lawdr SOURCE… -o FOLDER"
    if not has_density(folder):
        raise BadInput(f"{folder.path} has no {_FILE}, which method lawdr needs; make a folder that has: {command}")
    density = DensityWeights.load(folder.path / _FILE)
    if len(density.mean) != folder.config.dim:
        raise BadInput(
            f"{folder.path / _FILE} is of vectors with {len(density.mean)} dimensions and the model's have "
            f"{folder.config.dim}; make it again: {command}"
        )
    return density


def publish(base: ModelFolder, density: DensityWeights, target: Path) -> ModelFolder:
    """Make a model folder from a base model's files (hard links where the disk allows) and a density.

    Raises:
        MissingPart: the target can't be written, or its disk is full.
    """
    with publishing(target, base.config, instead="with -o") as temporary:
        link_files(base, temporary, left_out={_FILE, _CARD, TRAINING_TEXTS})
        density.save(temporary / _FILE)
        card = base.path / _CARD
        about = card.read_text(encoding="utf-8").split(_HEADING)[0].rstrip() if card.is_file() else f"# {target.name}"
        (temporary / _CARD).write_text(about + _HEADING + _described(density), encoding="utf-8")
    return ModelFolder.open(target)


_HEADING = "\n\n## Density of sentences (LAWDR)\n\n"


def _described(density: DensityWeights) -> str:
    return f"""\
`{_FILE}`: the density of {len(density.points):,} sentences in {len(density.components)} principal components.
Tophat kernel, bandwidth {density.bandwidth:.4f} by cross-validation, b = {density.b:.3g}, id `{density.id}`.
It makes `lawdr` the folder's default method.
"""
