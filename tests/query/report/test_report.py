"""The report: one page that needs nothing from elsewhere, with every picture, or why there is none."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from encoders.console import Console
from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder
from indexer.collection.collection import require
from indexer.collection.settings import Settings
from indexer.index_sources import index
from indexer.ledger.database import connect, transaction
from query.calibration.calibration_table import use
from query.calibration_fitting.calibration_fit import calibrate
from query.calibration_fitting.calibration_request import CalibrationRequest
from query.cli import run
from query.evaluation import evaluation_log
from query.evaluation.collection_evaluation import evaluate_collection
from query.evaluation.evaluation_log import EvaluationRow
from query.evaluation.scored_runs import EvaluationPlan
from query.measures.quality_measures import DEFAULT_MEASURES, parse_measures
from query.ranking.ranking_options import RankingOptions
from query.report import sections
from query.report.compose import report
from query.trec_files.topic_set import read_topic_set
from tests.conftest import skip_or_fail
from tests.query.conftest import copied
from trials import DEMO, page_attacks

pytestmark = pytest.mark.parts

LANGUAGES = ("de", "en", "ja")
SECTIONS = [sections.LANGUAGES, sections.BALANCE, sections.PAIRS, sections.TOPICS]
QUIET = Console(json=True, quiet=True)


def evaluate_demo(settings: Settings, langs: Sequence[str], calibration: str = "", **options: Any) -> None:
    """Ask the demo's topics, or some, in some languages, without baselines."""
    topics = options.pop("topics", DEMO / "topics.tsv")
    topic_set = read_topic_set([topics], [DEMO / "qrels.txt"], langs=langs)
    plan = EvaluationPlan(parse_measures(DEFAULT_MEASURES), "", baseline="none", to=options.pop("to", None))
    evaluate_collection("demo", topic_set, settings, plan, ranking=RankingOptions(calibration, **options))


@pytest.fixture(scope="session")
def evaluated(tmp_path_factory: pytest.TempPathFactory, word_model: ModelFolder) -> Settings:
    """Three languages of the demo by the word model, calibrated; evaluation 1 is plain, 2 is calibrated."""
    place = Settings.read(home=tmp_path_factory.mktemp("report"))
    sources = [str(DEMO / f"docs.{lang}.jsonl") for lang in LANGUAGES]
    index(sources, "demo", settings=place, encoder=str(word_model.path), device="cpu")
    calibrate("demo", place, device="cpu")
    for calibration in ("none", ""):
        evaluate_demo(place, LANGUAGES, calibration)
    return place


@pytest.fixture
def home(evaluated: Settings, tmp_path: Path) -> Settings:
    return copied(evaluated.home, tmp_path)


@pytest.fixture(scope="session")
def plain(evaluated: Settings, tmp_path_factory: pytest.TempPathFactory) -> str:
    return page_of(copied(evaluated.home, tmp_path_factory.mktemp("plain")))


@pytest.fixture(scope="session")
def judged(evaluated: Settings, tmp_path_factory: pytest.TempPathFactory) -> str:
    return page_of(copied(evaluated.home, tmp_path_factory.mktemp("judged")), judge=DEMO / "qrels.txt")


def page_of(settings: Settings, name: str = "demo", *, judge: Path | None = None, evaluation: int | None = None) -> str:
    out = settings.home.parent / f"{name}.html"
    qrels = [judge] if judge else []
    assert report(name, settings, out, evaluation=evaluation, qrels=qrels, console=QUIET) == out
    page = out.read_text(encoding="utf-8")
    assert not re.search(r"\bnan\b", page, re.IGNORECASE)
    return page


def heads(page: str) -> list[str]:
    return re.findall(r'<th scope="col">(.*?)</th>', page)


def section(page: str, title: str) -> str:
    (found,) = re.findall(rf"<section>\s*<h2>{title}</h2>(.*?)</section>", page, re.DOTALL)
    return str(found)


