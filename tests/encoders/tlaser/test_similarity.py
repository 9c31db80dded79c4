"""Similarity search, and the joint vocabulary."""

import numpy as np
import pytest

from encoders.tlaser.joint_vocabulary import learn_vocabulary
from encoders.tlaser.similarity import search_error, search_errors


def test_two_translations_that_changed_places_are_two_errors_and_the_error_there_is_not_the_error_back() -> None:
    queries = np.eye(5, dtype=np.float32)
    assert search_error(queries, queries) == 0.0
    assert search_error(queries, queries[[1, 0, 2, 3, 4]]) == pytest.approx(2 / 5)
    # The second sentence lies nearer to the first's translation than to its own, which lies nearer to none.
    there = np.array([[1.0, 0.0], [0.6, 0.8]], dtype=np.float32)
    back = np.array([[0.9, 0.43588990], [-0.6, 0.8]], dtype=np.float32)
    assert search_error(there, back) == pytest.approx(1 / 2)
    assert search_error(back, there) == 0.0


def test_sentences_and_languages_that_are_absent_do_not_count() -> None:
    """The third sentence is wrong in German, which lacks it; Spanish has none that another language has."""
    vectors = {lang: np.eye(4, dtype=np.float32) for lang in ("de", "en", "es")}
    vectors["de"][2] = vectors["de"][0]
    present = {lang: np.array([*row]) == "1" for lang, row in (("de", "1100"), ("en", "1110"), ("es", "0001"))}
    assert search_errors(vectors, present) == {("de", "en"): 0.0, ("en", "de"): 0.0}
    present["de"][2] = True
    assert search_errors(vectors, present) == pytest.approx({("de", "en"): 1 / 3, ("en", "de"): 1 / 3})


def test_the_same_sentences_give_the_same_vocabulary_where_characters_must_be_left_out() -> None:
    """Two hundred characters come twice each and fifty have room: which, may not depend on the process."""
    rare = [chr(0x4E00 + n) for n in range(200)]
    texts = ["a b"] * 5 + ["".join(rare), "".join(reversed(rare))]
    learnt = [learn_vocabulary(iter(texts), 100, "ct") for _ in range(3)]
    assert len({tokenizer.to_str() for tokenizer in learnt}) == 1
    assert {token for token in learnt[0].get_vocab() if len(token) == 1} == {"▁", "a", "b", *rare[:47]}


def test_text_is_counted_as_it_is_read() -> None:
    """A full-width letter is the plain one, and a blank is no character of its own."""
    tokenizer = learn_vocabulary(["\uff41 b c"] * 3, 100, "ct")
    assert {token for token in tokenizer.get_vocab() if len(token) == 1} == {"▁", "a", "b", "c"}
