"""The evaluation log: what is written is found again."""

from dataclasses import replace

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from ir_measures import Qrel

from encoders.errors import BadInput, StoreError
from indexer.ledger.database import Base, transaction
from query.evaluation import evaluation_log
from query.evaluation.collection_evaluation import Earlier, read_earlier
from query.evaluation.evaluation_log import Setup
from query.evaluation.scored_runs import EvaluationPlan, ScoredRun
from query.measures.fairness import RelevantCounts
from query.measures.quality_measures import Scores, parse_measures, pooled, score
from query.report.language_pairs import logged_rankings
from query.trec_files.topic_set import TopicSet
from query.trec_files.trec_run import Run, pack

MEASURES = parse_measures(["AP", "P@10"])
GERMAN = Run("e5", {"1": [("a b", 0.9), ("c", 0.8)], "2": [("c", 0.5)]})
FINNISH = Run("e5", {"1": [("c", 0.7), ("a b", 0.7)]})
QRELS = [Qrel("1", "a b", 1), Qrel("2", "d", 1)]


def setup(collection: str = "news") -> Setup:
    return Setup(
        collection=collection,
        tag="e5",
        model="m1",
        build="b1",
        space="s1",
        settings={"depth": 1000, "to": None},
        topics="topics.tsv",
        topics_hash="t1",
        qrels_hash="q1",
    )


def outcomes() -> list[ScoredRun]:
    scores = {"de": score(GERMAN, QRELS, MEASURES, ["1", "2", "3"]), "fi": score(FINNISH, QRELS, MEASURES, ["1"])}
    return [
        ScoredRun("de", "language", "de", scores["de"], pack(GERMAN)),
        ScoredRun("de-same", "same", "de", scores["de"], pack(GERMAN)),
        ScoredRun("fi", "language", "fi", scores["fi"], pack(FINNISH)),
        ScoredRun("all", "pooled", "mul", pooled(scores, MEASURES), None),
    ]


