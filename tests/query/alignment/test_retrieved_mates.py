"""Mate retrieval: splits by concept, sweeps, the ridge, and maps measured on documents that did not teach them."""

import json
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from encoders.document import EncoderSpec, Float64Array
from encoders.errors import BadInput, ModelMismatch
from encoders.maps.mate_scores import over_pairs
from encoders.maps.parallel import ConceptSplit, Parallel
from encoders.maps.space_maps import SpaceMaps
from indexer.collection.settings import Settings
from indexer.training.aligned_documents import AlignedVectors
from indexer.training.mapping_training import MappingPlan, cautious_ridge, learn, write
from query.alignment.mate_retrieval import METHODS, learn_comparer, mates_by_method
from query.cli import run
from tests.query.synthetic import rotated

FEW = np.array([1.0, 0.5, 1.0, 1.0, 0.9])
LOST = np.array([0, 0.1, 0.3, 0, -0.1])
MANY, MANY_LOST = np.tile(FEW, 100), np.tile(LOST, 100)


def test_a_split_is_by_concept_three_fifths_one_and_one() -> None:
    parallel = rotated(50)
    split = ConceptSplit.of(parallel, 3)
    named = [part.concepts for part in (split.training, split.validation, split.test)]
    assert [len(concepts) for concepts in named] == [30, 10, 10]
    assert {concept for concepts in named for concept in concepts} == set(parallel.concepts)
    np.testing.assert_array_equal(split.test.rows["de"][0], parallel.rows["de"][int(split.test.concepts[0])])
    again, other = (ConceptSplit.of(parallel, seed).test.concepts for seed in (3, 4))
    assert again == split.test.concepts != other
    with pytest.raises(BadInput, match="14 concepts are in all of en, de, fr"):
        ConceptSplit.of(rotated(14), 0)


@pytest.mark.parametrize("method", [method for method in METHODS if method != "raw"])
def test_what_is_learnt_finds_more_mates_than_the_raw_vectors(method: str) -> None:
    split = ConceptSplit.of(rotated(200), 0)
    raw = over_pairs(learn_comparer("raw", split), split.test)
    found = over_pairs(learn_comparer(method, split, None if method.endswith("published") else 12), split.test)
    assert found.mrr > raw.mrr
    if method != "centred":
        assert found.rate > 0.95


@pytest.mark.parametrize("method", ["lca-published", "lcc-published"])
def test_published_methods_see_the_first_coordinates_alone(method: str) -> None:
    split = ConceptSplit.of(rotated(200), 0)
    cut = {lang: rows[:, :5] for lang, rows in split.test.rows.items()}
    queries, documents = learn_comparer(method, split, 5)("en", "de", split.test.rows["en"], split.test.rows["de"])
    assert queries.shape[1] == documents.shape[1] == 5
    of_cut = learn_comparer(method, split, 5)("en", "de", cut["en"], cut["de"])
    np.testing.assert_array_equal(queries, of_cut[0])
    np.testing.assert_array_equal(documents, of_cut[1])


