"""What the shell completes: names of collections, encoders, logged runs and languages. No encoder is loaded for it."""

from collections.abc import Callable, Iterable
from contextlib import closing

import click
from click.shell_completion import CompletionItem

from encoders.errors import DragomanError
from indexer.collection.settings import Settings
from indexer.ledger.plain_rows import Rows, collection_names, read_rows

_RUNS = """SELECT evaluation_id AS evaluation, name FROM evaluation_runs WHERE evaluation_id IN
(SELECT id FROM evaluations ORDER BY id DESC LIMIT 50) ORDER BY evaluation_id DESC, id"""


def collections(context: click.Context, _parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Names of the collections."""
    return _items(_read(context, collection_names), typed)


def runs(context: click.Context, _parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Ids of logged runs, and the numbers of their evaluations, the newest first."""
    return _items(_read(context, _run_ids), typed)


def languages(context: click.Context, _parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Languages of the collection that the command names, or of all; after a comma the next one."""
    before, comma, last = typed.rpartition(",")
    codes = _read(context, lambda rows: _languages(rows, context))
    return [CompletionItem(f"{before}{comma}{code}") for code in codes if code.startswith(last)]


def encoders(_context: click.Context, _parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Names of the default encoder and of those in the cache; and folders, which the shell completes."""
    from onnx_export.models import encoder_names  # noqa: PLC0415 - needed only here

    return [CompletionItem(typed, type="dir"), *_items(encoder_names(), typed)]


def _items(names: Iterable[str], typed: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(typed)]


def _read(context: click.Context, names: Callable[[Rows], list[str]]) -> list[str]:
    """Names from the database of the command; none if it is not there, can't be read, or is of another version.

    Tab shows no errors, and neither makes nor upgrades a database.
    """
    try:
        settings = Settings.read(*(context.params.get(place) for place in ("home", "store", "database")))
        return read_rows(settings.database, names, prepare=False) or []
    except (DragomanError, OSError):
        return []


def _run_ids(rows: Rows) -> list[str]:
    names = (name for run in rows(_RUNS) for name in (str(run.evaluation), f"{run.evaluation}.{run.name}"))
    return list(dict.fromkeys(names))


def _languages(rows: Rows, context: click.Context) -> list[str]:
    """Languages in the stores of the home; of a store on a server, those of its calibrations."""
    from indexer.collection.collection_record import read_collections  # noqa: PLC0415 - imports NumPy
    from query.collections.collection_status import CALIBRATIONS  # noqa: PLC0415

    settings = Settings.read(context.params.get("home"))
    named = context.params.get("name") or context.params.get("collection")
    codes: set[str] = set()
    for collection in read_collections(rows):
        if named not in {None, collection.name}:
            continue
        if collection.place(settings).startswith("file:"):
            with closing(collection.open_store(settings)) as store:
                codes |= store.count().keys()
        else:
            codes.update(*(row.summary["languages"] for row in rows(CALIBRATIONS, name=collection.name)))
    return sorted(codes)
