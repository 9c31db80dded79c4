"""What a graph does on a device, where a card waits for the CPU, and what is exported then; the gate and its bars."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoders.console import Console
from encoders.document import FloatArray, unit_rows
from encoders.errors import BadInput
from encoders.folder.model_config import Precision
from encoders.folder.model_folder import ModelFolder
from encoders.machine.placement import CPU, place
from onnx_export.graphs import device_check
from onnx_export.graphs.device_check import check_device, read_profile
from onnx_export.graphs.parity import GateText, check_parity, compare, encode, read_texts, top_agreement
from onnx_export.graphs.publishing import require_parity
from onnx_export.models import DEFAULT
from query.cli import run
from tests.conftest import Capture, Patch
from tests.encoders.gpus import Library, install_cards, install_provider
from tests.onnx_export.conftest import save_reranker

GATE = read_texts()


@pytest.fixture(autouse=True)
def quick(monkeypatch: Patch) -> None:
    monkeypatch.setattr(device_check, "_SECONDS", 0.1)
    monkeypatch.setattr(device_check, "_BATCHES", 1)


@pytest.fixture
def half(small: ModelFolder, monkeypatch: Patch) -> ModelFolder:
    """A folder as if its graph were in fp16, which a pretended card takes, that computes on the CPU."""
    install_cards(monkeypatch, Library(["H100"]))
    install_provider(monkeypatch)
    return ModelFolder(small.path, replace(small.config, precision="fp16"))


def test_on_the_cpu_everything_computes_there_and_other_vectors_than_the_reference_fail(small: ModelFolder) -> None:
    check = check_device(small, CPU, GATE)
    assert check.nodes.keys() == {"CPUExecutionProvider"}
    assert (check.device, check.parity, check.strays, check.passed, check.memory) == ("cpu", None, [], True, 0)
    assert check.tokens > 0
    vectors = encode(small, GATE)
    assert check_device(small, CPU, GATE, vectors).passed
    assert not check_device(small, CPU, GATE, np.roll(vectors, 1, axis=0)).passed


def test_a_card_that_leaves_products_to_the_cpu_fails(half: ModelFolder) -> None:
    check = check_device(half, place("cuda"), GATE)
    assert check.device == "H100"
    assert check.parity
    assert check.parity.passed
    assert {"Gather", "LayerNormalization", "Slice"} <= set(check.strays)
    assert not {"Shape", "MemcpyToHost"} & set(check.strays)
    assert not check.passed


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
def test_a_card_waits_at_computing_on_the_cpu_and_at_copies_between(event: dict[str, Any], strays: set[str]) -> None:
    session = {"cat": "Session", "name": "model_run", "args": {}}
    nodes, found = read_profile([session, event, _event("Gelu", [4, 30, 1536])], [4, 384])
    assert (found, sum(nodes.values(), Counter())) == (strays, Counter([event["args"]["op_name"], "Gelu"]))


@pytest.mark.long
def test_the_command_compares_the_default_with_its_float32_build(default_folder: ModelFolder, capsys: Capture) -> None:
    assert run(["encoders", "check", DEFAULT, "--device", "cpu", "--json", "-q"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["encoder"], told["device"], told["precision"], told["passed"]) == (DEFAULT, "cpu", "int8", True)
    assert 0.99 < told["parity"]["cosine_min"] < 0.9999
    assert run(["encoders", "check", str(default_folder.path), "--device", "cpu"]) == 0
    said = capsys.readouterr().out
    assert "72 MatMulIntegerToFloat" in said
    assert "in int8 on cpu: " in said


def test_a_failed_check_or_missing_device_is_status_1(small: ModelFolder, monkeypatch: Patch, capsys: Capture) -> None:
    monkeypatch.setattr(device_check.DeviceCheck, "passed", False)
    assert run(["encoders", "check", str(small.path), "--device", "cpu"]) == 1
    assert run(["encoders", "check", str(small.path), "--device", "cuda"]) == 1
    assert "CUDA was asked for" in capsys.readouterr().err


ON_CARD = "--precision", "fp16", "--device", "cuda"


@pytest.mark.torch
@pytest.mark.usefixtures("half")
def test_a_graph_that_waits_for_the_cpu_is_published_only_if_forced(
    hugging_face: dict[str, Path], tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    target = tmp_path / "model"
    words = ["export", str(hugging_face["bert"]), "-o", str(target), *ON_CARD]
    assert run(words) == 1
    captured = capsys.readouterr()
    assert "tiny-bert in fp16 on H100: " in captured.out
    assert "the card waits for the CPU at Add, " in captured.err
    assert "tiny-bert in fp16 fails on the H100; take another --precision, or --force" in captured.err
    assert not target.exists()
    assert run([*words, "--force", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    check = result["device"]
    assert (check["device"], check["passed"], check["parity"]["passed"]) == ("H100", False, True)
    assert json.loads((target / "device.json").read_text(encoding="utf-8")) == check
    assert ModelFolder.open(target).config.build_id == result["build"]
    monkeypatch.setattr(device_check, "read_profile", lambda *_: ({}, set()))
    assert [run(words) for _ in range(2)] == [0, 0]
    assert json.loads((target / "device.json").read_text(encoding="utf-8"))["passed"]


@pytest.mark.torch
@pytest.mark.usefixtures("half")
def test_a_reranker_is_checked_on_the_cpu_alone(tmp_path: Path, capsys: Capture) -> None:
    assert run(["export", str(save_reranker(tmp_path / "reranker")), "-o", str(tmp_path / "made"), *ON_CARD]) == 1
    assert "is a reranker, which is checked on the CPU alone; leave --device out" in capsys.readouterr().err


def test_int8_or_a_missing_card_is_refused_at_once(tmp_path: Path, monkeypatch: Patch, capsys: Capture) -> None:
    words = ["export", DEFAULT, "-o", str(tmp_path / "model")]
    assert run([*words, *ON_CARD]) == 1
    assert "CUDA was asked for" in capsys.readouterr().err
    install_cards(monkeypatch, Library(["H100"]))
    install_provider(monkeypatch)
    assert run([*words, "--device", "cuda"]) == 1
    assert "a graph in int8 runs on CPUs alone; take --precision fp16, or --device cpu" in capsys.readouterr().err


TEXTS = [GateText("en", "query" if at % 4 == 0 else "document", f"text {at}") for at in range(60)]


def vectors(seed: int = 0) -> FloatArray:
    return unit_rows(np.random.default_rng(seed).normal(size=(len(TEXTS), 32)).astype(np.float32))


def turned(rows: FloatArray, cosine: float) -> FloatArray:
    noise = np.random.default_rng(9).normal(size=rows.shape).astype(np.float32)
    across = unit_rows(noise - np.einsum("ij,ij->i", noise, rows)[:, None] * rows)
    return np.asarray(cosine * rows + np.sqrt(1 - cosine**2) * across, dtype=np.float32)


def test_one_bad_text_is_enough_and_is_named_and_vectors_that_can_t_be_compared_are_refused() -> None:
    spoilt, broken = vectors(), vectors()
    spoilt[17] *= -1
    report = compare("q4", TEXTS, spoilt, vectors())
    assert (report.passed, report.worst) == (False, "text 17")
    assert report.shortfalls()[0] == "cosine_min -1.0000 < 0.95"
    broken[3, 3] = np.nan
    with pytest.raises(BadInput, match=r"the fp16 graph overflows.*export with --precision fp32"):
        compare("fp16", TEXTS, broken, vectors())
    with pytest.raises(BadInput, match=r"shape \(60, 16\), the model \(60, 32\)"):
        compare("fp32", TEXTS, vectors()[:, :16], vectors())


@pytest.mark.parametrize(
    ("cosine", "passes"),
    [(0.9, set()), (0.99995, {*get_args(Precision)}), (0.9996, {"fp16", "int8", "q4"}), (0.995, {"int8", "q4"})],
)
def test_a_cosine_is_reported_and_passes_where_its_bar_is_lower(cosine: float, passes: set[str]) -> None:
    moved = 3 * turned(vectors(), cosine)  # whatever their length
    reports = {precision: compare(precision, TEXTS, moved, vectors()) for precision in get_args(Precision)}
    for report in reports.values():
        assert (report.cosine_mean, report.cosine_min) == pytest.approx((cosine, cosine), abs=1e-5)
    assert {name for name, report in reports.items() if report.cosine_min >= report.bar.cosine_min} == passes


@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_agreement_is_the_overlap_of_the_two_rankings(seed: int, depth: int) -> None:
    rng = np.random.default_rng(seed)
    ours, theirs = (unit_rows(rng.normal(size=(30, 8)).astype(np.float32)) for _ in range(2))
    is_query = np.arange(30) % 3 == 0
    documents = np.flatnonzero(~is_query)
    shares = []
    for query in np.flatnonzero(is_query):
        tops = [documents[np.argsort(-rows[documents] @ rows[query])[:depth]].tolist() for rows in (ours, theirs)]
        shares.append(len(set(tops[0]) & set(tops[1])) / depth)
    assert top_agreement(ours, theirs, is_query, depth) == pytest.approx(np.mean(shares))


def test_a_report_is_json_and_a_table_for_who_did_not_ask_for_quiet(capsys: Capture) -> None:
    report = replace(compare("int8", TEXTS, turned(vectors(), 0.5), vectors()), forced=True)
    stated = json.loads(json.dumps(report.as_json(), allow_nan=False))
    assert (stated["passed"], stated["forced"], stated["texts"]) == (False, True, 60)
    assert stated["bar"] == {"cosine_min": 0.97, "cosine_mean": 0.99, "top10_agreement": 0.8}
    assert [row[3] for row in report.rows()] == ["below", "below", "below"]
    report = compare("int8", TEXTS, vectors(), vectors())
    require_parity(report, "the graph", Console(), force=False)
    assert "the graph against torch" in capsys.readouterr().out
    require_parity(report, "the graph", Console(quiet=True), force=False)
    assert capsys.readouterr() == ("", "")


def test_the_gate_goes_the_way_of_other_commands_and_cuts_long_texts(small: ModelFolder) -> None:
    reference = encode(small, GATE)
    assert check_parity(small, GATE, reference).cosine_min == pytest.approx(1, abs=1e-6)
    other_prefix = ModelFolder(small.path, replace(small.config, query_prefix=""))
    assert check_parity(other_prefix, GATE, reference).cosine_min < 0.99
    assert np.isfinite(encode(small, [GateText("en", "document", "water " * 2000)])).all()