def test_the_page_needs_nothing_from_elsewhere_and_every_section_has_a_picture_and_its_number(judged: str) -> None:
    assert not re.search("https?:|<script|<link|<iframe|@import", judged)
    ids = re.findall(r'\bid="([^"]+)"', judged)
    assert len(ids) == len(set(ids))
    for target in re.findall(r'(?:xlink:)?href="([^"]+)"', judged):
        assert target.startswith("data:image/png;base64,") or target.removeprefix("#") in ids
    assert set(re.findall(r"url\(#([^)]+)\)", judged)) <= set(ids)
    assert re.findall(r"<h2>(.*?)</h2>", judged) == SECTIONS
    for title in SECTIONS:
        part = section(judged, title)
        assert part.count("<svg") == 1
        assert re.search(r"<figcaption>[^<]*\d", part)
    for colour in ("currentColor", "var(--paper)", "prefers-color-scheme: dark"):
        assert colour in judged
    assert "#102030" not in judged


def test_the_table_has_the_logged_scores_and_a_topics_languages_are_one_bar(evaluated: Settings, plain: str) -> None:
    raw, calibrated = (evaluation_log.find(connect(evaluated.database), number) for number in ("1", "2"))
    assert heads(plain) == ["plain cosine (evaluation 1)", "calibrated (evaluation 2)"]
    rows = dict(re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', plain))
    assert rows["MAP"] == f"<td>{raw.means['AP']:.3f}</td><td>{calibrated.means['AP']:.3f}</td>"
    assert f"<td>{raw.means['own-language']:.0%}</td>" in rows["own-language share of the first hits"]
    assert "PEER@100" in rows
    assert "de 24, en 24, ja 24" in plain
    assert re.search(r"of 30 topics gain, \d+ lose", section(plain, sections.TOPICS))


@pytest.mark.parametrize("collection", ["evaluated", "calibrated"], ids=["words", "the default encoder"])
def test_calibration_brings_languages_together(collection: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    page = page_of(copied(request.getfixturevalue(collection).home, tmp_path))
    before, after, fair = re.findall(r"(\d+)%", section(page, sections.LANGUAGES))[-3:]
    assert int(before) > 2 * int(fair)
    assert int(after) < int(before)


def test_evaluations_are_told_apart(home: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def command(*arguments: str) -> None:
        assert run([*arguments, "--home", str(home.home)]) == 0

    exported, place = str(tmp_path / "theirs.txt"), ["-c", "demo", "-q"]
    judged = ["--topics", str(DEMO / "topics.tsv"), "--qrels", str(DEMO / "qrels.txt"), "--langs", "de,en,ja"]
    command("runs", "export", "1", "-o", exported)
    command("runs", "import", exported, *judged, *place)
    own = ["plain cosine (evaluation 1)", "calibrated (evaluation 2)"]
    assert heads(page_of(home)) == own  # a run of another system is none of the collection's
    engine = connect(home.database)
    with transaction(engine) as session:
        row = session.get_one(EvaluationRow, 2)
        row.setup = replace(row.setup, settings={**row.setup.settings, "taught": {"learnt": 0.25}})
    engine.dispose()
    assert "25% of the relevant documents taught learnt" in page_of(home)
    (tmp_path / "other.txt").write_text("D01 0 demo:de:migraine 1\n", encoding="utf-8")
    page_of(home, judge=tmp_path / "other.txt")
    assert "scored with other judgements than other.txt" in capsys.readouterr().err
    evaluate_demo(home, LANGUAGES, to=["de"])
    pairs = section(page_of(home, judge=DEMO / "qrels.txt"), sections.PAIRS)
    assert re.findall(r'<th scope="col">documents in (.*?)</th>', pairs) == ["de"]
    assert re.findall(r'<th scope="row">asked in (.*?)</th>', pairs) == ["de", "en", "ja"]
    for balance in (0.25, None):
        evaluate_demo(home, ["de"], balance=balance)
    assert heads(page_of(home)) == ["evaluation 5", "evaluation 6"]
    assert page_of(home, evaluation=1) != ""
    with pytest.raises(BadInput, match=r"demo has no evaluation 7 \(there are: .*2, 1\)"):
        page_of(home, evaluation=7)


def test_map_by_language_pair_needs_qrels_and_is_a_share_of_the_own_languages(plain: str, judged: str) -> None:
    assert "the share of the first 10 hits" in section(plain, sections.PAIRS)
    said = section(judged, sections.PAIRS)
    assert "the MAP of topics" in said
    within, across, *fair = (float(value) for value in re.findall(r"(0\.\d\d) (?:within|across)", said))
    assert within - across > fair[0] - fair[1]
    rows = dict(re.findall(r'<tr><th scope="row">asked in (.*?)</th>(.*?)</tr>', said))
    shares = {lang: [int(share) for share in re.findall(r"<td>(\d+)%</td>", row)] for lang, row in rows.items()}
    assert list(shares) == ["de", "en", "ja"]
    assert [shares[lang][position] for position, lang in enumerate(shares)] == [100, 100, 100]
    weakest = min(min(of_lang) for of_lang in shares.values())
    assert re.search(rf"topics in (\w\w) get {weakest}% of what topics in (\w\w) get for documents in \2", said)


def some_topics(file: Path, first: int, last: int) -> Path:
    header, *lines = (DEMO / "topics.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text(header + "".join(line for line in lines if first <= int(line[1:3]) <= last), encoding="utf-8")
    return file


def test_evaluations_of_other_topics_are_compared_over_the_topics_in_common(home: Settings, tmp_path: Path) -> None:
    few = some_topics(tmp_path / "few.tsv", 1, 4)
    evaluate_demo(home, LANGUAGES, "none", topics=few)
    page = page_of(home)
    assert heads(page) == ["plain cosine (evaluation 3)", "calibrated (evaluation 2)"]
    few_scores, every_score = (evaluation_log.scores(connect(home.database), number) for number in ("3", "2"))
    common = [every_score[qid]["AP"] for qid in few_scores]
    assert len(common) < len(every_score)
    plain_mean = np.mean([values["AP"] for values in few_scores.values()])
    assert f"<td>{plain_mean:.3f}</td><td>{np.mean(common):.3f}</td>" in page
    assert f"compared over the {len(common)} topics in common (D01.de, D01.en, D01.ja, D02.de" in page
    assert f"evaluation 3 has {len(common)} topics and evaluation 2 has {len(every_score)} topics" in page
    assert "of 4 topics gain" in section(page, sections.TOPICS)


def test_without_an_evaluation_or_a_common_topic_nothing_is_compared(home: Settings, tmp_path: Path) -> None:
    with transaction(connect(home.database)) as session:
        evaluation_log.forget(session, "demo")
    page = page_of(home)
    assert "Nothing is evaluated yet" in section(page, sections.TOPICS)
    assert "titles and first sentences" in section(page, sections.PAIRS)
    evaluate_demo(home, ["de"], "none", topics=some_topics(tmp_path / "first.tsv", 1, 4))
    said = section(page_of(home), sections.TOPICS)
    assert "No other evaluation can be compared with evaluation 3" in said
    evaluate_demo(home, ["de"], topics=some_topics(tmp_path / "second.tsv", 5, 8))
    page = page_of(home)
    assert heads(page)[0] == "calibrated (evaluation 4)"
    assert "No other evaluation can be compared with evaluation 4" in section(page, sections.TOPICS)
    assert "<code>--calibration</code> none" in section(page, sections.TOPICS)


@pytest.mark.parametrize("width", [390, 1100])
def test_nothing_is_wider_than_the_window_and_letters_are_readable(judged: str, width: int, tmp_path: Path) -> None:
    executable = page_attacks.chromium()
    if executable is None:
        skip_or_fail("no browser for the report's test: apt-get install chromium")
    long_name = "a-collection-whose-name-is-as-long-as-names-of-collections-may-be"
    file = tmp_path / "report.html"
    file.write_text(judged.replace("demo", long_name), encoding="utf-8")
    with page_attacks.browser(executable) as browser:
        page = browser.new_page(viewport={"width": width, "height": 844})
        page.goto(file.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") == width
        heights = "[...document.querySelectorAll('svg text')].map(text => text.getBoundingClientRect())"
        smallest = page.evaluate(f"Math.min(...{heights}.map(box => Math.min(box.width, box.height)).filter(x => x))")
        assert page.evaluate("document.querySelectorAll('.wide').length") >= 6
    assert smallest > 5


def test_the_dial_is_measured_by_pseudo_queries_and_without_a_calibration_not(home: Settings) -> None:
    stored = calibrate("demo", home, CalibrationRequest(balance=0.5), device="cpu").stored
    page = page_of(home)
    dial = section(page, sections.BALANCE)
    first, last = re.findall(r"(\d+)%", dial.rpartition("<figcaption>")[2])[:2]
    assert "From balance 0 to 1" in dial
    assert "Searches use balance 0.5" in dial
    assert int(last) < int(first)
    mates = ", mates count" if stored.summary.mates and stored.summary.mates.count else ""
    assert f"<dd>{stored.id}: balance 0.5{mates}, decided by you</dd>" in page
    engine = connect(home.database)
    use(engine, require(engine, "demo"), "none")
    page = page_of(home)
    assert "searched without a calibration, as was chosen" in section(page, sections.BALANCE)
    assert section(page, sections.LANGUAGES).count("<svg") == 1
    assert "none: plain cosine" in page


def test_what_a_small_collection_has_no_picture_of_is_said_and_equal_vectors_have_one(
    settings: Settings, word_model: ModelFolder, tmp_path: Path
) -> None:
    collections_of = {"one": ["en"] * 12, "single": ["en"], "few": ["en", "de", "en"], "equal": ["en", "de"] * 12}
    pages = {}
    for name, langs in collections_of.items():
        texts = ["bees" if name == "equal" else f"{at} bees and {at * at} storms" for at in range(len(langs))]
        pairs = enumerate(zip(langs, texts, strict=True))
        records = [{"id": str(at), "lang": lang, "text": text} for at, (lang, text) in pairs]
        (tmp_path / "docs.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
        index([str(tmp_path / "docs.jsonl")], name, settings=settings, encoder=str(word_model.path), device="cpu")
        pages[name] = page_of(settings, name)
    for name in ("one", "single"):
        assert "All documents are in one language (en)" in pages[name]
    assert "Too few documents for a picture: 3" in pages["few"]
    assert section(pages["equal"], sections.LANGUAGES).count("<svg") == 1
    for page in pages.values():
        assert re.findall(r"<h2>(.*?)</h2>", page) == SECTIONS
        assert "dragoman evaluate --topics" in page.replace("<code>", "").replace("</code>", "")


def test_the_command_writes_into_the_current_folder_and_says_where(
    home: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["report", "-c", "demo", "--home", str(home.home), "-q"]
    assert run(command) == 0
    written = tmp_path / "demo-report.html"
    assert str(written) in capsys.readouterr().out
    assert written.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert run([*command, "-o", str(tmp_path / "own.html"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"collection": "demo", "report": str(tmp_path / "own.html")}
    with pytest.raises(BadInput, match="no collection 'nope'"):
        report("nope", home, tmp_path / "page.html", console=QUIET)
    with pytest.raises(BadInput, match="there is no folder"):
        report("demo", home, tmp_path / "nowhere" / "page.html", console=QUIET)
    assert not (tmp_path / "page.html").exists()
