"""Words, stems and n-grams, and BM25 over them."""

import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.text.terms import Analyser, LexicalIndex

ANIMALS = ["the cat", "the dog", "the bird"]


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        yield connection


def index(connection: sqlite3.Connection, lang: str, *texts: str) -> LexicalIndex:
    made = LexicalIndex(connection, lang)
    made.add(enumerate(texts))
    return made


TERMS = [
    ("en", "Inserting 3D objects, e.g. LA-94!", ["insert", "3d", "object", "e", "g", "la", "94"]),
    ("de", "Die Überschwemmungen an der Elbe", ["die", "uberschwemm", "an", "der", "elb"]),
    ("vi", "Hà Nội", ["ha", "noi"]), ("ru", "чёрный йогурт", ["черн", "йогурт"]), ("hi", "किताबें", ["किताब"]),
    ("tr", "IŞIK İstanbul", ["ısık", "istanbul"]), ("und", "running", ["running"]),
    ("en", "ｆｕｌｌ ＷＩＤＴＨ", ["full", "width"]), ("ja", "東京都のPDF", ["東京", "京都", "都の", "の", "pdf"]),
    ("ko", "서울", ["서울", "울"]), ("th", "ภาษาไทย", ["ภาษ", "าษา", "ษาไ", "าไท", "ไทย", "ทย", "ย"]),
]  # fmt: skip


@pytest.mark.parametrize(("lang", "text", "terms"), TERMS)
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
        ("und", ANIMALS, "the cat", [0]),
        *(("und", ANIMALS, query, [0, 1, 2]) for query in ("the", "the wolf")),  # what most have, where no other is
        ("und", ["needle in hay", "hay"], " ".join(f"word{number}" for number in range(5000)) + " needle", [0]),
    ],
)
def test_texts_with_the_words_are_found(
    connection: sqlite3.Connection, lang: str, texts: list[str], query: str, found: list[int]
) -> None:
    assert sorted(dict(index(connection, lang, *texts).search(query, 10))) == found


def test_scores_are_bm25(connection: sqlite3.Connection) -> None:
    texts = ["red fox", "red red dog cat", "blue bird", "green tree", "grey stone"]
    found = dict(index(connection, "und", *texts).search("red", 10))
    mean = sum(len(text.split()) for text in texts) / len(texts)
    for key, times in ((0, 1), (1, 2)):
        length, idf = len(texts[key].split()), math.log((5 - 2 + 0.5) / (2 + 0.5))
        assert found[key] == pytest.approx(idf * times * 2.2 / (times + 1.2 * (0.25 + 0.75 * length / mean)))


def test_at_most_k_are_found_in_order_of_ties_and_not_what_was_replaced(connection: sqlite3.Connection) -> None:
    made = index(connection, "und", *(["same"] * 9 + ["else"] * 20))
    made.add([(0, "new words")])
    assert [list(dict(made.search(query, 3))) for query in ("same", "new")] == [[1, 2, 3], [0]]


@given(st.text(), st.sampled_from(["en", "ja", "th", "tr", "und"]))
def test_any_text_can_be_indexed_and_asked(text: str, lang: str) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        found = index(connection, lang, text, "another", "text").search(text, 10)
        assert all(score > 0 for _, score in found)
        if Analyser(lang).query_terms(text):
            assert 0 in dict(found)
