"""Decide how a collection is ranked: by a person, judgements, the collection's documents, or the default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from encoders.console import Console
from encoders.document import EncoderSpec
from encoders.errors import BadInput
from encoders.methods.vector_parts import VectorParts
from encoders.wording import counted
from indexer.stores.contract import VectorStore
from query.calibration.calibration_choice import DEFAULT, CalibrationChoice, TriedChoice
from query.calibration.summary import MatesSummary, Separability
from query.fitting import evidence
from query.fitting.bias import VectorSample
from query.fitting.mined_mates import MinedMates, mine_mates
from query.fitting.open_collection import OpenCollection
from query.fitting.probe import UNBALANCED, probe, probe_unbalanced
from query.fitting.request import CalibrationRequest, InheritedInput, JudgedTopics
from query.fitting.separability import separability
from query.fitting.statistics import CalibrationSamples, fit_statistics


@dataclass(frozen=True)
class Decision:
    """How to rank.

    Attributes:
        decided_by: what decided the choice: ``judgements``, ``concepts``, ``mates``, ``titles``, ``languages`` that
            can't be told apart, ``you`` or ``default``.
        taken_over: whether the choice was decided for the previous calibration.
        separability: how well languages are told apart; none if it was not measured.
        mates: how many documents have mates; none if mates were not mined.
    """

    choice: CalibrationChoice
    decided_by: str
    taken_over: bool = False
    tried: Sequence[TriedChoice] = ()
    separability: Separability | None = None
    mates: MatesSummary | None = None


def decide(
    opened: OpenCollection, samples: CalibrationSamples, request: CalibrationRequest, inherited: InheritedInput
) -> Decision:
    """Decide how a collection is ranked.

    The first that applies decides: the person's choice; the inherited choice; judged topics; documents of one concept;
    mined mates that are sure enough; languages that a classifier can't tell apart, which are then not balanced; titles;
    the default. Evidence needs
    queries and documents of one model, so maps of another encoder's queries leave the default; and all maps are for
    what the mean leaves (rank 0).

    Raises:
        BadInput: too few topics have a relevant document in the collection.
    """
    maps = request.maps
    choice = request.choice or inherited.choice
    if choice:
        decided_by = "you" if request.choice else inherited.decided_by or "default"
        decision = Decision(choice, decided_by, taken_over=request.choice is None)
    elif maps is not None and maps.query_encoder is not None:
        decision = Decision(DEFAULT, inherited.decided_by or "default")
    else:
        decision = _by_evidence(opened, samples, request, inherited.decided_by or "default")
    return replace(decision, choice=replace(decision.choice, rank=0)) if maps else decision


def _by_evidence(
    opened: OpenCollection, samples: CalibrationSamples, request: CalibrationRequest, fallback: str
) -> Decision:
    """Decide by judgements or by the collection's documents; with neither, ``fallback`` is what decided."""
    answers, mined = _evidence(opened, samples, request.judged, request.seed)
    measured = _separability(opened, request.seed) if answers is None or answers.kind == "titles" else None
    model = opened.encoder.spec.model
    decision = by_evidence(opened.store, samples, model, answers, measured, fallback, console=opened.console)
    return replace(decision, mates=mined.summary if mined else None)


def by_evidence(
    store: VectorStore,
    samples: CalibrationSamples,
    model: str,
    answers: evidence.Evidence | None,
    measured: Separability | None,
    fallback: str,
    *,
    console: Console | None = None,
) -> Decision:
    """Decide by how well languages are told apart, if that was measured, then by the evidence, if there is some."""
    if measured and measured.indistinguishable:
        tried = probe_unbalanced(store, samples, model, answers) if answers else ()
        return Decision(UNBALANCED, "languages", tried=tried, separability=measured)
    if answers:
        choice, tried = probe(store, samples, model, answers, console=console)
        return Decision(choice, answers.kind, tried=tried, separability=measured)
    return Decision(DEFAULT, fallback, separability=measured)


def check_choice(choice: CalibrationChoice, spec: EncoderSpec) -> None:
    """Check that vectors are wide enough for a choice's rank, and have as many parts as the choice has weights.

    Raises:
        BadInput: the vectors are too narrow, or the number of parts differs.
    """
    parts = VectorParts.of(spec)
    if choice.rank >= (narrowest := min(parts.widths)):
        raise BadInput(
            f"{counted(choice.rank, 'direction')} can't be taken out of vectors of {narrowest} numbers; "
            "nothing would be left"
        )
    if choice.weights:
        VectorParts(parts.widths, choice.weights)


def _evidence(
    opened: OpenCollection, samples: CalibrationSamples, judged: JudgedTopics | None, seed: int
) -> tuple[evidence.Evidence | None, MinedMates | None]:
    """What the collection has to decide by, and the mates that were mined if neither judgements nor concepts do."""
    store, model = opened.store, opened.encoder.spec.model
    if judged:
        judgements = evidence.from_judgements(store, opened.encoder, judged.topics, judged.qrels, seed=seed)
        if judgements is None:
            raise BadInput(
                "too few of the topics have a relevant document in the collection to decide anything by; "
                "give more, or leave --topics and --qrels out"
            )
        return judgements, None
    if len(samples.documents) < 2:
        return None, None
    if by_concepts := evidence.from_concepts(store, model, samples, seed=seed):
        return by_concepts, None
    mined = mine_mates(store, fit_statistics(samples, model), samples, evidence.QUERIES, seed)
    by_mates = evidence.from_mates(store, model, samples, mined)
    return by_mates or evidence.from_titles(store, model, samples, seed=seed), mined


def _separability(opened: OpenCollection, seed: int) -> Separability | None:
    sample = VectorSample.draw(opened.store, opened.encoder.spec.model, None, seed=seed)
    return separability(sample.raw, sample.langs)
