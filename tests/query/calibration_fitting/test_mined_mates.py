"""Mates that are mined: right where documents have counterparts; the common space that they teach holds for others."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from encoders.document import Document, FloatArray
from encoders.machine import cores
from indexer.stores.contract import VectorStore
from indexer.stores.embedded import EmbeddedStore
from query.calibration.calibration import BAR, Calibration
from query.calibration_fitting import common_space_maps, mined_mates
from query.calibration_fitting.common_space_maps import learn_common_space
from query.calibration_fitting.language_statistics import CalibrationSamples, draw_samples, fit_statistics
from query.calibration_fitting.mined_mates import MinedMates, mine_mates
from tests.query.synthetic import DIM, TopicEncoder, calls_of, direction, filled, page
from trials import ROOT

pytestmark = pytest.mark.parts
ENCODER = TopicEncoder(bias=1.0, noise=1.0)
MODEL = ENCODER.spec.model
LANGUAGES = ("de", "en", "fr", "ja")


def counterparts(topics: int, languages: Sequence[str] = LANGUAGES) -> list[Document]:
    return [page(lang, f"t{number}") for lang in languages for number in range(topics)]


def alone(count: int, languages: Sequence[str] = LANGUAGES) -> list[Document]:
    return [page(lang, f"{lang}{at}") for lang in languages for at in range(count)]


def mined(store: VectorStore, encoder: TopicEncoder = ENCODER) -> MinedMates:
    samples = draw_samples(store, encoder)
    return mine_mates(store, fit_statistics(samples, MODEL), samples)


def topic_of(doc_id: str) -> str:
    return doc_id.split(":")[1]


def pairs_of(mates: MinedMates) -> list[tuple[str, str]]:
    return [(doc_id, mate) for doc_id, by_lang in mates.mates.items() for mate in by_lang.values()]


def right_share(mates: MinedMates) -> float:
    return float(np.mean([topic_of(doc_id) == topic_of(mate) for doc_id, mate in pairs_of(mates)]))


def langs_of(mates: MinedMates) -> set[str]:
    """The languages that have mates, which are those of the mates."""
    langs = {doc_id[:2] for doc_id in mates.mates}
    assert {lang for by_lang in mates.mates.values() for lang in by_lang} == langs
    return langs


@pytest.mark.parametrize("languages", [2, 3, 4])
def test_counterparts_are_mates_and_sure(tmp_path: Path, languages: int) -> None:
    mates = mined(filled(tmp_path, ENCODER, counterparts(40, LANGUAGES[:languages])))
    assert mates.sure
    assert len(mates.mates) > 0.95 * len(mates.queries)
    assert right_share(mates) > 0.95
    # of two languages there is no third to check by
    assert mates.confirmed_share == (None if languages == 2 else pytest.approx(right_share(mates), abs=0.08))


def test_mates_are_the_same_on_any_number_of_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled(tmp_path, ENCODER, counterparts(40))
    mates = []
    for count in (1, 3):
        monkeypatch.setattr(cores, "available_cores", lambda count=count: count)
        mates.append(mined(store))
    assert mates[0] == mates[1]


@pytest.mark.parametrize("languages", [2, 4])
def test_documents_without_counterparts_have_no_sure_mates(tmp_path: Path, languages: int) -> None:
    assert not mined(filled(tmp_path, ENCODER, alone(60, LANGUAGES[:languages]))).sure


def of_mates(mates: Mapping[str, Mapping[str, str]]) -> MinedMates:
    return MinedMates([], {}, mates, 0.9, sure=True, bar=0.5)


def test_documents_with_the_same_mates_are_one_subject_and_a_wrong_mate_does_not_make_one_of_two() -> None:
    """A French page takes the Japanese page of another subject for its mate."""
    mates = {
        f"{lang}:t{at}": {other: f"{other}:t{at}" for other in LANGUAGES if other != lang}
        for at in range(2)
        for lang in LANGUAGES
    }
    mates["fr:t0"]["ja"] = "ja:t1"
    subjects = of_mates(mates).subjects()
    assert len({(subject, topic_of(doc_id)) for doc_id, subject in subjects.items()}) == 2
    assert len(set(subjects.values())) == 2
    unlinked = {lang: {"fr": "fr", "ja": "ja"} for lang in ("de", "en")}  # nothing confirmed a link of them
    eight_and_two = {"de": {f"l{at}": f"page{at}" for at in range(8)}, "page0": {"de": "de", "l1": "page1"}}
    for one in (unlinked, eight_and_two):
        assert len(set(of_mates(one).subjects().values())) == 1


def test_mates_are_one_subject_and_the_sample_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the half of the subjects that judges would know the answers of the other half."""
    store = filled(tmp_path, ENCODER, counterparts(40))
    mates = mined(store)
    assert len(mates.mates) > 100
    subjects = {(subject, topic_of(doc_id)) for doc_id, subject in mates.subjects().items()}
    assert len(set(mates.subjects().values())) == len(subjects) == 40
    monkeypatch.setattr(mined_mates, "SAMPLE", 60)
    few = mined(store)
    assert len(few.queries) == 60
    assert {query.lang for query in few.queries} == set(LANGUAGES)
    assert few.mates.keys() <= {query.doc_id for query in few.queries}


