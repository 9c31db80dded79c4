"""What a probe's queries meet: their own documents without the openings, or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from encoders.document import Document
from indexer.stores.contract import VectorQuery, VectorStore
from query.calibration.calibration import Calibration
from query.calibration.calibration_choice import DEFAULT
from query.calibration.margin import MARGINS
from query.fitting.evidence import Evidence, from_concepts, from_titles
from query.fitting.probe import probe
from query.fitting.probe_vectors import ProbeVectors, ReadOnce
from query.fitting.statistics import draw_samples, fit_statistics
from query.ranking import fair_ranker as ranker_module
from query.ranking.fair_ranker import FairRanker
from query.ranking.hits import Ranking
from query.ranking.search_choice import SearchChoice
from tests.query.synthetic import TopicEncoder, filled, page

ENCODER = TopicEncoder(bias=1.0, noise=1.0)
MODEL = ENCODER.spec.model
LANGS = ("de", "fr")
CHOICE = SearchChoice(0.75, "ratio", lift=0.8, second_look=True)


@dataclass
class Asked:
    """A collection with evidence."""

    store: VectorStore
    calibration: Calibration
    evidence: Evidence

    def rows(self, lang: str, *topics: int) -> list[int]:
        """Rows of the evidence's queries of a language; all, unless some topics are wanted."""
        return [
            row
            for row, (query_lang, own) in enumerate(zip(self.evidence.query_langs, self.evidence.sources, strict=True))
            if query_lang == lang and (not topics or int(own.split(":")[1][1:]) in topics)
        ]

    def rank(
        self,
        rows: Sequence[int],
        read: ReadOnce | None = None,
        choice: SearchChoice = CHOICE,
        targets: Sequence[str] = LANGS,
    ) -> list[Ranking]:
        lang = self.evidence.query_langs[rows[0]]
        asked = ProbeVectors(self.store, self.calibration, choice, self.evidence, rows, read or ReadOnce())
        ranker = FairRanker(self.store, self.calibration, choice, 50, asked)
        return ranker.rank(self.evidence.queries[list(rows)], lang, targets, 50)


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    """Thirty topics in two languages. The pages of five have a title alone."""
    pages = [page(lang, f"t{at}", sentences=3 if at >= 5 else 0, concept=at) for lang in LANGS for at in range(30)]
    pages = [
        replace(document, text=document.text or document.title, title=document.title if document.text else "")
        for document in pages
    ]
    with closing(filled(tmp_path, ENCODER, pages)) as store:
        samples = draw_samples(store, ENCODER)
        evidence = from_concepts(store, MODEL, samples)
        assert evidence is not None
        yield Asked(store, fit_statistics(samples, MODEL), evidence)


def score_of(ranking: Ranking, doc_id: str) -> float:
    return float(ranking.scores[list(ranking.doc_ids).index(doc_id)])


def test_a_query_meets_its_own_document_without_the_opening(asked: Asked) -> None:
    rows = asked.rows("de", 5, 6, 7, 8, 9)
    vectors = ProbeVectors(asked.store, asked.calibration, CHOICE, asked.evidence, rows, ReadOnce())
    own = [asked.evidence.sources[row] for row in rows]
    others = ["de:t20:0", "fr:t5:0"]
    raw = vectors.vectors([*own, *others])
    assert raw[:5] == pytest.approx(np.stack([asked.evidence.rests[doc_id].vector for doc_id in own]))
    assert raw[5:] == pytest.approx(asked.store.vectors(MODEL, others))
    passages = vectors.passages([*own, *others], raw)
    assert [len(of_document.vectors) for of_document in passages] == [3] * 5 + [4] * 2


def test_a_query_alone_meets_its_own_document_as_among_others(asked: Asked) -> None:
    """The store returns vectors with the hits of a single query; the own document's are its rest's all the same."""
    rows, cosines = asked.rows("de", *range(5, 15)), SearchChoice(0.5, "absolute")
    for row, together in zip(rows, asked.rank(rows, choice=cosines), strict=True):
        own = asked.evidence.sources[row]
        (alone,) = asked.rank([row], choice=cosines)
        assert score_of(alone, own) == pytest.approx(score_of(together, own), abs=1e-4)


def test_a_query_does_not_meet_a_document_that_is_its_opening_alone(asked: Asked) -> None:
    """Neither as a hit, nor among the best hits that others are looked for from, nor as a mate."""
    rows = asked.rows("de", *range(8))
    short = [row for row in rows if asked.evidence.sources[row] not in asked.evidence.rests]
    assert len(short) == 5
    for row, ranking in zip(rows, asked.rank(rows), strict=True):
        assert (asked.evidence.sources[row] in ranking.doc_ids) == (row not in short)
    for row in short:
        (alone,) = asked.rank([row])
        assert asked.evidence.sources[row] not in alone.doc_ids


