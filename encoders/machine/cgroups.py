"""The cgroups of this process, whose files state what it may use."""

from collections.abc import Iterator
from pathlib import Path


def groups(root: Path, controller: str) -> Iterator[Path]:
    """Folders of this process's cgroups for a controller and of their parents, innermost first (version 2 or 1).

    A folder may not exist: a container may see the names of the machine's cgroups, and only its own below its mount.
    """
    membership = root / "proc/self/cgroup"
    if not membership.is_file():
        return
    for line in membership.read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", maxsplit=2)
        if not controllers or controller in controllers.split(","):
            mount = root / "sys/fs/cgroup" / controllers
            innermost = mount / path.strip("/")
            yield from (group for group in (innermost, *innermost.parents) if group.is_relative_to(mount))
