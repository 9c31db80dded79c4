"""JSON lines and arrays, CSV and TSV: what is read, what is refused, and that the rest goes on."""

import errno
import gzip
import io
import json
import lzma
import os
import random
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from encoders.document import Document
from encoders.errors import BadInput, StoreError
from indexer.readers.formats import fingerprint, read
from indexer.readers.records.files import SourceFile
from indexer.readers.records.record import FIELDS_LIMIT
from indexer.readers.records.source import ReadOptions
from tests.indexer.readers.reading import (
    GAPS,
    IDS_FROM,
    MADE,
    A,
    B,
    Seen,
    X,
    documents,
    given,
    ids,
    memory_below,
    notes,
    readings,
    refusals,
    seen,
)
from trials import ROOT
from trials.command_attacks import PACKERS

LINE, NEXT = '{"id": "a", "text": "x"}\n', '{"id": "b", "text": "x"}\n'


@pytest.mark.parametrize(
    ("content", "options", "expected"),
    [
        (
            '{"id": "a", "lang": "pt-BR", "title": "Um\\n título", "text": "Um.\\nDois.", "label": "x", "tags": ["y"]}',
            {},
            [Document("a", "pt", "Um.\nDois.", "Um título", {"label": "x", "tags": ["y"]})],
        ),
        (
            '{"_id": 7, "body": "Text.", "cid": "c1"}',
            {"fields": {"id": "_id", "text": "body", "concept": "cid"}, "lang": "de"},
            [Document("7", "de", "Text.", "", {"concept": "c1"})],
        ),
        (
            '{"id": "a", "title": "\\ud83d", "text": "x\\ud800\\u0007\\r\\nw\\u2028v", "f": {"k\\udc00": ["\\udfff"]}}',
            {},
            [Document("a", "und", "x\ufffd\nw\nv", "\ufffd", {"f": {"k\ufffd": ["\ufffd"]}})],
        ),
        (LINE + '{"id": "b", "text": "x", "lang": "no"}', {}, [A, Document("b", "nb", "x")]),
        (
            LINE + '{"id": "b", "text": "x", "lang": "no"}',
            {"lang": "deu"},
            [Document("a", "de", "x"), Document("b", "nb", "x")],
        ),
        ("\ufeff" + LINE, {}, [A]),
        ('{"id": "a", "text": "caf\xe9"}'.encode("latin-1"), {"encoding": "latin-1"}, [Document("a", "und", "café")]),
        (f'{{"id": "a", "text": "{"wort " * 1_000_000}"}}', {}, [Document("a", "und", "wort " * 999_999 + "wort")]),
        (
            LINE + '{"key": "b", "text": "x"}',
            {"fields": {"id": "key"}},
            [("a.jsonl:1", "it has no id ('key'); say which field holds it with --field id=NAME"), B],
        ),
        (
            '{"id": "a", "title": NaN, "text": "x", "n": [1, -Infinity], "day": "NaT"}\n'
            '{"id": "b", "title": None, "text": "x", "day": NaT, "revision": NaN}\n',
            {},
            [Document("a", "und", "x", "", {"n": [1, None]}), B, ("a.jsonl", GAPS.format(6))],
        ),
        (
            '{"_id": "a", "docid": "c", "text": "x"}\n{"id": null, "_id": "b", "text": "x"}',
            {},
            [Document("a", "und", "x", "", {"docid": "c"}), B, ("a.jsonl", IDS_FROM.format("_id"))],
        ),
        ('{"doc_id": 1.0, "text": "a"}', {}, [X, ("a.jsonl", IDS_FROM.format("doc_id"))]),
        (
            '{"docno": "b", "text": "x", "id": NaN}',
            {},
            [B, ("a.jsonl", GAPS.format(1)), ("a.jsonl", IDS_FROM.format("docno"))],
        ),
        ('{"docid": "b", "text": "x", "id": "a"}', {}, [Document("a", "und", "x", "", {"docid": "b"})]),
        ('{"Id": "a", " TEXT\u200b": "x", "Lang": "DE"}', {}, [Document("a", "de", "x")]),
        (
            '{"id": "a", "title": ["Um", "dois"], "text": ["Um.", null, "Dois."], "lang": ["pt"], "revision": 2.0}',
            {},
            [Document("a", "pt", "Um.\n\nDois.", "Um dois", {}, 2)],
        ),
        (f"{LINE}{NEXT}".replace("\n", "\r"), {}, [A, B]),
        (f"{LINE}{NEXT}".replace("\n", "\r").encode("utf-16"), {}, [A, B]),
        (
            json.dumps({"docs": [{"id": "a", "text": "x"}]}, indent=1),
            {},
            [("a.jsonl:1", "it is one JSON object over several lines; write one object a line, as jq -c does")],
        ),
    ],
)
def test_json_lines_are_read(
    tmp_path: Path, content: str | bytes, options: dict[str, Any], expected: list[Seen]
) -> None:
    assert given(tmp_path / "a.jsonl", content, **options) == expected


