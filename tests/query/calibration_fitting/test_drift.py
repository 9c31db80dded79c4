"""Drift: documents that are as they were have none, a new kind of document is seen."""

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from encoders.methods.vector_parts import VectorParts
from indexer.stores.embedded import EmbeddedStore
from query.calibration.calibration import Calibration
from query.calibration_fitting import recalibration as drifting
from query.calibration_fitting.language_statistics import document_moments, draw_samples, fit_statistics
from query.calibration_fitting.recalibration import drift, with_documents
from tests.query.synthetic import DIM, TopicEncoder, filled, page

pytestmark = pytest.mark.parts

ENCODER = TopicEncoder(bias=1.0, noise=1.0)
MODEL = ENCODER.spec.model
LANGUAGES = ("de", "fr", "ja")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> EmbeddedStore:
    """800 documents of each language, about forty topics."""
    pages = [page(lang, f"t{at % 40}", at) for lang in LANGUAGES for at in range(800)]
    return filled(tmp_path_factory.mktemp("drift"), ENCODER, pages)


def calibrated(store: EmbeddedStore) -> Calibration:
    return fit_statistics(draw_samples(store, ENCODER), MODEL)


def test_two_samples_of_the_same_documents_hardly_drift(store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most first tens differ in some document between the samples: by chance."""
    monkeypatch.setattr(drifting, "SAMPLE", 400)
    halves = [{lang: store.sample(MODEL, lang, 800, seed=1)[half::2] for lang in LANGUAGES} for half in (0, 1)]
    one, other = (
        with_documents(
            calibrated(store),
            {lang: document_moments(store, MODEL, VectorParts.equal(DIM), ids) for lang, ids in half.items()},
        )
        for half in halves
    )
    assert max([(changed > 0).mean() for changed in drifting.changed_hits(store, one, other).values()]) > 0.3
    assert max(drift(store, one).values()) < 0.15


def test_the_largest_languages_are_asked(store: EmbeddedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """16 queries are for two languages."""
    monkeypatch.setattr(drifting, "QUERIES", 16)
    shutil.copytree(Path(store.path).parent, tmp_path / "more")
    more = [page(lang, f"t{at % 40}", 800 + at) for lang in ("ja", "de") for at in range(40)]
    with closing(filled(tmp_path / "more", ENCODER, more)) as larger:
        assert drift(larger, calibrated(store)).keys() == {"de", "ja"}


def test_only_a_new_kind_of_document_is_drift(store: EmbeddedStore, tmp_path: Path) -> None:
    active = calibrated(store)
    shutil.copytree(Path(store.path).parent, tmp_path / "more")
    with closing(EmbeddedStore(tmp_path / "more", "synthetic")) as looked_at:
        assert set(drift(looked_at, active).values()) == {0.0}
        filled(tmp_path / "more", ENCODER, [page("de", "de-minutes", at) for at in range(800)]).close()
        assert drift(looked_at, active)["de"] > 0.25
