"""Index sources into a collection by name: opens encoder, store and ledger, and passes them to the pipeline."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import sqlalchemy as sa
from filelock import FileLock, Timeout

from encoders.console import QUIET, Console
from encoders.document import Encoder
from encoders.errors import BadInput, StoreError
from encoders.folder.whole_folder import FILE_MODE
from encoders.languages import UNDETERMINED
from encoders.machine.placement import Device
from indexer.collection import collection as collections
from indexer.collection import generations
from indexer.collection.collection import Collection
from indexer.collection.encoder import open_encoder_of
from indexer.collection.settings import Settings
from indexer.collection.store_location import StoreLocation
from indexer.indexing import pipeline
from indexer.indexing.duplicates import OnDuplicate, refuse_former_ids
from indexer.indexing.reading import check_sources, leant_on, run_fingerprint
from indexer.ledger.database import open_database, read_database_id, shared_lock
from indexer.ledger.index_runs import RunLedger, has_spooled, refuse_while_workers, runs
from indexer.ledger.tables import ACTIVE, DONE, RUNNING, IndexRun
from indexer.readers import elastic_source
from indexer.readers.formats import is_path
from indexer.readers.records.source import ReadOptions
from indexer.stores.collection_names import check_collection_name
from indexer.stores.contract import VectorStore
from indexer.workers.handout import hand_out_sources
from indexer.workers.hints import Hints
from indexer.workers.sweeps import send_hints
from onnx_export.models import DEFAULT, absolute, open_named

BeforeSwitch = Callable[[sa.Engine, str, VectorStore, Encoder], None]
"""What is done with a collection's name, its built store and encoder, before searches meet these."""


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
    on_duplicate: OnDuplicate = "error",
    before_switch: BeforeSwitch | None = None,
    console: Console = QUIET,
) -> pipeline.IndexReport:
    """Read, encode and store the documents of sources; an interrupted run over the same sources resumes.

    A source is a file, a folder, ``elastic:INDEX``, ``ir-datasets:NAME`` or ``-``, which is standard input. A missing
    collection is created. By default ``encoder`` and ``method`` are the collection's, or else the default encoder and
    its default method; ``A + B`` combines encoders, and their methods. With ``prune``, documents missing from the
    sources are removed. With ``rebuild``, a new generation is built from these sources alone, with another encoder or
    method if given; it replaces the searched generation at the end, after ``before_switch``. If several documents have
    one id, nothing is indexed, or with ``on_duplicate`` the last or the first of the highest revision counts. Raises
    ModelMismatch: the vectors are another encoder's or method's; BadInput: a source or an option can't be used, ids
    stand more than once, or an earlier version gave the files other ids; DragomanError: reading or storing failed.
    """
    settings = settings or Settings.read()
    names = _absolute(sources)
    options = _with_encoding(options or ReadOptions(), names, collection, settings, console)
    request = _IndexRequest(names, options, encoder, method, device, prune, rebuild, on_duplicate)
    with _open_for_indexing(request, collection, settings, console) as (loaded, store, engine, generation):
        report = pipeline.index(
            request.sources, request.leaning_on(store, runs(engine, collection)), loaded, store, engine, collection,
            generation=generation, prune=prune, on_duplicate=on_duplicate,
            checkpoints=settings.checkpoints(collection), console=console,
        )  # fmt: skip
        if rebuild and store.count():
            if before_switch:
                before_switch(engine, collection, store, loaded)
            generations.switch(engine, collection, settings)
    return report


def switch_built(
    run: IndexRun, settings: Settings, before_switch: BeforeSwitch | None, device: Device = "auto",
    console: Console = QUIET,
) -> None:  # fmt: skip
    """Search the generation that workers built in a run with another model, after ``before_switch``."""
    with open_database(settings.database) as engine:
        row, database_id = collections.require(engine, run.collection), read_database_id(engine)
        if not row.building or row.building["number"] != run.generation:
            return  # the run was no rebuild, or the workers have switched
        with (
            collection_lock(row.name, engine),
            closing(row.open_store(settings, generation=run.generation, database_id=database_id)) as store,
        ):
            refuse_while_workers(engine, row.name)
            if store.count():
                store.publish()
                if before_switch:
                    encoder = open_named(row.building["encoder"], row.building["method"], console, device=device)
                    before_switch(engine, row.name, store, encoder)
                generations.switch(engine, row.name, settings)


