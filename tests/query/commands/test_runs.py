"""``dragoman evaluate`` and ``dragoman runs`` as they are typed."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from query import cli
from query.ranking.searcher import Searcher
from query.trec_files.trec_run import Run
from tests.query.evaluation.test_scored_runs import word_searcher

Command = Callable[..., str]


@pytest.fixture
def dragoman(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command on a collection of words and returns what it prints; ``status`` is what it must exit with."""
    monkeypatch.setattr(Searcher, "open", lambda *_, **__: word_searcher(tmp_path / "store"))
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "home"))

    def run(*arguments: str | Path, status: int = 0) -> str:
        assert cli.run([str(argument) for argument in arguments]) == status
        output = capsys.readouterr()
        return output.err if status else output.out

    return run


@pytest.fixture
def judged(tmp_path: Path) -> list[str]:
    """Options that name topics and qrels."""
    (tmp_path / "topics.tsv").write_text(
        "qid\tlang\ttitle\n1\ten\tflood elbe\n2\ten\ttrain crash\n3\ten\tmusic\n"
        "1\tde\thochwasser elbe\n2\tde\tzug unglück\n",
        "utf-8",
    )
    qrels = tmp_path / "qrels"
    qrels.mkdir()
    (qrels / "en.txt").write_text("1 0 en:flood 1\n2 0 en:train 1\n")
    (qrels / "de.txt").write_text("1 0 de:flood 1\n2 0 de:train 1\n1 0 de:music 0\n")
    return ["--topics", str(tmp_path / "topics.tsv"), "--qrels", str(qrels), "-c", "words"]


def emitted(output: str) -> Any:
    return json.loads(output)


def test_evaluate_prints_a_row_a_language_and_one_for_all(dragoman: Command, judged: list[str]) -> None:
    lines = [line.split() for line in dragoman("evaluate", *judged).splitlines()]
    rows = {line[0]: line for line in lines if line and line[-1].startswith("1.")}
    assert set(rows) == {"de", "en", "all,"}
    assert rows["de"][-1] == "1.de"
    heading = {word for line in lines[: lines.index(rows["de"])] for word in line}
    assert {"MAP", "nDCG@10", "R@100", "P@10", "Judged@10", "BM25"} <= heading


def test_evaluate_says_how_fair_each_run_is(dragoman: Command, judged: list[str]) -> None:
    text = dragoman("evaluate", *judged)
    assert "own language: of the first 3 hits, the share in the topic's language; 33% would be fair" in text
    assert "PEER@100: 1 where equally relevant documents stand at equal ranks" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["de", "4", "4", "100.0%"] in rows
    result = emitted(dragoman("evaluate", *judged, "--json"))
    assert result["runs"][-1]["found"]["de"] == {"found": 4, "relevant": 4, "share": 1.0}
    assert 0 <= result["runs"][-1]["means"]["own-language"] <= 1
    assert "own-language" not in dragoman("evaluate", *judged, "--to", "de")


def test_show_has_fairness_and_compare_tests_it_where_it_is_asked(dragoman: Command, judged: list[str]) -> None:
    dragoman("evaluate", *judged)
    dragoman("evaluate", *judged, "--depth", "1")
    shown = dragoman("runs", "show", "1")
    assert "own-language" in shown
    assert ["en", "4", "4", "100.0%"] in [line.split() for line in shown.splitlines()]
    assert emitted(dragoman("runs", "show", "1", "--json"))["found"]["en"]["relevant"] == 4
    default = emitted(dragoman("runs", "compare", "1", "2", "--json"))["comparisons"]
    assert {one["measure"] for one in default} == {"AP", "nDCG@10", "R@100", "P@10"}
    named = emitted(dragoman("runs", "compare", "1", "2", "--measures", "PEER@100 own-language", "--json"))
    assert [one["measure"] for one in named["comparisons"]] == ["PEER@100", "own-language"]


def test_own_language_shares_of_different_numbers_of_hits_are_not_compared(
    dragoman: Command, judged: list[str]
) -> None:
    dragoman("evaluate", *judged)
    dragoman("evaluate", *judged, "--to", "de,en")
    text = dragoman("runs", "compare", "1", "2", "--measures", "own-language", status=1)
    assert "these runs searched different numbers; compare runs with the same --to" in text
    assert "AP" in dragoman("runs", "compare", "1", "2", "--measures", "AP")


