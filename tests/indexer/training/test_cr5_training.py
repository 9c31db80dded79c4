"""``dragoman train cr5``: from documents with concepts to a folder that index, search and calibrate take."""

import json
from pathlib import Path

import numpy as np
import pytest

from encoders.document import Document
from encoders.folder.model_folder import ModelFolder
from encoders.methods.method_registry import open_encoder
from indexer.collection.settings import Settings
from query.cli import run
from query.ranking.searcher import Searcher
from tests.conftest import Capture, Patch
from tests.indexer.training.indexed import indexed_by, printed, refused, train
from trials import DEMO

SOURCES = [str(DEMO / f"docs.{lang}.jsonl") for lang in ("de", "en", "es", "ja")]
TRAIN = ["train", "cr5"]
SMALL = ["--dimensions", "20", "--ridge", "1"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    """A folder made by the command, of the demo's articles in four languages."""
    return train("cr5", SOURCES, tmp_path_factory.mktemp("trained") / "words", *SMALL)


@pytest.fixture
def place(settings: Settings) -> list[str]:
    return ["-c", "mini", "--home", str(settings.home)]


def test_a_collection_is_indexed_calibrated_searched_and_evaluated_by_what_was_trained(
    trained: ModelFolder, small: ModelFolder, settings: Settings, place: list[str], capsys: Capture
) -> None:
    assert indexed_by(trained, SOURCES, settings, capsys)["method"] == "cr5"
    with Searcher.open("mini", settings, device="cpu") as searcher:
        assert searcher.calibration is not None
        hits = searcher.search("Wasser für die Stadt", lang="de", to=["es"], k=5)
        known, unknown = searcher.rank([Document("1", "de", "Wasser"), Document("2", "de", "qwertz")], k=5)
    assert {hit.lang for hit in hits} == {"es"}
    assert all(hit.passage is not None and hit.passage.text for hit in hits)
    assert (len(known.doc_ids), len(unknown.doc_ids)) == (5, 0)
    assert "words knows no word of the query 'qwertz' in de; use other words, or say its language with --lang" in (
        refused(["search", "qwertz", "--lang", "de", *place], capsys)
    )
    said = refused(["search", "habari", "--lang", "sw", *place], capsys)
    assert "knows no word of the query 'habari' in sw" in said
    assert "(it knows de, en, es, ja)" in said
    said = refused(["index", SOURCES[0], "--encoder", str(small.path), *place], capsys)
    assert "collection mini holds vectors of" in said, "and not that this encoder can't be used by method cr5"
    topics = ["--topics", str(DEMO / "topics.tsv"), "--qrels", str(DEMO / "qrels.txt"), "--langs", "de"]
    assert run(["evaluate", *topics, "--to", "en", "--baseline", "none", "-q", *place]) == 0


def test_a_model_that_was_trained_over_is_said(place: list[str], tmp_path: Path, capsys: Capture) -> None:
    search, target = ["search", "Wasser", "--lang", "de", *place], tmp_path / "m"
    for ridge in ("1", "2", "1"):
        train("cr5", SOURCES[:2], target, "--dimensions", "10", "--ridge", ridge)
        if ridge == "2":
            error = refused(search, capsys)
            assert "if you trained it again, train it with its earlier settings" in error
            assert "dragoman index --rebuild" in error
        else:
            assert run(["index", *SOURCES[:2], "--encoder", str(target), "--no-calibration", "-q", *place]) == 0
            assert run(search) == 0


def test_json_says_what_was_learnt_from_what(tmp_path: Path, capsys: Capture) -> None:
    more, target = tmp_path / "more.jsonl", tmp_path / "m"
    more.write_text('{broken\n{"id": "1", "lang": "de", "text": "Ohne Begriff."}\n')
    assert run([*TRAIN, *SOURCES[:2], str(more), "-o", str(target), "--ridge", "0.5", "--json"]) == 0
    captured = capsys.readouterr()
    told = json.loads(captured.out)
    assert (told["folder"], told["ridge"], set(told["documents"])) == (str(target), 0.5, {"de", "en"})
    assert told["dimensions"] == told["concepts"] - 1
    assert "1 document without a concept teaches nothing" in captured.err
    assert [note["place"].endswith("more.jsonl:1") for note in told["refused"]] == [True]


def test_the_same_sources_in_another_order_give_the_same_vectors(trained: ModelFolder, tmp_path: Path) -> None:
    again = train("cr5", SOURCES[::-1], tmp_path / "again", *SMALL)
    texts = [Document("1", "de", "Schach und Wasser"), Document("2", "en", "chess and water")]
    first, second = (open_encoder(folder).encode_queries(texts) for folder in (trained, again))
    np.testing.assert_allclose(first @ first.T, second @ second.T, atol=0.02)


def test_a_pair_that_shares_nothing_is_named_and_others_are_made(tmp_path: Path, capsys: Capture) -> None:
    records = [
        {"id": f"{lang}{n}", "lang": lang, "concept": f"{kind}{n}", "text": f"{lang}{n} {lang}{n % 3} {lang}{n % 2}"}
        for kind, langs in (("a", ("de", "en")), ("b", ("en", "fi")))
        for n in range(12)
        for lang in langs
    ]
    file = tmp_path / "some.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    target = tmp_path / "pairs"
    arguments = ["train", "cr5", str(file), "--pairs", "pairwise", "--ridge", "1", "-q"]
    assert run([*arguments, "-o", str(target)]) == 0
    told = capsys.readouterr()
    assert told.out.split() == [str(target / pair) for pair in ("de-en", "en-fi")]
    assert "de-fi is left out: no concept has documents in two languages" in told.err
    apart = [record for record in records if record["lang"] != "en"] + [{**records[0], "lang": "sv", "concept": "c"}]
    file.write_text("".join(json.dumps(record) + "\n" for record in apart))
    assert run([*arguments, "-o", str(tmp_path / "none")]) == 1
    assert "no pair of languages can be learnt (de-fi: no concept" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_neighbours_are_shown_in_each_language(trained: ModelFolder, capsys: Capture) -> None:
    show = ["encoders", "show", str(trained.path), "--words"]
    told = printed([*show, "Wasser,water", "-k", "2", "--json"], capsys)
    assert [(one["word"], one["lang"]) for one in told] == [("wasser", "de"), ("water", "en")]
    assert {lang: len(near) for lang, near in told[0]["near"].items()} == {"de": 2, "en": 2, "es": 2, "ja": 2}
    assert "the model has no word 'qwertz' in any of its languages" in refused([*show, "qwertz"], capsys)
    assert run([*show, "qwertz,Wasser"]) == 0
    said = capsys.readouterr()
    assert "wasser (de)" in said.out
    assert "warning: the model has no word 'qwertz' in any of its languages" in said.err
    assert run([*show, ","]) == 2


def test_combined_encoders_are_shown_in_turn(trained: ModelFolder, small: ModelFolder, capsys: Capture) -> None:
    both = f"{small.path} + {trained.path}"
    told = printed(["encoders", "show", both, "--json"], capsys)
    assert [one["folder"] for one in told] == [str(small.path), str(trained.path)]
    assert run(["encoders", "show", both, "--words", "Wasser"]) == 0
    assert "wasser (de)" in capsys.readouterr().out
    assert "there is no encoder 'nowhere'" in refused(["encoders", "show", f"{trained.path} + nowhere"], capsys)


def test_what_teaches_nothing_is_refused_and_leaves_none(tmp_path: Path, capsys: Capture, monkeypatch: Patch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    for name in ("plain.txt", "full/diary.txt"):
        (tmp_path / name).write_text("Nothing is said about concepts here.")
    for sources, output, sentence in (
        (["nowhere.jsonl"], "m", "nowhere.jsonl does not exist"),
        (SOURCES[:1], "m", "the documents with a concept are all in one language (de)"),
        (["full"], "m", "none of the documents has a field concept"),
        (["plain.txt"], "m", "none of the documents has a field concept"),
        ([*SOURCES[:2], "--languages", "fi,sv"], "m", "docs.en.jsonl is in fi, sv; name theirs in --languages: de, en"),
        ([*SOURCES, "--pairs", "transitive", "--pivot", "fr"], "m", "there are no documents in the pivot fr"),
        (SOURCES, "full", "holds something that is no model; choose another --output"),
        ([*SOURCES, "--pairs", "pairwise"], "plain.txt", "plain.txt is a file; choose another --output"),
    ):
        assert sentence in refused([*TRAIN, *sources, "-o", output], capsys)
    for wrong in (["--ridge", "0"], ["--ridge", "much"], ["--pairs", "transitive"], ["--pivot", "en"]):
        assert run([*TRAIN, *SOURCES, "-o", "m", *wrong]) == 2
    assert not (tmp_path / "m").exists()
