"""*lawdr*: a document is the sum of its sentences' vectors, weighted by the rarity of their content."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from encoders.document import Document, Encoded, unit_rows
from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder, link_files, publishing, without_section
from encoders.folder.training_texts import FILE as TRAINING_TEXTS
from encoders.hmde.upper import ABOUT, CARD_HEADING, GRAPH, WEIGHTS, UpperFile, is_hmde
from encoders.methods.density import DensityWeights
from encoders.methods.sentence import SentenceEncoder
from encoders.methods.sentences import Sentences

_FILE = "lawdr.npz"
_CARD = "MODEL_CARD.md"
_HEADING = "Density of sentences (LAWDR)"
_OF_HMDE = {ABOUT, GRAPH, f"{GRAPH}.data", "curve.png"}
"""Files of a folder that HMDE's training made, beside those of its lower encoder."""


class Lawdr(Sentences):
    """Document encoder over weighted sentences (LAWDR eq. 3); *sentences* is the same without weights.

    The sum is over the stored passages: a later density could weigh an index again. The calibration removes the
    language's mean at search time; the language's subspace is not removed here.
    """

    method = "lawdr"

    def __init__(self, sentence: SentenceEncoder, density: DensityWeights) -> None:
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
    """The density in a model folder. Raises BadInput: there is none, or it is damaged or another model's."""
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

    Of an HMDE folder only the lower encoder's files are taken; the keys of the training texts, if they taught it.
    Raises BadInput: the base is a damaged HMDE folder; MissingPart: the target can't be written, or its disk is full.
    """
    left_out = {_FILE, _CARD}
    if is_hmde(base):
        left_out |= _OF_HMDE | ({TRAINING_TEXTS, WEIGHTS} if UpperFile.read(base).frozen else set())
    with publishing(target, base.config, instead="with -o") as temporary:
        link_files(base, temporary, left_out)
        density.save(temporary / _FILE)
        card = base.path / _CARD
        about = card.read_text(encoding="utf-8") if card.is_file() else f"# {target.name}"
        for heading in (CARD_HEADING, _HEADING):
            about = without_section(about, heading)
        (temporary / _CARD).write_text(f"{about.rstrip()}\n\n{_described(density)}", encoding="utf-8")
    return ModelFolder.open(target)


def _described(density: DensityWeights) -> str:
    return f"""\
## {_HEADING}

`{_FILE}`: the density of {len(density.points):,} sentences in {len(density.components)} principal components.
Tophat kernel, bandwidth {density.bandwidth:.4f} by cross-validation, b = {density.b:.3g}, id `{density.id}`.
It makes `lawdr` the folder's default method.
"""
