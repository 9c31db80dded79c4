"""Decide a calibration's space, and whether mates count, by queries that taught nothing.

These are judged topics, which also decide the balance, or pseudo-queries. Without evidence neither is chosen.
"""

from dataclasses import dataclass, replace

from encoders.document import Encoder
from encoders.machine.freed_memory import give_back_memory
from encoders.maps.space_maps import SpaceMaps
from indexer.stores.contract import VectorStore
from query.calibration.calibration import BALANCE, Calibration
from query.calibration.calibration_summary import CommonSpaceSummary, DecidedBy, MatesSummary
from query.calibration.comparison_space import PLAIN_SPACE, MappedSpace
from query.calibration.margin import centring
from query.calibration_fitting.calibration_request import JudgedTopics
from query.calibration_fitting.common_space_maps import learn_common_space
from query.calibration_fitting.language_statistics import CalibrationSamples, fit_statistics
from query.calibration_fitting.mined_mates import MinedMates, mine_mates
from query.calibration_fitting.ranking_trial import Trial, from_judgements, from_mates
from query.measures.significance import is_sure

BALANCES = (0.0, 0.5, 0.75, 1.0)
"""Balances that judgements choose from."""


@dataclass(frozen=True)
class Decision:
    """A calibration as it was decided."""

    calibration: Calibration
    decided_by: DecidedBy  # what decided
    mates: MatesSummary | None = None  # whether mates count, and why
    common_space: CommonSpaceSummary | None = None  # the common space that is used; none: none is

    def judged(self, calibration: Calibration) -> "Decision":
        """The decision after judgements chose a calibration."""
        mates = self.mates and replace(self.mates, count=calibration.mates)
        return Decision(calibration, "judgements", mates, self.common_space if calibration.space.name else None)


def decide(
    store: VectorStore,
    samples: CalibrationSamples,
    model: str,
    *,
    balance: float = BALANCE,
    weights: tuple[float, ...] = (),
    maps: SpaceMaps | None = None,
    seed: int = 0,
) -> Decision:
    """Fit a calibration of a store's vectors, and decide by its documents; with ``maps`` there is no common space."""
    fitted = fit_statistics(samples, model)
    if weights:
        fitted = replace(fitted, vector_parts=replace(fitted.vector_parts, weights=weights))
    ranked = replace(fitted, balance=balance, space=MappedSpace(maps) if maps else PLAIN_SPACE)
    if len(samples.documents) < 2 or centring(balance) < 1.0:
        return Decision(ranked, "default")
    mined = mine_mates(store, fitted, samples, seed)
    if mined.sure and not maps:  # the cosines of mates are those of vectors that no map leads
        ranked = replace(ranked, bar=mined.bar)
    mates = decide_mates(store, ranked, mined, seed)  # without the common space, which these documents taught
    give_back_memory()  # the trial's, before the maps need as much
    learnt = None if maps else learn_common_space(store, ranked, mined)
    space, summary = learnt or (ranked.space, None)
    decided_by: DecidedBy = "documents" if mates.queries else "default"
    return Decision(replace(ranked, space=space, mates=mates.count), decided_by, mates, summary)


def decide_mates(store: VectorStore, calibration: Calibration, mined: MinedMates, seed: int) -> MatesSummary:
    """Whether mates count: they are sure, and pseudo-queries in the collection's proportion don't lose by them."""
    share = len(mined.mates) / max(len(mined.queries), 1)
    questions, held_out = from_mates(calibration, mined, seed)
    if not questions:
        return MatesSummary(False, share, mined.confirmed_share)
    trial = Trial(store, calibration.model, questions)
    without, with_mates = trial.values([replace(held_out, mates=False), replace(held_out, mates=True)])
    values = float(without.mean()), float(with_mates.mean()), calibration.bar
    return MatesSummary(not is_sure(without - with_mates), share, mined.confirmed_share, len(questions), *values)


def decide_by_judgements(
    store: VectorStore, encoder: Encoder, decision: Decision, judged: JudgedTopics, seed: int
) -> Decision:
    """Change space, mates and balance, in this order, where judged topics gain. Raises BadInput: too few are judged."""
    best = decision.calibration
    trial = Trial(store, best.model, from_judgements(store, encoder, judged.topics, judged.qrels, seed))
    if decision.common_space:
        best = trial.better(best, [replace(best, space=PLAIN_SPACE)])
    best = trial.better(best, [replace(best, mates=not best.mates)])
    best = trial.better(best, [replace(best, balance=balance) for balance in BALANCES if balance != best.balance])
    return decision.judged(best)
