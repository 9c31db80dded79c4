"""``dragoman evaluate`` and ``dragoman runs`` as they are typed; in no terminal their tables are cut."""

import gzip
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from indexer.stores.embedded import EmbeddedStore
from query.ranking.searcher import Searcher
from query.trec_files.trec_run import Run
from tests.query.conftest import SOURCES, Command
from tests.query.evaluation.test_scored_runs import word_searcher

JUDGED = ["--topics", "topics.tsv", "--qrels", "qrels", "-c", "words"]
FAIR = "PEER@100 own-language Judged@10"


@pytest.fixture
def dragoman(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Commands on a collection of words, in a folder with topics and judgements."""
    monkeypatch.setattr(Searcher, "open", lambda *_, **__: word_searcher(tmp_path / "store"))
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    topics = "1\ten\tflood elbe\n2\ten\ttrain crash\n3\ten\tmusic\n1\tde\thochwasser elbe\n2\tde\tzug unglück\n"
    Path("topics.tsv").write_text(f"qid\tlang\ttitle\n{topics}", "utf-8")
    Path("qrels").mkdir()
    Path("qrels/en.txt").write_text("1 0 en:flood 1\n2 0 en:train 1\n")
    Path("qrels/de.txt").write_text("1 0 de:flood 1\n2 0 de:train 1\n1 0 de:music 0\n")
    return Command(capsys)


def test_evaluate_prints_a_row_a_language_and_one_for_all_and_how_fair_they_are(dragoman: Command) -> None:
    text = dragoman("evaluate", *JUDGED)
    lines = [line.split() for line in text.splitlines()]
    rows = {line[0]: line for line in lines if line and line[-1].startswith("1.")}
    assert (set(rows), rows["de"][-1]) == ({"de", "en", "all,"}, "1.de")
    heading = {word for line in lines[: lines.index(rows["de"])] for word in line}
    assert {"MAP", "nDCG@10", "R@100", "P@10", "Judged@10", "BM25"} <= heading
    assert "own language: of the first 3 hits, the share in the topic's language; 33% would be fair" in text
    assert "PEER@100: 1 where equally relevant documents stand at equal ranks" in text
    assert ["de", "4", "4", "100.0%"] in lines
    result = dragoman.one("evaluate", *JUDGED)
    assert result["runs"][-1]["found"]["de"] == {"found": 4, "relevant": 4, "share": 1.0}
    assert 0 <= result["runs"][-1]["means"]["own-language"] <= 1
    assert result["runs"][-1]["overlaps"] == {"de-en": pytest.approx(result["runs"][-1]["means"]["RBO"])}
    assert "own-language" not in dragoman("evaluate", *JUDGED, "--to", "de")


def test_show_has_settings_every_topic_and_fairness(dragoman: Command) -> None:
    dragoman("evaluate", *JUDGED)
    shown = dragoman("runs", "show", "1")
    assert "own-language" in shown
    assert ["en", "4", "4", "100.0%"] in [line.split() for line in shown.splitlines()]
    assert dragoman.one("runs", "show", "1")["found"]["en"]["relevant"] == 4
    text = dragoman("runs", "show", "1.en")
    assert "run 1.en of " in text
    assert "topics that have nothing relevant, and are left out (1): 3" in text
    same = dragoman.one("runs", "show", "1.en-same")
    assert (same["scores"]["1"]["AP"], same["collection"]) == (1.0, "words")


def test_compare_tests_and_draws_the_differences(dragoman: Command) -> None:
    dragoman("evaluate", *JUDGED)
    dragoman("evaluate", *JUDGED, "--depth", "1")
    plot = Path("differences.png")
    assert "1.all and 1.en share no topic" in dragoman("runs", "compare", "1", "2", "1.en", "--plot", plot, status=1)
    assert len(dragoman.one("runs", "compare", "1.en", "2.en", "1.de", "--plot", plot)["comparisons"]) == 8
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert "1.en" in dragoman("runs", "compare", "1.en", "2.en", "--measures", "AP")
    for asked, measures in (([], "AP nDCG@10 R@100 P@10"), (["--measures", FAIR], FAIR)):
        compared = dragoman.one("runs", "compare", "1", "2", *asked)["comparisons"]
        assert {one["measure"] for one in compared} == set(measures.split())
    dragoman("evaluate", *JUDGED, "--to", "de,en")
    text = dragoman("runs", "compare", "1", "3", "--measures", "own-language", status=1)
    assert "these runs searched different numbers; compare runs with the same --to" in text
    assert "AP" in dragoman("runs", "compare", "1", "3", "--measures", "AP")


def test_evaluate_logs_every_run_and_writes_the_run_file(dragoman: Command) -> None:
    result = dragoman.one("evaluate", *JUDGED, "--run-file", "run.txt", "--tag", "my words")
    assert [run["id"] for run in result["runs"]] == [
        f"1.{name}" for name in ("de", "de-same", "de-bm25", "en", "en-same", "en-bm25", "all")
    ]
    assert result["runs"][3]["unjudged"] == ["3"]
    assert (result["settings"]["depth"], result["settings"]["fields"]) == (1000, ["title", "description"])
    run = Run.read_trec(Path("run.txt"))
    assert (run.tag, set(run.rankings)) == ("my words", {"1.de", "2.de", "1.en", "2.en", "3.en"})
    assert dragoman("runs", "export", "1") == Path("run.txt").read_text()
    dragoman("runs", "export", "1.de-bm25", "-o", "bm25.txt")
    assert Run.read_trec(Path("bm25.txt")).tag == "BM25"


def test_an_evaluation_of_a_collection_that_changes_says_so(dragoman: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = iter(range(1, 100))
    monkeypatch.setattr(EmbeddedStore, "count", lambda _: {"de": next(sizes), "en": 4, "fi": 4})
    remarks = dragoman.one("evaluate", *JUDGED)["remarks"]
    assert "the collection changed while topics were ranked; evaluate it again" in remarks


def test_files_may_be_patterns_lists_and_folders(dragoman: Command) -> None:
    whole = dragoman.one("evaluate", *JUDGED)
    for qrels in (["qrels/*.txt"], ["qrels/de.txt,qrels/en.txt"], ["qrels/de.txt", "--qrels", "qrels/en.txt"]):
        again = dragoman.one("evaluate", *JUDGED[:2], "--qrels", *qrels, "-c", "words")
        assert (again["runs"][-1]["means"], again["qrels_hash"]) == (whole["runs"][-1]["means"], whole["qrels_hash"])


def test_a_run_is_compared_with_one_before_and_with_a_file_by_the_languages_searched(dragoman: Command) -> None:
    dragoman("evaluate", *JUDGED, "--run-file", "run.txt")
    logged = dragoman.one("evaluate", *JUDGED, "--baseline", "none", "--compare", "1")["comparisons"]
    assert {(one["a"], one["b"]) for one in logged} == {("1.de", "2.de"), ("1.en", "2.en"), ("1.all", "2.all")}
    assert all(one["ties"] == len(one["topics"]) and one["p_holm"] == 1 for one in logged)
    assert len(dragoman.one("evaluate", *JUDGED, "--measures", "Judged@10", "--compare", "1")["comparisons"]) == 3
    filed = dragoman.one("evaluate", *JUDGED, "--compare", "run.txt")["comparisons"]
    assert {(one["b"], one["difference"]) for one in filed} == {("4.all", 0.0)}
    dragoman("evaluate", *JUDGED, "--to", "en", "--run-file", "english.txt")
    dragoman("evaluate", *JUDGED, "--run-file", "all.txt")
    for name in ("english.txt", "all.txt"):  # the second has documents in other languages, which are taken out
        asked = dragoman.one("evaluate", *JUDGED, "--to", "en", "--compare", name)
        assert {one["difference"] for one in asked["comparisons"]} == {0.0}


def test_a_run_that_was_scored_by_other_judgements_is_named(dragoman: Command) -> None:
    named = "was scored by other qrels or another --to"
    dragoman("evaluate", *JUDGED)
    for options, warned in ((["--to", "en", "--compare", "1"], True), (["--compare", "1.de-same"], False)):
        assert (options[-1] in dragoman("evaluate", *JUDGED, *options), named in dragoman.err) == (True, warned)
    dragoman("evaluate", *JUDGED, "--langs", "de", "--baseline", "none", "--compare", "1.de-same")
    assert named in dragoman.err


def test_runs_without_a_common_topic_are_left_out_of_a_comparison(dragoman: Command) -> None:
    dragoman("evaluate", *JUDGED)
    topics = Path("topics.tsv")
    topics.write_text(topics.read_text().replace("1\tde", "3\tde").replace("2\tde", "4\tde"))
    Path("qrels/de.txt").write_text("3 0 de:music 1\n4 0 de:train 1\n")
    compared = dragoman.one("evaluate", *JUDGED, "--compare", "1")["comparisons"]
    assert {(one["a"], one["b"]) for one in compared} == {("1.en", "2.en"), ("1.all", "2.all")}


def test_psq_runs_are_rows_and_logged_runs(dragoman: Command) -> None:
    lexicon = Path("de-en.tsv")
    lexicon.write_text("hochwasser\tflood\t0.9\nhochwasser\twater\t0.1\nzug\ttrain\n", encoding="utf-8")
    arguments = ["evaluate", *JUDGED, "--lexicon", f"de-en={lexicon}", "--to", "de,en", "--pairs"]
    output = dragoman(*arguments)
    rows = {line[-1]: line for line in map(str.split, output.splitlines()) if line and line[-1].startswith("1.")}
    assert (rows["1.de-psq"][:2], rows["1.de-psq"][3]) == (["de,", "PSQ"], "1.000")
    assert "MAP by pair, evaluation 1, PSQ" in output
    runs = {run["id"]: run for run in dragoman.one(*arguments)["runs"]}
    assert {"2.de-psq", "2.de-de-psq", "2.de-en-psq"} <= runs.keys()
    assert runs["2.de-en-psq"]["means"]["AP"] == 1.0
    listed = dragoman("runs", "list", "--all")
    assert all(words in listed for words in ("de → en, PSQ", "de, PSQ"))
    shown = dragoman("runs", "show", "1.de-en-psq")
    assert "tag PSQ\n" in shown
    assert "lexicons de-en de-en.tsv (" in shown
    dragoman("runs", "export", "1.de-en-psq", "-o", "psq.txt")
    assert Run.read_trec(Path("psq.txt")).rankings["1"][0][0] == "en:flood"
    matrix = dragoman.one("runs", "pairs", "1.de-psq", "--against", "1", "--measure", "AP")
    assert {pair["run"] for pair in matrix["pairs"]} == {"1.de-de-psq", "1.de-en-psq"}


def test_list_shows_main_runs_and_all_on_request(dragoman: Command) -> None:
    assert dragoman("runs") == ""
    dragoman("evaluate", *JUDGED)
    dragoman("evaluate", *JUDGED, "--langs", "en", "--baseline", "none")
    assert [line["id"] for line in dragoman.json("runs", "list")] == ["2.en", "1.all"]
    assert len(dragoman.json("runs", "list", "--all")) == 8
    assert "no collection 'others'" in dragoman("runs", "list", "-c", "others", status=1)


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["runs", "show", "7"], 1, "there is no run '7'; see the ids with: dragoman runs list --all"),
        (["runs", "export", "1", "-o", "no/run.txt"], 1, "can't be written"),
        (["runs", "compare", "1"], 2, "give two runs or more"),
        (["runs", "compare", "1.en", "1.de", "--measures", "RR(rel=2, judged_only=True)"], 1, "judged_only=True)';"),
        (["runs", "compare", "1.en", "1.de", "--plot", "plot.xyz"], 1, "known endings: .png, .svg, .pdf"),
        (["evaluate", "--measures", "AP nDGC@10"], 1, "'nDGC@10' is no measure"),
        (["evaluate", "--langs", "fi"], 1, "no topic in 'fi'; the topics are in de, en"),
        (["evaluate", "--fields", "titel"], 1, "a topic has no 'titel'"),
        (["evaluate", "--fields", ","], 1, "--fields names no part"),
        (["evaluate", "--run-file", "no/run.txt"], 1, "there is no folder"),
        (["evaluate", "--compare", "broken.run"], 1, "broken.run:1 has 3 columns"),
        (["evaluate", "--compare", "none-such"], 1, "none-such"),
        (["evaluate", "--qrels", "nothing*.txt"], 1, "is no file and no pattern of files with qrels"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(dragoman: Command, arguments: list[str], status: int, said: str) -> None:
    dragoman("evaluate", *JUDGED, "--baseline", "none")
    Path("broken.run").write_text("1 Q0 a\n")
    text = dragoman(*arguments, *(JUDGED if arguments[0] == "evaluate" else []), status=status)
    assert said in text
    assert status == 2 or text.count("\n") == 1


def test_qrels_of_other_topics_are_one_sentence(dragoman: Command) -> None:
    Path("other.txt").write_text("99 0 en:flood 1\n")
    text = dragoman("evaluate", *JUDGED[:2], "--qrels", "other.txt", "-c", "words", status=1)
    assert "the qrels have no relevant document for any of the topics" in text
    assert dragoman("runs", "list", "--json") == ""


def test_a_run_of_another_system_is_scored_logged_and_compared_without_a_collection(dragoman: Command) -> None:
    ours = dragoman.one("evaluate", *JUDGED, "--run-file", "run.txt")
    topics = JUDGED[:-2]  # without a collection
    theirs = dragoman.one("runs", "import", "run.txt", *topics, "--compare", "1")
    assert [run["id"] for run in theirs["runs"]] == ["2.de", "2.en", "2.all"]
    means = {run["lang"]: run["means"] for run in ours["runs"] if run["kind"] in {"language", "pooled"}}
    for run in theirs["runs"]:
        assert run["means"] == {name: means[run["lang"]][name] for name in run["means"]}
    assert {(one["a"], one["b"], one["difference"]) for one in theirs["comparisons"]} == {
        (f"1.{name}", f"2.{name}", 0.0) for name in ("de", "en", "all")
    }
    assert dragoman("runs", "export", "2") == Path("run.txt").read_text()
    assert "imported from run.txt" in dragoman("runs", "show", "2")
    assert [(run["id"], run["collection"], run["ranking"]) for run in dragoman.json("runs", "list")] == [
        ("2.all", "", "imported from run.txt"),
        ("1.all", "words", "plain cosine"),
    ]
    assert "imported from run.txt (not plain cosine)" in dragoman("runs", "compare", "1", "2", "--measures", "map")
    Path("other").mkdir()
    Path("other/run.txt").write_text("1.de Q0 de:flood 1 1.0 other\n")
    dragoman("runs", "import", "other/run.txt", *topics, "--tag", "dense")
    assert "hash of the file" in dragoman("runs", "compare", "2.de", "3")  # it was asked in German alone
    assert dragoman("runs", "export", "3").split()[-1] == "dense"


def test_a_run_with_plain_topic_ids_is_imported_for_topics_in_one_language(dragoman: Command) -> None:
    Path("bm25.run").write_text("1 Q0 en:flood 1 2 their-bm25\n1 Q0 de:flood 2 1 their-bm25\n7 Q0 x 1 1 their-bm25\n")
    arguments = ["runs", "import", "bm25.run", *JUDGED[:-2]]
    imported = dragoman.one(*arguments, "--langs", "en", "--measures", "map P_10 ndcg_cut_10")
    assert imported["tag"] == "their-bm25"
    assert "topics of the run 'their-bm25' that are not among the topics, and don't count: 1\n" in dragoman.err
    assert [run["means"] for run in imported["runs"]] == [{"AP": 0.5, "P@10": 0.1, "nDCG@10": 0.5, "Judged@10": 0.5}]
    assert "name those of several languages like 1.de, or choose the run's language" in dragoman(*arguments, status=1)
    packed = Path("packed.run.gz")
    packed.write_bytes(gzip.compress(b"001 Q0 en:flood 1 2.5 their-bm25\nC2 Q0 en:train 1 1.0 their-bm25\n"))
    packed_arguments = ["runs", "import", packed, *JUDGED[:-2], "--langs", "en"]
    assert dragoman.one(*packed_arguments)["runs"][0]["means"]["AP"] == 0.5
    packed.write_bytes(gzip.compress(b"001 Q0 en:flood 1 2.5 their-bm25\n1 Q0 en:train 1 1.0 their-bm25\n"))
    assert "ranks topic 1 by two ids" in dragoman(*packed_arguments, status=1)
    Path("bm25.run").write_text("")
    assert "is empty" in dragoman(*arguments, status=1)


def test_exported_judgements_name_documents_as_the_run_does_and_are_exported_again(dragoman: Command) -> None:
    judgements, pooled = Path("their.txt"), "1.de 0 a%20b 1\n1.en 0 a%20b 1\n"
    Path("their.run").write_text("1.en Q0 a%20b 1 2.5 theirs\n1.de Q0 a%20b 1 2.5 theirs\n")
    judgements.write_text("1 0 a%20b 1\n")
    for run, exported in (("1", pooled), ("2", pooled), ("3.de", "1 0 a%20b 1\n")):
        dragoman("runs", "import", "their.run", *JUDGED[:2], "--qrels", judgements)
        dragoman("runs", "export", run, "-o", run, "--qrels", judgements)
        judgements = Path(f"{run}.qrels")
        assert judgements.read_text() == exported


def test_a_study_has_psq_over_the_topics_with_a_lexicon_and_the_measure_asked_for(dragoman: Command) -> None:
    Path("words.tsv").write_text("flood\thochwasser\n")
    dragoman("study", *JUDGED, "--lexicon", "en-de=words.tsv", "--measures", "Judged@10", "-o", "study")
    assert "{}PSQ, 2 topics &" in Path("study/systems.tex").read_text()
    assert "PSQ, 2 topics</th>" in Path("study/study.html").read_text()
    Path("none.txt").write_text("1 0 en:flood 0\n1 0 gone 1\n")
    said = dragoman("study", *JUDGED[:2], "--qrels", "none.txt", "-c", "words", "-o", "study", status=1)
    assert "words has no document that is relevant to a topic; name the collection that" in said


def test_judgements_are_not_exported_where_only_some_scored_the_run_or_over_read_ones(dragoman: Command) -> None:
    dragoman("evaluate", *JUDGED, "--to", "de")
    arguments = ["runs", "export", "1", "--qrels", "qrels"]
    assert "its collection, which knows these documents, is gone" in dragoman(*arguments, "-o", "run.txt", status=1)
    assert "--qrels needs --output" in dragoman(*arguments, status=2)
    dragoman("evaluate", *JUDGED)
    Path("run.txt.qrels").write_text("1 0 en:flood 1\n")
    Path("others.txt").write_text("77 0 en:flood 1\n")
    export = ["runs", "export", "2", "-o", "run.txt", "--qrels"]
    assert "would be overwritten" in dragoman(*export, "run.txt.qrels", status=1)
    assert "judge none of the topics of run 2.all" in dragoman(*export, "others.txt", status=1)
    assert not Path("run.txt").exists()


TAG = "a-run-with-a-long-name-of-more-than-fifty-characters"


@pytest.fixture(params=[60, 80, 100, 160])
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> int:
    columns: int = request.param
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True)
    return columns


def is_whole(texts: Iterable[str], output: str, width: int) -> None:
    """Check that each text appears whole, and no table is wider than the terminal."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    lines = plain.splitlines()
    words = {word for line in lines for word in line.split()}
    assert [text for text in texts if text not in words and not (" " in text and text in plain)] == []
    assert "…" not in plain.replace("SOURCE…", "")
    assert [line for line in lines if "───" in line and len(line) > width] == []


def means_of(runs: Iterable[dict[str, Any]], digits: int = 3) -> set[str]:
    return {f"{mean:.{digits}f}" for run in runs for name, mean in run["means"].items() if not name.startswith("own")}


def test_evaluations_show_languages_topics_measures_and_ids(dragoman: Command, width: int) -> None:
    runs = dragoman.one("evaluate", *JUDGED, "--tag", TAG)["runs"]
    text = dragoman("evaluate", *JUDGED, "--tag", TAG)
    names = {"MAP", "nDCG@10", "R@100", "P@10", "Judged@10", "PEER@100", "own", "BM25"}
    names |= {"de", "en", "all, pooled", "2.de", "2.en", "2.all", f"{TAG}, evaluation 2"}
    is_whole(names | means_of(run for run in runs if run["kind"] in {"language", "pooled"}), text, width)
    runs = dragoman.json("runs", "list", "--all")
    names = {name for run in runs for name in run["means"]}
    assert "own-language" in names
    names |= {run["id"] for run in runs} | {"de → de, BM25", "all, pooled"}
    is_whole(names | means_of(runs), dragoman("runs", "list", "--all"), width)
    run = dragoman.one("runs", "show", "1")
    is_whole({*run["scores"], *run["means"], "de", "en"} | means_of([run], 4), dragoman("runs", "show", "1"), width)


def test_runs_compare_shows_measures_ids_and_every_p(dragoman: Command, width: int) -> None:
    dragoman("evaluate", *JUDGED)
    dragoman("evaluate", *JUDGED, "--depth", "1")
    ids = ["1.all", "2.all"]
    compared = dragoman.one("runs", "compare", *ids)["comparisons"]
    figures = {f"{one[name]:.3f}" for one in compared for name in ("mean_a", "mean_b", "p_randomisation")}
    figures |= {f"{one['difference']:+.3f}" for one in compared}
    names = {*ids, *(one["measure"] for one in compared), "t-test", "Holm"}
    is_whole(names | figures, dragoman("runs", "compare", *ids), width)


def test_calibrations_hits_and_the_status_show_ids_and_languages(on_demo: Command, width: int) -> None:
    names = {f"{one['calibration']}," for one in on_demo.json("status", "--calibration")} | {"active", "balance"}
    is_whole(names, on_demo("status", "--calibration"), width)
    search = ["search", "Garten", "--lang", "de", "--flat"]
    hits = on_demo.one(*search)["hits"]
    names = {f"[{hit['id']}]" for hit in hits} | {hit["lang"] for hit in hits}
    is_whole(names, on_demo(*search).replace(" …", ""), width)
    status = on_demo.one("status")
    is_whole({status["calibrations"][0]["calibration"], *status["languages"]}, on_demo("status"), width)


def test_a_training_shows_each_language_with_its_figures(dragoman: Command, tmp_path: Path, width: int) -> None:
    learn = ["train", "cr5", *SOURCES[:3], "--dimensions", "16", "--ridge", "0.3", "-o"]
    report = dragoman.one(*learn, tmp_path / "one", "-q")
    figures = {f"{count:,}" for name in ("documents", "vocabulary") for count in report[name].values()}
    is_whole({*report["documents"], "documents", "words"} | figures, dragoman(*learn, tmp_path / "two"), width)
