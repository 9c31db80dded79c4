"""Data of shared tasks as sources: WMT16's sites, news commentary, JRC-Acquis, collections of ir_datasets."""

import base64
import gzip
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from encoders.document import Document
from encoders.errors import BadInput, MissingPart
from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from indexer.index_sources import index
from indexer.readers.formats import fingerprint, read
from indexer.readers.records.source import ReadOptions
from tests.indexer.readers.reading import documents, given, ids, notes, readings, refusals, seen


def lett_line(lang: str, url: str, text: str) -> str:
    """A page of a site."""
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
    report = index([str(site)], "pages", settings=settings, encoder=str(small.path), device="cpu")
    assert report.encoded == 2


def test_news_commentary_gives_translations_one_concept(tmp_path: Path) -> None:
    for lang, text in (("en", "The bank\nfailed."), ("de", "Die Bank\nging unter.")):
        (tmp_path / "split" / lang).mkdir(parents=True)
        (tmp_path / "split" / lang / "bank-crisis.txt").write_text(text)
    german, english = documents(readings(tmp_path / "split", format="commentary"))
    assert (german.doc_id, german.lang, german.text) == ("de:bank-crisis.txt", "de", "Die Bank\nging unter.")
    assert english.fields == german.fields == {"concept": "bank-crisis.txt"}
    (tmp_path / "nowhere.txt").write_text("text")
    (refusal,) = refusals(readings(tmp_path / "nowhere.txt", format="commentary"))
    assert "not named by a language" in refusal.text


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
    assert len(set(ids(found))) == 5
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
    other = tmp_path / "other.xml"
    other.write_text("<TEI.2/>")
    assert "jrcNAME-LANG.xml" in refusals(readings(other, format="jrc"))[0].text


class Article(NamedTuple):
    doc_id: str
    headline: str
    body: str
    year: str

    def default_text(self) -> str:
        return self.body


@pytest.fixture
def name(tmp_path: Path) -> Iterator[str]:
    """A collection of ir_datasets, registered from a local file, so that nothing is downloaded."""
    ir_datasets = pytest.importorskip("ir_datasets")
    (tmp_path / "docs.tsv").write_text("d1\tNews\tMills on the river\t1994\nd2\t\t \t1994\nd3\t\tBridges\t1995\n")
    file = ir_datasets.util.LocalDownload(tmp_path / "docs.tsv")
    docs = ir_datasets.formats.TsvDocs(file, doc_cls=Article, lang="en")
    registered = f"dragoman-test-{tmp_path.name}"
    ir_datasets.registry.register(registered, ir_datasets.datasets.base.Dataset(docs))
    yield f"ir-datasets:{registered}"
    ir_datasets.registry._registered.pop(registered)


def test_the_documents_of_a_data_set_are_read_by_its_names_or_ours(name: str) -> None:
    assert seen(read(name, ReadOptions())) == [
        Document("d1", "en", "Mills on the river", "News", {"year": "1994"}),
        (f"{name}:d2", "its title and text are empty"),
        Document("d3", "en", "Bridges", "", {"year": "1995"}),
    ]
    assert [document.lang for document in documents(read(name, ReadOptions(lang="de")))] == ["de", "de"]
    assert fingerprint(name, ReadOptions(lang="de")) != fingerprint(name, ReadOptions())
    first = next(iter(read(name, ReadOptions(fields={"text": "headline", "title": "body", "when": "year"}))))
    assert first == Document("d1", "en", "News", "Mills on the river", {"when": "1994"})
    with pytest.raises(BadInput, match="no-such-set is no data set"):
        read("ir-datasets:no-such-set", ReadOptions())


def test_without_the_extra_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    blocked: Any = None
    monkeypatch.setitem(sys.modules, "ir_datasets", blocked)
    with pytest.raises(MissingPart, match=r"make install EXTRAS=datasets"):
        read("ir-datasets:vaswani", ReadOptions())
