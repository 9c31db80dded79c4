"""PSQ: BM25 over structured queries."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from encoders.document import Document
from query.lexical_baselines.bm25_baseline import rank_by_bm25
from query.lexical_baselines.structured_queries import QueryTranslation, TermCounts

Values = npt.NDArray[np.float64]
RANDOM = np.random.default_rng(3)
TEXTS = [" ".join(f"w{number}" for number in RANDOM.zipf(1.3, size=RANDOM.integers(5, 40)) % 90) for _ in range(60)]
DOCUMENTS = [Document(f"d{number}", "und", text) for number, text in enumerate(TEXTS)]
BAGS = [Counter(text.split()) for text in TEXTS]
QUERY = "w3 w7 w11 w40 w1 w3"


def oracle(frequencies: Sequence[float], document_frequency: float) -> Values:
    """BM25 of a term of the random documents, as it stands in textbooks."""
    lengths = np.array([bag.total() for bag in BAGS])
    idf = max(math.log((60 - document_frequency + 0.5) / (document_frequency + 0.5)), 1e-6)
    tf = np.array(frequencies)
    scores: Values = idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * lengths / lengths.mean()))
    return scores


def in_documents(term: str) -> list[int]:
    return [bag[term] for bag in BAGS]


def frequency(term: str) -> int:
    return sum(term in bag for bag in BAGS)


def positive(scores: Values) -> object:
    """The documents with a score above 0, to be compared with a ranking."""
    return pytest.approx({f"d{row}": score for row, score in enumerate(scores.tolist()) if score > 0}, rel=1e-5)


@pytest.mark.parametrize("translations", [{}, {f"w{number}": {f"w{number}": 1.0} for number in range(90)}])
def test_psq_without_translation_is_bm25(translations: dict[str, dict[str, float]]) -> None:
    (bm25,) = rank_by_bm25(DOCUMENTS, [Document("q", "und", QUERY)], "und")
    query = QueryTranslation(translations, "und", "und").query(QUERY)
    ranking = TermCounts(DOCUMENTS, "und").rank(query, 1000)
    assert [doc_id for doc_id, _ in ranking] == [doc_id for doc_id, _ in bm25]
    assert dict(ranking) == pytest.approx(dict(bm25), rel=1e-5)


@pytest.mark.parametrize("query", ["地震", "図", "東京の地図", "東"])
def test_without_translation_it_is_bm25_where_words_are_n_grams(query: str) -> None:
    texts = ["昨日、東京都で地震があった", "大阪は晴れ", "地図の図", "図書館", "空", "海", "山", "川"]
    documents = [Document(str(number), "ja", text) for number, text in enumerate(texts)]
    (bm25,) = rank_by_bm25(documents, [Document("q", "ja", query)], "ja")
    ranking = TermCounts(documents, "ja").rank(QueryTranslation({}, "ja", "ja").query(query), 10)
    assert dict(ranking) == pytest.approx(dict(bm25), rel=1e-5)


def test_a_word_that_no_document_has_leaves_the_common_words() -> None:
    documents = [Document(number, "und", f"linux {number}") for number in ("one", "two", "three")]
    for query in ("linux", "linux quanta"):
        found = TermCounts(documents, "und").rank(QueryTranslation({}, "und", "und").query(query), 10)
        assert [doc_id for doc_id, _ in found] == ["one", "two", "three"]


def test_a_term_counts_as_often_as_its_translations_are_expected() -> None:
    lexicon = {"flood": {"w9": 0.7, "w11": 0.3}, "river": {"w40": 0.5}}
    query = QueryTranslation(lexicon, "en", "und").query("River floods")
    scores = oracle(
        [0.7 * first + 0.3 * second for first, second in zip(in_documents("w9"), in_documents("w11"), strict=True)],
        0.7 * frequency("w9") + 0.3 * frequency("w11"),
    )
    scores = scores + oracle([0.5 * count for count in in_documents("w40")], 0.5 * frequency("w40"))
    assert dict(TermCounts(DOCUMENTS, "und").rank(query, 1000)) == positive(scores)


def test_words_that_share_a_stem_have_the_mean_of_their_translations() -> None:
    lexicon = {"flood": {"tulva": 1.0}, "floods": {"tulvat": 0.5, "vesi": 0.5}}
    (expectation,) = QueryTranslation(lexicon, "en", "fi").query("flooding")
    assert expectation == {"tulv": 0.75, "vesi": 0.25}


def test_names_that_the_lexicon_lacks_stand_for_themselves() -> None:
    query = QueryTranslation({"flood": {"tulva": 1.0}}, "en", "fi").query("Elbe flood, Elbe 2002")
    assert query == [{"elb": 1.0}, {"tulv": 1.0}, {"2002": 1.0}]


def test_phrases_are_translated_as_a_whole_and_into_their_parts() -> None:
    lexicon = {"traffic light": {"Ampel": 1.0}, "light": {"Licht": 1.0}, "flood": {"hohes Wasser": 0.8}}
    query = QueryTranslation(lexicon, "en", "de").query("light traffic lights flood")
    assert query == [{"licht": 1.0}, {"ampel": 1.0}, {"hoh": 0.4, "wass": 0.4}]


def test_words_of_several_n_grams_are_translated_too() -> None:
    chinese = QueryTranslation({"计算机": {"computer": 1.0}, "病毒": {"virus": 1.0}}, "zh", "en")
    expectations = chinese.query("计算机病毒")
    assert {"comput": 1.0} in expectations
    assert {"virus": 1.0} in expectations
    (expectation,) = QueryTranslation({"computer": {"计算机": 1.0}}, "en", "zh").query("computers")
    assert expectation == {"计算": 0.5, "算机": 0.5}


def test_no_documents_find_nothing() -> None:
    assert TermCounts([], "en").rank([{"flood": 1.0}], 10) == []
