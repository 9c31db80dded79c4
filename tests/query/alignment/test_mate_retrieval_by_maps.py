"""Maps are learnt, written, read again, and measured on documents that did not teach them."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from encoders.document import EncoderSpec
from encoders.errors import BadInput, ModelMismatch
from encoders.maps.parallel import Parallel
from encoders.maps.space_maps import SpaceMaps
from indexer.training.aligned_documents import AlignedVectors
from indexer.training.mapping_training import MappingPlan, learn, write
from query.alignment.mate_retrieval import mates_by_method
from tests.query.synthetic import rotated

SPEC = EncoderSpec("rotated", "segments", 12, (), "rotated", "rotated")


def by_concept(parallel: Parallel) -> AlignedVectors:
    return AlignedVectors(
        {lang: dict(zip(parallel.concepts, rows, strict=True)) for lang, rows in parallel.rows.items() if lang != "fr"}
    )


@pytest.fixture(scope="module")
def both() -> tuple[Parallel, Parallel]:
    """Concepts that teach, and others."""
    every = rotated(260)
    return every.only(np.arange(160)), every.only(np.arange(160, 260))


def test_maps_are_measured_on_documents_that_did_not_teach(both: tuple[Parallel, Parallel], tmp_path: Path) -> None:
    write(learn(by_concept(both[0]), SPEC, MappingPlan()).maps, tmp_path / "m")
    others = Parallel(both[1].concepts, {lang: both[1].rows[lang] for lang in ("en", "de")})
    points, unknown = mates_by_method(tmp_path / "m", others, "rotated")
    assert list(points) == ["raw", "centred", "lca"]
    assert points["lca"].rate > 0.9
    assert points["lca"].mrr > points["centred"].mrr
    assert not unknown
    assert mates_by_method(tmp_path / "m", both[1], "rotated")[1] == ["fr"]
    with pytest.raises(ModelMismatch, match="is for vectors of model rotated"):
        mates_by_method(tmp_path / "m", others, "another")
    with pytest.raises(BadInput, match="there is nothing to find"):
        mates_by_method(tmp_path / "m", both[1].only(np.arange(0)), "rotated")
    shutil.rmtree(tmp_path / "m")
    with pytest.raises(BadInput, match="holds no mapping"):
        SpaceMaps.read(tmp_path / "m")


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
