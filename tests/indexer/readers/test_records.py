"""JSON lines, CSV and TSV: what is read, what is refused, and that the rest goes on."""

import bz2
import errno
import gzip
import io
import json
import lzma
import os
import random
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoders import zstd
from encoders.document import Document
from encoders.errors import BadInput, StoreError
from indexer.readers.formats import fingerprint, read
from indexer.readers.jsonl import _elements
from indexer.readers.records.files import SourceFile
from indexer.readers.records.record import FIELDS_LIMIT, make_document
from indexer.readers.records.source import ReadOptions, Refusal, Remark
from tests.indexer.readers.reading import documents, readings, refusals
from trials import ROOT
from trials.command_attacks import PACKERS


def lines(path: Path, *records: Any) -> Path:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return path


def test_a_json_line_becomes_a_document_with_its_other_fields(tmp_path: Path) -> None:
    record = {"id": "a", "lang": "pt-BR", "title": "Um\n título", "text": "Um.\nDois.", "label": "x", "tags": ["y"]}
    assert readings(lines(tmp_path / "a.jsonl", record)) == [
        Document("a", "pt", "Um.\nDois.", "Um título", {"label": "x", "tags": ["y"]})
    ]


def test_fields_are_renamed_ours_to_theirs(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", {"_id": 7, "body": "Text.", "cid": "c1"})
    found = readings(path, fields={"id": "_id", "text": "body", "concept": "cid"}, lang="de")
    assert found == [Document("7", "de", "Text.", "", {"concept": "c1"})]


def test_a_record_without_a_language_takes_the_option_or_stays_undetermined(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", {"id": "a", "text": "x"}, {"id": "b", "text": "x", "lang": "no"})
    assert [document.lang for document in documents(readings(path))] == ["und", "nb"]
    assert [document.lang for document in documents(readings(path, lang="deu"))] == ["de", "nb"]


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("a.jsonl.gz", gzip.compress),
        ("a.jsonl.zst", zstd.compress),
        ("a.jsonl.bz2", bz2.compress),
        ("a.jsonl.xz", lzma.compress),
        ("packed_but_not_named_so.jsonl", gzip.compress),
    ],
)
def test_archives_are_read_by_their_first_bytes(tmp_path: Path, name: str, pack: Any) -> None:
    half = b'{"id": "%s", "text": "x"}\n'
    (tmp_path / name).write_bytes(pack(half % b"a") + pack(half % b"b"))
    assert [document.doc_id for document in documents(readings(tmp_path / name))] == ["a", "b"]


def test_an_archive_that_begins_with_a_blank_one_is_read_and_keeps_what_stands_before_its_cut(tmp_path: Path) -> None:
    packed = gzip.compress(b"\n") + gzip.compress(b'{"id": "a", "text": "x"}\n')
    (tmp_path / "a.jsonl.gz").write_bytes(packed + gzip.compress(b'{"id": "b", "text": "y"}\n')[:-9])
    document, refusal = readings(tmp_path / "a.jsonl.gz")
    assert document == Document("a", "und", "x")
    assert isinstance(refusal, Refusal)
    assert "ends too early; get it again; what came before is kept" in refusal.text


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_small_archive_of_a_large_file_takes_no_more_memory_than_the_file(tmp_path: Path, suffix: str) -> None:
    packed = tmp_path / f"a.jsonl.{suffix}"
    packed.write_bytes(PACKERS[suffix](b"\n" * (48 << 20) + b'{"id": "a", "text": "x"}'))
    tracemalloc.start()
    with SourceFile(packed, packed.name).open() as stream:
        length = sum(map(len, iter(lambda: stream.read1(1 << 20), b"")))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert length == (48 << 20) + 24
    assert peak < 16 << 20


