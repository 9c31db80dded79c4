"""The embedded store's files: their names, and their counts of documents, read without SQLAlchemy."""

import re
from pathlib import Path

from indexer.ledger.plain_rows import Rows

WITHOUT_WORDS, WITH_WORDS = 1, 2
"""``user_version`` of a file without words, and of a file with words."""
DOCUMENTS = "SELECT lang, count(*) AS documents FROM documents GROUP BY lang ORDER BY lang"
WITH_VECTOR = """SELECT lang, count(*) AS documents FROM documents JOIN vectors USING (row) WHERE model = :model
GROUP BY lang ORDER BY lang"""


def path_of(folder: Path, collection: str, generation: int) -> Path:
    """The file of a generation; no collection's name has an ``@``."""
    return folder / (f"{collection}.db" if generation == 1 else f"{collection}@{generation}.db")


def generations(folder: Path, collection: str) -> list[int]:
    """Numbers of the generations that have a file."""
    matches = (re.fullmatch(rf"{re.escape(collection)}(?:@(\d+))?\.db", path.name) for path in folder.glob("*.db"))
    return sorted(int(match[1] or 1) for match in matches if match)


def remove_file(path: Path) -> None:
    """Remove a store's file and SQLite's files beside it."""
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def counts(rows: Rows, *models: str) -> list[dict[str, int]]:
    """Number of documents by language for each model, "" for all. Raises ValueError: another version's file."""
    if rows("PRAGMA user_version")[0].user_version not in {WITHOUT_WORDS, WITH_WORDS}:
        raise ValueError
    of_models = (rows(WITH_VECTOR if model else DOCUMENTS, model=model) for model in models)
    return [{row.lang: row.documents for row in of_model} for of_model in of_models]
