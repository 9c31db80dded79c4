"""The encoding of a file, decided over all of its bytes, and the language of documents that name none."""

import codecs
import gzip
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from encoders.document import Document
from encoders.errors import BadInput
from indexer.readers.document_languages import with_languages
from indexer.readers.formats import read_all
from indexer.readers.records.encodings import known_encoding
from indexer.readers.records.source import ReadOptions, Remark
from tests.indexer.readers.reading import given, notes, readings, remarks

TEXTS = {
    "ru": "Паром отошёл от причала на рассвете. Капитан проверил груз и записал погоду в журнал.",
    "uk": "Пором відійшов від причалу на світанку. Капітан перевірив вантаж і записав погоду в журнал.",
    "pl": "Prom odbił od nabrzeża o świcie. Kapitan sprawdził ładunek i zapisał pogodę w dzienniku, później zaś usnął.",
    "cs": "Trajekt odrazil od mola za úsvitu. Kapitán zkontroloval náklad a zapsal počasí do deníku, příliš brzy však.",
    "de": "Die Fähre legte früh ab. Der Kapitän prüfte die Güter, schrieb über das schöne Wetter, grüßte die Gäste.",
    "el": "Το πλοίο έφυγε από την προβλήτα την αυγή. Ο καπετάνιος έλεγξε το φορτίο και έγραψε για τον καιρό.",
    "tr": "Vapur şafakta iskeleden ayrıldı. Kaptan yükü kontrol etti ve havayı günlüğüne yazdı, sonra çay içti.",
    "he": "המעבורת עזבה את הרציף עם שחר. רב החובל בדק את המטען ורשם את מזג האוויר ביומן.",
    "ar": "غادرت العبارة الرصيف عند الفجر. فحص القبطان الحمولة وكتب عن الطقس في السجل.",
    "ja": "渡し船は夜明けに桟橋を離れた。船長は積み荷を調べ、天気を日誌に書いた。",
    "ko": "나룻배는 새벽에 부두를 떠났다. 선장은 짐을 살피고 날씨를 일지에 적었다.",
    "zh": "渡船黎明时分离开码头。船长检查了货物，并把天气写进日志。",
    "th": "เรือข้ามฟากออกจากท่าเมื่อรุ่งสาง กัปตันตรวจสินค้าและจดสภาพอากาศลงในบันทึก",
}
OLD = [
    ("ru", "cp1251"), ("ru", "koi8-r"), ("ru", "iso8859-5"), ("uk", "koi8-u"), ("pl", "cp1250"), ("pl", "iso8859-2"),
    ("cs", "cp1250"), ("de", "cp1252"), ("el", "iso8859-7"), ("tr", "cp1254"), ("he", "cp1255"), ("ar", "cp1256"),
    ("ja", "cp932"), ("ja", "euc_jp"), ("ja", "iso2022_jp"), ("ko", "iso2022_kr"),
    ("ko", "cp949"), ("zh", "gb18030"), ("zh", "hz"), ("th", "cp874"),
]  # fmt: skip


def only(path: Path, content: bytes, **options: Any) -> tuple[str, list[str]]:
    """The text of the one document of a file, and what is said of the file."""
    found = given(path, content, **options)
    (text,) = [one.text for one in found if isinstance(one, Document)]
    return text, [sentence for _, sentence in notes(found)]


@pytest.mark.parametrize(("lang", "encoding"), OLD)
@pytest.mark.parametrize("form", ["txt", "html", "jsonl", "csv", "trec"])
def test_an_old_encoding_is_guessed_for_every_reader_and_the_guess_is_told(
    form: str, lang: str, encoding: str, tmp_path: Path
) -> None:
    text = TEXTS[lang]
    content = {
        "txt": text,
        "html": f"<html><script>{'var a;' * 400}</script><form accept-charset='utf-8'></form><p>{text}</p></html>",
        "jsonl": f'{{"id": "1", "text": "{text}"}}\n',
        "csv": f'id,text\n1,"{text}"\n',
        "trec": f"<DOC><DOCNO>1</DOCNO><TEXT>{text}</TEXT></DOC>",
    }[form]
    read, said = only(tmp_path / f"a.{form}", content.encode(encoding))
    assert read == text
    assert [sentence for sentence in said if "taken for" in sentence] == said != []


