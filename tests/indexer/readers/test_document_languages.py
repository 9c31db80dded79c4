"""The language of documents that name none."""

import json
from pathlib import Path

import pytest

from encoders.document import Document
from indexer.readers.document_languages import with_languages
from tests.indexer.readers.reading import readings, remarks
from tests.indexer.readers.test_encodings import TEXTS

WARES = (
    "green tea;garlic press;wool hat;bread bin;lamp shade;iron pan;bean bag;tin opener;rain boots;soap dish;salt mill"
)
WAREN = "grüner Tee;Knoblauchpresse;Wollmütze;Brotkasten;Lampenschirm;Eisenpfanne;Sitzsack;Regenstiefel;Seifenschale"


def languages(path: Path) -> list[str]:
    return [one.lang for one in with_languages(readings(path)) if isinstance(one, Document)]


def records(path: Path, *texts: str) -> Path:
    path.write_text("".join(json.dumps({"id": str(at), "text": text}) + "\n" for at, text in enumerate(texts)))
    return path


def test_names_of_wares_are_in_the_language_of_their_file(tmp_path: Path) -> None:
    assert set(languages(records(tmp_path / "en.jsonl", *WARES.split(";")))) == {"en"}
    assert set(languages(records(tmp_path / "de.jsonl", *WAREN.split(";")))) == {"de"}
    assert set(languages(tmp_path)) == {"en", "de"}
    assert languages(records(tmp_path / "one.jsonl", "Gift")) == ["und"]


def test_a_short_file_is_in_the_language_of_its_folder(tmp_path: Path) -> None:
    for lang in ("de", "pl"):
        (tmp_path / lang).mkdir()
        for number in range(5):
            (tmp_path / lang / f"{number}.txt").write_text(TEXTS[lang])
        (tmp_path / lang / "short.txt").write_text("park")
    assert languages(tmp_path) == ["de"] * 6 + ["pl"] * 6


def test_other_languages_of_a_file_stay_what_they_are_and_the_order_stays(tmp_path: Path) -> None:
    texts = [text for pair in zip(["tea"] * 13, TEXTS.values(), strict=True) for text in pair]
    found = list(with_languages(readings(records(tmp_path / "a.jsonl", *texts))))
    assert [one.text for one in found if isinstance(one, Document)] == texts
    assert [one.lang for one in found if isinstance(one, Document)][1::2] == list(TEXTS)
    many = records(tmp_path / "many.jsonl", *["salt mill"] * 300, *[TEXTS["de"]] * 20)
    assert languages(many)[300:] == ["de"] * 20


@pytest.mark.parametrize(
    ("text", "lang"),
    [
        ("ⴰⵣⵓⵍ ⴼⵍⵍⴰⵡⵏ ⴰ ⵉⵎⴷⴷⵓⴽⴰⵍ ⵉⵎⴰⵣⵉⵖⵏ", "und"),
        ("ᎣᏏᏲ ᎣᎩᎾᎵᎢ ᎠᏂᏴᏫᏯ ᎤᏂᏬᏂᎯᏍᏗ", "und"),
        ("Trajekt je isplovio iz luke u zoru, kapetan je proverio teret i seo da beleži lepo vreme, sneg.", "sr-Latn"),
        ("Трајект је испловио из луке у зору, а капетан је проверио терет и забележио време у дневник.", "sr"),
        ("for (i = 0; i < n; i++) { a[i] += b[i] * c[i]; }", "und"),
        (f"{'This file may be copied by anybody, in whole or in part. ' * 40}{TEXTS['pl'] * 120}", "pl"),
    ],
)
def test_scripts_and_the_whole_text_decide(text: str, lang: str, tmp_path: Path) -> None:
    assert languages(records(tmp_path / "a.jsonl", text)) == [lang]


def test_a_page_of_another_language_than_its_template_says_is_in_its_own(tmp_path: Path) -> None:
    page = tmp_path / "a.html"
    page.write_text(f"<html lang='en-US'><p>{TEXTS['ru']}</p></html>")
    assert languages(page) == ["ru"]
    assert remarks(readings(page)) == ["its <html lang> says en, and its text is in another language"]
    page.write_text(f"<html lang='de'><p>{TEXTS['de']}</p></html>")
    assert (languages(page), remarks(readings(page))) == (["de"], [])
    page.write_text("<html lang='fi'><p>tea</p></html>")
    assert languages(page) == ["fi"]


def test_chrome_and_readings_of_characters_are_no_text(tmp_path: Path) -> None:
    page = tmp_path / "a.html"
    page.write_text(
        "<html><body class='cookie-free'><header>Shop</header><div role=navigation>Home</div><article><header><h1>Ferry"
        "</h1></header><p>The <ruby>渡<rp>(</rp><rt>わた</rt><rp>)</rp></ruby> leaves at dawn, and "
        "the captain looks after the load.</p></article><div id=cookieBar>"
        "We use cookies</div><section id=cookie-notice>Accept</section><select><option>de</select>"
        "<table class=navfooter><td>Next</table><footer>2026</footer></body></html>"
    )
    (document,) = readings(page)
    assert isinstance(document, Document)
    assert document.text == "Ferry\nThe 渡 leaves at dawn, and the captain looks after the load."
    page.write_text(f"<html><body><div class='cookie-recipes'><p>{TEXTS['de']}</p></div></body></html>")
    (document,) = readings(page)
    assert isinstance(document, Document)
    assert document.text == TEXTS["de"]


def test_a_text_of_digits_alone_has_no_language(tmp_path: Path) -> None:
    assert languages(records(tmp_path / "a.jsonl", "12 345 67", "🎉")) == ["und", "und"]
