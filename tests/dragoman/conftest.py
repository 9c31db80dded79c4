"""The public API is tested with an encoder that takes milliseconds for a text."""

from tests.query.conftest import demo_by_words, homes_by_words, word_model  # noqa: F401