def index_by_workers(
    sources: Sequence[str],
    collection: str,
    *,
    settings: Settings,
    options: ReadOptions | None = None,
    encoder: str | None = None,
    method: str | None = None,
    prune: bool = False,
    rebuild: bool = False,
    on_duplicate: OnDuplicate = "error",
    console: Console = QUIET,
) -> RunLedger:
    """Read the sources and hand their documents out to workers; returns the ledger of the run, which workers finish.

    The arguments and errors are those of ``index``; ``settings`` name the broker.
    """
    hints = Hints(settings.broker)
    names = _absolute(sources)
    options = _with_encoding(options or ReadOptions(), names, collection, settings, console)
    request = _IndexRequest(names, options, encoder, method, "cpu", prune, rebuild, on_duplicate)
    with _open_for_indexing(request, collection, settings, console) as (loaded, store, engine, generation):
        hints.waiting(loaded.spec.model)  # before any work: it fails if the broker is away
        options = request.leaning_on(store, runs(engine, collection))
        ledger = hand_out_sources(
            request.sources, options, loaded.spec, store, engine, collection,
            generation=generation, prune=prune, on_duplicate=on_duplicate, console=console,
        )  # fmt: skip
        if ledger.run.state == RUNNING:
            send_hints(engine, hints, loaded.spec.model)
    return ledger


_AUTO = "auto"


def _with_encoding(
    options: ReadOptions, sources: Sequence[str], name: str, settings: Settings, console: Console
) -> ReadOptions:
    """The options, with the encoding that an earlier run over the sources was given, unless they name one."""
    if options.encoding:
        return replace(options, encoding=options.encoding.removeprefix(_AUTO))
    with open_database(settings.database) as engine:
        earlier = next((run for run in reversed(runs(engine, name)) if set(sources) <= set(run.sources)), None)
    if earlier is None or not earlier.encoding:
        return options
    console.say(f"reading as run {earlier.id} did: --encoding {earlier.encoding} (--encoding {_AUTO} forgets it)")
    return replace(options, encoding=earlier.encoding)


@dataclass(frozen=True)
class _IndexRequest:
    """The sources to index, and how to index them."""

    sources: Sequence[str]
    options: ReadOptions
    encoder: str | None
    method: str | None
    device: Device
    prune: bool
    rebuild: bool
    on_duplicate: OnDuplicate

    def leaning_on(self, store: VectorStore, earlier: Sequence[IndexRun]) -> ReadOptions:
        """The options, with the collection's languages: those before an unfinished run over the same sources began."""
        begun = next((run for run in earlier if run.state in ACTIVE and run.sources == self.sources), None)
        languages = leant_on(begun.fingerprint)[1] if begun else sorted({*store.count(patient=True)} - {UNDETERMINED})
        return replace(self.options, languages=languages)

    def has_rebuilt(self, engine: sa.Engine, collection: Collection, model: str) -> bool:
        """Whether the searched generation is of this request, which was ended between its switch and its last step."""
        here = [run for run in runs(engine, collection.name) if run.generation == collection.generation]
        done = [run for run in here if run.state == DONE]
        before = collection.previous["number"] if collection.previous else collection.generation
        fingerprint = run_fingerprint(self.sources, self.options, collection.generation, self.on_duplicate)
        return (
            before != collection.generation
            and bool(done)
            and done[-1].id > collection.checked_run
            # a second run over the new generation leant on the languages that the first had written
            and all((leant_on(run.fingerprint)[0], run.model) == (fingerprint, model) for run in done)
        )


