"""Decide where graphs run, before a graph is loaded: on the CPU, or on an NVIDIA GPU that can run them."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

from encoders.errors import MissingPart
from encoders.phrases import install_command

Device = str
"""``auto``, ``cpu``, ``cuda`` (the first card) or ``cuda:N``."""

DEVICES = re.compile(r"auto|cpu|cuda(:\d+)?")
"""The names of devices."""

_LEAST_DRIVER = 13_000
"""CUDA version that the driver must know, in NVML's form: ``onnxruntime-gpu`` from 1.27 on is for CUDA 13."""
_LEAST_CAPABILITY = (7, 5)
"""Compute capability of the oldest cards that CUDA 13 knows (Turing)."""
_NO_RUNTIME = f"this ONNX Runtime has no CUDA; install it: {install_command('gpu')}"


class NoCuda(MissingPart):
    """No card can run a graph; ``reason`` says why, and what to do."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"CUDA was asked for, but {reason}, or take --device cpu")
        self.reason = reason

    def __reduce__(self) -> "tuple[type[NoCuda], tuple[str, ...]]":
        """Made from the reason, in another process too."""
        return NoCuda, (self.reason,)


class GpuUnavailable(NoCuda):
    """A card can't run a graph now: it may be full or lost, and may recover."""

    def __init__(self, gpu: str, reason: str) -> None:
        super().__init__(f"the {gpu} can't run the graph ({reason}); see nvidia-smi")
        self._made_of = gpu, reason

    def __reduce__(self) -> tuple[type[NoCuda], tuple[str, ...]]:
        return GpuUnavailable, self._made_of


@dataclass(frozen=True)
class Gpu:
    """An NVIDIA GPU that this process may use."""

    number: int  # its place among the cards that this process sees, as CUDA counts them
    name: str
    free: int  # bytes of memory that nobody uses
    capability: tuple[int, int]  # compute capability


@dataclass(frozen=True)
class Placement:
    """Where graphs run."""

    gpu: Gpu | None = None  # the GPU; none: the CPU
    remark: str = ""  # why ``auto`` takes the CPU although ONNX Runtime for CUDA is installed; empty otherwise

    @property
    def device(self) -> Device:
        """``cpu``, or the card as ``cuda:N``."""
        return f"cuda:{self.gpu.number}" if self.gpu else "cpu"


CPU = Placement()


def place(device: Device) -> Placement:
    """Decide where graphs run; ``auto`` takes the first card if it can run them, and otherwise the CPU.

    Raises MissingPart: ONNX Runtime is missing, or ``device`` asks for a card that is not there or can't run graphs.
    """
    if device == "cpu":
        return CPU
    check_runtime()
    if not is_installed("onnxruntime-gpu"):
        if device == "auto":
            return CPU
        raise NoCuda(_NO_RUNTIME)
    try:
        return Placement(_usable_gpu(int(device.removeprefix("cuda:")) if ":" in device else 0))
    except _Unusable as unusable:
        if device == "auto":
            return Placement(remark=f"works on the CPU: {unusable}")
        raise NoCuda(str(unusable)) from unusable


def worker_devices(device: Device) -> list[Device]:
    """Devices of a worker's processes: for ``cuda`` all cards that can run graphs, if any; else ``device`` alone."""
    if device != "cuda" or not is_installed("onnxruntime-gpu"):
        return [device]
    cards: list[Device] = []
    with suppress(_Unusable):  # there is no driver
        with _nvml() as nvml:
            count = len(_visible(nvml))
        for number in range(count):
            with suppress(_Unusable):
                cards.append(f"cuda:{_usable_gpu(number).number}")
    return cards or [device]


def check_runtime() -> None:
    """Check that ``onnxruntime`` is installed, with or without ``-gpu``. Raises MissingPart: neither or both are."""
    present = [name for name in ("onnxruntime", "onnxruntime-gpu") if is_installed(name)]
    if not present:
        raise MissingPart(
            f"ONNX Runtime is not installed; install it: {install_command('cpu')} (for CUDA: {install_command('gpu')})"
        )
    if len(present) == 2:
        raise MissingPart(
            "onnxruntime and onnxruntime-gpu are both installed and overwrite each other; "
            f"keep one of them: {install_command('cpu')}, or for CUDA: {install_command('gpu')}"
        )


def is_installed(name: str) -> bool:
    """Whether a distribution is installed."""
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


class _Unusable(Exception):
    """A card can't be used; the message says why, and what to do."""


def _usable_gpu(number: int) -> Gpu:
    """The card of a number, as CUDA counts visible cards. Raises _Unusable: there is none, or it can't run graphs."""
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # CUDA then counts cards as NVML does
    with _nvml() as nvml:
        driver = nvml.nvmlSystemGetCudaDriverVersion()
        if driver < _LEAST_DRIVER:
            raise _Unusable(
                f"the NVIDIA driver knows CUDA {driver // 1000}.{driver % 1000 // 10} and ONNX Runtime needs "
                f"{_LEAST_DRIVER // 1000}; install driver 580 or later"
            )
        handles = _visible(nvml)
        if number >= len(handles):
            seen = f"this process sees {len(handles)} (CUDA_VISIBLE_DEVICES)" if len(handles) else "it sees none"
            raise _Unusable(f"there is no NVIDIA card {number}: {seen}; name another")
        name = str(nvml.nvmlDeviceGetName(handles[number]))
        capability = tuple(nvml.nvmlDeviceGetCudaComputeCapability(handles[number]))
        if capability < _LEAST_CAPABILITY:
            raise _Unusable(
                f"the {name} has compute capability {capability[0]}.{capability[1]} and CUDA 13 needs 7.5; name another"
            )
        free = int(nvml.nvmlDeviceGetMemoryInfo(handles[number]).free)
        return Gpu(number, name, free, (capability[0], capability[1]))


@contextmanager
def _nvml() -> Iterator[Any]:
    """NVIDIA's library asks a driver without CUDA, so a process may fork later. Raises _Unusable: the driver fails."""
    try:
        import pynvml  # noqa: PLC0415 - only where ONNX Runtime for CUDA is installed
    except ImportError as error:
        raise _Unusable(f"nvidia-ml-py is not installed; install it: {install_command('gpu')}") from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise _Unusable(f"there is no NVIDIA driver ({error}); install driver 580 or later") from error
    try:
        yield pynvml
    except pynvml.NVMLError as error:
        raise _Unusable(f"the NVIDIA driver fails ({error}); see nvidia-smi") from error
    finally:
        pynvml.nvmlShutdown()


def _visible(nvml: Any) -> list[Any]:
    """Handles of the cards that this process sees, in CUDA's order; like CUDA's, the list ends at a name of no card."""
    count = nvml.nvmlDeviceGetCount()
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return [nvml.nvmlDeviceGetHandleByIndex(number) for number in range(count)]
    handles: list[Any] = []
    for name in filter(None, map(str.strip, named.split(","))):
        if name.isdecimal():
            if int(name) >= count:
                break
            handles.append(nvml.nvmlDeviceGetHandleByIndex(int(name)))
        elif name.startswith("MIG-"):
            try:
                handles.append(nvml.nvmlDeviceGetHandleByUUID(name))
            except nvml.NVMLError:
                break
        else:  # the beginning of a UUID is enough, if it is one card's
            every = [nvml.nvmlDeviceGetHandleByIndex(number) for number in range(count)]
            named_so = [handle for handle in every if str(nvml.nvmlDeviceGetUUID(handle)).startswith(name)]
            if len(named_so) != 1:
                break
            handles += named_so
    return handles
