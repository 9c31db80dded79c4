"""Fitting Cr5: what teaches, what does not, and what is said about it."""

import dataclasses
import re
from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from encoders.cr5 import estimator
from encoders.cr5.algebra import memory_need
from encoders.cr5.algebra.solver import solve
from encoders.cr5.bag_corpus import Corpus
from encoders.cr5.cr5_settings import Cr5Settings, WordLimits
from encoders.cr5.estimator import Cr5
from encoders.cr5.selection import linked_rows, rows_within_limits, transitive_rows
from encoders.cr5.word_vocabulary import BagCounter, fit_vocabulary
from encoders.document import Document
from encoders.errors import BadInput
from tests.encoders.cr5.conftest import corpus

QUICK = Cr5Settings(dimensions=8, ridge=0.3)
BOTH = ("de", "en")


def test_texts_about_one_topic_are_near_each_other_in_whatever_language(trained: Cr5) -> None:
    new = [Document("q", lang, f"{lang}{topic}x1 {lang}{topic}x4") for topic in range(8) for lang in ("de", "en", "fr")]
    vectors = trained.model_.encode(new)
    cosines = (vectors @ vectors.T).reshape(8, 3, 8, 3)
    assert np.einsum("iaib->iab", cosines).min() > 0.9
    assert max(cosines[one, :, other].max() for one in range(8) for other in range(8) if one != other) < 0.5


def test_case_and_script_make_no_difference_and_a_text_without_a_known_word_is_a_row_of_nothing(trained: Cr5) -> None:
    documents = sorted(corpus(BOTH), key=lambda one: one.lang)
    shouted = [dataclasses.replace(one, text=one.text.upper()) if one.lang == "de" else one for one in documents]
    plain, mixed = (Cr5(QUICK).fit(some).model_ for some in (documents, shouted))
    assert plain.vocabularies == mixed.vocabularies
    np.testing.assert_array_equal(plain.table.rows, mixed.table.rows)
    texts = [("de", "de1x1"), ("de", "DE1X1"), ("de-Hebr", "de1x1"), ("de", "unbekannt"), ("de", ""), ("xx", "de1x1")]
    vectors = trained.model_.encode([Document("1", lang, text) for lang, text in texts])
    np.testing.assert_array_equal(vectors[:3], vectors[[0, 0, 0]])
    np.testing.assert_array_equal(vectors[3:], np.zeros((3, 8)))


def test_the_ridge_is_chosen_by_mates_that_training_did_not_see_whatever_their_order() -> None:
    documents = corpus(BOTH)
    shuffled = [documents[place] for place in np.random.default_rng(0).permutation(len(documents))]
    one, other = (Cr5(dataclasses.replace(QUICK, ridge=None)).fit(some) for some in (documents, shuffled))
    assert one.tried_[one.ridge_] > 0.95 * max(one.tried_.values())
    assert all(0.0 < value <= 1.0 for value in one.tried_.values())
    assert one.ridge_ == other.ridge_
    assert one.tried_ == pytest.approx(other.tried_, abs=1e-6)


def test_few_concepts_give_few_dimensions_and_the_default_ridge() -> None:
    fitted = Cr5(dataclasses.replace(QUICK, ridge=None)).fit(corpus(BOTH, topics=2, each=5))
    assert (fitted.ridge_, fitted.tried_) == (0.3, {})
    fitted = Cr5(Cr5Settings(ridge=0.3)).fit(corpus(BOTH))
    assert fitted.model_.dim <= 47
    assert fitted.remarks_[-1] == "48 concepts give 47 dimensions, not 300"
    alike = both(*(f"{{lang}}{n % 4}x {{lang}}{n % 4}y" for n in range(24)), concept="{n}")
    fitted = Cr5(Cr5Settings(ridge=0.3)).fit(alike)
    assert fitted.model_.dim == 3  # four groups of concepts that don't differ among themselves
    assert fitted.remarks_[-1] == "24 concepts give 3 dimensions, not 300"


