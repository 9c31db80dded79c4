"""Where graphs run, by what the driver says of the cards; the cores of a process; freed memory goes back."""

import os
import pickle
import resource
import subprocess
import sys
import threading
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from encoders.errors import BadInput, MissingPart
from encoders.folder.model_folder import ModelFolder
from encoders.inference.graph import GpuFailure, GpuFull
from encoders.inference.session import CPU_TOKEN_BUDGET, CUDA_TOKEN_BUDGET, OnnxSession, gpu_budget, memory_bounds
from encoders.machine import cores, placement
from encoders.machine.cores import on_all_cores
from encoders.machine.freed_memory import give_back_memory
from encoders.machine.placement import CPU, GpuUnavailable, NoCuda, place, share_gpus, worker_devices
from encoders.methods.sentence import SentenceEncoder
from tests.conftest import Capture, Log, Patch
from tests.encoders.gpus import GIB, Library, Sessions, install_cards, install_provider


def test_neither_or_both_runtimes_are_refused_with_the_fix(monkeypatch: Patch) -> None:
    monkeypatch.setattr(placement, "distribution", Mock(side_effect=PackageNotFoundError))
    with pytest.raises(MissingPart, match=r"not installed.*make install EXTRAS=cpu"):
        placement.check_runtime()
    monkeypatch.setattr(placement, "distribution", Mock())
    with pytest.raises(MissingPart, match=r"both installed.*keep one"):
        placement.check_runtime()


def test_without_onnx_runtime_for_cuda_auto_is_the_cpu_and_says_nothing(monkeypatch: Patch) -> None:
    monkeypatch.setattr(placement, "is_installed", lambda name: name == "onnxruntime")
    assert place("auto") == place("cpu") == CPU
    for name, error, hint in (("cuda", NoCuda, r"EXTRAS=gpu.*--device cpu"), ("gpu", BadInput, "take auto, cpu")):
        with pytest.raises(error, match=hint):
            place(name)


@pytest.mark.parametrize(
    ("names", "device", "card", "devices_of_workers"),
    [
        (["H100", "H200"], "cuda", "H100", ["cuda:0", "cuda:1"]),
        (["H100", "H200"], "cuda:0", "H100", ["cuda:0"]),
        (["H100", "H200"], "cuda:1", "H200", ["cuda:1"]),
        (["H100", "H200"], "auto", "H100", ["auto"]),
        (["H100", "H200"], "cpu", None, ["cpu"]),
        ([], "auto", None, ["auto"]),
    ],
)
def test_the_first_card_is_taken_or_that_of_a_number_and_a_worker_has_a_process_for_each(
    names: list[str], device: str, card: str | None, devices_of_workers: list[str], monkeypatch: Patch
) -> None:
    install_cards(monkeypatch, Library(names))
    placed = place(device)
    assert (placed.gpu and (placed.gpu.name, placed.gpu.free)) == (card and (card, 80 * GIB))
    assert placed.device == {"H100": "cuda:0", "H200": "cuda:1", None: "cpu"}[card]
    assert worker_devices(device) == devices_of_workers


def test_a_card_with_little_memory_gets_small_batches(small: ModelFolder) -> None:
    def budget(gib: float, **changes: Any) -> int:
        return gpu_budget(int(gib * GIB), ModelFolder(small.path, replace(small.config, **changes)))

    assert budget(80, dim=384, precision="fp16") == budget(16, dim=384, precision="fp16") == CUDA_TOKEN_BUDGET
    of_384, of_1024 = (budget(4, dim=dim, precision="fp16") for dim in (384, 1024))
    assert CPU_TOKEN_BUDGET < of_1024 < of_384 < CUDA_TOKEN_BUDGET
    assert budget(4, dim=384, precision="fp32") == of_384 // 2
    assert budget(4, dim=1, pooling="cross-encoder", precision="fp16") == of_1024
    assert budget(0, dim=384) == CPU_TOKEN_BUDGET


