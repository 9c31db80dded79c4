"""Memory that training needs, and free memory, in bytes."""

from collections.abc import Mapping
from pathlib import Path

from encoders.cr5.algebra.eigenvectors import BLOCK, max_applied_vectors
from encoders.cr5.algebra.language_ridge import DIRECT
from encoders.cr5.algebra.solver import KEPT, Block
from encoders.errors import BadInput
from encoders.machine.cores import available_cores, groups

_KRYLOV = 3
"""Arrays of (concepts, dimensions) in memory beside the Krylov space."""
_SEEN = 3
"""Arrays of (documents, vectors) that an application of the operator to vectors needs."""
_WORKING = 7
"""Arrays with one row for each equation that conjugate gradients hold."""


def check_memory(blocks: Mapping[str, Block], concepts: int, dimensions: int) -> None:
    """Check that the training fits into the free memory. Raises BadInput: it needs more."""
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
    """Maximum bytes that training needs: factors, Krylov space, kept solutions, Φ and the languages in work."""
    shapes = [block.matrix.shape for block in blocks.values()]
    equations = [min(shape) for shape in shapes]
    applied = max_applied_vectors(concepts, dimensions)
    factors = 4 * sum(count**2 for count in equations if count <= DIRECT)
    solutions = min(KEPT, 4 * applied * sum(equations))
    krylov_space = 4 * concepts * (applied + _KRYLOV * dimensions)
    working_rows = max(_WORKING * min(shape) + shape[1] for shape in shapes)
    columns = sum(documents + words for documents, words in shapes) + working_rows * available_cores()
    vectors = concepts if applied == concepts else BLOCK
    predictions = 4 * vectors * _SEEN * sum(documents for documents, _ in shapes)
    return factors + solutions + krylov_space + max(predictions, 4 * dimensions * columns)


_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""A cgroup's files of the limit and of the used memory, and the statistic of droppable memory: version 2, version 1."""


def free_memory(root: Path = Path("/")) -> float:
    """Free memory in bytes, with the page cache and within the cgroup limits; infinity if the system states none."""
    free = []
    if (meminfo := root / "proc/meminfo").is_file():
        entries = dict(line.split(":", maxsplit=1) for line in meminfo.read_text(encoding="ascii").splitlines())
        if "MemAvailable" in entries:
            free.append(1024.0 * int(entries["MemAvailable"].split()[0]))
    for group in groups(root, "memory"):
        for limit, used, cache in _FILES:
            if not ((group / limit).is_file() and (group / used).is_file()):
                continue
            limit_bytes, used_bytes = ((group / name).read_text(encoding="ascii").strip() for name in (limit, used))
            if limit_bytes == "max":
                continue
            stat = group / "memory.stat"
            lines = stat.read_text(encoding="ascii").splitlines() if stat.is_file() else []
            droppable = sum(int(line.split()[1]) for line in lines if line.split()[0] == cache)  # by the kernel
            free.append(float(int(limit_bytes) - int(used_bytes) + droppable))
    return min(free, default=float("inf"))