@pytest.mark.parametrize("suffix", PACKERS)
def test_archives_are_read_by_their_first_bytes_and_zeros_between_their_parts_are_padding(
    tmp_path: Path, suffix: str
) -> None:
    for name in (f"a.jsonl.{suffix}", "not_named_so.jsonl"):
        for zeros in (0, 1, 100_000):
            packed = PACKERS[suffix](LINE.encode()) + b"\0" * zeros + PACKERS[suffix](NEXT.encode())
            assert given(tmp_path / name, packed) == [A, B]


def test_a_damaged_archive_keeps_what_stands_before_and_says_where_it_breaks(tmp_path: Path) -> None:
    blank_first = gzip.compress(b"\n") + gzip.compress(LINE.encode()) + gzip.compress(NEXT.encode())[:-9]
    assert given(tmp_path / "3.jsonl.gz", blank_first) == [
        A,
        ("3.jsonl.gz:2", "the gzip archive ends too early; get it again; what came before is kept"),
    ]
    garbage = bytearray(gzip.compress(LINE.encode() * 2000))
    garbage[12:40] = b"\xff" * 28
    (tmp_path / "1.jsonl.gz").write_bytes(garbage)
    (tmp_path / "2.jsonl.gz").write_text(LINE)
    assert seen(readings(tmp_path))[:3] == [
        ("1.jsonl.gz", "the gzip archive is broken here; get it again"),
        ("2.jsonl.gz", "it is named .gz but is not gzip; get it again"),
        A,
    ]


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_cut_archive_keeps_the_lines_before_the_cut(tmp_path: Path, suffix: str) -> None:
    noise = random.Random(0)  # it hardly compresses, so that a good part of the lines stands before the cut
    text = "".join(f'{{"id": "d{i}", "text": "{noise.randbytes(200).hex()}"}}\n' for i in range(3000)).encode()
    packed = PACKERS[suffix](text)
    found = given(tmp_path / "cut.jsonl", packed[: len(packed) * 3 // 4])
    ((place, reason),) = notes(found)
    assert len(found) > 100
    assert ids(found) == [f"d{i}" for i in range(len(found) - 1)]
    assert place == f"cut.jsonl:{len(found) - 1}"
    assert "ends too early" in reason


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_small_archive_of_a_large_file_takes_no_more_memory_than_the_file(tmp_path: Path, suffix: str) -> None:
    packed = tmp_path / f"a.jsonl.{suffix}"
    packed.write_bytes(PACKERS[suffix](b"\n" * (48 << 20) + LINE.encode()))
    with memory_below(16 << 20), SourceFile(packed, packed.name).open() as stream:
        assert sum(map(len, iter(lambda: stream.read1(1 << 20), b""))) == (48 << 20) + len(LINE)


def test_an_archive_that_asks_for_a_gigabyte_of_memory_is_refused(tmp_path: Path) -> None:
    packed = bytearray(lzma.compress(LINE.encode(), filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 4096}]))
    packed[16] = 36  # the size of the dictionary in the header of the block: 1 GB
    packed[20:24] = zlib.crc32(packed[12:20]).to_bytes(4, "little")
    refused = ("a.jsonl.xz", "the xz archive needs more than 128 MB of memory; unpack it first")
    assert given(tmp_path / "a.jsonl.xz", bytes(packed)) == [refused]


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
    with memory_below(6 * len(line) + (16 << 20)):
        found = given(tmp_path / "a.jsonl", line + NEXT)
    assert notes(found)[0][1].startswith(reason)
    assert documents(found) == [B]


