"""The evaluation log: what is written is found again, and runs that were ranked differently are told apart."""

import json
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from ir_measures import Qrel

from encoders.errors import BadInput, StoreError
from indexer.collection.settings import Settings
from indexer.ledger.database import Base, transaction
from query.cli import run as dragoman
from query.evaluation import evaluation_log
from query.evaluation.collection_evaluation import Earlier, read_earlier
from query.evaluation.evaluation_log import EvaluationRow, LoggedRun, Setup
from query.evaluation.run_settings import differences, ranking_in_words, settings_in_words
from query.evaluation.scored_runs import EvaluationPlan, ScoredRun
from query.measures.fairness import RelevantCounts
from query.measures.quality_measures import Scores, parse_measures, pooled, score
from query.ranking.searcher import Searcher
from query.report.language_pairs import logged_rankings
from query.trec_files.topic_set import TopicSet
from query.trec_files.trec_run import Run, pack
from trials import DEMO

MEASURES = parse_measures(["AP", "P@10"])
GERMAN = Run("e5", {"1": [("a b", 0.9), ("c", 0.8)], "2": [("c", 0.5)]})
FINNISH = Run("e5", {"1": [("c", 0.7), ("a b", 0.7)]})
QRELS = [Qrel("1", "a b", 1), Qrel("2", "d", 1)]


SETUP = Setup("news", "e5", "m1", "b1", "s1", {"depth": 1000, "to": None}, "topics.tsv", "t1", "q1")


def outcomes() -> list[ScoredRun]:
    scores = {"de": score(GERMAN, QRELS, MEASURES, ["1", "2", "3"]), "fi": score(FINNISH, QRELS, MEASURES, ["1"])}
    return [
        ScoredRun("de", "language", "de", scores["de"], pack(GERMAN)),
        ScoredRun("de-same", "same", "de", scores["de"], pack(GERMAN)),
        ScoredRun("fi", "language", "fi", scores["fi"], pack(FINNISH)),
        ScoredRun("all", "pooled", "mul", pooled(scores, MEASURES), None),
    ]


def test_a_logged_run_is_found_with_all_that_made_it(engine: sa.Engine) -> None:
    with engine.connect() as connection:  # the migrations make the tables that the code declares
        differing = compare_metadata(MigrationContext.configure(connection), Base.metadata)
    assert [difference for difference in differing if "evaluation" in str(difference)] == []
    assert evaluation_log.log(engine, SETUP, outcomes()) == 1
    run, pooled_run = (evaluation_log.find(engine, run_id) for run_id in ("1.de", "1"))
    assert (run.id, run.setup, pooled_run.name) == ("1.de", SETUP, "all")
    assert (run.kind, run.lang, run.topics, run.unjudged) == ("language", "de", 2, ["3"])
    assert run.means == {"AP": 0.5, "P@10": 0.05, "Judged@10": 0.25}
    assert run.judged_by == pooled_run.judged_by
    assert run.judged_by != evaluation_log.find(engine, "1.de-same").judged_by
    assert evaluation_log.scores(engine, "1.all") == {
        "1.de": {"AP": 1.0, "P@10": 0.1, "Judged@10": 0.5},
        "2.de": {"AP": 0.0, "P@10": 0.0, "Judged@10": 0.0},
        "1.fi": {"AP": 0.5, "P@10": 0.1, "Judged@10": 0.5},
    }
    with engine.begin() as connection:
        langs = connection.execute(sa.text("SELECT DISTINCT qid, lang FROM evaluation_scores WHERE qid LIKE '%.%'"))
        assert dict(langs.all()) == {"1.de": "de", "2.de": "de", "1.fi": "fi"}
        connection.execute(sa.text("UPDATE evaluation_runs SET found = NULL"))  # as before fairness was logged
    assert evaluation_log.find(engine, "1").relevant_counts == {}
    assert "".join(evaluation_log.export(engine, "1.de")) == GERMAN.to_trec()
    whole = Run.from_trec(evaluation_log.export(engine, "1"), "export")
    assert whole.rankings == {"1.de": GERMAN.rankings["1"], "2.de": GERMAN.rankings["2"], "1.fi": FINNISH.rankings["1"]}
    assert evaluation_log.find(engine, str(evaluation_log.log(engine, SETUP, outcomes()[:1]))).name == "de"
    with pytest.raises(StoreError, match="UNIQUE"):
        evaluation_log.log(engine, SETUP, [*outcomes(), outcomes()[0]])
    assert len(evaluation_log.runs(engine)) == 2


def test_fairness_is_kept_and_measures_of_version_0_1_0_are_those_of_today_but_peer(engine: sa.Engine) -> None:
    scores = Scores({"AP": 0.5, "own-language": 1.0}, {"1.de": {"AP": 1.0, "own-language": 1.0}, "1.ko": {"AP": 0}})
    found = {"de": RelevantCounts(3, 4), "fi": RelevantCounts(0, 2)}
    number = evaluation_log.log(engine, SETUP, [ScoredRun("all", "pooled", "mul", scores, None, found)])
    assert evaluation_log.find(engine, str(number)).relevant_counts == found
    assert evaluation_log.scores(engine, str(number)) == scores.topics
    means = {"own-language@9": 1.0, "PEER@100": 0.5}
    run = ScoredRun("all", "pooled", "mul", Scores(means, {"1.de": means}), None)
    for one in (SETUP, replace(SETUP, settings={"targets": 9})):
        evaluation_log.log(engine, one, [run])
    old, new = (evaluation_log.find(engine, number) for number in "23")
    assert old.means == {"own-language": 1.0, "PEER-0.1.0@100": 0.5}
    assert evaluation_log.scores(engine, "2") == {"1.de": old.means}
    assert new.means == {"own-language": 1.0, "PEER@100": 0.5}
    assert (old.targets, new.targets) == (9, 9)


