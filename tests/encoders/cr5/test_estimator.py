"""Fitting Cr5: what teaches, what does not, and what is said about it."""

import dataclasses
from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from encoders.cr5 import estimator
from encoders.cr5.algebra import memory_need
from encoders.cr5.algebra.ridge_choice import mate_rank
from encoders.cr5.algebra.solver import solve
from encoders.cr5.bag_corpus import Corpus
from encoders.cr5.cr5_settings import Cr5Settings, WordLimits
from encoders.cr5.estimator import Cr5
from encoders.cr5.selection import linked_rows, rows_within_limits, transitive_rows
from encoders.cr5.word_vocabulary import BagCounter, fit_vocabulary
from encoders.document import Document
from encoders.errors import BadInput
from tests.encoders.cr5.conftest import corpus
from tests.encoders.cr5.cr5_paper import random_blocks

QUICK = Cr5Settings(dimensions=8, ridge=0.3)


def test_texts_about_one_topic_are_near_each_other_in_whatever_language(trained: Cr5) -> None:
    new = [Document("q", lang, f"{lang}{topic}x1 {lang}{topic}x4") for topic in range(8) for lang in ("de", "en", "fr")]
    vectors = trained.model_.encode(new)
    cosines = (vectors @ vectors.T).reshape(8, 3, 8, 3)
    same = np.einsum("iaib->iab", cosines)
    assert same.min() > 0.9
    assert max(cosines[one, :, other].max() for one in range(8) for other in range(8) if one != other) < 0.5


def test_words_that_differ_in_case_alone_are_one_word() -> None:
    documents = corpus(["de", "en"])
    documents = documents[::2] + documents[1::2]
    half = len(documents) // 2
    shouted = [dataclasses.replace(one, text=one.text.upper()) for one in documents[:half]] + documents[half:]
    plain, mixed = (Cr5(QUICK).fit(some).model_ for some in (documents, shouted))
    assert plain.vocabularies == mixed.vocabularies
    np.testing.assert_array_equal(plain.table.rows, mixed.table.rows)


def test_case_and_script_make_no_difference_and_a_text_without_a_known_word_is_a_row_of_nothing(trained: Cr5) -> None:
    texts = [("de", "de1x1"), ("de", "DE1X1"), ("de-Hebr", "de1x1"), ("de", "unbekannt"), ("de", ""), ("xx", "de1x1")]
    vectors = trained.model_.encode([Document("1", lang, text) for lang, text in texts])
    np.testing.assert_array_equal(vectors[:3], vectors[[0, 0, 0]])
    np.testing.assert_array_equal(vectors[3:], np.zeros((3, 8)))


def test_the_ridge_is_chosen_by_mates_that_training_did_not_see() -> None:
    fitted = Cr5(dataclasses.replace(QUICK, ridge=None)).fit(corpus(["de", "en"]))
    assert fitted.tried_[fitted.ridge_] > 0.95 * max(fitted.tried_.values())
    assert all(0.0 < value <= 1.0 for value in fitted.tried_.values())


def test_the_order_of_documents_decides_nothing_about_the_ridge() -> None:
    documents = corpus(["de", "en"])
    shuffled = [documents[place] for place in np.random.default_rng(0).permutation(len(documents))]
    one, other = (Cr5(dataclasses.replace(QUICK, ridge=None)).fit(some) for some in (documents, shuffled))
    assert one.ridge_ == other.ridge_
    assert one.tried_ == pytest.approx(other.tried_, abs=1e-6)


def test_vectors_of_nothing_find_no_mates() -> None:
    blocks = random_blocks(0, 40, {"de": 50, "en": 50})
    nothing = {lang: np.zeros((50, 3), np.float32) for lang in blocks}
    assert mate_rank(nothing, blocks) < 0.1


def test_with_too_few_concepts_to_choose_by_the_ridge_is_the_default() -> None:
    fitted = Cr5(dataclasses.replace(QUICK, ridge=None)).fit(corpus(["de", "en"], topics=2, each=5))
    assert (fitted.ridge_, fitted.tried_) == (0.3, {})


def test_fewer_concepts_than_dimensions_give_fewer_and_say_so() -> None:
    fitted = Cr5(Cr5Settings(ridge=0.3)).fit(corpus(["de", "en"]))
    assert fitted.model_.dim <= 47
    assert fitted.remarks_[-1] == "48 concepts give 47 dimensions, not 300"


def test_documents_of_no_fitting_length_are_taken_all_the_same_and_that_is_said(trained: Cr5) -> None:
    assert trained.remarks_ == [
        "only 0 of 48 concepts have documents of 50 to 1,000 different words in two languages, "
        "so documents of every length are taken"
    ]


