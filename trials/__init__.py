"""What tests and benchmarks share: real servers, trials of accidents, attacks and races, an encoder for tests."""

from pathlib import Path

ROOT = Path(__file__).parents[1]  # the project's root
DEMO = ROOT / "query" / "demo"  # the collection of ``dragoman demo``
