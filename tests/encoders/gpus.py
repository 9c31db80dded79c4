"""Pretended NVIDIA cards: NVIDIA's management library and a provider that computes on the CPU and says CUDA."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import onnxruntime
import pytest

from encoders.inference import graph
from encoders.machine import placement

GIB = 1 << 30


class NVMLError(Exception):
    """The library's error."""


@dataclass
class Library:
    names: list[str]
    driver: int = 13_000
    capability: tuple[int, int] = (9, 0)
    failure: str = ""
    runtime: str = "1.30.0"  # version of ONNX Runtime for CUDA
    NVMLError = NVMLError

    def __getattr__(self, name: str) -> Any:
        functions: dict[str, Callable[..., Any]] = {
            "nvmlInit": self._init,
            "nvmlShutdown": lambda: None,
            "nvmlSystemGetCudaDriverVersion": lambda: self.driver,
            "nvmlDeviceGetCount": lambda: len(self.names),
            "nvmlDeviceGetHandleByIndex": lambda number: self.names[number],
            "nvmlDeviceGetHandleByUUID": self._of_uuid,
            "nvmlDeviceGetUUID": lambda handle: handle if handle.startswith("MIG-") else f"GPU-{handle}-0123",
            "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": lambda handle: handle,
            "nvmlDeviceGetName": lambda handle: handle,
            "nvmlDeviceGetCudaComputeCapability": lambda _: self.capability,
            "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(free=80 * GIB, total=141 * GIB),
        }
        if name not in functions:
            raise AttributeError(name)
        return functions[name]

    def _init(self) -> None:
        if self.failure:
            raise NVMLError(self.failure)

    def _of_uuid(self, uuid: str) -> str:
        if uuid.removeprefix("GPU-") not in self.names:
            raise NVMLError("not found")
        return uuid.removeprefix("GPU-")


@dataclass
class Sessions:
    """The sessions that were asked for: each graph's path and providers; and how CUDA behaves."""

    asked: list[tuple[str, list[Any]]] = field(default_factory=list)
    error: str = ""  # message of a failure at loading
    failures: list[str] = field(default_factory=list)  # at running, the next first; an empty message is none
    rows: list[int] = field(default_factory=list)  # of each run on the card
    silent: bool = False  # CUDA is left out without an error, as where a library is missing


def install_cards(patch: pytest.MonkeyPatch, library: Library | None) -> None:
    """Pretend that ``onnxruntime-gpu`` is installed, and that the library sees its cards; none: it isn't installed."""
    patch.setitem(sys.modules, "pynvml", library)
    patch.setattr(placement, "is_installed", lambda name: name == "onnxruntime-gpu")
    version = library.runtime if library else "1.30.0"
    patch.setattr(placement, "distribution", lambda _: SimpleNamespace(version=version))
    patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    patch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")


def install_provider(patch: pytest.MonkeyPatch) -> Sessions:
    """Pretend that ONNX Runtime has CUDA: graphs run on the CPU, and sessions say that they don't."""
    sessions = Sessions()
    real: Callable[..., onnxruntime.InferenceSession] = onnxruntime.InferenceSession

    class OnCard:
        def __init__(self, session: onnxruntime.InferenceSession, names: list[str]) -> None:
            self._session, self._names = session, names

        def get_providers(self) -> list[str]:
            return self._names

        def run(self, outputs: list[str], inputs: dict[str, Any]) -> Any:
            sessions.rows.append(len(next(iter(inputs.values()))))
            if sessions.failures and (message := sessions.failures.pop(0)):
                raise RuntimeError(message)
            return self._session.run(outputs, inputs)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._session, name)

    def made(path: str, options: Any, *, providers: list[Any], **others: Any) -> Any:
        sessions.asked.append((path, providers))
        names = [one if isinstance(one, str) else one[0] for one in providers]
        if "CUDAExecutionProvider" not in names:
            return real(path, options, providers=providers, **others)
        if sessions.error:
            raise RuntimeError(sessions.error)
        session = real(path, options, providers=["CPUExecutionProvider"], **others)
        return OnCard(session, names[1:] if sessions.silent else names)

    patch.setattr(onnxruntime, "InferenceSession", made)
    patch.setattr(onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"])
    printed = "Failed to load libcudnn.so.9: no such file"
    patch.setattr(graph, "remove_padding", lambda _model: False)  # the CPU has no kernels for it
    patch.setattr(onnxruntime, "preload_dlls", lambda: print(printed), raising=False)
    return sessions
