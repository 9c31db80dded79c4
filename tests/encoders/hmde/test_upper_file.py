"""``hmde.json`` is read whole, or refused in a sentence."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from encoders.errors import BadInput
from encoders.folder.model_cache import file_hash
from encoders.folder.model_config import ModelConfig
from encoders.folder.model_folder import ModelFolder
from encoders.hmde.upper import ABOUT, FORMAT, GRAPH, UpperFile, UpperShape

CONFIG = ModelConfig("m", 4, 16, "mean", "", "", (), "fp32", "w", "t", "g")


@pytest.fixture
def folder(tmp_path: Path) -> ModelFolder:
    (tmp_path / GRAPH).write_bytes(b"graph")
    return ModelFolder(tmp_path, CONFIG)


def write(folder: ModelFolder, **shape: object) -> None:
    values = {**asdict(UpperShape(dim=4)), **shape}
    about = {"format": FORMAT, "shape": values, "weights": "w", "graph": file_hash(folder.path / GRAPH)}
    (folder.path / ABOUT).write_text(json.dumps(about))


def test_a_shape_is_read(folder: ModelFolder) -> None:
    write(folder, heads=2)
    assert UpperFile.read(folder).shape == replace(UpperShape(dim=4), heads=2)


@pytest.mark.parametrize("value", [None, "x", 1.5, True, [4], {}, 0, -1])
@pytest.mark.parametrize("entry", ["dim", "sentences", "tokens", "form"])
def test_a_value_that_no_shape_has_is_refused(entry: str, value: object, folder: ModelFolder) -> None:
    write(folder, **{entry: value})
    with pytest.raises(BadInput, match="train it again"):
        UpperFile.read(folder)


@pytest.mark.parametrize("parity", [None, [], "x", 5])
def test_a_parity_report_that_is_no_object_is_refused(parity: object, folder: ModelFolder) -> None:
    write(folder)
    about = json.loads((folder.path / ABOUT).read_text())
    (folder.path / ABOUT).write_text(json.dumps({**about, "parity": parity}))
    with pytest.raises(BadInput, match="its parity report is no object"):
        UpperFile.read(folder)


def test_a_file_nested_too_deeply_is_refused(folder: ModelFolder) -> None:
    (folder.path / ABOUT).write_text("[" * 100_000)
    with pytest.raises(BadInput, match="nested too deeply"):
        UpperFile.read(folder)
