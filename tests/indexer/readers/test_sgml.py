"""TREC and CLEF markup. The files under ``clef/`` have the newspapers' shapes and encodings, and invented text."""

import csv
import gzip
import time
from pathlib import Path

import pytest

from encoders.document import Document
from indexer.readers.formats import read
from indexer.readers.newspapers.clef import newspaper
from indexer.readers.records.source import ReadOptions, Refusal
from tests.indexer.readers.reading import Seen, documents, given, memory_below, notes, readings, remarks

CLEF = Path(__file__).parent / "clef"


def record(number: int, text: str) -> str:
    return f"<DOC><DOCNO>{number}</DOCNO><TEXT>{text}</TEXT></DOC>"


def expected() -> list[dict[str, str]]:
    """What each newspaper's first document must be, from the table beside the files."""
    with (CLEF / "expected.tsv").open(encoding="utf-8", newline="") as table:
        rows = csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [{name: value.replace("\\n", "\n") for name, value in row.items()} for row in rows]


@pytest.mark.parametrize("row", expected(), ids=lambda row: row["file"])
def test_each_newspaper_is_read_with_its_title_text_language_and_encoding(row: dict[str, str]) -> None:
    found = readings(CLEF / row["file"])
    document = documents(found)[0]
    assert (document.doc_id, document.lang, document.title) == (row["doc_id"], row["lang"], row["title"])
    assert document.text.startswith(row["begins"])
    assert document.text.endswith(row["ends"])
    taken_for = f"records are not UTF-8 and taken for {row['encoding']}; if that is wrong, say --encoding"
    assert remarks(found) == ([taken_for] if row["encoding"] else [])
    assert not [item for item in found if isinstance(item, Refusal)]


def test_newspapers_have_what_is_theirs_alone() -> None:
    assert documents(readings(CLEF / "latimes94" / "la010194"))[1].title == ""  # "No Headline Present"
    agz = documents(readings(CLEF / "agz"))[1]  # of 1995, with title and text in one tag
    assert (agz.title, agz.text) == (
        "Il postino va in bicicletta",
        "Bellinzona, 21 mag (ats) Il postino ha venduto l'automobile.\nLa salita, dice, è più corta.",
    )
    glasgow = documents(readings(CLEF / "glasgow/gh950103.sgml"))[0]
    assert (glasgow.fields["byline"], glasgow.fields["date"]) == ("Una Brae", "950103")
    assert "Una Brae" not in glasgow.content
    dutch = documents(readings(CLEF / "nrc"))
    assert [(document.doc_id, document.lang, document.title) for document in dutch] == [
        ("NH19940103-0001", "nl", "Sluiswachter vindt tweede sleutel"),
        ("AD19940103-0007", "nl", "Fiets rijdt alleen naar huis"),
    ]
    assert "Foto" not in documents(readings(CLEF / "nrc/nh19940103.sgml"))[0].content
    assert documents(readings(CLEF / "sda/sda940101.sgml", lang="gsw"))[0].lang == "gsw"


@pytest.mark.parametrize(
    ("doc_id", "folder", "lang"),
    [
        ("FR940101-000000", "", "de"),
        ("FR940104-0-00001", "", None),  # TREC's Federal Register
        ("LA010194-0001", "", "en"),
        ("LATER-1", "", None),
        ("ADAM", "", None),
        ("whatever", "SDA1994", "de"),
        ("whatever", "izvestia1995", "ru"),
        ("whatever", "TT95", "sv"),
        ("whatever", "TTT", None),
    ],
)
def test_the_newspaper_is_known_by_its_ids_or_its_folder(doc_id: str, folder: str, lang: str | None) -> None:
    paper = newspaper(doc_id, Path("disk") / folder / "file.sgml")
    assert (paper.lang if paper else None) == lang