@contextmanager
def _open_for_indexing(
    request: _IndexRequest, name: str, settings: Settings, console: Console
) -> Iterator[tuple[Encoder, VectorStore, sa.Engine, int]]:
    """Encoder, store, database and generation number of a collection, created if new, under the collection's lock."""
    with open_database(settings.database) as engine:
        _find(engine, request, name, settings)  # a refusal waits neither for the lock nor for the encoder
        check_sources(request.sources, request.options)
        with collection_lock(name, engine):
            collection = _find(engine, request, name, settings)
            reference = absolute(request.encoder or (collection.encoder if collection else DEFAULT))
            if collection and not request.rebuild:
                encoder = open_encoder_of(
                    collection, console, reference=reference, method=request.method, device=request.device
                )
            else:
                default_method = collection.method if collection and not request.encoder else None
                encoder = open_named(reference, request.method or default_method, console, device=request.device)
            refuse_while_workers(engine, name, unless=encoder.spec.model if settings.broker else "")
            generation, database_id = 1, read_database_id(engine)
            if collection is None:
                store = StoreLocation(settings.store, name, settings.credentials, database_id).open()
                collections.register(engine, name, settings, reference, encoder.spec)
            elif request.rebuild and not request.has_rebuilt(engine, collection, encoder.spec.model):
                generation = generations.begin(engine, name, settings, reference, encoder.spec).number
                collection = collections.require(engine, name)  # its indices' kind may be another now
                store = collection.open_store(settings, generation=generation, make=True, database_id=database_id)
            else:
                generation = collection.generation
                store = collection.open_store(settings, database_id=database_id)
            with closing(store):
                if not (request.prune or request.rebuild):
                    refuse_former_ids(request.sources, store, encoder.spec.model, runs(engine, name))
                try:
                    yield encoder, store, engine, generation
                except Exception:
                    with suppress(StoreError):  # the failure itself says that the store or the database is away
                        if collection is None and not store.count() and not has_spooled(engine, name):
                            collections.remove(engine, collections.require(engine, name), settings)
                    raise


def _find(engine: sa.Engine, request: _IndexRequest, name: str, settings: Settings) -> Collection | None:
    """The collection to index into; None if it is new. Raises BadInput: the request can't be for this collection."""
    collection = collections.find(engine, name)
    if collection:
        collection.check_store(settings, rebuild=request.rebuild)
        collection.refuse_attached(
            f"its documents come from there (dragoman attach -c {name}); index into another collection with -c"
        )
    elif request.rebuild:
        raise BadInput(f"there is no collection {name} to rebuild; leave --rebuild out")
    return collection


def _absolute(sources: Sequence[str]) -> list[str]:
    """Names of the sources, each once, that are valid from another directory and with another environment."""
    names: dict[str, None] = {}
    for source in sources:
        remote = elastic_source.with_server(source) if source.startswith(elastic_source.PREFIX) else source
        names[str(Path(source).expanduser().absolute()) if is_path(source) else remote] = None
    return list(names)


@contextmanager
def collection_lock(collection: str, engine: sa.Engine) -> Iterator[Callable[[], None]]:
    """Lock a collection against a second process that uses the same database; read the collection again inside.

    Yields a function that locks it again: a server of databases that restarts forgets the lock.

    Raises BadInput: no collection can have this name; StoreError: another process has the lock, or it can't be made.
    """
    check_collection_name(collection)
    is_sqlite = engine.dialect.name == "sqlite"
    with _file_lock(engine, collection) if is_sqlite else shared_lock(engine, f"indexing {collection}") as take:

        def lock() -> None:
            if not take():
                raise StoreError(
                    f"another process is indexing collection {collection}; "
                    f"wait for it (dragoman status -c {collection})"
                )

        lock()
        yield lock


@contextmanager
def _file_lock(engine: sa.Engine, collection: str) -> Iterator[Callable[[], bool]]:
    """Take the lock file beside a SQLite database, which homes may share; yields a function: whether it was free."""
    database = Path(engine.url.database or "").resolve()
    lock = FileLock(database.with_name(f"{database.name}.{collection}.indexing.lock"), timeout=0, mode=FILE_MODE)
    try:
        with suppress(Timeout):
            lock.acquire()
    except OSError as error:
        raise StoreError(
            f"the folder {database.parent} can't be written ({error.strerror}); see that it is yours, "
            "or name another home with --home or DRAGOMAN_HOME"
        ) from error
    try:
        yield lambda: lock.is_locked
    finally:
        lock.release()
