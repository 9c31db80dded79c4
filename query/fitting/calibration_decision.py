"""Decide how a collection is ranked: by a person, judgements, the collection's documents, or the default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from encoders.document import EncoderSpec
from encoders.errors import BadInput
from encoders.methods.vector_parts import VectorParts
from encoders.wording import counted
from query.calibration.calibration_choice import DEFAULT, CalibrationChoice, TriedChoice
from query.calibration.summary import Separability
from query.fitting import evidence
from query.fitting.bias import VectorSample
from query.fitting.open_collection import OpenCollection
from query.fitting.probe import UNBALANCED, probe, probe_unbalanced
from query.fitting.request import CalibrationRequest, InheritedInput, JudgedTopics
from query.fitting.separability import separability
from query.fitting.statistics import CalibrationSamples


@dataclass(frozen=True)
class Decision:
    """How to rank.

    Attributes:
        decided_by: what decided the choice: ``judgements``, ``concepts``, ``titles``, ``languages`` that can't be told
            apart, ``you`` or ``default``.
        taken_over: whether the choice was decided for the previous calibration.
        separability: how well languages are told apart; none if it was not measured.
    """

    choice: CalibrationChoice
    decided_by: str
    taken_over: bool = False
    tried: Sequence[TriedChoice] = ()
    separability: Separability | None = None


def decide(
    opened: OpenCollection, samples: CalibrationSamples, request: CalibrationRequest, inherited: InheritedInput
) -> Decision:
    """Decide how a collection is ranked.

    The first that applies decides: the person's choice; the inherited choice; judged topics; documents of one concept;
    languages that a classifier can't tell apart, which are then not balanced; titles; the default. Evidence needs
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
    answers = _evidence(opened, samples, request.judged, request.seed)
    measured = _separability(opened, request.seed) if answers is None or answers.kind == "titles" else None
    return by_evidence(samples, opened.encoder.spec.model, answers, measured, fallback)


def by_evidence(
    samples: CalibrationSamples,
    model: str,
    answers: evidence.Evidence | None,
    measured: Separability | None,
    fallback: str,
) -> Decision:
    """Decide by how well languages are told apart, if that was measured, then by the evidence, if there is some."""
    if measured and measured.indistinguishable:
        tried = probe_unbalanced(samples, model, answers) if answers else ()
        return Decision(UNBALANCED, "languages", tried=tried, separability=measured)
    if answers:
        choice, tried = probe(samples, model, answers)
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
) -> evidence.Evidence | None:
    model = opened.encoder.spec.model
    if judged:
        judgements = evidence.from_judgements(opened.store, opened.encoder, judged.topics, judged.qrels, seed=seed)
        if judgements is None:
            raise BadInput(
                "too few of the topics have a relevant document in the collection to decide anything by; "
                "give more, or leave --topics and --qrels out"
            )
        return judgements
    if len(samples.documents) < 2:
        return None
    return evidence.from_concepts(opened.store, model, samples, seed=seed) or evidence.from_titles(
        opened.store, model, samples, seed=seed
    )


def _separability(opened: OpenCollection, seed: int) -> Separability | None:
    sample = VectorSample.draw(opened.store, opened.encoder.spec.model, None, seed=seed)
    return separability(sample.raw, sample.langs)