DECLARED = '<?xml version="1.0" encoding="ISO-8859-2"?>' + record(1, "Łódź")
UNKNOWN = "<DOC><DOCNO>1</DOCNO><DATE>94</DATE><SUMMARY>Short.</SUMMARY><STORY>Long.</STORY></DOC>"
TAKEN = "texts stand in none of <TEXT>, <TX>, <TE> and were taken from <SUMMARY>, <STORY>; else say --field text=TAG"
ONE, TWO = Document("1", "und", "One"), Document("2", "und", "Two")


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        (  # root tags, declarations and comments are no text
            '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE DOCS SYSTEM "x.dtd">\n<DOCS>\n'
            + record(1, "One<!-- not\nthis --> <![CDATA[a < b]]>")
            + "\n</DOCS>\x1a\n",
            [Document("1", "und", "One a < b")],
        ),
        (  # what only looks like markup is text
            record(1, "a < b > c, <3 & R&B, <ann@example.org>, &unknown; &amp; &#233; &copy"),
            [Document("1", "und", "a < b > c, <3 & R&B, <ann@example.org>, &unknown; & é &copy")],
        ),
        (  # inline tags do not cut a text
            "<DOC><DOCNO>1</DOCNO><TEXT><P>One <B>bold</B> and <F P=105>two</F>.<P>Next</DATE> line.</TEXT>"
            "<DATE>1994</DATE></DOC>",
            [Document("1", "und", "One bold and two .\nNext line.", fields={"date": "1994"})],
        ),
        (  # id and language may stand in the doc tag
            '<DOC id="NYT_1" lang="en-US" type="story"><HEADLINE>H</HEADLINE><TEXT>x</TEXT></DOC>',
            [Document("NYT_1", "en", "x", "H")],
        ),
        (record(1, "x&#xD800;&#0;&#99999999;y"), [Document("1", "und", "x\ufffd\ufffd&#99999999;y")]),
        (
            "<DOC><DOCNO>1</DOCNO><TEXT>One\n\n<DOC>\n<DOCNO>2</DOCNO><TEXT>Two</TEXT>\n",
            [ONE, TWO, ("a.sgml", "records have no </DOC>; they end where the next begins")],
        ),
        (UNKNOWN, [Document("1", "und", "Short.\nLong.", fields={"date": "94"}), ("a.sgml", TAKEN)]),
        (
            f"<DOC>\n<TEXT>no id</TEXT>\n</DOC>\n{record(2, ' ')}\n{record(1, 'One')}",
            [
                ("a.sgml:1", "it has no id; say which field holds it with --field id=NAME"),
                ("a.sgml:4", "its title and text are empty"),
                ONE,
            ],
        ),
        ("<root>\n</root>", [("a.sgml", "it holds no <DOC> record; say --format if it is of another format")]),
        (
            DECLARED.encode("iso-8859-2"),
            [
                Document("1", "und", "Łódź"),
                ("a.sgml", "records are not UTF-8 and taken for ISO-8859-2; if that is wrong, say --encoding"),
            ],
        ),
        (record(1, "word " * 1_000_000), [Document("1", "und", "word " * 999_999 + "word")]),
    ],
)
def test_markup_is_read(tmp_path: Path, markup: str | bytes, expected: list[Seen]) -> None:
    assert given(tmp_path / "a.sgml", markup) == expected


def test_format_fields_and_encoding_can_be_said(tmp_path: Path) -> None:
    path = tmp_path / "a.sgml"
    lost = f"<DOCNO>1</DOCNO><TEXT>One</TEXT></DOC>\nAd: buy ink\n{record(2, 'Two')}"  # the first start tag is
    stray = ("a.sgml", "text stands outside any <DOC> and was left out")
    assert given(path, lost, format="trec") == [ONE, TWO, stray]
    fields = {"text": "story", "title": "SUMMARY", "day": "DATE"}
    assert given(path, UNKNOWN, fields=fields) == [Document("1", "und", "Long.", "Short.", {"day": "94"})]
    stated = given(path, record(1, "Łódź").encode("iso-8859-2"), encoding="iso-8859-2")
    assert documents(stated) == [Document("1", "und", "Łódź")]


@pytest.mark.parametrize("encoding", ["koi8-r", "windows-1251"])
def test_cyrillic_is_recognised_where_nothing_names_the_language(tmp_path: Path, encoding: str) -> None:
    text = "Снег выпал дважды, а потом растаял."
    assert documents(given(tmp_path / "x.sgml", record(1, text).encode(encoding))) == [Document("1", "und", text)]


@pytest.mark.parametrize("piece", ["<!--", "<![CDATA[", "<a ", "<", "&", "<a b=", " ", "<P>", "\n", "&amp", '<x y="'])
def test_markup_that_never_closes_is_read_in_no_time(tmp_path: Path, piece: str) -> None:
    start = time.process_time()
    assert len(documents(given(tmp_path / "a.sgml", record(1, f"word {piece * (300_000 // len(piece))}")))) == 1
    assert time.process_time() - start < 6


def test_a_cut_archive_keeps_the_records_before_the_cut(tmp_path: Path) -> None:
    text = "".join(f"<DOC>\n<DOCNO>D{i}</DOCNO>\n<TEXT>{i * 7919**9}</TEXT>\n</DOC>\n" for i in range(5000)).encode()
    packed = gzip.compress(text)
    found = given(tmp_path / "a.sgml.gz", packed[: len(packed) // 2])
    assert len(kept := documents(found)) > 1000
    assert [place for place, _ in notes(found)] == [f"a.sgml.gz:{4 * len(kept) + 1}"]


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.sgml"
    path.write_text(record(1, "word " * 400) * 1000)
    with memory_below(1_000_000):
        assert sum(isinstance(item, Document) for item in read(str(path), ReadOptions())) == 1000
    assert path.stat().st_size > 2_000_000


def test_a_record_that_never_ends_is_refused_and_the_next_one_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.readers.newspapers.sgml.RECORD_LIMIT", 1 << 20)
    endless = f"<DOC>\n<DOCNO>1</DOCNO><TEXT>{'word ' * 900_000}\n"
    found = given(tmp_path / "a.sgml", endless + record(2, "Two"))
    assert [place for place, _ in notes(found)] == ["a.sgml:1"]
    assert documents(found) == [TWO]
