"""Index sources into a collection by its name: opens encoder, store and ledger, and hands them to the pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from encoders.console import Console
from encoders.errors import BadInput, StoreError
from encoders.session import Device
from indexer import collection as collections
from indexer import generations, pipeline
from indexer.database import connect
from indexer.readers import ReadOptions, elastic
from indexer.readers.irdatasets import PREFIX
from indexer.settings import Settings
from indexer.stores import open_store
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
    options = options or ReadOptions()
    sources = [_absolute(source) for source in sources]
    engine = connect(settings.database)
    found = collections.find(engine, collection)
    if found:
        settings.check_store(collection, found.store or settings.home_store)
    reference = absolute(encoder or (found.encoder if found else DEFAULT))
    kept = found.method if found and not (rebuild and encoder) else None
    loaded = open_named(reference, method or kept, console, device=device)
    if rebuild and not found:
        raise BadInput(f"there is no collection {collection} to rebuild; leave --rebuild out")
    if found:
        found.refuse_attached()
    if found and not rebuild:
        found.check(loaded.spec)
    pipeline.check_sources(sources, options)
    try:
        with alone(settings, collection):
            number = 1
            if found is None:
                store = open_store(settings.store, collection, credentials=settings.credentials)
                collections.register(engine, collection, settings, reference, loaded.spec)
            elif rebuild:
                number = generations.begin(engine, collection, settings, reference, loaded.spec).number
                store = open_store(found.place(settings), collection, number, credentials=settings.credentials)
            else:
                number = found.generation
                store = found.open_store(settings)
            with closing(store):
                report = pipeline.index(
                    sources, options, loaded, store, engine, collection,
                    generation=number, prune=prune, console=console,
                )  # fmt: skip
                if rebuild and store.count():
                    generations.switch(engine, collection, settings)
            return report
    finally:
        engine.dispose()


def _absolute(source: str) -> str:
    """A source by a name that means the same from another directory and with another environment."""
    if source.startswith(PREFIX):
        return source
    return elastic.absolute(source) if source.startswith(elastic.PREFIX) else str(Path(source).expanduser().absolute())


@contextmanager
def alone(settings: Settings, collection: str) -> Iterator[None]:
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
