"""Migrations of the SQL database."""

from pathlib import Path

FOLDER = Path(__file__).parent


def head() -> str:
    """The newest migration's id: the number of the last file by name."""
    return max(path.stem for path in (FOLDER / "versions").glob("[0-9]*.py")).split("_", 1)[0]
