"""Searches for subjects: documents about the same thing are one hit, by the version that the user prefers."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoders.document import Document, FloatArray, Passages
from encoders.errors import BadInput
from indexer.stores.contract import VectorQuery
from indexer.text.language_detection import Detector
from query.calibration_fitting.language_statistics import draw_samples, fit_statistics
from query.ranking.ranking_options import RankingOptions
from query.ranking.search_hits import Detail, Hit, Ranking, ScoreParts, grouped
from query.ranking.searcher import Searcher
from tests.query.synthetic import DIM, TopicEncoder, filled, page

FOUR = ("de", "fr", "ja", "ru")
TEN = ("ar", "de", "en", "es", "fr", "ja", "pt", "ru", "tr", "zh")
MODEL = TopicEncoder.spec.model


def ranking_of(doc_ids: Sequence[str]) -> Ranking:
    return Ranking(doc_ids, [doc_id[:2] for doc_id in doc_ids], np.arange(len(doc_ids), 0, -1, dtype=np.float32))


def both_ways(*pairs: tuple[str, str]) -> dict[str, list[str]]:
    mates: dict[str, list[str]] = {}
    for one, other in pairs:
        mates.setdefault(one, []).append(other)
        mates.setdefault(other, []).append(one)
    return mates


PAIRS = st.lists(st.tuples(st.integers(0, 15), st.integers(0, 15)), max_size=20)


def transcribed(
    doc_ids: Sequence[str], subjects: Sequence[Sequence[str]], mates: Mapping[str, Sequence[str]]
) -> list[list[str]]:
    """Each hit goes to the best subject that has a counterpart of it and no hit of its language; else it is one."""
    made = [list(subject) for subject in subjects]
    for doc_id in doc_ids[sum(map(len, made)) :]:
        for subject in made:
            of_it = any(doc_id in mates.get(member, ()) for member in subject)
            if of_it and doc_id[:2] not in {member[:2] for member in subject}:
                subject.append(doc_id)
                break
        else:
            made.append([doc_id])
    return made


@given(st.integers(0, 12), st.integers(0, 4), PAIRS, PAIRS)
def test_each_hit_is_in_one_subject_the_best_that_has_a_counterpart_of_it(
    count: int, more: int, first: list[tuple[int, int]], later: list[tuple[int, int]]
) -> None:
    """Among more hits, other counterparts may be nearest: the subjects stay, and more hits join them."""
    doc_ids = [f"{at % 5:02}{at}" for at in range(16)]
    few, many = (both_ways(*((doc_ids[a], doc_ids[b]) for a, b in pairs if a != b)) for pairs in (first, later))
    groups = grouped(ranking_of(doc_ids[:count]), [], few)
    expected = transcribed(doc_ids[:count], [], few)
    assert [[doc_ids[rank] for rank in group] for group in groups] == expected
    wider = doc_ids[: count + more]
    longer = grouped(ranking_of(wider), groups, many)
    assert [[doc_ids[rank] for rank in group] for group in longer] == transcribed(wider, expected, many)


def test_a_ranking_is_followed_by_what_a_longer_one_has_besides() -> None:
    """Where two hits of the shorter one have changed places, and one is no longer there."""
    nothing = Passages(np.zeros((0, 2), np.int8), np.zeros((0, 2), np.int32))
    parts = ScoreParts(1, 1, None, None, None, 1, None, None, 1, None, None, None)

    def detailed(*doc_ids: str) -> Ranking:
        """Each detail says by ``mate`` whose it is."""

        def details(asked: Sequence[str]) -> list[Detail]:
            assert set(asked) <= set(doc_ids)
            return [Detail(one, replace(parts, mate=one), nothing, np.zeros(0, np.float32)) for one in asked]

        return replace(ranking_of(doc_ids), details=details)

    both = detailed("a", "b", "c").followed_by(detailed("b", "a", "d", "e"))
    assert list(both.doc_ids) == list(both.langs) == ["a", "b", "c", "d", "e"]
    assert [detail.parts.mate for detail in both.details_of(both.doc_ids)] == list(both.doc_ids)
    assert both.scores.tolist() == [3, 2, 1, 2, 1]


Opened = Callable[..., Searcher]


@pytest.fixture
def opened(tmp_path: Path, request: pytest.FixtureRequest) -> Opened:
    """Opens a searcher of pages."""

    def searcher(pages: Sequence[Document], encoder: TopicEncoder | None = None, *, mates: bool = True) -> Searcher:
        encoder = encoder or TopicEncoder(bias=0.5)
        store = filled(tmp_path, encoder, pages)
        request.addfinalizer(store.close)
        calibration = replace(fit_statistics(draw_samples(store, encoder), MODEL), mates=mates)
        languages = store.count()
        return Searcher("c", encoder, store, languages, Detector(languages.keys()), calibration)

    return searcher


def versions(head: Hit) -> list[Hit]:
    return [head, *head.also]


def topics_of(head: Hit) -> list[str]:
    return [shown.doc_id.split(":")[1] for shown in versions(head)]


def ids_shown(heads: Sequence[Hit]) -> list[str]:
    return [shown.doc_id for head in heads for shown in versions(head)]


def best_of(head: Hit) -> Hit:
    return max(versions(head), key=lambda shown: shown.score)


def translated(langs: Sequence[str], topics: int = 60) -> list[Document]:
    return [page(lang, f"t{at}") for lang in langs for at in range(topics)]


@pytest.mark.parametrize("k", [1, 10])
def test_a_search_for_subjects_shows_k_of_them_each_once_and_the_same_again(opened: Opened, k: int) -> None:
    searcher = opened(translated(FOUR))
    heads = searcher.search("t3 asked", lang="de", k=k, subjects=True)
    assert len(heads) == k
    topics = [topics_of(head)[0] for head in heads]
    assert [set(topics_of(head)) for head in heads] == [{topic} for topic in dict.fromkeys(topics)]
    assert topics_of(heads[0]) == ["t3"] * len(FOUR)
    assert len(set(ids_shown(heads))) == len(ids_shown(heads))
    assert replace(searcher).search("t3 asked", lang="de", k=k, subjects=True) == heads


def test_the_face_of_a_subject_is_in_the_preferred_language(opened: Opened) -> None:
    """Some subjects have no French version; of these Russian is preferred to the rest."""
    pages = [one for one in translated(FOUR) if not (one.lang == "fr" and int(one.doc_id.split(":")[1][1:]) % 2)]
    heads = opened(pages).search("t3 asked", lang="de", k=10, subjects=True, prefer=["fr", "ru"])
    languages = [{shown.lang for shown in versions(head)} for head in heads]
    assert [head.lang for head in heads] == ["fr" if "fr" in langs else "ru" for langs in languages]
    assert {head.lang for head in heads} == {"fr", "ru"}
    for head in heads:
        scores = [other.score for other in head.also]
        assert scores == sorted(scores, reverse=True)


def test_without_a_preferred_version_the_face_is_in_the_language_of_the_query_or_the_best(opened: Opened) -> None:
    searcher = opened(translated(FOUR))
    for lang in FOUR:
        heads = searcher.search("t3 asked", lang=lang, k=5, subjects=True)
        assert {head.lang for head in heads} == {lang}
        assert heads == searcher.search("t3 asked", lang=lang, k=5, subjects=True, prefer=[lang])
    heads = searcher.search("t3 asked", lang="sv", k=10, subjects=True, prefer=["fi", "sv"])
    assert [head.doc_id for head in heads] == [best_of(head).doc_id for head in heads]
    assert len({head.lang for head in heads}) > 1


def test_a_subject_stands_where_its_best_version_does(opened: Opened) -> None:
    searcher = opened(translated(FOUR))
    flat = searcher.search("t3 asked", lang="de", k=50)
    heads = searcher.search("t3 asked", lang="de", k=8, subjects=True, prefer=["ru"])
    best = [best_of(head).score for head in heads]
    assert best == sorted(best, reverse=True)
    others = set(ids_shown(heads)) - {best_of(head).doc_id for head in heads}
    assert [best_of(head).doc_id for head in heads] == [hit.doc_id for hit in flat if hit.doc_id not in others][:8]
    scores = {hit.doc_id: hit.score for hit in flat}
    shown = {hit.doc_id: hit.score for head in heads for hit in versions(head) if hit.doc_id in scores}
    assert shown == pytest.approx({doc_id: scores[doc_id] for doc_id in shown})
    assert len(shown) > 20
    assert all(hit.also == () for hit in flat)


def test_the_first_subjects_are_the_same_however_many_are_asked_for(opened: Opened) -> None:
    """Fifty subjects in ten languages are more hits than the first stretch has."""
    searcher = opened(translated(TEN))
    for topic in ("t3", "t44"):
        found = [searcher.search(f"{topic} asked", lang="de", k=k, subjects=True) for k in (5, 20, 50)]
        assert [len(heads) for heads in found] == [5, 20, 50]
        for few, more in pairwise(found):
            assert [best_of(head).doc_id for head in few] == [best_of(head).doc_id for head in more[: len(few)]]
            for head, wider in zip(few, more, strict=False):
                assert set(ids_shown([head])) <= set(ids_shown([wider]))
        shown = ids_shown(found[-1])
        assert len(set(shown)) == len(shown) > 150


def test_a_store_that_finds_other_hits_when_more_are_asked_for_mixes_no_subjects(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one with approximate kNN does: of fifty hits in each language it misses each seventh."""
    searcher = opened(translated(TEN))
    search = searcher.store.search

    def missing(query: VectorQuery) -> object:
        found = search(query)
        if query.k > 100:
            return found
        return {lang: [hits.without(hits.doc_ids[1::7]) for hits in by_query] for lang, by_query in found.items()}

    monkeypatch.setattr(searcher.store, "search", missing)
    few = searcher.search("t3 asked", lang="de", k=5, subjects=True)
    heads = searcher.search("t3 asked", lang="de", k=50, subjects=True)
    assert [topics_of(head)[0] for head in heads[:5]] == [topics_of(head)[0] for head in few]
    assert [set(topics_of(head)) for head in heads[:15]] == [{topics_of(head)[0]} for head in heads[:15]]
    assert len(set(ids_shown(heads))) == len(ids_shown(heads))


