"""What a migration's map is worth is said by queries that chose nothing, and a map to nonsense is worth nothing."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from encoders.document import Document, FloatArray, unit_rows
from query.calibration_fitting.document_samples import shares
from query.migration.candidate_maps import MapQuality, MapRecipe, PairedSample, learn_map, map_learner

LANGS = ("de", "en", "fr")
EACH, DIM = 120, 24


def noise(rows: int, seed: int, dim: int = DIM) -> FloatArray:
    return np.random.default_rng(seed).standard_normal((rows, dim)).astype(np.float32)


def sampled(new: Callable[[FloatArray], FloatArray], *, concepts: bool = True) -> PairedSample:
    """Documents of concepts: a direction each, and noise; the new encoder's vectors are made of the old ones."""
    about = noise(EACH, 0)
    documents = [
        Document(f"{lang}{at}", lang, "text", fields={"concept": str(at)} if concepts else {})
        for lang in LANGS
        for at in range(EACH)
    ]
    by_lang = [unit_rows(about + 0.7 * noise(EACH, 10 + number) + number) for number in range(len(LANGS))]
    asked_by_lang = [unit_rows(rows + 0.1 * noise(EACH, 20 + number)) for number, rows in enumerate(by_lang)]
    old, asked = np.concatenate(by_lang), np.concatenate(asked_by_lang)
    new_rows, new_asked = (np.concatenate([new(rows) for rows in groups]) for groups in (by_lang, asked_by_lang))
    passages = np.zeros((0, DIM), np.float32), np.zeros((0, new_rows.shape[1]), np.float32)
    return PairedSample(documents, old, new_rows, asked, new_asked, np.zeros(0, np.intp), *passages)


TURN = np.linalg.qr(noise(40, 5, 40))[0][:DIM].astype(np.float32)


@pytest.mark.parametrize("concepts", [True, False])
def test_an_encoder_that_turns_its_vectors_is_mapped_to_without_loss(concepts: bool) -> None:
    weights, _, worth = learn_map(sampled(lambda rows: rows @ TURN, concepts=concepts), 0)
    assert weights.shape == TURN.shape
    assert worth.kept > 0.97
    assert abs(worth.old - worth.new) < 1e-6


def test_categories_for_concepts_hold_out_documents_and_without_pseudo_queries_nothing_is_gained() -> None:
    sample = sampled(lambda rows: rows @ TURN)
    for at, document in enumerate(sample.documents):
        document.fields["concept"] = "news" if at % 2 else "sport"  # type: ignore[index]
    _, _, worth = learn_map(sample, 0)
    assert worth.queries == 36
    assert worth.kept > 0.97
    _, _, worth = learn_map(replace(sample, new_queries=np.zeros_like(sample.new_queries)), 0)
    assert (worth.queries, worth.kept, worth.pays) == (0, 0.0, False)


def oracle(sample: PairedSample, way: MapRecipe, seed: int) -> MapQuality:
    """Worth by a plain transcription: every second held-out concept reports, all documents are ranked."""
    names = sorted(str(at) for at in range(EACH))
    held = [int(name) for name in np.random.default_rng(seed).permutation(names).tolist()[: EACH // 5]]
    reports = [row for row in range(len(sample.documents)) if row % EACH in held[1::2]]
    seen = np.array([row % EACH not in held for row in range(len(sample.documents))])
    weights = map_learner(sample, seen)(way)

    def unit(rows: FloatArray, turned: FloatArray | None = None) -> FloatArray:
        spans = [slice(start, start + EACH) for start in range(0, len(rows), EACH)]
        rows = np.concatenate([rows[span] - rows[span][seen[span]].mean(axis=0) for span in spans])
        return unit_rows(rows if turned is None else rows @ turned)

    def found(queries: FloatArray, documents: FloatArray) -> float:
        ranks = [1 / (1 + np.argsort(-(documents @ queries[row])).tolist().index(row)) for row in reports]
        return float(np.mean(ranks))

    return MapQuality(
        found(unit(sample.old_queries), unit(sample.old)),
        found(unit(sample.new_queries), unit(sample.new)),
        found(unit(sample.new_queries), unit(sample.old, weights)),
        len(reports),
    )


def test_what_is_reported_is_of_queries_that_did_not_choose_and_the_map_is_learnt_again_from_all() -> None:
    sample = sampled(lambda rows: rows @ TURN + 0.2 * noise(len(rows), 3, 40))
    weights, way, worth = learn_map(sample, 4)
    expected = oracle(sample, way, 4)
    assert worth.queries == expected.queries
    for name in ("old", "new", "mapped"):
        assert getattr(worth, name) == pytest.approx(getattr(expected, name), abs=1e-5)
    assert np.array_equal(weights, map_learner(sample, np.ones(len(sample.documents), dtype=np.bool_))(way))


def test_a_large_language_gets_what_small_ones_leave() -> None:
    small = {f"l{number:02}": 1 for number in range(40)}
    assert shares({"en": 1_000_000, **small}, 2000) == {**small, "en": 1960}
    assert shares({"a": 30, "b": 500, "c": 500}, 300) == {"a": 30, "b": 135, "c": 135}
    assert shares({"a": 5, "b": 5}, 1) == {"a": 1, "b": 1}
    assert shares({"a": 5, "b": 7}, 100) == {"a": 5, "b": 7}
