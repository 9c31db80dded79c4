"""Decide where graphs run, before a graph is loaded: on the CPU, or on an NVIDIA GPU that can run them."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

from encoders.errors import BadInput, MissingPart
from encoders.phrases import install_command

Device = str
"""``auto``, ``cpu``, ``cuda`` (the first card) or ``cuda:N``."""

DEVICES = re.compile(r"auto|cpu|cuda(:\d+)?")
"""The names of devices."""
NO_DEVICE = "{!r} is no device; take auto, cpu, cuda or cuda:N"

_CUDA_13 = (1, 27)
"""First version of ``onnxruntime-gpu`` that is for CUDA 13; earlier ones are for CUDA 12."""
_DRIVERS = {13: 580, 12: 525}
"""The NVIDIA driver that each CUDA needs."""
_CAPABILITIES = {13: (7, 5), 12: (6, 0)}
"""Compute capability of the oldest cards that ONNX Runtime's kernels for each CUDA know (Turing, Pascal)."""
_INSTALL = f"{install_command('gpu')} (before driver {_DRIVERS[13]}: {install_command('gpu12')})"
_NO_RUNTIME = f"this ONNX Runtime has no CUDA; install it: {_INSTALL}"
_sharers = 1
"""Processes that share each card."""


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
    free: int  # bytes of memory that nobody uses, at most this process's part of the card
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

    Raises BadInput: it is no device; MissingPart: ONNX Runtime, or a card that runs them and is asked for, is missing.
    """
    if not DEVICES.fullmatch(str(device)):
        raise BadInput(NO_DEVICE.format(device))
    if device == "cpu":
        return CPU
    check_runtime()
    if not is_installed("onnxruntime-gpu"):
        if device == "auto":
            return CPU
        raise NoCuda(_NO_RUNTIME)
    try:
        return Placement(_usable_gpu(int(device.partition(":")[2] or 0)))
    except _Unusable as unusable:
        if device == "auto":
            return Placement(remark=f"works on the CPU: {unusable}")
        raise NoCuda(str(unusable)) from unusable


def worker_devices(device: Device) -> list[Device]:
    """Devices of a worker: for ``cuda`` all cards that can run graphs, if any; else ``device`` alone."""
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


def share_gpus(processes: int) -> None:
    """Count on so many processes on each card, this one among them: each has its part of the memory."""
    global _sharers  # noqa: PLW0603 - a process learns it once, when it starts
    _sharers = processes


def cuda_version() -> int:
    """The CUDA, 12 or 13, that the installed ``onnxruntime-gpu`` is for."""
    version = distribution("onnxruntime-gpu").version.split(".")
    return 13 if (int(version[0]), int(version[1])) >= _CUDA_13 else 12


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
            f"keep one of them: {install_command('cpu')}, or for CUDA: {_INSTALL}"
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
    cuda = cuda_version()
    with _nvml() as nvml:
        driver = nvml.nvmlSystemGetCudaDriverVersion()
        if driver // 1000 < cuda:
            other = f", or ONNX Runtime for CUDA 12: {install_command('gpu12')}" * (driver // 1000 == 12)
            raise _Unusable(
                f"the NVIDIA driver knows CUDA {driver // 1000}.{driver % 1000 // 10} and ONNX Runtime needs {cuda}; "
                f"install driver {_DRIVERS[cuda]} or later{other}"
            )
        handles = _visible(nvml)
        if number >= len(handles):
            seen = f"this process sees {len(handles)} (CUDA_VISIBLE_DEVICES)" if len(handles) else "it sees none"
            raise _Unusable(f"there is no NVIDIA card {number}: {seen}; name another")
        handle = handles[number]
        name = str(nvml.nvmlDeviceGetName(handle))
        is_slice = str(nvml.nvmlDeviceGetUUID(handle)).startswith("MIG-")
        card = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle) if is_slice else handle
        capability = tuple(nvml.nvmlDeviceGetCudaComputeCapability(card))
        if capability < (least := _CAPABILITIES[cuda]):
            alternative = f", or take CUDA 12: {install_command('gpu12')}" if capability >= _CAPABILITIES[12] else ""
            raise _Unusable(
                f"the {name} has compute capability {capability[0]}.{capability[1]} and CUDA {cuda} needs "
                f"{least[0]}.{least[1]}; name another{alternative}"
            )
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        free = min(int(memory.free), int(memory.total) // _sharers)  # others may have taken their parts
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
        raise _Unusable(
            f"there is no NVIDIA driver ({error}); install driver {_DRIVERS[cuda_version()]} or later"
        ) from error
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
            with suppress(nvml.NVMLError):
                handles.append(nvml.nvmlDeviceGetHandleByUUID(name))
            break  # CUDA shows a process one slice of a card
        else:  # the beginning of a UUID is enough, if it is one card's
            every = [nvml.nvmlDeviceGetHandleByIndex(number) for number in range(count)]
            named_so = [handle for handle in every if str(nvml.nvmlDeviceGetUUID(handle)).startswith(name)]
            if len(named_so) != 1:
                break
            handles += named_so
    return handles