def test_an_archive_that_asks_for_a_gigabyte_of_memory_is_refused(tmp_path: Path) -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 4096}]
    packed = bytearray(lzma.compress(b'{"id": "a", "text": "x"}', filters=filters))
    packed[16] = 36  # the size of the dictionary in the header of the block: 1 GB
    packed[20:24] = zlib.crc32(packed[12:20]).to_bytes(4, "little")
    (tmp_path / "a.jsonl.xz").write_bytes(packed)
    (refusal,) = readings(tmp_path / "a.jsonl.xz")
    assert isinstance(refusal, Refusal)
    assert refusal.text == "the xz archive needs more than 128 MB of memory; unpack it first"


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("zeros", [1, 100_000])
def test_zeros_after_an_archive_are_padding(tmp_path: Path, suffix: str, zeros: int) -> None:
    packed = PACKERS[suffix](b'{"id": "a", "text": "x"}\n')
    (tmp_path / f"a.jsonl.{suffix}").write_bytes(packed + b"\0" * zeros + packed)
    assert len(documents(readings(tmp_path / f"a.jsonl.{suffix}"))) == 2


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ('"' + "x" * FIELDS_LIMIT + '"', "its fields besides title and text have more than 1,000,000 characters"),
        ("[" + '{"of": ["a", 1.5]}, ' * 40_000 + "0]", "its fields besides title and text have more than"),
        ('{"' + "x" * FIELDS_LIMIT + '": 1}', "its fields besides title and text have more than"),
        ("[" + "[]," * 3_000_000 + "[]]", "it has more than 1,000,000 brackets"),
    ],
    ids=["string", "values", "name", "brackets"],
)
def test_fields_that_take_much_memory_are_refused_before_they_take_it(tmp_path: Path, field: str, reason: str) -> None:
    line = f'{{"id": "a", "text": "x", "field": {field}}}\n'
    (tmp_path / "a.jsonl").write_text(line + '{"id": "b", "text": "x"}\n')
    tracemalloc.start()
    refusal, document = readings(tmp_path / "a.jsonl")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(refusal, Refusal)
    assert refusal.text.startswith(reason)
    assert isinstance(document, Document)
    assert peak < 6 * len(line) + (16 << 20)


def test_a_line_longer_than_the_bound_is_refused_and_the_next_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.readers.records.files.RECORD_LIMIT", 1000)
    path = lines(tmp_path / "a.jsonl", {"id": "a", "text": "x" * 5000}, {"id": "b", "text": "x"})
    found = readings(path)
    assert [document.doc_id for document in documents(found)] == ["b"]
    (refusal,) = refusals(found)
    assert refusal.place == f"{path}:1"
    assert refusal.text == "the line has more than 64 MB; split the record"