def test_evaluate_logs_every_run_and_writes_the_run_file(dragoman: Command, judged: list[str], tmp_path: Path) -> None:
    result = emitted(dragoman("evaluate", *judged, "--run-file", tmp_path / "run.txt", "--tag", "my words", "--json"))
    assert [run["id"] for run in result["runs"]] == [
        f"1.{name}" for name in ("de", "de-same", "de-bm25", "en", "en-same", "en-bm25", "all")
    ]
    assert result["runs"][3]["unjudged"] == ["3"]
    assert result["settings"]["depth"] == 1000
    assert result["settings"]["fields"] == ["title", "description"]
    run = Run.read_trec(tmp_path / "run.txt")
    assert run.tag == "my words"
    assert set(run.rankings) == {"1.de", "2.de", "1.en", "2.en", "3.en"}
    assert dragoman("runs", "export", "1") == (tmp_path / "run.txt").read_text()


def test_files_may_be_patterns_lists_and_folders(dragoman: Command, judged: list[str], tmp_path: Path) -> None:
    topics, folder = judged[:2], tmp_path / "qrels"
    whole = emitted(dragoman("evaluate", *judged, "--json"))
    for qrels in (
        [f"{folder}/*.txt"],
        [f"{folder}/de.txt,{folder}/en.txt"],
        [folder / "de.txt", "--qrels", folder / "en.txt"],
    ):
        again = emitted(dragoman("evaluate", *topics, "--qrels", *qrels, "-c", "words", "--json"))
        assert again["runs"][-1]["means"] == whole["runs"][-1]["means"]
        assert again["qrels_hash"] == whole["qrels_hash"]


def test_a_run_is_compared_with_one_before_and_with_a_file(
    dragoman: Command, judged: list[str], tmp_path: Path
) -> None:
    dragoman("evaluate", *judged, "--run-file", tmp_path / "run.txt")
    logged = emitted(dragoman("evaluate", *judged, "--baseline", "none", "--compare", "1", "--json"))["comparisons"]
    assert {(one["a"], one["b"]) for one in logged} == {("1.de", "2.de"), ("1.en", "2.en"), ("1.all", "2.all")}
    assert all(one["ties"] == len(one["topics"]) and one["p_holm"] == 1 for one in logged)
    filed = emitted(dragoman("evaluate", *judged, "--compare", tmp_path / "run.txt", "--json"))["comparisons"]
    assert {(one["b"], one["difference"]) for one in filed} == {("3.all", 0.0)}


def test_a_file_is_scored_by_the_judgements_of_the_languages_searched(
    dragoman: Command, judged: list[str], tmp_path: Path
) -> None:
    within = dragoman("evaluate", *judged, "--to", "en", "--run-file", tmp_path / "english.txt")
    assert within
    dragoman("evaluate", *judged, "--run-file", tmp_path / "all.txt")
    for name in ("english.txt", "all.txt"):  # the second has documents in other languages, which are taken out
        asked = emitted(dragoman("evaluate", *judged, "--to", "en", "--compare", tmp_path / name, "--json"))
        assert {one["difference"] for one in asked["comparisons"]} == {0.0}


