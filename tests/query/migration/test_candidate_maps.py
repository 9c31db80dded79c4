"""What a migration's map is worth is said by queries that chose nothing, and a map to nonsense is worth nothing."""

from collections.abc import Callable

import numpy as np
import pytest

from encoders.document import Document, FloatArray, unit_rows
from query.fitting.sampling import shares
from query.migration.candidate_maps import MapQuality, MapRecipe, PairedSample, choose_recipe, map_learner

LANGS = ("de", "en", "fr")
EACH, DIM = 120, 24


def noise(rows: int, seed: int, dim: int = DIM) -> FloatArray:
    return np.random.default_rng(seed).standard_normal((rows, dim)).astype(np.float32)


def sampled(new: Callable[[FloatArray], FloatArray], *, concepts: bool = True) -> dict[str, PairedSample]:
    """Documents of concepts: a direction each, and noise; the new encoder's vectors are made of the old ones."""
    about = noise(EACH, 0)
    found = {}
    for number, lang in enumerate(LANGS):
        documents = [
            Document(f"{lang}{at}", lang, "text", fields={"concept": str(at)} if concepts else {}) for at in range(EACH)
        ]
        old = unit_rows(about + 0.7 * noise(EACH, 10 + number) + number)
        asked = unit_rows(old + 0.1 * noise(EACH, 20 + number))
        none = np.zeros((0, DIM), np.float32)
        new_none = np.zeros((0, new(old).shape[1]), np.float32)
        rows = np.zeros(0, np.intp)
        found[lang] = PairedSample(documents, old, new(old), asked, new(asked), rows, none, new_none)
    return found


TURN = np.linalg.qr(noise(40, 5, 40))[0][:DIM].astype(np.float32)


@pytest.mark.parametrize("concepts", [True, False])
def test_an_encoder_that_turns_its_vectors_is_mapped_to_without_loss(concepts: bool) -> None:
    _, found, worth = choose_recipe(sampled(lambda rows: rows @ TURN, concepts=concepts), 0)
    assert worth.kind == ("concepts" if concepts else "titles")
    assert worth.kept > 0.97
    assert found.rate > 0.95
    assert abs(worth.old - worth.new) < 1e-6


def test_categories_for_concepts_hold_nothing_out_so_documents_are_held_out_by_themselves() -> None:
    both = sampled(lambda rows: rows @ TURN)
    for one in both.values():
        for at, document in enumerate(one.documents):
            document.fields["concept"] = "news" if at % 2 else "sport"  # type: ignore[index]
    _, found, worth = choose_recipe(both, 0)
    assert (worth.kind, worth.queries) == ("titles", 36)
    assert found.rate > 0.95


def random_vectors(rows: FloatArray) -> FloatArray:
    """Nothing that the old ones say: of the rows' numbers only a seed is left, without their last bits."""
    return noise(len(rows), int(abs(rows[0, 0]) * 1e3), 30)


@pytest.mark.parametrize("concepts", [True, False])
def test_vectors_that_say_nothing_are_not_worth_migrating_to(concepts: bool) -> None:
    _, found, worth = choose_recipe(sampled(random_vectors, concepts=concepts), 0)
    assert not worth.pays
    assert worth.mapped < 0.1 < worth.old
    assert found.rate < 0.1


def oracle(both: dict[str, PairedSample], way: MapRecipe, seed: int) -> MapQuality:
    """Worth by a plain transcription: every second held-out concept reports, all documents are ranked."""
    names = sorted({f"concept {at}" for at in range(EACH)})
    held = np.random.default_rng(seed).permutation(names).tolist()[: EACH // 5]
    reports = {int(name.split()[1]) for name in held[1::2]}
    away = {int(name.split()[1]) for name in held}
    seen = np.array([at not in away for at in range(EACH)])
    weights = map_learner(both, dict.fromkeys(LANGS, seen))(way)

    def unit(name: str, turned: FloatArray | None = None) -> FloatArray:
        rows = np.concatenate([getattr(one, name) - getattr(one, name)[seen].mean(axis=0) for one in both.values()])
        return unit_rows(rows if turned is None else rows @ turned)

    def found(queries: FloatArray, documents: FloatArray) -> float:
        ranks = []
        for row in range(len(queries)):
            if row % EACH in reports:
                order = [at for at in np.argsort(-(documents @ queries[row])) if at != row]
                ranks.append(1 / (1 + [at % EACH == row % EACH for at in order].index(True)))
        return float(np.mean(ranks))

    return MapQuality(
        found(unit("old_queries"), unit("old")),
        found(unit("new_queries"), unit("new")),
        found(unit("new_queries"), unit("old", weights)),
        len(reports) * len(LANGS),
        "concepts",
    )


def test_what_is_reported_is_of_queries_that_did_not_choose_among_all_documents() -> None:
    both = sampled(lambda rows: rows @ TURN + 0.2 * noise(len(rows), 3, 40))
    way, _, worth = choose_recipe(both, 4)
    expected = oracle(both, way, 4)
    assert (worth.queries, worth.kind) == (expected.queries, expected.kind)
    for name in ("old", "new", "mapped"):
        assert getattr(worth, name) == pytest.approx(getattr(expected, name), abs=1e-5)


def test_a_large_language_gets_what_small_ones_leave() -> None:
    small = {f"l{number:02}": 1 for number in range(40)}
    found = shares({"en": 1_000_000, **small}, 2000)
    assert found == {**small, "en": 1960}
    assert shares({"a": 30, "b": 500, "c": 500}, 300) == {"a": 30, "b": 135, "c": 135}
    assert shares({"a": 5, "b": 5}, 1) == {"a": 1, "b": 1}
    assert shares({"a": 5, "b": 7}, 100) == {"a": 5, "b": 7}
