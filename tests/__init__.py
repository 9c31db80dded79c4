"""The tests; their folders are the product's rooms."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
"""The project's root."""
DEMO = ROOT / "query" / "demo"
"""The collection of ``dragoman demo``."""
