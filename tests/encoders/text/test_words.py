"""Words: blanks where there are some, n-grams where there are none, and the same words whole or in pieces."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoders.text.words import pieces, words
from tests.conftest import read_documents


@pytest.mark.parametrize(
    ("lang", "text", "expected"),
    [
        ("de", "Straße, ÜBER 3 Häuser", ["strasse", "über", "3", "häuser"]),
        ("tr", "ISI İyi", ["ısı", "iyi"]),
        ("hi", "हिन्दी में", ["हिन्दी", "में"]),
        ("zh", "中文字 PDF", ["中文", "文字", "pdf"]),
        ("ja", "ファイルを開く", ["ファイル", "を", "開", "く"]),
        ("ja", "保存します", ["保存", "しま", "ます"]),
        ("ko", "한국어", ["한국", "국어"]),
        ("th", "ภาษาไทย", ["ภาษ", "าษา", "ษาไ", "าไท", "ไทย"]),
        ("en", " … ", []),
        ("de", "Do\u00adku\u00adment\u00ad", ["dokument"]),
        ("zh", "中\u00ad文字", ["中文", "文字"]),
        ("en", "㎏", ["kg"]),
    ],
)
def test_words_are_folded_and_cut_by_their_script(lang: str, text: str, expected: list[str]) -> None:
    assert words(text, lang) == expected
    assert pieces(text, lang, 9).words == expected


@given(st.text(alphabet="ab Ü\n½-中ファひ한ไ.\xa0ſﬀ…ﾊﾟ㋀㎏\u00ad", max_size=200), st.integers(1, 9))
def test_pieces_together_are_the_words_of_the_whole(text: str, size: int) -> None:
    found = pieces(text, "ja", size)
    assert list(found.words) == words(text, "ja")
    assert found.places == sorted(found.places)
    assert len(found.ends) == len(found.places)
    assert (found.ends[0], found.ends[-1]) == (0, len(found.words))
    assert (found.places[0], found.places[-1]) == (0, len(text) if found.words else 0)


@given(st.text(alphabet="ab Üß\nИж.,\xa0İ", max_size=200), st.integers(1, 9))
def test_a_piece_is_the_words_of_its_place(text: str, size: int) -> None:
    found = pieces(text, "ru", size)
    for (first, last), (start, end) in zip(pairwise(found.ends), pairwise(found.places), strict=True):
        assert found.words[first:last] == words(text[start:end], "ru")


@pytest.mark.parametrize(("end", "count"), [(" \u0345 b", 3), (" \u0345", 2), ("\u0345b", 1)])
def test_a_mark_that_folds_to_a_letter_keeps_pieces_and_places_together(end: str, count: int) -> None:
    text = "a " * 3 + "a" + end
    found = pieces(text, "el", 1)
    assert list(found.words) == words(text, "el")
    assert len(found.words) == 3 + count
    assert len(found.places) == len(found.ends)


def test_soft_hyphens_end_no_piece() -> None:
    text = "\u00adDo\u00adku\u00adment und Da\u00adtei"
    found = pieces(text, "de", 1)
    assert [text[start:end].replace("\u00ad", "") for start, end in pairwise(found.places)] == [
        "Dokument ",
        "und ",
        "Datei",
    ]


@pytest.mark.data
def test_pieces_of_real_texts_are_as_long_as_asked_and_where_their_words_are(data_dir: Path) -> None:
    for lang in ("en", "ja", "ru"):
        for document in read_documents(data_dir / "lohelp" / f"docs.{lang}.jsonl.gz", 20):
            found = pieces(document.content, lang, 42)
            assert all(42 <= end - start <= 60 for start, end in pairwise(found.ends[:-1]))
            for (first, last), (start, end) in zip(pairwise(found.ends), pairwise(found.places), strict=True):
                inside = found.words[first:last]
                near = words(document.content[start:end], lang)
                assert len(set(inside) & set(near)) >= 0.9 * len(set(inside))
