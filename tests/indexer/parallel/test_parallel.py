"""Parallel text in the layouts it comes in."""

import gzip
from pathlib import Path

import pytest

from encoders.errors import BadInput
from indexer.parallel.aligned_sentence import AlignedSentence
from indexer.parallel.parallel_files import find_files, read_parallel
from indexer.readers.records.source import Refusal
from indexer.training.aligned_corpus import choose_pivots, gather, hold_out, wrong_script
from tests.conftest import Patch

HOUSE, DOG = {"en": "house", "de": "Haus"}, {"en": "dog", "de": "Hund"}
FEWER = "it has text in fewer than two languages; name them by tags such as en and de"
UNIT = '<tu><tuv xml:lang="en-GB"><seg>house</seg></tuv><tuv lang="DE"><seg>Haus</seg></tuv></tu>'
CODES = "Open <bpt>&lt;b></bpt>the <hi>file</hi><ept>&lt;/b></ept>."
CODED = f"<tmx><body>{UNIT.replace('house', CODES)}<tu><tuv lang='en'><seg>x</seg></tuv></tu></body></tmx>"
TABLE, TAGGED = "id\ten\tde\n1\thouse\tHaus\n2\tx\n3\tdog\tHund\n", '{"id": "1", "en": "house", "de-DE": "Haus"}'
ONE_SIDED = ['{"en": "house", "de": null}', '{"de": "Haus"}', '{"en": "house", "de": ["Haus"]}']
ONE_SIDED.append('{"english": "house", "german": "Haus"}')
DEEP = f"<tu><tuv lang='en'><seg>{'<b>' * 5000}house{'</b>' * 5000}</seg></tuv></tu>"
LONG = "house " * 100_000


def _read(*paths: Path) -> tuple[list[dict[str, str]], list[tuple[str, str]]]:
    """The sentences of files; of what is refused, its place after the folder and why."""
    readings = list(read_parallel(find_files([str(path) for path in paths])))
    rows = [dict(reading.texts) for reading in readings if isinstance(reading, AlignedSentence)]
    return rows, [(Path(item.place).name, item.text) for item in readings if isinstance(item, Refusal)]


