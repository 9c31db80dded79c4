"""Trained encoders as model folders, in every precision."""

from pathlib import Path

import pytest

from encoders.console import Console
from encoders.folder import Precision
from encoders.tlaser.settings import Variant, preset
from encoders.tlaser.vocabulary import learn_vocabulary
from onnx_export.parity import read_texts

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("variant", "precision"),
    [("laser", "int8"), ("laser", "fp16"), ("laser", "q4"), ("ct", "int8"), ("ct", "fp16"), ("ct", "q4")],
)
def test_the_graph_passes_the_gate_in_every_precision(variant: Variant, precision: Precision, tmp_path: Path) -> None:
    import torch

    from encoders.tlaser.model import Translator
    from onnx_export.tlaser_folder import publish

    texts = read_texts()
    tokenizer = learn_vocabulary((text.text for text in texts), 600, variant)
    plan = preset("small", variant)
    torch.manual_seed(0)
    model = Translator(variant, plan.sizes, tokenizer.get_vocab_size(), 2).eval()
    folder, report = publish(
        model,
        tokenizer,
        plan,
        ["de", "en"],
        tmp_path / "m",
        precision,
        texts=texts,
        curve=[{"step": 1, "loss": 1.0, "error": 0.5}],
        about={"Training": "none"},
        console=Console(quiet=True),
    )
    assert report.passed
    assert {file.name for file in folder.path.iterdir()} == {
        *("config.json", "curve.jsonl", "curve.png", "MODEL_CARD.md", "model.onnx", "parity.json", "tokenizer.json")
    }
