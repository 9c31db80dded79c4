"""What training takes of the memory, and how much there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from encoders.cr5.algebra.eigenvectors import BLOCK, most_shown
from encoders.cr5.algebra.ridge import DIRECT
from encoders.cr5.algebra.solver import KEPT, Block
from encoders.errors import BadInput
from encoders.session import available_cores

_KRYLOV = 3
"""Arrays of (concepts, dimensions) that are held beside the Krylov space."""
_SEEN = 3
"""Arrays of (documents, vectors) that applying the operator to some vectors takes."""
_WORKING = 7
"""Arrays of one row an equation that conjugate gradients hold."""


def check_memory(blocks: Mapping[str, Block], concepts: int, dimensions: int) -> None:
    """See that what is solved for fits beside what is held already.

    Raises:
        BadInput: it doesn't.
    """
    bytes_needed, free = needed(blocks, concepts, dimensions), free_memory()
    if bytes_needed > free:
        documents = sum(block.matrix.shape[0] for block in blocks.values())
        vocabulary = sum(block.matrix.shape[1] for block in blocks.values())
        raise BadInput(
            f"{documents:,} documents about {concepts:,} concepts and {vocabulary:,} words in {dimensions} dimensions "
            f"need about {bytes_needed / 1e9:,.1f} GB and {free / 1e9:,.1f} are free; "
            "give fewer --dimensions or documents"
        )


def needed(blocks: Mapping[str, Block], concepts: int, dimensions: int) -> int:
    """Bytes that training holds at most: factors, the Krylov space, what was solved, Φ and the languages at work."""
    shapes = [block.matrix.shape for block in blocks.values()]
    equations = [min(shape) for shape in shapes]
    shown = most_shown(concepts, dimensions)
    factors = 8 * sum(count**2 for count in equations if count <= DIRECT)
    kept = min(KEPT, 4 * shown * sum(equations))
    space = 4 * concepts * (shown + _KRYLOV * dimensions)
    at_work = max(_WORKING * min(shape) + shape[1] for shape in shapes)
    columns = sum(documents + words for documents, words in shapes) + at_work * available_cores()
    at_once = concepts if shown == concepts else BLOCK
    seen = 4 * at_once * _SEEN * sum(documents for documents, _ in shapes)
    return factors + kept + space + max(seen, 4 * dimensions * columns)


def free_memory(root: Path = Path("/")) -> float:
    """Bytes that can be had, the page cache's among them, within the control group's limit; no end if nothing says.

    Args:
        root: of the system's files.
    """
    return min([*_of_machine(root / "proc/meminfo"), *_of_groups(root)], default=float("inf"))


def _of_machine(meminfo: Path) -> Iterator[float]:
    if meminfo.is_file():
        told = dict(line.split(":", maxsplit=1) for line in meminfo.read_text(encoding="ascii").splitlines())
        if "MemAvailable" in told:
            yield 1024.0 * int(told["MemAvailable"].split()[0])


def _of_groups(root: Path) -> Iterator[float]:
    """What is left of the limits of the process's control group and those it is in (version 2, or memory's of 1)."""
    own = root / "proc/self/cgroup"
    if not own.is_file():
        return
    for line in own.read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", maxsplit=2)
        if controllers not in ("", "memory"):
            continue
        mount = root / "sys/fs/cgroup" / controllers
        limit, used, cache = _FILES[controllers]
        place = mount / path.strip("/")
        for group in (place, *place.parents):
            if group.is_relative_to(mount):
                yield from _left(group / limit, group / used, group / "memory.stat", cache)


_FILES = {
    "": ("memory.max", "memory.current", "inactive_file"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def _left(limit: Path, used: Path, stat: Path, cache: str) -> Iterator[float]:
    """Limit less what is used, files in the cache that the kernel would drop not counted."""
    if not (limit.is_file() and used.is_file()) or (most := limit.read_text(encoding="ascii").strip()) == "max":
        return
    lines = stat.read_text(encoding="ascii").splitlines() if stat.is_file() else []
    dropped = sum(int(line.split()[1]) for line in lines if line.split()[0] == cache)
    yield float(int(most) - int(used.read_text(encoding="ascii")) + dropped)
