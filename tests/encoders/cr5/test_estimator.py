"""Fitting Cr5: what teaches, what does not, and what is said about it."""

import dataclasses
from functools import partial

import numpy as np
import pytest

from encoders.cr5 import estimator
from encoders.cr5.algebra import memory_need
from encoders.cr5.algebra.ridge_choice import mate_rank
from encoders.cr5.algebra.solver import solve
from encoders.cr5.bag_corpus import Corpus
from encoders.cr5.cr5_settings import Cr5Settings, WordLimits
from encoders.cr5.estimator import Cr5
from encoders.cr5.selection import linked_rows, rows_within_limits, transitive_rows
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


def test_capital_letters_make_no_difference(trained: Cr5) -> None:
    lower, upper = trained.model_.encode([Document("1", "de", "de1x1"), Document("2", "de", "DE1X1")])
    np.testing.assert_array_equal(lower, upper)


def test_words_that_differ_in_case_alone_are_one_word() -> None:
    documents = corpus(["de", "en"])
    documents = documents[::2] + documents[1::2]
    half = len(documents) // 2
    shouted = [dataclasses.replace(one, text=one.text.upper()) for one in documents[:half]] + documents[half:]
    plain, mixed = (Cr5(QUICK).fit(some).model_ for some in (documents, shouted))
    assert plain.vocabularies == mixed.vocabularies
    np.testing.assert_array_equal(plain.table.rows, mixed.table.rows)


def test_a_text_without_a_known_word_is_a_row_of_nothing(trained: Cr5) -> None:
    texts = [("de", "völlig unbekannt"), ("de", ""), ("xx", "de1x1")]
    vectors = trained.model_.encode([Document(text, lang, text) for lang, text in texts])
    np.testing.assert_array_equal(vectors, np.zeros((3, 8)))


def test_a_script_variant_is_read_by_its_languages_vocabulary(trained: Cr5) -> None:
    plain, variant = trained.model_.encode([Document("1", "de", "de1x1"), Document("2", "de-Hebr", "de1x1")])
    np.testing.assert_array_equal(plain, variant)


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


def test_a_concept_in_one_language_only_teaches_nothing_and_that_is_said() -> None:
    alone = [Document("x", "de", "de1x1 " * 3, fields={"concept": "alone"})]
    fitted = Cr5(QUICK).fit(corpus(["de", "en"]) + alone)
    assert fitted.concepts_ == 48
    assert fitted.documents_ == {"de": 48, "en": 48}
    assert fitted.remarks_[-1] == "1 document about concepts that no other language has teaches nothing"


def test_a_language_that_shares_no_concept_is_left_out_and_named() -> None:
    others = [Document(f"fi{n}", "fi", "sana toinen", fields={"concept": f"fi{n}"}) for n in range(5)]
    fitted = Cr5(QUICK).fit(corpus(["de", "en"]) + others)
    assert list(fitted.model_.vocabularies) == ["de", "en"]
    assert "fi is left out: no document there shares a concept with another language" in fitted.remarks_


def test_documents_without_a_concept_are_counted() -> None:
    fitted = Cr5(QUICK).fit([*corpus(["de", "en"]), Document("1", "de", "nichts")])
    assert fitted.remarks_[-1] == "1 document without a concept teaches nothing"


def test_one_language_is_refused() -> None:
    with pytest.raises(BadInput, match=r"all in one language \(de\); give some about the same concepts in another"):
        Cr5(QUICK).fit(corpus(["de"]))


def test_no_concept_at_all_is_refused() -> None:
    with pytest.raises(BadInput, match=r"none of the documents has a field concept"):
        Cr5(QUICK).fit([Document("1", "de", "eins"), Document("2", "en", "one")])


def test_concepts_that_never_meet_are_refused() -> None:
    documents = [Document(f"{lang}1", lang, "a b c", fields={"concept": f"{lang}1"}) for lang in ("de", "en")]
    with pytest.raises(BadInput, match=r"no concept has documents in two languages"):
        Cr5(QUICK).fit(documents)


