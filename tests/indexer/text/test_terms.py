"""Words, stems and n-grams, and BM25 over them."""

import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.text.terms import Analyser, LexicalIndex


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        yield connection


def index(connection: sqlite3.Connection, lang: str, *texts: str) -> LexicalIndex:
    made = LexicalIndex(connection, lang)
    made.add(enumerate(texts))
    return made


def keys(found: list[tuple[int, float]]) -> list[int]:
    return [key for key, _ in found]


@pytest.mark.parametrize(
    ("lang", "text", "terms"),
    [
        ("en", "Inserting 3D objects, e.g. LA-94!", ["insert", "3d", "object", "e", "g", "la", "94"]),
        ("de", "Die Überschwemmungen an der Elbe", ["die", "uberschwemm", "an", "der", "elb"]),
        ("vi", "Hà Nội", ["ha", "noi"]),
        ("ru", "чёрный йогурт", ["черн", "йогурт"]),
        ("hi", "किताबें", ["किताब"]),
        ("tr", "IŞIK İstanbul", ["ısık", "istanbul"]),
        ("und", "running", ["running"]),
        ("en", "ｆｕｌｌ ＷＩＤＴＨ", ["full", "width"]),
        ("ja", "東京都のPDF", ["東京", "京都", "都の", "の", "pdf"]),
        ("ko", "서울", ["서울", "울"]),
        ("th", "ภาษาไทย", ["ภาษ", "าษา", "ษาไ", "าไท", "ไทย", "ทย", "ย"]),
    ],
)
def test_text_becomes_the_terms_of_its_language(lang: str, text: str, terms: list[str]) -> None:
    assert [_plain(term) for term in Analyser(lang).terms(text)] == [_plain(term) for term in terms]


def _plain(term: str) -> str:
    return term.replace("ё", "е").replace("ё", "е")


def test_a_query_asks_each_term_once_and_whole_n_grams_only() -> None:
    assert Analyser("ja").query_terms("東京 東京 京") == ["東京", "京*"]
    assert Analyser("en").query_terms("house of houses") == ["hous", "of"]


@pytest.mark.parametrize(
    ("lang", "texts", "query", "found"),
    [
        ("fi", ["talossa oli kissa", "koira juoksi"], "talot", [0]),  # inflected words meet
        ("ja", ["昨日、東京都で地震があった", "大阪は晴れ", "地図の図"], "地震", [0]),  # inside a sentence
        ("zh", ["地图", "图书馆", "天气"], "图", [0, 1]),  # a single character wherever it stands
        ("und", ["the cat", "the dog", "the bird"], "the cat", [0]),
        ("und", ["the cat", "the dog", "the bird"], "the", [0, 1, 2]),  # what most texts have, where there is no other
        ("und", ["the cat", "the dog", "the bird"], "the wolf", [0, 1, 2]),
        ("und", ["needle in hay", "hay"], " ".join(f"word{number}" for number in range(5000)) + " needle", [0]),
    ],
)
def test_what_has_the_words_of_a_query_is_found(
    connection: sqlite3.Connection, lang: str, texts: list[str], query: str, found: list[int]
) -> None:
    assert sorted(keys(index(connection, lang, *texts).search(query, 10))) == found


def test_scores_are_bm25(connection: sqlite3.Connection) -> None:
    texts = ["red fox", "red red dog cat", "blue bird", "green tree", "grey stone"]
    found = dict(index(connection, "und", *texts).search("red", 10))
    mean = sum(len(text.split()) for text in texts) / len(texts)
    for key, times in ((0, 1), (1, 2)):
        length = len(texts[key].split())
        idf = math.log((5 - 2 + 0.5) / (2 + 0.5))
        assert found[key] == pytest.approx(idf * times * 2.2 / (times + 1.2 * (0.25 + 0.75 * length / mean)))


def test_languages_do_not_mix(connection: sqlite3.Connection) -> None:
    german, english = index(connection, "de", "kind"), index(connection, "zh-Hant", "kind")
    german.remove([0])
    assert german.search("kind", 10) == []
    assert keys(english.search("kind", 10)) == [0]


def test_a_text_added_again_is_replaced(connection: sqlite3.Connection) -> None:
    made = index(connection, "und", "old words", "other")
    made.add([(0, "new words")])
    assert made.search("old", 10) == []
    assert keys(made.search("new", 10)) == [0]


def test_at_most_k_are_found_and_ties_are_in_order(connection: sqlite3.Connection) -> None:
    assert keys(index(connection, "und", *(["same"] * 9 + ["else"] * 20)).search("same", 5)) == [0, 1, 2, 3, 4]


@given(st.text(), st.sampled_from(["en", "ja", "th", "tr", "und"]))
def test_any_text_can_be_indexed_and_asked(text: str, lang: str) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        made = index(connection, lang, text, "another", "text")
        found = made.search(text, 10)
        assert all(score > 0 for _, score in found)
        if Analyser(lang).query_terms(text):
            assert 0 in keys(found)
