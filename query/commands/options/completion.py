"""What the shell completes: names of collections, encoders, logged runs and languages. No encoder is loaded for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from encoders.errors import DragomanError
from indexer.collection.settings import Settings

if TYPE_CHECKING:
    import sqlalchemy as sa

_EVALUATIONS = 50
"""Evaluations whose runs are completed, the newest."""


def collections(context: click.Context, _parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Names of the collections."""
    from indexer.collection.collection import all_collections  # noqa: PLC0415

    return _items(_read(context, lambda engine: [collection.name for collection in all_collections(engine)]), typed)


def runs(context: click.Context, _parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Ids of logged runs, and the numbers of their evaluations, the newest first."""
    return _items(_read(context, _run_ids), typed)


def languages(context: click.Context, _parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Languages of the collection that the command names, or of all; after a comma the next one."""
    before, comma, last = typed.rpartition(",")
    codes = _read(context, lambda engine: _languages(engine, context))
    return [CompletionItem(f"{before}{comma}{code}") for code in codes if code.startswith(last)]


def encoders(_context: click.Context, _parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Names of the default encoder and of those in the cache; and folders, which the shell completes."""
    from onnx_export.models import encoder_names  # noqa: PLC0415 - needed only here

    return [CompletionItem(typed, type="dir"), *_items(encoder_names(), typed)]


def _items(names: Iterable[str], typed: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(typed)]


def _read(context: click.Context, names: Callable[[sa.Engine], list[str]]) -> list[str]:
    """Names from the database of the command; none if it is not there, can't be read, or is of another version.

    Tab shows no errors, and neither makes nor upgrades a database.
    """
    from sqlalchemy.engine import make_url  # noqa: PLC0415 - Tab in other places needs no database
    from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415

    from indexer.ledger.database import is_current, open_engine  # noqa: PLC0415

    try:
        database = Settings.read(*(context.params.get(place) for place in ("home", "store", "database"))).database
        url = make_url(database)
        if url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file():
            return []
        engine = open_engine(database)
        try:
            return names(engine) if is_current(engine) else []
        finally:
            engine.dispose()
    except (DragomanError, OSError, SQLAlchemyError):
        return []


def _run_ids(engine: sa.Engine) -> list[str]:
    from query.evaluation import evaluation_log  # noqa: PLC0415

    logged_runs = evaluation_log.runs(engine, every=True, limit=_EVALUATIONS)
    return list(dict.fromkeys(name for run in logged_runs for name in (str(run.evaluation), run.id)))


def _languages(engine: sa.Engine, context: click.Context) -> list[str]:
    """Languages in the stores of the home; of a store on a server, those of its calibrations."""
    from indexer.collection.collection import all_collections  # noqa: PLC0415
    from query.calibration.calibration_table import all_calibrations  # noqa: PLC0415

    settings = Settings.read(context.params.get("home"))
    named = context.params.get("name") or context.params.get("collection")
    codes: set[str] = set()
    for collection in all_collections(engine):
        if named not in {None, collection.name}:
            continue
        if collection.place(settings).startswith("file:"):
            with closing(collection.open_store(settings)) as store:
                codes |= store.count().keys()
        else:
            for calibration in all_calibrations(engine, collection.name):
                codes |= calibration.summary.languages.keys()
    return sorted(codes)