def test_a_line_or_a_row_longer_than_the_bound_is_refused_and_the_next_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("records.files", "delimited"):
        monkeypatch.setattr(f"indexer.readers.{module}.RECORD_LIMIT", 1000)
    refused = ("a.jsonl:1", "the line has more than 64 MB; split the record")
    assert given(tmp_path / "a.jsonl", f'{{"id": "a", "text": "{"x" * 5000}"}}\n{NEXT}') == [refused, B]
    found = given(tmp_path / "a.csv", "id,text\na,x\n" + '"a\n",' * 999 + "\nb,x\n")
    assert documents(found) == [A, B]
    assert found[1] == ("a.csv:3", "the row can't be read (it has more than 0 MB); see to its quotes")


BAD: dict[str, list[str | bytes]] = {
    "not valid JSON": ['{"id": "x", "text": ', '{"id": "x", "text": Nothing}', f'{{"id": "x", "n": [{"NaT," * 99}1]}}'],
    "at its beginning; say --format": ["id,text"],
    "thousands of digits": [f'{{"id": "x", "text": "a", "n": {"1" * 5000}}}'],
    "nested too deeply": ["[" * 100_000],
    "too large to keep": [
        f'{{"id": "x", "text": "a", "n": {number}}}'
        for number in ("1e999", '{"m": [-1e999]}', "[18446744073709551616]", "-9223372036854775809")
    ],
    "JSON list": ['["x", "y"]'],
    "JSON int; a record is an object": ["42"],
    "no text": ['{"id": "x"}', '{"id": "x", "text": null}'],
    "title and text are empty": ['{"id": "x", "text": "  ", "title": "\\n"}', '{"id": "x", "text": "\\u0001\\u200b"}'],
    "id is empty": ['{"id": "", "text": "x"}', '{"id": " ", "text": "x"}'],
    "id is true or false": ['{"id": true, "text": "x"}'],
    "id is a number": ['{"id": 1.5, "text": "x"}', '{"id": 1e300, "text": "x"}'],
    "id is an array": ['{"id": ["x"], "text": "x"}'],
    "control characters": ['{"id": "a\\nb", "text": "x"}', '{"id": "a\\u0000", "text": "x"}'],
    "half a character": ['{"id": "a\\ud800", "text": "x"}'],
    "600 bytes; 512": [f'{{"id": "{"x" * 600}", "text": "x"}}', f'{{"id": "{"é" * 300}", "text": "x"}}'],
    "text is a number": ['{"id": "x", "text": 5}', '{"id": "x", "text": ["a", 5]}'],
    "text is an array": ['{"id": "x", "text": [["a"]]}'],
    "lang is an array": ['{"id": "x", "text": "a", "lang": ["de", "en"]}'],
    "title is an object": ['{"id": "x", "text": "a", "title": {}}'],
    "NUL": ['{"id": "x", "text": "a\\u0000b"}'],
    "'klingonisch' is no": ['{"id": "x", "text": "a", "lang": "klingonisch"}'],
    "lang is a number": ['{"id": "x", "text": "a", "lang": 7}'],
    "revision is '-1'": ['{"id": "x", "text": "a", "revision": -1}'],
    "revision is 'new'": ['{"id": "x", "text": "a", "revision": "new"}'],
}


