"""Finish a migration: encode every document again, in the background, as ``dragoman migrate --re-encode`` does.

The new encoder's vectors fill a second field of the same store. Meanwhile the whole collection is searched by its old
vectors through the map. When the second field is whole, searches use it, and the old field stays for ``rollback``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

import sqlalchemy as sa

from encoders.console import Console
from encoders.devices import Device
from encoders.document import Encoder
from encoders.errors import BadInput
from encoders.maps.space import QueryEncoderSpec
from encoders.wording import counted
from indexer.collection import collection as collections
from indexer.collection import generations
from indexer.collection.collection import Collection
from indexer.collection.settings import Settings
from indexer.index import collection_lock
from indexer.indexing.pipeline import IndexReport
from indexer.ledger.database import open_database, read_database_id, transaction
from indexer.ledger.findings import Finding
from indexer.ledger.index_runs import refuse_while_workers
from indexer.reencode import hand_out_stored, reencode
from indexer.stores.contract import VectorStore
from indexer.workers.hints import Hints
from indexer.workers.run_watch import watch_run
from indexer.workers.sweeps import sweep
from onnx_export.models import absolute
from query.calibration import table as calibration_table
from query.calibration.lineage import cancel_abandoned_migration, migrated_to, origin
from query.fitting.calibrate import calibrate_open
from query.fitting.open_collection import OpenCollection
from query.fitting.request import CalibrationRequest, InheritedInput
from query.migration.overlap import ComparedQueries, overlap
from query.ranking.query_encoder import open_specified, query_encoder_spec
from query.ranking.ranking_options import RankingOptions
from query.ranking.searcher import Searcher

_BESIDE_THEIRS = (
    "its documents are not encoded again beside their owner's; leave --re-encode out, and the map answers, or attach "
    "the index under another name with the new encoder: dragoman attach --encoder"
)


@dataclass(frozen=True)
class ReencodingReport:
    """The result of encoding a collection again.

    Attributes:
        encoded: documents that got a new vector in the last run.
        unchanged: documents that had a new vector before the last run.
        refused: documents in which the encoder knows no word; searches no longer find them.
        queries: number of queries that both encoders were compared on.
        logged: whether these queries are from the log; else they are documents' titles and first sentences.
        overlap: share of the first ten hits that both encoders have in common.
        seconds: time of this process.
    """

    encoder: QueryEncoderSpec
    encoded: int
    unchanged: int
    refused: Sequence[Finding]
    queries: int
    logged: bool
    overlap: float
    seconds: float


def is_migrating(name: str, encoder: str, method: str | None, settings: Settings) -> bool:
    """Whether an encoder already encodes a collection's queries, through a map.

    Raises:
        BadInput: there is no such collection, or it is attached: its documents belong to another index's owner.
    """
    with open_database(settings.database) as engine:
        collection = collections.require(engine, name)
        collection.refuse_attached(_BESIDE_THEIRS)
        query_encoder = query_encoder_spec(calibration_table.load(engine, collection))
    if query_encoder is None:
        return False
    return query_encoder.encoder == absolute(encoder) and method in {None, query_encoder.method}


def finish_migration(
    name: str, settings: Settings | None = None, *, device: Device = "auto", console: Console | None = None
) -> ReencodingReport:
    """Encode every document of a migrating collection with the encoder of its queries.

    If the process is killed, the same call continues the work. If the settings name a broker, workers encode.

    Raises:
        BadInput: the collection has not migrated, has left its migration meanwhile, or is attached; or documents could
            not be encoded although the encoder knows their words.
        DragomanError: store, database or encoder fail; documents encoded so far keep their vectors.
    """
    console, settings = console or Console(quiet=True), settings or Settings.read()
    with open_database(settings.database) as engine, collection_lock(name, engine):
        collection = collections.require(engine, name)
        collection.check_store(settings)
        collection.refuse_attached(_BESIDE_THEIRS)
        stored, active = calibration_table.active(engine, collection), calibration_table.load(engine, collection)
        query_encoder = query_encoder_spec(active)
        if query_encoder is None or stored is None or active is None:
            raise BadInput(
                f"{name} has not migrated; choose an encoder: dragoman migrate -c {name} --encoder NAME --re-encode"
            )
        refuse_while_workers(engine, name, unless=query_encoder.model if settings.broker else "", reencoding=True)
        new = open_specified(collection, query_encoder, device, console)
        with closing(collection.open_store(settings, database_id=read_database_id(engine))) as store:
            report = _encode_all(engine, collection, store, query_encoder, new, settings, console)
            _refuse_gaps(name, query_encoder, report.refused)
            if not store.count(query_encoder.model):
                raise BadInput(
                    f"{query_encoder.encoder} knows nothing of any document of {name}; dragoman rollback -c {name}"
                )
            compared = ComparedQueries.on(name, store, query_encoder.model, settings)
            before = origin(engine, collection)
            options = RankingOptions(calibration=before)
            with Searcher.open(name, settings, device=device, ranking=options, console=console) as searcher:
                old_hits = compared.first(searcher)
            opened = OpenCollection(engine, _with_model(collection, query_encoder), store, device, console)
            opened.encoder = new
            # before the switch, so that no search meets the new field without a calibration
            calibrate_open(opened, CalibrationRequest(), replace(InheritedInput.of(stored, active), maps=None))
            _switch(engine, collection, new, query_encoder, before, settings)
    with Searcher.open(name, settings, device=device, console=console, encoder=new) as searcher:
        new_hits = compared.first(searcher)
    return ReencodingReport(
        query_encoder,
        report.encoded,
        report.unchanged,
        report.refused,
        len(compared.queries),
        compared.logged,
        overlap(old_hits, new_hits),
        report.seconds,
    )


def _with_model(collection: Collection, encoder: QueryEncoderSpec) -> Collection:
    """The collection as it will be with another encoder's vectors; it is not a row of the database."""
    return Collection(
        name=collection.name,
        store=collection.store,
        encoder=encoder.encoder,
        method=encoder.method,
        model=encoder.model,
        dim=encoder.dim,
        generation=collection.generation,
    )


