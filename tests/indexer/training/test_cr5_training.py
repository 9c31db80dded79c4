"""``dragoman train cr5``: from documents with concepts to a folder that index, search and calibrate take."""

import json
from pathlib import Path

import numpy as np
import pytest

from encoders.cr5.bags_of_words import load_model
from encoders.cr5.neighbours import neighbours
from encoders.document import Document
from encoders.folder.model_folder import ModelFolder
from encoders.methods.method_registry import open_encoder
from indexer.collection.settings import Settings
from query.cli import run
from query.ranking.searcher import Searcher
from tests.indexer.training.indexed import indexed_by
from trials import DEMO

SOURCES = [str(DEMO / f"docs.{lang}.jsonl") for lang in ("de", "en", "es", "ja")]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    """A folder made by the command, of the demo's articles in four languages."""
    target = tmp_path_factory.mktemp("trained") / "words"
    assert run(["train", "cr5", *SOURCES, "-o", str(target), "--dimensions", "20", "--ridge", "1", "-q"]) == 0
    return ModelFolder.open(target)


def test_a_collection_is_indexed_calibrated_searched_and_evaluated_by_what_was_trained(
    trained: ModelFolder, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert indexed_by(trained, SOURCES, settings, capsys)["method"] == "cr5"
    with Searcher.open("mini", settings, device="cpu") as searcher:
        assert searcher.calibration is not None
        hits = searcher.search("Wasser für die Stadt", lang="de", to=["es"], k=5)
    assert {hit.lang for hit in hits} == {"es"}
    assert all(hit.passage is not None and hit.passage.text for hit in hits)
    topics = ["--topics", str(DEMO / "topics.tsv"), "--qrels", str(DEMO / "qrels.txt"), "--langs", "de,en"]
    assert run(["evaluate", *topics, "-c", "mini", "--json", "-q", "--home", str(settings.home)]) == 0


def test_a_query_without_a_known_word_is_refused_in_search_and_finds_nothing_in_an_evaluation(
    trained: ModelFolder, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ["--home", str(settings.home)]
    assert run(["index", *SOURCES, "-c", "mini", "--encoder", str(trained.path), "-q", *place]) == 0
    capsys.readouterr()
    assert run(["search", "qwertz", "--lang", "de", "-c", "mini", *place]) == 1
    error = capsys.readouterr().err
    assert "words knows no word of the query 'qwertz' in de; use other words, or say its language with --lang" in error
    assert run(["search", "habari", "--lang", "sw", "-c", "mini", *place]) == 1
    assert "knows no word of the query 'habari' in sw" in (said := capsys.readouterr().err)
    assert "(it knows de, en, es, ja)" in said
    with Searcher.open("mini", settings, device="cpu") as searcher:
        known, unknown = searcher.rank([Document("1", "de", "Wasser"), Document("2", "de", "qwertz")], k=5)
    assert len(known.doc_ids) == 5
    assert len(unknown.doc_ids) == 0


def test_a_collection_whose_model_was_trained_over_says_what_to_do(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = ["train", "cr5", *SOURCES[:2], "-o", str(tmp_path / "m"), "--dimensions", "10", "-q", "--ridge"]
    place = ["--home", str(settings.home)]
    assert run([*train, "1"]) == 0
    index = ["index", *SOURCES[:2], "-c", "c", "--encoder", str(tmp_path / "m"), "--no-calibration", "-q", *place]
    assert run(index) == 0
    assert run([*train, "2"]) == 0
    capsys.readouterr()
    assert run(["search", "Wasser", "--lang", "de", "-c", "c", *place]) == 1
    error = capsys.readouterr().err
    assert "if you trained it again, train it with its earlier settings" in error
    assert "dragoman index --rebuild" in error
    assert run([*train, "1"]) == 0
    assert run(["search", "Wasser", "--lang", "de", "-c", "c", *place]) == 0


def test_documents_it_does_not_know_are_refused_by_name(
    trained: ModelFolder, settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [("1", "de", "Schach und Wasser"), ("2", "de", "qwertz"), ("3", "sw", "habari za leo")]
    file = tmp_path / "some.jsonl"
    file.write_text("".join(json.dumps({"id": i, "lang": lang, "text": text}) + "\n" for i, lang, text in records))
    place = ["--home", str(settings.home)]
    assert run(["index", str(file), "-c", "c", "--encoder", str(trained.path), "--json", "-q", *place]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[0])
    assert told["encoded"] == 1
    assert [(note["place"], note["text"]) for note in told["refused"]] == [
        ("2", "it has nothing the encoder knows"),
        ("3", "it has nothing the encoder knows"),
    ]


def test_json_says_what_was_learnt_from_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "more.jsonl").write_text('{broken\n{"id": "1", "lang": "de", "text": "Ohne Begriff."}\n')
    target = tmp_path / "m"
    sources = [*SOURCES[:2], str(tmp_path / "more.jsonl")]
    assert run(["train", "cr5", *sources, "-o", str(target), "--ridge", "0.5", "--json"]) == 0
    captured = capsys.readouterr()
    told = json.loads(captured.out)
    assert told["folder"] == str(target)
    assert told["ridge"] == 0.5
    assert set(told["documents"]) == {"de", "en"}
    assert told["dimensions"] == told["concepts"] - 1
    assert "1 document without a concept teaches nothing" in captured.err
    assert [note["place"].endswith("more.jsonl:1") for note in told["refused"]] == [True]


def test_the_same_sources_in_another_order_give_the_same_vectors(trained: ModelFolder, tmp_path: Path) -> None:
    target = tmp_path / "again"
    arguments = ["--dimensions", "20", "--ridge", "1", "-q"]
    assert run(["train", "cr5", *SOURCES[::-1], "-o", str(target), *arguments]) == 0
    texts = [Document("1", "de", "Schach und Wasser"), Document("2", "en", "chess and water")]
    first, second = (open_encoder(folder).encode_queries(texts) for folder in (trained, ModelFolder.open(target)))
    np.testing.assert_allclose(first @ first.T, second @ second.T, atol=0.02)


def test_pairwise_training_makes_a_folder_a_pair(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "pairs"
    arguments = ["--pairs", "pairwise", "--ridge", "1", "--dimensions", "10", "--languages", "de,en,es", "-q"]
    assert run(["train", "cr5", *SOURCES, "-o", str(target), *arguments]) == 0
    assert capsys.readouterr().out.split() == [str(target / pair) for pair in ("de-en", "de-es", "en-es")]
    assert ModelFolder.open(target / "de-es").config.languages == ("de", "es")
    assert run(["train", "cr5", *SOURCES, "-o", str(target), *arguments]) == 0


def test_a_pair_that_shares_nothing_is_named_and_the_others_are_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    for _ in range(2):  # again is not refused
        assert run([*arguments, "-o", str(target)]) == 0
        told = capsys.readouterr()
        assert told.out.split() == [str(target / pair) for pair in ("de-en", "en-fi")]
        assert "de-fi is left out: no concept has documents in two languages" in told.err
    apart = [record for record in records if record["lang"] != "en"] + [{**records[0], "lang": "sv", "concept": "c"}]
    file.write_text("".join(json.dumps(record) + "\n" for record in apart))
    assert run([*arguments, "-o", str(tmp_path / "none")]) == 1
    assert "no pair of languages can be learnt (de-fi: no concept" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_neighbours_of_words_are_shown_in_each_language(
    trained: ModelFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["encoders", "show", str(trained.path), "--words", "Wasser,water", "-k", "2", "--json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["word"], one["lang"]) for one in told] == [("wasser", "de"), ("water", "en")]
    assert set(told[0]["near"]) == {"de", "en", "es", "ja"}
    assert all(len(near) == 2 for near in told[0]["near"].values())
    assert run(["encoders", "show", str(trained.path), "--words", "qwertz"]) == 1
    assert "the model has no word 'qwertz' in any of its languages" in capsys.readouterr().err
    assert run(["encoders", "show", str(trained.path), "--words", "qwertz,Wasser"]) == 0
    said = capsys.readouterr()
    assert "wasser (de)" in said.out
    assert "warning: the model has no word 'qwertz' in any of its languages" in said.err
    assert run(["encoders", "show", str(trained.path), "--words", ","]) == 2


def test_a_longer_word_is_the_sum_of_the_pieces_that_are_there(trained: ModelFolder) -> None:
    model = load_model(trained)
    first, second = model.vocabularies["de"][:2]
    (one,) = [one for one in neighbours(model, [f"{first} {second} qwertz"], k=3) if one.lang == "de"]
    assert not {first, second} & {word for word, _ in one.near["de"]}
    query = open_encoder(trained).encode_queries([Document("q", "de", f"{first} {second}")])
    nearest, cosine = one.near["en"][0]
    there = open_encoder(trained).encode_queries([Document("w", "en", nearest)])
    assert cosine == pytest.approx(float((query @ there.T)[0, 0]), abs=1e-4)


def test_combined_encoders_are_shown_one_after_the_other(
    trained: ModelFolder, default_folder: ModelFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    both = f"{default_folder.path} + {trained.path}"
    assert run(["encoders", "show", both, "--json"]) == 0
    told = [json.loads(line)["folder"] for line in capsys.readouterr().out.splitlines()]
    assert told == [str(default_folder.path), str(trained.path)]
    assert run(["encoders", "show", both, "--words", "Wasser"]) == 0
    assert "wasser (de)" in capsys.readouterr().out
    assert run(["encoders", "show", f"{trained.path} + nowhere"]) == 1
    assert "there is no encoder 'nowhere'" in capsys.readouterr().err


def test_what_cannot_be_learnt_from_is_one_sentence_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plain.txt").write_text("Nothing is said about concepts here.")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "diary.txt").write_text("dear diary")
    cases = [
        (["nowhere.jsonl"], "m", "nowhere.jsonl does not exist"),
        (SOURCES[:1], "m", "the documents are all in one language (de)"),
        ([str(tmp_path / "full")], "m", "none of the documents has a field concept"),
        ([SOURCES[0], SOURCES[1], "--languages", "fi,sv"], "m", "docs.en.jsonl is in fi, sv; they have de, en"),
        ([str(tmp_path / "plain.txt")], "m", "none of the documents has a field concept"),
        ([*SOURCES, "--pairs", "transitive", "--pivot", "fr"], "m", "there are no documents in the pivot fr"),
        (SOURCES, "full", "holds something that is no model; choose another --output"),
        ([*SOURCES, "--pairs", "pairwise"], "plain.txt", "plain.txt is a file; choose another --output"),
    ]
    for arguments, output, sentence in cases:
        assert run(["train", "cr5", *arguments, "-o", str(tmp_path / output), "-q"]) == 1
        error = capsys.readouterr().err
        assert sentence in error
        assert len(error.strip().splitlines()) == 1
    assert not (tmp_path / "m").exists()
    for wrong in (["--ridge", "0"], ["--ridge", "much"], ["--pairs", "transitive"], ["--pivot", "en"]):
        assert run(["train", "cr5", *SOURCES, "-o", str(tmp_path / "m"), *wrong]) == 2
