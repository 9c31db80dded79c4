"""How much memory there is, and what training takes of it."""

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from encoders.cr5.algebra import memory_need
from encoders.cr5.algebra.memory_need import free_memory, needed
from encoders.cr5.algebra.solver import Block

GB = 10**9


def _write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_the_page_cache_counts_as_free_and_where_nothing_says_there_is_no_end(tmp_path: Path) -> None:
    assert 0 < free_memory() < free_memory(tmp_path) == float("inf")
    told = "MemTotal: 9000 kB\nMemFree: 100 kB\nMemAvailable: 5000 kB\nCached: 4900 kB\n"
    assert free_memory(_write(tmp_path, {"proc/meminfo": told})) == 5000 * 1024


@pytest.mark.parametrize(
    ("groups", "folder", "names", "cache"),
    [
        ("0::/box/inner\n", "sys/fs/cgroup", ("memory.max", "memory.current"), "inactive_file"),
        (
            "9:name=systemd:/\n4:memory:/box/inner\n0::/\n",
            "sys/fs/cgroup/memory",
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
            "total_inactive_file",
        ),
    ],
    ids=["version 2", "version 1"],
)
def test_a_container_has_what_is_left_of_its_limit(
    tmp_path: Path, groups: str, folder: str, names: tuple[str, str], cache: str
) -> None:
    limit, used = names
    files = {
        "proc/meminfo": f"MemAvailable: {8 * GB // 1024} kB\n",
        "proc/self/cgroup": groups,
        f"{folder}/box/{limit}": f"{2 * GB}\n",
        f"{folder}/box/{used}": f"{GB}\n",
        f"{folder}/box/memory.stat": f"active_file 7\n{cache} {GB // 2}\n",
        f"{folder}/box/inner/memory.max": "max\n",
        f"{folder}/box/inner/memory.current": "5\n",
    }
    assert free_memory(_write(tmp_path, files)) == GB + GB // 2


def test_what_training_takes_has_every_languages_factor_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def block(documents: int, words: int) -> Block:
        empty = (np.zeros(0, np.float32), np.zeros(0, np.int32), np.zeros(documents + 1, np.int32))
        return Block(csr_array(empty, shape=(documents, words)), np.zeros(documents, dtype=np.int64))

    one, more = ({str(n): block(3_000, 9_000) for n in range(count)} for count in (1, 6))
    factors = needed(more, 3_000, 300), needed(one, 3_000, 300)
    monkeypatch.setattr(memory_need, "DIRECT", 0)
    without = needed(more, 3_000, 300), needed(one, 3_000, 300)
    assert [both - alone for both, alone in zip(factors, without, strict=True)] == [6 * 4 * 3_000**2, 4 * 3_000**2]
    assert needed({"de": block(100_000, 200_000)}, 100_000, 300) > 4 * 100_000 * 40 * 64  # the Krylov space