def test_an_older_card_s_bounds_are_said(small: ModelFolder, monkeypatch: Patch) -> None:
    """ONNX Runtime for CUDA 12 knows older drivers and cards."""
    install_cards(monkeypatch, Library(["P100"], driver=12_040, capability=(6, 0), runtime="1.26.0"))
    gpu = place("cuda").gpu
    assert gpu
    assert gpu.free == 80 * GIB
    half = ModelFolder(small.path, replace(small.config, dim=1024, precision="fp16"))
    batch = f"{gpu_budget(80 * GIB, half):,}"
    assert memory_bounds(gpu, half) == f"80.0 GB free, weights 0.0 GB, 2 batches of at most {batch} tokens"
    with pytest.raises(GpuUnavailable, match=r"the weights are 0\.0 GB, and 0\.0 GB of its memory are free"):
        memory_bounds(replace(gpu, free=9), half)
    monkeypatch.setattr("encoders.machine.placement._sharers", 1)  # and put back
    share_gpus(3)
    assert (shared := place("cuda").gpu)
    assert shared.free == 141 * GIB // 3  # although others have taken their parts


@pytest.mark.parametrize(
    ("visible", "names"),
    [("1,0", ["H200", "H100"]), ("GPU-H200", ["H200"]), ("GPU-H200-01", ["H200"]), ("0,7,1", ["H100"])]
    + [(slices, ["MIG-1"]) for slices in ("MIG-1", "MIG-1,MIG-2")]
    + [(none, []) for none in ("", "-1", "GPU-x", "GPU-H", "MIG-9,0")],
)
def test_cards_are_counted_as_cuda_counts_them(visible: str, names: list[str], monkeypatch: Patch) -> None:
    install_cards(monkeypatch, Library(["H100", "H200", "MIG-1", "MIG-2"]))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    for number, name in enumerate(names):
        assert (card := place(f"cuda:{number}").gpu)
        assert card.name == name
    with pytest.raises(NoCuda, match=f"no NVIDIA card {len(names)}"):
        place(f"cuda:{len(names)}")


@pytest.mark.parametrize(
    ("library", "reason"),
    [
        (None, r"nvidia-ml-py is not installed.*make install EXTRAS=gpu"),
        (Library([], failure="Driver Not Loaded"), r"no NVIDIA driver \(Driver Not Loaded\); install driver 580"),
        (Library(["H100"], driver=12_040), r"CUDA 12\.4 .* needs 13; install driver 580 or later, or .*=gpu12"),
        (Library(["H100"], driver=11_080, runtime="1.26.0"), r"CUDA 11\.8 .* needs 12; install driver 525 .*, or take"),
        (Library(["P100"], capability=(6, 0)), r"the P100 has compute capability 6\.0 .* EXTRAS=gpu12"),
        (Library([]), "no NVIDIA card 0: it sees none"),
    ],
)
def test_where_no_card_can_be_used_auto_takes_the_cpu(library: Library | None, reason: str, monkeypatch: Patch) -> None:
    install_cards(monkeypatch, library)
    placement = place("auto")
    assert placement.gpu is None
    with pytest.raises(NoCuda, match=reason) as refused:
        place("cuda")
    assert placement.remark == f"works on the CPU: {refused.value.reason}"


def test_a_graph_in_int8_runs_on_no_card(default_folder: ModelFolder, monkeypatch: Patch) -> None:
    install_cards(monkeypatch, Library(["H100"]))
    sessions = install_provider(monkeypatch)
    assert OnnxSession(default_folder, device="auto").device == "cpu"
    with pytest.raises(BadInput, match=r"int8, which runs on CPUs alone.*--precision fp16.*--device cpu"):
        OnnxSession(default_folder, device="cuda")
    assert [providers for _, providers in sessions.asked] == [["CPUExecutionProvider"]]


