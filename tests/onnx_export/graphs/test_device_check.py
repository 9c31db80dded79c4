"""What a graph does on a device, and what is found where a card waits for the CPU."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from encoders.document import FloatArray, Int32Array
from encoders.folder.model_folder import ModelFolder
from encoders.inference.session import CUDA_TOKEN_BUDGET, OnnxSession
from encoders.machine.placement import CPU, place
from onnx_export.graphs import device_check
from onnx_export.graphs.device_check import check_device, read_profile
from onnx_export.graphs.parity import encode, read_texts
from onnx_export.models import DEFAULT
from query.cli import run
from tests.encoders.gpus import Library, install_cards, install_provider

TEXTS = read_texts()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_check, "_SECONDS", 0.1)
    monkeypatch.setattr(device_check, "_BATCHES", 1)


def _half(folder: ModelFolder) -> ModelFolder:
    """The folder as if its graph were in fp16, which a card takes."""
    return ModelFolder(folder.path, replace(folder.config, precision="fp16"))


def test_on_the_cpu_everything_computes_there(small: ModelFolder) -> None:
    check = check_device(small, CPU, TEXTS)
    assert check.nodes.keys() == {"CPUExecutionProvider"}
    assert (check.device, check.parity, check.strays, check.passed, check.memory) == ("cpu", None, [], True, 0)
    assert check.tokens > 0


def test_vectors_that_differ_from_the_reference_fail(small: ModelFolder) -> None:
    vectors = encode(small, TEXTS)
    assert check_device(small, CPU, TEXTS, vectors).passed
    assert not check_device(small, CPU, TEXTS, np.roll(vectors, 1, axis=0)).passed


def test_a_card_that_leaves_products_to_the_cpu_fails(small: ModelFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pretended card computes on the CPU, and the profile says so."""
    install_cards(monkeypatch, Library(["H100"]))
    install_provider(monkeypatch)
    check = check_device(_half(small), place("cuda"), TEXTS)
    assert check.device == "H100"
    assert check.parity is not None
    assert check.parity.passed
    assert {"Gather", "LayerNormalization", "Slice"} <= set(check.strays)
    assert not {"Shape", "MemcpyToHost"} & set(check.strays)
    assert not check.passed


def test_tokens_a_second_are_of_full_batches(small: ModelFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, run_batch = [], OnnxSession._run_batch

    def noted(session: OnnxSession, rows: Sequence[Int32Array], pad: int) -> FloatArray:
        sizes.append(len(rows) * max(map(len, rows)))
        return run_batch(session, rows, pad)

    monkeypatch.setattr(OnnxSession, "_run_batch", noted)
    install_cards(monkeypatch, Library(["H100"]))
    install_provider(monkeypatch)
    check_device(_half(small), place("cuda"), TEXTS)
    assert max(sizes) > 0.9 * CUDA_TOKEN_BUDGET
    assert sum(sizes) > CUDA_TOKEN_BUDGET


def _event(operation: str, shape: Sequence[int], provider: str = "CUDA", kind: str = "float16") -> dict[str, Any]:
    """A node in ONNX Runtime's profile, with what the check reads."""
    about = {"op_name": operation, "provider": f"{provider}ExecutionProvider", "output_type_shape": [{kind: shape}]}
    return {"cat": "Node", "name": f"{operation}_3_kernel_time", "args": about}


@pytest.mark.parametrize(
    ("event", "strays"),
    [
        (_event("MatMul", [4, 30, 384]), set()),
        (_event("MatMul", [4, 30, 384], "CPU"), {"MatMul"}),
        (_event("Gather", [4, 30, 384], "CPU"), {"Gather"}),  # the words' vectors
        (_event("Gather", [], "CPU", "int64"), set()),  # a number of a shape
        (_event("Where", [4, 1, 30, 30], "CPU"), {"Where"}),  # a mask
        (_event("Concat", [4], "CPU", "int64"), set()),
        (_event("MemcpyFromHost", [4, 30], kind="int64"), set()),  # the token ids
        (_event("MemcpyToHost", [4, 384], kind="float"), set()),  # the vectors
        (_event("MemcpyToHost", [1], kind="bool"), {"MemcpyToHost"}),  # what a branch waits for
        (_event("MemcpyToHost", [4, 30], kind="float16"), {"MemcpyToHost"}),  # a value as large as the token ids
        (_event("MemcpyFromHost", [4, 1, 30, 30]), set()),  # what made it on the CPU is found itself
        (_event("Range", [30], "CPU", "int64"), set()),  # positions
    ],
)
def test_a_card_waits_at_computing_on_the_cpu_and_at_copies_in_the_midst(
    event: dict[str, Any], strays: set[str]
) -> None:
    session = {"cat": "Session", "name": "model_run", "args": {}}
    nodes, found = read_profile([session, event, _event("Gelu", [4, 30, 1536])], [4, 384])
    assert found == strays
    assert sum(nodes.values(), Counter()) == Counter([event["args"]["op_name"], "Gelu"])


@pytest.mark.long
def test_the_command_compares_the_default_encoder_with_its_float32_build(
    default_folder: ModelFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["encoders", "check", DEFAULT, "--device", "cpu", "--json", "-q"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["encoder"], told["device"], told["precision"], told["passed"]) == (DEFAULT, "cpu", "int8", True)
    assert 0.99 < told["parity"]["cosine_min"] < 0.9999
    assert run(["encoders", "check", str(default_folder.path), "--device", "cpu"]) == 0
    said = capsys.readouterr().out
    assert "72 MatMulIntegerToFloat" in said
    assert "in int8 on cpu: " in said


def test_an_encoder_that_fails_its_check_gives_status_1(small: ModelFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_check.DeviceCheck, "passed", False)
    assert run(["encoders", "check", str(small.path), "--device", "cpu"]) == 1


def test_without_the_device_it_is_refused(small: ModelFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["encoders", "check", str(small.path), "--device", "cuda"]) == 1
    assert "CUDA was asked for" in capsys.readouterr().err