def test_the_language_of_a_pairs_documents_is_in_its_name(engine: sa.Engine) -> None:
    name, scores = "zh-Hant-sr-Latn", outcomes()[0].scores
    number = str(evaluation_log.log(engine, SETUP, [ScoredRun(name, "pair", "zh-Hant", scores, None)]))
    (pair,) = evaluation_log.pairs(engine, evaluation_log.find(engine, number))
    assert pair.pair == ("zh-Hant", "sr-Latn")
    assert evaluation_log.find(engine, f"{number}.{name}").documents_in == ["sr-Latn"]
    earlier = read_earlier(engine, number, TopicSet({}, [], "", "", ""), EvaluationPlan(MEASURES, ""))
    assert isinstance(earlier, Earlier)
    assert [run.run for run in earlier.runs] == [f"{number}.{name}"]  # a single pair is compared by itself


def test_runs_are_listed_newest_first_and_by_collection_until_it_is_forgotten(engine: sa.Engine) -> None:
    def listed(collection: str | None = None, **how: Any) -> list[str]:
        return [run.id for run in evaluation_log.runs(engine, collection, **how)]

    for collection in ("news", "help", "news"):
        evaluation_log.log(engine, replace(SETUP, collection=collection), outcomes())
    assert (listed(), listed("news")) == (["3.all", "2.all", "1.all"], ["3.all", "1.all"])
    assert listed(every=True, limit=1) == ["3.de", "3.de-same", "3.fi", "3.all"]
    assert [run.id for run in evaluation_log.members(engine, 2)] == ["2.de", "2.de-same", "2.fi", "2.all"]
    with transaction(engine) as session:
        evaluation_log.forget(session, "news")
    assert listed() == ["2.all"]
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT count(DISTINCT run_id) FROM evaluation_scores")).scalar() == 4
    assert evaluation_log.log(engine, SETUP, outcomes()) == 4  # no number is used again


def test_an_unknown_id_says_how_to_see_ids_and_a_report_knows_the_topics_without_hits(engine: sa.Engine) -> None:
    evaluation_log.log(engine, SETUP, outcomes())
    for run_id in ("7", "1.xx", "x", "", "1.", "-1", "99999999999999999999"):
        with pytest.raises(BadInput, match=r"there is no run .*dragoman runs list --all"):
            evaluation_log.find(engine, run_id)
        with pytest.raises(BadInput):
            list(evaluation_log.export(engine, run_id))
    run = Run("e5", {"1": [("a b", 0.9), ("c", 0.8)]})
    scores = score(run, QRELS, MEASURES, ["1", "2"])
    number = evaluation_log.log(engine, SETUP, [ScoredRun("de", "language", "de", scores, pack(run))])
    assert logged_rankings(engine, number, 100) == {"de": {"1": ["a b", "c"], "2": []}}


def test_a_run_of_an_earlier_version_is_listed_and_compared_with_its_settings(calibrated: Settings) -> None:
    with Searcher.open("demo", calibrated, device="cpu") as searcher:
        setup = replace(SETUP, settings=searcher.describe())
    kept = {name: value for name, value in setup.settings.items() if name not in {"mates", "maps"}}
    gone = {
        "margin": "ratio", "passages": True, "lift": 0.8, "bar": 0.5, "second_look": False, "mix": [1, 1, 1, 2],
        "calibration": "0123456789abcdef",
    }  # fmt: skip
    new, old = (
        LoggedRun(kind="language", lang="de", evaluation_row=EvaluationRow(setup=one))
        for one in (setup, replace(setup, settings={**kept, **gone}))
    )
    assert ranking_in_words(old) == ranking_in_words(new) == "balance 0.75, mates"
    words = settings_in_words(old)
    assert {"margin": "ratio", "lift": "0.8", "second look": "no", "mix": "1 1 1 2"}.items() <= words.items()
    assert "mates" not in words
    assert settings_in_words(new)["mates"] == "yes"
    assert differences(new, old) == [f"calibration {setup.settings['calibration']} (not 0123456789abcdef)"]


def test_lists_say_how_runs_were_ranked(calibrated: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*command: str) -> str:
        assert dragoman([*command, "--home", str(calibrated.home)]) == 0
        return capsys.readouterr().out

    judged = ["--topics", str(DEMO / "topics.tsv"), "--qrels", str(DEMO / "qrels.txt"), "--langs", "de", "-q"]
    for options in ([], ["--balance", "1"], ["--calibration", "none"], ["--hybrid", "--to", "de,en"]):
        said("evaluate", *judged, "-c", "demo", "--baseline", "none", *options)
    runs = [json.loads(line) for line in said("runs", "list", "--json").splitlines()[:4]]
    assert [(run["tag"].removeprefix("multilingual-e5-small-"), run["ranking"]) for run in runs] == [
        ("fair-hybrid-to-de-en", "balance 0.75, mates, hybrid"), ("plain", "plain cosine"),
        ("fair-balance-1", "balance 1, mates"), ("fair", "balance 0.75, mates"),
    ]  # fmt: skip
    compared = said("runs", "compare", runs[1]["id"], runs[0]["id"])
    assert "mates yes (not no), hybrid yes (not no)" in compared
    assert "encoder" not in compared
