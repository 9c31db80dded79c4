"""Bags of words: scikit-learn's weights, the most frequent words, nothing for unknown ones."""

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from encoders.cr5.word_vocabulary import BagCounter, fit_vocabulary

TEXTS = ["die katze schläft", "die katze jagt die maus", "die maus schläft", "der hund"]


def _counted(texts: list[str]) -> BagCounter:
    counter = BagCounter()
    for text in texts:
        counter.add(text.split())
    return counter


def test_weights_are_those_of_scikit_learn() -> None:
    counter = _counted(TEXTS)
    vocabulary, matrix = fit_vocabulary(counter.matrix(), counter.words, 100, 2)
    oracle = TfidfVectorizer(analyzer=str.split, min_df=2, sublinear_tf=True)
    expected = oracle.fit_transform(TEXTS).toarray()
    order = [oracle.vocabulary_[word] for word in vocabulary.words]
    np.testing.assert_allclose(matrix.toarray(), expected[:, order], rtol=1e-6)
    np.testing.assert_allclose(vocabulary.idf, oracle.idf_[order], rtol=1e-6)


def test_the_words_of_the_most_documents_are_kept_and_ties_go_by_the_alphabet() -> None:
    counter = _counted(TEXTS)
    vocabulary, _ = fit_vocabulary(counter.matrix(), counter.words, 3, 1)
    assert vocabulary.words == ["die", "katze", "maus"]


def test_a_document_of_rare_words_is_a_row_of_nothing() -> None:
    counter = _counted(TEXTS)
    _, matrix = fit_vocabulary(counter.matrix(), counter.words, 100, 2)
    assert matrix[[3]].nnz == 0
    assert np.isfinite(matrix.data).all()


def test_counting_says_how_many_different_words_a_document_has() -> None:
    counter = BagCounter()
    assert [counter.add(["a", "b", "a"]), counter.add([]), counter.add(["c"])] == [2, 0, 1]
    np.testing.assert_array_equal(counter.matrix().toarray(), [[2, 1, 0], [0, 0, 0], [0, 0, 1]])
