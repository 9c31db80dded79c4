"""The program of the command ``dragoman``: its own packages come first, then the command is imported and run."""

import gc
import importlib
import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

_PACKAGES = ("query", "indexer", "onnx_export", "encoders")
_ON_ALL_CORES = ("align", "mates", "train")
"""Commands of few and large matrix products, which OpenBLAS divides among the cores.

The products of all other commands are many and small. There OpenBLAS takes twice the processor's time on two cores, and
where other work has the cores each product waits for it: a search takes ten times as long.
"""


def main() -> None:
    """Run the command, also where the user's own modules have names of Dragoman's packages."""
    put_own_packages_first()
    gc.disable()  # until the command is imported
    if sys.argv[1:2] not in ([name] for name in _ON_ALL_CORES):
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy reads it when it is imported
    if sys.argv[1:2] == ["status"]:
        _load_when_used("numpy")
    from query.cli import main as command  # noqa: PLC0415 - not before the path is in order

    command()


def _load_when_used(package: str) -> None:
    """Import a package when something of it is used; ``importlib``'s lazy loader would do it at the next ``import``."""
    empty = ModuleType(package)
    empty.__spec__ = PathFinder.find_spec(package)

    def load(name: str) -> Any:
        if sys.modules.get(package) is empty:  # otherwise another thread imports it
            del sys.modules[package]
        vars(empty).update(vars(importlib.import_module(package)))
        return getattr(empty, name)

    vars(empty)["__getattr__"] = load
    sys.modules[package] = empty


def put_own_packages_first() -> None:
    """Move entries of ``sys.path`` with modules of the packages' names back; ``PYTHONPATH=.`` puts one first."""
    own = Path(__file__).resolve().parents[1]
    shadowing = [
        entry
        for entry in sys.path
        if Path(entry).resolve() != own and any(PathFinder.find_spec(name, [entry]) for name in _PACKAGES)
    ]
    sys.path[:] = [entry for entry in sys.path if entry not in shadowing] + shadowing
