"""Data of shared tasks: TREC and CLEF, WMT16's sites, news commentary, JRC-Acquis, ir_datasets.

The files under ``clef/`` have the newspapers' shapes and encodings, and invented text."""

import base64
import csv
import gzip
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from encoders.document import Document
from encoders.errors import BadInput, MissingPart
from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from indexer.index_sources import index
from indexer.readers.formats import fingerprint, read
from indexer.readers.newspapers.sgml import newspaper
from indexer.readers.records.source import ReadOptions, Refusal
from tests.indexer.readers.reading import Seen, documents, given, memory_below, notes, readings, remarks, seen

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
    taken_for = f"it is not UTF-8 and taken for {row['encoding']}; if that is wrong, say --encoding"
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
    assert "Foto" not in documents(readings(CLEF / "nrc/nh19940103.sgml"))[0].content
    assert documents(readings(CLEF / "sda/sda940101.sgml", lang="gsw"))[0].lang == "gsw"


@pytest.mark.parametrize(
    ("lang", "papers"),
    [
        ("de", [("FR940101-000000", ""), ("whatever", "SDA1994")]),
        ("en", [("LA010194-0001", "")]),
        ("ru", [("whatever", "izvestia1995")]),
        ("sv", [("whatever", "TT95")]),
        (None, [("FR940104-0-00001", ""), ("LATER-1", ""), ("ADAM", ""), ("whatever", "TTT")]),  # one TREC's, of a law
    ],
)
def test_the_newspaper_is_known_by_its_ids_or_its_folder(lang: str | None, papers: list[tuple[str, str]]) -> None:
    for doc_id, folder in papers:
        paper = newspaper(doc_id, Path("disk") / folder / "file.sgml")
        assert (paper.lang if paper else None) == lang, doc_id


DECLARED = '<?xml version="1.0" encoding="ISO-8859-2"?>' + record(1, "Łódź")
IN_TAG = '<DOC id="NYT_1" lang="en-US" type="story"><HEADLINE>H</HEADLINE><TEXT>x</TEXT></DOC>'
UNKNOWN = "<DOC><DOCNO>1</DOCNO><DATE>94</DATE><SUMMARY>Short.</SUMMARY><STORY>Long.</STORY></DOC>"
TAKEN = "texts stand in none of <TEXT>, <TX>, <TE> and were taken from <STORY>; else say --field text=TAG"
WEB = (
    "<DOC><DOCNO>1</DOCNO><DOCHDR>\nhttp://example.org/\nHTTP/1.1 200 OK\n</DOCHDR>\n<HTML lang='de'><HEAD><TITLE>Eis"
    "</TITLE><STYLE>p {}</STYLE></HEAD><BODY><SCRIPT>var x = 1</SCRIPT><P>Ein Schiff.</P></BODY></HTML></DOC>"
)
RULES = (
    "<DOC><DOCNO>1</DOCNO><TEXT><USDEPT>Ports</USDEPT><DOCTITLE>Rules</DOCTITLE><SUMMARY>Ice.</SUMMARY>"
    "<SUPPLEM>They apply.</SUPPLEM></TEXT></DOC>"
)
COUNTRY = (
    "the language {} is taken for a country's code, and read as {!r}; if that is wrong, say --field lang=none "
    "--lang LANGUAGE"
)
CODES = {"CH": "zh-Hant", "KR": "ko", "JP": "ja", "CN": "zh", "CZ": "cs", "GR": "el", "DK": "da", "SE": "sv"}


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
        (IN_TAG, [Document("NYT_1", "en", "x", "H")]),
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
        *(  # AP, the Wall Street Journal, the Mercury News, Ziff
            (
                f"<DOC><DOCNO>1</DOCNO><{title}>H\n<DD>94</DD><{lead}>L</{lead}><TEXT>x</TEXT></DOC>",
                [Document("1", "und", "L\nx", "H", {"dd": "94"})],
            )
            for title, lead in (("HEAD", "LEAD"), ("HL", "LP"), ("HEADLINE", "LEADPARA"), ("TITLE", "SUMMARY"))
        ),
        ("<DOC><DOCNO>1</DOCNO><HL>H</HL><LP>L</LP></DOC>", [Document("1", "und", "L", "H")]),
        (RULES, [Document("1", "und", "Ice.\nPorts\nThey apply.", "Rules")]),
        (WEB, [Document("1", "de", "Ein Schiff.", "Eis")]),
        (WEB.replace("</DOCNO>", "</DOCNO><LANG>fr</LANG><TEXT>"), [Document("1", "fr", "Ein Schiff.", "Eis")]),
        *(  # NTCIR's codes, and countries
            (
                f"<DOC><DOCNO>1</DOCNO><LANG>{code}</LANG><TEXT>x</TEXT></DOC>",
                [Document("1", lang, "x"), ("a.sgml", COUNTRY.format(code, lang))],
            )
            for code, lang in CODES.items()
        ),
        ("<root>\n</root>", [("a.sgml", "it holds no <DOC> record; say --format if it is of another format")]),
        (DECLARED.encode("iso-8859-2"), [Document("1", "und", "Łódź")]),
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
    text = "Снег выпал дважды, а потом растаял."
    for encoding in ("koi8-r", "windows-1251"):  # Cyrillic is recognised where nothing names the language
        assert documents(given(path, record(1, text).encode(encoding))) == [Document("1", "und", text)]


