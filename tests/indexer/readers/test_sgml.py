"""TREC and CLEF markup. The files under ``clef/`` have the newspapers' shapes and encodings, and invented text."""

import csv
import gzip
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from encoders.document import Document
from indexer.readers.formats import read
from indexer.readers.newspapers.clef import newspaper
from indexer.readers.records.source import ReadOptions, Refusal, Remark
from tests.indexer.readers.reading import documents, readings, remarks

CLEF = Path(__file__).parent / "clef"


def one(file: str, **options: Any) -> Document:
    return documents(readings(CLEF / file, **options))[0]


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


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


def test_no_headline_present_is_no_headline() -> None:
    assert documents(readings(CLEF / "latimes94" / "la010194"))[1].title == ""


def test_agz_of_1995_holds_title_and_text_in_one_tag() -> None:
    document = documents(readings(CLEF / "agz"))[1]
    assert document.title == "Il postino va in bicicletta"
    assert (
        document.text == "Bellinzona, 21 mag (ats) Il postino ha venduto l'automobile.\nLa salita, dice, è più corta."
    )


def test_what_is_about_an_article_goes_into_its_fields_and_not_into_its_text() -> None:
    document = one("glasgow/gh950103.sgml")
    assert document.fields["byline"] == "Una Brae"
    assert document.fields["date"] == "950103"
    assert "Una Brae" not in document.content
    assert "Foto" not in one("nrc/nh19940103.sgml").content


def test_both_dutch_papers_are_read_from_one_folder() -> None:
    found = documents(readings(CLEF / "nrc"))
    assert [(document.doc_id, document.lang, document.title) for document in found] == [
        ("NH19940103-0001", "nl", "Sluiswachter vindt tweede sleutel"),
        ("AD19940103-0007", "nl", "Fiets rijdt alleen naar huis"),
    ]


def test_the_option_for_the_language_comes_before_the_newspapers() -> None:
    assert one("sda/sda940101.sgml", lang="gsw").lang == "gsw"


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


def test_a_record_ends_where_the_next_begins(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.sgml",
        "<DOC><DOCNO>1</DOCNO><TEXT>One\n\n<DOC>\n<DOCNO>2</DOCNO><TEXT>Two</TEXT>\n<DOC><DOCNO>3</DOCNO><TEXT>Three",
    )
    found = readings(path)
    assert [(document.doc_id, document.text) for document in documents(found)] == [
        ("1", "One"),
        ("2", "Two"),
        ("3", "Three"),
    ]
    assert remarks(found) == ["records have no </DOC>; they end where the next begins"]


def test_a_record_whose_start_tag_is_lost_is_read_and_stray_text_is_said(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.sgml",
        "<DOCNO>1</DOCNO><TEXT>One</TEXT></DOC>\nAd: buy ink\n<DOC><DOCNO>2</DOCNO><TEXT>Two</TEXT></DOC>",
    )
    found = readings(path, format="trec")
    assert [document.text for document in documents(found)] == ["One", "Two"]
    assert remarks(found) == ["text stands outside any <DOC> and was left out"]


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        pytest.param(
            '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE DOCS SYSTEM "x.dtd">\n<DOCS>\n'
            "<DOC><DOCNO>1</DOCNO><TEXT>One<!-- not\nthis --> <![CDATA[a < b]]></TEXT></DOC>\n</DOCS>\x1a\n",
            Document("1", "und", "One a < b"),
            id="root tags, declarations and comments are no text",
        ),
        pytest.param(
            "<DOC><DOCNO>1</DOCNO>"
            "<TEXT>a < b > c, <3 & R&B, <ann@example.org>, &unknown; &amp; &#233; &copy</TEXT></DOC>",
            Document("1", "und", "a < b > c, <3 & R&B, <ann@example.org>, &unknown; & é &copy"),
            id="what only looks like markup is text",
        ),
        pytest.param(
            "<DOC><DOCNO>1</DOCNO><TEXT><P>One <B>bold</B> and <F P=105>two</F>.<P>Next</DATE> line.</TEXT>"
            "<DATE>1994</DATE></DOC>",
            Document("1", "und", "One bold and two .\nNext line.", fields={"date": "1994"}),
            id="inline tags do not cut a text",
        ),
        pytest.param(
            '<DOC id="NYT_1" lang="en-US" type="story"><HEADLINE>H</HEADLINE><TEXT>x</TEXT></DOC>',
            Document("NYT_1", "en", "x", "H"),
            id="id and language may stand in the doc tag",
        ),
    ],
)
def test_markup_is_read(tmp_path: Path, markup: str, expected: Document) -> None:
    assert readings(write(tmp_path / "a.sgml", markup)) == [expected]


@pytest.mark.parametrize("piece", ["<!--", "<![CDATA[", "<a ", "<", "&", "<a b=", " ", "<P>", "\n", "&amp", '<x y="'])
def test_markup_that_never_closes_is_read_in_no_time(tmp_path: Path, piece: str) -> None:
    text = f"<DOC><DOCNO>1</DOCNO><TEXT>word {piece * (1_000_000 // len(piece))}</TEXT></DOC>"
    start = time.process_time()
    assert len(documents(readings(write(tmp_path / "a.sgml", text)))) == 1
    assert time.process_time() - start < 20


