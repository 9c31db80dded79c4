"""``python -m benchmarks``: those that need the open data alone, in turn; ``python -m benchmarks.NAME`` is one."""

import runpy
import sys

for name in ("encoding", "search", "memory", "quality", "language_detection"):
    sys.argv = [name]
    runpy.run_module(f"benchmarks.{name}", run_name="__main__")
