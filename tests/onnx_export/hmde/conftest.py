"""A small trainable encoder, pages in three languages for it, and what it learns from them."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from encoders.console import Console
from encoders.document import Document
from encoders.hmde.triples import Triples, page_of
from encoders.hmde.upper import UpperShape
from onnx_export.graphs.parity import read_texts
from onnx_export.hmde.hmde_settings import Settings
from tests.onnx_export.conftest import SaveModel
from trials.servers.shared import once

LANGS = ("de", "en", "fr")
SETTINGS = Settings(
    layers=1, feed_forward=32, sentences=4, steps=12, batch=6, accumulate=2, rate=2e-3, warmup=2, evaluate=4, budget=300
)
AS_SMALL = replace(SETTINGS, form="weighted", pairs=0.0, titles=1.0, excerpts=1.0, bare=1.0, centred=True)
KINDS = {"paper": SETTINGS, "titles": replace(SETTINGS, titles=0.5, bare=0.5), "small": AS_SMALL}
"""Trainings that are run through once for all tests."""
Train = Callable[..., Any]


@pytest.fixture(scope="session")
def small_model(save_model: SaveModel) -> Path:
    return save_model("bert", "small")


@pytest.fixture(scope="session")
def pages() -> list[Document]:
    """Twenty concepts in two categories; a page is beginnings of the gate's texts, its title is another one."""
    texts = [text.text[:40] for text in read_texts()]
    return [
        Document(
            f"{lang}{number}",
            lang,
            "\n".join(texts[(7 * number + more + place) % len(texts)] for more in range(1 + number % 4)),
            texts[(5 * number + place) % len(texts)],
            {"concept": str(number), "category": ["odd" if number % 2 else "even"]},
        )
        for number in range(20)
        for place, lang in enumerate(LANGS)
    ]


def training_of(
    model: Path,
    pages: list[Document],
    place: Path,
    settings: Settings = SETTINGS,
    away: frozenset[str] = frozenset({"3", "8"}),
) -> Any:
    """A training that has not begun, or goes on from the checkpoint in a folder."""
    from onnx_export.hmde import lower_base
    from onnx_export.hmde.training import Training

    lower = lower_base.open_trained(str(model), settings, "cpu", Console(quiet=True)).lower
    lower.take([lower.prepare(pages)])
    triples = Triples([page_of(page.lang, page.fields) for page in pages], 0, away)
    held_out = np.array([row for row, page in enumerate(pages) if page.fields["concept"] in away], np.int64)
    shape = UpperShape(64, settings.layers, 1, settings.feed_forward, 4, 128, settings.form)
    return Training(lower, shape, triples, held_out, settings, place=place / "checkpoint.bin")


@pytest.fixture
def train(small_model: Path, pages: list[Document], tmp_path: Path) -> Train:
    return partial(training_of, small_model, pages, tmp_path)


@pytest.fixture
def finished(small_model: Path, pages: list[Document], tmp_path: Path) -> Train:
    """A finished training, opened from its checkpoint; each kind is trained once in a test run."""

    def opened(kind: str) -> Any:
        def make(folder: Path) -> Path:
            training = training_of(small_model, pages, folder, KINDS[kind])
            training.resume("it")
            training.run(Console(quiet=True))
            return folder

        place = tmp_path / f"finished-{kind}"
        shutil.copytree(once(f"hmde-{kind}", make), place)
        training = training_of(small_model, pages, place, KINDS[kind])
        assert training.resume("it")
        training.run(Console(quiet=True))
        return training

    return opened