def test_short_documents_are_left_out_where_others_are_enough_or_else_taken_and_that_is_said(trained: Cr5) -> None:
    assert trained.remarks_ == [
        "only 0 of 48 concepts have documents of 50 to 1,000 different words in two languages, "
        "so documents of every length are taken"
    ]
    seen = Corpus()
    for number in range(10):
        for lang in BOTH:
            seen.add_words(lang, str(number), [f"w{part}" for part in range(3 if number < 4 else 60)])
    rows, remark = rows_within_limits(seen.counts(), WordLimits())
    assert (remark, {lang: len(those) for lang, those in rows.items()}) == ("", {"de": 6, "en": 6})


def about(lang: str, *texts: str, concept: str = "{lang}{n}") -> list[Document]:
    """Documents of a language, each about a concept of its own or as named."""
    named = [(concept.format(lang=lang, n=n), text.format(lang=lang)) for n, text in enumerate(texts)]
    return [Document(f"{lang}{n}", lang, text, fields={"concept": one}) for n, (one, text) in enumerate(named)]


def both(*texts: str, concept: str = "{lang}{n}") -> list[Document]:
    return [one for lang in BOTH for one in about(lang, *texts, concept=concept)]


@pytest.mark.parametrize(
    ("others", "remark"),
    [
        (about("de", "de1x1 " * 3), "1 document about concepts that no other language has teaches nothing"),
        (about("fi", *["sana toinen"] * 5), "fi is left out: no document there shares a concept with another language"),
        ([Document("1", "de", "nichts")], "1 document without a concept teaches nothing"),
        (about("fi", *[f"sana{n}" for n in range(5)], concept="{n}"), r"fi is left out: .* have no word that is in 3"),
    ],
)
def test_what_teaches_nothing_is_left_out_and_said(others: list[Document], remark: str) -> None:
    fitted = Cr5(QUICK).fit(corpus(BOTH) + others)
    assert (fitted.concepts_, fitted.documents_) == (48, {"de": 48, "en": 48})
    assert tuple(fitted.model_.vocabularies) == BOTH
    assert any(re.match(remark, one) for one in fitted.remarks_)