def test_a_row_of_many_lines_that_never_ends_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.readers.delimited.RECORD_LIMIT", 1000)
    (tmp_path / "a.csv").write_text("id,text\na,x\n" + '"a\n",' * 999 + "\nb,y\n")
    found = readings(tmp_path / "a.csv")
    assert [document.doc_id for document in documents(found)] == ["a", "b"]
    assert refusals(found)[0] == Refusal(
        f"{tmp_path / 'a.csv'}:3", "the row can't be read (it has more than 0 MB); see to its quotes"
    )


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_broken_archive_keeps_what_came_before_and_says_where_it_breaks(tmp_path: Path, suffix: str) -> None:
    # Text that hardly compresses, so that a good part of the lines stands before the cut.
    noise = random.Random(0)
    text = "".join(f'{{"id": "d{i}", "text": "{noise.randbytes(200).hex()}"}}\n' for i in range(5000)).encode()
    packed = PACKERS[suffix](text)
    cut = tmp_path / f"cut.jsonl.{suffix}"
    cut.write_bytes(packed[: len(packed) * 3 // 4])
    found = readings(cut)
    kept = [document.doc_id for document in documents(found)]
    assert len(kept) > 100
    assert kept == [f"d{i}" for i in range(len(kept))]
    (refusal,) = refusals(found)
    assert found[-1] is refusal
    assert "ends too early" in refusal.text
    assert refusal.place == f"{cut}:{len(kept)}"


def test_garbage_in_the_middle_of_an_archive_is_said_and_the_next_file_is_read(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(b'{"id": "a", "text": "x"}\n' * 2000))
    packed[12:40] = b"\xff" * 28
    (tmp_path / "1.jsonl.gz").write_bytes(packed)
    lines(tmp_path / "2.jsonl", {"id": "z", "text": "x"})
    found = readings(tmp_path)
    assert "gzip archive is broken" in refusals(found)[0].text
    assert [document.doc_id for document in documents(found)] == ["z"]


def test_a_file_named_gz_that_is_none_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_text('{"id": "a", "text": "x"}\n')
    assert "is not gzip" in refusals(readings(tmp_path / "a.jsonl.gz"))[0].text


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"id": "x", "text": ', "not valid JSON"),
        (b'{"id": "x", "text": "a", "n": NaN}', "NaN"),
        (b'{"id": "x", "text": "a", "n": 1e999}', "too large to keep"),
        (b'{"id": "x", "text": "a", "n": {"m": [-1e999]}}', "too large to keep"),
        (b'{"id": "x", "text": "a", "n": [18446744073709551616]}', "too large to keep"),
        (b'{"id": "x", "text": "a", "n": -9223372036854775809}', "too large to keep"),
        (b"[" * 100_000, "not valid JSON"),
        (b'{"id": "x", "text": "a", "n": ' + b"1" * 5000 + b"}", "not valid JSON"),
        (b'["x", "y"]', "JSON list"),
        (b"42", "JSON int; a record is an object"),
        (b'{"id": "x"}', "no text"),
        (b'{"id": "x", "text": null}', "no text"),
        (b'{"id": "x", "text": "  ", "title": "\\n"}', "title and text are empty"),
        (b'{"id": "x", "text": "\\u0001\\u200b"}', None),
        (b'{"id": "x", "text": "\\u0001\\u0002"}', "title and text are empty"),
        (b'{"id": "", "text": "x"}', "id is empty"),
        (b'{"id": " ", "text": "x"}', "id is empty"),
        (b'{"id": true, "text": "x"}', "id is true or false"),
        (b'{"id": 1.5, "text": "x"}', "id is a number"),
        (b'{"id": ["x"], "text": "x"}', "id is an array"),
        (b'{"id": "a\\nb", "text": "x"}', "control characters"),
        (b'{"id": "a\\u0000", "text": "x"}', "control characters"),
        (b'{"id": "a\\ud800", "text": "x"}', "half a character"),
        (b'{"id": "' + b"x" * 600 + b'", "text": "x"}', "600 bytes; 512"),
        (b'{"id": "' + "é".encode() * 300 + b'", "text": "x"}', "600 bytes; 512"),
        (b'{"id": "x", "text": 5}', "text is a number"),
        (b'{"id": "x", "text": ["a"]}', "text is an array"),
        (b'{"id": "x", "text": "a", "title": {}}', "title is an object"),
        (b'{"id": "x", "text": "a\\u0000b"}', "NUL"),
        (b'{"id": "x", "text": "a", "lang": "klingonisch"}', "'klingonisch' is no"),
        (b'{"id": "x", "text": "a", "lang": 7}', "lang is a number"),
        (b'{"id": "x", "text": "a", "revision": -1}', "revision is '-1'"),
        (b'{"id": "x", "text": "a", "revision": "new"}', "revision is 'new'"),
        ('{"id": "x", "text": "café"}'.encode("latin-1"), "not utf-8 (byte 25)"),
        (b'\x00\x01\xff{"id"', "binary"),
    ],
)
def test_a_bad_line_is_refused_by_file_and_line_and_the_rest_goes_on(
    tmp_path: Path, line: bytes, reason: str | None
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"id": "first", "text": "x"}\n\n' + line + b'\n{"id": "last", "text": "x"}\n')
    found = readings(path)
    assert found[0] == Document("first", "und", "x")
    assert found[-1] == Document("last", "und", "x")
    if reason is None:
        assert len(documents(found)) == 3
        return
    (refusal,) = refusals(found)
    assert refusal.place == f"{path}:3"
    assert reason in refusal.text


@pytest.mark.parametrize("doc_id", ["a b", "a/b/c.txt", "http://x?y=1&z", "ü" * 256, "x" * 512])
def test_odd_ids_are_fine(tmp_path: Path, doc_id: str) -> None:
    assert documents(readings(lines(tmp_path / "a.jsonl", {"id": doc_id, "text": "x"})))[0].doc_id == doc_id


def test_half_characters_and_control_characters_never_get_through(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"id": "a", "title": "t\\ud83d", "text": "x\\ud800y\\u0007z\\r\\nw\\u2028v", "f": {"k\\udc00": ["\\udfff"]}}\n'
    )
    (document,) = documents(readings(path))
    assert document.title == "t\ufffd"
    assert document.text == "x\ufffdyz\nw\nv"
    assert document.fields == {"f": {"k\ufffd": ["\ufffd"]}}
    json.dumps(document.fields, ensure_ascii=False).encode()


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def _json(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, ensure_ascii=False, allow_nan=False)


