"""Learn the networks of NCA from aligned documents, for ``dragoman train mapping --method nca``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations

from encoders.console import Console, Progress
from encoders.document import EncoderSpec
from encoders.maps.mate_scores import MateScores, centred, over_pairs
from encoders.maps.networks import Networks
from encoders.maps.parallel import ConceptSplit
from encoders.maps.ridge_path import require_finite
from encoders.methods.combined_encoder import refuse_combined
from indexer.training.aligned_documents import AlignedVectors
from onnx_export.huggingface.hub_source import require_torch


@dataclass(frozen=True)
class LearntNetworks:
    """Networks, and how well they retrieve mates.

    Attributes:
        networks: trained on three fifths of the concepts; a fourth fifth stops each training.
        reached: mate retrieval of the last fifth.
        centred: mate retrieval of the last fifth without networks, when only the language means are subtracted.
    """

    networks: Networks
    reached: MateScores
    centred: MateScores


def learn_networks(documents: AlignedVectors, spec: EncoderSpec, seed: int, console: Console) -> LearntNetworks:
    """Train a network per ordered pair of languages, on the concepts that all languages share.

    ``seed`` determines the split and the networks.

    Raises:
        BadInput: the languages share too few concepts, a number is not finite, or the vectors are of several encoders.
        MissingPart: torch is not installed.
    """
    refuse_combined(spec.name)
    parallel = documents.parallel()
    for rows in parallel.rows.values():
        require_finite(rows)
    split = ConceptSplit.of(parallel, seed)
    with console.progress("networks", len(parallel.rows) * (len(parallel.rows) - 1), "networks") as progress:
        networks = train_networks(split, seed, progress)
    about = {
        "method": "nca",
        "languages": list(parallel.rows),
        "encoder": spec.name,
        "concepts": len(split.training.concepts),
    }
    networks = replace(networks, model=spec.model, about=about)
    reached = over_pairs(networks.compared, split.test)
    return LearntNetworks(networks, reached, over_pairs(centred(networks.means), split.test))


def train_networks(split: ConceptSplit, seed: int, progress: Progress) -> Networks:
    """Train a network per ordered pair of languages on the training concepts; the validation concepts stop it.

    Raises:
        MissingPart: torch is not installed.
    """
    require_torch()
    from onnx_export.nca_export import NcaTraining, train  # noqa: PLC0415 - the train extra

    graphs = {}
    for source, target in permutations(split.training.rows, 2):
        training, validation = ((part.rows[source], part.rows[target]) for part in (split.training, split.validation))
        graphs[source, target] = train(training, validation, NcaTraining(seed=seed))
        progress(1)
    means = {lang: rows.mean(axis=0) for lang, rows in split.training.rows.items()}
    return Networks("", graphs, means, {})
