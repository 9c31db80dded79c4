"""Rankings in which documents about the same thing take part in each other's scores."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from encoders.document import Document, FloatArray
from encoders.methods.vector_parts import VectorParts
from indexer.stores.contract import VectorQuery
from indexer.stores.embedded import EmbeddedStore
from query.calibration.calibration import Calibration
from query.calibration_fitting.language_statistics import draw_samples, fit_statistics
from query.ranking import fair_ranker as ranker_module
from query.ranking.fair_ranker import FairRanker, Stretch
from tests.query.synthetic import LosingStore, TopicEncoder, filled, page

LANGS = ("de", "fr", "ja", "ru")
TWELVE = ("ar", "cs", "de", "en", "es", "fr", "it", "ja", "pt", "ru", "tr", "zh")
MODEL = TopicEncoder.spec.model


class Pages:
    """A collection whose documents know each other better than queries know documents."""

    def __init__(self, folder: Path, pages: Sequence[Document], noise: float = 1.0) -> None:
        encoder = TopicEncoder(bias=0.5, noise=noise)
        self.pages, self.noise = pages, noise
        self.store = filled(folder, encoder, pages)
        self.calibration = fit_statistics(draw_samples(self.store, encoder), MODEL)
        self.topics = sorted({topic_of(document.doc_id) for document in pages})

    def queries(self, lang: str) -> FloatArray:
        """A noisy query about each topic."""
        return TopicEncoder(bias=0.5, noise=2 * self.noise).encode_queries(
            [Document("", lang, f"{topic} asked") for topic in self.topics]
        )

    def ranker(self, *, mates: bool = True, passages: bool = True, hybrid: bool = False) -> FairRanker:
        calibration = replace(self.calibration, mates=mates)
        return FairRanker(self.store, calibration, 0.75, passages=passages, hybrid=hybrid)

    def mean_average_precision(self, *, mates: bool, passages: bool) -> float:
        """MAP at rank 50 of German queries about each topic."""
        values, answers = [], len(self.pages) / len(self.topics)
        rankings = self.ranker(mates=mates, passages=passages).rank(self.queries("de"), "de", LANGS, 50)
        for topic, ranking in zip(self.topics, rankings, strict=True):
            relevant = [topic_of(doc_id) == topic for doc_id in ranking.doc_ids]
            precisions = np.cumsum(relevant) / np.arange(1, len(relevant) + 1)
            values.append(float(precisions[relevant].sum()) / answers)
        return float(np.mean(values))


def topic_of(doc_id: str) -> str:
    return doc_id.split(":")[1]


def pages_of(pages: Sequence[Document], noise: float = 1.0) -> Callable[..., Iterator[Pages]]:
    """A fixture: the pages as a collection."""

    @pytest.fixture(scope="module")
    def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
        collection = Pages(tmp_path_factory.mktemp("pages"), pages, noise)
        with closing(collection.store):
            yield collection

    return made


def with_a_name(document: Document) -> Document:
    """Its text ends with a name if it is the 123rd German page."""
    return replace(document, text=f"{document.text} Nefftegorsk") if document.doc_id == NAMED else document


NAMED = "de:t3:123"
translated = pages_of([page(lang, f"t{at}", label=f"l{at % 2}") for lang in LANGS for at in range(60)])
untranslated = pages_of([page(LANGS[at % 4], f"t{at}") for at in range(160)])
many = pages_of([with_a_name(page(lang, f"t{at % 30}", at)) for lang in LANGS[:3] for at in range(300)])
twelve = pages_of([page(lang, f"t{at}") for lang in TWELVE for at in range(75)], noise=2.0)


@pytest.mark.parametrize("passages", [False, True])
def test_where_documents_have_counterparts_more_are_found_and_else_little_is_lost(
    translated: Pages, untranslated: Pages, passages: bool
) -> None:
    """Where each topic has a page in each language, and in one alone."""
    for pages, gain in ((translated, 0.03), (untranslated, -0.05)):
        alone, helped = (pages.mean_average_precision(mates=mates, passages=passages) for mates in (False, True))
        assert helped > alone + gain


def test_a_hit_names_a_page_about_its_topic_and_what_that_adds(translated: Pages) -> None:
    queries = translated.queries("de")
    rankings = translated.ranker().rank(queries, "de", LANGS, 50, detailed=True)
    right = []
    for ranking in rankings:
        for doc_id, score, detail in zip(
            ranking.doc_ids, ranking.scores, ranking.details_of(ranking.doc_ids), strict=True
        ):
            parts = detail.parts
            assert score == pytest.approx(parts.score + (parts.mates or 0), abs=1e-5)
            assert (parts.mate is None) == (parts.mates is None)
            if parts.mate:
                assert parts.mate.split(":")[0] != doc_id.split(":")[0]
                right.append((score, topic_of(parts.mate) == topic_of(doc_id)))
    assert len(right) > len(queries)
    best = [is_right for _, is_right in sorted(right, reverse=True)[: len(queries)]]
    assert np.mean(best) > 0.9


def test_hits_about_the_same_thing_are_counterparts_both_ways(translated: Pages) -> None:
    ranker = translated.ranker()
    (ranking,) = ranker.rank(translated.queries("de")[:1], "de", LANGS, 50)
    mates = ranker.counterparts(ranking, "de")
    assert mates
    for doc_id, of_hit in mates.items():
        assert {doc_id, *of_hit} <= set(ranking.doc_ids)
        assert not {mate.split(":")[0] for mate in of_hit} & {doc_id.split(":")[0]}
        assert all(doc_id in mates[mate] for mate in of_hit)
    assert translated.ranker(mates=False).counterparts(ranking, "de") == {}


@pytest.mark.parametrize("passages", [False, True])
def test_the_first_hits_are_the_same_though_the_next_stretch_is_hardly_longer_than_the_first(
    many: Pages, passages: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranker_module, "STRETCHES", (Stretch(50, 50), Stretch(60, 60), Stretch(10_000, 10_000)))
    queries, ranker = many.queries("de")[:12], many.ranker(passages=passages)
    ten, fifty, deep = (ranker.rank(queries, "de", LANGS[:3], k) for k in (10, 50, 60))
    for first, more, most in zip(ten, fifty, deep, strict=True):
        assert len(set(most.doc_ids)) == len(most.doc_ids) == 60
        assert (np.diff(most.scores) <= 0).all()
        assert list(first.doc_ids) == list(more.doc_ids[:10])
        assert list(more.doc_ids) == list(most.doc_ids[:50])
        assert more.scores == pytest.approx(most.scores[:50], abs=1e-5)


def test_in_many_languages_too_the_first_hits_are_the_same_however_many_are_asked_for(twelve: Pages) -> None:
    """Pages that mates bring up crowd out their mates: these are compared by passages only for more hits."""
    queries, ranker = twelve.queries("de")[:40], twelve.ranker()
    few, all_of_stretch, most = (ranker.rank(queries, "de", TWELVE, k) for k in (50, 150, 300))
    for first, more, deep in zip(few, all_of_stretch, most, strict=True):
        assert list(first.doc_ids) == list(more.doc_ids[:50])
        assert list(more.doc_ids) == list(deep.doc_ids[:150])
        assert more.scores == pytest.approx(deep.scores[:150], abs=1e-5)


def test_a_page_far_down_by_its_own_score_may_be_among_the_first_hits(twelve: Pages) -> None:
    """Mates take part before passages are compared, too."""
    queries = twelve.queries("de")[:40]
    alone = twelve.ranker(mates=False, passages=False).rank(queries, "de", TWELVE, 900)
    helped = twelve.ranker().rank(queries, "de", TWELVE, 50)
    ranks = [
        list(before.doc_ids).index(doc_id)
        for before, after in zip(alone, helped, strict=True)
        for doc_id in after.doc_ids
    ]
    assert sum(rank > 150 + 3 * len(TWELVE) for rank in ranks) > 10


def test_below_balance_half_mates_take_no_part_and_counterparts_are_known_all_the_same(tmp_path: Path) -> None:
    """There a query's cosines with two languages have two scales; a mean of them would lower the better one."""
    encoder = TopicEncoder(bias=3.0, noise=0.5)
    store = filled(tmp_path, encoder, [page(lang, f"t{at}") for lang in LANGS for at in range(40)])
    calibration = fit_statistics(draw_samples(store, encoder), MODEL)
    queries = encoder.encode_queries([Document("", "de", f"t{at} asked") for at in range(20)])
    with closing(store):
        ranker, without = (FairRanker(store, replace(calibration, mates=mates), 0.0) for mates in (True, False))
        rankings, expected = (one.rank(queries, "de", LANGS, 40 * len(LANGS)) for one in (ranker, without))
        counterparts = [ranker.counterparts(ranking, "de") for ranking in rankings]
    assert [list(ranking.doc_ids) for ranking in rankings] == [list(ranking.doc_ids) for ranking in expected]
    right = [
        f"{lang}:t{at}:0" in found.get(f"de:t{at}:0", ()) for at, found in enumerate(counterparts) for lang in LANGS[1:]
    ]
    assert np.mean(right) > 0.9


