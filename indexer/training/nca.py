"""Learn the networks of NCA from aligned documents, for ``dragoman train mapping --method nca``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations

from encoders.console import Console
from encoders.document import EncoderSpec, FloatArray
from encoders.maps.mates import Mates, mates, mean_mates
from encoders.maps.networks import Networks
from encoders.maps.parallel import ConceptSplit
from encoders.maps.ridge import require_finite
from encoders.methods.combined import refuse_combined
from indexer.training.aligned_documents import ByConcept


@dataclass(frozen=True)
class LearntNetworks:
    """Networks, and how well they retrieve mates.

    Attributes:
        networks: trained on three fifths of the concepts; a fourth fifth stops each training.
        reached: mate retrieval of the last fifth.
        centred: mate retrieval of the last fifth without networks, when only the language means are subtracted.
    """

    networks: Networks
    reached: Mates
    centred: Mates


def learn_networks(documents: ByConcept, spec: EncoderSpec, seed: int, console: Console) -> LearntNetworks:
    """Train a network per ordered pair of languages, on the concepts that all languages share.

    ``seed`` determines the split and the networks.

    Raises:
        BadInput: the languages share too few concepts, a number is not finite, or the vectors are of several encoders.
        MissingPart: torch is not installed.
    """
    from onnx_export.nca import NcaTraining, train  # noqa: PLC0415 - the train extra

    refuse_combined(spec.name)
    parallel = documents.parallel()
    for rows in parallel.rows.values():
        require_finite(rows)
    split = ConceptSplit.of(parallel, seed)
    pairs = list(permutations(parallel.rows, 2))
    graphs = {}
    with console.progress("networks", len(pairs), "networks") as advance:
        for source, target in pairs:
            training, validation = (
                (part.rows[source], part.rows[target]) for part in (split.training, split.validation)
            )
            graphs[source, target] = train(training, validation, NcaTraining(seed=seed))
            advance(1)
    means = {lang: rows.mean(axis=0) for lang, rows in split.training.rows.items()}
    about = {
        "method": "nca",
        "languages": list(parallel.rows),
        "encoder": spec.name,
        "concepts": len(split.training.concepts),
    }
    networks = Networks(spec.model, graphs, means, about)
    test = split.test.rows

    def mean_over_pairs(compared: Callable[[str, str], tuple[FloatArray, FloatArray]]) -> Mates:
        return mean_mates([mates(*compared(source, target)) for source, target in pairs])

    return LearntNetworks(
        networks,
        mean_over_pairs(lambda source, target: networks.compared(source, target, test[source], test[target])),
        mean_over_pairs(lambda source, target: (test[source] - means[source], test[target] - means[target])),
    )