@pytest.mark.parametrize("piece", ["<!--", "<![CDATA[", "<a ", "<", "&", "<a b=", " ", "<P>", "\n", "&amp", '<x y="'])
def test_markup_that_never_closes_is_read_in_no_time(tmp_path: Path, piece: str) -> None:
    start = time.process_time()
    assert len(documents(given(tmp_path / "a.sgml", record(1, f"word {piece * (300_000 // len(piece))}")))) == 1
    assert time.process_time() - start < 6


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.sgml"
    path.write_text(record(1, "word " * 400) * 1000)
    with memory_below(1_000_000):
        assert sum(isinstance(item, Document) for item in read(str(path), ReadOptions())) == 1000
    assert path.stat().st_size > 2_000_000


def test_an_endless_record_is_refused_and_the_next_one_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.readers.newspapers.sgml.RECORD_LIMIT", 1 << 20)
    found = given(tmp_path / "a.sgml", f"<DOC>\n<DOCNO>1</DOCNO><TEXT>{'word ' * 900_000}\n" + record(2, "Two"))
    assert ([place for place, _ in notes(found)], documents(found)) == (["a.sgml:1"], [TWO])


def lett_line(lang: str, url: str, text: str) -> str:
    page, plain = (base64.b64encode(part.encode()).decode() for part in (f"<p>{text}</p>", text))
    return "\t".join((lang, "text/html", "charset=utf-8", url, page, plain)) + "\n"


def test_a_site_gives_its_pages_by_url_and_is_indexed(tmp_path: Path, small: ModelFolder, settings: Settings) -> None:
    lines = [
        lett_line("en", "http://a.example/en/1", "The river rose.\nGoats swam."),
        lett_line("fr", "http://a.example/fr/1", "La rivière est montée."),
        lett_line("en", "http://a.example/en/2", " "),
        "en\ttext/html\n",
        "en\ttext/html\tcharset=utf-8\thttp://a.example/3\t\tno base64!\n",
    ]
    site = tmp_path / "a.example.lett.gz"
    assert given(site, gzip.compress("".join(lines).encode())) == [
        Document("http://a.example/en/1", "en", "The river rose.\nGoats swam.", fields={"site": "a.example"}),
        Document("http://a.example/fr/1", "fr", "La rivière est montée.", fields={"site": "a.example"}),
        (f"{site.name}:4", "it has 2 columns; a page of a .lett file has 6"),
        (f"{site.name}:5", "it has a text that is no Base64; get the file again"),
        (site.name, "pages without text were left out"),
    ]
    assert index([str(site)], "pages", settings=settings, encoder=str(small.path), device="cpu").encoded == 2


def test_news_commentary_gives_translations_one_concept(tmp_path: Path) -> None:
    for lang, text in (("en", "The bank\nfailed."), ("de", "Die Bank\nging unter.")):
        (tmp_path / "split" / lang).mkdir(parents=True)
        (tmp_path / "split" / lang / "bank-crisis.txt").write_text(text)
    german, english = documents(readings(tmp_path / "split", format="commentary"))
    assert (german.doc_id, german.lang, german.text) == ("de:bank-crisis.txt", "de", "Die Bank\nging unter.")
    assert english.fields == german.fields == {"concept": "bank-crisis.txt"}
    ((_, refused),) = notes(given(tmp_path / "nowhere.txt", "text", format="commentary"))
    assert "not named by a language" in refused