def test_a_run_that_was_scored_by_other_judgements_is_named(
    dragoman: Command, judged: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    dragoman("evaluate", *judged)
    assert cli.run(["evaluate", *judged, "--to", "en", "--compare", "1"]) == 0
    assert "was scored by other qrels or another --to" in capsys.readouterr().err


def test_a_run_of_the_same_judgements_in_one_language_is_not_named(
    dragoman: Command, judged: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    dragoman("evaluate", *judged)
    assert cli.run(["evaluate", *judged, "--compare", "1.de-same"]) == 0
    output = capsys.readouterr()
    assert "1.de-same" in output.out
    assert "another --to" not in output.err


def test_a_run_in_one_language_that_is_compared_with_a_run_in_all_is_named(
    dragoman: Command, judged: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    dragoman("evaluate", *judged, "--langs", "de")
    assert cli.run(["evaluate", *judged, "--langs", "de", "--baseline", "none", "--compare", "1.de-same"]) == 0
    assert "another --to" in capsys.readouterr().err


def test_runs_without_a_common_topic_are_left_out_of_a_comparison(
    dragoman: Command, judged: list[str], tmp_path: Path
) -> None:
    dragoman("evaluate", *judged)
    topics = tmp_path / "topics.tsv"
    topics.write_text(topics.read_text().replace("1\tde", "3\tde").replace("2\tde", "4\tde"))
    (tmp_path / "qrels" / "de.txt").write_text("3 0 de:music 1\n4 0 de:train 1\n")
    compared = emitted(dragoman("evaluate", *judged, "--compare", "1", "--json"))["comparisons"]
    assert {(one["a"], one["b"]) for one in compared} == {("1.en", "2.en"), ("1.all", "2.all")}


def test_psq_runs_are_rows_and_logged_runs(dragoman: Command, judged: list[str], tmp_path: Path) -> None:
    lexicon = tmp_path / "de-en.tsv"
    lexicon.write_text("hochwasser\tflood\t0.9\nhochwasser\twater\t0.1\nzug\ttrain\n", encoding="utf-8")
    arguments = ["evaluate", *judged, "--lexicon", f"de-en={lexicon}", "--to", "de,en", "--pairs"]
    output = dragoman(*arguments)
    rows = {line[-1]: line for line in map(str.split, output.splitlines()) if line and line[-1].startswith("1.")}
    assert rows["1.de-psq"][:2] == ["de,", "PSQ"]
    assert rows["1.de-psq"][3] == "1.000"
    assert "MAP by pair, evaluation 1, PSQ" in output
    runs = {run["id"]: run for run in emitted(dragoman(*arguments, "--json"))["runs"]}
    assert {"2.de-psq", "2.de-de-psq", "2.de-en-psq"} <= runs.keys()
    assert runs["2.de-en-psq"]["means"]["AP"] == 1.0
    listed = dragoman("runs", "list", "--all")
    assert all(words in listed for words in ("de → en, PSQ", "de, PSQ"))
    shown = dragoman("runs", "show", "1.de-en-psq")
    assert "tag PSQ\n" in shown
    assert "lexicons de-en de-en.tsv (" in shown
    dragoman("runs", "export", "1.de-en-psq", "-o", tmp_path / "psq.txt")
    assert Run.read_trec(tmp_path / "psq.txt").rankings["1"][0][0] == "en:flood"
    matrix = emitted(dragoman("runs", "pairs", "1.de-psq", "--against", "1", "--measure", "AP", "--json"))
    assert {pair["run"] for pair in matrix["pairs"]} == {"1.de-de-psq", "1.de-en-psq"}
    compared = emitted(dragoman("runs", "compare", "1.de-en", "1.de-en-psq", "--measures", "AP", "--json"))
    assert compared["comparisons"][0]["b"] == "1.de-en-psq"


def test_a_pooled_run_of_psq_is_exported(dragoman: Command, judged: list[str], tmp_path: Path) -> None:
    lexicon = tmp_path / "lexicon.json"
    lexicon.write_text('{"train": {"zug": 1.0}, "zug": {"train": 1.0}}', encoding="utf-8")
    lexicons = [option for pair in ("de-en", "en-de") for option in ("--lexicon", f"{pair}={lexicon}")]
    dragoman("evaluate", *judged, *lexicons)
    dragoman("runs", "export", "1.all-psq", "-o", tmp_path / "psq.txt")
    rankings = Run.read_trec(tmp_path / "psq.txt").rankings
    assert {doc_id for doc_id, _ in rankings["2.de"]} == {doc_id for doc_id, _ in rankings["2.en"]}


def test_list_shows_main_runs_and_all_on_request(dragoman: Command, judged: list[str]) -> None:
    assert dragoman("runs") == ""
    dragoman("evaluate", *judged)
    dragoman("evaluate", *judged, "--langs", "en", "--baseline", "none")
    assert [json.loads(line)["id"] for line in dragoman("runs", "list", "--json").splitlines()] == ["2.en", "1.all"]
    assert len(dragoman("runs", "list", "--all", "--json").splitlines()) == 8
    assert "no collection 'others'" in dragoman("runs", "list", "-c", "others", status=1)
    assert "de → de, BM25" in dragoman("runs", "list", "--all")


def test_show_has_settings_and_every_topic(dragoman: Command, judged: list[str]) -> None:
    dragoman("evaluate", *judged)
    text = dragoman("runs", "show", "1.en")
    assert "run 1.en of " in text
    assert "topics that have nothing relevant, and are left out (1): 3" in text
    shown = emitted(dragoman("runs", "show", "1.en-same", "--json"))
    assert shown["scores"]["1"]["AP"] == 1.0
    assert shown["collection"] == "words"


def test_compare_tests_and_draws_the_differences(dragoman: Command, judged: list[str], tmp_path: Path) -> None:
    dragoman("evaluate", *judged)
    dragoman("evaluate", *judged, "--depth", "1")
    plot = tmp_path / "differences.png"
    text = dragoman("runs", "compare", "1", "2", "1.en", "--plot", plot, status=1)
    assert "1.all and 1.en share no topic" in text
    result = emitted(dragoman("runs", "compare", "1.en", "2.en", "1.de", "--plot", plot, "--json"))
    assert len(result["comparisons"]) == 8
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert "1.en" in dragoman("runs", "compare", "1.en", "2.en", "--measures", "AP")


def test_export_writes_a_file(dragoman: Command, judged: list[str], tmp_path: Path) -> None:
    dragoman("evaluate", *judged)
    dragoman("runs", "export", "1.de-bm25", "-o", tmp_path / "bm25.txt")
    assert Run.read_trec(tmp_path / "bm25.txt").tag == "BM25"


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["runs", "show", "7"], 1, "there is no run '7'; see the ids with: dragoman runs list --all"),
        (["runs", "export", "x"], 1, "there is no run 'x'"),
        (["runs", "export", "1", "-o", "{tmp}/no/run.txt"], 1, "can't be written"),
        (["runs", "compare", "1"], 2, "give two runs or more"),
        (["runs", "compare", "1.en", "1.de", "--measures", "RR"], 1, "the runs do not all have 'RR'; they share AP,"),
        (["runs", "compare", "1.en", "1.de", "--plot", "{tmp}/plot.xyz"], 1, "known endings: .png, .svg, .pdf"),
        (["evaluate", "--measures", "AP nDGC@10"], 1, "'nDGC@10' is no measure"),
        (["evaluate", "--langs", "fi"], 1, "no topic in 'fi'; the topics are in de, en"),
        (["evaluate", "--langs", "klingonisch"], 1, "'klingonisch' is no"),
        (["evaluate", "--to", "sw"], 1, "no documents in 'sw'"),
        (["evaluate", "--fields", "titel"], 1, "a topic has no 'titel'"),
        (["evaluate", "--fields", ","], 1, "--fields names no part"),
        (["evaluate", "--depth", "0"], 2, "--depth"),
        (["evaluate", "--run-file", "{tmp}/no/run.txt"], 1, "there is no folder"),
        (["evaluate", "--compare", "99"], 1, "there is no run '99'"),
        (["evaluate", "--compare", "{tmp}/broken.run"], 1, "broken.run:1 has 3 columns"),
        (["evaluate", "--qrels", "{tmp}/nothing*.txt"], 1, "is no file and no pattern of files with qrels"),
        (["evaluate", "--topics", "{tmp}/nothing.tsv"], 1, "is no file and no pattern of files with topics"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    dragoman: Command, judged: list[str], tmp_path: Path, arguments: list[str], status: int, said: str
) -> None:
    dragoman("evaluate", *judged, "--baseline", "none")
    (tmp_path / "broken.run").write_text("1 Q0 a\n")
    options = judged if arguments[0] == "evaluate" else []
    text = dragoman(*[argument.replace("{tmp}", str(tmp_path)) for argument in arguments], *options, status=status)
    assert said in text
    assert status == 2 or text.count("\n") == 1


def test_qrels_of_other_topics_are_one_sentence(dragoman: Command, judged: list[str], tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("99 0 en:flood 1\n")
    text = dragoman("evaluate", *judged[:2], "--qrels", tmp_path / "other.txt", "-c", "words", status=1)
    assert "the qrels have no relevant document for any of the topics" in text
    assert dragoman("runs", "list", "--json") == ""


def test_a_run_of_another_system_is_scored_logged_and_compared_without_a_collection(
    dragoman: Command, judged: list[str], tmp_path: Path
) -> None:
    ours = emitted(dragoman("evaluate", *judged, "--run-file", tmp_path / "run.txt", "--json"))
    topics = judged[:-2]  # without a collection
    theirs = emitted(dragoman("runs", "import", tmp_path / "run.txt", *topics, "--compare", "1", "--json"))
    assert [run["id"] for run in theirs["runs"]] == ["2.de", "2.en", "2.all"]
    means = {run["lang"]: run["means"] for run in ours["runs"] if run["kind"] in {"language", "pooled"}}
    for run in theirs["runs"]:
        assert run["means"] == {name: means[run["lang"]][name] for name in run["means"]}
    assert {(one["a"], one["b"], one["difference"]) for one in theirs["comparisons"]} == {
        (f"1.{name}", f"2.{name}", 0.0) for name in ("de", "en", "all")
    }
    assert dragoman("runs", "export", "2") == (tmp_path / "run.txt").read_text()
    assert "imported from run.txt" in dragoman("runs", "show", "2")
    listed = [json.loads(line) for line in dragoman("runs", "list", "--json").splitlines()]
    assert [(run["id"], run["collection"], run["ranking"]) for run in listed] == [
        ("2.all", "", "imported from run.txt"),
        ("1.all", "words", "plain cosine"),
    ]
    assert "imported from run.txt (not plain cosine)" in dragoman("runs", "compare", "1", "2", "--measures", "map")
    assert "2.all" in dragoman("runs", "list")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "run.txt").write_text("1.de Q0 de:flood 1 1.0 other\n")
    dragoman("runs", "import", tmp_path / "other" / "run.txt", *topics, "--tag", "dense")
    assert "hash of the file" in dragoman("runs", "compare", "2", "3")
    assert dragoman("runs", "export", "3").split()[-1] == "dense"


def test_a_run_with_plain_topic_ids_is_imported_for_topics_in_one_language(
    dragoman: Command, judged: list[str], tmp_path: Path
) -> None:
    (tmp_path / "bm25.run").write_text("1 Q0 en:flood 1 2.5 their-bm25\n1 Q0 de:flood 2 1.5 their-bm25\n")
    arguments = ["runs", "import", str(tmp_path / "bm25.run"), *judged[:-2]]
    imported = emitted(dragoman(*arguments, "--langs", "en", "--measures", "map P_10 ndcg_cut_10", "--json"))
    assert imported["tag"] == "their-bm25"
    (run,) = imported["runs"]
    assert run["means"] == {"AP": 0.5, "P@10": 0.1, "nDCG@10": 0.5, "Judged@10": 0.5}
    assert "name those of several languages like 1.de, or choose the run's language" in dragoman(*arguments, status=1)
    packed = tmp_path / "packed.run.gz"
    packed.write_bytes(gzip.compress(b"001 Q0 en:flood 1 2.5 their-bm25\nC2 Q0 en:train 1 1.0 their-bm25\n"))
    packed_arguments = ["runs", "import", str(packed), *judged[:-2], "--langs", "en", "--json"]
    assert emitted(dragoman(*packed_arguments))["runs"][0]["means"]["AP"] == 0.5
    packed.write_bytes(gzip.compress(b"001 Q0 en:flood 1 2.5 their-bm25\n1 Q0 en:train 1 1.0 their-bm25\n"))
    assert "ranks topic 1 by two ids" in dragoman(*packed_arguments, status=1)
    (tmp_path / "bm25.run").write_text("")
    assert "is empty" in dragoman(*arguments, status=1)


@pytest.mark.parametrize("run_id", ["1", "1.en"])
def test_trec_evals_code_gives_the_logged_figures_from_the_exported_files(
    dragoman: Command, judged: list[str], tmp_path: Path, run_id: str
) -> None:
    import ir_measures

    logged = emitted(dragoman("evaluate", *judged, "--json"))
    exported = tmp_path / "run.txt"
    dragoman("runs", "export", run_id, "-o", exported, "--qrels", tmp_path / "qrels")
    qrels = list(ir_measures.read_trec_qrels(f"{exported}.qrels"))
    means = next(run["means"] for run in logged["runs"] if run["id"] == {"1": "1.all"}.get(run_id, run_id))
    measures = [ir_measures.parse_measure(name) for name in ("AP", "nDCG@10", "P@10", "R@100")]
    # ir_measures counts topics without hits as 0, as trec_eval -c does
    figures = ir_measures.pytrec_eval.calc_aggregate(measures, qrels, ir_measures.read_trec_run(str(exported)))
    assert {str(measure): value for measure, value in figures.items()} == {
        name: pytest.approx(means[name], abs=1e-12) for name in ("AP", "nDCG@10", "P@10", "R@100")
    }


def test_judgements_are_not_exported_where_only_some_of_them_scored_the_run(
    dragoman: Command, judged: list[str], tmp_path: Path
) -> None:
    dragoman("evaluate", *judged, "--to", "de")
    arguments = ["runs", "export", "1", "--qrels", tmp_path / "qrels"]
    assert "its collection, which knows these documents, is gone" in dragoman(
        *arguments, "-o", tmp_path / "run.txt", status=1
    )
    assert "--qrels needs --output" in dragoman(*arguments, status=2)


def test_judgements_that_are_read_are_not_overwritten(dragoman: Command, judged: list[str], tmp_path: Path) -> None:
    dragoman("evaluate", *judged)
    (tmp_path / "run.txt.qrels").write_text("1 0 en:flood 1\n")
    (tmp_path / "others.txt").write_text("77 0 en:flood 1\n")
    export = ["runs", "export", "1", "-o", tmp_path / "run.txt", "--qrels"]
    assert "would be overwritten" in dragoman(*export, tmp_path / "run.txt.qrels", status=1)
    assert "judge none of the topics of run 1.all" in dragoman(*export, tmp_path / "others.txt", status=1)
    assert not (tmp_path / "run.txt").exists()
