"""Fairness between languages, by cases worked by hand and an oracle in plain numpy."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from query.measures import fairness as measure
from query.measures.consistency import consistency, overlaps, rank_biased_overlap
from query.measures.fairness import LPR, OWN_LANGUAGE, PEER, TLR, RelevantCounts
from query.ranking.search_hits import Ranking


def pages(letters: str) -> list[str]:
    """Ids of a ranking written as languages: ``"aab"`` is a0, a1, b0."""
    return [f"{letter}{letters[:at].count(letter)}" for at, letter in enumerate(letters)]


def langs_of(doc_ids: list[str]) -> dict[str, str]:
    return {doc_id: doc_id[0] for doc_id in doc_ids}


def peer_of(letters: str) -> float:
    return measure.peer(pages(letters), dict.fromkeys(pages(letters), 1), langs_of(pages(letters)))


def test_languages_that_take_turns_or_are_not_to_be_told_apart_are_fair_and_levels_weigh_the_same() -> None:
    for letters in ("abba", "abccba", "aaaa", "a", ""):
        assert peer_of(letters) == pytest.approx(1.0)
    assert measure.peer(["a0", "b0"], {"a0": 0}, {"a0": "a"}) == 1.0
    assert measure.peer(["a0", "b0"], {"a0": 1, "b0": 1}, {}) == 1.0
    ranking = pages("aabbabba")
    judged = {doc_id: 1 if at < 4 else 2 for at, doc_id in enumerate(ranking)}
    assert measure.peer(ranking, judged, langs_of(ranking)) == pytest.approx((peer_of("aabb") + peer_of("abba")) / 2)


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 2)), max_size=30),
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 2)), max_size=8),
    st.integers(1, 40),
)
def test_peer_is_that_of_the_authors(hits: list[tuple[str, int]], missing: list[tuple[str, int]], depth: int) -> None:
    """Irrelevant hits stand between relevant ones, some relevant documents below the depth or nowhere."""
    import ir_measures
    import peer_measure

    doc_ids = [f"d{at}" for at in range(len(hits))]
    everything = dict(zip([*doc_ids, *(f"m{at}" for at in range(len(missing)))], [*hits, *missing], strict=True))
    judged = {doc_id: level for doc_id, (_, level) in everything.items()}
    langs = {doc_id: lang for doc_id, (lang, _) in everything.items()}
    levels = {level for level in judged.values() if level > 0}
    value = measure.peer(doc_ids, judged, langs, depth=depth)
    if not levels or not doc_ids:
        assert value == 1.0
        return
    theirs = peer_measure.PEER(weights={level: 1 / len(levels) for level in levels}, lang_mapping=langs) @ depth
    run = [ir_measures.ScoredDoc("1", doc_id, float(-at)) for at, doc_id in enumerate(doc_ids)]
    # the package's provider calls a function that ir_measures no longer has; this is what it does after that
    evaluator = peer_measure.PEEREvaluator([theirs], {"1": judged}, {1: [(depth, theirs)]}, {1: langs})
    with np.errstate(invalid="ignore"):
        (metric,) = evaluator.iter_calc(run)
    if math.isnan(metric.value):  # all positions of a level are equal, of which the package makes 0 / 0
        assert 1 / len(levels) <= value <= 1.0
    else:
        assert value == pytest.approx(metric.value, abs=1e-9)


@given(st.text("abc", max_size=40), st.text("abc", max_size=8), st.sampled_from("abc"), st.integers(1, 30))
def test_target_recall_and_preference_are_their_definitions(letters: str, missing: str, lang: str, depth: int) -> None:
    ranking = pages(letters)
    judged = dict.fromkeys([*ranking[::2], *(f"{letter}x{at}" for at, letter in enumerate(missing))], 1)
    langs = langs_of([*ranking, *judged])
    others = [doc_id for doc_id in judged if doc_id[0] != lang]
    own = [doc_id for doc_id in judged if doc_id[0] == lang]
    recall = measure.target_recall(ranking, judged, langs, lang, depth)
    assert recall == (sum(doc_id in ranking[:depth] for doc_id in others) / len(others) if others else None)
    first = next((doc_id for doc_id in ranking if doc_id in judged), "none")
    assert measure.preference(ranking, judged, langs, lang) == (float(first[0] == lang) if own and others else None)


@given(st.text("abcdefgh", max_size=12).map(pages), st.text("abcdefgh", max_size=12).map(pages), st.floats(0.5, 0.95))
def test_overlap_is_its_definition(first: list[str], second: list[str], p: float) -> None:
    """The infinite sum (1 - p) Σ p^(d-1) A(d) of Webber et al., eq. 4, of which the agreement is known or goes on."""
    shorter, longer = sorted((first, second), key=len)
    value = rank_biased_overlap(first, second, p)
    if not shorter:
        assert value == 0.0
        return
    known = len(set(shorter) & set(longer[: len(shorter)])) / len(shorter)
    total, agreement = 0.0, 0.0
    for depth in range(1, 900):
        if depth <= len(longer):  # below the end of the shorter one, its agreement goes on as it was
            met = len(set(shorter[:depth]) & set(longer[:depth]))
            agreement = (met + known * max(0, depth - len(shorter))) / depth
        total += (1 - p) * p ** (depth - 1) * agreement
    assert value == pytest.approx(total, abs=1e-9)
    assert rank_biased_overlap(second, first, p) == pytest.approx(value)
    assert consistency(overlaps({"de": {"1": first}, "fi": {"1": first}, "ja": {"2": second}})) == pytest.approx(
        {"1.de": 1.0, "1.fi": 1.0}
    )


def test_relevant_documents_are_counted_by_language_and_the_own_ones_share_is_of_the_first_hits() -> None:
    qrels = {"1": {"a0": 1, "b0": 2, "b1": 0}, "2": {"b2": 1, "c0": 1, "gone": 1}}
    langs = langs_of(["a0", "b0", "b1", "b2", "c0"])
    found = measure.relevant_by_language({"1": ["a0", "x", "b0"], "2": ["c0"]}, qrels, langs, depth=2)
    assert found == {"a": RelevantCounts(1, 1), "b": RelevantCounts(0, 2), "c": RelevantCounts(1, 1)}
    assert (found["a"].share, found["b"].share, RelevantCounts(0, 0).share) == (1.0, 0.0, 0.0)
    for hits, depth, share in ((["de", "en", "de", "de"], 3, 2 / 3), (["de"], 9, 1.0), ([], 9, 0.0)):
        assert measure.own_language_share(hits, "de", depth) == pytest.approx(share)


def ranking(letters: str) -> Ranking:
    doc_ids = pages(letters)
    return Ranking(doc_ids, [doc_id[0] for doc_id in doc_ids], np.linspace(1, 0, len(doc_ids), dtype=np.float32))


def test_a_run_has_its_measures_by_topic() -> None:
    qrels = {"1": dict.fromkeys(pages("aabb"), 1), "2": {"b0": 1}}
    fair = measure.fairness({"1": ranking("aabb")}, qrels, langs_of(pages("aabb")), "a", ["a", "b"])
    assert fair.measures == {
        OWN_LANGUAGE: {"1": 1.0, "2": 0.0},
        PEER: {"1": peer_of("aabb"), "2": 1.0},
        TLR: {"1": 1.0, "2": 0.0},
        LPR: {"1": 1.0},
    }
    assert fair.relevant_counts == {"a": RelevantCounts(2, 2), "b": RelevantCounts(2, 3)}
    assert list(map(measure.is_fairness, [*fair.measures, "AP"])) == [True] * 4 + [False]
    in_another = measure.fairness({"1": ranking("ab")}, {"1": {"a0": 1}}, {"a0": "a"}, "c", ["a", "b"])
    assert list(in_another.measures) == [PEER, TLR]  # no own-language share where that language is not searched


def test_runs_of_several_topic_languages_are_pooled_and_old_measures_told_from_todays() -> None:
    measures = {OWN_LANGUAGE: {"1": 1.0}, PEER: {"1": 0.5}, TLR: {"1": 0.75}, LPR: {"1": 1.0}}
    of_c = measure.Fairness({PEER: {"1": 0.25}}, {"a": RelevantCounts(2, 2), "b": RelevantCounts(0, 1)})
    pool = measure.pooled_fairness({"a": measure.Fairness(measures, {"a": RelevantCounts(1, 2)}), "c": of_c})
    assert pool.measures == {name: {"1.a": by_topic["1"]} for name, by_topic in measures.items()} | {
        PEER: {"1.a": 0.5, "1.c": 0.25}
    }
    assert pool.relevant_counts == {"a": RelevantCounts(3, 4), "b": RelevantCounts(0, 1)}
    assert measure.pooled_fairness({}).measures == {}
    assert measure.current_name("own-language@9", is_old=True) == OWN_LANGUAGE
    assert measure.current_name(PEER, is_old=True) != measure.current_name(PEER, is_old=False) == PEER
    assert measure.is_fairness(measure.current_name(PEER, is_old=True))
    assert measure.current_name("AP", is_old=True) == "AP"
