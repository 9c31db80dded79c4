"""A common space is learnt where mates teach it something that holds for others, and nowhere else."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from encoders.document import Document, FloatArray
from indexer.stores.embedded import EmbeddedStore
from query.calibration.calibration import Calibration
from query.calibration_fitting import common_space_maps
from query.calibration_fitting.common_space_maps import learn_common_space
from query.calibration_fitting.language_statistics import draw_samples, fit_statistics
from query.calibration_fitting.mined_mates import MinedMates, mine_mates
from tests.query.calibration_fitting.test_mined_mates import LANGUAGES, counterparts
from tests.query.synthetic import DIM, TopicEncoder, calls_of, direction, filled, page

pytestmark = pytest.mark.parts


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