def test_languages_in_two_groups_without_a_link_are_refused_and_a_link_mends_it() -> None:
    second = [
        dataclasses.replace(one, fields={"concept": f"other {one.fields['concept']}"}) for one in corpus(["ja", "zh"])
    ]
    apart = corpus(["de", "en"]) + second
    with pytest.raises(BadInput, match=r"no concept links de, en from ja, zh; give documents that do"):
        Cr5(QUICK).fit(apart)
    link = [Document("en-link", "en", "en1x1 en1x2", fields={"concept": "other 1"})]
    assert set(Cr5(QUICK).fit(apart + link).model_.vocabularies) == {"de", "en", "ja", "zh"}


def test_an_empty_vocabulary_is_refused() -> None:
    documents = [
        Document(f"{lang}{n}", lang, f"{lang}word{n}", fields={"concept": str(n)})
        for n in range(4)
        for lang in ("de", "en")
    ]
    with pytest.raises(BadInput, match=r"no word is in 3 documents of its language, so there is no vocabulary"):
        Cr5(QUICK).fit(documents)


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


def test_a_language_without_a_vocabulary_is_left_out_for_that() -> None:
    others = [Document(f"fi{n}", "fi", f"sana{n}", fields={"concept": str(n)}) for n in range(5)]
    fitted = Cr5(QUICK).fit(corpus(["de", "en"]) + others)
    assert fitted.remarks_[-1] == (
        "fi is left out: the documents there, or those they share concepts with, have no word that is in 3 documents"
    )


def test_eigenvectors_that_were_not_found_well_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimator, "solve", partial(solve, small=0))
    fitted = Cr5(QUICK).fit(corpus(["de", "en"], topics=300, each=1))
    assert any(remark.startswith("the leading directions are rough: an eigenvector") for remark in fitted.remarks_)


def test_a_pivot_without_documents_is_refused() -> None:
    with pytest.raises(BadInput, match=r"there are no documents in the pivot ja; choose among de, en"):
        Cr5(dataclasses.replace(QUICK, pairs="transitive", pivots=["ja"])).fit(corpus(["de", "en"]))


def test_documents_of_one_concept_are_refused() -> None:
    documents = [
        Document(f"{lang}{n}", lang, f"{lang}a {lang}b {lang}c{n}", fields={"concept": "1"})
        for n in range(3)
        for lang in ("de", "en")
    ]
    with pytest.raises(BadInput, match=r"all about one concept; give some about others"):
        Cr5(QUICK).fit(documents)


@pytest.mark.parametrize(("concepts", "ridge"), [(2, 0.3), (6, 0.3), (6, None), (40, None)])
def test_documents_that_do_not_differ_are_refused(concepts: int, ridge: float | None) -> None:
    documents = [
        Document(f"{lang}{n}", lang, f"{lang}eins {lang}zwei {lang}drei", fields={"concept": str(n % concepts)})
        for n in range(3 * concepts)
        for lang in ("de", "en")
    ]
    with pytest.raises(BadInput, match=r"different concepts don't differ in their words, or the ridge is too large"):
        Cr5(dataclasses.replace(QUICK, ridge=ridge)).fit(documents)


def test_a_ridge_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(BadInput, match=r"or the ridge is too large \(1e\+30\); give other documents, or a smaller"):
        Cr5(dataclasses.replace(QUICK, ridge=1e30)).fit(corpus(["de", "en"]))


def test_a_ridge_too_small_for_the_equations_is_refused() -> None:
    with pytest.raises(BadInput, match=r"can't be solved with ridge 1e-12 \(.*\); give a larger --ridge"):
        Cr5(dataclasses.replace(QUICK, ridge=1e-12)).fit(corpus(["de", "en"]))


def test_equations_that_iteration_cannot_solve_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimator, "solve", partial(solve, direct=0))
    with pytest.raises(BadInput, match=r"can't be solved with ridge 1e-12 \(residual .*\); give a larger --ridge"):
        Cr5(dataclasses.replace(QUICK, ridge=1e-12)).fit(corpus(["de", "en"]))


def test_what_is_said_of_dimensions_is_what_came_out() -> None:
    documents = [
        Document(f"{lang}{n}", lang, " ".join(f"{lang}{n % 4}x{part}" for part in range(5)), fields={"concept": str(n)})
        for n in range(24)
        for lang in ("de", "en")
    ]
    fitted = Cr5(Cr5Settings(ridge=0.3)).fit(documents)
    assert fitted.model_.dim == 3  # four groups of concepts that don't differ among themselves
    assert fitted.remarks_[-1] == "24 concepts give 3 dimensions, not 300"