@pytest.mark.parametrize(
    ("content", "text", "said"),
    [
        (codecs.BOM_UTF16_LE + TEXTS["pl"].encode("utf-16-le"), TEXTS["pl"], ""),
        (codecs.BOM_UTF32_BE + TEXTS["ja"].encode("utf-32-be"), TEXTS["ja"], ""),
        (codecs.BOM_UTF8 + TEXTS["de"].encode(), TEXTS["de"], ""),
        (TEXTS["ru"].encode("utf-16-le"), TEXTS["ru"], ""),
        (TEXTS["pl"].encode("utf-16-be"), TEXTS["pl"], ""),
        (TEXTS["ja"].encode("utf-32-le"), TEXTS["ja"], ""),
        (TEXTS["ru"].encode() + b" \xff.", f"{TEXTS['ru']} \ufffd.", "1 character of it is broken in UTF-8"),
        (b"word " * 300 + b"\xff", f"{'word ' * 300}\ufffd", "1 character of it is broken"),
        (codecs.BOM_UTF16_LE + b"w\0" * 300 + b"\xff", f"{'w' * 300}\ufffd", "1 character of it is broken"),
        (TEXTS["th"].encode() + b" \x96\x96 \xc3", f"{TEXTS['th']} \ufffd\ufffd \ufffd", "3 characters of it"),
    ],
)
def test_a_mark_or_zero_bytes_decide_not_broken_bytes(content: bytes, text: str, said: str, tmp_path: Path) -> None:
    read, sentences = only(tmp_path / "a.txt", content)
    assert (read, len(sentences)) == (text, bool(said))
    assert all(said in sentence for sentence in sentences)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(content))
    assert [one.text for one in readings(tmp_path / "a.txt.gz") if isinstance(one, Document)] == [text]


@pytest.mark.parametrize(
    ("label", "encoding", "text"),
    [
        ("iso-8859-1", "cp1252", "It’s 100 € – “so”"),
        ("GB2312", "gb18030", "渡船黎明時分離開碼頭"),
        ("x-sjis", "cp932", "第①回・㈱髙島屋で開催"),
        ("euc-kr", "cp949", "똠방각하 펲시콜라"),
        ("iso-8859-8-i", "iso8859-8", "המעבורת עזבה את הרציף"),
        ("iso-8859-9", "cp1254", "“Şafakta” ayrıldı"),
        ("tis-620", "cp874", "เรือ “ข้ามฟาก”"),
    ],
)
def test_a_declared_label_is_read_as_browsers_read_it(label: str, encoding: str, text: str, tmp_path: Path) -> None:
    page = f"<html><head><script>var charset = 'koi8-r';</script><meta charset='{label}'></head><p>{text}</p></html>"
    assert only(tmp_path / "a.html", page.encode(encoding)) == (text, [])
    markup = f"<?xml version='1.0' encoding='{label}'?><DOC><DOCNO>1</DOCNO><TEXT>{text}</TEXT></DOC>"
    assert only(tmp_path / "a.trec", markup.encode(encoding)) == (text, [])


def test_a_wrong_mark_or_declaration_and_half_of_a_guess_are_not_believed(tmp_path: Path) -> None:
    german = TEXTS["de"].encode("cp1252")
    assert given(tmp_path / "a.txt", codecs.BOM_UTF8 + german) == [
        ("a.txt", "it is not UTF-8, as its byte order mark or --encoding says; correct this")
    ]
    assert only(tmp_path / "a.html", b"<meta charset='utf-16'><p>" + german)[0] == TEXTS["de"]
    assert only(tmp_path / "dos.txt", TEXTS["de"].encode("cp850"))[0] == TEXTS["de"]
    french = "Le capitaine a vérifié la cargaison, noté la météo et salué les passagers."
    assert only(tmp_path / "mac.txt", french.encode("mac_roman"))[0] == french
    quoted = "It’s the baker’s “bread” – 2 €…"  # alike in all of Windows' encodings
    assert only(tmp_path / "a.txt", quoted.encode("cp1252"))[0] == quoted