def test_a_search_of_one_language_has_no_mates(translated: Pages) -> None:
    alone, helped = (
        translated.ranker(mates=mates).rank(translated.queries("de"), "de", ["fr"], 50) for mates in (False, True)
    )
    for expected, ranking in zip(alone, helped, strict=True):
        assert ranking.doc_ids == expected.doc_ids
        assert ranking.scores.tolist() == expected.scores.tolist()
        assert set(ranking.langs) == {"fr"}


def test_without_a_calibration_documents_are_ranked_by_their_cosines_alone(translated: Pages) -> None:
    """Plain cosine knows of no mates."""
    plain = Calibration.none(MODEL, VectorParts.equal(64))
    queries = translated.queries("de")[:9]
    doc_ids = [document.doc_id for document in translated.pages]
    cosines = queries @ translated.store.vectors(MODEL, doc_ids).T
    ranker = FairRanker(translated.store, plain, passages=False)
    for of_query, ranking in zip(cosines, ranker.rank(queries, "de", LANGS, 30), strict=True):
        expected = [doc_ids[row] for row in np.argsort(-of_query, kind="stable")[:30]]
        assert list(ranking.doc_ids) == expected
        assert ranking.scores == pytest.approx(np.sort(of_query)[::-1][:30], abs=1e-5)


