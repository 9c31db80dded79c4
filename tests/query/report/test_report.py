"""The report: one page that needs nothing from elsewhere, with every picture, or why there is none."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from encoders.console import Console
from encoders.document import Document, EncoderSpec, FloatArray, Passages, int8_rows, unit_rows
from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder
from indexer.collection import collection as collections
from indexer.collection.collection import require
from indexer.collection.settings import Settings
from indexer.collection.store_location import StoreLocation
from indexer.index_sources import index
from indexer.ledger.database import connect, transaction
from indexer.stores.contract import StoredDocument
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
from query.report.language_pairs import PairTable
from query.trec_files.topic_set import read_topic_set
from tests.conftest import skip_or_fail
from tests.query.conftest import copied
from trials import DEMO, page_attacks

pytestmark = pytest.mark.parts

LANGUAGES = ("de", "en", "ja")
SECTIONS = [sections.LANGUAGES, sections.BALANCE, sections.PAIRS, sections.TOPICS]
QUIET = Console(json=True, quiet=True)
SPEC = EncoderSpec("toy", "segments", 8, (), "toy-model", "toy-build")


def evaluate_demo(
    settings: Settings,
    langs: Sequence[str],
    ranking: RankingOptions | None = None,
    topics: Path = DEMO / "topics.tsv",
    to: Sequence[str] | None = None,
) -> None:
    """Ask the demo's topics in some languages, without baselines."""
    topic_set = read_topic_set([topics], [DEMO / "qrels.txt"], langs=langs)
    plan = EvaluationPlan(parse_measures(DEFAULT_MEASURES), "", baseline="none", to=to)
    evaluate_collection("demo", topic_set, settings, plan, ranking=ranking)


@pytest.fixture(scope="session")
def evaluated(tmp_path_factory: pytest.TempPathFactory, word_model: ModelFolder) -> Settings:
    """Three languages of the demo by the word model, calibrated; evaluation 1 is plain, 2 is calibrated."""
    place = Settings.read(home=tmp_path_factory.mktemp("report"))
    sources = [str(DEMO / f"docs.{lang}.jsonl") for lang in LANGUAGES]
    index(sources, "demo", settings=place, encoder=str(word_model.path), device="cpu")
    calibrate("demo", place, device="cpu")
    for calibration in ("none", ""):
        evaluate_demo(place, LANGUAGES, ranking=RankingOptions(calibration=calibration))
    return place


@pytest.fixture
def home(evaluated: Settings, tmp_path: Path) -> Settings:
    """A copy of it that a test may change."""
    return copied(evaluated.home, tmp_path)


