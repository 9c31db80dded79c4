"""Networks of NCA and linear maps are learnt, written, read again, and measured on documents that taught neither."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from encoders.console import Console
from encoders.document import EncoderSpec
from encoders.errors import BadInput, ModelMismatch
from encoders.maps.networks import Networks, read_mapping
from encoders.maps.parallel import Parallel
from encoders.maps.space_maps import SpaceMaps
from indexer.training.aligned_documents import AlignedVectors
from indexer.training.mapping_training import MappingPlan, learn, write
from indexer.training.nca_training import LearntNetworks, learn_networks
from query.alignment.mate_retrieval import mates_by_method
from tests.query.synthetic import rotated

SPEC = EncoderSpec("rotated", "segments", 12, (), "rotated", "rotated")
QUIET = Console(quiet=True)


def by_concept(parallel: Parallel) -> AlignedVectors:
    return AlignedVectors(
        {lang: dict(zip(parallel.concepts, rows, strict=True)) for lang, rows in parallel.rows.items() if lang != "fr"}
    )


@pytest.fixture(scope="module")
def both() -> tuple[Parallel, Parallel]:
    """Concepts that teach, and others."""
    every = rotated(260)
    return every.only(np.arange(160)), every.only(np.arange(160, 260))


@pytest.fixture(scope="module")
def learnt(both: tuple[Parallel, Parallel]) -> LearntNetworks:
    pytest.importorskip("torch")
    return learn_networks(by_concept(both[0]), SPEC, 0, QUIET)


@pytest.mark.torch
def test_networks_find_mates_of_concepts_that_did_not_teach(
    both: tuple[Parallel, Parallel], learnt: LearntNetworks, tmp_path: Path
) -> None:
    assert learnt.reached.mrr > learnt.centred.mrr
    write(learnt.networks, tmp_path / "m")
    read = read_mapping(tmp_path / "m")
    assert isinstance(read, Networks)
    x, y = both[1].rows["en"], both[1].rows["de"]
    for found, expected in zip(
        read.compared("en", "de", x, y), learnt.networks.compared("en", "de", x, y), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
    others = Parallel(both[1].concepts, {lang: both[1].rows[lang] for lang in ("en", "de")})
    points, unknown = mates_by_method(tmp_path / "m", others, "rotated")
    assert not unknown
    assert list(points) == ["raw", "centred", "nca"]
    assert points["nca"].mrr > points["centred"].mrr
    with pytest.raises(BadInput, match="has no network from en to fr"):
        mates_by_method(tmp_path / "m", both[1], "rotated")
    with pytest.raises(ModelMismatch, match="is for vectors of model rotated"):
        mates_by_method(tmp_path / "m", others, "another")


@pytest.mark.torch
def test_linear_maps_take_the_place_of_networks_and_the_other_way_round(
    both: tuple[Parallel, Parallel], learnt: LearntNetworks, tmp_path: Path
) -> None:
    linear = learn(by_concept(both[0]), SPEC, MappingPlan()).maps
    others = Parallel(both[1].concepts, {lang: both[1].rows[lang] for lang in ("en", "de")})
    for maps, method in ((learnt.networks, "nca"), (linear, "lca"), (learnt.networks, "nca"), (linear, "lca")):
        write(maps, tmp_path / "m")
        assert list(mates_by_method(tmp_path / "m", others, "rotated")[0])[2] == method
    points, unknown = mates_by_method(tmp_path / "m", others, "rotated")
    assert points["lca"].rate > 0.9
    assert not unknown
    assert mates_by_method(tmp_path / "m", both[1], "rotated")[1] == ["fr"]


@pytest.mark.torch
def test_what_cannot_be_read_or_compared_gets_one_sentence(
    both: tuple[Parallel, Parallel], learnt: LearntNetworks, tmp_path: Path
) -> None:
    write(learnt.networks, tmp_path / "m")
    with pytest.raises(BadInput, match="there is nothing to find"):
        mates_by_method(tmp_path / "m", both[1].only(np.arange(0)), "rotated")
    (tmp_path / "m" / "nca" / "de-en.onnx").unlink()
    with pytest.raises(BadInput, match="make them again: dragoman train mapping --method nca"):
        read_mapping(tmp_path / "m")
    shutil.rmtree(tmp_path / "m")
    with pytest.raises(BadInput, match="holds no mapping"):
        read_mapping(tmp_path / "m")
    with pytest.raises(BadInput, match="14 concepts are in all of en, de"):
        learn_networks(by_concept(both[0].only(np.arange(14))), SPEC, 0, QUIET)
    damaged = both[0].only(np.arange(20))
    damaged.rows["en"][3, 5] = np.nan
    with pytest.raises(BadInput, match="a number that is not finite"):
        learn_networks(by_concept(damaged), SPEC, 0, QUIET)


def test_a_mapping_that_is_killed_while_it_is_written_leaves_the_earlier_one_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = by_concept(rotated(60))
    earlier, later = (learn(documents, SPEC, MappingPlan(ridge=ridge)).maps for ridge in (0.1, 1.0))
    write(earlier, tmp_path / "m")
    files = {file.name: file.read_bytes() for file in (tmp_path / "m").iterdir()}

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(SpaceMaps, "arrays", killed)
        with pytest.raises(KeyboardInterrupt):
            write(later, tmp_path / "m")
    assert {file.name: file.read_bytes() for file in (tmp_path / "m").iterdir()} == files
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    write(later, tmp_path / "m")
    assert (tmp_path / "m" / "maps.npz").read_bytes() != files["maps.npz"]


def test_a_file_beside_a_mapping_is_not_replaced_with_it(tmp_path: Path) -> None:
    maps = learn(by_concept(rotated(60)), SPEC, MappingPlan(ridge=0.1)).maps
    write(maps, tmp_path / "m")
    (tmp_path / "m" / "notes.txt").write_text("mine")
    with pytest.raises(BadInput, match="holds something that is no mapping"):
        write(maps, tmp_path / "m")
    assert (tmp_path / "m" / "notes.txt").read_text() == "mine"
