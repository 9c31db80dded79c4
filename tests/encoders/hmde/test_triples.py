"""Training triples: what is drawn, how evenly, and what is refused."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoders.errors import BadInput
from encoders.hmde.triples import TripleDocument, Triples, held_out, page_of

PAGES = [
    TripleDocument(concept, lang, (category,))
    for lang in ("de", "en", "fr", "ja")
    for number, concept in enumerate("abcdefgh")
    if lang != "ja" or number < 3  # a language of few pages
    for category in ("odd" if number % 2 else "even",)
]


def test_a_triple_is_a_page_its_mate_in_another_language_and_a_neighbour_about_something_else() -> None:
    for first, second, negative in Triples(PAGES).draw(0, 500).tolist():
        page, mate, hard = PAGES[first], PAGES[second], PAGES[negative]
        assert (page.concept == mate.concept, page.lang == mate.lang) == (True, False)
        assert (page.concept == hard.concept, page.lang == hard.lang) == (False, True)
        assert set(page.categories) & set(hard.categories)


def test_small_languages_begin_as_many_triples_as_large_ones() -> None:
    triples = Triples(PAGES)
    pairs = len(triples.possible)
    drawn = triples.languages(triples.draw(0, 7 * pairs))
    assert set(drawn.values()) == {7}
    assert set(drawn) == set(triples.possible)


def test_every_concept_of_a_pair_comes_once_before_any_comes_again() -> None:
    triples = Triples(PAGES)
    rows = triples.draw(0, 8 * len(triples.possible)).tolist()
    drawn = [(PAGES[first], PAGES[second]) for first, second, _ in rows]
    of_pair = [page.concept for page, mate in drawn if (page.lang, mate.lang) == ("de", "fr")]
    assert Counter(of_pair) == Counter("abcdefgh")


@given(seed=st.integers(0, 2**31), cut=st.integers(0, 60))
def test_the_sequence_depends_on_the_seed_alone_and_not_on_how_it_is_drawn(seed: int, cut: int) -> None:
    whole = Triples(PAGES, seed).draw(0, 60)
    other = Triples(PAGES, seed)
    later = other.draw(cut, 60 - cut)
    assert (whole[cut:] == later).all()
    assert (whole[:cut] == other.draw(0, cut)).all()


def test_another_seed_draws_others() -> None:
    assert (Triples(PAGES, 1).draw(0, 50) != Triples(PAGES, 2).draw(0, 50)).any()


def test_concepts_left_out_are_not_drawn_even_as_negatives() -> None:
    rows = Triples(PAGES, left_out={"a", "d"}).draw(0, 400)
    assert {PAGES[row].concept for row in rows.ravel().tolist()} == set("bcefgh")


def test_it_tells_what_gives_no_triple() -> None:
    odd_ones = [
        TripleDocument("single", "de", ("even",)),
        TripleDocument("rare", "de", ("rare",)),
        TripleDocument("rare", "en", ()),
    ]
    triples = Triples([*PAGES, *odd_ones])
    # Of Japanese there is one odd page, so that is alone too.
    assert (triples.single, triples.lonely) == (1, 3)
    assert triples.possible["de", "en"] == 8


def test_of_a_concepts_pages_in_one_language_the_first_has_mates_and_the_others_are_counted() -> None:
    again = [
        TripleDocument("a", "de", ("even",)),
        TripleDocument("a", "de", ("even",)),
        TripleDocument("", "de", ("even",)),
    ]
    triples = Triples([*PAGES, *again])
    assert triples.further == 2
    rows = triples.draw(0, 2000)
    assert rows[:, :2].max() < len(PAGES) <= rows[:, 2].max()


@pytest.mark.parametrize(
    ("pages", "reason"),
    [
        (
            [TripleDocument("", "de", ("x",))],
            "no document has the field concept; name yours with --field concept=THEIRS",
        ),
        (
            [TripleDocument("a", "de", ("x",)), TripleDocument("b", "en", ("x",))],
            "every concept has pages in one language only",
        ),
        ([TripleDocument("a", "de", ()), TripleDocument("a", "en", ())], "no document has the field category or label"),
        (
            [TripleDocument("a", "de", ("x",)), TripleDocument("a", "en", ("x",))],
            "no page with a mate has another page of its language",
        ),
    ],
)
def test_a_collection_without_triples_is_refused_with_the_reason(pages: list[TripleDocument], reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        Triples(pages)


def test_categories_are_a_list_a_word_or_else_the_label() -> None:
    assert page_of("de", {"concept": 7, "category": ["x", "y", "x", ""]}) == TripleDocument("7", "de", ("x", "y"))
    assert page_of("de", {"category": "x", "label": "z"}) == TripleDocument("", "de", ("x",))
    assert page_of("de", {"label": "z"}).categories == ("z",)
    assert page_of("de", {}).categories == ()


def test_zero_is_a_concept_and_a_category_as_any_other_number() -> None:
    assert page_of("de", {"concept": 0, "label": 0}) == TripleDocument("0", "de", ("0",))
    assert page_of("de", {"concept": 1, "category": [0, 1]}) == TripleDocument("1", "de", ("0", "1"))
    assert page_of("de", {"concept": None, "category": None, "label": 2}) == TripleDocument("", "de", ("2",))


def test_what_is_held_out_does_not_depend_on_what_else_there_is() -> None:
    chosen = [name for name in map(str, range(2000)) if held_out(name, 0.1, 0)]
    assert 140 < len(chosen) < 260
    assert held_out(chosen[0], 0.1, 0)


def test_shuffled_every_pair_of_pages_comes_once_a_pass() -> None:
    triples = Triples(PAGES, drawing="shuffled")
    total = sum(triples.possible.values())
    for turn in range(2):
        rows = triples.draw(turn * total, total)
        assert len({(first, second) for first, second, _ in rows.tolist()}) == total
        assert triples.languages(rows) == triples.possible
