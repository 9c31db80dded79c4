"""LASER's graph, built by hand, against torch's LSTM: padded batches, several layers, other lengths."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from encoders.tlaser.tlaser_settings import Sizes, TlaserPlan, TlaserTraining, Variant
from onnx_export.tlaser.tlaser_folder import write_encoder
from onnx_export.tlaser.translator import Translator, UnitVectors

pytestmark = pytest.mark.torch

_TRAINING = TlaserTraining(1, 64, 1, 1e-3, 1, 0.0)


@pytest.mark.parametrize(
    ("variant", "layers", "words"), [("laser", 1, 12), ("laser", 3, 12), ("claser", 1, 8), ("t", 2, 12)]
)
def test_a_padded_batch_gives_torchs_vectors(variant: Variant, layers: int, words: int, tmp_path: Path) -> None:
    sizes = Sizes(12, words, layers, 2, 16, 12, 4, 40, shared=words == 12, max_tokens=32)
    torch.manual_seed(0)
    model = Translator(variant, sizes, 40, 2).eval()
    write_encoder(model, TlaserPlan(variant, sizes, _TRAINING), tmp_path / "graph.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "graph.onnx"), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    for lengths in ((5, 1, 9), (1,), (30, 31)):
        ids = np.zeros((len(lengths), max(lengths)), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, length in enumerate(lengths):
            ids[row, :length] = rng.integers(4, 40, length)
            mask[row, :length] = 1
        (ours,) = session.run(["vectors"], {"input_ids": ids, "attention_mask": mask})
        with torch.no_grad():
            theirs = UnitVectors(model.encoder).eval()(torch.from_numpy(ids), torch.from_numpy(mask)).numpy()
        assert np.allclose(ours, theirs, atol=1e-5)
        assert np.allclose(np.linalg.norm(ours, axis=1), 1, atol=1e-5)
