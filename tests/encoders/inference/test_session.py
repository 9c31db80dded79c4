"""Batches by token budget, providers read back, and one ONNX Runtime at a time."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoders.document import FloatArray, Int32Array
from encoders.errors import BadInput, MissingPart
from encoders.folder.model_folder import ModelFolder
from encoders.inference.batch_checkpoint import Checkpoint, current_checkpoint
from encoders.inference.session import OnnxSession, token_batches
from onnx_export.default_model import bert_graph
from tests.onnx_export.conftest import SHAPE, weights


@given(st.lists(st.integers(1, 600), max_size=200), st.integers(1, 1000))
def test_batches_hold_every_row_once_within_the_budget_and_sorted(lengths: list[int], budget: int) -> None:
    batches = token_batches(lengths, budget)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    flat = [lengths[index] for batch in batches for index in batch]
    assert flat == sorted(flat)
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[index] for index in batch) <= budget


def test_the_same_rows_give_the_same_bytes_by_one_thread_and_two_and_keep_their_order(
    default_folder: ModelFolder,
) -> None:
    rows = [np.arange(5, 5 + size, dtype=np.int32) for size in (3, 90, 7, 300, 3, 128)]
    one, two = (OnnxSession(default_folder, device="cpu", threads=threads) for threads in (1, 2))
    vectors = two.run(rows, 1)
    assert vectors.tobytes() == two.run(rows, 1).tobytes() == one.run(rows, 1).tobytes()
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    alone = np.concatenate([two.run([row], 1) for row in rows])
    assert (vectors * alone).sum(axis=1).min() > 0.99
    assert two.run([], 1).shape == (0, 384)


def test_what_a_killed_call_had_done_is_not_computed_again(
    default_folder: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, int]] = []
    graph = OnnxSession(default_folder, device="cpu", threads=1)
    rows = [np.arange(5, 5 + size, dtype=np.int32) for size in (300, 299, 301, 280)]
    expected = graph.run(rows, 1)
    run_batch = graph._run_batch
    computed: list[int] = []

    def breaks_after(count: int) -> None:
        def run(batch: Sequence[Int32Array], pad: int) -> FloatArray:
            if len(computed) == count:
                raise KeyboardInterrupt
            computed.append(len(batch[0]))
            return run_batch(batch, pad)

        computed.clear()
        monkeypatch.setattr(graph, "_run_batch", run)

    token = current_checkpoint.set(Checkpoint(tmp_path / "kept", "chunk", lambda *numbers: told.append(numbers)))
    breaks_after(2)
    with pytest.raises(KeyboardInterrupt):
        graph.run(rows, 1)
    assert (tmp_path / "kept").stat().st_mode & 0o777 == 0o700
    (file,) = (tmp_path / "kept").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    with file.open("ab") as kept:
        kept.write(bytes(4 * graph.dim) + b"torn")  # as a failed write leaves it
    breaks_after(4)
    assert graph.run(rows, 1).tobytes() == expected.tobytes()
    assert computed == [300, 301]
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
    breaks_after(4)
    graph.run([row + np.int32(1) for row in rows], 1)
    assert len(computed) == 4, "another call takes nothing of it"
    checkpoint = current_checkpoint.get()
    assert checkpoint
    checkpoint.forget()
    current_checkpoint.reset(token)
    assert list((tmp_path / "kept").iterdir()) == []


def test_cuda_asked_for_and_not_there_is_refused_not_replaced(default_folder: ModelFolder) -> None:
    import onnxruntime

    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this ONNX Runtime has CUDA")
    with pytest.raises(MissingPart, match=r"make install EXTRAS=gpu.*--device cpu"):
        OnnxSession(default_folder, device="cuda")
    assert OnnxSession(default_folder, device="auto").device == "cpu"


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        (b"no graph", r"model\.onnx can't be loaded .*export the model again"),
        (None, r"model\.onnx makes vectors with 48 dimensions and .* says 384; make .* again"),
    ],
)
def test_a_broken_graph_or_of_another_width_is_one_sentence(
    default_folder: ModelFolder, tmp_path: Path, graph: bytes | None, said: str
) -> None:
    shutil.copytree(default_folder.path, tmp_path / "m", ignore=shutil.ignore_patterns("model.onnx"))
    (tmp_path / "m" / "model.onnx").write_bytes(graph or bert_graph.build(weights(), SHAPE).SerializeToString())
    with pytest.raises(BadInput, match=said):
        OnnxSession(ModelFolder.open(tmp_path / "m"), device="cpu")


def test_a_graph_that_asks_for_terabytes_is_one_sentence(small: ModelFolder, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(small.path, tmp_path / "m"))
    model = onnx.load(folder / "model.onnx")
    for name, values in (("size", [1 << 36, 1, SHAPE.hidden]), ("first", [0])):
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(values), name))
    model.graph.node[-1].output[0] = "small"
    model.graph.node.append(onnx.helper.make_node("Expand", ["small", "size"], ["huge"]))
    model.graph.node.append(onnx.helper.make_node("ReduceSum", ["huge", "first"], ["vectors"], keepdims=0))
    onnx.save(model, folder / "model.onnx")
    session = OnnxSession(ModelFolder.open(folder), device="cpu")
    with pytest.raises(MissingPart, match=r"model\.onnx can't be run over 1 text of 3 tokens in all \(.*\); close"):
        session.run([np.arange(5, 8, dtype=np.int32)] * 2, 1)


def test_onnx_runtime_reports_nothing_to_its_maker() -> None:
    code = (
        "import encoders.inference.session, os, sys; "
        "print(os.environ['ORT_DISABLE_TELEMETRY'], 'onnxruntime' in sys.modules)"
    )
    alone = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    done = subprocess.run([sys.executable, "-c", code], env=alone, capture_output=True, text=True, check=True)
    assert done.stdout == "1 False\n"
