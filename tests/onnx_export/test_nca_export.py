"""NCA's graph is the network of the paper, and needs no torch to run."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from encoders.document import FloatArray
from encoders.maps.nca_map import Network, compared
from trials import ROOT

pytestmark = pytest.mark.torch


def rows(count: int, dim: int, seed: int) -> FloatArray:
    return np.random.default_rng(seed).standard_normal((count, dim), dtype=np.float32)


@pytest.fixture(scope="module")
def graph() -> bytes:
    """From rows of 6 numbers to rows of 4 that follow from them."""
    pytest.importorskip("torch")
    from onnx_export.nca_export import NcaTraining, train

    x, held_out, turn = rows(120, 6, 0) + 2, rows(40, 6, 1) + 2, rows(6, 4, 2)
    settings = NcaTraining(hidden=9, epochs=5)
    return train((x, 3 * np.tanh(x @ turn)), (held_out, 3 * np.tanh(held_out @ turn)), settings)


def transcribed(graph: bytes, x: FloatArray) -> FloatArray:
    """What the paper's network makes of rows, by the numbers that the graph holds: one layer of ELU units."""
    import onnx

    held = {one.name: onnx.numpy_helper.to_array(one) for one in onnx.load_from_string(graph).graph.initializer}
    scaled = (x - held["mean"]) / held["scale"]
    summed = scaled @ held["0.weight.kept"].T + held["0.bias.kept"]
    hidden = np.where(summed > 0, summed, np.expm1(np.minimum(summed, 0)))
    made: FloatArray = (hidden @ held["2.weight.kept"].T + held["2.bias.kept"]) * held["target_scale"]
    return made


def test_the_graph_is_one_layer_of_elu_units_between_scaled_spaces(graph: bytes) -> None:
    import onnx

    held = {one.name: onnx.numpy_helper.to_array(one) for one in onnx.load_from_string(graph).graph.initializer}
    x = rows(120, 6, 0) + 2
    np.testing.assert_allclose(held["mean"], x.mean(axis=0), atol=1e-6)
    assert float(held["scale"]) == pytest.approx((x - x.mean(axis=0)).std(), rel=1e-5)
    asked = rows(10, 6, 3)
    np.testing.assert_allclose(Network(graph).transform(asked), transcribed(graph, asked), atol=1e-5)


def test_rows_that_compare_are_those_of_one_side_and_their_prediction_of_the_other(graph: bytes) -> None:
    """[x, f(x)] and [g(y), y], each side's own rows without their mean."""
    x, y = rows(5, 6, 4), rows(7, 6, 5)
    means = rows(1, 6, 6)[0], rows(1, 6, 7)[0]
    network = Network(graph)
    left, right = compared(x, y, means, network, network)
    np.testing.assert_allclose(left, np.concatenate([x - means[0], transcribed(graph, x)], axis=1), atol=1e-5)
    np.testing.assert_allclose(right, np.concatenate([transcribed(graph, y), y - means[1]], axis=1), atol=1e-5)


def test_a_process_without_torch_runs_it(graph: bytes, tmp_path: Path) -> None:
    (tmp_path / "nca.onnx").write_bytes(graph)
    np.save(tmp_path / "rows.npy", rows(3, 6, 8))
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "import numpy as np; from pathlib import Path; from encoders.maps.nca_map import Network\n"
        "folder = Path(sys.argv[1])\n"
        "made = Network((folder / 'nca.onnx').read_bytes()).transform(np.load(folder / 'rows.npy'))\n"
        "np.save(folder / 'made.npy', made)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, cwd=ROOT)
    np.testing.assert_allclose(np.load(tmp_path / "made.npy"), transcribed(graph, rows(3, 6, 8)), atol=1e-5)
