"""Documents with the new encoder's vectors and documents with the old one's, in one ranking."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from encoders.document import Document, Encoded, EncoderSpec, FloatArray, Passages, int8_rows, unit_rows
from encoders.maps.space import ANY, QueryEncoderSpec, SpaceMaps
from indexer.stores.contract import StoredDocument, VectorQuery
from indexer.stores.embedded import EmbeddedStore
from query.calibration.mapped_calibration import MappedCalibration
from query.calibration.old_and_new_calibration import OldAndNewCalibration
from query.fitting.statistics import draw_samples, fit_statistics
from query.ranking.fair_ranker import FairRanker
from query.ranking.search_choice import SearchChoice
from tests.query.synthetic import DIM, TopicEncoder, filled, page

LANGS = ("de", "en", "fr")
TOPICS = 30
CENTRED = SearchChoice(0.5, "absolute", passages=False)
MARGIN = SearchChoice(0.75, "ratio")
MATES = SearchChoice(0.75, "ratio", lift=0.8, second_look=True)
WIDTH = 40
NOISE = 3.0
TURN = np.random.default_rng(0).standard_normal((DIM, WIDTH)).astype(np.float32) / np.float32(WIDTH**0.5)


class New(TopicEncoder):
    """Another encoder: 40 numbers, with less noise than the old one."""

    spec = EncoderSpec("new", "segments", WIDTH, (), "new-model", "new")

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        made = super().encode_documents(documents)
        passages = [Passages(int8_rows(unit_rows(one.unit_vectors() @ TURN)), one.offsets) for one in made.passages]
        return Encoded(unit_rows(made.vectors @ TURN), passages, made.known)

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        return unit_rows(super().encode_queries(queries) @ TURN)


class Migrating:
    """A collection of ninety pages, some of which have the new encoder's vectors."""

    def __init__(self, folder: Path, fresh: Sequence[int]) -> None:
        self.new, old = New(bias=1.0, noise=0.3), TopicEncoder(bias=1.0, noise=NOISE)
        self.pages = [page(lang, f"topic{n}") for lang in LANGS for n in range(TOPICS)]
        self.store: EmbeddedStore = filled(folder, old, self.pages)
        self.store.create("new-model", WIDTH)
        # the map is too sure of itself: its cosines are larger than true ones
        shared = np.stack([old.encode_documents([one]).vectors[0] for one in self.pages]).mean(axis=0)
        weights = (TURN + 2.0 * shared[:, None] * TURN.mean(axis=0)).astype(np.float32)
        maps = SpaceMaps.rounded(
            "topics", {(ANY, ANY): weights}, query_encoder=QueryEncoderSpec("new", "segments", "new-model", WIDTH)
        )
        self.mapped = MappedCalibration.on(
            fit_statistics(draw_samples(self.store, self.new, document_spec=old.spec), "topics"), maps
        )
        everything = EmbeddedStore(folder / "all", "all")
        everything.create("new-model", WIDTH)
        self.encode(range(len(self.pages)), everything)
        self.fresh = fit_statistics(draw_samples(everything, self.new), "new-model")
        self.all = everything
        self.encode(fresh, self.store)

    def encode(self, numbers: Sequence[int], store: EmbeddedStore) -> None:
        """Put the new vectors of some pages."""
        some = [self.pages[number] for number in numbers]
        if some:
            made = self.new.encode_documents(some)
            store.put("new-model", [StoredDocument.of(one, made, at) for at, one in enumerate(some)])

    def ranker(self, choice: SearchChoice) -> FairRanker:
        return FairRanker(self.store, OldAndNewCalibration.of(self.mapped, self.fresh), choice)

    def queries(self, lang: str) -> FloatArray:
        return self.new.encode_queries([Document("", lang, f"topic{n} asked") for n in range(TOPICS)])

    def found(self, choice: SearchChoice, ranker: FairRanker | None = None) -> float:
        """Of the first three hits of each German query, how many are its topic's pages."""
        rankings = (ranker or self.ranker(choice)).rank(self.queries("de"), "de", LANGS, 3)
        right = [doc_id.split(":")[1] == f"topic{n}" for n, one in enumerate(rankings) for doc_id in one.doc_ids]
        return float(np.mean(right))