class Apart(TopicEncoder):
    """An encoder of topics that have nothing in common: topic t7 is the seventh axis."""

    def _sentence(self, text: str, lang: str) -> FloatArray:
        row = super()._sentence(text, lang) * np.float32(0.3)
        row[int(text.split(maxsplit=1)[0][1:]) % DIM] += 1
        return row


def test_documents_without_counterparts_are_subjects_by_themselves(opened: Opened) -> None:
    """The nearest of other languages are about other things."""
    searcher = opened([page(FOUR[at % 4], f"t{at}") for at in range(DIM)], Apart(bias=0.5))
    for topic in ("t3", "t17", "t44"):
        heads = searcher.search(f"{topic} asked", lang="de", k=20, subjects=True)
        assert len(heads) == 20
        assert [head.doc_id for head in heads if head.also] == []


@pytest.mark.parametrize("how", ["mates don't count", "plain cosine"])
def test_without_mates_each_document_is_a_subject(opened: Opened, how: str) -> None:
    searcher = opened(translated(FOUR), mates=False)
    if how == "plain cosine":
        searcher = replace(searcher, calibration=None, ranking=RankingOptions())
    flat, heads = (searcher.search("t3 asked", lang="de", k=10, subjects=subjects) for subjects in (False, True))
    assert len(flat) == 10
    assert [head.doc_id for head in heads] == [hit.doc_id for hit in flat]
    assert not any(head.also for head in heads)


