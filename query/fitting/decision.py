"""How a collection is to be ranked, and by what that is decided: a person, judgements, documents, or nothing."""

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
from query.calibration.mapped_calibration import MappedCalibration
from query.calibration.setting import DEFAULT, Setting, TriedSetting
from query.calibration.table import KeptCalibration
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
    """Topics with judgements, to decide by.

    Attributes:
        topics: queries whose ids are the qrels' topic ids.
        qrels: the judgements.
    """

    topics: Sequence[Document]
    qrels: Sequence[Qrel]


@dataclass(frozen=True)
class CalibrationInput:
    """What a person gave a calibration, and the next one takes over.

    Attributes:
        setting: how to rank, where a person or judgements decided it; none: it is decided anew.
        decided_by: what did.
        asked: queries out of a log, by language, (n, dim) unit rows.
        maps: of documents and queries.
    """

    setting: Setting | None = None
    decided_by: str = ""
    asked: Mapping[str, FloatArray] = field(default_factory=dict)
    maps: SpaceMaps | Networks | None = None

    @classmethod
    def of(cls, kept: KeptCalibration, calibration: Calibration | None) -> CalibrationInput:
        """Of a calibration; of one that can't be read any more the setting alone."""
        asked = {
            lang: unit_rows(statistics.bank[[not doc_id for doc_id in statistics.sources]])
            for lang, statistics in (calibration.languages.items() if calibration else ())
            if "" in statistics.sources
        }
        maps = calibration.maps if isinstance(calibration, MappedCalibration) else None
        if kept.summary.decided_by not in _LASTING and not maps:
            return cls(asked=asked)
        return cls(kept.summary.setting, kept.summary.decided_by, asked, maps)


_LASTING = ("you", "judgements")


@dataclass(frozen=True)
class Decision:
    """How to rank.

    Attributes:
        setting: the choice.
        decided_by: ``judgements``, ``concepts``, ``titles``, ``languages`` that can't be told apart, ``you`` or
            ``default``.
        taken_over: whether that was decided for the calibration before.
        tried: what the probe tried.
        separability: of the languages; none if nothing asked for it.
    """

    setting: Setting
    decided_by: str
    taken_over: bool = False
    tried: Sequence[TriedSetting] = ()
    separability: Separability | None = None


def decide(
    opened: OpenCollection,
    samples: CalibrationSamples,
    given: CalibrationInput,
    *,
    setting: Setting | None = None,
    judged: JudgedTopics | None = None,
    seed: int = 0,
) -> Decision:
    """Decide how a collection is to be ranked.

    Args:
        opened: the collection.
        samples: of its documents, and its pseudo-queries.
        given: what the calibration before was given.
        setting: what a person decides now.
        judged: topics and judgements to decide by; documents' ``concept`` or titles unless given.
        seed: of the random samples.

    Raises:
        BadInput: too few topics have a relevant document in the collection.
    """
    if setting or given.setting:
        decided_by = "you" if setting else given.decided_by or "default"
        decision = Decision(setting or given.setting or DEFAULT, decided_by, taken_over=setting is None)
    elif given.maps is not None and given.maps.asker is not None:  # no vectors of one kind to probe with
        decision = Decision(DEFAULT, given.decided_by or "default")
    else:
        decision = _by_evidence(opened, samples, judged, given.decided_by or "default", seed)
    return replace(decision, setting=replace(decision.setting, rank=0)) if given.maps else decision


def _by_evidence(
    opened: OpenCollection, samples: CalibrationSamples, judged: JudgedTopics | None, otherwise: str, seed: int
) -> Decision:
    """What the collection's own documents decide, or judgements of them."""
    found = _evidence(opened, samples, judged, seed)
    separation = _separability(opened, seed) if found is None or found.kind == "titles" else None
    hidden = separation is not None and separation.hidden
    if found:
        setting, tried = probe(samples, opened.encoder.spec.model, found, separation)
        return Decision(setting, "languages" if hidden else found.kind, tried=tried, separability=separation)
    setting = UNBALANCED if hidden else DEFAULT
    return Decision(setting, "languages" if hidden else otherwise, separability=separation)


def check_setting(setting: Setting, spec: EncoderSpec) -> None:
    """See that vectors are wide enough for a setting, and have as many parts as it has weights.

    Raises:
        BadInput: they are not, or have not.
    """
    parts = VectorParts.of(spec)
    if setting.rank >= (narrowest := min(parts.widths)):
        raise BadInput(
            f"{counted(setting.rank, 'direction')} can't be taken out of vectors of {narrowest} numbers; "
            "nothing would be left"
        )
    if setting.weights:
        VectorParts(parts.widths, setting.weights)


def _evidence(
    opened: OpenCollection, samples: CalibrationSamples, judged: JudgedTopics | None, seed: int
) -> evidence.Evidence | None:
    model = opened.encoder.spec.model
    if judged:
        found = evidence.from_judgements(opened.store, opened.encoder, judged.topics, judged.qrels, seed=seed)
        if found is None:
            raise BadInput(
                "too few of the topics have a relevant document in the collection to decide anything by; "
                "give more, or leave --topics and --qrels out"
            )
        return found
    if len(samples.documents) < 2:
        return None
    return evidence.from_concepts(opened.store, model, samples, seed=seed) or evidence.from_titles(
        opened.store, model, samples, seed=seed
    )


def _separability(opened: OpenCollection, seed: int) -> Separability | None:
    sample = VectorSample.draw(opened.store, opened.encoder.spec.model, None, seed=seed)
    return separability(sample.raw, sample.langs)