@pytest.mark.parametrize(
    ("lang", "western"), [("de", "windows-1252"), *((lang, "latin1") for lang in ("de", "pl", "ru", "el", "ja"))]
)
def test_what_was_written_in_utf_8_twice_is_refused_with_what_undoes_it(
    lang: str, western: str, tmp_path: Path
) -> None:
    twice = TEXTS[lang].encode().decode(western).encode()
    ((_, refused),) = given(tmp_path / "a.txt", twice)  # type: ignore[misc]
    assert f"in UTF-8 twice, as '{re.search('[^ -~]', twice.decode())[0]}" in refused  # type: ignore[index]
    command = refused.partition("undo it: ")[2].partition(";")[0].split()
    assert command == ["iconv", "-f", "utf-8", "-t", western]
    undone = subprocess.run(command, input=twice, capture_output=True, check=True).stdout
    assert only(tmp_path / "a.txt", undone) == (TEXTS[lang], [])
    assert only(tmp_path / "a.txt", twice, encoding="utf-8")[0][:1] == twice.decode()[:1]
    quoted = f"{TEXTS[lang]} «\u00a0É\u00a0»: d’où “Ã©”, à\u00a0»"
    assert only(tmp_path / "a.txt", quoted.encode()) == (quoted, [])


@pytest.mark.parametrize("start", [b"<!--", b"<script>x<\\/script>", b"<", b"<style"])
def test_markup_that_never_ends_takes_no_longer(start: bytes, tmp_path: Path) -> None:
    assert given(tmp_path / "a.txt", start * (400_000 // len(start)) + b"\xe9\xff")


def test_what_cannot_be_told_is_refused_and_can_be_said_by_a_pattern_or_by_the_language(tmp_path: Path) -> None:
    path = tmp_path / "menu.old.txt"
    ((_, refused),) = given(path, b"caf\xe9")  # type: ignore[misc]
    assert "its encoding can't be told; say it, as in --encoding windows-1252" in refused
    assert only(path, b"caf\xe9", lang="fr")[0] == "café"
    assert only(path, b"caf\xe9", encoding="*.new.txt=koi8-r,*.old.txt=iso-8859-2") == ("café", [])
    assert only(path, b"caf\xe9", encoding="koi8-r")[0] == "cafИ"
    assert given(path, TEXTS["ru"].encode("cp1251"), encoding="utf-8") == [
        ("menu.old.txt", "it is not UTF-8, as its byte order mark or --encoding says; correct this")
    ]
    with pytest.raises(BadInput, match=r"menu\.old\.txt: it is not UTF-8 and taken for windows-1251; .* \(--strict\)"):
        given(path, TEXTS["ru"].encode("cp1251"), strict=True)
    for nonsense in ("nonsense", "punycode", "undefined", "base64", "*.txt=nonsense"):
        with pytest.raises(BadInput, match="is no encoding that is known"):
            given(path, b"", encoding=nonsense)
    assert known_encoding("windows-31j") == known_encoding("Shift_JIS") == "cp932"


def test_wide_characters_without_a_mark_or_zero_bytes_are_read_as_is_said(tmp_path: Path) -> None:
    assert only(tmp_path / "a.txt", TEXTS["zh"].encode("utf-16-le"), encoding="*.txt=utf-16le") == (TEXTS["zh"], [])
    assert only(tmp_path / "a.csv", f"id,text\n1,{TEXTS['el']}".encode("utf-16-be")) == (TEXTS["el"], [])
    for lang in ("zh", "ja", "ko", "th"):
        assert "utf-16-le" in str(given(tmp_path / "a.txt", (TEXTS[lang] * 6).encode("utf-16-le")))
    assert "it is binary" in str(given(tmp_path / "a.bin", bytes(range(256)) * 20))
    for tex in (r"as in~{\em Faust}, and~{\bf so}", r"x~{6I4} y~}", "a ~{ b"):
        assert only(tmp_path / "a.txt", tex.encode()) == (tex, [])
    assert "holds NUL characters" in str(given(tmp_path / "b.csv", b"id,text\n1,a\0b"))


def test_a_guess_leans_on_the_languages_of_the_records_and_of_the_collection(tmp_path: Path) -> None:
    text = "Žluté lodě plují"
    ((_, refused),) = given(tmp_path / "a.txt", text.encode("cp1250"))  # type: ignore[misc]
    assert "its encoding can't be told" in refused
    assert only(tmp_path / "a.txt", text.encode("cp1250"), languages=["cs", "ru"])[0] == text
    record = f'{{"id": "1", "lang": "cs", "text": "{text}"}}'
    assert only(tmp_path / "a.jsonl", record.encode("cp1250"))[0] == text
    text = "Kůň žere zelí, děti běží"
    for table in (f'id,lang,text\n1,cs,"{text}"\n', f'Language;Text\r\n"CS";"{text}"\r\n', f"text|lang\n{text}|cs"):
        assert only(tmp_path / "a.csv", table.encode("cp1250"))[0] == text
    assert "can't be told" in str(given(tmp_path / "a.csv", f"id;langue;text\n1;cs;{text}\n".encode("cp1250")))
    row = "id,lang,text,concept,label\n1,de,Ein Käse für die Bäcker.,Käse,food\n"
    assert only(tmp_path / "a.csv", row.encode("latin-1"))[0] == "Ein Käse für die Bäcker."
    assert only(tmp_path / "b.txt", TEXTS["ru"].encode("koi8-r"), languages=["cs", "de"])[0] == TEXTS["ru"]


def test_a_pattern_that_fits_no_file_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    options = ReadOptions(encoding="*.old=koi8-r,*.txt=utf-8")
    (said,) = [one for one in read_all([str(tmp_path)] * 2, options) if isinstance(one, Remark)]
    assert said.place == "--encoding *.old=koi8-r"


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
    greek = "Kalimera se olous, tha pao stin agora na agoraso psomi kai tyri gia to spiti, meta tha gyriso."
    for alone in ("Gift", greek, "Ana raye7 el soo2 el yom 3ashan ashtery 3eesh w gebna, w ba3den harga3 el beet."):
        assert languages(records(tmp_path / "one.jsonl", alone)) == ["und"]


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
    assert languages(records(tmp_path / "zh.jsonl", TEXTS["zh"], "渡船黎明時離開碼頭")) == ["zh", "zh-Hant"]
    assert languages(records(tmp_path / "many.jsonl", *["salt mill"] * 300, *[TEXTS["de"]] * 20))[300:] == ["de"] * 20


@pytest.mark.parametrize(
    ("text", "lang"),
    [
        ("ⴰⵣⵓⵍ ⴼⵍⵍⴰⵡⵏ ⴰ ⵉⵎⴷⴷⵓⴽⴰⵍ ⵉⵎⴰⵣⵉⵖⵏ", "und"),
        ("ᎣᏏᏲ ᎣᎩᎾᎵᎢ ᎠᏂᏴᏫᏯ ᎤᏂᏬᏂᎯᏍᏗ", "und"),
        ("Trajekt je isplovio iz luke u zoru, kapetan je proverio teret i seo da beleži lepo vreme, sneg.", "sr-Latn"),
        ("Трајект је испловио из луке у зору, а капетан је проверио терет и забележио време у дневник.", "sr"),
        *((text, "und") for text in ("12 345 67", "🎉")),
        ("5.1.3. 网络接口的名称和地址\n" * 9, "zh"),
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
    content = (
        "<html><body class='cookie-free'><header>Shop</header><div role=navigation>Home</div><article><header><h1>Ferry"
        "</h1></header><p>The <ruby>渡<rp>(</rp><rt>わた</rt><rp>)</rp></ruby> leaves at dawn, and "
        "the captain looks after the load.</p></article><div id=cookieBar>"
        "We use cookies</div><section id=cookie-notice>Accept</section><select><option>de</select>"
        "<table class=navfooter><td>Next</table><footer>2026</footer></body></html>"
    )
    assert only(page, content.encode())[0] == "Ferry\nThe 渡 leaves at dawn, and the captain looks after the load."
    content = f"<html><body><div class='cookie-recipes'><p>{TEXTS['de']}</p></div></body></html>"
    assert only(page, content.encode())[0] == TEXTS["de"]