@pytest.fixture(scope="session")
def plain(evaluated: Settings, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Its page."""
    return page_of(copied(evaluated.home, tmp_path_factory.mktemp("plain")))


@pytest.fixture(scope="session")
def judged(evaluated: Settings, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Its page with judgements."""
    return page_of(copied(evaluated.home, tmp_path_factory.mktemp("judged")), qrels=[DEMO / "qrels.txt"])


def page_of(
    settings: Settings, name: str = "demo", *, evaluation: int | None = None, qrels: Sequence[Path] = ()
) -> str:
    out = settings.home.parent / f"{name}.html"
    assert report(name, settings, out, evaluation=evaluation, qrels=qrels, console=QUIET) == out
    return out.read_text(encoding="utf-8")


def heads(page: str) -> list[str]:
    """Headings of the table's columns."""
    return re.findall(r'<th scope="col">(.*?)</th>', page)


def section(page: str, title: str) -> str:
    (found,) = re.findall(rf"<section>\s*<h2>{title}</h2>(.*?)</section>", page, re.DOTALL)
    return str(found)


def put(settings: Settings, vectors: FloatArray, langs: Sequence[str], name: str = "toy") -> None:
    """A collection of vectors, with titles; nobody encodes anything."""
    engine = connect(settings.database)
    collections.register(engine, name, settings, "toy", SPEC)
    engine.dispose()
    store = StoreLocation(settings.store, name).open()
    store.create(SPEC.model, SPEC.dim)
    passages = Passages(int8_rows(unit_rows(vectors[:1])), np.array([[0, 4]], dtype=np.int32))
    documents = [Document(f"d{row}", lang, "text", "title") for row, lang in enumerate(langs)]
    store.put(
        SPEC.model,
        [StoredDocument(one, vector, passages) for one, vector in zip(documents, unit_rows(vectors), strict=True)],
    )
    store.close()


def random(count: int) -> FloatArray:
    return np.random.default_rng(0).standard_normal((count, SPEC.dim)).astype(np.float32)


def test_the_page_is_one_file_that_needs_nothing_from_elsewhere(judged: str) -> None:
    page = judged
    assert not re.search("https?:", page)
    for tag in ("<script", "<link", "<iframe", "@import"):
        assert tag not in page
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    for target in re.findall(r'(?:xlink:)?href="([^"]+)"', page):
        assert target.startswith("data:image/png;base64,") or target.removeprefix("#") in ids
    assert set(re.findall(r"url\(#([^)]+)\)", page)) <= set(ids)


def test_every_section_has_a_picture_and_a_sentence_with_its_number(judged: str) -> None:
    page = judged
    assert re.findall(r"<h2>(.*?)</h2>", page) == SECTIONS
    for title in SECTIONS:
        part = section(page, title)
        assert part.count("<svg") == 1
        assert re.search(r"<figcaption>[^<]*\d", part)
    assert not re.search(r"\bnan\b", page, re.IGNORECASE)


def test_pictures_take_the_colours_of_the_page(plain: str) -> None:
    assert "currentColor" in plain
    assert "var(--paper)" in plain
    assert "prefers-color-scheme: dark" in plain
    assert "#102030" not in plain


def test_calibrated_evaluations_of_other_options_are_told_apart(home: Settings) -> None:
    for ranking in (RankingOptions(balance=0.25), RankingOptions()):
        evaluate_demo(home, ["de"], ranking=ranking)
    assert heads(page_of(home)) == ["evaluation 3", "evaluation 4"]


def test_the_table_has_the_logged_scores_plain_first(evaluated: Settings, plain: str) -> None:
    raw, calibrated = (evaluation_log.find(connect(evaluated.database), number) for number in ("1", "2"))
    assert heads(plain) == ["plain cosine (evaluation 1)", "calibrated (evaluation 2)"]
    rows = dict(re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', plain))
    assert rows["MAP"] == f"<td>{raw.means['AP']:.3f}</td><td>{calibrated.means['AP']:.3f}</td>"
    assert f"<td>{raw.means['own-language']:.0%}</td>" in rows["own-language share of the first hits"]
    assert "PEER@100" in rows
    assert "de 24, en 24, ja 24" in plain


@pytest.mark.parametrize("collection", ["evaluated", "calibrated"], ids=["words", "the default encoder"])
def test_the_calibration_brings_the_languages_together(
    collection: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    page = page_of(copied(request.getfixturevalue(collection).home, tmp_path))
    before, after, fair = re.findall(r"(\d+)%", section(page, sections.LANGUAGES))[-3:]
    assert int(before) > 2 * int(fair)
    assert int(after) < int(before)


def test_an_evaluation_is_shown_by_its_number_and_others_are_refused(home: Settings) -> None:
    assert page_of(home, evaluation=1) != ""
    with pytest.raises(BadInput, match=r"demo has no evaluation 7 \(there are: 2, 1\)"):
        page_of(home, evaluation=7)


def test_map_by_language_pair_needs_qrels_and_shares_do_without(plain: str, judged: str) -> None:
    assert "the share of the first 10 hits" in section(plain, sections.PAIRS)
    said = section(judged, sections.PAIRS)
    assert "the MAP of topics" in said
    within, across, *fair = (float(value) for value in re.findall(r"(0\.\d\d) (?:within|across)", said))
    assert within - across > fair[0] - fair[1]


def test_map_by_language_pair_is_of_the_documents_that_were_searched(home: Settings) -> None:
    evaluate_demo(home, LANGUAGES, to=["de"])
    pairs = section(page_of(home, qrels=[DEMO / "qrels.txt"]), sections.PAIRS)
    assert re.findall(r'<th scope="col">documents in (.*?)</th>', pairs) == ["de"]
    assert re.findall(r'<th scope="row">asked in (.*?)</th>', pairs) == ["de", "en", "ja"]


def test_each_pair_is_a_share_of_what_the_documents_own_language_gets(judged: str) -> None:
    part = section(judged, sections.PAIRS)
    rows = dict(re.findall(r'<tr><th scope="row">asked in (.*?)</th>(.*?)</tr>', part))
    shares = {lang: [int(share) for share in re.findall(r"<td>(\d+)%</td>", row)] for lang, row in rows.items()}
    assert list(shares) == ["de", "en", "ja"]
    assert [shares[lang][position] for position, lang in enumerate(shares)] == [100, 100, 100]
    weakest = min(min(of_lang) for of_lang in shares.values())
    assert re.search(rf"topics in (\w\w) get {weakest}% of what topics in (\w\w) get for documents in \2", part)


def test_a_share_of_an_own_language_that_finds_nothing_is_unknown() -> None:
    table = PairTable(["a", "b"], ["a", "b", "c"], np.array([[0.5, 0.2, 0.1], [0.25, 0.0, np.nan]]))
    np.testing.assert_array_equal(table.shares_of_own(), [[1.0, np.nan, np.nan], [0.5, np.nan, np.nan]])


def test_a_run_of_another_system_is_no_evaluation_of_the_collection(home: Settings, tmp_path: Path) -> None:
    exported, place = tmp_path / "theirs.txt", ["--home", str(home.home)]
    judged = ["--topics", str(DEMO / "topics.tsv"), "--qrels", str(DEMO / "qrels.txt")]
    assert run(["runs", "export", "1", "-o", str(exported), *place]) == 0
    langs = ["--langs", "de,en,ja"]
    assert run(["runs", "import", str(exported), *judged, *langs, "-c", "demo", "-q", *place]) == 0
    assert heads(page_of(home)) == ["plain cosine (evaluation 1)", "calibrated (evaluation 2)"]


def test_an_encoder_that_learnt_from_the_judged_documents_is_named(home: Settings) -> None:
    engine = connect(home.database)
    with transaction(engine) as session:
        row = session.get_one(EvaluationRow, 2)
        row.setup = replace(row.setup, settings={**row.setup.settings, "taught": {"learnt": 0.25}})
    engine.dispose()
    assert "25% of the relevant documents taught learnt" in page_of(home)


def test_other_qrels_than_the_evaluation_had_are_said(
    home: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.txt"
    other.write_text("D01 0 demo:de:migraine 1\n", encoding="utf-8")
    page_of(home, qrels=[other])
    assert "scored with other judgements than other.txt" in capsys.readouterr().err


def some_topics(file: Path, first: int, last: int) -> Path:
    """Some of the demo's topics, by their numbers."""
    header, *lines = (DEMO / "topics.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text(header + "".join(line for line in lines if first <= int(line[1:3]) <= last), encoding="utf-8")
    return file


def test_evaluations_of_other_topics_are_compared_over_the_topics_in_common(home: Settings, tmp_path: Path) -> None:
    few = some_topics(tmp_path / "few.tsv", 1, 4)
    evaluate_demo(home, LANGUAGES, RankingOptions(calibration="none"), few)
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


def test_evaluations_without_a_common_topic_are_not_compared(home: Settings, tmp_path: Path) -> None:
    with transaction(connect(home.database)) as session:
        evaluation_log.forget(session, "demo")
    evaluate_demo(home, ["de"], RankingOptions(calibration="none"), some_topics(tmp_path / "first.tsv", 1, 4))
    evaluate_demo(home, ["de"], topics=some_topics(tmp_path / "second.tsv", 5, 8))
    page = page_of(home)
    assert heads(page)[0] == "calibrated (evaluation 4)"
    assert "No other evaluation can be compared with evaluation 4" in section(page, sections.TOPICS)


@pytest.mark.parts
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


def test_topic_languages_of_one_topic_are_one_bar(plain: str) -> None:
    said = section(plain, sections.TOPICS)
    assert re.search(r"of 30 topics gain, \d+ lose", said)


def test_a_single_evaluation_says_how_to_make_the_other(home: Settings) -> None:
    with transaction(connect(home.database)) as session:
        evaluation_log.forget(session, "demo")
    page = page_of(home)
    assert "Nothing is evaluated yet" in section(page, sections.TOPICS)
    assert "titles and first sentences" in section(page, sections.PAIRS)
    evaluate_demo(home, ["de"])
    said = section(page_of(home), sections.TOPICS)
    assert "No other evaluation can be compared with evaluation 3" in said
    assert "<code>--calibration</code> none" in said


def test_the_dial_is_measured_by_the_calibrations_pseudo_queries(home: Settings) -> None:
    stored = calibrate("demo", home, CalibrationRequest(balance=0.5), device="cpu").stored
    page = page_of(home)
    dial = section(page, sections.BALANCE)
    first, last = re.findall(r"(\d+)%", dial.rpartition("<figcaption>")[2])[:2]
    assert "From balance 0 to 1" in dial
    assert "Searches use balance 0.5" in dial
    assert int(last) < int(first)
    mates = ", mates count" if stored.summary.mates and stored.summary.mates.count else ""
    assert f"<dd>{stored.id}: balance 0.5{mates}, decided by you</dd>" in page


def test_without_an_active_calibration_the_page_says_how_to_have_one(home: Settings) -> None:
    engine = connect(home.database)
    use(engine, require(engine, "demo"), "none")
    page = page_of(home)
    assert "searched without a calibration, as was chosen" in section(page, sections.BALANCE)
    assert section(page, sections.LANGUAGES).count("<svg") == 1
    assert "none: plain cosine" in page


@pytest.mark.parametrize(
    ("langs", "sentence"),
    [
        (["en"] * 12, r"All documents are in one language \(en\)"),
        (["en", "de", "en"], "Too few documents for a picture: 3"),
        (["en"], r"All documents are in one language \(en\)"),
    ],
)
def test_what_a_small_collection_has_no_picture_of_is_said(settings: Settings, langs: list[str], sentence: str) -> None:
    settings.home.mkdir()
    put(settings, random(len(langs)), langs)
    page = page_of(settings, "toy")
    assert re.search(sentence, page)
    assert re.findall(r"<h2>(.*?)</h2>", page) == SECTIONS
    assert "dragoman evaluate --topics" in page.replace("<code>", "").replace("</code>", "")
    assert not re.search(r"\bnan\b", page, re.IGNORECASE)


def test_equal_vectors_give_a_page_too(settings: Settings) -> None:
    settings.home.mkdir()
    put(settings, np.ones((24, SPEC.dim), dtype=np.float32), ["en", "de"] * 12)
    page = page_of(settings, "toy")
    assert section(page, sections.LANGUAGES).count("<svg") == 1
    assert not re.search(r"\bnan\b", page, re.IGNORECASE)


def test_a_collection_that_is_not_there_and_a_folder_that_is_not_there_are_refused(
    home: Settings, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match="no collection 'nope'"):
        report("nope", home, tmp_path / "page.html", console=QUIET)
    with pytest.raises(BadInput, match="there is no folder"):
        report("demo", home, tmp_path / "nowhere" / "page.html", console=QUIET)
    assert not (tmp_path / "page.html").exists()


def test_the_command_writes_into_the_current_folder_and_says_where(
    home: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["report", "-c", "demo", "--home", str(home.home), "-q"]) == 0
    written = tmp_path / "demo-report.html"
    assert str(written) in capsys.readouterr().out
    assert written.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    chosen = ["-o", str(tmp_path / "own.html"), "--json"]
    assert run(["report", "-c", "demo", "--home", str(home.home), "-q", *chosen]) == 0
    assert json.loads(capsys.readouterr().out) == {"collection": "demo", "report": str(tmp_path / "own.html")}
