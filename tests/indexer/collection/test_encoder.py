"""The encoder of a collection: which sentence says that another encoder was taken, and which that its own is broken."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from encoders.console import Console
from encoders.errors import BadInput, ModelMismatch
from indexer.collection import encoder
from indexer.collection.collection import Collection


class _Collection:
    """A collection of vectors by the encoder ``own``, whose method no encoder here can use."""

    encoder, method = "own", "hmde"

    def check(self, spec: str) -> None:
        raise ModelMismatch(f"collection news holds other vectors than those of {spec}")


def _open_named(reference: str, method: str | None, *_: Any, **__: Any) -> SimpleNamespace:
    if method:
        raise BadInput(f"{reference} can't be used by method {method}")
    return SimpleNamespace(spec=reference)


@pytest.mark.parametrize(
    ("reference", "method", "sentence"),
    [
        (None, None, "own can't be used by method hmde"),
        ("own", None, "own can't be used by method hmde"),
        ("other", None, "collection news holds other vectors than those of other"),
        ("other", "hmde", "other can't be used by method hmde"),
    ],
)
def test_it_says_why(monkeypatch: pytest.MonkeyPatch, reference: str | None, method: str | None, sentence: str) -> None:
    monkeypatch.setattr(encoder, "open_named", _open_named)
    with pytest.raises((BadInput, ModelMismatch), match=f"^{sentence}$"):
        encoder.open_encoder_of(
            cast("Collection", _Collection()), Console(quiet=True), reference=reference, method=method
        )
