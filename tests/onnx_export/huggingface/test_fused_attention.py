"""The graphs for GPUs of exported models have attention as one node, and compute what the plain graphs do."""

import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from encoders.inference.graph import Inputs, load_graph
from encoders.inference.unpadded import remove_padding
from encoders.machine.placement import CPU
from onnx_export.graphs.fused_attention import fuse_attention
from onnx_export.graphs.precision import convert
from onnx_export.graphs.samples import token_inputs
from onnx_export.huggingface import hub_source as huggingface
from onnx_export.huggingface.hub_layout import choose_pooling, read_layout
from tests.onnx_export.cuda_kernels import without_kernel

pytestmark = [pytest.mark.torch, pytest.mark.skipif(find_spec("torch") is None, reason="needs the train extra")]
ROWS = [np.random.default_rng(length).integers(4, 60, length).tolist() for length in (5, 40, 17, 3, 90, 5, 9)]
BATCHES = [*token_inputs(ROWS, 1, 100), *token_inputs(ROWS[:1], 1, 100)]


@pytest.fixture(params=["bert", "xlm-r", "labse"])
def plain(request: pytest.FixtureRequest, hugging_face: dict[str, Path], tmp_path: Path) -> Path:
    """The float32 graph of a small model as torch exports it."""
    layout = read_layout(hugging_face[request.param])
    source = huggingface.load(layout, choose_pooling(layout, None))
    huggingface.export_token_graph(source.module, tmp_path / "plain.onnx")
    return tmp_path / "plain.onnx"


def _fused(plain: Path, batches: Sequence[Inputs]) -> Path:
    graph = plain.with_name("graph.onnx")
    shutil.copyfile(plain, graph)  # the weights beside it are those of both
    fuse_attention(graph, batches)
    return graph


def _operations(graph: Path) -> list[str]:
    return [node.op_type for node in onnx.load(graph, load_external_data=False).graph.node]


def test_padded_or_not_both_graphs_give_the_same_vectors(plain: Path, tmp_path: Path) -> None:
    fused = _fused(plain, BATCHES)
    assert _operations(fused).count("MultiHeadAttention") == 2
    assert not {"Softmax", "GatherND", "Where", "Range"} & set(_operations(fused))
    half = tmp_path / "half.onnx"
    convert(fused, half, "fp16", BATCHES)
    assert without_kernel(onnx.load(half)) == []
    assert remove_padding(onnx.load(half))
    sessions = [load_graph(graph, CPU) for graph in (plain, fused, half)]
    for batch in BATCHES:
        expected, vectors, by_half = (session.run(None, dict(batch))[0] for session in sessions)
        np.testing.assert_allclose(vectors, expected, atol=1e-5)
        np.testing.assert_allclose(by_half, expected, atol=0.01)


def test_attention_that_depends_on_more_than_the_padding_stays_as_it_is(plain: Path) -> None:
    """The first token here sees nothing of the third: its mask says so whatever the padding."""
    model = onnx.load(plain)
    far = np.zeros((1, 1, 1, 3), dtype=np.float32)
    far[..., 2] = -1e4
    three = [{name: array[:, :3] for name, array in batch.items()} for batch in BATCHES]
    model.graph.initializer.append(numpy_helper.from_array(far, "far"))
    for node in list(model.graph.node):
        if node.op_type == "Softmax":
            (scores,) = (other for other in model.graph.node if node.input[0] in other.output)
            scores.input[1] = "far"
    onnx.save(model, plain)
    before = plain.read_bytes()
    assert _fused(plain, three).read_bytes() == before
    assert sorted(file.suffix for file in plain.parent.iterdir()) == [".data", ".onnx", ".onnx"]
