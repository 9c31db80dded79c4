"""CSV and TSV: what is read, what is refused, and that the rest goes on."""

from pathlib import Path
from typing import Any

import pytest

from encoders.document import Document
from tests.indexer.readers.reading import GAPS, IDS_FROM, MADE, B, Seen, X, given

QUOTES = "the row can't be read (',' expected after '\"'); see to its quotes"
MANY = "the row has 4 columns and the header 3; take the delimiter out of the values, or quote them in a CSV file"
MISSING = "its header has no column '{}' (it has key, body); name the column: --field {}=COLUMN"
NO_TEXT = "its header has no column 'text' (it has {}); name the column: --field text=COLUMN"
ABOVE = "{} above the header: left out"
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
        ("id,text,,\n1,a,,\n", {}, [X]),
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
        ("\nkey,body\n1,the text\n", {}, [("a.csv:2", NO_TEXT.format("key, body"))]),
        ("DocID,text\n1,a\n", {}, [X, ("a.csv", IDS_FROM.format("DocID"))]),
        (
            "id,lang,title,text,n\n1,,NaN,a,-inf\nb,nan,None,x,NaT\n",
            {},
            [X, Document("b", "nan", "x"), ("a.csv", GAPS.format(4))],
        ),
    ],
)
def test_rows_are_read(tmp_path: Path, content: str | bytes, options: dict[str, Any], expected: list[Seen]) -> None:
    assert given(tmp_path / "a.csv", content, **options) == expected


def test_quotes_in_tsv_are_letters(tmp_path: Path) -> None:
    expected = [Document("1", "und", '"Ja'), Document("2", "und", 'nein"')]
    assert given(tmp_path / "a.tsv", 'id\ttext\n1\t"Ja\n2\tnein"\n') == expected
