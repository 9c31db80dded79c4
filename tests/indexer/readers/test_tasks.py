"""Data of shared tasks as sources: WMT16's sites, news commentary, JRC-Acquis."""

import base64
import gzip
from pathlib import Path

import pytest

from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from indexer.index_sources import index
from tests.indexer.readers.reading import documents, readings, refusals, remarks


def lett_line(lang: str, url: str, text: str) -> str:
    """A page of a site."""
    page, plain = (base64.b64encode(part.encode()).decode() for part in (f"<p>{text}</p>", text))
    return "\t".join((lang, "text/html", "charset=utf-8", url, page, plain)) + "\n"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    file = tmp_path / "a.example.lett.gz"
    lines = [
        lett_line("en", "http://a.example/en/1", "The river rose.\nGoats swam."),
        lett_line("fr", "http://a.example/fr/1", "La rivière est montée."),
        lett_line("en", "http://a.example/en/2", " "),
        "en\ttext/html\n",
        "\t".join(("en", "text/html", "charset=utf-8", "http://a.example/3", "", "no base64!")) + "\n",
    ]
    file.write_bytes(gzip.compress("".join(lines).encode()))
    return file


@pytest.fixture
def commentary(tmp_path: Path) -> Path:
    for lang, text in (("en", "The bank\nfailed."), ("de", "Die Bank\nging unter.")):
        (tmp_path / "split" / lang).mkdir(parents=True)
        (tmp_path / "split" / lang / "bank-crisis.txt").write_text(text)
    return tmp_path / "split"


def test_a_site_gives_its_pages_by_url(site: Path) -> None:
    english, french = documents(readings(site))
    assert (english.doc_id, english.lang, english.text) == (
        "http://a.example/en/1",
        "en",
        "The river rose.\nGoats swam.",
    )
    assert (french.lang, french.fields["site"]) == ("fr", "a.example")
    refused = [refusal.text for refusal in refusals(readings(site))]
    assert refused == [
        "it has 2 columns; a page of a .lett file has 6",
        "it has a text that is no Base64; get the file again",
    ]
    assert remarks(readings(site)) == ["pages without text were left out"]


def test_news_commentary_gives_translations_one_concept(commentary: Path) -> None:
    german, english = documents(readings(commentary, format="commentary"))
    assert (german.doc_id, german.lang, german.text) == ("de:bank-crisis.txt", "de", "Die Bank\nging unter.")
    assert english.fields == german.fields == {"concept": "bank-crisis.txt"}
    stray = commentary.parent / "nowhere.txt"
    stray.write_text("text")
    assert "not named by a language" in refusals(readings(stray, format="commentary"))[0].text


def test_news_commentary_in_pairs_of_sentences_is_known_by_its_name(tmp_path: Path) -> None:
    rows = ["Titel\tTitle", "Ein Satz.\tA sentence.", "\t", "Zweites\tSecond", "alone", "\t", "Nur deutsch\t"]
    file = tmp_path / "news-commentary-v14.de-en.tsv.gz"
    file.write_bytes(gzip.compress(("\n".join(rows) + "\n").encode()))
    by_concept: dict[str, dict[str, str]] = {}
    for document in documents(readings(file)):
        by_concept.setdefault(document.fields["concept"], {})[document.lang] = document.text
    assert list(by_concept.values()) == [
        {"de": "Titel\nEin Satz.", "en": "Title\nA sentence."},
        {"de": "Zweites", "en": "Second"},
        {"de": "Nur deutsch"},
    ]
    assert len({document.doc_id for document in documents(readings(file))}) == 5
    assert [refusal.place.rpartition(":")[2] for refusal in refusals(readings(file))] == ["5"]


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


def test_they_are_indexed(site: Path, small: ModelFolder, settings: Settings) -> None:
    report = index([str(site)], "pages", settings=settings, encoder=str(small.path), device="cpu")
    assert report.encoded == 2
