"""``python -m benchmarks`` runs the benchmarks that need only the open data; ``python -m benchmarks.NAME`` runs one."""

import runpy
import sys

for name in ("encoding", "search", "memory"):
    sys.argv = [name]
    runpy.run_module(f"benchmarks.{name}", run_name="__main__")
