"""Rankings in which mates lift each other, and documents near the best hits are looked for too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from query.calibration.calibration_choice import DEFAULT, CalibrationChoice
from query.fitting.statistics import draw_samples, fit_statistics
from query.ranking import fair_ranker as ranker_module
from query.ranking.fair_ranker import FairRanker
from query.ranking.search_choice import PLAIN, RankingOptions, SearchChoice, choose
from tests.query.synthetic import LosingStore, TopicEncoder, filled, page

LANGS = ("de", "fr", "ja", "ru")
MODEL = TopicEncoder.spec.model
ALONE = SearchChoice(0.75, "ratio")
LIFTED = replace(ALONE, lift=0.8)
FED_BACK = replace(LIFTED, second_look=True)


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

    def ranker(self, choice: SearchChoice) -> FairRanker:
        return FairRanker(self.store, self.calibration, choice)

    def mean_average_precision(self, choice: SearchChoice) -> float:
        """MAP at rank 50 of German queries about each topic."""
        values = []
        rankings = self.ranker(choice).rank(self.queries("de"), "de", LANGS, 50)
        for topic, ranking in zip(self.topics, rankings, strict=True):
            relevant = [topic_of(doc_id) == topic for doc_id in ranking.doc_ids]
            precisions = np.cumsum(relevant) / np.arange(1, len(relevant) + 1)
            answers = sum(topic_of(document.doc_id) == topic for document in self.pages)
            values.append(float(precisions[relevant].sum()) / answers)
        return float(np.mean(values))


def topic_of(doc_id: str) -> str:
    return doc_id.split(":")[1]


@pytest.fixture(scope="module")
def translated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    """Each of sixty topics has a page in each language."""
    pages = [page(lang, f"t{at}", label=f"l{at % 2}") for lang in LANGS for at in range(60)]
    made = Pages(tmp_path_factory.mktemp("translated"), pages)
    with closing(made.store):
        yield made


@pytest.fixture(scope="module")
def untranslated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    """Each of 160 topics has a page in one language alone."""
    made = Pages(tmp_path_factory.mktemp("untranslated"), [page(LANGS[at % 4], f"t{at}") for at in range(160)])
    with closing(made.store):
        yield made


@pytest.mark.parametrize("passages", [False, True])
def test_where_documents_have_counterparts_more_of_them_are_found(translated: Pages, passages: bool) -> None:
    alone, lifted, fed_back = (
        translated.mean_average_precision(replace(choice, passages=passages)) for choice in (ALONE, LIFTED, FED_BACK)
    )
    assert lifted > alone + 0.03
    assert fed_back > alone + 0.03


@pytest.mark.parametrize("passages", [False, True])
def test_where_no_document_has_a_counterpart_next_to_nothing_is_lost(untranslated: Pages, passages: bool) -> None:
    alone, lifted, fed_back = (
        untranslated.mean_average_precision(replace(choice, passages=passages)) for choice in (ALONE, LIFTED, FED_BACK)
    )
    assert lifted >= alone - 0.003
    assert fed_back >= alone - 0.003


def test_a_hit_is_lifted_by_a_page_about_its_topic_and_never_above_it(translated: Pages) -> None:
    queries = translated.queries("de")
    rankings = translated.ranker(LIFTED).rank(queries, "de", LANGS, 50, detailed=50)
    right = []
    for ranking in rankings:
        scores = dict(zip(ranking.doc_ids, ranking.scores.tolist(), strict=True))
        for doc_id, score, detail in zip(ranking.doc_ids, ranking.scores, ranking.details or (), strict=True):
            parts = detail.parts
            assert score == pytest.approx(parts.score + (parts.lift or 0), abs=1e-5)
            if parts.mate:
                assert parts.mate in scores
                assert scores[parts.mate] >= score - 1e-5
                right.append((score, topic_of(parts.mate) == topic_of(doc_id)))
    assert len(right) > len(queries)
    best = [is_right for _, is_right in sorted(right, reverse=True)[: len(queries)]]
    assert np.mean(best) > 0.9


def test_hits_about_the_same_thing_are_counterparts_both_ways(translated: Pages) -> None:
    ranker = translated.ranker(LIFTED)
    (ranking,) = ranker.rank(translated.queries("de")[:1], "de", LANGS, 50)
    mates = ranker.counterparts(ranking, "de")
    assert mates
    for doc_id, of_hit in mates.items():
        assert {doc_id, *of_hit} <= set(ranking.doc_ids)
        assert not {mate.split(":")[0] for mate in of_hit} & {doc_id.split(":")[0]}
        assert all(doc_id in mates[mate] for mate in of_hit)
    assert translated.ranker(ALONE).counterparts(ranking, "de") == {}


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    """300 pages in each of three languages, about thirty topics."""
    pages = [page(lang, f"t{at % 30}", at) for lang in LANGS[:3] for at in range(300)]
    pages[123] = replace(pages[123], text=f"{pages[123].text} Nefftegorsk")
    made = Pages(tmp_path_factory.mktemp("many"), pages)
    with closing(made.store):
        yield made


@pytest.mark.parametrize("hits", [300, 60])
@pytest.mark.parametrize("choice", [LIFTED, FED_BACK, replace(FED_BACK, passages=False)])
def test_the_first_fifty_hits_are_the_same_whether_10_or_50_or_more_are_asked_for(
    many: Pages, choice: SearchChoice, hits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the next stretch, of so many candidates in each language, lacks documents near the best hits."""
    monkeypatch.setattr(ranker_module, "STRETCHES", (50, hits, 10_000))
    queries, langs = many.queries("de")[:12], LANGS[:3]
    ten, fifty, deep = (many.ranker(choice).rank(queries, "de", langs, k) for k in (10, 50, hits))
    assert all(len(set(ranking.doc_ids)) == len(ranking.doc_ids) == hits for ranking in deep)
    assert all((np.diff(ranking.scores) <= 0).all() for ranking in deep)
    for first, more, most in zip(ten, fifty, deep, strict=True):
        assert list(first.doc_ids) == list(more.doc_ids[:10])
        assert list(more.doc_ids) == list(most.doc_ids[:50])
        assert more.scores == pytest.approx(most.scores[:50], abs=1e-5)


