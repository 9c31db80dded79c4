"""Folded searches: documents about the same thing are shown once, the others under the best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoders.document import Document
from indexer.text.language_detection import Detector
from query.calibration.calibration_choice import CalibrationChoice
from query.fitting.statistics import draw_samples, fit_statistics
from query.ranking.hits import Hit, as_json, folded
from query.ranking.search_choice import SearchChoice
from query.ranking.searcher import Searcher
from tests.query.synthetic import TopicEncoder, filled, page

FOUR = ("de", "fr", "ja", "ru")
TEN = ("ar", "de", "en", "es", "fr", "ja", "pt", "ru", "tr", "zh")
MODEL = TopicEncoder.spec.model


def hit(doc_id: str, score: float) -> Hit:
    return Hit(doc_id, doc_id[:2], score, score, Document(doc_id, doc_id[:2], "text"), None)


@given(st.integers(0, 12), st.lists(st.tuples(st.integers(0, 15), st.integers(0, 15)), max_size=20))
def test_each_hit_is_shown_once_under_the_best_hit_whose_mate_it_is(count: int, pairs: list[tuple[int, int]]) -> None:
    """Against a plain transcription; a mate of a mate is shown by itself, and mates need not be among the hits."""
    mates = {
        f"{at}": sorted({f"{b}" for a, b in pairs if a == at} | {f"{a}" for a, b in pairs if b == at})
        for at in range(16)
    }
    hits = [hit(f"{at}", 1 - at / 16) for at in range(count)]
    expected: list[list[str]] = []
    for doc_id in (ranked.doc_id for ranked in hits):
        subject = next((subject for subject in expected if doc_id in mates[subject[0]]), None)
        if subject:
            subject.append(doc_id)
        else:
            expected.append([doc_id])
    assert [[head.doc_id, *(other.doc_id for other in head.also)] for head in folded(hits, mates)] == expected


def test_a_folded_hit_shows_the_others_in_json_too() -> None:
    (head,) = folded([hit("de1", 0.9), hit("fr1", 0.8)], {"de1": ["fr1"], "fr1": ["de1"]})
    shown = as_json(head)
    assert [other["id"] for other in shown["also"]] == ["fr1"]  # type: ignore[attr-defined]
    assert "also" not in as_json(hit("de1", 0.9))


Opened = Callable[..., Searcher]


@pytest.fixture
def opened(tmp_path: Path, request: pytest.FixtureRequest) -> Opened:
    """Opens a searcher of pages, which a choice ranks."""

    def searcher(pages: Sequence[Document], choice: CalibrationChoice) -> Searcher:
        encoder = TopicEncoder(bias=0.5)
        store = filled(tmp_path, encoder, pages)
        request.addfinalizer(store.close)
        calibration = fit_statistics(draw_samples(store, encoder), MODEL).with_choice(choice)
        languages = store.count()
        return Searcher(
            "c", encoder, store, languages, Detector(languages.keys()), calibration, SearchChoice.of(calibration)
        )

    return searcher


def topics_of(head: Hit) -> list[str]:
    return [shown.doc_id.split(":")[1] for shown in (head, *head.also)]


@pytest.mark.parametrize("k", [1, 10])
def test_a_folded_search_shows_k_subjects_the_best_page_of_each_first(opened: Opened, k: int) -> None:
    searcher = opened([page(lang, f"t{at}") for lang in FOUR for at in range(60)], CalibrationChoice())
    heads = searcher.search("t3 asked", lang="de", k=k, fold=True)
    assert len(heads) == k
    assert [set(topics_of(head)) for head in heads] == [
        {topic} for topic in dict.fromkeys(topics_of(head)[0] for head in heads)
    ]
    assert topics_of(heads[0]) == ["t3"] * len(FOUR)
    shown = [shown.doc_id for head in heads for shown in (head, *head.also)]
    assert len(set(shown)) == len(shown)
    scores = [[shown.score for shown in (head, *head.also)] for head in heads]
    assert all(of_subject == sorted(of_subject, reverse=True) for of_subject in scores)
    assert [best for best, *_ in scores] == sorted((best for best, *_ in scores), reverse=True)


def test_folding_changes_no_order(opened: Opened) -> None:
    """The best hits of subjects are the hits of the plain search that are under no other."""
    searcher = opened([page(lang, f"t{at}") for lang in FOUR for at in range(60)], CalibrationChoice())
    plain = searcher.search("t3 asked", lang="de", k=50)
    heads = searcher.search("t3 asked", lang="de", k=8, fold=True)
    assert (len(plain), len(heads)) == (50, 8)
    under = {shown.doc_id for head in heads for shown in head.also}
    assert [head.doc_id for head in heads] == [alone.doc_id for alone in plain if alone.doc_id not in under][:8]
    scores = {alone.doc_id: alone.score for alone in plain}
    assert [head.score for head in heads] == pytest.approx([scores[head.doc_id] for head in heads])
    assert all(alone.also == () for alone in plain)


def test_where_each_subject_has_a_page_in_ten_languages_a_folded_search_shows_k_subjects_too(opened: Opened) -> None:
    """Ten subjects are a hundred pages: more than the first fifty hits."""
    searcher = opened([page(lang, f"t{at}") for lang in TEN for at in range(60)], CalibrationChoice())
    heads = searcher.search("t3 asked", lang="de", k=10, fold=True)
    assert len(heads) == 10
    assert len({topics_of(head)[0] for head in heads}) == 10
    assert [len(head.also) for head in heads[:6]] == [9] * 6  # sixty pages: more than the fifty that lift


def test_documents_without_counterparts_are_not_folded_together(opened: Opened) -> None:
    """The nearest of other languages are below the bar, and about other things."""
    searcher = opened([page(FOUR[at % 4], f"t{at}") for at in range(160)], CalibrationChoice(bar=0.8))
    for topic in ("t3", "t17", "t44"):
        heads = searcher.search(f"{topic} asked", lang="de", k=20, fold=True)
        assert len(heads) == 20
        assert [head.doc_id for head in heads if head.also] == []


def test_without_mates_nothing_is_folded(opened: Opened) -> None:
    searcher = opened([page(lang, f"t{at}") for lang in FOUR for at in range(60)], CalibrationChoice(lift=0.0))
    plain, heads = (searcher.search("t3 asked", lang="de", k=10, fold=fold) for fold in (False, True))
    assert len(plain) == 10
    assert [head.doc_id for head in heads] == [alone.doc_id for alone in plain]
    assert not any(head.also for head in heads)


def test_a_document_that_vanishes_before_it_is_shown_is_in_no_fold(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    searcher = opened([page(lang, f"t{at}") for lang in FOUR for at in range(60)], CalibrationChoice())
    get, lost = searcher.store.get, ["fr:t3:0"]

    def lose_then_get(doc_ids: Sequence[str]) -> list[Document]:
        searcher.store.delete(lost)
        return get(doc_ids)

    monkeypatch.setattr(searcher.store, "get", lose_then_get)
    with closing(searcher):
        heads = searcher.search("t3 asked", lang="de", k=10, fold=True)
    assert topics_of(heads[0]) == ["t3"] * 3
    assert "fr:t3:0" not in {shown.doc_id for head in heads for shown in (head, *head.also)}
