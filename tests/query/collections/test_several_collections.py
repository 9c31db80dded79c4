"""Several collections are ranked as one collection that has the documents of all."""

from contextlib import ExitStack
from dataclasses import replace

import pytest

from encoders.errors import BadInput
from indexer.collection.settings import Settings
from query.collections.several_collections import joined, name_and_id, pooled
from query.ranking.ranking_options import RankingOptions
from query.ranking.search_hits import Hit
from query.ranking.searcher import Searcher

QUERIES = (("en", "flood in the old town"), ("de", "Brot backen"), ("fr", "trains de nuit"), ("en", "a headache"))
PLAIN = RankingOptions(calibration="none")
pytestmark = pytest.mark.parts


def opened(stack: ExitStack, settings: Settings, name: str, ranking: RankingOptions | None = None) -> Searcher:
    return stack.enter_context(Searcher.open(name, settings, device="cpu", ranking=ranking))


def together(
    stack: ExitStack, settings: Settings, ranking: RankingOptions | None = None, **filters: dict[str, str]
) -> Searcher:
    return joined({name: opened(stack, settings, name, ranking) for name in ("north", "south")}, filters)


def own_ids(hits: list[Hit]) -> list[str]:
    return [name_and_id(hit.doc_id)[1] for hit in hits]


def test_by_plain_cosine_the_ranking_is_that_of_one_collection(halves: Settings) -> None:
    with ExitStack() as stack:
        whole, both = opened(stack, halves, "whole", PLAIN), together(stack, halves, PLAIN)
        assert both.languages == whole.languages
        for lang, text in QUERIES:
            hits, expected = both.search(text, lang=lang, k=40), whole.search(text, lang=lang, k=40)
            assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in expected], abs=1e-5)
            assert sorted(own_ids(hits)[:30]) == pytest.approx(sorted(hit.doc_id for hit in expected[:30]))
            assert {name_and_id(hit.doc_id)[0] for hit in hits} == {"north", "south"}
            assert all(hit.document.doc_id == hit.doc_id for hit in hits)


@pytest.mark.parametrize("mates", [False, True])
def test_ranked_fairly_the_first_hits_are_those_of_one_collection(halves: Settings, mates: bool) -> None:
    """Where mates count in all of them, or in none."""
    shared, apart = [], []
    with ExitStack() as stack:
        whole, *alone = (counting(opened(stack, halves, name), mates) for name in ("whole", "north", "south"))
        both = joined(dict(zip(("north", "south"), alone, strict=True)), {})
        assert both.calibration is not None
        assert both.calibration.mates == mates
        for lang, text in QUERIES:
            expected = {hit.doc_id for hit in whole.search(text, lang=lang, k=10)}
            shared.append(len(expected & set(own_ids(both.search(text, lang=lang, k=10)))))
            merged = [hit for searcher in alone for hit in searcher.search(text, lang=lang, k=10)]
            merged.sort(key=lambda hit: -hit.score)
            apart.append(len(expected & {hit.doc_id for hit in merged[:10]}))
    assert sum(shared) >= 28, (shared, apart)
    assert sum(shared) > sum(apart), (shared, apart)


def counting(searcher: Searcher, mates: bool) -> Searcher:
    """The same collection, whose mates count or not."""
    assert searcher.calibration is not None
    return replace(searcher, calibration=replace(searcher.calibration, mates=mates))


def test_the_largest_collection_says_whether_mates_count(halves: Settings) -> None:
    with ExitStack() as stack:
        north, south = (opened(stack, halves, name) for name in ("north", "south"))
        assert sum(south.languages.values()) > sum(north.languages.values())
        for mates in (False, True):
            both = joined({"north": counting(north, not mates), "south": counting(south, mates)}, {})
            assert both.calibration is not None
            assert both.calibration.mates == mates


def test_pages_follow_each_other_and_filters_are_each_collections_own(halves: Settings) -> None:
    with ExitStack() as stack:
        both = together(stack, halves)
        many = both.search("night trains", lang="en", k=60)
        assert [hit.doc_id for hit in both.search("night trains", lang="en", k=20)] == [hit.doc_id for hit in many[:20]]
        health = together(stack, halves, south={"label": "health"}).search("night trains", lang="en", k=200)
        labels = {name_and_id(hit.doc_id)[0]: set[str]() for hit in health}
        for hit in health:
            labels[name_and_id(hit.doc_id)[0]].add(hit.document.fields["label"])
        assert labels["south"] == {"health"}
        assert len(labels["north"]) > 1
        german = both.search("night trains", lang="en", to=["de"], k=20)
        assert {hit.lang for hit in german} == {"de"}


def test_means_are_weighted_by_documents_and_pseudo_queries_are_all_there(halves: Settings) -> None:
    with ExitStack() as stack:
        searchers = {name: opened(stack, halves, name) for name in ("north", "south")}
        calibrations = {name: searcher.calibration for name, searcher in searchers.items()}
        both = together(stack, halves).calibration
        assert both is not None
        for lang in ("de", "ja"):
            counts = [searchers[name].languages[lang] for name in searchers]
            parts = [calibration.languages[lang] for calibration in calibrations.values() if calibration]
            weighed = sum(n * part.means["document"] for n, part in zip(counts, parts, strict=True))
            assert both.mean("document", lang) == pytest.approx(weighed / sum(counts), abs=1e-6)
            sources = [source for name, part in zip(searchers, parts, strict=True)
                       for source in (f"{name}/{own}" for own in part.sources)]  # fmt: skip
            assert both.languages[lang].sources == tuple(sources)


def test_what_several_collections_have_in_common_is_pooled_once_while_they_stay_as_they_are(halves: Settings) -> None:
    with ExitStack() as stack:
        north, south = (opened(stack, halves, name) for name in ("north", "south"))
        first = joined({"north": north, "south": south}, {}).calibration
        assert first is not None
        assert joined({"south": south, "north": opened(stack, halves, "north")}, {}).calibration is first
        grown = replace(south, languages={**south.languages, "de": south.languages["de"] + 1})
        assert joined({"north": north, "south": grown}, {}).calibration is not first
        assert south.calibration
        other = replace(south, calibration=replace(south.calibration, balance=0.3))
        assert joined({"north": north, "south": other}, {}).calibration is not first


def test_a_language_of_one_collection_has_its_statistics(halves: Settings) -> None:
    with ExitStack() as stack:
        searcher = opened(stack, halves, "north")
        north = searcher.calibration
        assert north is not None
        few = replace(north, languages={lang: north.languages[lang] for lang in ("de", "en")})
        both = {
            "a": replace(searcher, languages={"de": 5, "ja": 3}),
            "b": replace(searcher, calibration=few, languages={"de": 2}),
        }
        assert pooled(both).mean("document", "ja") == pytest.approx(north.mean("document", "ja"))


def test_collections_that_cannot_be_compared_are_refused_in_a_sentence(halves: Settings) -> None:
    with ExitStack() as stack:
        north, south = (opened(stack, halves, name) for name in ("north", "south"))
        uncalibrated = opened(stack, halves, "south", PLAIN)
        with pytest.raises(BadInput, match="south has no calibration, and others have one"):
            joined({"north": north, "south": uncalibrated}, {})
        assert south.calibration is not None
        other = replace(south, calibration=replace(south.calibration, model="another"))
        with pytest.raises(BadInput, match="north and south have vectors of different encoders"):
            joined({"north": north, "south": other}, {})