@pytest.mark.parametrize(
    ("documents", "changes", "said"),
    [
        (both("a b c"), {}, "no concept has documents in two languages"),
        (both(*("{lang}word" + n for n in "0123"), concept="{n}"), {}, "no word is in 3 documents of its language, so"),
        (both(*("{lang}a {lang}b " + n for n in "012"), concept="1"), {}, "all about one concept; give some about"),
        *[
            (
                [one for _ in range(times) for one in both(*["{lang}a {lang}b"] * concepts, concept="{n}")],
                {"ridge": ridge},
                "different concepts don't differ in their words, or the ridge is too large",
            )
            for times, concepts, ridge in ((3, 2, 0.3), (3, 6, 0.3), (3, 6, None), (1, 40, None))
        ],
        (corpus(BOTH), {"ridge": 1e30}, r"or the ridge is too large \(1e\+30\); give other documents, or a smaller"),
        (corpus(BOTH), {"ridge": 1e-12}, r"can't be solved with ridge 1e-12 \(.*\); give a larger --ridge"),
    ],
)
def test_what_gives_no_model_is_refused(documents: list[Document], changes: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        Cr5(dataclasses.replace(QUICK, **changes)).fit(documents)


def test_languages_in_two_groups_without_a_link_are_refused_and_a_link_mends_it() -> None:
    other = corpus(["ja", "zh"])
    second = [dataclasses.replace(one, fields={"concept": f"other {one.fields['concept']}"}) for one in other]
    apart = corpus(BOTH) + second
    with pytest.raises(BadInput, match=r"no concept links de, en from ja, zh; give documents that do"):
        Cr5(QUICK).fit(apart)
    link = [Document("en-link", "en", "en1x1 en1x2", fields={"concept": "other 1"})]
    assert set(Cr5(QUICK).fit(apart + link).model_.vocabularies) == {"de", "en", "ja", "zh"}


def test_what_does_not_fit_into_memory_is_one_sentence_early_or_late(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(memory_need, "free_memory", lambda: 1000.0)
        with pytest.raises(BadInput, match=r"96 documents about 48 concepts and .* are free; give fewer --dimensions"):
            Cr5(QUICK).fit(corpus(BOTH))

    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(estimator, "_table", full)
    with pytest.raises(BadInput, match=r"the documents don't fit into memory; give fewer --dimensions"):
        Cr5(QUICK).fit(corpus(BOTH))


def test_transitive_training_links_languages_by_the_pivot_alone_and_still_aligns_them() -> None:
    documents = corpus(["da", "en", "vi"], topics=7, each=12)
    counts = Corpus(documents).counts()
    rows = linked_rows(counts, transitive_rows(counts, rows_within_limits(counts, WordLimits())[0], ["en"]))
    taught = {lang: set(counts[lang].concepts[kept].tolist()) for lang, kept in rows.items()}
    assert not taught["da"] & taught["vi"]
    assert len(taught["da"]) == len(taught["vi"]) == 42
    fitted = Cr5(dataclasses.replace(QUICK, pairs="transitive", pivots=["en"])).fit(documents)
    danish, vietnamese = (
        fitted.model_.encode([Document("1", lang, f"{lang}{topic}x1 {lang}{topic}x2") for topic in range(7)])
        for lang in ("da", "vi")
    )
    assert ((danish @ vietnamese.T).argmax(axis=1) == np.arange(7)).all()


def test_transitive_training_says_what_it_leaves_out_and_that_it_is_for_the_pivot() -> None:
    documents = corpus(["da", "en", "vi"])
    finnish = [Document(f"fi{n}", "fi", f"fi{n % 3} fi{n % 2}", fields={"concept": f"de and fi {n}"}) for n in range(9)]
    danish = [dataclasses.replace(one, lang="da", text=one.text.replace("fi", "da")) for one in finnish]
    fitted = Cr5(dataclasses.replace(QUICK, pairs="transitive", pivots=["en"])).fit(documents + finnish + danish)
    assert sum(fitted.documents_.values()) == len(documents) - 48
    said = [remark for remark in fitted.remarks_ if "left out" in remark]
    assert said == [
        "66 documents are left out: the concept has no document in en, or was assigned to another language",
        "fi is left out: no document there is left to link it with en",
    ]


def test_rough_eigenvectors_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimator, "solve", partial(solve, small=0))
    fitted = Cr5(QUICK).fit(corpus(BOTH, topics=300, each=1))
    assert any(remark.startswith("the leading directions are rough: an eigenvector") for remark in fitted.remarks_)


def test_the_words_of_the_most_documents_are_kept_with_the_weights_of_scikit_learn() -> None:
    texts = ["die katze schläft", "die katze jagt die maus", "die maus schläft", "der hund"]
    counter = BagCounter()
    assert [counter.add(text.split()) for text in texts] == [3, 4, 3, 2]
    vocabulary, matrix = fit_vocabulary(counter.matrix(), counter.words, 100, 2)
    oracle = TfidfVectorizer(analyzer=str.split, min_df=2, sublinear_tf=True)
    expected = oracle.fit_transform(texts).toarray()
    order = [oracle.vocabulary_[word] for word in vocabulary.words]
    np.testing.assert_allclose(matrix.toarray(), expected[:, order], rtol=1e-6)
    np.testing.assert_allclose(vocabulary.idf, oracle.idf_[order], rtol=1e-6)
    assert matrix[[3]].nnz == 0, "a document of rare words is a row of nothing"
    assert fit_vocabulary(counter.matrix(), counter.words, 3, 1)[0].words == ["die", "katze", "maus"]
    counter = BagCounter()
    assert [counter.add(["a", "b", "a"]), counter.add([]), counter.add(["c"])] == [2, 0, 1]
    np.testing.assert_array_equal(counter.matrix().toarray(), [[2, 1, 0], [0, 0, 0], [0, 0, 1]])
