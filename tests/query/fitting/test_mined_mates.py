"""Mates that are mined: right where documents have counterparts, not believed where they have none."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from encoders.document import Document
from indexer.stores.contract import VectorStore
from query.fitting.evidence import from_mates
from query.fitting.mined_mates import MinedMates, mine_mates
from query.fitting.statistics import draw_samples, fit_statistics
from tests.query.synthetic import LosingStore, TopicEncoder, filled, page

ENCODER = TopicEncoder(bias=1.0, noise=1.0)
MODEL = ENCODER.spec.model
LANGUAGES = ("de", "en", "fr", "ja")


def counterparts(topics: int, languages: Sequence[str] = LANGUAGES) -> list[Document]:
    return [page(lang, f"t{number}") for lang in languages for number in range(topics)]


def mined(store: VectorStore) -> MinedMates:
    samples = draw_samples(store, ENCODER)
    return mine_mates(store, fit_statistics(samples, MODEL), samples.draw(256))


def topic_of(doc_id: str) -> str:
    return doc_id.split(":")[1]


@pytest.mark.parametrize("languages", [2, 3, 4])
def test_counterparts_are_mates_and_sure(tmp_path: Path, languages: int) -> None:
    mates = mined(filled(tmp_path, ENCODER, counterparts(40, LANGUAGES[:languages])))
    assert mates.sure
    assert mates.summary.share > 0.95
    pairs = [(doc_id, mate) for doc_id, by_lang in mates.mates.items() for mate in by_lang.values()]
    right = sum(topic_of(doc_id) == topic_of(mate) for doc_id, mate in pairs) / len(pairs)
    assert right > 0.95
    assert abs(right - mates.summary.precision) < 0.08


@pytest.mark.parametrize("languages", [2, 4])
def test_documents_without_counterparts_have_no_sure_mates(tmp_path: Path, languages: int) -> None:
    pages = [page(lang, f"{lang}{number}") for lang in LANGUAGES[:languages] for number in range(60)]
    store = filled(tmp_path, ENCODER, pages)
    mates = mined(store)
    assert not mates.sure
    assert from_mates(store, MODEL, draw_samples(store, ENCODER), mates) is None


def test_the_evidence_is_the_document_and_its_mates(tmp_path: Path) -> None:
    store = filled(tmp_path, ENCODER, counterparts(40))
    evidence = from_mates(store, MODEL, draw_samples(store, ENCODER), mined(store))
    assert evidence is not None
    assert evidence.kind == "mates"
    for topic, doc_ids in zip(evidence.topics, evidence.relevant, strict=True):
        assert topic in doc_ids
        assert len(doc_ids & {f"{lang}:{topic_of(topic)}:0" for lang in LANGUAGES}) > 2


def test_a_handful_of_documents_has_nothing_to_check(tmp_path: Path) -> None:
    assert not mined(filled(tmp_path, ENCODER, [page("de", "t0"), page("fr", "t0"), page("ja", "t1")])).sure


def test_documents_that_are_deleted_while_mates_are_mined_are_left_out(tmp_path: Path) -> None:
    filled(tmp_path, ENCODER, counterparts(40)).close()
    with closing(LosingStore(tmp_path, "synthetic")) as store:
        samples = draw_samples(store, ENCODER)
        lost = len(store.lost)
        mates = mine_mates(store, fit_statistics(samples, MODEL), samples.draw(256))
        assert len(store.lost) > lost
        assert mates.sure