def test_all_versions_have_what_is_asked_of_hits(opened: Opened) -> None:
    searcher = opened(translated(FOUR))
    heads = searcher.search("t3 asked", lang="de", to=["fr", "ja"], k=5, subjects=True, explain=True, passages=2)
    shown = [shown for head in heads for shown in versions(head)]
    assert len(shown) > 5
    assert {hit.lang for hit in shown} == {"fr", "ja"}
    assert all(hit.parts is not None and len(hit.passages) == 2 for hit in shown)
    with pytest.raises(BadInput, match="prefer is the string 'de'"):
        searcher.search("t3 asked", lang="de", subjects=True, prefer="de")
    assert searcher.search("t3 asked", lang="de", k=1, subjects=True, prefer=["fra"])[0].lang == "fr"


def test_a_document_that_vanishes_before_it_is_shown_is_in_no_subject(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    searcher = opened(translated(FOUR))
    get, lost = searcher.store.get, ["fr:t3:0"]

    def lose_then_get(doc_ids: Sequence[str]) -> list[Document]:
        searcher.store.delete(lost)
        return get(doc_ids)

    monkeypatch.setattr(searcher.store, "get", lose_then_get)
    with closing(searcher):
        heads = searcher.search("t3 asked", lang="de", k=10, subjects=True)
    assert topics_of(heads[0]) == ["t3"] * 3
    assert "fr:t3:0" not in ids_shown(heads)


def test_a_document_that_vanishes_between_two_stretches_is_in_no_subject_and_moves_no_other(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    searcher = opened(translated(TEN))
    search, searches = searcher.store.search, list[int]()

    def lose_then_search(query: VectorQuery) -> object:
        searches.append(query.k)
        if len(searches) == 2:
            searcher.store.delete(["fr:t3:0"])
        return search(query)

    monkeypatch.setattr(searcher.store, "search", lose_then_search)
    heads = searcher.search("t3 asked", lang="de", k=50, subjects=True)
    assert len(searches) > 2
    assert topics_of(heads[0]) == ["t3"] * 9
    assert [set(topics_of(head)) for head in heads[:10]] == [{topics_of(head)[0]} for head in heads[:10]]
