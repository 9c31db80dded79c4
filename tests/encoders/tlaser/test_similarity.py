"""Similarity search."""

import numpy as np
import pytest

from encoders.tlaser.similarity import search_error, search_errors


def test_two_translations_that_changed_places_are_two_errors() -> None:
    queries = np.eye(5, dtype=np.float32)
    assert search_error(queries, queries) == 0.0
    assert search_error(queries, queries[[1, 0, 2, 3, 4]]) == pytest.approx(2 / 5)


def test_the_error_there_is_not_the_error_back() -> None:
    """The second sentence lies nearer to the first's translation than to its own, which lies nearer to none."""
    there = np.array([[1.0, 0.0], [0.6, 0.8]], dtype=np.float32)
    back = np.array([[0.9, 0.43588990], [-0.6, 0.8]], dtype=np.float32)
    assert search_error(there, back) == pytest.approx(1 / 2)
    assert search_error(back, there) == 0.0


def test_sentences_and_languages_that_are_absent_do_not_count() -> None:
    """The third sentence is wrong in German, which lacks it; Spanish has none that another language has."""
    vectors = {lang: np.eye(4, dtype=np.float32) for lang in ("de", "en", "es")}
    vectors["de"][2] = vectors["de"][0]
    present = {
        "de": np.array([True, True, False, False]),
        "en": np.array([True, True, True, False]),
        "es": np.array([False, False, False, True]),
    }
    assert search_errors(vectors, present) == {("de", "en"): 0.0, ("en", "de"): 0.0}
    present["de"][2] = True
    assert search_errors(vectors, present) == pytest.approx({("de", "en"): 1 / 3, ("en", "de"): 1 / 3})