def test_news_commentary_in_pairs_of_sentences_is_known_by_its_name(tmp_path: Path) -> None:
    rows = ["Titel\tTitle", "Ein Satz.\tA sentence.", "\t", "Zweites\tSecond", "alone", "\t", "Nur deutsch\t"]
    file = tmp_path / "news-commentary-v14.de-en.tsv.gz"
    found = given(file, gzip.compress(("\n".join(rows) + "\n").encode()))
    by_concept: dict[str, dict[str, str]] = {}
    for document in documents(found):
        by_concept.setdefault(document.fields["concept"], {})[document.lang] = document.text
    assert list(by_concept.values()) == [
        {"de": "Titel\nEin Satz.", "en": "Title\nA sentence."},
        {"de": "Zweites", "en": "Second"},
        {"de": "Nur deutsch"},
    ]
    assert len({document.doc_id for document in documents(found)}) == 5
    assert [place for place, _ in notes(found)] == [f"{file.name}:5"]


def test_jrc_acquis_is_known_by_its_files_names(tmp_path: Path) -> None:
    for lang, text in (("en", "The Council"), ("fr", "Le Conseil d%eacute;cide %x")):
        folder = tmp_path / lang / "1958"
        folder.mkdir(parents=True)
        body = f"<body><head n='1'>{text}</head><div type='body'><p n='2'>Art. 1</p></div></body>"
        markup = f"<TEI.2><teiHeader><title>JRC</title></teiHeader><text>{body}</text></TEI.2>"
        (folder / f"jrc21958_01-{lang}.xml").write_text(markup)
    english, french = documents(readings(tmp_path))
    assert (english.doc_id, english.lang, english.text) == ("jrc21958_01-en", "en", "The Council\nArt. 1")
    assert french.text.startswith("Le Conseil décide %x")
    assert english.fields == french.fields == {"concept": "jrc21958_01"}
    assert "jrcNAME-LANG.xml" in notes(given(tmp_path / "other.xml", "<TEI.2/>", format="jrc"))[0][1]


class Article(NamedTuple):
    doc_id: str
    headline: str
    body: str
    year: str

    def default_text(self) -> str:
        return self.body


@pytest.fixture
def data_set(tmp_path: Path) -> Iterator[str]:
    """A collection of ir_datasets, registered from a local file, so that nothing is downloaded."""
    ir_datasets = pytest.importorskip("ir_datasets")
    (tmp_path / "docs.tsv").write_text("d1\tNews\tMills on the river\t1994\nd2\t\t \t1994\nd3\t\tBridges\t1995\n")
    file = ir_datasets.util.LocalDownload(tmp_path / "docs.tsv")
    docs = ir_datasets.formats.TsvDocs(file, doc_cls=Article, lang="en")
    registered = f"dragoman-test-{tmp_path.name}"
    ir_datasets.registry.register(registered, ir_datasets.datasets.base.Dataset(docs))
    yield f"ir-datasets:{registered}"
    ir_datasets.registry._registered.pop(registered)


def test_the_documents_of_a_data_set_are_read_by_its_names_or_ours(data_set: str) -> None:
    assert seen(read(data_set, ReadOptions())) == [
        Document("d1", "en", "Mills on the river", "News", {"year": "1994"}),
        (f"{data_set}:d2", "its title and text are empty"),
        Document("d3", "en", "Bridges", "", {"year": "1995"}),
    ]
    assert [document.lang for document in documents(read(data_set, ReadOptions(lang="de")))] == ["de", "de"]
    assert fingerprint(data_set, ReadOptions(lang="de")) != fingerprint(data_set, ReadOptions())
    first = next(iter(read(data_set, ReadOptions(fields={"text": "headline", "title": "body", "when": "year"}))))
    assert first == Document("d1", "en", "News", "Mills on the river", {"when": "1994"})
    for begin in (fingerprint, read):
        with pytest.raises(BadInput, match="no-such-set is no data set"):
            begin("ir-datasets:no-such-set", ReadOptions())


def test_without_the_extra_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    with pytest.raises(MissingPart, match=r"make install EXTRAS=datasets"):
        read("ir-datasets:vaswani", ReadOptions())