def _refuse_gaps(name: str, query_encoder: QueryEncoderSpec, refused: Sequence[Finding]) -> None:
    """Raise ``BadInput`` if a document without a new vector has words that the encoder knows."""
    reasons = Counter(refusal.text for refusal in refused if not refusal.is_nothing_known)
    if reasons:
        ((reason, count),) = reasons.most_common(1)
        without = counted(reasons.total(), "document has", "documents have")
        raise BadInput(
            f"{name} is not changed to {query_encoder.encoder} yet, because {without} no vector of it "
            f"({count:,}: {reason}); all are found as before. See which: dragoman status -c {name}; see to the reason, "
            "or delete them (dragoman delete), and give the same command again"
        )


def _encode_all(
    engine: sa.Engine,
    collection: Collection,
    store: VectorStore,
    query_encoder: QueryEncoderSpec,
    new: Encoder,
    settings: Settings,
    console: Console,
) -> IndexReport:
    """Fill the second field, in this process or by workers; do not wait for workers if there is nothing to do."""
    name, generation = collection.name, collection.generation
    check = partial(_require_migration, engine, name, query_encoder)
    if not settings.broker:
        checkpoints = settings.checkpoints(name)
        return reencode(
            new, store, engine, name, generation=generation, check=check, checkpoints=checkpoints, console=console
        )
    hints = Hints(settings.broker)
    hints.check_broker(query_encoder.model)
    try:
        ledger = hand_out_stored(
            query_encoder.encoder, new.spec, store, engine, name, generation=generation, check=check, console=console
        )
        # watch_run reports failures, so the sweep is silent
        sweep(engine, settings, hints, query_encoder.model, 0.0, lambda *_: None, console)
        return watch_run(ledger, settings, console, "the same command makes the change")
    except BadInput:
        cancel_abandoned_migration(engine, name)  # the migration was left before there was a run to cancel
        check()
        raise


def _require_migration(engine: sa.Engine, name: str, query_encoder: QueryEncoderSpec) -> None:
    """Raise ``BadInput`` if another encoder encodes the collection's queries by now."""
    if migrated_to(engine, name) != query_encoder.model:
        raise BadInput(
            f"{query_encoder.encoder} no longer encodes the queries of {name}, so encoding the documents again ends "
            "here; the new vectors stay for a later migration to this encoder"
        )


def _switch(
    engine: sa.Engine,
    collection: Collection,
    new: Encoder,
    query_encoder: QueryEncoderSpec,
    before: str,
    settings: Settings,
) -> None:
    """Make the second field the one that is searched; the old field and its calibration stay for ``rollback``."""
    _require_migration(engine, collection.name, query_encoder)
    with transaction(engine) as session:
        calibration_table.activate(session, collection, before)
        dropped = generations.switch_model(session, collection.name, query_encoder.encoder, new.spec)
    if dropped:
        collection.location(settings, read_database_id(engine)).drop(dropped)