@pytest.mark.parametrize("reason", BAD)
def test_a_bad_line_is_refused_by_file_and_line_and_the_rest_goes_on(tmp_path: Path, reason: str) -> None:
    path = tmp_path / "a.jsonl"
    bad = [line if isinstance(line, bytes) else line.encode() for line in BAD[reason]]
    path.write_bytes(b"\n".join([LINE.encode(), *bad, NEXT.encode()]))
    first, *found, last = readings(path)
    assert [first, last] == [A, B]
    assert [refusal.place for refusal in refusals(found)] == [f"{path}:{number + 3}" for number in range(len(bad))]
    assert all(reason in refusal.text for refusal in refusals(found))


def test_odd_ids_are_fine(tmp_path: Path) -> None:
    odd = ["a b", "a/b/c.txt", "http://x?y=1&z", "ü" * 256, "x" * 512]
    content = "".join(json.dumps({"id": doc_id, "text": "x"}) + "\n" for doc_id in odd)
    assert ids(given(tmp_path / "a.jsonl", content)) == odd


TRICKY = [{"id": "a", "text": 'a "quoted" \\ ], {'}, {"id": "b", "text": '[é] \\"', "tags": [["x"], {"y": 1}]}]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("ensure_ascii", [True, False])
@pytest.mark.parametrize("name", ["a.json", "a.jsonl.gz", "a"])
def test_a_json_array_is_read_like_json_lines(
    tmp_path: Path, indent: int | None, ensure_ascii: bool, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.readers.jsonl._CHUNK", 7)  # strings, escapes and characters are cut
    array = f"\n {json.dumps(TRICKY, indent=indent, ensure_ascii=ensure_ascii)}\n".encode("utf-8-sig")
    found = given(tmp_path / name, gzip.compress(array) if name.endswith("gz") else array)
    assert found == given(tmp_path / "lines.jsonl", "".join(f"{json.dumps(record)}\n" for record in TRICKY))
    assert [document.place for document in documents(found)] == [f"{tmp_path / name}#1", f"{tmp_path / name}#2"]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (f"[{LINE}, 5, {NEXT}]", [A, ("a.json#2", "it is a JSON int; a record is an object with a text"), B]),
        (f'[{LINE}, {{"id": }}, {NEXT}]', [A, ("a.json#2", "it is not valid JSON: Expecting value (character 9)"), B]),
        (f"[{LINE}, {NEXT[:-8]}", [A, ("a.json", "its array does not end; what came before is kept; get it again")]),
        (
            f"[{LINE}]\n{NEXT}",
            [A, ("a.json", "more stands after the end of its array; write one object a line, as jq -c does")],
        ),
        ("[\n]\n", [("a.json", "its array is empty")]),
    ],
)
def test_what_is_wrong_in_an_array_is_said_and_its_other_records_are_read(
    tmp_path: Path, array: str, expected: list[Seen]
) -> None:
    assert given(tmp_path / "a.json", array) == expected


def test_a_large_array_takes_no_more_memory_than_its_records(tmp_path: Path) -> None:
    record = json.dumps({"id": "a", "text": "x" * 10_000})
    (tmp_path / "a.json").write_text(f"[{','.join([record] * 2000)}]")
    with memory_below(4 << 20):
        assert sum(1 for _ in read(str(tmp_path / "a.json"), ReadOptions())) == 2000


def test_records_without_an_id_get_one_of_file_and_line_which_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.csv").write_text('text,lang\n"x\ny",de\nz,en\n')
    (tmp_path / "b.jsonl").write_text(f'{{"text": "x"}}\n{LINE}{{"id": null, "text": "x"}}\n')
    (tmp_path / "c.json").write_text('[{"text": "x"}]')
    found = seen(readings(tmp_path))
    made = [doc_id.removeprefix(f"{tmp_path.name}/") for doc_id in ids(found)]
    assert made == ["b.jsonl:1", "a", "b.jsonl:3", "c.json#1", "sub/a.csv:2", "sub/a.csv:4"]
    told = notes(found)
    assert ([name for name, _ in told], told[0][1]) == (["b.jsonl", "c.json", "a.csv"], MADE)