@settings(max_examples=300)
@given(st.dictionaries(st.sampled_from(["id", "lang", "title", "text", "revision", "x"]), json_values))
def test_any_record_gives_a_clean_document_or_a_refusal(record: dict[str, Any]) -> None:
    made = make_document(record, "here", ReadOptions())
    if isinstance(made, Document):
        assert made.doc_id
        assert made.title or made.text
        for text in (made.doc_id, made.title, made.text, made.lang, _json(made.fields)):
            text.encode("utf-8")
        assert "\0" not in made.title + made.text
    else:
        assert made.text


def test_a_text_of_one_5_mb_line_is_read(tmp_path: Path) -> None:
    text = "wort " * 1_000_000
    (document,) = documents(readings(lines(tmp_path / "a.jsonl", {"id": "a", "text": text})))
    assert document.text == text.strip()


def test_a_file_of_one_json_object_is_refused_once(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"docs": [{"id": "a", "text": "x"}] * 3}, indent=1))
    (refusal,) = readings(tmp_path / "a.json")
    assert isinstance(refusal, Refusal)
    assert "one object a line" in refusal.text


TRICKY = [{"id": "a", "text": 'a "quoted" \\ ], {'}, {"id": "b", "text": '[é] \\"', "tags": [["x"], {"y": 1}]}]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("ensure_ascii", [True, False])
@pytest.mark.parametrize("name", ["a.json", "a.jsonl.gz", "a"])
def test_a_json_array_is_read_like_json_lines(
    tmp_path: Path, indent: int | None, ensure_ascii: bool, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.readers.jsonl._CHUNK", 7)  # strings, escapes and characters are cut
    array = f"\n {json.dumps(TRICKY, indent=indent, ensure_ascii=ensure_ascii)}\n".encode("utf-8-sig")
    (tmp_path / name).write_bytes(gzip.compress(array) if name.endswith("gz") else array)
    found = readings(tmp_path / name)
    assert found == readings(lines(tmp_path / "lines.jsonl", *TRICKY))
    assert [document.place for document in documents(found)] == [f"{tmp_path / name}#1", f"{tmp_path / name}#2"]


@settings(max_examples=200)
@given(
    array=st.lists(st.deferred(lambda: json_values), min_size=1), indent=st.none() | st.just(2), chunk=st.integers(1, 9)
)
def test_the_elements_of_any_array_are_cut_where_they_end(
    tmp_path_factory: pytest.TempPathFactory, array: list[Any], indent: int | None, chunk: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "array.json"
    path.write_text(json.dumps(array, indent=indent), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("indexer.readers.jsonl._CHUNK", chunk)
        assert [json.loads(element or b"") for element in _elements(SourceFile(path, "array.json"))] == array


@pytest.mark.parametrize(
    ("array", "found_ids", "place", "reason"),
    [
        ('[{"id": "a", "text": "x"}, 5, {"id": "b", "text": "x"}]', ["a", "b"], "#2", "JSON int"),
        ('[{"id": "a", "text": "x"}, {"id": }, {"id": "b", "text": "x"}]', ["a", "b"], "#2", "not valid JSON"),
        ('[{"id": "a", "text": "x"}, {"id": "b", "te', ["a"], "", "its array does not end"),
        ('[{"id": "a", "text": "x"}]\n{"id": "b", "text": "x"}', ["a"], "", "more stands after the end"),
        ("[\n]\n", [], "", "its array is empty"),
    ],
)
def test_what_is_wrong_in_an_array_is_said_and_its_other_records_are_read(
    tmp_path: Path, array: str, found_ids: list[str], place: str, reason: str
) -> None:
    (tmp_path / "a.json").write_text(array)
    found = readings(tmp_path / "a.json")
    assert [document.doc_id for document in documents(found)] == found_ids
    (refusal,) = refusals(found)
    assert refusal.place == f"{tmp_path / 'a.json'}{place}"
    assert reason in refusal.text


def test_a_large_array_takes_no_more_memory_than_its_records(tmp_path: Path) -> None:
    record = json.dumps({"id": "a", "text": "x" * 10_000})
    (tmp_path / "a.json").write_text(f"[{','.join([record] * 2000)}]")
    tracemalloc.start()
    assert sum(1 for _ in read(str(tmp_path / "a.json"), ReadOptions())) == 2000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20


def test_records_without_an_id_get_one_of_file_and_line_which_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.csv").write_text('text,lang\n"x\ny",de\nz,en\n')
    lines(tmp_path / "b.jsonl", {"text": "x"}, {"id": "own", "text": "x"}, {"id": None, "text": "x"})
    (tmp_path / "c.json").write_text('[{"text": "x"}]')
    found = readings(tmp_path)
    assert [document.doc_id for document in documents(found)] == [
        doc_id if doc_id == "own" else f"{tmp_path.name}/{doc_id}"
        for doc_id in ("b.jsonl:1", "own", "b.jsonl:3", "c.json#1", "sub/a.csv:2", "sub/a.csv:4")
    ]
    assert refusals(found) == []
    remarks = [item for item in found if isinstance(item, Remark)]
    assert [Path(remark.place).name for remark in remarks] == ["b.jsonl", "c.json", "a.csv"]
    assert remarks[0].text == (
        "records without an id have FILE:LINE as their id, which changes if records are inserted before them; if a "
        "field holds the id, say --field id=NAME"
    )


def test_a_record_without_the_field_that_was_named_for_the_id_is_refused(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", {"id": "a", "text": "x"}, {"key": "b", "text": "x"})
    found = readings(path, fields={"id": "key"})
    assert [document.doc_id for document in documents(found)] == ["b"]
    assert "it has no id ('key'); say which field holds it" in refusals(found)[0].text


def test_a_csv_row_whose_id_is_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text\n1,a\n,b\n")
    found = readings(tmp_path / "a.csv")
    assert [document.doc_id for document in documents(found)] == ["1"]
    assert [refusal.text for refusal in refusals(found)] == ["its id is empty"]


def test_standard_input_is_json_lines_and_can_be_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def give(data: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))

    give(b'{"id": "a", "text": "x"}\n{"text": "y"}\n{broken\n')
    first, again = (list(read("-", ReadOptions())) for _ in range(2))
    assert first == again
    doc_ids = [document.doc_id for document in documents(first)]
    assert doc_ids == ["a", "stdin-d03a262e:2"]
    assert [refusal.place for refusal in refusals(first)] == ["standard input:3"]
    before = fingerprint("-", ReadOptions())
    give(b'{"id": "a", "text": "x"}\n{"text": "y"}\n{broken\n')
    assert fingerprint("-", ReadOptions()) == before
    give(b'{"id": "a", "text": "x"}\n{"text": "z"}\n')
    assert not {"", *doc_ids[1:]} & {document.doc_id for document in documents(list(read("-", ReadOptions())))}
    give(gzip.compress(b"id,text\nb,z\n"))
    assert fingerprint("-", ReadOptions()) != before
    assert list(read("-", ReadOptions(format="csv"))) == [Document("b", "und", "z")]


def test_what_standard_input_gave_is_deleted_with_the_process(tmp_path: Path) -> None:
    program = (
        "from indexer.readers.formats import read; from indexer.readers.records.source import ReadOptions; import os;"
        f"print(len(list(read('-', ReadOptions()))), len(os.listdir({str(tmp_path)!r})))"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    output = subprocess.check_output(
        [sys.executable, "-c", program], input=b'{"id": "a", "text": "x"}', env=environment
    )
    assert output.split() == [b"1", b"1"]
    assert list(tmp_path.iterdir()) == []


def test_standard_input_that_does_not_fit_says_how_to_name_another_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        def read(self, _size: int | None = -1) -> bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(Full()))
    with pytest.raises(StoreError, match=r"No space left on device.*TMPDIR"):
        read("-", ReadOptions())


def test_json_lines_in_a_stated_encoding_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": "a", "text": "caf\xe9"}\n', encoding="latin-1")
    assert documents(readings(tmp_path / "a.jsonl", encoding="latin-1"))[0].text == "café"


@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        pytest.param("a.csv", 'id,text\n1,"a, ""b""\nc"\n2,d\n', ['a, "b"\nc', "d"], id="quotes and line breaks"),
        pytest.param("a.csv", "id;text\n1;a, b\n", ["a, b"], id="semicolons"),
        pytest.param("a.tsv", 'id\ttext\n1\t"Ja\n2\tnein"\n', ['"Ja', 'nein"'], id="quotes in tsv are letters"),
        pytest.param("a.csv", f"id,text\n1,{'x ' * 2_500_000}\n", ["x " * 2_499_999 + "x"], id="a value of 5 MB"),
        pytest.param("a.jsonl", '\ufeff{"id": "a", "text": "x"}\n', ["x"], id="a byte order mark is left out"),
    ],
)
def test_rows_and_lines_are_read(tmp_path: Path, name: str, content: str, texts: list[str]) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert [document.text for document in documents(readings(tmp_path / name))] == texts


def test_an_empty_value_of_a_csv_column_is_no_field(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text,label\n1,a,x\n2,b,\n")
    assert [document.fields for document in documents(readings(tmp_path / "a.csv"))] == [{"label": "x"}, {}]


@pytest.mark.parametrize("quoted", ['"open', '"closed" too early'])
def test_a_stray_quote_costs_its_own_csv_row_alone(tmp_path: Path, quoted: str) -> None:
    (tmp_path / "a.csv").write_text(f'id,text\n1,a\n2,{quoted}\n3,"c\nd"\n4,e\n', encoding="utf-8")
    found = readings(tmp_path / "a.csv")
    assert [document.doc_id for document in documents(found)] == ["1", "3", "4"]
    (refusal,) = refusals(found)
    assert refusal.place.endswith("a.csv:3")
    assert "see to its quotes" in refusal.text


def test_a_csv_row_with_too_few_or_many_columns_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,lang,text\n1,de,a\n2,de\n3,de,a,b\n4,de,\n5,de,e\n", encoding="utf-8")
    found = readings(tmp_path / "a.csv")
    assert [document.doc_id for document in documents(found)] == ["1", "5"]
    assert [(refusal.place.rsplit(":", 1)[1], refusal.text.split(";")[0]) for refusal in refusals(found)] == [
        ("3", "the row has 2 columns and the header 3"),
        ("4", "the row has 4 columns and the header 3"),
        ("5", "its title and text are empty"),
    ]


def test_a_header_without_the_needed_columns_is_refused_with_those_it_has(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("key,body\n1,a\n", encoding="utf-8")
    for fields, reason in (
        ({"id": "key"}, "no column 'text' (it has key, body); name the column: --field text=COLUMN"),
        ({"id": "_id", "text": "body"}, "no column '_id' (it has key, body); name the column: --field id=COLUMN"),
    ):
        (refusal,) = refusals(readings(tmp_path / "a.csv", fields=fields))
        assert reason in refusal.text
    assert readings(tmp_path / "a.csv", fields={"id": "key", "text": "body"}) == [Document("1", "und", "a")]


def test_a_header_that_names_a_column_twice_is_refused_and_blank_names_are_not(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text,text,,\n1,a,b,,\n", encoding="utf-8")
    assert readings(tmp_path / "a.csv") == [
        Refusal(f"{tmp_path}/a.csv:1", "its header names the column 'text' more than once; rename all but one")
    ]
    (tmp_path / "a.csv").write_text("id,text,,\n1,a,,\n", encoding="utf-8")
    assert readings(tmp_path / "a.csv") == [Document("1", "und", "a")]


def test_csv_in_an_8_bit_set_is_read_and_said_once(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text\n1,Größe\n2,Höhe\n", encoding="cp1252")
    *found, remark = readings(tmp_path / "a.csv", lang="de")
    assert [document.text for document in documents(found)] == ["Größe", "Höhe"]
    assert isinstance(remark, Remark)
    assert "windows-1252" in remark.text


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("nowhere", ReadOptions(), "nowhere does not exist"),
        ("", ReadOptions(), "no file in it"),
        ("/dev/null", ReadOptions(format="docx"), "'docx' is no format"),
        ("/dev/null", ReadOptions(lang="klingonisch"), "klingonisch"),
        ("/dev/null", ReadOptions(encoding="rot13"), "'rot13' is no encoding"),
    ],
)
def test_what_can_not_be_read_at_all_is_refused_at_once(
    tmp_path: Path, name: str, options: ReadOptions, reason: str
) -> None:
    with pytest.raises(BadInput, match=reason):
        read(str(tmp_path / name), options)


def test_the_fingerprint_changes_with_files_and_options_and_nothing_else(tmp_path: Path) -> None:
    one = lines(tmp_path / "1.jsonl", {"id": "a", "text": "x"})
    options = ReadOptions(fields={"text": "body"})
    before = fingerprint(str(tmp_path), options)
    assert fingerprint(str(tmp_path), ReadOptions(fields={"text": "body"})) == before
    assert fingerprint(str(tmp_path), ReadOptions(lang="de")) != before
    two = lines(tmp_path / "2.jsonl", {"id": "b", "text": "x"})
    assert fingerprint(str(tmp_path), options) != before
    two.unlink()
    assert fingerprint(str(tmp_path), options) == before
    one.write_text('{"id": "a", "text": "longer"}\n')
    assert fingerprint(str(tmp_path), options) != before
