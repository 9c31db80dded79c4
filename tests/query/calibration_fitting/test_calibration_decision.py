"""What a calibration decides: its space and whether mates count, by the collection's documents or by judgements."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ir_measures import Qrel

from encoders.document import Document, FloatArray
from encoders.maps.space_maps import ANY, SpaceMaps
from indexer.stores.embedded import EmbeddedStore
from query.calibration.calibration import BALANCE, Calibration
from query.calibration.calibration_summary import CommonSpaceSummary
from query.calibration.comparison_space import CommonSpace
from query.calibration_fitting.calibration_decision import decide, decide_by_judgements
from query.calibration_fitting.calibration_request import JudgedTopics
from query.calibration_fitting.language_statistics import CalibrationSamples, draw_samples
from query.calibration_fitting.ranking_trial import FEWEST, Trial
from tests.query.calibration_fitting.test_mined_mates import (
    ENCODER,
    LANGUAGES,
    MODEL,
    TwistedEncoder,
    alone,
    counterparts,
)
from tests.query.synthetic import DIM, TopicEncoder, filled, page

pytestmark = pytest.mark.parts

NOISY = TopicEncoder(bias=1.0, noise=2.0)
"""Its queries find the pages in half of the cases."""


Drawn = tuple[EmbeddedStore, CalibrationSamples, str]


def drawn(folder: Path, pages: Sequence[Document], encoder: TopicEncoder = ENCODER) -> Drawn:
    store = filled(folder, encoder, pages)
    return store, draw_samples(store, encoder), MODEL


def test_mates_count_where_documents_have_counterparts_and_nothing_is_learnt_of_lone_ones(tmp_path: Path) -> None:
    decision = decide(*drawn(tmp_path / "counterparts", counterparts(60), NOISY))
    assert (decision.decided_by, decision.calibration.mates) == ("documents", True)
    assert decision.calibration.balance == BALANCE
    mates = decision.mates
    assert mates is not None
    assert mates.count
    assert mates.queries >= FEWEST
    assert mates.with_mates > mates.without
    assert mates.share > 0.9
    assert (mates.confirmed or 0) > 0.85
    decision = decide(*drawn(tmp_path / "alone", alone(60)))
    assert (decision.decided_by, decision.common_space) == ("default", None)
    assert decision.mates is not None
    assert (decision.mates.count, decision.mates.queries) == (False, 0)
    assert (decision.calibration.mates, decision.calibration.space.name) == (False, "")


def test_sure_mates_that_lose_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noise = np.tile(np.array([0.05, -0.05], np.float32), 20)

    def values(_: Trial, calibrations: Sequence[Calibration]) -> list[FloatArray]:
        return [0.5 + (noise - np.float32(0.1)) * calibration.mates for calibration in calibrations]

    monkeypatch.setattr(Trial, "values", values)
    decision = decide(*drawn(tmp_path, counterparts(60)))
    assert (decision.decided_by, decision.calibration.mates) == ("documents", False)
    assert decision.mates is not None
    assert not decision.mates.count
    assert (decision.mates.without, decision.mates.with_mates) == pytest.approx((0.5, 0.4))


def test_a_common_space_is_learnt_where_languages_differ_unless_a_person_gives_maps(tmp_path: Path) -> None:
    given = drawn(tmp_path, counterparts(160), TwistedEncoder(1.0))
    decision = decide(*given)
    assert decision.calibration.space.name == "common space"
    assert decision.common_space is not None
    assert decision.common_space.subjects > 120
    assert decision.common_space.after > decision.common_space.before
    assert decision.mates is not None
    assert decision.mates.queries >= FEWEST
    maps = SpaceMaps.rounded(MODEL, {(ANY, "fr"): np.eye(DIM, dtype=np.float32)}, about={"method": "lca"})
    mapped = decide(*given, maps=maps)
    assert (mapped.calibration.space.name, mapped.common_space) == ("lca", None)
    assert mapped.calibration.space.maps_of_documents is maps
    assert mapped.mates is not None


@pytest.mark.parametrize(("langs", "balance"), [(LANGUAGES, 0.0), (LANGUAGES, 0.3), (LANGUAGES, 0.49), (["de"], 0.75)])
def test_where_languages_are_left_in_nothing_is_decided(tmp_path: Path, langs: Sequence[str], balance: float) -> None:
    decision = decide(*drawn(tmp_path, counterparts(40, langs)), balance=balance)
    assert (decision.decided_by, decision.mates, decision.common_space) == ("default", None, None)
    assert (decision.calibration.balance, decision.calibration.mates) == (balance, False)


def judged(topics: int, relevant: Sequence[str], numbers: int = 1) -> JudgedTopics:
    """German queries, which want so many pages about a topic in each of some languages."""
    queries = [Document(f"q{at}", "de", f"t{at} asked") for at in range(topics)]
    wanted = [f"{lang}:t{{}}:{number}" for lang in relevant for number in range(numbers)]
    return JudgedTopics(queries, [Qrel(f"q{at}", one.format(at), 1) for at in range(topics) for one in wanted])


def test_judged_topics_decide_the_balance(tmp_path: Path) -> None:
    """Users who want pages in their own language alone are best served without a balance."""
    encoder = TopicEncoder(bias=3.0, noise=1.0)
    pages = [page(lang, f"t{at}", number) for lang in LANGUAGES for at in range(30) for number in range(3)]
    store, samples, model = drawn(tmp_path, pages, encoder)
    decision = decide(store, samples, model)
    own = decide_by_judgements(store, encoder, decision, judged(30, ["de"], numbers=3), 0)
    assert (own.decided_by, own.calibration.balance) == ("judgements", 0.0)
    every = decide_by_judgements(store, encoder, decision, judged(30, LANGUAGES, numbers=3), 0)
    assert every.decided_by == "judgements"
    assert every.calibration.balance >= 0.5


def test_judged_topics_decide_whether_mates_count(tmp_path: Path) -> None:
    store, samples, model = drawn(tmp_path, counterparts(60), NOISY)
    decision = decide(store, samples, model)
    assert decision.mates is not None
    without = replace(
        decision, calibration=replace(decision.calibration, mates=False), mates=replace(decision.mates, count=False)
    )
    better = decide_by_judgements(store, NOISY, without, judged(60, LANGUAGES), 0)
    assert better.calibration.mates
    assert better.mates == replace(decision.mates, count=True)


def test_judged_topics_decide_whether_a_common_space_is_used(tmp_path: Path) -> None:
    store, samples, model = drawn(tmp_path, counterparts(60))
    decision = decide(store, samples, model)
    summary, chance = CommonSpaceSummary(100, 1.0, 0.5, 0.6), np.random.default_rng(0)
    space = CommonSpace.rounded({lang: np.linalg.qr(chance.standard_normal((DIM, DIM)))[0] for lang in LANGUAGES})
    harmful = replace(decision, calibration=replace(decision.calibration, space=space), common_space=summary)
    better = decide_by_judgements(store, ENCODER, harmful, judged(60, LANGUAGES), 0)
    assert (better.calibration.space.name, better.common_space) == ("", None)
    same_language = decide_by_judgements(store, ENCODER, harmful, judged(60, ["de"]), 0)  # which no map concerns
    assert (same_language.calibration.space.name, same_language.common_space) == ("common space", summary)
