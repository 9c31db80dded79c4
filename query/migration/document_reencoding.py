"""Finish a migration (``dragoman migrate --re-encode``): the new encoder's vectors fill a second field of the store.

Meanwhile searches use the old vectors through the map; afterwards the second field, and the old stays for ``rollback``.
"""

from collections import Counter
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import sqlalchemy as sa

from encoders.console import QUIET, Console, values_of
from encoders.errors import BadInput
from encoders.machine.placement import Device
from encoders.maps.space_maps import QueryEncoderSpec
from encoders.phrases import counted
from indexer.collection import collection as collections
from indexer.collection import generations
from indexer.collection.collection import Collection
from indexer.collection.encoder import open_encoder_of
from indexer.collection.settings import Settings
from indexer.index_sources import collection_lock
from indexer.indexing.pipeline import IndexReport
from indexer.ledger.database import open_database, read_database_id, transaction
from indexer.ledger.index_runs import refuse_while_workers
from indexer.reencode import hand_out_stored, reencode
from indexer.workers.hints import Hints
from indexer.workers.run_watch import watch_run
from indexer.workers.sweeps import sweep
from onnx_export.models import absolute
from query.calibration import calibration_table
from query.calibration.lineage import cancel_abandoned_migration, migrated_to, origin
from query.calibration_fitting.calibration_fit import calibrate_open
from query.calibration_fitting.calibration_request import CalibrationRequest
from query.calibration_fitting.open_collection import OpenCollection
from query.migration.overlap import Comparison, compare
from query.ranking.query_encoder import open_specified, query_encoder_spec
from query.ranking.ranking_options import RankingOptions
from query.ranking.searcher import Searcher

_BESIDE_THEIRS = (
    "its documents are not encoded again beside their owner's; leave --re-encode out, and the map answers, or attach "
    "the index under another name with the new encoder: dragoman attach --encoder"
)


@dataclass(frozen=True)
class ReencodingReport:
    """The result of encoding a collection again."""

    encoder: QueryEncoderSpec
    # documents that got a new vector in the last run, that had one before it, and that the encoder refused, because it
    # knows no word of them; searches no longer find these
    run: IndexReport
    comparison: Comparison  # the hits of both encoders


def is_migrating(name: str, encoder: str, method: str | None, settings: Settings) -> bool:
    """Whether an encoder already encodes a collection's queries. Raises BadInput: no collection, or it is attached."""
    with open_database(settings.database) as engine:
        collection = collections.require(engine, name)
        collection.refuse_attached(_BESIDE_THEIRS)
        query_encoder = query_encoder_spec(calibration_table.load(engine, collection))
    if query_encoder is None:
        return False
    return query_encoder.encoder == absolute(encoder) and method in {None, query_encoder.method}


def is_encoded_again(name: str, encoder: str, method: str | None, settings: Settings, console: Console) -> bool:
    """Whether an encoder's vectors took the place of others in a collection's store; removes what these replaced.

    Raises ModelMismatch: the encoder was trained again since.
    """
    with open_database(settings.database) as engine:
        collection = collections.require(engine, name)
        same = collection.encoder == absolute(encoder) and method in {None, collection.method}
        if not (same and collection.previous and collection.previous["number"] == collection.generation):
            return False
        if migrated_to(engine, name):  # to another encoder, since
            return False
        open_encoder_of(collection, console, reference=absolute(encoder), method=method, device="cpu")
        with collection_lock(name, engine):  # an interrupted call may have left an obsolete store
            generations.drop_unnamed(engine, name, settings)
    return True


def finish_migration(
    name: str, settings: Settings, *, device: Device = "auto", console: Console = QUIET
) -> ReencodingReport:
    """Encode every document of a migrating collection with its queries' encoder, by workers if there is a broker.

    If the process is killed, the same call continues. Raises BadInput: the collection has not migrated, has left its
    migration, or is attached, or documents could not be encoded although the encoder knows their words.
    """
    with open_database(settings.database) as engine, collection_lock(name, engine):
        collection = collections.require(engine, name)
        collection.check_store(settings)
        collection.refuse_attached(_BESIDE_THEIRS)
        stored, active = calibration_table.active(engine, collection), calibration_table.load(engine, collection)
        query_encoder = query_encoder_spec(active)
        if query_encoder is None or stored is None:
            raise BadInput(
                f"{name} has not migrated; choose an encoder: dragoman migrate -c {name} --encoder NAME --re-encode"
            )
        refuse_while_workers(engine, name, unless=query_encoder.model if settings.broker else "", reencoding=True)
        new = open_specified(collection, query_encoder, device, console)
        # as the collection will be; this is no row of the database
        switched = Collection(**values_of(collection, "name", "store", "generation"), **asdict(query_encoder))
        with closing(collection.open_store(settings, database_id=read_database_id(engine))) as store:
            opened = OpenCollection(engine, switched, store, device, console, collection)
            opened.encoder = new
            run = _encode_all(opened, query_encoder, settings)
            if reasons := Counter(refusal.text for refusal in run.refused if not refusal.is_nothing_known):
                ((reason, count),) = reasons.most_common(1)
                without = counted(reasons.total(), "document has", "documents have")
                raise BadInput(
                    f"{name} is not changed to {query_encoder.encoder} yet, because {without} no vector of it "
                    f"({count:,}: {reason}); all are found as before. See which: dragoman status -c {name}; see to the "
                    "reason, or delete them (dragoman delete), and give the same command again"
                )
            if not store.count(query_encoder.model):
                raise BadInput(
                    f"{query_encoder.encoder} knows nothing of any document of {name}; dragoman rollback -c {name}"
                )
            # before the switch, so that no search meets the new field without a calibration
            calibrate_open(opened, replace(CalibrationRequest().after(stored, active), maps=None))
            origin_id = origin(engine, collection)
            options = RankingOptions(calibration=origin_id)
            with Searcher.open(name, settings, device=device, ranking=options, console=console) as searcher:
                comparison = compare(searcher, new, opened.calibration(), settings)
            with transaction(engine) as session:
                collections.hold(session, collection)
                _require_migration(engine, name, query_encoder)
                calibration_table.activate(session, name, collection.model, origin_id)
                dropped = generations.switch_model(session, name, query_encoder.encoder, new.spec)
            if dropped:
                collection.location(settings, read_database_id(engine)).drop(dropped)
    return ReencodingReport(query_encoder, run, comparison)


def _encode_all(opened: OpenCollection, query_encoder: QueryEncoderSpec, settings: Settings) -> IndexReport:
    """Fill the second field, in this process or by workers; do not wait for workers if there is nothing to do."""
    engine, store, new, console = opened.engine, opened.store, opened.encoder, opened.console
    name, generation = opened.collection.name, opened.collection.generation
    check = partial(_require_migration, engine, name, query_encoder)
    run: dict[str, Any] = {"generation": generation, "check": check, "console": console}
    if not settings.broker:
        return reencode(new, store, engine, name, checkpoints=settings.checkpoints(name), **run)
    hints = Hints(settings.broker)
    hints.waiting(query_encoder.model)  # before any work: it fails if the broker is away
    try:
        ledger = hand_out_stored(query_encoder.encoder, new.spec, store, engine, name, **run)
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
