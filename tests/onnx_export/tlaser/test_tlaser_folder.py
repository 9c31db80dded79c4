"""Trained encoders as model folders, in every precision."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import tokenizers
import torch

from encoders.console import Console
from encoders.errors import MissingPart
from encoders.folder.model_config import Precision
from encoders.folder.model_folder import ModelFolder
from encoders.tlaser.joint_vocabulary import learn_vocabulary
from encoders.tlaser.tlaser_settings import TlaserPlan, Variant, preset
from onnx_export.graphs.parity import ParityReport, read_texts
from onnx_export.tlaser.tlaser_folder import publish
from onnx_export.tlaser.translator import Translator

pytestmark = pytest.mark.torch


def published(
    target: Path, tokenizer: tokenizers.Tokenizer, plan: TlaserPlan, precision: Precision
) -> tuple[ModelFolder, ParityReport]:
    """The folder of a model with random weights."""
    torch.manual_seed(0)
    model = Translator(plan.variant, plan.sizes, tokenizer.get_vocab_size(), 2).eval()
    curve = [{"step": 1, "loss": 1.0, "error": 0.5}]
    return publish(
        model, tokenizer, plan, ["de", "en"], target, precision,
        texts=read_texts(), curve=curve, about={"Training": "none"}, console=Console(quiet=True),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("variant", "precision"),
    [("laser", "int8"), ("laser", "fp16"), ("laser", "q4"), ("ct", "int8"), ("ct", "fp16"), ("ct", "q4")],
)
def test_the_graph_passes_the_gate_in_every_precision(variant: Variant, precision: Precision, tmp_path: Path) -> None:
    tokenizer = learn_vocabulary((text.text for text in read_texts()), 600, variant)
    folder, report = published(tmp_path / "m", tokenizer, preset("small", variant), precision)
    assert report.passed
    assert {file.name for file in folder.path.iterdir()} == {
        *("config.json", "curve.jsonl", "curve.png", "MODEL_CARD.md", "model.onnx", "parity.json", "tokenizer.json")
    }


@contextmanager
def _files_of_at_most(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("full", ["model.onnx", "tokenizer.json"])
def test_a_disk_that_fills_is_one_sentence_and_leaves_nothing(full: str, tmp_path: Path) -> None:
    tokenizer = learn_vocabulary((text.text for text in read_texts()), 600, "t")
    plan = preset("small", "t")
    plan = replace(
        plan, sizes=replace(plan.sizes, dim=4, token_width=4, heads=1, ffn=4, decoder=4, layers=1, max_tokens=8)
    )
    if full == "tokenizer.json":
        tokenizer.add_tokens(["x" * 300_000])  # the largest file is the one that has no room
    whole = published(tmp_path / "whole", tokenizer, plan, "fp32")[0].path
    said = "is full; make room, or name another folder with -o; the training is kept, and the same command resumes it"
    with _files_of_at_most((whole / full).stat().st_size - 1), pytest.raises(MissingPart, match=said):
        published(tmp_path / "m", tokenizer, plan, "fp32")
    assert [path.name for path in tmp_path.iterdir()] == ["whole"]