def test_a_card_s_failure_is_a_sentence(card: tuple[OnnxSession, Sessions], small: ModelFolder, capfd: Capture) -> None:
    session, sessions = card
    assert session.device == "cuda"
    (_, (cuda, cpu)) = sessions.asked[0]
    assert cuda == ("CUDAExecutionProvider", {"device_id": "0", "arena_extend_strategy": "kSameAsRequested"})
    assert cpu == "CPUExecutionProvider"
    small = ModelFolder(small.path, replace(small.config, precision="fp16"))
    sessions.silent = True
    with pytest.raises(NoCuda, match=r"can't use the H100: a library .* is missing \(Failed to load libcudnn\.so\.9"):
        OnnxSession(small, device="cuda")
    sessions.error = "CUDA failure 2: out of memory\nat line 1"
    with pytest.raises(NoCuda, match=r"the H100 can't run the graph \(CUDA failure 2: out of memory\)"):
        OnnxSession(small, device="auto")
    assert capfd.readouterr() == ("", "")


@pytest.fixture
def card(small: ModelFolder, monkeypatch: Patch) -> tuple[OnnxSession, Sessions]:
    """A session on a pretended card, and what it is asked for."""
    install_cards(monkeypatch, Library(["H100"]))
    sessions = install_provider(monkeypatch)
    return OnnxSession(ModelFolder(small.path, replace(small.config, precision="fp16")), device="cuda"), sessions


ROWS = [np.arange(5, 9, dtype=np.int32)] * 4


def test_a_lost_card_is_a_sentence_and_no_input_s_error(card: tuple[OnnxSession, Sessions], monkeypatch: Patch) -> None:
    """A card whose numbers are not finite is lost, else a document would be taken for one that nobody knows."""
    session, sessions = card
    assert np.isfinite(session.run(ROWS, 1)).all()
    sessions.failures = ["CUDA failure 700: an illegal memory access"] * 2
    with pytest.raises(GpuFailure, match="CUDA failure 700"):
        session.run(ROWS, 1)
    sessions.failures = ["indices out of range"]
    with pytest.raises(RuntimeError, match="indices out of range"):
        session.run(ROWS, 1)
    sessions.failures = []
    real, nan = session._graph.session.run, np.float32(np.nan)
    monkeypatch.setattr(session._graph.session, "run", lambda *asked: [nan * real(*asked)[0]])
    for rows in (ROWS, ROWS[:1]):
        with pytest.raises(GpuFailure, match=r"the H100 computes nothing any more \(its numbers are not finite\)"):
            session.run(rows, 1)