def test_in_many_languages_too_the_first_fifty_hits_are_the_same_however_many_are_asked_for(tmp_path: Path) -> None:
    """Lifted pages crowd out pages that lift: these are then compared by passages only where more hits are wanted."""
    langs = ("ar", "cs", "de", "en", "es", "fr", "it", "ja", "pt", "ru", "tr", "zh")
    made = Pages(tmp_path, [page(lang, f"t{at}") for lang in langs for at in range(75)], noise=2.0)
    ranker = made.ranker(replace(FED_BACK, lift=0.98, bar=0.3))
    queries = made.queries("de")[:40]
    with closing(made.store):
        for first, more in zip(*(ranker.rank(queries, "de", langs, k) for k in (50, 300)), strict=True):
            assert list(first.doc_ids) == list(more.doc_ids[:50])
            assert first.scores == pytest.approx(more.scores[:50], abs=1e-5)


def test_a_page_far_down_by_its_own_score_is_lifted_among_the_first_hits(tmp_path: Path) -> None:
    """Mates lift before passages are compared, too: of the first 150 pages and of the best of each language."""
    langs = ("ar", "cs", "de", "en", "es", "fr", "it", "ja", "pt", "ru", "tr", "zh")
    made = Pages(tmp_path, [page(lang, f"t{at}") for lang in langs for at in range(75)], noise=2.0)
    queries = made.queries("de")[:40]
    with closing(made.store):
        alone = made.ranker(replace(ALONE, passages=False)).rank(queries, "de", langs, 900)
        lifted = made.ranker(LIFTED).rank(queries, "de", langs, 50)
    ranks = [
        list(before.doc_ids).index(doc_id)
        for before, after in zip(alone, lifted, strict=True)
        for doc_id in after.doc_ids
    ]
    assert sum(rank > 150 + 3 * len(langs) for rank in ranks) > 10


def test_with_any_balance_mates_are_compared_without_their_languages(tmp_path: Path) -> None:
    """At balance 0 a query is compared with vectors as encoded, in which languages hide what pages are about."""
    encoder = TopicEncoder(bias=3.0, noise=0.5)
    store = filled(tmp_path, encoder, [page(lang, f"t{at}") for lang in LANGS for at in range(40)])
    calibration = fit_statistics(draw_samples(store, encoder), MODEL)
    queries = encoder.encode_queries([Document("", "de", f"t{at} asked") for at in range(20)])
    with closing(store):
        ranker = FairRanker(store, calibration, replace(LIFTED, balance=0.0))
        rankings = ranker.rank(queries, "de", LANGS, 40 * len(LANGS), detailed=40 * len(LANGS))
        counterparts = [ranker.counterparts(ranking, "de") for ranking in rankings]
    mates = [found[ranking.doc_ids[0]] for found, ranking in zip(counterparts, rankings, strict=True)]
    assert [ranking.doc_ids[0] for ranking in rankings] == [f"de:t{at}:0" for at in range(20)]
    right = [f"{lang}:t{at}:0" in of_hit for at, of_hit in enumerate(mates) for lang in LANGS[1:]]
    assert np.mean(right) > 0.9
    lifters = [
        topic_of(detail.parts.mate) == topic_of(doc_id)
        for ranking in rankings
        for doc_id, detail in zip(ranking.doc_ids, ranking.details or (), strict=True)
        if detail.parts.mate and topic_of(doc_id) == topic_of(ranking.doc_ids[0])
    ]
    assert len(lifters) > len(queries)
    assert np.mean(lifters) > 0.9