@pytest.mark.parametrize("choice", [CENTRED, MARGIN, MATES, SearchChoice(0.75, "distance", passages=False)])
def test_before_the_first_document_it_is_the_map_and_after_the_last_the_new_vectors(
    tmp_path: Path, choice: SearchChoice
) -> None:
    none, every = Migrating(tmp_path / "none", ()), Migrating(tmp_path / "every", range(90))
    for migrating, alone in (
        (none, FairRanker(none.store, none.mapped, choice)),
        (every, FairRanker(every.all, every.fresh, choice)),
    ):
        query = migrating.queries("de")[:5]
        ours, theirs = (one.rank(query, "de", LANGS, 20) for one in (migrating.ranker(choice), alone))
        for mine, other in zip(ours, theirs, strict=True):
            assert mine.doc_ids == other.doc_ids
            np.testing.assert_allclose(mine.scores, other.scores, atol=2e-3)  # means of queries are of two draws


def test_every_document_is_found_once_and_by_its_new_vector_if_it_has_one(tmp_path: Path) -> None:
    fresh = range(0, 90, 2)
    migrating = Migrating(tmp_path, fresh)
    (ranking,) = migrating.ranker(CENTRED).rank(migrating.queries("de")[7:8], "de", LANGS, 90, detailed=90)
    assert sorted(ranking.doc_ids) == sorted(one.doc_id for one in migrating.pages)
    assert all(doc_id.startswith(lang) for doc_id, lang in zip(ranking.doc_ids, ranking.langs, strict=True))
    query = migrating.mapped.for_queries_in("de").correct_queries(migrating.queries("de")[7:8], "de")[0]
    expected = {}
    for number in fresh:
        one = migrating.pages[number]
        vector = migrating.all.vectors("new-model", [one.doc_id])
        expected[one.doc_id] = float(migrating.fresh.correct_documents(vector, {one.lang: slice(0, 1)})[0] @ query)
    scores = dict(zip(ranking.doc_ids, ranking.scores.tolist(), strict=True))
    assert max(abs(scores[doc_id] - value) for doc_id, value in expected.items()) < 1e-5
    details = dict(zip(ranking.doc_ids, ranking.details or (), strict=True))
    raw = migrating.queries("de")[7]
    for doc_id in expected:  # what is shown is the new encoder's own cosine
        assert abs(details[doc_id].parts.cosine - float(migrating.all.vectors("new-model", [doc_id])[0] @ raw)) < 1e-5


@pytest.mark.parametrize("number", [6, 7], ids=["with a new vector", "with an old vector"])
def test_a_document_is_like_documents_with_either_vector_by_true_cosines_or_by_the_map(
    tmp_path: Path, number: int
) -> None:
    """Against plain numpy: of one kind by the stored vectors, of two kinds by the map of this document's vector."""
    fresh = set(range(0, 90, 2))
    migrating = Migrating(tmp_path, list(fresh))
    doc_id = migrating.pages[number].doc_id
    ranking, _ = migrating.ranker(CENTRED).rank_similar(doc_id, "de", LANGS, 89)
    assert sorted([doc_id, *ranking.doc_ids]) == sorted(one.doc_id for one in migrating.pages)
    old_mean = migrating.mapped.component("document", "de").mean
    new_mean = migrating.fresh.component("document", "de").mean
    weights = migrating.mapped.maps.documents[ANY, ANY]  # type: ignore[union-attr]

    def unit(vector: FloatArray) -> FloatArray:
        return np.asarray(vector / np.linalg.norm(vector))

    def old(one: str) -> FloatArray:
        return np.asarray(migrating.store.vectors("topics", [one])[0])

    def new(one: str) -> FloatArray:
        return np.asarray(migrating.store.vectors("new-model", [one])[0])

    if number in fresh:
        as_new, as_old = new(doc_id), unit(weights @ (new(doc_id) - new_mean) + old_mean)
    else:
        as_old, as_new = old(doc_id), unit((old(doc_id) - old_mean) @ weights + new_mean)
    numbers = {one.doc_id: at for at, one in enumerate(migrating.pages)}
    for other, detail in zip(ranking.doc_ids, ranking.details or (), strict=True):
        is_new = numbers[other] in fresh
        expected = float(new(other) @ as_new) if is_new else float(old(other) @ as_old)
        assert detail.parts.cosine == pytest.approx(expected, abs=1e-5)


