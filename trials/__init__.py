"""What tests and benchmarks share. An attack yields one text for each try: empty if it held, else what fell."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]  # the project's root
DEMO = ROOT / "query" / "demo"  # the collection of ``dragoman demo``


def patient(seconds: float) -> float:
    """Seconds times the machine's load: beside other work everything takes longer."""
    return seconds * max(1.0, os.getloadavg()[0])