def test_standard_input_is_json_lines_and_can_be_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def give(data: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))

    give(b'{"id": "a", "text": "x"}\n{"text": "y"}\n{broken\n')
    first, again = (list(read("-", ReadOptions())) for _ in range(2))
    assert first == again
    assert ids(first) == ["a", "stdin-d03a262e:2"]
    assert [refusal.place for refusal in refusals(first)] == ["standard input:3"]
    before = fingerprint("-", ReadOptions())
    give(b'{"id": "a", "text": "x"}\n{"text": "y"}\n{broken\n')
    assert fingerprint("-", ReadOptions()) == before
    give(b'{"id": "a", "text": "x"}\n{"text": "z"}\n')
    assert not {"", *ids(first)[1:]} & set(ids(read("-", ReadOptions())))
    give(gzip.compress(b"id,text\nb,x\n"))
    assert fingerprint("-", ReadOptions()) != before
    assert list(read("-", ReadOptions(format="csv"))) == [B]


def test_what_standard_input_gave_is_deleted_with_the_process(tmp_path: Path) -> None:
    program = (
        "from indexer.readers.formats import read; from indexer.readers.records.source import ReadOptions; import os;"
        f"print(len(list(read('-', ReadOptions()))), len(os.listdir({str(tmp_path)!r})))"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    output = subprocess.check_output([sys.executable, "-c", program], input=LINE.encode(), env=environment)
    assert (output.split(), list(tmp_path.iterdir())) == ([b"1", b"1"], [])


def test_standard_input_that_does_not_fit_says_how_to_name_another_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        def read(self, _size: int | None = -1) -> bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(Full()))
    with pytest.raises(StoreError, match=r"No space left on device.*TMPDIR"):
        read("-", ReadOptions())


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
    one, two, options = tmp_path / "1.jsonl", tmp_path / "2.jsonl", ReadOptions(fields={"text": "body"})
    one.write_text(LINE)
    before = fingerprint(str(tmp_path), options)
    assert fingerprint(str(tmp_path), ReadOptions(fields={"text": "body"})) == before
    assert fingerprint(str(tmp_path), ReadOptions(lang="de")) != before
    two.write_text(NEXT)
    assert fingerprint(str(tmp_path), options) != before
    two.unlink()
    assert fingerprint(str(tmp_path), options) == before
    one.write_text('{"id": "a", "text": "longer"}\n')
    assert fingerprint(str(tmp_path), options) != before


QUOTES = "the row can't be read (',' expected after '\"'); see to its quotes"
MANY = "the row has 4 columns and the header 3; take the delimiter out of the values, or quote them in a CSV file"
MISSING = "its header has no column '{}' (it has key, body); name the column: --field {}=COLUMN"
NO_TEXT = "its header has no column 'text' (it has {}); name the column: --field text=COLUMN"
ABOVE = "{} above the header: left out"
AGAIN = "the row is the header again, as in joined files; take it out"
TWICE = "its header names the column 'text' more than once; rename all but one"


