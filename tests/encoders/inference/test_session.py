"""Batches by token budget, in halves where memory is short; what is kept of a long document; providers; graphs."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoders.document import FloatArray, Int32Array
from encoders.errors import BadInput, MissingPart, StoreError
from encoders.folder.model_folder import ModelFolder
from encoders.inference import openvino_graph
from encoders.inference.batch_checkpoint import Checkpoint, current_checkpoint
from encoders.inference.session import OnnxSession, token_batches
from encoders.machine.placement import is_installed
from onnx_export.default_model import bert_graph
from tests.conftest import Log, Patch
from tests.onnx_export.conftest import SHAPE, weights
from trials import ROOT


@given(st.lists(st.integers(1, 600), max_size=200), st.integers(1, 1000))
def test_batches_hold_every_row_once_within_the_budget_and_sorted(lengths: list[int], budget: int) -> None:
    batches = token_batches(lengths, budget)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    assert [lengths[index] for batch in batches for index in batch] == sorted(lengths)
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[index] for index in batch) <= budget


def test_the_same_rows_give_the_same_bytes_by_any_threads_and_keep_their_order(default_folder: ModelFolder) -> None:
    rows = [np.arange(5, 5 + size, dtype=np.int32) for size in (3, 90, 7, 300, 3, 128)]
    one, two = (OnnxSession(default_folder, device="cpu", threads=threads) for threads in (1, 2))
    vectors = two.run(rows, 1)
    assert vectors.tobytes() == two.run(rows, 1).tobytes() == one.run(rows, 1).tobytes()
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert (vectors * np.concatenate([two.run([row], 1) for row in rows])).sum(axis=1).min() > 0.99
    assert two.run([], 1).shape == (0, 384)


def test_what_a_killed_call_did_is_kept(default_folder: ModelFolder, tmp_path: Path, monkeypatch: Patch) -> None:
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
    assert (graph.run(rows, 1).tobytes(), computed) == (expected.tobytes(), [300, 301])
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
    breaks_after(4)
    graph.run([row + np.int32(1) for row in rows], 1)
    assert len(computed) == 4, "another call takes nothing of it"
    checkpoint = current_checkpoint.get()
    assert checkpoint
    checkpoint.forget()
    current_checkpoint.reset(token)
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_broken_graph_or_of_another_width_is_one_sentence(default_folder: ModelFolder, tmp_path: Path) -> None:
    shutil.copytree(default_folder.path, tmp_path / "m", ignore=shutil.ignore_patterns("model.onnx"))
    narrow = bert_graph.build(weights(), SHAPE).SerializeToString()
    said_of = {b"no graph": "can't be loaded .*export the", narrow: "makes vectors with 48 dimensions and .* says 384"}
    for graph, said in said_of.items():
        (tmp_path / "m" / "model.onnx").write_bytes(graph)
        with pytest.raises(BadInput, match=rf"model\.onnx {said}.* again"):
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


@pytest.mark.skipif(not is_installed("openvino"), reason="needs the extra openvino")
def test_openvino_makes_the_vectors_of_full_batches(default_folder: ModelFolder) -> None:
    ids = np.random.default_rng(1).integers(5, 200_000, (4, 128))
    inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    graphs = [openvino_graph.OpenVinoGraph(default_folder.graph, (4, 128), threads) for threads in (1, 2)]
    one, other, again = (graphs[0].run("vectors", {**inputs, "input_ids": ids + more}) for more in (0, 1, 0))
    assert graphs[1].run("vectors", inputs).tobytes() == one.tobytes() == again.tobytes() != other.tobytes()
    assert "openvino_telemetry" not in sys.modules
    assert (one * OnnxSession(default_folder, device="cpu").run([*ids], 1, alone=True)).sum(axis=1).min() > 0.99


@pytest.mark.parametrize("instructions", [["INT8"], ["INT8", "BF16"]])
def test_full_batches_are_onnx_runtime_s_where_openvino_is_slower_or_reads_no_graph(
    default_folder: ModelFolder, monkeypatch: Patch, caplog: Log, instructions: list[str]
) -> None:
    core = SimpleNamespace(get_property=lambda *_: instructions, read_model=Mock(side_effect=RuntimeError("odd\nnode")))
    monkeypatch.setitem(sys.modules, "openvino", SimpleNamespace(Core=lambda: core))
    monkeypatch.setattr(openvino_graph, "is_installed", lambda _: True)
    session = OnnxSession(default_folder, device="cpu")
    rows = [np.arange(start, start + 128, dtype=np.int32) for start in (5, 9, 17, 33, 65)]
    np.testing.assert_allclose(session.run(rows, 1), session.run(rows, 1, alone=True), atol=1e-5)
    said = f"{default_folder.graph} works in ONNX Runtime: OpenVINO fails (odd)"
    assert [record.message for record in caplog.records] == [said] * instructions.count("BF16")


def test_onnx_runtime_reports_nothing_to_its_maker() -> None:
    shown = "print(os.environ['ORT_DISABLE_TELEMETRY'], 'onnxruntime' in sys.modules)"
    command = [sys.executable, "-c", f"import encoders.inference.session, os, sys; {shown}"]
    alone = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    assert subprocess.run(command, env=alone, capture_output=True, text=True, check=True).stdout == "1 False\n"


_SIZES, _DIM = (3, 3, 3), 400
_BATCHES = [np.random.default_rng(number).standard_normal((3, _DIM)).astype(np.float32) for number in range(3)]


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    assert _batches(tmp_path) == [0, 1, 2]
    (file,) = tmp_path.iterdir()
    return file


def _batches_of(name: str, folder: Path) -> Iterator[FloatArray]:
    return Checkpoint(folder, name, lambda *_: None).batches("key", _SIZES, _DIM, lambda done: iter(_BATCHES[done:]))


def _batches(folder: Path) -> list[int]:
    """Get all batches, and check them; returns the numbers of those that were computed."""
    computed = []

    def compute(done: int) -> Iterator[FloatArray]:
        for number in range(done, 3):
            computed.append(number)
            yield _BATCHES[number]

    batches = Checkpoint(folder, "chunk", lambda *_: None).batches("key", _SIZES, _DIM, compute)
    for batch, expected in zip(batches, _BATCHES, strict=True):
        assert batch.tobytes() == expected.tobytes()
    return computed


@pytest.mark.parametrize("page", range(4))
def test_zeros_that_a_power_loss_left_in_a_row_are_computed_again(kept: Path, page: int) -> None:
    whole = kept.read_bytes()
    kept.write_bytes(whole[: page * 4096] + bytes(4096) + whole[(page + 1) * 4096 :])
    assert _batches(kept.parent) == [number for number in range(3) if (number + 1) * 4816 > page * 4096]
    assert (kept.read_bytes(), _batches(kept.parent)) == (whole, [])


@pytest.mark.parametrize("size", [0, 1, 4816, 4817, 14_447])
def test_a_file_cut_anywhere_goes_on_after_its_last_whole_batch(kept: Path, size: int) -> None:
    whole = kept.read_bytes()
    kept.write_bytes(whole[:size])
    assert _batches(kept.parent) == list(range(size // 4816, 3))
    kept.write_bytes(whole[:4816] + whole[:4816] + whole[9632:])  # a batch in another's place is computed again
    assert (_batches(kept.parent), kept.read_bytes()) == ([1, 2], whole)


def test_two_that_encode_the_same_texts_at_once_have_files_of_their_own(tmp_path: Path) -> None:
    alone = _batches_of("first", tmp_path / "alone")
    list(alone)
    pair = [_batches_of(name, tmp_path / "pair") for name in ("first", "second")]
    for first, second in zip(*pair, strict=True):
        assert first.tobytes() == second.tobytes()
    (expected,) = (tmp_path / "alone").iterdir()
    assert [file.read_bytes() for file in (tmp_path / "pair").iterdir()] == [expected.read_bytes()] * 2


def test_a_broken_stderr_is_no_failure_of_the_file_and_a_folder_without_room_is_a_sentence(tmp_path: Path) -> None:
    def breaks(*_: int) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    batches = Checkpoint(tmp_path, "chunk", breaks).batches("key", _SIZES, _DIM, lambda done: iter(_BATCHES[done:]))
    with pytest.raises(BrokenPipeError):
        list(batches)
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(StoreError, match=r"or see that the folder is yours, then run the command again$"):
        list(_batches_of("chunk", tmp_path / "file"))


_IN_LITTLE_MEMORY = """
import resource, sys
import numpy as np
from encoders.inference import session as sessions
from encoders.folder.model_folder import ModelFolder
sessions.CPU_TOKEN_BUDGET = 40 * 256
folder = ModelFolder.open(sys.argv[1])
rows = [np.random.default_rng(at).integers(10, 1000, 256).astype(np.int32) for at in range(40)]
session = sessions.OnnxSession(folder, device="cpu", threads=1)
session.run(rows[:1], 1)
size = int(next(line for line in open("/proc/self/status") if line.startswith("VmSize")).split()[1]) * 1024
resource.setrlimit(resource.RLIMIT_AS, (size + 100 * 2**20, -1))
vectors = session.run(rows, 1)
apart = np.concatenate([session.run([row], 1) for row in rows])
cosines = (vectors * apart).sum(1)
print(session._too_large, cosines.min(), cosines.mean())
"""


@pytest.mark.parts
def test_a_batch_that_memory_does_not_hold_is_encoded_in_halves_from_then_on(default_folder: ModelFolder) -> None:
    command = [sys.executable, "-c", _IN_LITTLE_MEMORY, str(default_folder.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    too_large, least, mean = map(float, done.stdout.split())
    assert 256 < too_large <= 40 * 256
    assert least >= 0.99
    assert mean >= 0.995
