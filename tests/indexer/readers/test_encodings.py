"""The encoding of a file, decided over all of its bytes, for every reader."""

import codecs
import gzip
from pathlib import Path
from typing import Any

import pytest

from encoders.document import Document
from encoders.errors import BadInput
from indexer.readers.formats import read_all
from indexer.readers.records.encodings import known_encoding
from indexer.readers.records.source import ReadOptions, Remark
from tests.indexer.readers.reading import given, notes, readings

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
    ("ko", "cp949"), ("zh", "gb18030"), ("th", "cp874"),
]  # fmt: skip
CUT = "é".encode()[:1]


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
        (TEXTS["th"].encode() + b" \x96\x96 " + CUT, f"{TEXTS['th']} \ufffd\ufffd \ufffd", "3 characters of it"),
    ],
)
def test_a_byte_order_mark_or_zero_bytes_decide_and_a_few_broken_bytes_do_not(
    content: bytes, text: str, said: str, tmp_path: Path
) -> None:
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


def test_what_is_alike_in_all_of_windows_encodings_needs_no_guess(tmp_path: Path) -> None:
    quoted = "It’s the baker’s “bread” – 2 €…"
    assert only(tmp_path / "a.txt", quoted.encode("cp1252"))[0] == quoted


def test_a_wrong_mark_or_declaration_and_half_of_a_guess_are_not_believed(tmp_path: Path) -> None:
    german = TEXTS["de"].encode("cp1252")
    assert given(tmp_path / "a.txt", codecs.BOM_UTF8 + german) == [
        ("a.txt", "it is not UTF-8; say its encoding with --encoding")
    ]
    assert only(tmp_path / "a.html", b"<meta charset='utf-16'><p>" + german)[0] == TEXTS["de"]
    assert only(tmp_path / "dos.txt", TEXTS["de"].encode("cp850"))[0] == TEXTS["de"]
    french = "Le capitaine a vérifié la cargaison, noté la météo et salué les passagers."
    assert only(tmp_path / "mac.txt", french.encode("mac_roman"))[0] == french


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
        ("menu.old.txt", "it is not UTF-8; say its encoding with --encoding")
    ]
    with pytest.raises(BadInput, match=r"menu\.old\.txt: it is not UTF-8 and taken for windows-1251; .* \(--strict\)"):
        given(path, TEXTS["ru"].encode("cp1251"), strict=True)
    for nonsense in ("nonsense", "punycode", "undefined", "base64", "*.txt=nonsense"):
        with pytest.raises(BadInput, match="is no encoding that is known"):
            given(path, b"", encoding=nonsense)
    assert known_encoding("windows-31j") == known_encoding("Shift_JIS") == "cp932"


def test_wide_characters_without_a_mark_or_zero_bytes_are_read_as_is_said(tmp_path: Path) -> None:
    chinese = TEXTS["zh"].encode("utf-16-le")
    assert only(tmp_path / "a.txt", chinese, encoding="*.txt=utf-16le") == (TEXTS["zh"], [])
    assert only(tmp_path / "a.csv", f"id,text\n1,{TEXTS['el']}".encode("utf-16-be")) == (TEXTS["el"], [])
    assert "it is binary" in str(given(tmp_path / "a.bin", bytes(range(256)) * 20))
    assert "holds NUL characters" in str(given(tmp_path / "b.csv", b"id,text\n1,a\0b"))


def test_a_guess_leans_on_the_languages_of_the_records_and_of_the_collection(tmp_path: Path) -> None:
    text = "Žluté lodě plují"
    ((_, refused),) = given(tmp_path / "a.txt", text.encode("cp1250"))  # type: ignore[misc]
    assert "its encoding can't be told" in refused
    assert only(tmp_path / "a.txt", text.encode("cp1250"), languages=["cs", "ru"])[0] == text
    record = f'{{"id": "1", "lang": "cs", "text": "{text}"}}'
    assert only(tmp_path / "a.jsonl", record.encode("cp1250"))[0] == text
    assert only(tmp_path / "b.txt", TEXTS["ru"].encode("koi8-r"), languages=["cs", "de"])[0] == TEXTS["ru"]


def test_a_pattern_that_fits_no_file_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    options = ReadOptions(encoding="*.old=koi8-r,*.txt=utf-8")
    (said,) = [one for one in read_all([str(tmp_path)] * 2, options) if isinstance(one, Remark)]
    assert said.place == "--encoding *.old=koi8-r"