def test_a_document_that_no_encoder_knows_stays_unknown(tmp_path: Path) -> None:
    migrating = Migrating(tmp_path, ())
    calibration = OldAndNewCalibration.of(migrating.mapped, migrating.fresh)
    assert not calibration.comparable_with_stored(np.zeros((1, DIM + WIDTH), np.float32), "de").any()


@pytest.mark.parametrize("choice", [MARGIN, MATES])
def test_words_find_documents_with_either_vector_and_none_without(tmp_path: Path, choice: SearchChoice) -> None:
    migrating = Migrating(tmp_path, range(0, 90, 2))
    hybrid = replace(choice, hybrid=True)
    query, text = migrating.queries("de")[7:8], ["topic7 sentence"]
    (ranking,) = migrating.ranker(hybrid).rank(query, "de", LANGS, 90, texts=text)
    assert sorted(ranking.doc_ids) == sorted(one.doc_id for one in migrating.pages)
    alone = FairRanker(migrating.store, migrating.fresh, hybrid)
    (ranking,) = alone.rank(query, "de", LANGS, 90, texts=text)
    assert sorted(ranking.doc_ids) == sorted(one.doc_id for one in migrating.pages[::2])


@pytest.mark.parametrize("choice", [CENTRED, MARGIN, MATES])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 0.95])
def test_at_no_time_is_less_found_than_through_the_map_alone(
    tmp_path: Path, choice: SearchChoice, share: float
) -> None:
    order = np.random.default_rng(1).permutation(90)
    migrating = Migrating(tmp_path, order[: int(90 * share)].tolist())
    by_map = migrating.found(choice, FairRanker(migrating.store, migrating.mapped, choice))
    by_new = migrating.found(choice, FairRanker(migrating.all, migrating.fresh, choice))
    assert by_map < by_new
    assert by_map - 0.03 <= migrating.found(choice) <= by_new + 0.03


@pytest.mark.parametrize("choice", [MARGIN, MATES])
def test_a_few_new_vectors_of_other_topics_come_first_no_oftener_than_by_chance(
    tmp_path: Path, choice: SearchChoice
) -> None:
    """A margin is over neighbours, and two documents alone have none that are near: the map says what they lack."""
    others = [lang * TOPICS + topic for lang in range(3) for topic in (20, 21)]
    migrating = Migrating(tmp_path, others)
    ranker, asked = migrating.ranker(choice), [topic for topic in range(TOPICS) if topic not in (20, 21)]
    few = {migrating.pages[number].doc_id for number in others}
    hits = [
        doc_id
        for lang in LANGS
        for ranking in ranker.rank(migrating.queries(lang)[asked], lang, LANGS, 3)
        for doc_id in ranking.doc_ids
    ]
    assert np.mean([doc_id in few for doc_id in hits]) < len(few) / 90


def test_pages_with_old_and_new_vectors_are_looked_up_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cosines with old and with new vectors have no common scale before all candidates are known."""
    migrating, searched = Migrating(tmp_path, range(TOPICS)), list[str]()
    search = migrating.store.search

    def counted(query: VectorQuery) -> Any:
        searched.append(query.model)
        return search(query)

    monkeypatch.setattr(migrating.store, "search", counted)
    migrating.ranker(MATES).rank(migrating.queries("de"), "de", LANGS, 50)
    assert len(searched) == len(set(searched)) == 2


def test_pages_with_old_and_new_vectors_lift_each_other(tmp_path: Path) -> None:
    """A German page by its new vector and a French one by its old vector, through the map, are mates."""
    migrating = Migrating(tmp_path, range(TOPICS))
    query = migrating.queries("de")
    rankings = migrating.ranker(replace(MATES, second_look=False)).rank(query, "de", LANGS, 90, detailed=90)
    lifted = {
        (doc_id, detail.parts.mate)
        for ranking in rankings
        for doc_id, detail in zip(ranking.doc_ids, ranking.details or (), strict=True)
        if detail.parts.mate
    }
    old_by_new = [(doc_id, mate) for doc_id, mate in lifted if mate.startswith("de:") and not doc_id.startswith("de:")]
    same_topic = [doc_id.split(":")[1] == mate.split(":")[1] for doc_id, mate in old_by_new]
    assert len(old_by_new) > TOPICS
    assert np.mean(same_topic) > 0.75
