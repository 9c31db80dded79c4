"""The report: one page that needs nothing from elsewhere, with every picture, or why there is none."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from encoders.console import Console
from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder
from indexer.collection.collection import require
from indexer.collection.settings import Settings
from indexer.index_sources import index
from indexer.ledger.database import connect
from query.calibration.calibration_table import use
from query.calibration_fitting.calibration_fit import calibrate
from query.calibration_fitting.calibration_request import CalibrationRequest
from query.cli import run
from query.evaluation import evaluation_log
from query.evaluation.collection_evaluation import evaluate_collection
from query.evaluation.run_settings import ranking_in_words
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
SECTIONS = [sections.LANGUAGES, sections.BALANCE, sections.PAIRS]
QUIET = Console(json=True, quiet=True)


def evaluate_demo(settings: Settings, langs: Sequence[str], calibration: str = "", **options: Any) -> None:
    """Ask the demo's topics, or some, in some languages, without baselines."""
    topic_set = read_topic_set([options.pop("topics", DEMO / "topics.tsv")], [DEMO / "qrels.txt"], langs=langs)
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


def page_of(settings: Settings, name: str = "demo", *, evaluation: int | None = None) -> str:
    out = settings.home.parent / f"{name}.html"
    assert report(name, settings, out, evaluation=evaluation, console=QUIET) == out
    page = out.read_text(encoding="utf-8")
    assert not re.search(r"\bnan\b", page, re.IGNORECASE)
    return page


def section(page: str, title: str) -> str:
    (found,) = re.findall(rf"<section>\s*<h2>{title}</h2>(.*?)</section>", page, re.DOTALL)
    return str(found)


def test_the_page_needs_nothing_from_elsewhere_and_every_section_has_a_picture_and_its_number(plain: str) -> None:
    assert not re.search("https?:|<script|<link|<iframe|@import", plain)
    ids = re.findall(r'\bid="([^"]+)"', plain)
    assert len(ids) == len(set(ids))
    for target in re.findall(r'(?:xlink:)?href="([^"]+)"', plain):
        assert target.startswith("data:image/png;base64,") or target.removeprefix("#") in ids
    assert set(re.findall(r"url\(#([^)]+)\)", plain)) <= set(ids)
    assert re.findall(r"<h2>(.*?)</h2>", plain) == SECTIONS
    for title in SECTIONS:
        part = section(plain, title)
        assert part.count("<svg") == 1
        assert re.search(r"<figcaption>[^<]*\d", part)
    for colour in ("currentColor", "var(--paper)", "prefers-color-scheme: dark"):
        assert colour in plain
    assert "#102030" not in plain


def test_the_table_has_the_scores_of_the_newest_evaluation_or_another(evaluated: Settings, plain: str) -> None:
    raw, calibrated = (evaluation_log.find(connect(evaluated.database), number) for number in ("1", "2"))
    assert re.findall(r'<th scope="col">(.*?)</th>', plain) == [f"{ranking_in_words(calibrated)} (evaluation 2)"]
    rows = dict(re.findall(r'<tr><th scope="row">(.*?)</th><td>(.*?)</td></tr>', plain))
    shown = {name: f"{mean:.3f}" for name, mean in calibrated.means.items()}
    assert rows == {
        **{name: shown[name] for name in ("PEER@100", "TLR@20", "LPR", "RBO")},
        "MAP": shown["AP"],
        "own-language": f"{calibrated.means['own-language']:.0%}",
    }
    assert "de 24, en 24, ja 24" in plain
    overlap = re.search(r"rankings in two languages have (.*?) in the mean", section(plain, sections.PAIRS))
    assert overlap
    assert float(overlap[1]) == pytest.approx(calibrated.means["RBO"], abs=0.006)
    assert f"<td>{raw.means['AP']:.3f}</td>" in page_of(evaluated, evaluation=1)
    with pytest.raises(BadInput, match=r"demo has no evaluation 7 \(there are: 2, 1\)"):
        page_of(evaluated, evaluation=7)


@pytest.mark.parametrize("collection", ["evaluated", "calibrated"], ids=["words", "the default encoder"])
def test_calibration_brings_languages_together(collection: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    page = page_of(copied(request.getfixturevalue(collection).home, tmp_path))
    before, after, fair = re.findall(r"(\d+)%", section(page, sections.LANGUAGES))[-3:]
    assert int(before) > 2 * int(fair)
    assert int(after) < int(before)


def test_a_page_without_an_evaluation_says_how_to_make_one_and_an_imported_run_is_none(
    home: Settings, tmp_path: Path
) -> None:
    exported = str(tmp_path / "theirs.txt")
    judged = ["--topics", str(DEMO / "topics.tsv"), "--qrels", str(DEMO / "qrels.txt"), "--langs", "de,en,ja"]
    for command in (["export", "1", "-o", exported], ["import", exported, *judged, "-c", "demo"], ["delete", "1", "2"]):
        assert run(["runs", *command, "-q", "--home", str(home.home)]) == 0
    page = page_of(home)
    assert "Nothing is evaluated yet" in page
    assert "titles and first sentences" in section(page, sections.PAIRS)


@pytest.mark.parametrize("width", [390, 1100])
def test_nothing_is_wider_than_the_window_and_letters_are_readable(plain: str, width: int, tmp_path: Path) -> None:
    executable = page_attacks.chromium()
    if executable is None:
        skip_or_fail("no browser for the report's test: apt-get install chromium")
    long_name = "a-collection-whose-name-is-as-long-as-names-of-collections-may-be"
    file = tmp_path / "report.html"
    file.write_text(plain.replace("demo", long_name), encoding="utf-8")
    with page_attacks.browser(executable) as browser:
        page = browser.new_page(viewport={"width": width, "height": 844})
        page.goto(file.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") == width
        heights = "[...document.querySelectorAll('svg text')].map(text => text.getBoundingClientRect())"
        smallest = page.evaluate(f"Math.min(...{heights}.map(box => Math.min(box.width, box.height)).filter(x => x))")
        assert page.evaluate("document.querySelectorAll('.wide').length") >= 4
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
