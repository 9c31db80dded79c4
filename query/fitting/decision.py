"""Decide how a collection is ranked: by a person, judgements, the collection's documents, or the default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from encoders.document import Document, EncoderSpec, FloatArray, unit_rows
from encoders.errors import BadInput
from encoders.maps.networks import Networks
from encoders.maps.space import SpaceMaps
from encoders.methods.vector_parts import VectorParts
from encoders.wording import counted
from query.calibration.calibration import Calibration
from query.calibration.choice import DEFAULT, CalibrationChoice, TriedChoice
from query.calibration.mapped_calibration import MappedCalibration
from query.calibration.table import StoredCalibration
from query.fitting import evidence
from query.fitting.bias import VectorSample
from query.fitting.open_collection import OpenCollection
from query.fitting.probe import UNBALANCED, probe
from query.fitting.separability import Separability, separability
from query.fitting.statistics import CalibrationSamples

if TYPE_CHECKING:
    from ir_measures import Qrel


@dataclass(frozen=True)
class JudgedTopics:
    """Topics with judgements that decide the choice; the queries' ids are the qrels' topic ids."""

    topics: Sequence[Document]
    qrels: Sequence[Qrel]


@dataclass(frozen=True)
class CalibrationInput:
    """A person's input to a calibration, which the next calibration takes over.

    Attributes:
        choice: how to rank, if a person or judgements decided it; none: it is decided anew.
        decided_by: what decided the choice.
        asked: logged queries, by language, (n, dim) unit rows.
    """

    choice: CalibrationChoice | None = None
    decided_by: str = ""
    asked: Mapping[str, FloatArray] = field(default_factory=dict)
    maps: SpaceMaps | Networks | None = None

    @classmethod
    def of(cls, kept: StoredCalibration, calibration: Calibration | None) -> CalibrationInput:
        """The input to a calibration; if the calibration can't be read (none), only its choice."""
        asked = {
            lang: unit_rows(statistics.bank[[not doc_id for doc_id in statistics.sources]])
            for lang, statistics in (calibration.languages.items() if calibration else ())
            if "" in statistics.sources
        }
        maps = calibration.maps if isinstance(calibration, MappedCalibration) else None
        if kept.summary.decided_by not in _LASTING and not maps:
            return cls(asked=asked)
        return cls(kept.summary.choice, kept.summary.decided_by, asked, maps)


_LASTING = ("you", "judgements")


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
    opened: OpenCollection,
    samples: CalibrationSamples,
    inherited: CalibrationInput,
    *,
    choice: CalibrationChoice | None = None,
    judged: JudgedTopics | None = None,
    seed: int = 0,
) -> Decision:
    """Decide how a collection is ranked.

    A person's ``choice`` of now decides, or else that of the ``inherited`` input, the ``judged`` topics, or the
    documents' ``concept`` or titles.

    Raises:
        BadInput: too few topics have a relevant document in the collection.
    """
    if choice or inherited.choice:
        decided_by = "you" if choice else inherited.decided_by or "default"
        decision = Decision(choice or inherited.choice or DEFAULT, decided_by, taken_over=choice is None)
    elif inherited.maps is not None and inherited.maps.asker is not None:
        # the probe needs queries and documents of one model
        decision = Decision(DEFAULT, inherited.decided_by or "default")
    else:
        decision = _by_evidence(opened, samples, judged, inherited.decided_by or "default", seed)
    return replace(decision, choice=replace(decision.choice, rank=0)) if inherited.maps else decision


def _by_evidence(
    opened: OpenCollection, samples: CalibrationSamples, judged: JudgedTopics | None, fallback: str, seed: int
) -> Decision:
    """Decide by judgements or by the collection's documents; with neither, ``fallback`` is what decided."""
    answers = _evidence(opened, samples, judged, seed)
    separation = _separability(opened, seed) if answers is None or answers.kind == "titles" else None
    hidden = separation is not None and separation.hidden
    if answers:
        choice, tried = probe(samples, opened.encoder.spec.model, answers, separation)
        return Decision(choice, "languages" if hidden else answers.kind, tried=tried, separability=separation)
    choice = UNBALANCED if hidden else DEFAULT
    return Decision(choice, "languages" if hidden else fallback, separability=separation)


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
