"""``mapping.json`` is read whole, or refused in a sentence."""

import json
from pathlib import Path

import numpy as np
import pytest

from encoders.errors import BadInput
from encoders.maps.space_maps import HEADER, QueryEncoderSpec, SpaceMaps


@pytest.mark.parametrize("value", [None, "x", 5, True, [5], [[5]], {"x": 5}])
@pytest.mark.parametrize("entry", ["format", "model", "documents", "queries", "about", "asker"])
def test_a_value_of_another_type_is_refused(entry: str, value: object, tmp_path: Path) -> None:
    asker = QueryEncoderSpec("e", "segments", "m", 3)
    maps = SpaceMaps("m", {("", "de"): np.eye(3, dtype=np.float32)}, {}, {}, asker)
    maps.write(tmp_path)
    assert SpaceMaps.read(tmp_path).query_encoder == asker
    header = json.loads((tmp_path / HEADER).read_text())
    (tmp_path / HEADER).write_text(json.dumps({**header, entry: value}))
    if (entry, value) in (("format", True), ("model", "x"), ("about", {"x": 5}), ("asker", None)):  # True == 1
        SpaceMaps.read(tmp_path)
        return
    with pytest.raises(BadInput, match="make it again"):
        SpaceMaps.read(tmp_path)


def test_a_header_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    (tmp_path / HEADER).write_text("[" * 100_000)
    with pytest.raises(BadInput, match="nested too deeply"):
        SpaceMaps.read(tmp_path)
