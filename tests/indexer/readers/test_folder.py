"""Folders of text and HTML, and what stands between the files one wants."""

import errno
import gzip
import io
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from encoders.document import Document
from indexer.readers.formats import read_all
from indexer.readers.records.source import Reading, ReadOptions, Refusal, Remark
from indexer.readers.source_documents import SourceDocuments, Sources
from tests.indexer.readers.reading import readings


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A source: the ids of its files begin with its name."""
    (tmp_path / "f").mkdir()
    return tmp_path / "f"


def refusals(found: list[Reading]) -> dict[str, str]:
    return {Path(item.place).name: item.text for item in found if isinstance(item, Refusal)}


def test_a_text_file_is_a_document_named_by_its_path(folder: Path) -> None:
    (folder / "b c").mkdir()
    (folder / "b c" / "two.txt").write_text("Only a line\n")
    (folder / "one.txt").write_text("Title\n\nFirst.\r\nSecond.\n")
    (folder / ".hidden").write_text("no")
    assert readings(folder, lang="en") == [
        Document("f/one.txt", "en", "First.\nSecond.", "Title"),
        Document("f/b c/two.txt", "en", "Only a line"),
    ]


def test_a_long_first_line_is_no_title(folder: Path) -> None:
    (folder / "a.txt").write_text(f"{'long ' * 40}\nnext\n")
    (document,) = readings(folder / "a.txt")
    assert isinstance(document, Document)
    assert document.doc_id == "a.txt"
    assert document.title == ""
    assert document.text.endswith("next")


def test_the_encoding_of_a_text_file_is_said_if_it_is_not_utf8(folder: Path) -> None:
    (folder / "a.txt").write_bytes("café — naïve".encode("cp1252"))
    document, remark = readings(folder)
    assert isinstance(document, Document)
    assert document.text == "café — naïve"
    assert remark == Remark(
        str(folder / "a.txt"), "it is not UTF-8 and taken for windows-1252; if that is wrong, say --encoding"
    )


def test_a_text_in_a_stated_encoding_that_does_not_fit_is_refused(folder: Path) -> None:
    (folder / "a.txt").write_bytes("café".encode("latin-1"))
    assert "not utf-8 (byte 4)" in refusals(readings(folder, encoding="utf-8"))["a.txt"]


class BadDisk(io.BytesIO):
    """A file whose first read fails."""

    def peek(self, _size: int) -> bytes:
        raise OSError(errno.EIO, "Input/output error")


def test_files_that_cannot_be_read_are_refused_and_the_rest_goes_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.txt").write_text("fine")
    (folder / "empty.txt").write_text(" \n")
    (folder / "blank.txt").write_text("\n" * 5000 + "text")
    (folder / "none.jsonl").write_text("")
    (folder / "photo.jpg").write_bytes(b"\xff\xd8\xff\xe0\0\0\0\0")
    (folder / "late.txt").write_bytes(b"text " * 2000 + b"\0")
    (folder / "wide.txt").write_bytes("wide".encode("utf-16"))
    (folder / "pack.zip").write_bytes(zipped(**{"doc.txt": "x"}))
    (folder / "torn.zip").write_bytes(b"PK\x03\x04....")
    (folder / "old.Z").write_bytes(b"\x1f\x9d\x90....")
    (folder / "z.dtd").write_text("<!ELEMENT DOC ANY>")
    (folder / "gone.txt").symlink_to(folder / "nowhere")
    os.mkfifo(folder / "pipe")
    (folder / "passwd.txt").symlink_to("/etc/passwd")
    (folder / "inside.md").symlink_to(folder / "a.txt")
    (folder / "torn.txt").write_text("torn")
    open_ = Path.open

    def torn(path: Path, *arguments: Any, **others: Any) -> Any:
        return BadDisk() if path.name == "torn.txt" else open_(path, *arguments, **others)

    monkeypatch.setattr(Path, "open", torn)
    (folder / "elsewhere").symlink_to(folder.parent, target_is_directory=True)
    found = readings(folder)
    assert [item.doc_id for item in found if isinstance(item, Document)] == ["f/a.txt", "f/inside.md"]
    reasons = refusals(found)
    expected = {
        "empty.txt": "is empty",
        "blank.txt": "its first 4,096 bytes are blank",
        "none.jsonl": "is empty",
        "photo.jpg": "binary",
        "late.txt": "binary",
        "wide.txt": "iconv -f UTF-16",
        "pack.zip": "a zip archive; unpack it first",
        "torn.zip": "unpack it first",
        "old.Z": "gzip -d",
        "gone.txt": "can't be opened (No such file",
        "pipe": "no regular file",
        "elsewhere": "a link to a folder; name that folder",
        "passwd.txt": "a link out of its source; name what it leads to, or give --follow-links",
        "torn.txt": "can't be read (Input/output error)",
    }
    assert reasons.keys() == expected.keys()
    assert all(expected[name] in reasons[name] for name in expected)
    assert [item.text for item in found if isinstance(item, Remark)] == ["it is a DTD and was left out"]


def test_a_file_name_that_is_no_text_is_refused_and_can_be_shown(folder: Path) -> None:
    path = os.fsencode(folder) + b"/caf\xe9.txt"
    with open(path, "w") as file:  # noqa: PTH123 - a path of bytes
        file.write("x")
    (refusal,) = readings(folder)
    assert isinstance(refusal, Refusal)
    assert "half a character" in refusal.text
    refusal.place.encode("utf-8")
    assert "caf\\xe9.txt" in refusal.place


def test_a_page_gives_title_language_and_text_without_script_and_navigation(folder: Path) -> None:
    (folder / "a.html").write_text(
        "<!doctype html><html lang='de-AT'><head><title>Der\n Titel</title><style>p {}</style></head><body>"
        "<nav><ul><li>Start</li></ul></nav><h1>Kopf</h1><p>Ein <b>fet</b>ter\nSatz&nbsp;&amp; mehr.<p>Zwei<br>Drei"
        "<script>var x = '<p>no</p>';</script><table><tr><td>a</td><td>b</td></tr></table></body></html>",
        encoding="utf-8",
    )
    assert readings(folder, lang="en") == [
        Document("f/a.html", "de", "Kopf\nEin fetter Satz & mehr.\nZwei\nDrei\na\nb", "Der Titel")
    ]


def test_a_page_is_decoded_as_it_declares(folder: Path) -> None:
    page = '<html lang="ru"><meta http-equiv="Content-Type" content="text/html; charset={}"><p>Снег выпал</p></html>'
    for name in ("koi8-r", "windows-1251", "utf-8"):
        (folder / f"{name}.html").write_bytes(page.format(name).encode(name))
    found = readings(folder)
    assert [item.text for item in found if isinstance(item, Document)] == ["Снег выпал"] * 3
    assert len(found) == 3


@pytest.mark.parametrize("charset", ["nonsense", "undefined", "punycode"])
def test_a_page_that_declares_nothing_or_nonsense_is_read_and_said(folder: Path, charset: str) -> None:
    (folder / "a.htm").write_bytes(
        f'<html lang="xx-nonsense"><meta charset="{charset}"><p>café</html>'.encode("latin-1")
    )
    document, remark = readings(folder, lang="fr")
    assert document == Document("f/a.htm", "fr", "café")
    assert isinstance(remark, Remark)


@pytest.mark.parametrize("suffix", ["md", "markdown"])
def test_markdown_about_markup_is_text(folder: Path, suffix: str) -> None:
    (folder / f"a.{suffix}").write_text("# TREC\n\nIts documents begin with `<doc>`.\n")
    assert readings(folder) == [Document(f"f/a.{suffix}", "und", "Its documents begin with `<doc>`.", "TREC")]


def test_an_encoding_that_fails_without_a_byte_refuses_the_file(folder: Path) -> None:
    (folder / "a.txt").write_text("Plain words, a. Plain words, a.")
    (refusal,) = readings(folder, encoding="punycode")
    assert isinstance(refusal, Refusal)
    assert refusal.text == "it is not punycode; say which with --encoding"


def zipped(**members: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/"), content)
    return packed.getvalue()


UNREAD = {
    "a.pdf": (b"%PDF-1.4\n(a text without binary bytes)\n%%EOF\n", "it is a PDF; convert it first: pdftotext -layout"),
    "pdf_by_another_name.txt": (b"\n%PDF-1.7\nx", "it is a PDF"),
    "packed.pdf.gz": (gzip.compress(b"%PDF-1.4\nx"), "it is a PDF"),
    "a.docx": (zipped(_rels="x", word__document="x", **{"word__document.xml": "x"}), "a Word document; convert it"),
    "word_by_another_name.jsonl": (zipped(**{"word__document.xml": "x"}), "a Word document"),
    "a.odt": (zipped(mimetype="application/vnd.oasis.opendocument.text"), "an OpenDocument text; convert it first"),
    "a.ods": (zipped(mimetype="application/vnd.oasis.opendocument.spreadsheet"), "an OpenDocument file"),
    "a.epub": (zipped(mimetype="application/epub+zip"), "an EPUB book"),
    "a.pptx": (zipped(**{"ppt__presentation.xml": "x"}), "a PowerPoint presentation"),
    "a.xlsx": (zipped(**{"xl__workbook.xml": "x"}), "an Excel workbook"),
    "a.doc": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0\0", "a file of Word (.doc) or another Office program"),
    "a.rtf": (b"{\\rtf1\\ansi A text.}", "RTF; convert it first: pandoc"),
    "a.ps": (b"%!PS-Adobe-3.0\n(x) show", "PostScript; convert it first: ps2ascii"),
}


@pytest.mark.parametrize("name", UNREAD)
@pytest.mark.parametrize("format_", ["", "text", "jsonl"])
def test_pdf_word_and_their_like_are_refused_by_name_with_the_command_that_converts(
    folder: Path, name: str, format_: str
) -> None:
    content, reason = UNREAD[name]
    (folder / name).write_bytes(content)
    (refusal,) = readings(folder, format=format_)
    assert isinstance(refusal, Refusal)
    assert (refusal.place, refusal.doc_id) == (str(folder / name), f"f/{name}")
    assert reason in refusal.text


def ids(*sources: Path | str) -> list[str]:
    found = read_all(list(map(str, sources)), ReadOptions())
    return [item.doc_id for item in found if isinstance(item, Document)]


def test_the_id_of_a_file_is_its_sources_name_and_its_path_in_it_however_the_source_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("x", "y", "z/x/sub"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "doc.txt").write_text("text")
    (tmp_path / "y" / "rows.csv").write_text("text\na\n")
    x, y, z = tmp_path / "x", tmp_path / "y", tmp_path / "z" / "x"
    assert ids(y) == ["y/doc.txt", "y/rows.csv:2"]
    assert ids(x, y) == [*ids(x), *ids(y)]
    training = SourceDocuments(Sources([str(x), str(y)])).read()
    assert [document.doc_id for document in training] == ids(x, y)
    assert ids(x / "doc.txt", y / "rows.csv") == ["doc.txt", "rows.csv:2"]
    assert ids(z) == ["x/sub/doc.txt"]
    monkeypatch.chdir(tmp_path)
    assert ids("x", "./y/") == ids(x, y)
    monkeypatch.chdir(x)
    assert ids(".") == ids("../x") == ids("./") == ids(x) == ["x/doc.txt"]


def test_a_page_without_text_is_refused(folder: Path) -> None:
    (folder / "a.html").write_text("<html><body><script>x</script></body></html>")
    assert "empty" in refusals(readings(folder))["a.html"]


def test_a_folder_may_mix_formats_which_are_told_by_name_or_first_bytes(folder: Path) -> None:
    (folder / "1").write_text("<DOC><DOCNO>d1</DOCNO><TEXT>x</TEXT></DOC>")
    (folder / "2").write_text('{"id": "d2", "text": "x"}')
    (folder / "3").write_text("<!DOCTYPE html><p>x")
    (folder / "4.csv").write_text("id,text\nd4,x")
    (folder / "5").write_text("x")
    assert [item.doc_id for item in readings(folder) if isinstance(item, Document)] == ["d1", "d2", "f/3", "d4", "f/5"]


def test_the_format_can_be_said(folder: Path) -> None:
    (folder / "a.json").write_text('{"id": "x"}')
    (document,) = readings(folder, format="text")
    assert document == Document("f/a.json", "und", '{"id": "x"}')
