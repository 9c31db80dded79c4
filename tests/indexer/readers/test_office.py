"""Word, OpenDocument, EPUB and PDF."""

import io
import sys
import zipfile
from pathlib import Path

import pytest
from pypdf import PdfReader, PdfWriter

from encoders.document import Document
from indexer.readers.records.files import RECORD_LIMIT
from tests.indexer.readers.reading import given

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
OPEN_FILES = {"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": OPEN, "meta.xml": TITLE}


def packed(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def pdf(text: str, key: str = "") -> bytes:
    """A page with a text, which a key encrypts; without a text, an empty page."""
    stream = f"BT /F1 18 Tf 20 200 Td ({text}) Tj ET" if text else ""
    fonts = "<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 300] /Contents 4 0 R /Resources {fonts} >>",
        f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
    ]
    body, starts = "%PDF-1.4\n", list[int]()
    for number, content in enumerate(objects, start=1):
        starts.append(len(body))
        body += f"{number} 0 obj\n{content}\nendobj\n"
    table = "".join(f"{start:010d} 00000 n \n" for start in starts)
    trailer = f"trailer << /Size 5 /Root 1 0 R >>\nstartxref\n{len(body)}\n%%EOF"
    whole = f"{body}xref\n0 5\n0000000000 65535 f \n{table}{trailer}".encode()
    if not key:
        return whole
    writer, buffer = PdfWriter(clone_from=PdfReader(io.BytesIO(whole))), io.BytesIO()
    writer.encrypt(key, algorithm="RC4-128")
    writer.write(buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "title", "text"),
    [
        ("a.docx", packed(WORD_FILES), "Ships", "The ferry left & sank.\nA cell\nKept-up"),
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
