"""A trained encoder is compared as a user searches, over concepts that taught it nothing."""

from encoders.console import Console
from encoders.document import Document
from query.commands.train.unseen_concepts import PAGES, Comparison, compare, pages_of
from tests.query.synthetic import TopicEncoder, page

LANGS = ("de", "fr", "ja")
QUIET = Console(quiet=True)


def pages(topics: int) -> list[Document]:
    return [page(lang, f"t{topic}", concept=f"t{topic}") for topic in range(topics) for lang in LANGS]


def compared(trained: TopicEncoder, untrained: TopicEncoder, *more: Document) -> Comparison:
    found = compare([*more, *pages(30)], trained, untrained, QUIET)
    assert found is not None
    return found


def test_concepts_are_the_same_as_numbers_and_as_texts() -> None:
    one = [page(lang, "number", concept=7 if lang == "de" else "7") for lang in LANGS]
    assert compared(TopicEncoder(1.0), TopicEncoder(1.0), *one).concepts == 31


def test_the_better_encoder_is_said_to_be_better() -> None:
    good, bad = TopicEncoder(1.0, noise=0.3, model="good"), TopicEncoder(1.0, noise=4.0, model="bad")
    found = compared(good, bad)
    assert (found.concepts, found.pages, found.verdict) == (30, 90, "better")
    assert found.trained > 0.95
    assert found.untrained < 0.6
    assert compared(bad, good).verdict == "worse"
    assert compared(bad, bad) == Comparison(found.untrained, found.untrained, 0.0, 30, 90)
    assert compared(bad, bad).verdict == "undecided"


def test_a_difference_is_said_where_chance_is_below_five_percent() -> None:
    for gain, verdict in ((0.017, "better"), (0.016, "undecided"), (-0.016, "undecided"), (-0.017, "worse")):
        assert Comparison(0.5 + gain, 0.5, 0.01, 30, 90).verdict == verdict
        assert Comparison(0.5 + gain, 0.5, 0.01, 19, 90).verdict == "undecided"


def test_one_concept_decides_nothing() -> None:
    encoder = TopicEncoder(1.0)
    assert compare(pages(1), encoder, encoder, QUIET) is compare([], encoder, encoder, QUIET) is None


def test_pages_are_of_the_concepts_in_several_languages_one_a_language() -> None:
    alone = page("de", "alone", concept="alone")
    second = page("de", "t0", 1, concept="t0")
    known = page("de", "known", concept="known")
    taken = pages_of([*pages(2), second, alone, known, page("fr", "none")], {"t0", "t1", "alone"})
    assert [one.doc_id for one in taken] == [one.doc_id for one in pages(2)]
    assert PAGES <= len(pages_of(pages(400), {f"t{topic}" for topic in range(400)})) < PAGES + len(LANGS)
