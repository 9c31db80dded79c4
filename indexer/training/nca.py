"""From aligned documents to the networks of NCA: what ``dragoman train mapping --method nca`` does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations

from encoders.console import Console
from encoders.document import EncoderSpec, FloatArray
from encoders.maps.mates import Mates, mates, mean
from encoders.maps.networks import Networks
from encoders.maps.parallel import ConceptSplit
from encoders.maps.ridge import require_finite
from encoders.methods.combined import refuse_combined
from indexer.training.aligned_documents import ByConcept


@dataclass(frozen=True)
class LearntNetworks:
    """Networks, and what they are worth.

    Attributes:
        networks: learnt from three fifths of the concepts, each stopped by another fifth.
        reached: mate retrieval of the last fifth.
        centred: the same of vectors that lost their language's mean and nothing else.
    """

    networks: Networks
    reached: Mates
    centred: Mates


def learn_networks(documents: ByConcept, spec: EncoderSpec, seed: int, console: Console) -> LearntNetworks:
    """Train a network each way of each pair of languages, on the concepts that all of them have.

    Args:
        documents: of two languages or more.
        spec: what encoded them.
        seed: of the split and of the networks.
        console: where progress goes.

    Raises:
        BadInput: there are too few such concepts, a number is not finite, or vectors are of several encoders.
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
            teaching, stopping = ((some.rows[source], some.rows[target]) for some in (split.training, split.validation))
            graphs[source, target] = train(teaching, stopping, NcaTraining(seed=seed))
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

    def over_pairs(compared: Callable[[str, str], tuple[FloatArray, FloatArray]]) -> Mates:
        return mean([mates(*compared(lang, other)) for lang, other in pairs])

    return LearntNetworks(
        networks,
        over_pairs(lambda lang, other: networks.compared(lang, other, test[lang], test[other])),
        over_pairs(lambda lang, other: (test[lang] - means[lang], test[other] - means[other])),
    )