def test_where_there_is_no_other_language_and_of_an_empty_sample_there_are_no_mates(tmp_path: Path) -> None:
    store = filled(tmp_path, ENCODER, counterparts(30))
    samples = draw_samples(store, ENCODER)
    calibration = fit_statistics(samples, MODEL)
    found = [mine_mates(store, calibration, CalibrationSamples())]
    left = set(store.ids())
    for fewer in ([f"de:t{number}:0" for number in range(30)], ["de:t0:0"], []):
        store.delete(list(left.difference(fewer)))
        left.intersection_update(fewer)
        found.append(mine_mates(store, calibration, samples))
    assert [(mates.mates, mates.sure, mates.subjects()) for mates in found] == [({}, False, {})] * 4
    assert not found[0].queries
    handful = [page("de", "t0"), page("fr", "t0"), page("ja", "t1")]
    assert not mined(filled(tmp_path / "handful", ENCODER, handful)).sure


def test_a_language_whose_documents_are_deleted_meanwhile_has_no_mates(tmp_path: Path) -> None:
    store = filled(tmp_path, ENCODER, counterparts(40))
    samples = draw_samples(store, ENCODER)
    store.delete([f"ja:t{number}:0" for number in range(40)])
    mates = mine_mates(store, fit_statistics(samples, MODEL), samples)
    assert mates.sure
    assert langs_of(mates) == {"de", "en", "fr"}


def test_many_languages_with_a_document_each_take_no_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each such document would be the mate of all."""
    searches = calls_of(monkeypatch, EmbeddedStore, "search")
    small = [page(f"{first}{second}", "t0") for first in "bcg" for second in "bcdghjklmpqrtvwxyz"]
    mates = mined(filled(tmp_path, ENCODER, [*counterparts(40), *small]))
    assert mates.sure
    searched = Counter(lang for *_, query in searches for lang in query.vectors)
    assert langs_of(mates) == set(searched) == set(LANGUAGES)
    assert max(searched.values()) <= 6  # there, back, and to check; of a few documents, and of all


def test_mates_are_sought_in_the_largest_languages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mined_mates, "_MOST_LANGUAGES", 3)
    mates = mined(filled(tmp_path, ENCODER, [*counterparts(40, ("de", "ja", "ru")), *counterparts(39, ("en", "fr"))]))
    assert {query.lang for query in mates.queries} == langs_of(mates) == {"de", "ja", "ru"}


@pytest.mark.parametrize(("others", "langs", "right"), [(60, LANGUAGES, 0.95), (30, ("de", "en"), 0.9)])
def test_unconfirmed_mates_are_left_out(tmp_path: Path, others: int, langs: Sequence[str], right: float) -> None:
    """Two thirds are about something that no other page is about, or half in two languages: no third confirms them."""
    same = [page(lang, f"two{at}") for lang in langs for at in range(others)] if others == 30 else alone(others)
    mates = mined(filled(tmp_path, ENCODER, [*counterparts(30), *same]))
    assert mates.sure
    assert right_share(mates) > right
    assert np.mean([topic_of(doc_id).startswith("two") for doc_id, _ in pairs_of(mates)]) < 0.1


_MINING = """
from pathlib import Path
from tests.query.calibration_fitting.test_mined_mates import ENCODER, alone, counterparts, mined
from tests.query.synthetic import filled
mates = mined(filled(Path("."), ENCODER, [*counterparts(20), *alone(20)]))
print(mates.confirmed_share)
print(sorted((doc_id, sorted(by_lang.items())) for doc_id, by_lang in mates.mates.items()))
"""


def test_the_same_collection_has_the_same_mates_in_every_process(tmp_path: Path) -> None:
    """There, a set of languages has another order."""
    said = []
    for seed in ("1", "3"):
        (tmp_path / seed).mkdir()
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        said.append(subprocess.check_output([sys.executable, "-c", _MINING], cwd=tmp_path / seed, env=environment))
    assert said[0]
    assert said[0] == said[1]


@pytest.mark.parametrize(("noise", "near"), [(1.0, True), (2.5, False)])
def test_two_thirds_of_the_mates_reach_the_bar_where_mates_are_near(tmp_path: Path, noise: float, near: bool) -> None:
    encoder = TopicEncoder(bias=0.5, noise=noise)
    mates = mined(filled(tmp_path, encoder, counterparts(40)), encoder)
    cosines = [float(mates.vectors[doc_id] @ mates.vectors[mate]) for doc_id, mate in pairs_of(mates)]
    assert (mates.bar > BAR) == near
    if near:
        assert np.mean(np.array(cosines) >= mates.bar) == pytest.approx(2 / 3, abs=0.01)


class TwistedEncoder(TopicEncoder):
    """Writes each language in another way: a part of each topic's direction is turned by a map of the language."""

    def __init__(self, twist: float) -> None:
        super().__init__(bias=1.0, noise=0.6)
        self.twist = np.float32(twist)

    def _sentence(self, text: str, lang: str) -> FloatArray:
        topic = direction(text.split(maxsplit=1)[0])
        seed = sum(map(ord, lang))
        turn = np.linalg.qr(np.random.default_rng(seed).standard_normal((DIM, DIM)))[0].astype(np.float32)
        own = self.noise * direction(f"noise {lang} {text}") + self.bias * direction(f"language {lang}")
        return np.asarray(topic + self.twist * (topic @ turn) + own, dtype=np.float32)


