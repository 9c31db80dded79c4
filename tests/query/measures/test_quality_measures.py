"""Scores agree with trec_eval, and no topic is forgotten."""

import random

import pytest
import pytrec_eval
from ir_measures import Qrel

from encoders.errors import BadInput
from query.measures import quality_measures as quality
from query.trec_files.trec_run import Run

AP = quality.parse_measures(["AP"])


def test_scores_agree_with_trec_eval() -> None:
    dice = random.Random(7)
    qrels = {f"{qid}": {f"d{doc}": dice.randint(0, 3) for doc in dice.sample(range(400), 60)} for qid in range(20)}
    rankings = {f"{qid}": [(f"d{doc}", dice.random()) for doc in dice.sample(range(400), 200)] for qid in range(20)}
    run = Run("tag", rankings)
    names = {"AP": "map", "nDCG@10": "ndcg_cut_10", "R@100": "recall_100", "P@10": "P_10", "RR": "recip_rank"}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {*names.values()}).evaluate(
        {qid: dict(ranking) for qid, ranking in run.rankings.items()}
    )
    flat = [Qrel(qid, doc_id, grade) for qid, grades in qrels.items() for doc_id, grade in grades.items()]
    ours = quality.score(run, flat, quality.parse_measures([*quality.DEFAULT_MEASURES, "RR"]))
    for qid, ranking in run.rankings.items():
        doc_ids = [doc_id for doc_id, _ in sorted(ranking, key=lambda scored: -scored[1])]
        relevant = {doc_id for doc_id, grade in qrels[qid].items() if grade > 0}
        assert quality.average_precision(doc_ids, relevant) == pytest.approx(theirs[qid]["map"])
    for name, trec_name in names.items():
        of_topics = {qid: values[trec_name] for qid, values in theirs.items()}
        assert ours.values(name) == pytest.approx(of_topics, abs=1e-9)
        assert ours.means[name] == pytest.approx(sum(of_topics.values()) / len(theirs), abs=1e-9)


def test_a_topic_without_hits_counts_zero_and_one_without_a_relevant_document_is_left_out_and_named() -> None:
    qrels = [Qrel(qid, "a", 1) for qid in ("1", "2", "3", "9")]
    scores = quality.score(Run("tag", {"1": [("a", 1.0)], "2": []}), qrels, AP, topics=["1", "2", "3"])
    assert scores.values("AP") == {"1": 1.0, "2": 0.0, "3": 0.0}
    assert scores.means["AP"] == pytest.approx(1 / 3)
    assert scores.without_hits == ["2", "3"]
    run = Run("tag", {qid: [("a", 1.0)] for qid in "123"})
    scores = quality.score(run, [Qrel("1", "a", 1), Qrel("2", "a", 0)], AP)
    assert (scores.means["AP"], scores.unjudged) == (1.0, ["2", "3"])
    with pytest.raises(BadInput, match=r"no topic of 'tag' \(1\) has a relevant document"):
        quality.score(Run("tag", {"141-AH": [("a", 1.0)]}), [Qrel("141", "a", 1)], AP, topics=["141-AH"])


def test_other_programs_take_every_topics_id_and_their_refusals_are_a_sentence() -> None:
    run = Run("tag", {"D01": [("a", 1.0)], "1-de": [("b", 2.0), ("a", 1.0)], "2-de": []})
    qrels, measures = [Qrel(qid, "a", 4) for qid in run.rankings], quality.parse_measures(["ERR@10"])
    assert quality.score(run, qrels, measures).values("ERR@10") == {"1-de": 0.46875, "2-de": 0.0, "D01": 0.9375}
    for name, grade in (("ERR@10", 5), ("Accuracy", 1)):
        with pytest.raises(BadInput, match=f"one of {name}, Judged@10 fails"):
            quality.score(run, [Qrel("D01", "a", grade)], quality.parse_measures([name]))


def test_the_judged_share_of_the_first_ten_is_always_there() -> None:
    run = Run("tag", {"1": [(f"d{rank}", -float(rank)) for rank in range(20)]})
    scores = quality.score(run, [Qrel("1", "d0", 1), Qrel("1", "d3", 0), Qrel("1", "d15", 1)], AP)
    assert scores.means[quality.JUDGED] == pytest.approx(0.2)


def test_a_pooled_run_has_a_topic_for_each_language() -> None:
    qrels = [Qrel("1", "a", 1), Qrel("2", "b", 1)]
    german = quality.score(Run("tag", {"1": [("a", 1.0)]}), qrels, AP, topics=["1", "2", "3"])
    finnish = quality.score(Run("tag", {"1": [("x", 2.0), ("a", 1.0)]}), qrels, AP, topics=["1"])
    scores = quality.pooled({"de": german, "fi": finnish}, AP)
    assert scores.values("AP") == {"1.de": 1.0, "2.de": 0.0, "1.fi": 0.5}
    assert scores.means["AP"] == pytest.approx(0.5)
    assert (scores.unjudged, scores.without_hits) == (["3.de"], ["2.de"])


def test_measures_are_parsed_by_our_names_and_by_those_of_trec_eval() -> None:
    for none in ([], [""], [" , "]):
        with pytest.raises(BadInput, match="no measure is named; use names of ir-measures such as AP"):
            quality.parse_measures(none)
    parsed = quality.parse_measures(["AP, nDCG@10", "P(rel=2, judged_only=True)@5 AP Judged@10"])
    assert [str(measure) for measure in parsed] == ["AP", "nDCG@10", "P(rel=2,judged_only=True)@5", quality.JUDGED]
    names = ["map", "ndcg_cut_10", "P_10", "recall_100", "recip_rank", "map_cut.20", "iprec_at_recall_0.10"]
    theirs = quality.parse_measures(names)[:-1]
    assert list(map(str, theirs)) == ["AP", "nDCG@10", "P@10", "R@100", "RR", "AP@20", "IPrec@0.1"]
    assert [quality.standard_name(name) for name in ("map", "MAP", "PEER@100")] == ["AP", "AP", "PEER@100"]


UNKNOWN = "precision nDCG@ nDCG@ten P P@0 AP(foo=3) ndcg_cut_1O official alpha_nDCG@10 1+1 ( AP)"


@pytest.mark.parametrize("name", UNKNOWN.split())
def test_an_unknown_measure_is_one_sentence(name: str) -> None:
    with pytest.raises(BadInput) as caught:
        quality.parse_measures([name])
    assert (repr(name) in str(caught.value), "\n" in str(caught.value)) == (True, False)