def test_an_overflow_is_that_text_s_fault(card: tuple[OnnxSession, Sessions], monkeypatch: Patch) -> None:
    session, _ = card
    real = session._graph.session.run

    def overflowing(outputs: list[str], inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        vectors = real(outputs, inputs)[0]
        vectors[(inputs["input_ids"] == 99).any(axis=1)] = np.inf
        return [vectors]

    monkeypatch.setattr(session._graph.session, "run", overflowing)
    rows = [*ROWS, np.full(4, 99, dtype=np.int32)]
    assert not np.isfinite(session.run(rows[-1:], 1)).any()  # though it is the first
    assert np.isfinite(session.run(rows, 1)).all(axis=1).tolist() == [True] * 4 + [False]


def test_a_card_that_fails_at_once_is_unavailable(card: tuple[OnnxSession, Sessions], small: ModelFolder) -> None:
    card[1].failures = ["CUDA failure 2: out of memory"]
    with pytest.raises(GpuUnavailable, match=r"the H100 can't run the graph \(CUDA failure 2") as error:
        OnnxSession(ModelFolder(small.path, replace(small.config, precision="fp16")), device="cuda")
    again = pickle.loads(pickle.dumps(error.value))
    assert (type(again), str(again)) == (GpuUnavailable, str(error.value))


def test_a_full_card_gets_halves_a_while(card: tuple[OnnxSession, Sessions], monkeypatch: Patch, caplog: Log) -> None:
    session, sessions = card
    monkeypatch.setattr("encoders.inference.session._HALVED", 2)
    whole = session.run(ROWS, 1)
    sessions.rows.clear()  # that of the sample, and the batch
    sessions.failures = ["Failed to allocate memory for requested buffer of size 1", "", ""]
    assert np.allclose(session.run(ROWS, 1), whole, atol=1e-6)
    assert sessions.rows == [4, 2, 2]
    assert "a batch of 16 tokens is halved: the H100 has no memory left" in caplog.text
    for _ in range(3):
        session.run(ROWS, 1)
    assert sessions.rows == [4, *[2, 2] * 3, 4]
    sessions.failures = ["CUDA error: out of memory"]
    with pytest.raises(GpuFull, match="no memory left for an input of 1 × 4, 1 × 4; nvidia-smi says"):
        session.run(ROWS[:1], 1)


def test_queries_are_encoded_together_on_a_card(card: tuple[OnnxSession, Sessions], small: ModelFolder) -> None:
    session, sessions = card
    sessions.rows.clear()
    together = session.run(ROWS, 1, alone=True)
    assert sessions.rows == [4]
    assert np.allclose(together, OnnxSession(small, device="cpu").run(ROWS, 1, alone=True), atol=1e-5)
    half = ModelFolder(small.path, replace(small.config, precision="fp16"))
    takes = [SentenceEncoder(half, device=device).tokenizer.takes_tokie for device in ("cpu", "cuda")]
    assert takes == [False, True]


def test_work_on_all_cores_meets_and_its_results_are_in_order(monkeypatch: Patch) -> None:
    monkeypatch.setattr(cores, "available_cores", lambda: 3)
    together = threading.Barrier(3)

    def halved(number: int) -> float:
        together.wait(timeout=20)  # were fewer at work at once, they would wait for the others in vain
        return 6 / number

    assert on_all_cores(halved, (1, 2, 3)) == [6.0, 3.0, 2.0]
    with pytest.raises(ZeroDivisionError):
        on_all_cores(halved, (1, 0, 3))


@pytest.mark.parametrize(("quota", "count"), [("max 100000", 8), ("200000 100000", 2), ("50000 100000", 1)])
@pytest.mark.parametrize(
    ("membership", "group"),
    [
        ("0::/", ""),
        ("0::/system.slice/docker-1.scope", ""),
        ("0::/system.slice/dragoman.service", "system.slice/dragoman.service"),
        ("0::/system.slice/dragoman.service", "system.slice"),
        ("9:name=systemd:/\n4:cpu,cpuacct:/box/inner\n0::/", "cpu,cpuacct/box"),
    ],
)
def test_the_share_of_time_of_a_container_or_a_unit_limits_the_cores(
    tmp_path: Path, monkeypatch: Patch, membership: str, group: str, quota: str, count: int
) -> None:
    folder = tmp_path / "sys/fs/cgroup" / group
    files = {folder / "cpu.max": quota}
    if group.startswith("cpu"):  # version 1
        numbers = quota.replace("max", "-1").split()
        files = dict(zip((folder / "cpu.cfs_quota_us", folder / "cpu.cfs_period_us"), numbers, strict=True))
    for file, text in {**files, tmp_path / "proc/self/cgroup": membership}.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert cores.available_cores(tmp_path) == count


_EIGHT_THREADS = """
import ctypes, threading
from encoders.machine.freed_memory import share_arenas

share_arenas(2)
together = threading.Barrier(8)

def allocate():
    together.wait()
    allocated = [bytearray(5_000) for _ in range(1_000)]
    together.wait()

threads = [threading.Thread(target=allocate) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
ctypes.CDLL(None).malloc_stats()
"""


_ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: its glibc keeps memory that was freed")


@_ON_LINUX
def test_memory_of_many_freed_objects_goes_back() -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()

    objects = [bytes(1_000) for _ in range(100_000)]
    last = bytes(1_000)  # glibc gives back the end of the heap by itself
    full = resident()
    objects.clear()
    give_back_memory()
    assert full - resident() > 50 << 20
    assert last


@_ON_LINUX
def test_threads_share_a_bounded_number_of_arenas() -> None:
    command = [sys.executable, "-c", _EIGHT_THREADS]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stderr.count("Arena ") == 2
