"""Index sources into a collection by its name: opens encoder, store and ledger, and hands them to the pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import sqlalchemy as sa
from filelock import FileLock, Timeout

from encoders.console import Console
from encoders.document import Encoder
from encoders.errors import BadInput, StoreError
from encoders.session import Device
from indexer.collection import collection as collections
from indexer.collection import generations
from indexer.indexing import pipeline
from indexer.indexing.reading import check_sources
from indexer.ledger.database import connect, owner_of
from indexer.ledger.ledger import refuse_while_workers
from indexer.ledger.tables import RUNNING
from indexer.readers import ReadOptions, elastic
from indexer.readers.irdatasets import PREFIX
from indexer.settings import Settings
from indexer.stores.contract import VectorStore
from indexer.stores.factory import open_store
from indexer.workers.hints import Hints
from indexer.workers.publishing import spool
from indexer.workers.sweeping import give_out
from onnx_export.models import DEFAULT, absolute, open_named


def index(
    sources: Sequence[str],
    collection: str,
    *,
    settings: Settings | None = None,
    options: ReadOptions | None = None,
    encoder: str | None = None,
    method: str | None = None,
    device: Device = "auto",
    prune: bool = False,
    rebuild: bool = False,
    console: Console | None = None,
) -> pipeline.IndexReport:
    """Read, encode and store; an interrupted run over the same sources goes on where it stopped.

    Args:
        sources: files, folders, ``elastic:INDEX``, ``ir-datasets:NAME``.
        collection: its name; it is made where there is none.
        settings: where things are; read from the environment unless given.
        options: how to read the sources.
        encoder: name or folder, or several as one (``A + B``); the collection's own, or the default, unless given.
        method: how a document's vector is made, one for each encoder; the collection's own, or the encoder's default,
            unless given.
        device: where to encode.
        prune: remove documents that the sources do not have any more.
        rebuild: build the collection anew, from these sources alone, beside the one that is searched, and let it take
            its place at the end; with another encoder or method if one is given.
        console: where progress goes; nowhere unless given.

    Raises:
        ModelMismatch: the collection holds vectors of another encoder or method.
        DragomanError: whatever reading, encoding or storing refuses.
    """
    settings = settings or Settings.read()
    console = console or Console(quiet=True)
    wish = _Wish(sources, options or ReadOptions(), encoder, method, device, rebuild)
    with _opened(wish, collection, settings, console) as (loaded, store, engine, number):
        report = pipeline.index(
            wish.sources, wish.options, loaded, store, engine, collection,
            generation=number, prune=prune, console=console,
        )  # fmt: skip
        if rebuild and store.count():
            generations.switch(engine, collection, settings)
    return report


def publish(
    sources: Sequence[str],
    collection: str,
    *,
    settings: Settings,
    options: ReadOptions | None = None,
    encoder: str | None = None,
    method: str | None = None,
    prune: bool = False,
    rebuild: bool = False,
    console: Console | None = None,
) -> int:
    """Read, and let workers encode and store; returns the number of the run, which workers bring to its end.

    The arguments are those of ``index``; ``settings`` name the broker.

    Raises:
        ModelMismatch: the collection holds vectors of another encoder or method.
        DragomanError: whatever reading, the ledger or the broker refuses.
    """
    console = console or Console(quiet=True)
    hints = Hints(settings.broker)
    wish = _Wish(sources, options or ReadOptions(), encoder, method, "cpu", rebuild)
    with _opened(wish, collection, settings, console) as (loaded, store, engine, number):
        hints.waiting(loaded.spec.model)  # a broker that is away is said before the sources are read
        ledger = spool(
            wish.sources, wish.options, loaded.spec, store, engine, collection,
            generation=number, prune=prune, console=console,
        )  # fmt: skip
        if ledger.run.state == RUNNING:
            give_out(engine, hints, loaded.spec.model)
    return ledger.run.id


class _Wish:
    """What shall be indexed, and how."""

    def __init__(
        self,
        sources: Sequence[str],
        options: ReadOptions,
        encoder: str | None,
        method: str | None,
        device: Device,
        rebuild: bool,
    ) -> None:
        self.sources, self.options = [_absolute(source) for source in sources], options
        self.encoder, self.method, self.device, self.rebuild = encoder, method, device, rebuild


@contextmanager
def _opened(
    wish: _Wish, collection: str, settings: Settings, console: Console
) -> Iterator[tuple[Encoder, VectorStore, sa.Engine, int]]:
    """Encoder, store, database and generation of a collection, which is made where there is none; nobody else's."""
    engine = connect(settings.database)
    found = collections.find(engine, collection)
    if found:
        settings.check_store(collection, found.store or settings.home_store)
    reference = absolute(wish.encoder or (found.encoder if found else DEFAULT))
    kept = found.method if found and not (wish.rebuild and wish.encoder) else None
    loaded = open_named(reference, wish.method or kept, console, device=wish.device)
    if wish.rebuild and not found:
        raise BadInput(f"there is no collection {collection} to rebuild; leave --rebuild out")
    if found:
        found.refuse_attached(
            f"its documents come from there (dragoman attach -c {collection}); index into another collection with -c"
        )
    if found and not wish.rebuild:
        found.check(loaded.spec)
    check_sources(wish.sources, wish.options)
    refuse_while_workers(engine, collection, unless=loaded.spec.model if settings.broker else "")
    try:
        with collection_lock(settings, collection):
            number, owner = 1, owner_of(engine)
            if found is None:
                store = open_store(settings.store, collection, credentials=settings.credentials, owner=owner)
                collections.register(engine, collection, settings, reference, loaded.spec)
            elif wish.rebuild:
                number = generations.begin(engine, collection, settings, reference, loaded.spec).number
                place = found.place(settings)
                store = open_store(place, collection, number, credentials=settings.credentials, owner=owner)
            else:
                number = found.generation
                store = found.open_store(settings, owner=owner)
            with closing(store):
                yield loaded, store, engine, number
    finally:
        engine.dispose()


def _absolute(source: str) -> str:
    """A source by a name that means the same from another directory and with another environment."""
    if source.startswith(PREFIX):
        return source
    return elastic.absolute(source) if source.startswith(elastic.PREFIX) else str(Path(source).expanduser().absolute())


@contextmanager
def collection_lock(settings: Settings, collection: str) -> Iterator[None]:
    """Keep a second process of this home from indexing the same collection meanwhile."""
    lock = FileLock(settings.home / f"{collection}.indexing.lock", timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise StoreError(
            f"another process is indexing collection {collection}; wait for it (dragoman status -c {collection})"
        ) from error
    try:
        yield
    finally:
        lock.release()