def test_the_second_look_finds_documents_that_are_near_the_best_hits_and_not_near_the_query(many: Pages) -> None:
    """What becomes a hit is about the topic oftener than what it displaces."""
    new: list[bool] = []
    displaced: list[bool] = []
    for lang in LANGS[:3]:
        once, twice = (
            many.ranker(replace(ALONE, second_look=second_look)).rank(many.queries(lang), lang, LANGS[:3], 50)
            for second_look in (False, True)
        )
        for topic, before, after in zip(many.topics, once, twice, strict=True):
            new += [topic_of(doc_id) == topic for doc_id in set(after.doc_ids) - set(before.doc_ids)]
            displaced += [topic_of(doc_id) == topic for doc_id in set(before.doc_ids) - set(after.doc_ids)]
    assert len(new) > 50
    assert np.mean(new) > np.mean(displaced)


def test_hits_of_the_second_look_are_not_among_those_of_the_first(many: Pages) -> None:
    """Fifty documents of each language, the nearest to the query, are what there is without a second look."""
    queries, langs = many.queries("de"), LANGS[:3]
    corrected = many.calibration.correct_queries(queries, "de")
    by_lang = {lang: many.calibration.queries_for_store(corrected, lang) for lang in langs}
    nearest = many.store.search(VectorQuery(MODEL, by_lang, 50))
    rankings = many.ranker(replace(ALONE, second_look=True)).rank(queries, "de", langs, 50)
    others = [
        set(ranking.doc_ids) - {doc_id for lang in langs for doc_id in nearest[lang][query].doc_ids}
        for query, ranking in enumerate(rankings)
    ]
    assert any(others)


def test_a_query_is_ranked_the_same_alone_and_among_others(many: Pages) -> None:
    """Alone, the store returns vectors with the hits; among others they are read by their ids."""
    queries, ranker = many.queries("de")[:6], many.ranker(FED_BACK)
    together = ranker.rank(queries, "de", LANGS[:3], 50)
    for at, ranking in enumerate(together):
        (alone,) = ranker.rank(queries[at : at + 1], "de", LANGS[:3], 50)
        assert list(alone.doc_ids) == list(ranking.doc_ids)
        assert alone.scores == pytest.approx(ranking.scores, abs=1e-4)


def test_a_search_of_one_language_has_no_mates(translated: Pages) -> None:
    for second_look in (False, True):
        alone, lifted = (
            translated.ranker(replace(choice, second_look=second_look)).rank(translated.queries("de"), "de", ["fr"], 50)
            for choice in (ALONE, LIFTED)
        )
        for expected, ranking in zip(alone, lifted, strict=True):
            assert ranking.doc_ids == expected.doc_ids
            assert ranking.scores.tolist() == expected.scores.tolist()
            assert set(ranking.langs) == {"fr"}


def test_without_a_calibration_documents_are_ranked_by_their_cosines_alone(translated: Pages) -> None:
    """Plain cosine knows of no mates, and asks the store once."""
    plain = Calibration.none(MODEL, VectorParts.equal(64))
    assert (plain.lift, plain.second_look) == (0, 0)
    assert choose("c", None, RankingOptions()) == PLAIN
    queries = translated.queries("de")[:9]
    doc_ids = [document.doc_id for document in translated.pages]
    cosines = queries @ translated.store.vectors(MODEL, doc_ids).T
    for choice in (PLAIN, SearchChoice.of(plain)):
        ranker = FairRanker(translated.store, plain, replace(choice, passages=False))
        for of_query, ranking in zip(cosines, ranker.rank(queries, "de", LANGS, 30), strict=True):
            expected = [doc_ids[row] for row in np.argsort(-of_query, kind="stable")[:30]]
            assert list(ranking.doc_ids) == expected
            assert ranking.scores == pytest.approx(np.sort(of_query)[::-1][:30], abs=1e-5)


