"""What tests of the indexer share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from encoders import methods
from encoders.folder import ModelFolder
from encoders.segments import Segments
from encoders.sentence import SentenceEncoder
from encoders.session import Device
from onnx_export.models import default_path


@pytest.fixture(scope="module", autouse=True)
def _default_opened_once(request: pytest.FixtureRequest) -> Iterator[None]:
    """In a file whose tests open the default encoder they get the one of all tests: to open it takes a second."""
    here = [item for item in request.session.items if item.path == request.path]
    if not any("default_folder" in getattr(item, "fixturenames", ()) for item in here):
        yield
        return
    encoder = request.getfixturevalue("encoder")
    assert isinstance(encoder, Segments)

    def opened(folder: ModelFolder, *, device: Device = "auto", threads: int | None = None) -> SentenceEncoder:
        if folder.path == default_path() and device != "cuda" and not threads:
            return encoder._sentence
        return SentenceEncoder(folder, device=device, threads=threads)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(methods, "SentenceEncoder", opened)
        yield
