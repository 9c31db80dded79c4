"""Parallel text in the layouts it comes in."""

import gzip
from pathlib import Path

import pytest

from encoders.errors import BadInput
from indexer.parallel.aligned_sentence import AlignedSentence
from indexer.parallel.parallel_files import find_files, read_parallel
from indexer.parallel.scripts import wrong_script
from indexer.readers.records.source import Refusal
from indexer.training.aligned_corpus import choose_pivots, gather, hold_out


def _read(*paths: Path) -> tuple[list[dict[str, str]], list[Refusal]]:
    readings = list(read_parallel(find_files([str(path) for path in paths])))
    rows = [dict(reading.texts) for reading in readings if isinstance(reading, AlignedSentence)]
    return rows, [reading for reading in readings if isinstance(reading, Refusal)]


def test_a_table_has_a_column_a_language(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("id\ten\tde\n1\thouse\tHaus\n2\tdog\n3\tcat\tKatze\n", encoding="utf-8")
    rows, refused = _read(tmp_path / "a.tsv")
    assert rows == [{"en": "house", "de": "Haus"}, {"en": "cat", "de": "Katze"}]
    assert [note.place.rsplit(":", 1)[1] for note in refused] == ["3"]
    assert "2 columns and the header 3" in refused[0].text


@pytest.mark.parametrize("name", ["und", "xx", "mul", "unknown"])
def test_a_column_of_no_known_language_is_no_side(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.tsv").write_text(f"en\tde\t{name}\nhouse\tHaus\tx\n", encoding="utf-8")
    (tmp_path / "a.jsonl").write_text(f'{{"en": "dog", "de": "Hund", "{name}": "x"}}', encoding="utf-8")
    assert _read(tmp_path / "a.tsv")[0] == [{"en": "house", "de": "Haus"}]
    assert _read(tmp_path / "a.jsonl")[0] == [{"en": "dog", "de": "Hund"}]


def test_json_lines_have_texts_by_language_at_the_top_or_under_translation(tmp_path: Path) -> None:
    lines = ['{"id": "1", "en": "house", "de-DE": "Haus"}', '{"translation": {"en": "dog", "fr": "chien"}}', "[1]", "{"]
    (tmp_path / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")
    rows, refused = _read(tmp_path / "a.jsonl")
    assert rows == [{"en": "house", "de": "Haus"}, {"en": "dog", "fr": "chien"}]
    assert len(refused) == 2


@pytest.mark.parametrize(
    "line",
    [
        '{"en": "house", "de": null}',
        '{"de": "Haus"}',
        '{"en": "house", "de": ["Haus"]}',
        '{"english": "house", "german": "Haus"}',
    ],
)
def test_json_lines_of_fewer_than_two_languages_are_refused_with_their_place(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.jsonl").write_text('{"en": "dog", "de": "Hund"}\n' + line, encoding="utf-8")
    rows, refused = _read(tmp_path / "a.jsonl")
    assert rows == [{"en": "dog", "de": "Hund"}]
    assert [note.place.rsplit(":", 1)[1] for note in refused] == ["2"]
    assert refused[0].text == "it has text in fewer than two languages; name them by tags such as en and de"


def test_moses_files_are_one_text_by_their_common_name(tmp_path: Path) -> None:
    (tmp_path / "europarl.de-en.de").write_text("Haus\nHund\n", encoding="utf-8")
    with gzip.open(tmp_path / "europarl.de-en.en.gz", "wt", encoding="utf-8") as out:
        out.write("house\ndog\n")
    (tmp_path / "README.md").write_text("about", encoding="utf-8")
    expected = [{"de": "Haus", "en": "house"}, {"de": "Hund", "en": "dog"}]
    assert _read(tmp_path)[0] == expected
    assert _read(tmp_path / "europarl.de-en.de")[0] == expected
    assert _read(tmp_path / "europarl.de-en.de", tmp_path / "europarl.de-en.en.gz")[0] == expected


def test_where_two_sides_are_named_what_stands_beside_them_is_none(tmp_path: Path) -> None:
    """``t.bak`` would be Bashkir, and ``t.log`` Logo."""
    for ending, text in {"de": "Haus\n", "en": "house\n", "bak": "old\nolder\n", "log": "12:00 got\n"}.items():
        (tmp_path / f"t.{ending}").write_text(text, encoding="utf-8")
    assert _read(tmp_path / "t.en", tmp_path / "t.de")[0] == [{"de": "Haus", "en": "house"}]


@pytest.mark.parametrize(
    ("name", "start", "line", "advice"),
    [
        ("a.tsv", "en\tde\n", "house\tHaus", "split the record"),
        ("a.jsonl", "", '{"en": "house", "de": "Haus"}', "split the record"),
        (
            "a.tmx",
            "<tmx><body>",
            '<tu><tuv lang="en"><seg>house</seg></tuv><tuv lang="de"><seg>Haus</seg></tuv></tu>',
            "split it",
        ),
    ],
)
def test_a_line_longer_than_the_bound_ends_its_file_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, start: str, line: str, advice: str
) -> None:
    for module in ("indexer.readers.records.files", "indexer.parallel.tmx"):
        monkeypatch.setattr(f"{module}.RECORD_LIMIT", 100_000)
    long_line = line.replace("house", "house " * 100_000)
    (tmp_path / name).write_text(f"{start}{line}\n{long_line}\n{line}\n", encoding="utf-8")
    rows, refused = _read(tmp_path / name)
    assert rows == [{"en": "house", "de": "Haus"}]
    assert len(refused) == 1
    assert refused[0].text.endswith(f"MB; {advice}")


def test_a_line_of_a_moses_file_longer_than_the_bound_is_no_empty_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.readers.records.files.RECORD_LIMIT", 100)
    (tmp_path / "t.de").write_text("Haus\n" + "Hund " * 100 + "\n", encoding="utf-8")
    (tmp_path / "t.en").write_text("house\ndog\n", encoding="utf-8")
    rows, refused = _read(tmp_path)
    assert rows == [{"de": "Haus", "en": "house"}]
    assert [note.text for note in refused] == ["the line has more than 64 MB; split the record"]


UNIT = '<tu><tuv xml:lang="en"><seg>house</seg></tuv><tuv xml:lang="de"><seg>Haus</seg></tuv></tu>'
DEEP = f"<tu><tuv lang='en'><seg>{'<b>' * 5000}house{'</b>' * 5000}</seg></tuv></tu>"


@pytest.mark.parametrize(
    ("name", "content", "place", "reason"),
    [
        ("a.jsonl", "[" * 100_000 + '\n{"en": "house", "de": "Haus"}\n', ":1", "it is not valid JSON"),
        ("a.tmx", f"<tmx><body>{UNIT}{DEEP}</body></tmx>", "", "what came before is kept"),
        ("a.tmx", f"<tmx><body>{UNIT}<tu><tuv></body>", "", "it is not valid XML"),
    ],
    ids=["deep JSON", "deep TMX", "broken TMX"],
)
def test_what_is_broken_or_nested_too_deep_is_refused_and_the_rest_is_read(
    tmp_path: Path, name: str, content: str, place: str, reason: str
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    rows, refused = _read(tmp_path / name)
    assert rows == [{"en": "house", "de": "Haus"}]
    assert refused[0].place == f"{tmp_path / name}{place}"
    assert reason in refused[0].text


def test_moses_files_of_different_lengths_are_refused_whole(tmp_path: Path) -> None:
    (tmp_path / "t.de").write_text("Haus\nHund\n", encoding="utf-8")
    (tmp_path / "t.en").write_text("house\n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"t\.de:2: too few lines in t\.en; get files with equally many lines"):
        _read(tmp_path)


def test_tmx_units_give_their_segments_without_codes(tmp_path: Path) -> None:
    (tmp_path / "m.tmx").write_text(
        """<?xml version="1.0"?><tmx version="1.4"><header/><body>
        <tu tuid="7"><tuv xml:lang="en-GB"><seg>Open <bpt>&lt;b></bpt>the <hi>file</hi><ept>&lt;/b></ept>.</seg></tuv>
        <tuv lang="DE"><seg>Datei öffnen.</seg></tuv></tu>
        <tu><tuv xml:lang="en"><seg>Close</seg></tuv></tu></body></tmx>""",
        encoding="utf-8",
    )
    rows, refused = _read(tmp_path)
    assert rows == [{"en": "Open the file.", "de": "Datei öffnen."}]
    assert [note.place.rsplit(": ", 1)[1] for note in refused] == ["unit 2"]
    assert "text in fewer than two languages" in refused[0].text


def test_a_folder_of_a_file_a_language_is_joined_by_id(tmp_path: Path) -> None:
    for lang, lines in {"en": ["S1\thouse", "S2\tdog"], "de": ["S2\tHund", "S3\tKatze"]}.items():
        with gzip.open(tmp_path / f"{lang}.tsv.gz", "wt", encoding="utf-8") as out:
            out.write("\n".join(["sid\ttext", *lines, ""]))
    rows, refused = _read(tmp_path)
    assert {"en": "dog", "de": "Hund"} in rows
    assert refused == []


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("alone.de", "Haus\n", "is no parallel text that is read here"),
        ("notes.pdf", "x", "is no parallel text that is read here"),
    ],
)
def test_what_is_no_parallel_text_is_refused_at_once(tmp_path: Path, name: str, content: str, said: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(BadInput, match=said):
        find_files([str(tmp_path / name)])
    with pytest.raises(BadInput, match="does not exist"):
        find_files([str(tmp_path / "nowhere")])


def test_empty_sides_and_other_scripts_are_left_out_with_their_places() -> None:
    readings = [
        AlignedSentence("t:1", {"en": "the house", "ru": "дом", "de": "Haus"}),
        AlignedSentence("t:2", {"en": "  ", "ru": "собака", "de": "Hund"}),
        AlignedSentence("t:3", {"en": "cat", "ru": "the cat sat here", "de": "Katze"}),
        AlignedSentence("t:4", {"en": "LibreOffice", "ru": ""}),
        AlignedSentence("t:5", {"en": "LibreOffice Calc", "ru": "Таблица LibreOffice Calc", "ja": "表 (Calc)"}),
    ]
    text = gather(readings)
    assert text.rows == [
        {"en": "the house", "ru": "дом", "de": "Haus"},
        {"ru": "собака", "de": "Hund"},
        {"en": "cat", "de": "Katze"},
        {"en": "LibreOffice Calc", "ru": "Таблица LibreOffice Calc", "ja": "表 (Calc)"},
    ]
    assert [(note.place, note.text) for note in text.refused] == [
        ("t:2", "its en side is empty"),
        (
            "t:3",
            "its ru side is in another script than ru is written in; if it is right, name the script: ru-Latn, say",
        ),
        ("t:4", "its ru side is empty"),
    ]


@pytest.mark.parametrize(
    ("lang", "right", "wrong"),
    [
        ("km", "ភាសាខ្មែរ", "the language"),
        ("lo", "ພາສາລາວ", "the language"),
        ("my", "မြန်မာဘာသာ", "the language"),
        ("te", "తెలుగు భాష", "ಕನ್ನಡ ಭಾಷೆ"),
        ("ml", "മലയാളം", "தமிழ்"),
        ("gu", "ગુજરાતી", "हिन्दी"),
        ("am", "አማርኛ ቋንቋ", "the language"),
        ("bo", "བོད་སྐད་", "the language"),
        ("dv", "ދިވެހި", "the language"),
        ("ko", "한국어", "にほんご"),
        ("ja", "データベース", "한국어"),
        ("zh", "中文", "русский"),
        ("sr-Latn", "srpski jezik", "српски језик"),
        ("de", "die Sprache", "ភាសាខ្មែរ"),
    ],
)
def test_every_languages_script_is_known(lang: str, right: str, wrong: str) -> None:
    assert not wrong_script(right, lang)
    assert wrong_script(wrong, lang)


@pytest.mark.parametrize(
    ("lang", "texts"),
    [("sr", ["srpski jezik", "српски језик"]), ("kk", ["қазақ тілі", "قازاق تىلى"]), ("zh", ["中文", "臺灣"])],
)
def test_a_language_of_several_scripts_may_be_in_each(lang: str, texts: list[str]) -> None:
    assert not any(wrong_script(text, lang) for text in [*texts, "12 + 3", ""])
    assert wrong_script("ภาษาไทย", lang)


def test_pivots_are_english_and_spanish_or_the_languages_with_most_sentences() -> None:
    rows = [AlignedSentence(str(n), {"de": "a", "fr": "b", **({"en": "c"} if n % 2 else {})}) for n in range(40)]
    languages = gather(rows).languages()
    assert choose_pivots([], languages) == ("de", "fr")
    assert choose_pivots(["en", "de"], languages) == ("en", "de")
    with pytest.raises(BadInput, match=r"pivot es is not in the sources, which have de, en, fr; choose of these"):
        choose_pivots(["en", "es"], languages)
    with pytest.raises(BadInput, match="sentences in the only pivot have no language to be translated into; name two"):
        choose_pivots(["en"], languages)


def test_what_is_held_out_is_not_learnt_from() -> None:
    text = gather([AlignedSentence(str(n), {"de": f"Satz {n}", "en": f"sentence {n}"}) for n in range(100)])
    train, held = hold_out(text)
    assert (len(train.rows), len(held.rows)) == (95, 5)
    assert not {row["de"] for row in train.rows} & {row["de"] for row in held.rows}
    assert hold_out(text)[1].rows == held.rows
    with pytest.raises(BadInput, match=r"3 aligned sentences.*20 are the least"):
        hold_out(gather([AlignedSentence(str(n), {"de": "a", "en": "b"}) for n in range(3)]))
