"""How a person wants documents ranked: what goes together, and what a collection's calibration adds."""

from dataclasses import replace

import pytest

from encoders.errors import BadInput
from indexer.collection.settings import Settings
from query.calibration_fitting.language_statistics import fit_statistics
from query.ranking.ranking_options import RankingOptions
from query.ranking.searcher import Searcher
from tests.query.calibration.test_calibration import samples


@pytest.mark.parametrize("balance", [-0.1, 1.5, 2, float("nan"), float("inf")])
def test_a_balance_outside_the_dial_is_refused(balance: float) -> None:
    with pytest.raises(BadInput, match="balance goes from 0"):
        RankingOptions(balance=balance)


@pytest.mark.parametrize("balance", [0.0, 0.75, 1.0])
def test_plain_cosine_has_no_balance(balance: float) -> None:
    with pytest.raises(BadInput, match="plain cosine has no balance"):
        RankingOptions(calibration="none", balance=balance)
    assert RankingOptions(calibration="abc", balance=balance).balance == balance


def test_the_calibrations_balance_is_taken_unless_one_is_stated() -> None:
    calibration = replace(fit_statistics(samples({"de": 40}), "m"), balance=0.6)
    options = RankingOptions(hybrid=True, rerank="folder")
    assert options.of("c", calibration) == replace(options, balance=0.6)
    for stated in (0.0, 0.3):
        options = RankingOptions(balance=stated, hybrid=True)
        assert options.of("c", calibration) == options


def test_without_a_calibration_there_is_no_balance() -> None:
    assert RankingOptions(hybrid=True).of("c", None) == RankingOptions(hybrid=True, balance=None)
    with pytest.raises(BadInput, match="a balance needs a calibration, and c is searched without; make one: "):
        RankingOptions(balance=0.0).of("c", None)


def test_a_searcher_has_the_balance_that_it_ranks_by_and_a_search_may_have_another(
    calibrated_by_words: Settings,
) -> None:
    with Searcher.open("demo", calibrated_by_words, device="cpu") as searcher:
        assert searcher.calibration is not None
        assert searcher.ranking == RankingOptions(balance=searcher.calibration.balance)
        assert searcher.describe()["balance"] == searcher.calibration.balance

        def scores(ranking: RankingOptions | None = None) -> list[float]:
            return [hit.score for hit in searcher.search("Bienen im Garten", lang="de", k=20, ranking=ranking)]

        usual = scores()
        assert scores(RankingOptions()) == usual
        assert scores(RankingOptions(balance=0.0)) != usual
        assert scores() == usual
    options = RankingOptions(calibration="none")
    with Searcher.open("demo", calibrated_by_words, device="cpu", ranking=options) as plain:
        assert (plain.calibration, plain.ranking.balance) == (None, None)
        with pytest.raises(BadInput, match="a balance needs a calibration"):
            plain.search("Bienen im Garten", lang="de", ranking=RankingOptions(balance=0.5))
    options = RankingOptions(balance=0.3)
    with Searcher.open("demo", calibrated_by_words, device="cpu", ranking=options) as stated:
        assert stated.ranking.balance == 0.3
        assert [hit.score for hit in stated.search("Bienen im Garten", lang="de", k=20)] != usual


def test_the_rankers_that_were_used_last_are_kept(calibrated_by_words: Settings) -> None:
    """Each has its corrected banks; many balances must not keep them all."""
    with Searcher.open("demo", calibrated_by_words, device="cpu") as searcher:
        searcher.search("Bienen", lang="de")
        (usual,) = searcher._rankers.values()
        for percent in range(0, 100, 4):
            searcher.search("Bienen", lang="de", k=1, ranking=RankingOptions(balance=percent / 100))
            searcher.search("Bienen", lang="de", k=1)
        assert usual in searcher._rankers.values()
        assert len(searcher._rankers) < 20