def test_half_characters_do_not_come_in_as_entities(tmp_path: Path) -> None:
    path = write(tmp_path / "a.sgml", "<DOC><DOCNO>1</DOCNO><TEXT>x&#xD800;&#0;&#99999999;y</TEXT></DOC>")
    documents(readings(path))[0].text.encode("utf-8")


def test_an_unknown_tag_set_is_read_and_said(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.sgml", "<DOC><DOCNO>1</DOCNO><DATE>94</DATE><SUMMARY>Short.</SUMMARY><STORY>Long.</STORY></DOC>"
    )
    document, remark = readings(path)
    assert isinstance(document, Document)
    assert document.text == "Short.\nLong."
    assert isinstance(remark, Remark)
    assert "taken from <SUMMARY>, <STORY>" in remark.text
    (document,) = documents(readings(path, fields={"text": "story", "title": "SUMMARY", "day": "DATE"}))
    assert (document.title, document.text, document.fields) == ("Short.", "Long.", {"day": "94"})


def test_a_record_without_id_or_text_is_refused_by_line_and_the_rest_goes_on(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.sgml",
        "<DOC>\n<TEXT>no id</TEXT>\n</DOC>\n<DOC>\n<DOCNO>2</DOCNO>\n<TEXT> </TEXT></DOC>\n"
        "<DOC><DOCNO>3</DOCNO><TEXT>x</TEXT></DOC>",
    )
    first, second, third = readings(path)
    assert isinstance(first, Refusal)
    assert isinstance(second, Refusal)
    assert (first.place, first.text[:12]) == (f"{path}:1", "it has no id")
    assert (second.place, second.doc_id, second.text) == (f"{path}:4", "2", "its title and text are empty")
    assert third == Document("3", "und", "x")


def test_a_file_without_records_is_refused(tmp_path: Path) -> None:
    (refusal,) = readings(write(tmp_path / "a.sgml", "<root>\n</root>"))
    assert isinstance(refusal, Refusal)
    assert "no <DOC>" in refusal.text


def test_the_stated_and_the_declared_encoding_are_used(tmp_path: Path) -> None:
    record = "<DOC><DOCNO>1</DOCNO><TEXT>Łódź</TEXT></DOC>"
    stated = write(tmp_path / "a.sgml", record, "iso-8859-2")
    assert documents(readings(stated, encoding="iso-8859-2"))[0].text == "Łódź"
    declared = write(tmp_path / "b.sgml", f'<?xml version="1.0" encoding="ISO-8859-2"?>{record}', "iso-8859-2")
    found = readings(declared)
    assert documents(found)[0].text == "Łódź"
    assert "ISO-8859-2" in remarks(found)[0]


def test_cyrillic_is_recognised_where_nothing_names_the_language(tmp_path: Path) -> None:
    text = "Снег выпал дважды, а потом растаял."
    for encoding in ("koi8-r", "windows-1251"):
        path = write(tmp_path / "x.sgml", f"<DOC><DOCNO>1</DOCNO><TEXT>{text}</TEXT></DOC>", encoding)
        assert documents(readings(path))[0].text == text


def test_a_cut_archive_keeps_the_records_before_the_cut(tmp_path: Path) -> None:
    text = "".join(f"<DOC>\n<DOCNO>D{i}</DOCNO>\n<TEXT>{i * 7919**9}</TEXT>\n</DOC>\n" for i in range(5000)).encode()
    packed = gzip.compress(text)
    (tmp_path / "a.sgml.gz").write_bytes(packed[: len(packed) // 2])
    found = readings(tmp_path / "a.sgml.gz")
    refusal = found[-1]
    assert len(found) > 1000
    assert isinstance(refusal, Refusal)
    assert refusal.place == f"{tmp_path / 'a.sgml.gz'}:{4 * (len(found) - 1) + 1}"


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    record = f"<DOC>\n<DOCNO>D</DOCNO>\n<TEXT>{'word ' * 200}</TEXT>\n</DOC>\n"
    path = write(tmp_path / "a.sgml", record * 2000)
    tracemalloc.start()
    count = sum(isinstance(item, Document) for item in read(str(path), ReadOptions()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 2000
    assert path.stat().st_size > 2_000_000
    assert peak < 1_000_000


def test_a_record_of_one_5_mb_line_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.sgml", f"<DOC><DOCNO>1</DOCNO><TEXT>{'word ' * 1_000_000}</TEXT></DOC>")
    assert len(documents(readings(path))[0].text) == 4_999_999


def test_a_record_that_never_ends_is_refused_and_the_next_one_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.readers.newspapers.sgml.RECORD_LIMIT", 1 << 20)
    path = write(
        tmp_path / "a.sgml",
        f"<DOC>\n<DOCNO>1</DOCNO><TEXT>{'word ' * 900_000}\n<DOC><DOCNO>2</DOCNO><TEXT>x</TEXT></DOC>",
    )
    refusal, document = readings(path)
    assert isinstance(refusal, Refusal)
    assert refusal.place == f"{path}:1"
    assert document == Document("2", "und", "x")