def test_a_query_is_no_neighbour_of_the_documents_that_it_asks_for(asked: Asked) -> None:
    """Its own column of the bank is left out; the others count."""
    rows = asked.rows("de", *range(5, 15))
    vectors = ProbeVectors(asked.store, asked.calibration, CHOICE, asked.evidence, rows, ReadOnce())
    bank = vectors.bank("de")
    assert bank.own_rows is not None
    corrected = asked.calibration.correct_queries(asked.evidence.queries[rows], "de")
    own = bank.queries.vectors[bank.own_rows]
    assert np.einsum("qd,qd->q", own, corrected) == pytest.approx(np.ones(len(rows)), abs=1e-3)


def test_several_choices_read_the_same_documents_once(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, read, searches = asked.rows("de"), ReadOnce(), list[int]()
    search = asked.store.search

    def counted(query: VectorQuery) -> Any:
        searches.append(query.k)
        return search(query)

    monkeypatch.setattr(asked.store, "search", counted)
    monkeypatch.setattr(ranker_module, "_FIRST_LOOK", 5)
    monkeypatch.setattr(ranker_module, "_SECOND_LOOK", 10)
    choices = [replace(CHOICE, lift=lift, margin=margin) for lift in (0.0, 0.8) for margin in MARGINS[:2]]
    again = [asked.rank(rows, read, choice) for choice in choices]
    assert len(searches) == 2
    choices += [replace(CHOICE, second_look=False), replace(CHOICE, balance=0.25)]
    again += [asked.rank(rows, read, choice) for choice in choices[-2:]]
    for choice, rankings in zip(choices, again, strict=True):
        for ranking, fresh in zip(rankings, asked.rank(rows, choice=choice), strict=True):
            assert ranking.doc_ids == fresh.doc_ids
            assert ranking.scores == pytest.approx(fresh.scores, abs=1e-6)


def test_titles_find_the_rest_of_their_documents_and_not_themselves(tmp_path: Path) -> None:
    """Pages whose title is about another thing than their text: no title finds its own page first."""
    pages = [
        Document(f"{lang}{at}", lang, "\n".join(f"t{lang}{at} sentence {n}" for n in range(3)), f"x{lang}{at} title")
        for lang in LANGS
        for at in range(60)
    ]
    encoder = TopicEncoder(bias=1.0, noise=0.5)
    with closing(filled(tmp_path, encoder, pages)) as store:
        samples = draw_samples(store, encoder)
        evidence = from_titles(store, MODEL, samples)
        assert evidence is not None
        asked = Asked(store, fit_statistics(samples, MODEL), evidence)
        titles = [row for row in range(len(evidence.sources)) if evidence.query_langs[row] == "de" and row % 2 == 0]
        first = [
            ranking.doc_ids[0] == evidence.sources[row] for row, ranking in zip(titles, asked.rank(titles), strict=True)
        ]
    assert np.mean(first) < 0.2


def test_by_titles_documents_are_ranked_among_their_language_however_many_languages_there_are(tmp_path: Path) -> None:
    """Of fifty hits in twelve languages, four are in the title's."""
    langs = ("ar", "cs", "de", "en", "es", "fr", "it", "ja", "pt", "ru", "tr", "zh")
    encoder = TopicEncoder(bias=1.0, noise=3.0)
    pages = [page(lang, f"{lang}{at}", sentences=3) for lang in langs for at in range(30)]
    with closing(filled(tmp_path, encoder, pages)) as store:
        samples = draw_samples(store, encoder)
        evidence = from_titles(store, MODEL, samples)
        assert evidence is not None
        _, tried = probe(store, samples, MODEL, evidence)
        of_default = next(trial for trial in tried if trial.choice == DEFAULT)
        calibration = fit_statistics(samples, MODEL).with_choice(DEFAULT)
        asked = Asked(store, calibration, evidence)
        ranks = []
        for lang in langs:
            rows = asked.rows(lang)
            for row, ranking in zip(rows, asked.rank(rows, None, SearchChoice.of(calibration), [lang]), strict=True):
                ranks.append(1 + list(ranking.doc_ids).index(evidence.sources[row]))
    assert np.mean(np.array(ranks) > 5) > 0.1
    assert (of_default.value + of_default.held_out) / 2 == pytest.approx(np.mean(1 / np.array(ranks)), abs=0.01)