@pytest.mark.parametrize(
    ("content", "options", "expected"),
    [
        ('id,text\n1,"a, ""b""\nc"\n2,d\n', {}, [Document("1", "und", 'a, "b"\nc'), Document("2", "und", "d")]),
        ("id;text\n1;a, b\n", {}, [Document("1", "und", "a, b")]),
        (f"id,text\n1,{'x ' * 2_500_000}\n", {}, [Document("1", "und", "x " * 2_499_999 + "x")]),
        ("id,text,label\n1,a,\nc,d,e", {}, [X, Document("c", "und", "d", "", {"label": "e"})]),
        ("id,text\n1,a\n,b\n", {}, [X, ("a.csv:3", "its id is empty")]),
        ('id,text\n1,a\n2,"open\n3,"c\nd"\nb,x', {}, [X, ("a.csv:3", QUOTES), Document("3", "und", "c\nd"), B]),
        ('id,text\n1,a\n2,"is" it\n3,"c\nd"\nb,x', {}, [X, ("a.csv:3", QUOTES), Document("3", "und", "c\nd"), B]),
        ("id,lang,text\n1,de\n1,,a\n", {}, [("a.csv:2", "the row has 2 columns and the header 3; fill them"), X]),
        ("id,lang,text\n3,de,a,b\n1,,a\n", {}, [("a.csv:2", MANY), X]),
        ("id,lang,text\n4,de,\n1,,a\n", {}, [("a.csv:2", "its title and text are empty"), X]),
        ("key,body\n1,a\n", {"fields": {"id": "key", "text": "body"}}, [X]),
        ("key,body\n1,a\n", {"fields": {"id": "key"}}, [("a.csv:1", MISSING.format("text", "text"))]),
        ("key,body\n1,a\n", {"fields": {"id": "_id", "text": "body"}}, [("a.csv:1", MISSING.format("_id", "id"))]),
        ("id,text,text,,\n1,a,b,,\n", {}, [("a.csv:1", TWICE)]),
        ("id,text,,\n1,a,,\n\ufeffid,text,,\n", {}, [X, ("a.csv:3", AGAIN)]),
        (
            "id,text\n1,a,, \n\n,\n , \n1,a,b\n",
            {},
            [X, ("a.csv:6", MANY.replace("4", "3").replace("header 3", "header 2"))],
        ),
        (",id,text\n0,1,a\n", {}, [X, ("a.csv", "its columns without a name are left out")]),
        ("\ufeffsep=;\r\nid;text\r\n1;a, b\r\n", {}, [Document("1", "und", "a, b")]),
        ('"SEP=|"\nid|text\n1|a,;b\n', {}, [Document("1", "und", "a,;b")]),
        ("id;text;a, b, c, d\n1;a;1, 2\n", {}, [Document("1", "und", "a", "", {"a, b, c, d": "1, 2"})]),
        ("id,text\r1,a\rb,x\r", {}, [X, B]),
        ('id,text\r1,"a\rb"\rb,x\n', {}, [Document("1", "und", "a\nb"), B]),
        ("ID , LANG\xa0,\u200bText\u200b\n1,DE,a\n", {}, [Document("1", "de", "a")]),
        ('id, "text"\n1, "a, b"\n', {}, [Document("1", "und", "a, b")]),
        ("text\na, b\n", {}, [Document("a.csv:2", "und", "a, b"), ("a.csv", MADE)]),
        ("Sales: May, June\n\nid,text,lang\n1,a,\n", {}, [X, ("a.csv", ABOVE.format("1 line"))]),
        ("List of May;;\nby us;;\nNr;Text;\n1;a;\n", {"fields": {"id": "nr"}}, [X, ("a.csv", ABOVE.format("2 lines"))]),
        ("1,a\nb,x\n", {}, [("a.csv:1", NO_TEXT.format("1, a"))]),
        ("id,text\n\n", {}, [("a.csv", "it has a header and no row that can be read")]),
        ("\nkey,body\n1,the text\n", {}, [("a.csv:2", NO_TEXT.format("key, body"))]),
        ("DocID,text\n1,a\n", {}, [X, ("a.csv", IDS_FROM.format("DocID"))]),
        (
            "id,lang,title,text,n\n1,,NaN,a,-inf\nb,nan,None,x,NaT\n",
            {},
            [X, Document("b", "nan", "x"), ("a.csv", GAPS.format(4))],
        ),
        *((f"id,text\n1,{q}a\rb{q}\n", {}, [Document("1", "und", "a\nb")]) for q in ("", '"')),
    ],
)
def test_rows_are_read(tmp_path: Path, content: str | bytes, options: dict[str, Any], expected: list[Seen]) -> None:
    assert given(tmp_path / "a.csv", content, **options) == expected