def test_a_search_counts_mates_as_the_calibration_says_and_a_person_may_leave_them_out(translated: Pages) -> None:
    chosen = translated.calibration.with_choice(CalibrationChoice(lift=0.95, bar=0.3, second_look=True))
    choice = choose("c", chosen, RankingOptions(balance=0.5))
    assert (choice.balance, choice.lift, choice.bar, choice.second_look) == (0.5, 0.95, 0.3, 1.0)
    choice = choose("c", chosen, RankingOptions(mates=False))
    assert (choice.balance, choice.lift, choice.second_look) == (chosen.balance, 0, 0)
    older = SearchChoice.of(translated.calibration)
    assert (older.lift, older.bar, older.second_look) == (0, DEFAULT.bar, 0)


@pytest.mark.parametrize("each", [1, 12])
def test_filters_hold_when_documents_near_the_best_hits_are_looked_for(translated: Pages, each: int) -> None:
    queries, ranker = translated.queries("de"), translated.ranker(FED_BACK)
    rankings = [
        ranking
        for start in range(0, 24, each)
        for ranking in ranker.rank(queries[start : start + each], "de", LANGS, 120, {"label": "l1"})
    ]
    allowed = {document.doc_id for document in translated.pages if document.fields["label"] == "l1"}
    assert all(set(ranking.doc_ids) == allowed for ranking in rankings)


def test_a_filter_that_no_document_passes_finds_nothing(translated: Pages) -> None:
    for choice in (LIFTED, FED_BACK, replace(FED_BACK, passages=False)):
        for queries in (translated.queries("de")[:1], translated.queries("de")[:3]):
            rankings = translated.ranker(choice).rank(queries, "de", LANGS, 10, {"label": "none"})
            assert [list(ranking.doc_ids) for ranking in rankings] == [[]] * len(queries)


def test_a_language_without_documents_is_no_hindrance(translated: Pages) -> None:
    rankings = translated.ranker(FED_BACK).rank(translated.queries("de")[:3], "de", [*LANGS, "sw"], 10)
    assert all(len(ranking.doc_ids) == 10 for ranking in rankings)


@pytest.mark.parametrize("choice", [LIFTED, FED_BACK])
def test_words_find_documents_that_vectors_and_mates_do_not(many: Pages, choice: SearchChoice) -> None:
    hybrid, name = replace(choice, hybrid=True), many.pages[123].doc_id
    query = many.queries("de")[many.topics.index("t4")][None]
    assert topic_of(name) != "t4"
    (without,) = many.ranker(choice).rank(query, "de", LANGS[:3], 50)
    (ranking,) = many.ranker(hybrid).rank(query, "de", LANGS[:3], 50, texts=["Nefftegorsk"])
    assert name not in without.doc_ids
    assert name in ranking.doc_ids
    assert len(set(ranking.doc_ids)) == 50


class StoreWithoutTheBestHit(EmbeddedStore):
    """A store that loses the best German hit of a look right after the look, before anything of it is read."""

    lost: str = ""
    look = 1

    def search(self, query: VectorQuery) -> Any:
        hits = super().search(query)
        self.look -= 1
        if not self.look:
            self.lost = hits["de"][0].doc_ids[0]
            self.delete([self.lost])
        return hits


@pytest.mark.parametrize("queries", [1, 5])
@pytest.mark.parametrize("look", [1, 2])
def test_a_best_hit_that_is_lost_after_a_look_is_left_out(tmp_path: Path, look: int, queries: int) -> None:
    made = Pages(tmp_path, [page(lang, f"t{at}") for lang in LANGS for at in range(30)])
    made.store.close()
    with closing(StoreWithoutTheBestHit(tmp_path, "synthetic")) as store:
        store.look = look
        rankings = FairRanker(store, made.calibration, FED_BACK).rank(made.queries("de")[:queries], "de", LANGS, 50)
        assert store.lost
        assert all(store.lost not in ranking.doc_ids for ranking in rankings)
        assert all(len(ranking.doc_ids) == 50 for ranking in rankings)


def test_documents_that_are_lost_while_they_are_ranked_are_left_out(tmp_path: Path) -> None:
    """At any of the reads: of the best hits' vectors, the candidates', or the passages."""
    made = Pages(tmp_path, [page(lang, f"t{at}") for lang in LANGS for at in range(40)])
    made.store.close()
    with closing(LosingStore(tmp_path, "synthetic")) as store:
        ranker = FairRanker(store, made.calibration, FED_BACK)
        for start in range(0, 20, 5):
            rankings = ranker.rank(made.queries("fr")[start : start + 5], "fr", LANGS, 60)
            assert all(len(ranking.doc_ids) == 60 for ranking in rankings)
            assert not {doc_id for ranking in rankings for doc_id in ranking.doc_ids} & set(store.lost)
        assert len(store.lost) >= 4
