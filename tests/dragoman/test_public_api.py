"""A program does with ``import dragoman`` what a person does with the command."""

import datetime as dt
import inspect
import json
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pydantic import TypeAdapter

import dragoman
from dragoman.sources import source_names
from encoders.document import Document
from encoders.folder.model_folder import ModelFolder
from tests.indexer.readers.reading import ids, readings
from trials import DEMO, ROOT

NAMES = """
BadInput CalibrationReport Console Document DragomanError EmptyCollection Evaluation Facets Hit Hits IndexReport
MissingPart ModelMismatch NoDocument Passage RankingOptions ReadOptions Searcher Settings StoreError TextEncoder
__version__ calibrate delete delete_collection evaluate index status
"""

GERMAN = len((DEMO / "docs.de.jsonl").read_text("utf-8").splitlines())
JUDGED: dict[str, Any] = {"topics": DEMO / "topics.tsv", "qrels": [DEMO / "qrels.txt"]}
RECORDS: list[dict[str, Any]] = [
    {"id": "d1", "lang": "de", "title": "Sauerteig", "text": "Brot ohne gekaufte Hefe backen.", "label": "food"},
    {"id": "e1", "lang": "en", "title": "Sourdough", "text": "Bake bread without bought yeast.", "label": "food"},
    {"id": "e2", "lang": "en", "title": "Volcano", "text": "The volcano erupts again.", "label": "science"},
]


class Missing:
    """A missing value of pandas, which refuses to be true or false."""

    def __repr__(self) -> str:
        return "<NA>"

    def __bool__(self) -> bool:
        raise TypeError


def test_the_public_names_are_these() -> None:
    assert dragoman.__all__ == NAMES.split() == dir(dragoman)
    assert all(name == "__version__" or inspect.getdoc(getattr(dragoman, name)) for name in dragoman.__all__)
    types = [kind for name in dragoman.__all__ if isinstance(kind := getattr(dragoman, name), type)]
    assert {repr(kind) for kind in types} == {f"<class 'dragoman.{kind.__name__}'>" for kind in types}
    assert get_type_hints(dragoman.Hit)["document"] is dragoman.Document
    found = dragoman.Hit("a", "de", 0.5, 0.6, dragoman.Document("a", "de", "text"), None)
    assert TypeAdapter(dragoman.Hit).validate_python(pickle.loads(pickle.dumps(found))) == found
    with pytest.raises(AttributeError, match="module 'dragoman' has no attribute 'serch'"):
        _ = dragoman.serch


def test_importing_it_imports_nothing_else() -> None:
    program = "import sys, dragoman; print(sorted({name.split('.')[0] for name in sys.modules} & set(sys.argv[1:])))"
    others = ["query", "indexer", "encoders", "onnx_export", "numpy", "sqlalchemy", "onnxruntime"]
    command = [sys.executable, "-c", program, *others]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout == "[]\n"


Index = Callable[..., dragoman.IndexReport]


@pytest.fixture
def index(settings: dragoman.Settings, word_model: ModelFolder) -> Index:
    """Indexes into the collection *c*, by an encoder that takes milliseconds."""
    known: dict[str, Any] = {"settings": settings, "encoder": word_model.path, "calibrate": False}
    return lambda sources, **options: dragoman.index(sources, "c", **known, **options)


def test_files_and_dicts_are_indexed_and_searched(settings: dragoman.Settings, word_model: ModelFolder) -> None:
    report = dragoman.index([DEMO / "docs.de.jsonl", *RECORDS], "news", settings=settings, encoder=word_model.path)
    assert (report.encoded, report.refused) == (GERMAN + 3, [])
    with dragoman.Searcher.open("news", settings) as searcher:
        hits = searcher.search("bread without yeast", lang="en", to=["en"], k=3)
    assert (hits[0].doc_id, hits[0].document.title, hits.lang) == ("e1", "Sourdough", "en")


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"text": None}, "the query is None; give a text"),
        ({"text": "a", "k": 2.5}, "k is 2.5; ask for one hit or more"),
        ({"text": "a", "filters": "year"}, "filters are 'year'; give values by the names of fields"),
    ],
)
def test_what_is_no_search_is_a_sentence(
    settings: dragoman.Settings, word_model: ModelFolder, asked: dict[str, Any], sentence: str
) -> None:
    dragoman.index({"text": "a"}, "c", settings=settings, encoder=word_model.path, calibrate=False)
    with dragoman.Searcher.open("c", settings) as searcher, pytest.raises(dragoman.BadInput, match=re.escape(sentence)):
        searcher.search(**asked)


