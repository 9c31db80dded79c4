"""Training triples: what is drawn, how evenly, and what is refused; ``hmde.json``, read whole or refused."""

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoders.errors import BadInput
from encoders.folder.model_cache import file_hash
from encoders.folder.model_config import ModelConfig
from encoders.folder.model_folder import ModelFolder
from encoders.hmde.triples import TripleDocument, Triples, held_out, page_of
from encoders.hmde.upper import ABOUT, FORMAT, GRAPH, UpperFile, UpperShape

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
    drawn = triples.languages(triples.draw(0, 7 * len(triples.possible)))
    assert (set(drawn.values()), set(drawn)) == ({7}, set(triples.possible))


def test_every_concept_of_a_pair_comes_once_before_any_comes_again_and_another_seed_draws_others() -> None:
    rows = (triples := Triples(PAGES)).draw(0, 8 * len(triples.possible)).tolist()
    drawn = [(PAGES[first], PAGES[second]) for first, second, _ in rows]
    of_pair = [page.concept for page, mate in drawn if (page.lang, mate.lang) == ("de", "fr")]
    assert Counter(of_pair) == Counter("abcdefgh")
    assert (Triples(PAGES, 1).draw(0, 50) != Triples(PAGES, 2).draw(0, 50)).any()


@given(seed=st.integers(0, 2**31), cut=st.integers(0, 60))
def test_the_sequence_depends_on_the_seed_alone_and_not_on_how_it_is_drawn(seed: int, cut: int) -> None:
    whole = Triples(PAGES, seed).draw(0, 60)
    other = Triples(PAGES, seed)
    assert (whole[cut:] == other.draw(cut, 60 - cut)).all()
    assert (whole[:cut] == other.draw(0, cut)).all()


def test_concepts_left_out_are_not_drawn_even_as_negatives() -> None:
    rows = Triples(PAGES, left_out={"a", "d"}).draw(0, 400)
    assert {PAGES[row].concept for row in rows.ravel().tolist()} == set("bcefgh")


def test_it_tells_what_gives_no_triple_and_of_a_concepts_pages_in_a_language_the_first_has_mates() -> None:
    odd_ones = [("single", "de", ("even",)), ("rare", "de", ("rare",)), ("rare", "en", ())]
    triples = Triples([*PAGES, *(TripleDocument(*one) for one in odd_ones)])
    assert (triples.single, triples.lonely) == (1, 3)  # of Japanese there is one odd page, so that is alone too
    assert triples.possible["de", "en"] == 8
    triples = Triples([*PAGES, *(TripleDocument(concept, "de", ("even",)) for concept in ("a", "a", ""))])
    assert triples.further == 2
    rows = triples.draw(0, 2000)
    assert rows[:, :2].max() < len(PAGES) <= rows[:, 2].max()


@pytest.mark.parametrize(
    ("pages", "reason"),
    [
        ([("", "de", ("x",))], "no document has the field concept; name yours with --field concept=THEIRS"),
        ([("a", "de", ("x",)), ("b", "en", ("x",))], "every concept has pages in one language only"),
        ([("a", "de", ()), ("a", "en", ())], "no document has the field category or label"),
        ([("a", "de", ("x",)), ("a", "en", ("x",))], "another page of its language and category that is not held out"),
    ],
)
def test_without_triples_the_reason_is_said(pages: list[tuple[str, str, tuple[str, ...]]], reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        Triples([TripleDocument(*page) for page in pages])


@pytest.mark.parametrize(
    ("fields", "concept", "categories"),
    [
        ({"concept": 7, "category": ["x", "y", "x", ""]}, "7", ("x", "y")),
        ({"category": "x", "label": "z"}, "", ("x",)),
        ({"label": "z"}, "", ("z",)),
        ({}, "", ()),
        ({"concept": 0, "label": 0}, "0", ("0",)),
        ({"concept": 1, "category": [0, 1]}, "1", ("0", "1")),
        ({"concept": None, "category": None, "label": 2}, "", ("2",)),
    ],
)
def test_categories_are_a_list_or_label(fields: dict[str, object], concept: str, categories: tuple[str, ...]) -> None:
    assert page_of("de", fields) == TripleDocument(concept, "de", categories)


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


@pytest.fixture
def folder(tmp_path: Path) -> ModelFolder:
    (tmp_path / GRAPH).write_bytes(b"graph")
    return ModelFolder(tmp_path, ModelConfig("m", 4, 16, "mean", "", "", (), "fp32", "w", "t", "g"))


def write(folder: ModelFolder, **shape: object) -> None:
    values = {**asdict(UpperShape(dim=4)), **shape}
    about = {"format": FORMAT, "shape": values, "weights": "w", "graph": file_hash(folder.path / GRAPH)}
    (folder.path / ABOUT).write_text(json.dumps(about))


@pytest.mark.parametrize("value", [None, "x", 1.5, True, [4], {}, 0, -1])
@pytest.mark.parametrize("entry", ["dim", "sentences", "tokens", "form"])
def test_a_shape_is_read_and_a_value_that_none_has_refused(entry: str, value: object, folder: ModelFolder) -> None:
    write(folder, heads=2)
    assert UpperFile.read(folder).shape == UpperShape(dim=4, heads=2)
    write(folder, **{entry: value})
    with pytest.raises(BadInput, match="train it again"):
        UpperFile.read(folder)


@pytest.mark.parametrize("parity", [None, [], "x", 5])
def test_a_parity_report_that_is_no_object_or_a_deep_file_is_refused(parity: object, folder: ModelFolder) -> None:
    write(folder)
    about = json.loads((folder.path / ABOUT).read_text())
    for text, said in (
        (json.dumps({**about, "parity": parity}), "its parity report is no object"),
        ("[" * 100_000, "nested too deeply"),
    ):
        (folder.path / ABOUT).write_text(text)
        with pytest.raises(BadInput, match=said):
            UpperFile.read(folder)
