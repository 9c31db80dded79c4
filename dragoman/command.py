"""The program of the command ``dragoman``: its own packages come first, then the command is imported and run."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path

_PACKAGES = ("query", "indexer", "onnx_export", "encoders")


def main() -> None:
    """Run the command, also where the user's own modules have names of Dragoman's packages."""
    put_own_packages_first()
    from query.cli import main as command  # noqa: PLC0415 - not before the path is in order

    command()


def put_own_packages_first() -> None:
    """Move entries of ``sys.path`` with modules of the packages' names behind the folder of this installation.

    With ``PYTHONPATH=.`` the working directory stands before all installed packages. Processes that are spawned get the
    path in this order, too.
    """
    own = Path(__file__).resolve().parents[1]
    shadowing = [
        entry
        for entry in sys.path
        if Path(entry).resolve() != own and any(PathFinder.find_spec(name, [entry]) for name in _PACKAGES)
    ]
    sys.path[:] = [entry for entry in sys.path if entry not in shadowing] + shadowing