def _write(folder: Path, **files: str) -> None:
    for name, content in files.items():
        (folder / name.replace("_", ".")).write_text(content, encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "content", "rows", "place", "reason"),
    [
        ("a.tsv", TABLE, [HOUSE, DOG], "a.tsv:3", "2 columns and the header 3"),
        ("a.jsonl", f"{TAGGED}\n[1]", [HOUSE], "a.jsonl:2", "it is no object of texts by language"),
        ("a.jsonl", '{"translation": {"en": "dog", "de": "Hund"}}\n{', [DOG], "a.jsonl:2", "it is not valid JSON"),
        ("a.jsonl", "[" * 100_000 + '\n{"en": "dog", "de": "Hund"}\n', [DOG], "a.jsonl:1", "it is not valid JSON"),
        *(("a.jsonl", f'{{"en": "dog", "de": "Hund"}}\n{line}', [DOG], "a.jsonl:2", FEWER) for line in ONE_SIDED),
        ("a.tmx", CODED, [{"en": "Open the file.", "de": "Haus"}], "a.tmx: unit 2", "it has text in fewer than two"),
        ("a.tmx", f"<tmx><body>{UNIT}{DEEP}</body></tmx>", [HOUSE], "a.tmx", "what came before is kept"),
        ("a.tmx", f"<tmx><body>{UNIT}<tu><tuv></body>", [HOUSE], "a.tmx", "it is not valid XML"),
    ],
)
def test_sentences_are_read(tmp_path: Path, name: str, content: str, rows: object, place: str, reason: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    found, ((there, why),) = _read(tmp_path / name)
    assert (found, there) == (rows, place)
    assert reason in why


@pytest.mark.parametrize("name", ["und", "xx", "mul", "unknown"])
def test_a_column_of_no_known_language_is_no_side(tmp_path: Path, name: str) -> None:
    _write(tmp_path, a_tsv=f"en\tde\t{name}\nhouse\tHaus\tx\n", a_jsonl=f'{{"en": "dog", "de": "Hund", "{name}": "x"}}')
    assert (_read(tmp_path / "a.tsv")[0], _read(tmp_path / "a.jsonl")[0]) == ([HOUSE], [DOG])


def test_moses_files_are_one_text_by_their_common_name(tmp_path: Path) -> None:
    (tmp_path / "europarl.de-en.de").write_text("Haus\nHund\n", encoding="utf-8")
    (tmp_path / "europarl.de-en.en.gz").write_bytes(gzip.compress(b"house\ndog\n"))
    (tmp_path / "README.md").write_text("about", encoding="utf-8")
    german, english = tmp_path / "europarl.de-en.de", tmp_path / "europarl.de-en.en.gz"
    for paths in ([tmp_path], [german], [german, english]):
        assert _read(*paths)[0] == [HOUSE, DOG]


def test_where_two_sides_are_named_what_stands_beside_them_is_none(tmp_path: Path) -> None:
    """``t.bak`` would be Bashkir, and ``t.log`` Logo."""
    _write(tmp_path, t_de="Haus\n", t_en="house\n", t_bak="old\nolder\n", t_log="12:00 got\n")
    assert _read(tmp_path / "t.en", tmp_path / "t.de")[0] == [HOUSE]


@pytest.mark.parametrize(
    ("name", "start", "line", "advice"),
    [
        ("a.tsv", "en\tde\n", "house\tHaus", "split the record"),
        ("a.jsonl", "", '{"en": "house", "de": "Haus"}', "split the record"),
        ("a.tmx", "<tmx><body>", UNIT, "split it"),
    ],
)
def test_a_line_longer_than_the_bound_ends_its_file_with_a_sentence(
    tmp_path: Path, monkeypatch: Patch, name: str, start: str, line: str, advice: str
) -> None:
    for module in ("indexer.readers.records.files", "indexer.parallel.tmx"):
        monkeypatch.setattr(f"{module}.RECORD_LIMIT", 100_000)
    (tmp_path / name).write_text(f"{start}{line}\n{line.replace('house', LONG)}\n{line}\n", encoding="utf-8")
    rows, ((_, reason),) = _read(tmp_path / name)
    assert rows == [HOUSE]
    assert reason.endswith(f"MB; {advice}")
    (tmp_path / name).unlink()
    _write(tmp_path, t_de=f"Haus\n{LONG}\n", t_en="house\ndog\n")  # and no empty line of a Moses file
    assert _read(tmp_path) == ([HOUSE], [("t.de:2", "the line has more than 64 MB; split the record")])


def test_what_is_no_parallel_text_is_refused_at_once(tmp_path: Path) -> None:
    _write(tmp_path, t_de="Haus\nHund\n", t_en="house\n")
    with pytest.raises(BadInput, match=r"t\.de:2: too few lines in t\.en; get files with equally many lines"):
        _read(tmp_path)
    _write(tmp_path, alone_de="Haus\n", notes_pdf="x")
    for name in ("alone.de", "notes.pdf"):
        with pytest.raises(BadInput, match="is no parallel text that is read here"):
            find_files([str(tmp_path / name)])
    with pytest.raises(BadInput, match="does not exist"):
        find_files([str(tmp_path / "nowhere")])


def test_a_folder_of_a_file_a_language_is_joined_by_id(tmp_path: Path) -> None:
    for lang, lines in {"en": "S1\thouse\nS2\tdog\n", "de": "S2\tHund\nS3\tKatze\n"}.items():
        (tmp_path / f"{lang}.tsv.gz").write_bytes(gzip.compress(f"sid\ttext\n{lines}".encode()))
    rows, refused = _read(tmp_path)
    assert DOG in rows
    assert refused == []


def test_empty_sides_and_other_scripts_are_left_out_with_their_places() -> None:
    text = gather(
        [
            AlignedSentence("t:1", {"en": "the house", "ru": "дом", "de": "Haus"}),
            AlignedSentence("t:2", {"en": "  ", "ru": "собака", "de": "Hund"}),
            AlignedSentence("t:3", {"en": "cat", "ru": "the cat sat here", "de": "Katze"}),
            AlignedSentence("t:4", {"en": "LibreOffice", "ru": ""}),
            AlignedSentence("t:5", {"en": "Office Calc", "ru": "Таблица Office Calc", "ja": "表 (Calc)"}),
        ]
    )
    assert text.rows == [
        {"en": "the house", "ru": "дом", "de": "Haus"},
        {"ru": "собака", "de": "Hund"},
        {"en": "cat", "de": "Katze"},
        {"en": "Office Calc", "ru": "Таблица Office Calc", "ja": "表 (Calc)"},
    ]
    other = "its ru side is in another script than ru is written in; if it is right, name the script: ru-Latn, say"
    assert [(note.place, note.text) for note in text.refused] == [
        ("t:2", "its en side is empty"),
        ("t:3", other),
        ("t:4", "its ru side is empty"),
    ]


SCRIPTS = [
    ("km", "ភាសាខ្មែរ", "the language"), ("lo", "ພາສາລາວ", "the language"),
    ("my", "မြန်မာဘာသာ", "the language"), ("te", "తెలుగు భాష", "ಕನ್ನಡ ಭಾಷೆ"), ("ml", "മലയാളം", "தமிழ்"),
    ("gu", "ગુજરાતી", "हिन्दी"), ("am", "አማርኛ ቋንቋ", "the language"), ("bo", "བོད་སྐད་", "the language"),
    ("dv", "ދިވެހި", "the language"), ("ko", "한국어", "にほんご"), ("ja", "データベース", "한국어"),
    ("zh", "中文", "русский"), ("sr-Latn", "srpski jezik", "српски језик"), ("de", "die Sprache", "ភាសាខ្មែរ"),
]  # fmt: skip


@pytest.mark.parametrize(("lang", "right", "wrong"), SCRIPTS)
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
    assert (choose_pivots([], languages), choose_pivots(["en", "de"], languages)) == (("de", "fr"), ("en", "de"))
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