def test_dicts_may_be_of_a_generator_and_only_changes_are_encoded(settings: dragoman.Settings, index: Index) -> None:
    first = index(iter(RECORDS))
    assert (first.encoded, first.unchanged) == (3, 0)
    second = index([RECORDS[0], {**RECORDS[1], "text": "Rye bread."}], prune=True)
    assert (second.encoded, second.unchanged, second.pruned) == (1, 1, 1)
    assert dragoman.status("c", settings=settings)["languages"] == {"de": 1, "en": 1}
    assert not list(settings.home.glob("*.jsonl"))


FRAMES: dict[str, Any] = {
    "pandas": pd.DataFrame(RECORDS),
    "pandas with the id as its index": pd.DataFrame(RECORDS).set_index("id"),
    "polars": pl.DataFrame(RECORDS),
    "lazy polars": pl.DataFrame(RECORDS).lazy(),
    "Arrow": pa.Table.from_pylist(RECORDS),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_a_table_is_a_source_alone_and_among_others(frame: Any, settings: dragoman.Settings) -> None:
    for sources in (frame, ["docs.jsonl", frame]):
        with source_names(sources, "c", settings, dragoman.ReadOptions()) as names:
            *files, records = names
            assert ids(readings(Path(records))) == ["d1", "e1", "e2"]
            assert files == ["docs.jsonl"][: len(files)]


def test_a_table_that_needs_pyarrow_says_so(settings: dragoman.Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(dragoman.MissingPart, match="a Table is read by pyarrow; install it"):
        dragoman.index(FRAMES["Arrow"], "c", settings=settings)


def test_values_that_json_lacks_are_dates_numbers_and_texts_or_missing(settings: dragoman.Settings) -> None:
    values: dict[str, Any] = {
        "day": dt.date(2026, 1, 2), "at": dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC), "price": Decimal("1.5"),
        "count": np.int64(3), "tags": np.array(["a", "b"]), "in": {"y", "x"}, "path": Path("a/b"),
        "hour": np.datetime64("2026-01-02T03"), "size": Decimal(7),
    }  # fmt: skip
    missing = {"title": float("nan"), "n": np.float32("inf"), "m": np.datetime64("NaT"), "o": Missing(), "lang": None}
    record: dict[str, Any] = {"id": 1.0, "text": "x", **values, **missing}
    with source_names(record, "c", settings, dragoman.ReadOptions()) as (name,):
        document, remark = readings(Path(name))
    assert document == Document(
        "1", "und", "x", "",
        {
            "day": "2026-01-02", "at": "2026-01-02T03:00:00+00:00", "price": 1.5, "count": 3, "tags": ["a", "b"],
            "in": ["x", "y"], "path": "a/b", "hour": "2026-01-02T03", "size": 7,
        },
    )  # fmt: skip
    assert "missing values: 4" in remark.text


def test_the_id_of_a_dict_without_one_depends_on_the_dict_alone(settings: dragoman.Settings) -> None:
    def made(*records: dict[str, Any]) -> list[str]:
        with source_names(records, "c", settings, dragoman.ReadOptions()) as (name,):
            return ids(readings(Path(name)))

    first, second = made({"text": "a"}, {"text": "b"})
    assert made({"text": "b"}, {"text": "a"}, {"id": "x", "text": "a"}) == [second, first, "x"]
    assert made({"text": "a"}, {"id": None, "text": "c"}, {"text": "a"})[::2] == [first, f"{first}-2"]
    assert made({"docid": 7, "text": "a"}) == ["7"]


def test_names_of_fields_are_for_dicts_too_and_one_dict_is_a_source(settings: dragoman.Settings, index: Index) -> None:
    options = dragoman.ReadOptions(lang="en", fields={"id": "key", "text": "body"})
    index({"key": 7, "body": "The volcano erupts \ud800 again.", "year": 1995}, options=options)
    with dragoman.Searcher.open("c", settings) as searcher:
        (hit,) = searcher.search("volcano", filters={"year": 1995})
    assert (hit.doc_id, hit.document.text) == ("7", "The volcano erupts \ufffd again.")


def test_a_dict_that_can_not_be_indexed_is_refused_and_the_others_are_indexed(index: Index) -> None:
    report = index([*RECORDS, {"id": "x", "text": 5}])
    (refused,) = report.refused
    assert (report.encoded, refused.doc_id, refused.place.rpartition(":")[2]) == (3, "x", "4")
    with pytest.raises(dragoman.BadInput, match=r"nothing of the sources could be indexed into c \(.*:1: its text"):
        index({"id": "x", "text": 5})


@pytest.mark.parametrize(
    ("sources", "options", "sentence"),
    [
        ([], {}, "there is nothing to index; give names of files"),
        ([*RECORDS, {"id": "d", "text": "t", "of": object()}], {}, "record 4 can't be written as JSON .*a object"),
        (["docs.jsonl", ""], {}, "source 2 is empty; give a name"),
        ([*RECORDS, 5], {}, "source 4 is a int; give a name, a dict, or a data frame"),
        (pd.DataFrame([["1", "a", "b"]], columns=["id", "text", "text"]), {}, "the column 'text' more than once"),
        (pd.DataFrame(RECORDS)["text"], {}, "a Series is one column; give the frame that it is of"),
        ("no-such-file.jsonl", {}, "no-such-file.jsonl"),
        (RECORDS, {"format": "csv"}, "dicts have no format and no encoding"),
    ],
)
def test_sources_that_can_not_be_read_are_refused_before_a_model_is_loaded(
    settings: dragoman.Settings, sources: Any, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(dragoman.BadInput, match=sentence):
        dragoman.index(sources, "c", settings=settings, options=dragoman.ReadOptions(**options))
    assert dragoman.status(settings=settings) == []
    assert not list(settings.home.glob("*.jsonl"))


def test_two_processes_do_not_write_the_records_of_a_collection_at_once(settings: dragoman.Settings) -> None:
    def records() -> Iterator[dict[str, Any]]:
        yield RECORDS[0]
        with pytest.raises(dragoman.StoreError, match="another process is indexing records into collection c"):
            dragoman.index(RECORDS, "c", settings=settings)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dragoman.index(records(), "c", settings=settings)


def test_a_collection_is_calibrated_evaluated_and_removed(demo_by_words: dragoman.Settings) -> None:
    report = dragoman.calibrate("demo", settings=demo_by_words, balance=0.5, weights=[1.0], device="cpu")
    assert (report.stored.summary.decided_by, report.stored.summary.balance) == ("you", 0.5)
    (active,) = (one for one in dragoman.status("demo", settings=demo_by_words)["calibrations"] if one["active"])
    assert active["calibration"] == report.stored.id
    how: dict[str, Any] = {"langs": ["ger"], "to": ["en"], "measures": ["AP"], "baseline": "none", **JUDGED}
    evaluation = dragoman.evaluate("demo", settings=demo_by_words, ranking=dragoman.RankingOptions("none"), **how)
    assert (set(evaluation.means), evaluation.setup.settings["calibration"]) == ({"AP", "Judged@10"}, None)
    assert 0 < evaluation.means["AP"] <= 1
    with pytest.raises(dragoman.BadInput, match="names no part of a topic; its parts are title"):
        dragoman.evaluate("demo", **JUDGED, settings=demo_by_words, fields=[])
    doc_ids = [json.loads(line)["id"] for line in (DEMO / "docs.ja.jsonl").read_text("utf-8").splitlines()]
    assert dragoman.delete("demo", [*doc_ids, "no-such-id"], settings=demo_by_words) == len(doc_ids)
    assert "ja" not in dragoman.status("demo", settings=demo_by_words)["languages"]
    with pytest.raises(dragoman.BadInput, match="has none of these documents"):
        dragoman.delete("demo", doc_ids, settings=demo_by_words)
    dragoman.delete_collection("demo", settings=demo_by_words)
    assert dragoman.status(settings=demo_by_words) == []
    with pytest.raises(dragoman.BadInput, match="no collection 'demo'"):
        dragoman.status("demo", settings=demo_by_words)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: dragoman.calibrate("demo", topics="topics.tsv"), "topics and qrels belong together"),
        (lambda: dragoman.calibrate("demo", **JUDGED, balance=0.5), "topics decide the balance; leave"),
        (lambda: dragoman.calibrate("demo", balance=2), "balance"),
        (lambda: dragoman.calibrate("demo", seed=-1), "seed is -1; give 0 or more"),
        (lambda: dragoman.index({"text": "a"}, "c", on_duplicate="x"), "choose one of error, last, first"),  # type: ignore[arg-type]
        (lambda: dragoman.Searcher.open(None), "a collection can't be named ''"),  # type: ignore[arg-type]
        (lambda: dragoman.status(5), "a collection can't be named '5'"),  # type: ignore[call-overload]
        (lambda: dragoman.evaluate("demo"), "give topics and qrels, or from_log=True"),
        (lambda: dragoman.evaluate("demo", "t", "q", langs="de"), r"langs is the string 'de'.*: langs=\['de'\]"),
        (lambda: dragoman.evaluate("demo", "t", "q", measures="AP"), r"give a list of measures: measures=\['AP'\]"),
        (lambda: dragoman.evaluate("demo", "t", "q", fields="title"), r"give a list of fields: fields=\['title'\]"),
        (lambda: dragoman.evaluate("demo", "t", "q", baseline="no"), "choose one of none, bm25"),  # type: ignore[arg-type]
        (lambda: dragoman.evaluate("demo", "t", "q", lexicons="en-de=f"), "lexicons is the string 'en-de=f'"),
        (lambda: dragoman.delete("demo", "d1"), r"doc_ids is the string 'd1'; give a list of ids: doc_ids=\['d1'\]"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(wrong: Any, sentence: str) -> None:
    with pytest.raises(dragoman.BadInput, match=sentence):
        wrong()