def test_short_documents_are_left_out_where_enough_others_are_there() -> None:
    seen = Corpus()
    for number in range(10):
        for lang in ("de", "en"):
            seen.add_words(lang, str(number), [f"w{part}" for part in range(3 if number < 4 else 60)])
    rows, remark = rows_within_limits(seen.counts(), WordLimits())
    assert remark == ""
    assert {lang: len(those) for lang, those in rows.items()} == {"de": 6, "en": 6}


def about(lang: str, *texts: str, concept: str = "{lang}{n}") -> list[Document]:
    """Documents of a language, each about a concept of its own or as named."""
    return [
        Document(f"{lang}{n}", lang, text, fields={"concept": concept.format(lang=lang, n=n)})
        for n, text in enumerate(texts)
    ]


@pytest.mark.parametrize(
    ("others", "remark"),
    [
        (about("de", "de1x1 " * 3), "1 document about concepts that no other language has teaches nothing"),
        (about("fi", *["sana toinen"] * 5), "fi is left out: no document there shares a concept with another language"),
        ([Document("1", "de", "nichts")], "1 document without a concept teaches nothing"),
        (
            about("fi", *[f"sana{n}" for n in range(5)], concept="{n}"),
            "fi is left out: the documents there, or those they share concepts with, have no word that is in "
            "3 documents",
        ),
    ],
)
def test_what_teaches_nothing_is_left_out_and_said(others: list[Document], remark: str) -> None:
    fitted = Cr5(QUICK).fit(corpus(["de", "en"]) + others)
    assert fitted.concepts_ == 48
    assert fitted.documents_ == {"de": 48, "en": 48}
    assert list(fitted.model_.vocabularies) == ["de", "en"]
    assert remark in fitted.remarks_


BOTH = ("de", "en")


@pytest.mark.parametrize(
    ("documents", "changes", "said"),
    [
        (corpus(["de"]), {}, r"all in one language \(de\); give some about the same concepts in another"),
        ([Document("1", "de", "eins"), Document("2", "en", "one")], {}, "none of the documents has a field concept"),
        (about("de", "a b c") + about("en", "a b c"), {}, "no concept has documents in two languages"),
        (
            [one for lang in BOTH for one in about(lang, *[f"{lang}word{n}" for n in range(4)], concept="{n}")],
            {},
            "no word is in 3 documents of its language, so there is no vocabulary",
        ),
        (
            corpus(BOTH),
            {"pairs": "transitive", "pivots": ["ja"]},
            "there are no documents in the pivot ja; choose among de, en",
        ),
        (
            [one for lang in BOTH for one in about(lang, *[f"{lang}a {lang}b {n}" for n in range(3)], concept="1")],
            {},
            "all about one concept; give some about others",
        ),
        *[
            (
                [Document("1", lang, f"{lang}a {lang}b", fields={"concept": str(n)}) for lang in BOTH for n in numbers],
                {"ridge": ridge},
                "different concepts don't differ in their words, or the ridge is too large",
            )
            for numbers, ridge in (
                ([0, 1] * 3, 0.3),
                ([*range(6)] * 3, 0.3),
                ([*range(6)] * 3, None),
                (range(40), None),
            )
        ],
        (corpus(BOTH), {"ridge": 1e30}, r"or the ridge is too large \(1e\+30\); give other documents, or a smaller"),
        (corpus(BOTH), {"ridge": 1e-12}, r"can't be solved with ridge 1e-12 \(.*\); give a larger --ridge"),
    ],
)
def test_documents_and_settings_that_give_no_model_are_refused(
    documents: list[Document], changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadInput, match=said):
        Cr5(dataclasses.replace(QUICK, **changes)).fit(documents)


def test_languages_in_two_groups_without_a_link_are_refused_and_a_link_mends_it() -> None:
    second = [
        dataclasses.replace(one, fields={"concept": f"other {one.fields['concept']}"}) for one in corpus(["ja", "zh"])
    ]
    apart = corpus(["de", "en"]) + second
    with pytest.raises(BadInput, match=r"no concept links de, en from ja, zh; give documents that do"):
        Cr5(QUICK).fit(apart)
    link = [Document("en-link", "en", "en1x1 en1x2", fields={"concept": "other 1"})]
    assert set(Cr5(QUICK).fit(apart + link).model_.vocabularies) == {"de", "en", "ja", "zh"}


def test_what_does_not_fit_into_memory_is_refused_before_work_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_need, "free_memory", lambda: 1000.0)
    with pytest.raises(BadInput, match=r"96 documents about 48 concepts and .* are free; give fewer --dimensions"):
        Cr5(QUICK).fit(corpus(["de", "en"]))


def test_memory_that_runs_out_all_the_same_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(estimator, "_table", full)
    with pytest.raises(BadInput, match=r"the documents don't fit into memory; give fewer --dimensions"):
        Cr5(QUICK).fit(corpus(["de", "en"]))


