"""Several collections are ranked as one collection that has the documents of all."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from encoders.errors import BadInput
from indexer.collection.settings import Settings
from query.calibration.calibration import Calibration
from query.collections.several_collections import joined, name_and_id, pooled
from query.ranking.ranking_options import RankingOptions
from query.ranking.search_hits import Hit
from query.ranking.searcher import Searcher

QUERIES = (("en", "flood in the old town"), ("de", "Brot backen"), ("fr", "trains de nuit"), ("en", "a headache"))
PLAIN = RankingOptions(calibration="none")
pytestmark = pytest.mark.parts


Open = Callable[..., Searcher]


@pytest.fixture
def opened(halves: Settings) -> Iterator[Open]:
    with ExitStack() as stack:
        yield lambda name, ranking=None: stack.enter_context(Searcher.open(name, halves, device="cpu", ranking=ranking))


def both_of(opened: Open, ranking: RankingOptions | None = None) -> dict[str, Searcher]:
    return {name: opened(name, ranking) for name in ("north", "south")}


def calibration_of(searcher: Searcher) -> Calibration:
    assert searcher.calibration is not None
    return searcher.calibration


def own_ids(hits: list[Hit]) -> list[str]:
    return [name_and_id(hit.doc_id)[1] for hit in hits]


def test_by_plain_cosine_the_ranking_is_that_of_one_collection(opened: Open) -> None:
    whole, both = opened("whole", PLAIN), joined(both_of(opened, PLAIN), {})
    assert both.languages == whole.languages
    for lang, text in QUERIES:
        hits, expected = both.search(text, lang=lang, k=40), whole.search(text, lang=lang, k=40)
        assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in expected], abs=1e-5)
        assert sorted(own_ids(hits)[:30]) == sorted(hit.doc_id for hit in expected[:30])
        assert {name_and_id(hit.doc_id)[0] for hit in hits} == {"north", "south"}
        assert all(hit.document.doc_id == hit.doc_id for hit in hits)


def counting(searcher: Searcher, mates: bool) -> Searcher:
    return replace(searcher, calibration=replace(calibration_of(searcher), mates=mates))


@pytest.mark.parametrize("mates", [False, True])
def test_ranked_fairly_the_first_hits_are_those_of_one_collection(opened: Open, mates: bool) -> None:
    """Where mates count in all of them, or in none."""
    shared = apart = 0
    whole, north, south = (counting(opened(name), mates) for name in ("whole", "north", "south"))
    both = joined({"north": north, "south": south}, {})
    assert calibration_of(both).mates == mates
    for lang, text in QUERIES:
        expected = {hit.doc_id for hit in whole.search(text, lang=lang, k=10)}
        shared += len(expected & set(own_ids(both.search(text, lang=lang, k=10))))
        merged = [hit for searcher in (north, south) for hit in searcher.search(text, lang=lang, k=10)]
        best = sorted(merged, key=lambda hit: -hit.score)[:10]
        apart += len(expected & {hit.doc_id for hit in best})
    assert shared >= 28, (shared, apart)
    assert shared > apart


def test_the_largest_collection_says_whether_mates_count(opened: Open) -> None:
    north, south = both_of(opened).values()
    assert sum(south.languages.values()) > sum(north.languages.values())
    for mates in (False, True):
        both = joined({"north": counting(north, not mates), "south": counting(south, mates)}, {})
        assert calibration_of(both).mates == mates


def test_pages_follow_each_other_and_filters_are_each_collections_own(opened: Open) -> None:
    halves = both_of(opened)
    both = joined(halves, {})
    few, many = (own_ids(both.search("night trains", lang="en", k=k)) for k in (20, 60))
    assert few == many[:20]
    labels: dict[str, set[str]] = {"north": set(), "south": set()}
    for hit in joined(halves, {"south": {"label": "health"}}).search("night trains", lang="en", k=200):
        labels[name_and_id(hit.doc_id)[0]].add(hit.document.fields["label"])
    assert labels["south"] == {"health"}
    assert len(labels["north"]) > 1
    assert {hit.lang for hit in both.search("night trains", lang="en", to=["de"], k=20)} == {"de"}


def test_means_are_weighted_by_documents_and_pseudo_queries_are_all_there(opened: Open) -> None:
    searchers = both_of(opened)
    both = calibration_of(joined(searchers, {}))
    for lang in ("de", "ja"):
        counts = [searcher.languages[lang] for searcher in searchers.values()]
        parts = {name: calibration_of(searcher).languages[lang] for name, searcher in searchers.items()}
        weighed = sum(n * part.means["document"] for n, part in zip(counts, parts.values(), strict=True))
        assert both.mean("document", lang) == pytest.approx(weighed / sum(counts), abs=1e-6)
        sources = [f"{name}/{own}" for name, part in parts.items() for own in part.sources]
        assert both.languages[lang].sources == tuple(sources)
    north = calibration_of(searchers["north"])
    few = replace(north, languages={lang: north.languages[lang] for lang in ("de", "en")})
    larger = replace(searchers["north"], languages={"de": 5, "ja": 3})
    smaller = replace(searchers["north"], calibration=few, languages={"de": 2})
    assert pooled({"a": larger, "b": smaller}).mean("document", "ja") == pytest.approx(north.mean("document", "ja"))


def test_what_several_collections_have_in_common_is_pooled_once_while_they_stay_as_they_are(opened: Open) -> None:
    north, south = both_of(opened).values()
    first = calibration_of(joined({"north": north, "south": south}, {}))
    assert joined({"south": south, "north": opened("north")}, {}).calibration is first
    grown = replace(south, languages={**south.languages, "de": south.languages["de"] + 1})
    other = replace(south, calibration=replace(calibration_of(south), balance=0.3))
    for changed in (grown, other):
        assert joined({"north": north, "south": changed}, {}).calibration is not first


def test_collections_that_cannot_be_compared_are_refused_in_a_sentence(opened: Open) -> None:
    north, south = both_of(opened).values()
    with pytest.raises(BadInput, match="south has no calibration, and others have one"):
        joined({"north": north, "south": opened("south", PLAIN)}, {})
    other = replace(south, calibration=replace(calibration_of(south), model="another"))
    with pytest.raises(BadInput, match="north and south have vectors of different encoders"):
        joined({"north": north, "south": other}, {})
