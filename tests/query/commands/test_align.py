"""``dragoman align`` as it is typed, on the demo's documents with the default encoder."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from encoders.document import Encoder
from indexer.collection import collection as collections
from indexer.collection.settings import Settings
from indexer.collection.store_location import StoreLocation
from indexer.ledger.database import connect
from query.cli import run
from tests.query.conftest import Command, copied
from trials import DEMO

pytestmark = pytest.mark.parts


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, demo: Settings, encoder: Encoder) -> Path:
    """A home with three languages of the demo in one collection, and a page in another by another method."""
    settings = copied(demo.home, tmp_path_factory.mktemp("align"))
    engine = connect(settings.database)
    found = collections.require(engine, "demo")
    collections.register(engine, "mini", settings, found.encoder, encoder.spec)
    engine.dispose()
    with closing(found.open_store(settings)) as source, closing(StoreLocation(settings.store, "mini").open()) as target:
        target.create(found.model, found.dim)
        for lang in ("de", "en", "ja"):
            for page in source.scan(found.model, lang=lang):
                target.put(found.model, page)
        target.publish()
    german = settings.home / "page.jsonl"
    german.write_text((DEMO / "docs.de.jsonl").read_text("utf-8").splitlines()[0], "utf-8")
    plain = ["--no-calibration", "--home", str(settings.home), "-q"]
    assert run(["index", str(german), "-c", "whole", "--method", "first", *plain]) == 0
    return settings.home


@pytest.fixture
def dragoman(home: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys, "--home", str(home))


def test_pairs_go_to_stdout_and_what_is_known_of_them_to_stderr(dragoman: Command) -> None:
    heads, *lines = dragoman("align", "mini:en", "mini:de", "--gold", "concept").splitlines()
    assert (heads, len(lines)) == ("id_a\tid_b\tscore\tcosine", 24)
    assert "24 pairs of 24 and 24 documents" in dragoman.err
    assert "one-to-one recall: 1.000 (22 of 22 true pairs)" in dragoman.err
    scores = [float(line.split("\t")[2]) for line in lines]
    assert scores == sorted(scores, reverse=True)
    first = lines[0].split("\t")
    assert first[0].removeprefix("demo:en:") == first[1].removeprefix("demo:de:")


def test_an_index_of_elasticsearch_is_a_source(dragoman: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRAGOMAN_ELASTIC_URL", raising=False)
    assert "DRAGOMAN_ELASTIC_URL" in dragoman("align", "elastic:pages", "mini:de", status=1)


def test_a_file_takes_the_pairs_and_serves_as_gold(dragoman: Command, tmp_path: Path) -> None:
    pairs, lines = tmp_path / "pairs.tsv", tmp_path / "pairs.jsonl"
    said = dragoman("align", "mini:en", "mini:ja", "-o", pairs, "--gold", "concept", "-q")
    assert said.startswith("one-to-one recall: ")
    assert dragoman.err == ""
    told = dragoman.one("align", "mini:en", "mini:ja", "--gold-file", pairs)
    assert told["gold"] == {"pairs": 24, "found": 24, "recall": 1.0}
    assert told["found"] == len(told["pairs"]) == 24
    assert set(told["pairs"][0]) == {"id_a", "id_b", "score", "cosine"}
    told = dragoman.one("align", "mini:en", "mini:de", "--format", "jsonl", "-o", lines)
    assert told["file"] == str(lines)
    records = [json.loads(line) for line in lines.read_text("utf-8").splitlines()]
    assert len(records) == told["found"] == 24
    assert all(-1 <= record["cosine"] <= 1.001 for record in records)


def test_a_threshold_leaves_fewer_pairs(dragoman: Command) -> None:
    scores = [pair["score"] for pair in dragoman.one("align", "mini:en", "mini:de")["pairs"]]
    fewer = dragoman.one("align", "mini:en", "mini:de", "--threshold", (scores[9] + scores[10]) / 2)["pairs"]
    assert [pair["score"] for pair in fewer] == scores[:10]


@pytest.mark.parametrize(
    "options", ["--debias none", "--debias 1", "--margin absolute", "--margin distance --neighbours 2"]
)
def test_every_choice_gives_pairs(options: str, dragoman: Command) -> None:
    more = ["--no-passages", "--no-maps", "--gold", "concept"]
    assert dragoman.one("align", "mini:en", "mini:de", *options.split(), *more)["gold"]["recall"] > 0.9


def test_files_are_encoded_on_the_way_and_agree_with_the_collection(dragoman: Command) -> None:
    english, german = (str(DEMO / f"docs.{lang}.jsonl") for lang in ("en", "de"))
    stored, *others = (
        {(pair["id_a"], pair["id_b"]) for pair in dragoman.one("align", *sides)["pairs"]}
        for sides in (["mini:en", "mini:de"], [english, german], [english, "mini:de"])
    )
    assert others == [stored, stored]


def test_records_that_cannot_be_read_are_said_and_the_rest_is_aligned(dragoman: Command, tmp_path: Path) -> None:
    source = tmp_path / "docs.jsonl"
    source.write_text('{"id": "a", "lang": "en", "text": "mould on damp walls"}\n{oops\n', "utf-8")
    assert len(dragoman("align", source, "mini:de").splitlines()) == 2
    assert "1 record of" in dragoman.err
    assert "docs.jsonl:2" in dragoman.err


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["mini:en", "mini:fi"], 1, "has no documents in 'fi'; it has de, en, ja"),
        (["mini:en", "mini:german"], 1, "'german' is no language code"),
        (["mini:en", "none:de"], 1, "there is no collection 'none'"),
        (["mini:en", "nowhere.jsonl"], 1, "nowhere.jsonl is no file or folder"),
        (["mini:en", "mini:en"], 1, "would be aligned with itself"),
        (["mini:en", "whole:de"], 1, "index one with the other's encoder"),
        (["mini:en", "mini:de", "--encoder", "x"], 1, "both sides are encoded already"),
        (["mini:en", "{demo}/docs.de.jsonl", "--method", "first"], 1, "collection mini holds vectors of"),
        (["mini:en", "{empty}"], 1, "has no documents to align"),
        (["mini:en", "mini:de", "--threshold", "nan"], 2, "'nan' is not a finite number"),
        (["mini:en", "mini:de", "--debias", "-3"], 2, "--debias takes none, mean, or a rank"),
        (["mini:en", "mini:de", "--gold", "nothing"], 1, "no document of mini:en has a field 'nothing'"),
        (["mini:en", "mini:de", "--gold", "x", "--gold-file", "y"], 2, "give one of them"),
        (["mini:en", "mini:de", "--gold-file", "{empty}"], 1, "states no pairs"),
        (["mini:en", "mini:de", "--gold-file", "{one}"], 1, "no pair; it should be: id_a TAB id_b"),
        (["mini:en", "mini:de", "--gold-file", "{foreign}"], 1, "no true pair is of mini:en and mini:de"),
        (["mini:en", "mini:de", "-o", "/nowhere/pairs.tsv"], 1, "can't be written"),
    ],
)
def test_what_is_refused_is_one_sentence_and_a_status(
    arguments: list[str], status: int, sentence: str, dragoman: Command, tmp_path: Path
) -> None:
    files = {"empty": "", "one": "only one column\n", "foreign": "x\ty\n"}
    for name, text in files.items():
        (tmp_path / f"{name}.tsv").write_text(text)
    named = {name: str(tmp_path / f"{name}.tsv") for name in files}
    said = dragoman("align", *(argument.format(demo=DEMO, **named) for argument in arguments), status=status)
    assert sentence in said
    assert dragoman.out == ""
    assert "Traceback" not in said
