"""What a searcher checks and reads when it is opened: the calibration, the languages, the lexical index."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from encoders.console import Console
from encoders.errors import BadInput, StoreError
from encoders.languages import normalise, require_list
from indexer.collection.collection_record import CollectionRecord, read_collections
from indexer.collection.settings import Settings
from indexer.ledger.plain_rows import Rows, read_rows
from indexer.stores.contract import LexicalQuery, VectorStore
from query.calibration.calibration import NONE, Calibration

_ACTIVE = "SELECT id, artifact FROM calibrations WHERE collection = :name AND model = :model AND active"


class EmptyCollection(BadInput):
    """A collection without documents."""

    __module__ = "dragoman"


@dataclass
class Opening:
    """The opening of a store by a process, shared by the store's searchers, and whether it was closed again."""

    process: int = field(default_factory=os.getpid)
    closed: bool = False

    def check(self, collection: str) -> None:
        """Raise ``StoreError`` if the store of a collection is closed, or was opened by another process."""
        again = f"open another: Searcher.open({collection!r})"
        if self.closed:
            raise StoreError(f"this searcher of collection {collection} is closed; {again}")
        if self.process != os.getpid():
            raise StoreError(
                f"this searcher of collection {collection} was opened by another process, before a fork; "
                f"in each process {again}"
            )


def calibrated(
    name: str, settings: Settings, calibration_id: str, console: Console
) -> tuple[CollectionRecord, Calibration | None]:
    """A collection and the calibration of an id, as in ``RankingOptions``; a warning if an earlier version made it."""

    def read(rows: Rows) -> tuple[CollectionRecord, Calibration | None]:
        (row,) = read_collections(rows, name or "")
        row.check_store(settings)
        calibrations = [] if calibration_id else rows(_ACTIVE, name=name, model=row.model)
        return row, next((Calibration.from_bytes(found.artifact, found.id) for found in calibrations), None)

    row, calibration = read_rows(settings.database, read)
    if calibration_id not in {"", NONE}:
        from indexer.ledger.database import open_database  # noqa: PLC0415 - imports SQLAlchemy
        from query.calibration.calibration_table import load  # noqa: PLC0415

        with open_database(settings.database) as engine:
            calibration = load(engine, row, calibration_id)
    if calibration and calibration.earlier_id:
        anew = f"make its calibration anew: dragoman calibrate -c {name}"
        console.warn_once(f"{name} was calibrated by an earlier version; {anew}")
    return row, calibration


def target_languages(collection: str, languages: Collection[str], to: Sequence[str] | None) -> list[str]:
    """The languages of ``to``, normalised, or all; raises ``BadInput`` as ``Searcher.search`` does.

    A language that the collection lacks stands for its other scripts there: ``zh`` for ``zh-Hant`` (RFC 4647, 3.3.1).
    """
    there_are = ", ".join(sorted(languages))
    if to is None:
        return sorted(languages)
    require_list(to, "to")
    if not to:
        raise BadInput(f"no language of documents is named; {collection} has {there_are}")
    targets: dict[str, None] = {}
    for code in to:
        tag = normalise(code)
        found = [tag] if tag in languages else sorted(lang for lang in languages if lang.startswith(f"{tag}-"))
        if not found:
            raise BadInput(f"collection {collection} has no documents in {code!r}; it has {there_are}")
        targets |= dict.fromkeys(found)
    return list(targets)


def index_words(store: VectorStore, languages: Mapping[str, int], console: Console) -> None:
    """Let a store without a lexical index make it now, with a message if that takes long."""
    with console.if_slow(f"indexing the words of {sum(languages.values()):,} documents for --hybrid, this once …"):
        store.lexical(LexicalQuery(["a"], list(languages)[:1], 1))