Taught = tuple[EmbeddedStore, Calibration, MinedMates]


"""What a common space is learnt from."""


def taught(folder: Path, encoder: TopicEncoder, documents: Sequence[Document]) -> Taught:
    store = filled(folder, encoder, documents)
    samples = draw_samples(store, encoder)
    statistics = fit_statistics(samples, encoder.spec.model)
    return store, statistics, mine_mates(store, statistics, samples)


@pytest.fixture(scope="module")
def twisted(tmp_path_factory: pytest.TempPathFactory) -> Taught:
    """A collection whose languages differ by more than their means."""
    return taught(tmp_path_factory.mktemp("twisted"), TwistedEncoder(1.0), counterparts(250))


def test_no_query_that_judges_has_taught(twisted: Taught, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other judging queries would make the same maps to judge, and other learning queries would not."""
    paths = common_space_maps._paths
    learnt_from = calls_of(monkeypatch, common_space_maps, "_paths")
    ranked = calls_of(monkeypatch, common_space_maps, "_reciprocal_ranks")
    assert learn_common_space(*twisted)
    judged = {question.query.tobytes() for _, asked, _ in ranked for question in asked}
    questions, *others = learnt_from[0]  # the maps that are judged; the last are learnt from all
    assert 100 < len(judged) < len(questions) - 100
    maps = common_space_maps._space(paths(questions, *others), 1.0).maps
    for judges in (True, False):
        changed = [
            replace(question, query=-question.query) if (question.query.tobytes() in judged) == judges else question
            for question in questions
        ]
        again = common_space_maps._space(paths(changed, *others), 1.0).maps
        assert all(np.array_equal(maps[lang], again[lang]) == judges for lang in LANGUAGES)


def test_mates_teach_what_differs_between_languages(twisted: Taught) -> None:
    encoder, statistics = TwistedEncoder(1.0), twisted[1]
    result = learn_common_space(*twisted)
    assert result is not None
    space, summary = result
    assert set(space.maps) == set(LANGUAGES)
    assert summary.after > summary.before + 0.02
    # held-out mates judged the ridge; titles of topics that no document is about say the same
    unseen = {lang: [page(lang, f"unseen{number}") for number in range(100)] for lang in ("de", "ja")}
    documents, rows = encoder.encode_documents(unseen["ja"]).vectors, {"ja": slice(0, 100)}
    queries = encoder.encode_queries([Document("", "de", one.title) for one in unseen["de"]])
    corrected, asked = statistics.correct_documents(documents, rows), statistics.correct_queries(queries, "de")
    right = []
    for calibration in (statistics, replace(statistics, space=space)):
        cosines = calibration.compared(asked, "de").cosines(corrected, rows, statistics.vector_parts)
        right.append((cosines.argmax(axis=0) == np.arange(100)).sum())
    assert right[1] > right[0]


@pytest.mark.parametrize("why", ["no counterparts", "few subjects", "nothing differs but the mean", "two parts"])
def test_where_mates_teach_nothing_that_holds_for_others_nothing_is_learnt(tmp_path: Path, why: str) -> None:
    encoder = TopicEncoder(bias=1.0, noise=0.1) if why.startswith("nothing") else TwistedEncoder(1.0)
    pages = counterparts({"few subjects": 25, "two parts": 250}.get(why, 80))
    if why == "no counterparts":
        pages = [page(lang, f"{lang}{number}") for lang in LANGUAGES for number in range(200)]
    elif why == "two parts":
        encoder.spec = replace(encoder.spec, widths=(DIM // 2, DIM // 2))
    assert learn_common_space(*taught(tmp_path, encoder, pages)) is None
