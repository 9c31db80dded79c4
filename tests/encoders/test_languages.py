"""Language codes become the shortest BCP 47 tag that tells written languages apart."""

import pytest

from encoders.errors import BadInput
from encoders.languages import _KNOWN, language_list, normalise


@pytest.mark.parametrize(
    ("given", "tag"),
    [
        ("de", "de"),
        ("DE", "de"),
        ("ger", "de"),
        ("no", "nb"),
        ("nb", "nb"),
        ("nn", "nn"),
        ("pt-BR", "pt"),
        ("en_US", "en"),
        ("zh", "zh"),
        ("cmn", "zh"),
        ("zh-Hans", "zh"),
        ("zh-CN", "zh"),
        ("zh-Hant", "zh-Hant"),
        ("zh-TW", "zh-Hant"),
        ("sr", "sr"),
        ("sr-Latn", "sr-Latn"),
        ("iw", "he"),
        ("", "und"),
        ("und", "und"),
        ("xx", "und"),
    ],
)
def test_a_code_is_normalised(given: str, tag: str) -> None:
    assert normalise(given) == tag
    assert normalise(tag) == tag


@pytest.mark.parametrize("given", ["klingon language", "e n", "german", "zzz", "1"])
def test_what_is_no_language_is_refused_with_an_example(given: str) -> None:
    with pytest.raises(BadInput, match="use a BCP 47 tag such as 'de'"):
        normalise(given)


def test_a_list_holds_tags_and_an_empty_text_has_none() -> None:
    assert language_list("de, pt-BR en") == ["de", "pt", "en"]
    assert language_list("") == []


@pytest.mark.parametrize("given", [",", " ", ", ,"])
def test_a_list_of_separators_alone_is_refused(given: str) -> None:
    with pytest.raises(BadInput, match="names no language"):
        language_list(given)


def test_known_codes_have_the_tags_that_langcodes_gives() -> None:
    assert {code: normalise(code.upper()) for code in _KNOWN} == _KNOWN
    assert {code: normalise(code) for code in _KNOWN} == _KNOWN
