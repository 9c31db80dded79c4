"""Folders of text and HTML, what stands between the files one wants, and Word, OpenDocument, EPUB and PDF."""

import errno
import gzip
import io
import os
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, NameObject, read_object

from encoders.document import Document
from encoders.errors import BadInput
from indexer.readers.formats import read_all
from indexer.readers.records.files import RECORD_LIMIT
from indexer.readers.records.source import ReadOptions, Refusal
from indexer.readers.source_documents import SourceDocuments, Sources
from tests.indexer.readers.reading import Seen, given, ids, memory_below, notes, readings, seen


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A source: the ids of its files begin with its name."""
    (tmp_path / "f").mkdir()
    return tmp_path / "f"


def test_a_text_file_is_a_document_named_by_its_path_and_a_folder_may_mix_formats(folder: Path) -> None:
    (folder / "b c").mkdir()
    (folder / "b c" / "two.txt").write_text("Only a line\n")
    (folder / "one.txt").write_text("Title\n\nFirst.\r\nSecond.\n")
    (folder / ".hidden").write_text("no")
    expected = [Document("f/one.txt", "en", "First.\nSecond.", "Title"), Document("f/b c/two.txt", "en", "Only a line")]
    assert readings(folder, lang="en") == expected
    (folder / "1").write_text("<DOC><DOCNO>d1</DOCNO><TEXT>x</TEXT></DOC>")
    (folder / "2").write_text('{"id": "d2", "text": "x"}')
    (folder / "3").write_text("<!DOCTYPE html><p>x")
    (folder / "4.csv").write_text("id,text\nd4,x")
    (folder / "5").write_text("x")
    assert ids(readings(folder)) == ["d1", "d2", "f/3", "d4", "f/5", "f/one.txt", "f/b c/two.txt"]


NOT_UTF8 = "it is not UTF-8 and taken for windows-1252; if that is wrong, say --encoding"
PAGE = (
    "<!doctype html><html lang='de-AT'><head><title>Der\n Titel</title><style>p {}</style></head><body>"
    "<nav><ul><li>Start</li></ul></nav><h1>Kopf</h1><p>Ein <b>fet</b>ter\nSatz&nbsp;&amp; mehr.<p>Zwei<br>Drei"
    "<script>var x = '<p>no</p>';</script><table><tr><td>a</td><td>b</td></tr></table></body></html>"
)
SHOWN = "Kopf\nEin fetter Satz & mehr.\nZwei\nDrei\na\nb"
DECLARED = '<html lang="ru"><meta http-equiv="Content-Type" content="text/html; charset={}"><p>Снег выпал</p></html>'
NONSENSE = b'<html lang="xx-nonsense"><meta charset="%s"><p>caf\xe9</html>'
XML = "it is XML of <{}>, whose tags are not known here; write its documents as JSON lines, or say --format html to {}"
SAMI = "'se' is Northern Sami; if you mean Swedish, say 'sv'"
FEED = "<rss version='2.0'><channel><item><title>A</title></item></channel></rss>"
XHTML = "<!DOCTYPE html PUBLIC '-//W3C//DTD XHTML//EN' 'x'><html xmlns='http://www.w3.org/1999/xhtml'><p>P</p></html>"
BEGIN = "Its documents begin with `<doc>`."
TREC = f"# TREC\n\n{BEGIN}\n"


@pytest.mark.parametrize(
    ("name", "content", "options", "expected"),
    [
        *(("a.txt", f"{x}\n", {}, [Document("a.txt", "und", x)]) for x in (f"{'long ' * 40}\nnext", "---\na: b\n---")),
        ("a.json", '{"id": "x"}', {"format": "text"}, [Document("a.json", "und", '{"id": "x"}')]),
        *((f"a.{md}", TREC, {}, [Document(f"a.{md}", "und", BEGIN, "TREC")]) for md in ("md", "markdown")),
        ("a.html", PAGE, {"lang": "en"}, [Document("a.html", "de", SHOWN, "Der Titel")]),
        ("a.html", "<div>" * 100_000 + "x", {}, [Document("a.html", "und", "x")]),
        ("a.html", "<html><body><script>x</script></body></html>", {}, [("a.html", "its title and text are empty")]),
        *(
            (name, content, {}, [(name, XML.format(root, "take its text as one document"))])
            for name, content, root in (
                ("a.rss", FEED, "rss"),
                ("a.txt", f"<?xml version='1.0' encoding='utf-8'?>\n<!-- A -->{FEED}", "rss"),
                ("tei", "<TEI xmlns='http://www.tei-c.org/ns/1.0'><text/></TEI>", "tei"),
                ("a.xml", '<!DOCTYPE book SYSTEM "b.dtd" [<!ENTITY v "1">]>\n<book/>', "book"),
                ("a.xml", "<x:doc id='1'><x:p>A</x:p></x:doc>", "x:doc"),
            )
        ),
        ("a.xml", f"<?xml version='1.0'?>{XHTML}", {}, [Document("a.xml", "und", "P")]),
        ("a.rss", FEED, {"format": "html"}, [Document("a.rss", "und", "A", "A")]),
        *((name, x, {}, [Document(name, "und", x)]) for name in ("a.log", "a.txt") for x in ("<ann> hello", "a <doc>")),
        ("a.tsv", 'id\ttext\n1\t"J\ra\n2\tN"\n', {}, [Document("1", "und", '"J\na'), Document("2", "und", 'N"')]),
        ("a.csv", "id,text,lang\n1,A,se\n", {}, [Document("1", "se", "A"), ("a.csv:2", SAMI)]),
        *(
            ("a.html", DECLARED.format(charset).encode(charset), {}, [Document("a.html", "ru", "Снег выпал")])
            for charset in ("koi8-r", "windows-1251", "utf-8")
        ),
        *(
            ("a.htm", NONSENSE % charset, {"lang": "fr"}, [Document("a.htm", "fr", "café"), ("a.htm", NOT_UTF8)])
            for charset in (b"nonsense", b"undefined", b"punycode")
        ),
    ],
)
def test_texts_and_pages_are_read_by_their_declarations_and_ours(
    tmp_path: Path, name: str, content: str | bytes, options: dict[str, Any], expected: list[Seen]
) -> None:
    assert given(tmp_path / name, content, **options) == expected


def packed(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


BROKEN: dict[str, tuple[bytes, str]] = {
    "empty.txt": (b" \n", "is empty"),
    "blank.txt": (b"\n" * 5000 + b"text", "its first 4,096 bytes are blank"),
    "none.jsonl": (b"", "is empty"),
    "photo.jpg": (b"\xff\xd8\xff\xe0\0\0\0\0", "it is a picture and was left out"),
    "late.txt": (b"text " * 2000 + b"\0", "it is binary, not text; convert it, or take its NULs out"),
    "pack.zip": (packed({"doc.txt": "x"}), "a zip archive, or a broken document; unpack it first"),
    "torn.zip": (b"PK\x03\x04....", "unpack it first"),
    "old.Z": (b"\x1f\x9d\x90....", "gzip -d"),
    "z.dtd": (b"<!ELEMENT DOC ANY>", "it is a DTD and was left out"),
    "page.css": (b"p { }", "a style of pages and was left out"),
}


MAIL = b"Subject: =?koi8-r?b?+9XN?=\nMIME-Version: 1.0\nContent-Type: text/%b; charset=%b\n%b\n\n%b\n"
DATED = MAIL % (b"plain", b"koi8-r", b"Date: Mon, 2 Nov 2026 10:00:00 +0100", "Нет звука".encode("koi8-r"))
QUOTED = MAIL % (b"html", b"no", b"Content-Transfer-Encoding: quoted-printable", b"<p>Gr=C3=BC=C3=9Fe =\n<b>an alle")
BOTH = (
    "Content-Type: multipart/alternative; boundary=X\n\n--X\n\n\n--X\nContent-Type: text/html; charset={}\n\n<p>Grüße"
)


def test_mails_are_read_one_by_one_by_what_they_declare(tmp_path: Path) -> None:
    dated = Document("a.eml", "und", "Нет звука", "Шум", {"date": "2026-11-02T10:00:00+01:00"})
    assert given(tmp_path / "a.eml", DATED) == [dated]
    begin = b"From a@example.org Mon Nov  2 10:00:00 2026\n"
    box = b"\n%b%b>From me\n\nFrom now\n\n%b%b\n%bContent-Type: image/png\n\nx\n" % (begin, DATED, begin, QUOTED, begin)
    first = replace(dated, doc_id="inbox:2", text="Нет звука\nFrom me\n\nFrom now")
    second = Document("inbox:13", "und", "Grüße an alle", "Шум")
    assert given(tmp_path / "inbox", box) == [first, second, ("inbox:22", "its title and text are empty")]
    guessed = MAIL % (b"plain", b"no-such", b"", b"Der Drucker druckt f\xfcr Gr\xf6\xdfen \xfcber A4 nichts mehr.\n")
    assert given(tmp_path / "b.eml", guessed, lang="de")[1] == ("b.eml", NOT_UTF8)
    with pytest.raises(BadInput, match=r"b\.eml: it is not UTF-8 .*\(--strict\)"):
        given(tmp_path / "b.eml", guessed, lang="de", strict=True)
    assert given(tmp_path / "d.eml", BOTH.format("x")) == [Document("d.eml", "und", "Grüße")]
    with memory_below(8 << 20):
        given(tmp_path / "d.eml", f"Subject: {'=?utf-8?q?=C3=BC?= ' * 2000}\n{BOTH}")
    assert "1 character of it is broken" in str(given(tmp_path / "d.eml", BOTH.format("utf-8").encode() + b"\xff"))
    assert given(tmp_path / "a.eml", DATED.decode("koi8-r").replace("koi8-r\n", "us-ascii\n")) == [dated]
    assert given(tmp_path / "a.eml", DATED.replace(b"=?koi8-r?b?+9XN?=", "Шум".encode("koi8-r"))) == [dated]
    begin = b"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=X\n\n--X\n\nno header\n--X\n"
    parts = begin + b"Content-Type: message/rfc822\n\n%b\n--X\n\nsecond\n--X--\n" % DATED
    assert given(tmp_path / "e.eml", parts) == [Document("e.eml", "und", "no header\nНет звука\n\nsecond")]
    broken = b"Date: 1 Jan 2020 00:00:00 +99999999999999999\nMIME-Version: 1.0\n\nx\n"
    assert notes(given(tmp_path / "c.eml", broken))[0][1].startswith("the mail can't be read (")


class BadDisk(io.BytesIO):
    """A file whose first read fails, or of a document of Word the last."""

    def peek(self, _size: int) -> bytes:
        return self.getvalue() or self.fail()

    def fail(self, *_: Any) -> Any:
        raise OSError(errno.EIO, "Input/output error")

    seek = fail


def test_files_that_cannot_be_read_are_refused_one_by_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "a.txt").write_text("fine")
    for name, (content, _) in BROKEN.items():
        (folder / name).write_bytes(content)
    (folder / "gone.txt").symlink_to(folder / "nowhere")
    os.mkfifo(folder / "pipe")
    (folder / "passwd.txt").symlink_to("/etc/passwd")
    (folder / "loop.txt").symlink_to(folder / "loop.txt")
    (folder / "inside.md").symlink_to(folder / "a.txt")
    bad = {"torn.txt": b"", "torn.docx": b"PK\x03\x04"}
    for name in bad:
        (folder / name).write_text("torn")
    open_ = io.open

    def torn(path: Any, *arguments: Any) -> Any:
        name = Path(path).name
        return BadDisk(bad[name]) if name in bad else open_(path, *arguments)

    monkeypatch.setattr(io, "open", torn)
    (folder / "elsewhere").symlink_to(folder.parent, target_is_directory=True)
    found = seen(readings(folder))
    assert ids(found) == ["f/a.txt", "f/inside.md"]
    told = dict(notes(found))
    expected = {name: reason for name, (_, reason) in BROKEN.items()} | {
        "gone.txt": "a link to nothing",
        "pipe": "no regular file",
        "loop.txt": "can't be opened (Too many levels of symbolic links",
        "elsewhere": "a link to a folder; name that folder",
        "passwd.txt": "a link out of its source; name what it leads to, or give --follow-links",
        **dict.fromkeys(bad, "can't be read (Input/output error)"),
    }
    assert (told.keys(), told["z.dtd"]) == (expected.keys(), expected["z.dtd"])
    assert all(expected[name] in told[name] for name in expected)


def test_a_file_name_that_is_no_text_is_refused_and_can_be_shown(folder: Path) -> None:
    path = os.fsencode(folder) + b"/caf\xe9.txt"
    with open(path, "w") as file:  # noqa: PTH123 - a path of bytes
        file.write("x")
    (refusal,) = readings(folder)
    assert isinstance(refusal, Refusal)
    assert "half a character" in refusal.text
    refusal.place.encode("utf-8")
    assert "caf\\xe9.txt" in refusal.place


UNREAD = {
    "a.pdf": (b"%PDF-1.4\n(a text without binary bytes)\n%%EOF\n", "it is a PDF that can't be read"),
    "packed.pdf.gz": (gzip.compress(b"%PDF-1.4\nx"), "it is a PDF"),
    "word_by_another_name.jsonl": (packed({"word/document.xml": "x"}), "open it in its program, and save it again"),
    "a.ods": (packed({"mimetype": "application/vnd.oasis.opendocument.spreadsheet"}), "an OpenDocument file"),
    "a.pptx": (packed({"ppt/presentation.xml": "x"}), "a PowerPoint presentation"),
    "a.xlsx": (packed({"xl/workbook.xml": "x"}), "an Excel workbook"),
    "a.doc": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0\0", "a file of Word (.doc) or another Office program"),
    "a.rtf": (b"{\\rtf1\\ansi A text.}", "RTF; convert it first: pandoc"),
    "twice.jsonl.gz": (gzip.compress(gzip.compress(b"{}")), "packed twice; unpack it once"),
    "a.tar.gz": (gzip.compress(b"a.txt".ljust(257, b"\0") + b"ustar\00000"), "a tar archive; unpack it first: tar -xf"),
    "a.parquet": (b"PAR1\x15\x04\0", "a Parquet table; index it from Python: dragoman.index("),
    "a.db": (b"SQLite format 3\0", "a SQLite database; write its rows as CSV first"),
    "a.ps": (b"%!PS-Adobe-3.0\n(x) show", "PostScript; convert it first: ps2ascii"),
}


@pytest.mark.parametrize("name", UNREAD)
@pytest.mark.parametrize("format_", ["", "text", "jsonl"])
def test_pdf_and_their_like_are_refused_with_the_command_that_converts(folder: Path, name: str, format_: str) -> None:
    content, reason = UNREAD[name]
    (folder / name).write_bytes(content)
    (refusal,) = readings(folder, format=format_)
    assert isinstance(refusal, Refusal)
    assert (refusal.place, refusal.doc_id) == (str(folder / name), f"f/{name}")
    assert reason in refusal.text


def met(*sources: Path | str) -> list[str]:
    return ids(read_all(list(map(str, sources)), ReadOptions()))


def test_the_id_of_a_file_is_its_path_from_its_source_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("x", "y", "z/x/sub"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "doc.txt").write_text("text")
    (tmp_path / "y" / "rows.csv").write_text("text\na\n")
    x, y, z = tmp_path / "x", tmp_path / "y", tmp_path / "z" / "x"
    assert (met(y), met(x, y)) == (["y/doc.txt", "y/rows.csv:2"], [*met(x), *met(y)])
    training = SourceDocuments(Sources([str(x), str(y)])).read()
    assert (ids(training), met(x / "doc.txt", y / "rows.csv")) == (met(x, y), ["doc.txt", "rows.csv:2"])
    assert met(z) == ["x/sub/doc.txt"]
    monkeypatch.chdir(tmp_path)
    assert met("x", "./y/") == met(x, y)
    monkeypatch.chdir(x)
    assert met(".") == met("../x") == met("./") == met(x) == ["x/doc.txt"]


WORD = (
    '<w:document xmlns:w="w"><w:body><w:p><w:r><w:t>The ferry</w:t></w:r><w:r><w:tab/><w:t xml:space="preserve">left '
    "&amp; sank.</w:t><w:instrText>PAGE</w:instrText></w:r></w:p><w:tbl><w:tr><w:tc><w:p><w:r><w:t>A cell</w:t></w:r>"
    "</w:p></w:tc></w:tr></w:tbl><w:p><w:r><w:t>Kept</w:t><w:noBreakHyphen/><w:t>up</w:t><Fallback><w:t>x</w:t></Fallback>"
    "</w:r></w:p></w:body></w:document>"
)
TITLE = '<c xmlns:dc="dc"><dc:title>Ships</dc:title></c>'
OPEN = (
    '<o:document-content xmlns:o="o" xmlns:text="t"><o:automatic-styles><text:p>no</text:p></o:automatic-styles>'
    "<o:body><o:text><text:tracked-changes><text:p>gone</text:p></text:tracked-changes><text:h>Head</text:h><text:p>One"
    "<text:s/>sentence<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>A note</text:p>"
    "</text:note-body></text:note>.<o:annotation><text:p>Psst</text:p></o:annotation></text:p></o:text></o:body>"
    "</o:document-content>"
)
PACKAGE = (
    '<package xmlns:dc="dc"><metadata><dc:title>Ships</dc:title></metadata><manifest><item id="b" href="t%201.xhtml"/>'
    '<item id="a" href="x/2.xhtml"/></manifest><spine><itemref idref="a"/><itemref idref="b"/></spine></package>'
)
BOOK = {
    "mimetype": "application/epub+zip",
    "META-INF/container.xml": '<c><rootfile full-path="O/c.opf"/></c>',
    "O/c.opf": f"<!DOCTYPE package>{PACKAGE}",
    "O/t 1.xhtml": "<html><body><p>Two</p></body></html>",
    "O/x/2.xhtml": "<html><body><h1>One</h1></body></html>",
}
WORD_FILES = {"word/document.xml": WORD, "docProps/core.xml": TITLE}
NOTED = packed(WORD_FILES | {"word/footnotes.xml": "<n><footnote><p>A note</p></footnote></n>"})
OPEN_FILES = {"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": OPEN, "meta.xml": TITLE}


def pdf(text: str, key: str = "", letters: bytes = b"") -> bytes:
    """A page with a text in a font of its own ``letters``, which a key encrypts; without a text, an empty page."""
    writer, stream, buffer = PdfWriter(), DecodedStreamObject(), io.BytesIO()
    stream.set_data(f"BT /F1 18 Tf 20 200 Td ({text}) Tj ET".encode() if text else b"")
    fonts = io.BytesIO(b"<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica %b >> >> >>" % letters)
    page = writer.add_blank_page(300, 300)
    resources = read_object(fonts, writer)  # type: ignore[arg-type]
    page[NameObject("/Contents")], page[NameObject("/Resources")] = stream, resources
    if key:
        writer.encrypt(key, algorithm="RC4-128")
    writer.write(buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "title", "text"),
    [
        ("a.docx", NOTED, "Ships", "The ferry left & sank.\nA cell\nKept-up\nA note"),
        ("a.odt", packed(OPEN_FILES), "Ships", "Head\nOne sentence\nA note\n."),
        ("a.epub", packed(BOOK), "Ships", "One\nTwo"),
        ("a.pdf", pdf("The ferry left."), "", "The ferry left."),
        ("named wrongly.txt", packed(WORD_FILES), "Ships", "The ferry left & sank.\nA cell\nKept-up"),
    ],
)
def test_a_file_is_a_document_of_its_text(name: str, content: bytes, title: str, text: str, tmp_path: Path) -> None:
    assert given(tmp_path / name, content) == [Document(name, "und", text, title)]


BOMB = packed({"word/document.xml": "<w>" + " " * (RECORD_LIMIT + 1) + "</w>"})
ENTITIES = packed({"word/document.xml": '<!DOCTYPE w [<!ENTITY a "aaaa">]><w><body><p>&a;</p></body></w>'})


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (packed(WORD_FILES | {"word/document.xml": WORD[:200]}), "it can't be read (unclosed token"),
        (packed(BOOK | {"O/c.opf": PACKAGE.replace("t%201", "gone")}), "it can't be read ("),
        (packed({"mimetype": "application/epub+zip"}), "it can't be read ("),
        (packed(WORD_FILES)[:300], "it is a zip archive, or a broken document"),
        (BOMB, "it unpacks to more than 16 MB; split it"),
        (ENTITIES, "it declares entities"),
        (b"%PDF-1.4\nrubbish" * 9, "it is a PDF that can't be read ("),
        (pdf(""), "it is a PDF without text, perhaps a scan"),
        (pdf("B", letters=b"/Encoding << /Differences [66 /uni0378] >>"), "it is a PDF whose fonts don't say"),
        (pdf("The ferry left.", key="x"), "it is a PDF with a password; save it without"),
    ],
)
def test_what_gives_no_text_is_a_sentence(content: bytes, reason: str, tmp_path: Path) -> None:
    ((_, said),) = given(tmp_path / "a", content)  # type: ignore[misc]
    assert said.startswith(reason)


def test_without_pypdf_a_pdf_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    ((_, said),) = given(tmp_path / "a.pdf", pdf("The ferry left."))  # type: ignore[misc]
    assert "make install EXTRAS=documents" in said