@pytest.mark.parametrize("each", [1, 12])
def test_filters_hold_for_mates_too(translated: Pages, each: int) -> None:
    """Also where nothing passes, or a language has no documents at all."""
    queries, ranker = translated.queries("de"), translated.ranker()
    allowed = {document.doc_id for document in translated.pages if document.fields["label"] == "l1"}
    for start in range(0, 24, each):
        for ranking in ranker.rank(queries[start : start + each], "de", [*LANGS, "sw"], 120, {"label": "l1"}):
            assert set(ranking.doc_ids) == allowed
    for passages in (False, True):
        rankings = translated.ranker(passages=passages).rank(queries[:each], "de", LANGS, 10, {"label": "none"})
        assert [list(ranking.doc_ids) for ranking in rankings] == [[]] * each


@pytest.mark.parametrize("mates", [False, True])
def test_words_find_documents_that_vectors_and_mates_do_not(many: Pages, mates: bool) -> None:
    query = many.queries("de")[many.topics.index("t4")][None]
    (without,) = many.ranker(mates=mates).rank(query, "de", LANGS[:3], 50)
    hybrid = many.ranker(mates=mates, hybrid=True)
    (ranking,) = hybrid.rank(query, "de", LANGS[:3], 50, texts=["Nefftegorsk"])
    assert NAMED not in without.doc_ids
    assert NAMED in ranking.doc_ids
    assert len(set(ranking.doc_ids)) == 50


class StoreWithoutTheBestHit(EmbeddedStore):
    """A store that loses the best German hit right after a search, before anything of it is read."""

    def search(self, query: VectorQuery) -> Any:
        hits = super().search(query)
        if not hasattr(self, "lost"):
            self.lost = [hits["de"][0].doc_ids[0]]
        self.delete(self.lost)
        return hits


@pytest.mark.parametrize(
    ("kind", "each", "losses"), [(StoreWithoutTheBestHit, 1, 1), (StoreWithoutTheBestHit, 5, 1), (LosingStore, 5, 4)]
)
def test_documents_that_are_lost_while_they_are_ranked_are_left_out(
    tmp_path: Path, kind: type[StoreWithoutTheBestHit | LosingStore], each: int, losses: int
) -> None:
    """At any of the reads: of the hits, the candidates' vectors, or the passages."""
    made = Pages(tmp_path, [page(lang, f"t{at}") for lang in LANGS for at in range(40)])
    made.store.close()
    with closing(kind(tmp_path, "synthetic")) as store:
        ranker, queries = FairRanker(store, replace(made.calibration, mates=True)), made.queries("de")
        for start in range(0, 8 * each, each):
            rankings = ranker.rank(queries[start : start + each], "de", LANGS, 60)
            assert all(len(ranking.doc_ids) == 60 for ranking in rankings)
            assert not {doc_id for ranking in rankings for doc_id in ranking.doc_ids} & set(store.lost)
        assert len(store.lost) >= losses