def test_transitive_training_links_languages_by_the_pivot_alone_and_still_aligns_them() -> None:
    documents = corpus(["da", "en", "vi"], topics=7, each=12)
    seen = Corpus()
    for document in documents:
        seen.add(document)
    counts = seen.counts()
    rows, _ = rows_within_limits(counts, WordLimits())
    kept = linked_rows(counts, transitive_rows(counts, rows, ["en"]))
    concepts = {lang: set(counts[lang].concepts[those].tolist()) for lang, those in kept.items()}
    assert not concepts["da"] & concepts["vi"]
    assert len(concepts["da"]) == len(concepts["vi"]) == 42
    fitted = Cr5(dataclasses.replace(QUICK, pairs="transitive", pivots=["en"])).fit(documents)
    danish, vietnamese = (
        fitted.model_.encode([Document("1", lang, f"{lang}{topic}x1 {lang}{topic}x2") for topic in range(7)])
        for lang in ("da", "vi")
    )
    assert ((danish @ vietnamese.T).argmax(axis=1) == np.arange(7)).all()


def test_as_published_a_concept_that_two_other_languages_have_teaches_neither() -> None:
    seen = Corpus()
    for number, document in enumerate(corpus(["da", "en", "vi"], topics=7, each=12)):
        if document.lang != "vi" or number % 2:
            seen.add(document)
    counts = seen.counts()
    rows, _ = rows_within_limits(counts, WordLimits())
    published = transitive_rows(counts, rows, ["en"], published=True)
    concepts = {lang: set(counts[lang].concepts[kept].tolist()) for lang, kept in rows.items()}
    taught = {lang: set(counts[lang].concepts[kept].tolist()) for lang, kept in published.items()}
    assert taught["da"] == concepts["da"] - concepts["vi"]
    assert taught["vi"] == concepts["vi"] - concepts["da"]
    assert taught["en"] == concepts["en"]


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


def test_eigenvectors_that_were_not_found_well_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimator, "solve", partial(solve, small=0))
    fitted = Cr5(QUICK).fit(corpus(["de", "en"], topics=300, each=1))
    assert any(remark.startswith("the leading directions are rough: an eigenvector") for remark in fitted.remarks_)


def test_equations_that_iteration_cannot_solve_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimator, "solve", partial(solve, direct=0))
    with pytest.raises(BadInput, match=r"can't be solved with ridge 1e-12 \(residual .*\); give a larger --ridge"):
        Cr5(dataclasses.replace(QUICK, ridge=1e-12)).fit(corpus(["de", "en"]))


def test_what_is_said_of_dimensions_is_what_came_out() -> None:
    documents = [
        one
        for lang in BOTH
        for one in about(lang, *[f"{lang}{n % 4}x {lang}{n % 4}y" for n in range(24)], concept="{n}")
    ]
    fitted = Cr5(Cr5Settings(ridge=0.3)).fit(documents)
    assert fitted.model_.dim == 3  # four groups of concepts that don't differ among themselves
    assert fitted.remarks_[-1] == "24 concepts give 3 dimensions, not 300"


TEXTS = ["die katze schläft", "die katze jagt die maus", "die maus schläft", "der hund"]


def _counted(texts: list[str]) -> BagCounter:
    counter = BagCounter()
    for text in texts:
        counter.add(text.split())
    return counter


def test_weights_are_those_of_scikit_learn_and_a_document_of_rare_words_is_a_row_of_nothing() -> None:
    counter = _counted(TEXTS)
    vocabulary, matrix = fit_vocabulary(counter.matrix(), counter.words, 100, 2)
    oracle = TfidfVectorizer(analyzer=str.split, min_df=2, sublinear_tf=True)
    expected = oracle.fit_transform(TEXTS).toarray()
    order = [oracle.vocabulary_[word] for word in vocabulary.words]
    np.testing.assert_allclose(matrix.toarray(), expected[:, order], rtol=1e-6)
    np.testing.assert_allclose(vocabulary.idf, oracle.idf_[order], rtol=1e-6)
    assert matrix[[3]].nnz == 0


def test_the_words_of_the_most_documents_are_kept_and_ties_go_by_the_alphabet() -> None:
    counter = _counted(TEXTS)
    assert fit_vocabulary(counter.matrix(), counter.words, 3, 1)[0].words == ["die", "katze", "maus"]


def test_counting_says_how_many_different_words_a_document_has() -> None:
    counter = BagCounter()
    assert [counter.add(["a", "b", "a"]), counter.add([]), counter.add(["c"])] == [2, 0, 1]
    np.testing.assert_array_equal(counter.matrix().toarray(), [[2, 1, 0], [0, 0, 0], [0, 0, 1]])