def test_the_command_sweeps_and_draws(
    demo_by_words: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DRAGOMAN_HOME", str(demo_by_words.home))
    picture = tmp_path / "mates.svg"
    asked = ["mates", "-c", "demo", "--languages", "en,de,fr", "--splits", "1", "--plot", str(picture), "--json", "-q"]
    assert run([*asked, "--pairs", "5,10"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["languages"] == ["en", "de", "fr"]
    assert {(one["method"], one["value"]) for one in told["points"]} >= {("raw", None), ("lca", 5), ("lcc", 10)}
    assert all(len(one["pairs"]) == 6 for one in told["points"])
    assert picture.read_text().startswith("<?xml")
    assert run([*asked, "--dimensions", "4,8", "--methods", "lca,centred"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(one["method"], one["value"]) for one in told["points"]] == [("centred", None), ("lca", 4), ("lca", 8)]
    assert run([*asked, "--methods", "magic"]) == 2
    assert run([*asked, "--pairs", "0"]) == 2


def test_maps_are_written_and_measured_elsewhere(
    demo: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DRAGOMAN_HOME", str(demo.home))
    folder = tmp_path / "maps"
    (folder / "nca").mkdir(parents=True)
    measure = ["mates", "-c", "demo", "--languages", "en,de", "--map", str(folder), "-q"]
    assert run(measure) == 1
    assert "holds networks, which no version ranks with any more; learn maps" in capsys.readouterr().err
    learn = ["train", "mapping", "-c", "demo", "--languages", "en,de", "-o", str(folder), "-q"]
    assert run(learn) == 0  # linear maps take the networks' place
    capsys.readouterr()
    assert run([*measure, "--json"]) == 0
    assert [one["method"] for one in json.loads(capsys.readouterr().out)["points"]] == ["raw", "centred", "lca"]
    assert run(["mates", "-c", "demo", "--map", str(folder), "--pairs", "5"]) == 2


SPEC = EncoderSpec("rotated", "segments", 12, (), "rotated", "rotated")


def by_concept(parallel: Parallel) -> AlignedVectors:
    return AlignedVectors(
        {lang: dict(zip(parallel.concepts, rows, strict=True)) for lang, rows in parallel.rows.items() if lang != "fr"}
    )


def test_maps_are_measured_on_documents_that_did_not_teach(tmp_path: Path) -> None:
    every = rotated(260)
    write(learn(by_concept(every.only(np.arange(160))), SPEC, MappingPlan()).maps, tmp_path / "m")
    assert set(learn(by_concept(every.only(np.arange(10))), SPEC, MappingPlan("lcc")).pairs.values()) == {10}
    unseen = every.only(np.arange(160, 260))
    others = Parallel(unseen.concepts, {lang: unseen.rows[lang] for lang in ("en", "de")})
    points, unknown = mates_by_method(tmp_path / "m", others, "rotated")
    assert list(points) == ["raw", "centred", "lca"]
    assert points["lca"].rate > 0.9
    assert points["lca"].mrr > points["centred"].mrr
    assert not unknown
    assert mates_by_method(tmp_path / "m", unseen, "rotated")[1] == ["fr"]
    with pytest.raises(ModelMismatch, match="is for vectors of model rotated"):
        mates_by_method(tmp_path / "m", others, "another")
    with pytest.raises(BadInput, match="there is nothing to find"):
        mates_by_method(tmp_path / "m", unseen.only(np.arange(0)), "rotated")


def test_a_mapping_killed_in_writing_leaves_the_earlier_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = by_concept(rotated(60))
    earlier, later = (learn(documents, SPEC, MappingPlan(ridge=ridge)).maps for ridge in (0.1, 1.0))
    write(earlier, tmp_path / "m")
    files = {file.name: file.read_bytes() for file in (tmp_path / "m").iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr(SpaceMaps, "arrays", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            write(later, tmp_path / "m")
    assert {file.name: file.read_bytes() for file in (tmp_path / "m").iterdir()} == files
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    write(later, tmp_path / "m")
    assert (tmp_path / "m" / "maps.npz").read_bytes() != files["maps.npz"]


@pytest.mark.parametrize(
    ("by_ridge", "ridge"),
    [
        ({0.1: FEW - 0.2, 1.0: FEW, 10.0: FEW - LOST}, 10.0),
        ({0.1: MANY - 0.2, 1.0: MANY, 10.0: MANY - MANY_LOST}, 1.0),
        ({0.1: FEW - 0.2, 1.0: FEW, 10.0: FEW - [0, 0, 0.3, 0, 0]}, 10.0),
        ({0.1: FEW, 1.0: FEW}, 1.0),
        ({0.1: FEW[:1], 1.0: FEW[:1] - 0.5}, 1.0),
    ],
    ids=["few concepts can't tell", "many can", "a single concept differs", "equal", "a single concept"],
)
def test_few_concepts_choose_a_cautious_ridge(by_ridge: dict[float, Float64Array], ridge: float) -> None:
    assert cautious_ridge(by_ridge) == ridge