def test_the_migrations_make_the_tables_the_code_declares(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        differences = compare_metadata(MigrationContext.configure(connection), Base.metadata)
    assert [difference for difference in differences if "evaluation" in str(difference)] == []


def test_a_logged_run_is_found_with_all_that_made_it(engine: sa.Engine) -> None:
    number = evaluation_log.log(engine, setup(), outcomes())
    run = evaluation_log.find(engine, f"{number}.de")
    assert run.id == "1.de"
    assert run.setup == setup()
    assert (run.kind, run.lang, run.topics) == ("language", "de", 2)
    assert run.unjudged == ["3"]
    assert run.means == {"AP": 0.5, "P@10": 0.05, "Judged@10": 0.25}


def test_every_topics_score_is_kept(engine: sa.Engine) -> None:
    number = evaluation_log.log(engine, setup(), outcomes())
    assert evaluation_log.scores(engine, f"{number}.all") == {
        "1.de": {"AP": 1.0, "P@10": 0.1, "Judged@10": 0.5},
        "2.de": {"AP": 0.0, "P@10": 0.0, "Judged@10": 0.0},
        "1.fi": {"AP": 0.5, "P@10": 0.1, "Judged@10": 0.5},
    }
    with engine.connect() as connection:
        langs = connection.execute(sa.text("SELECT DISTINCT qid, lang FROM evaluation_scores WHERE qid LIKE '%.%'"))
        assert dict(langs.all()) == {"1.de": "de", "2.de": "de", "1.fi": "fi"}


def test_fairness_is_kept_and_a_topic_may_lack_a_measure(engine: sa.Engine) -> None:
    scores = Scores({"AP": 0.5, "own-language": 1.0}, {"1.de": {"AP": 1.0, "own-language": 1.0}, "1.ko": {"AP": 0}})
    found = {"de": RelevantCounts(3, 4), "fi": RelevantCounts(0, 2)}
    number = evaluation_log.log(engine, setup(), [ScoredRun("all", "pooled", "mul", scores, None, found)])
    assert evaluation_log.find(engine, str(number)).relevant_counts == found
    assert evaluation_log.scores(engine, str(number)) == scores.topics


def test_a_run_of_version_0_1_0_has_the_measures_of_today_but_its_peer(engine: sa.Engine) -> None:
    topics = {"1.de": {"own-language@9": 1.0, "PEER@100": 0.5}}
    run = ScoredRun("all", "pooled", "mul", Scores({"own-language@9": 1.0, "PEER@100": 0.5}, topics), None)
    old, new = (evaluation_log.log(engine, one, [run]) for one in (setup(), replace(setup(), settings={"targets": 9})))
    assert evaluation_log.find(engine, str(old)).means == {"own-language": 1.0, "PEER-0.1.0@100": 0.5}
    assert evaluation_log.scores(engine, str(old)) == {"1.de": {"own-language": 1.0, "PEER-0.1.0@100": 0.5}}
    assert evaluation_log.find(engine, str(new)).means == {"own-language": 1.0, "PEER@100": 0.5}
    assert [evaluation_log.find(engine, str(number)).targets for number in (old, new)] == [9, 9]


def test_a_report_knows_the_topics_without_hits(engine: sa.Engine) -> None:
    run = Run("e5", {"1": [("a b", 0.9), ("c", 0.8)]})
    scores = score(run, QRELS, MEASURES, ["1", "2"])
    number = evaluation_log.log(engine, setup(), [ScoredRun("de", "language", "de", scores, pack(run))])
    assert logged_rankings(engine, number, lambda *_: True) == {"de": {"1": ["a b", "c"], "2": []}}


def test_an_evaluation_of_a_single_pair_is_compared_by_that_pair(engine: sa.Engine) -> None:
    number = evaluation_log.log(engine, setup(), [ScoredRun("de-fi", "pair", "de", outcomes()[0].scores, None)])
    earlier = read_earlier(engine, str(number), TopicSet({}, [], "", "", ""), EvaluationPlan(MEASURES, ""))
    assert isinstance(earlier, Earlier)
    assert [run.run for run in earlier.runs] == [f"{number}.de-fi"]


def test_the_language_of_a_pairs_documents_is_in_its_name(engine: sa.Engine) -> None:
    scores = outcomes()[0].scores
    number = evaluation_log.log(engine, setup(), [ScoredRun("zh-Hant-sr-Latn", "pair", "zh-Hant", scores, None)])
    (pair,) = evaluation_log.pairs(engine, evaluation_log.find(engine, str(number)))
    assert pair.pair == ("zh-Hant", "sr-Latn")
    assert evaluation_log.find(engine, f"{number}.zh-Hant-sr-Latn").documents_in == ["sr-Latn"]


def test_a_run_logged_before_fairness_was_has_none(engine: sa.Engine) -> None:
    evaluation_log.log(engine, setup(), outcomes())
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE evaluation_runs SET found = NULL"))
    assert evaluation_log.find(engine, "1").relevant_counts == {}


def test_a_number_alone_is_the_pooled_run(engine: sa.Engine) -> None:
    assert evaluation_log.find(engine, str(evaluation_log.log(engine, setup(), outcomes()))).name == "all"
    assert evaluation_log.find(engine, str(evaluation_log.log(engine, setup(), outcomes()[:1]))).name == "de"


def test_an_exported_run_is_the_file_that_was_written(engine: sa.Engine) -> None:
    number = evaluation_log.log(engine, setup(), outcomes())
    assert "".join(evaluation_log.export(engine, f"{number}.de")) == GERMAN.to_trec()
    whole = Run.from_trec(evaluation_log.export(engine, str(number)), "export")
    assert whole.rankings == {"1.de": GERMAN.rankings["1"], "2.de": GERMAN.rankings["2"], "1.fi": FINNISH.rankings["1"]}


def test_runs_are_listed_newest_first_and_by_collection(engine: sa.Engine) -> None:
    for collection in ("news", "help", "news"):
        evaluation_log.log(engine, setup(collection), outcomes())
    assert [run.id for run in evaluation_log.runs(engine)] == ["3.all", "2.all", "1.all"]
    assert [run.id for run in evaluation_log.runs(engine, "news")] == ["3.all", "1.all"]
    assert [run.id for run in evaluation_log.runs(engine, every=True, limit=1)] == [
        "3.de",
        "3.de-same",
        "3.fi",
        "3.all",
    ]
    assert [run.id for run in evaluation_log.members(engine, 2)] == ["2.de", "2.de-same", "2.fi", "2.all"]


def test_a_forgotten_collection_leaves_nothing_and_its_numbers_are_not_used_again(engine: sa.Engine) -> None:
    evaluation_log.log(engine, setup("help"), outcomes())
    evaluation_log.log(engine, setup("news"), outcomes())
    with transaction(engine) as session:
        evaluation_log.forget(session, "news")
    assert [run.id for run in evaluation_log.runs(engine)] == ["1.all"]
    with engine.connect() as connection:
        left = connection.execute(sa.text("SELECT count(DISTINCT run_id) FROM evaluation_scores")).scalar()
    assert left == 4
    assert evaluation_log.log(engine, setup("news"), outcomes()) == 3


def test_a_log_that_fails_halfway_leaves_nothing(engine: sa.Engine) -> None:
    with pytest.raises(StoreError, match="UNIQUE"):
        evaluation_log.log(engine, setup(), [*outcomes(), outcomes()[0]])
    assert evaluation_log.runs(engine) == []


def test_runs_judged_otherwise_are_told_apart(engine: sa.Engine) -> None:
    number = evaluation_log.log(engine, setup(), outcomes())
    run = evaluation_log.find(engine, f"{number}.de")
    assert run.judged_as(evaluation_log.find(engine, f"{number}.all"))
    assert not run.judged_as(evaluation_log.find(engine, f"{number}.de-same"))


@pytest.mark.parametrize("run_id", ["7", "1.xx", "x", "", "1.", "-1", "99999999999999999999"])
def test_an_unknown_id_says_how_to_see_ids(engine: sa.Engine, run_id: str) -> None:
    evaluation_log.log(engine, setup(), outcomes())
    with pytest.raises(BadInput, match=r"there is no run .*dragoman runs list --all"):
        evaluation_log.find(engine, run_id)
    with pytest.raises(BadInput):
        list(evaluation_log.export(engine, run_id))
