"""Finish a migration: encode every document again, in the background, as ``dragoman migrate --re-encode`` does.

The new encoder's vectors fill a second field of the same store. Meanwhile every document is found: by its new vector if
it has one, else by its old vector through the map (``query.ranking.old_and_new_vectors``). At the end searches use the
second field, and the old field stays for ``rollback``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace

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
from query.calibration.calibration import Calibration
from query.calibration.lineage import cancel_abandoned_migration, leads_to, origin
from query.calibration.searched_calibration import second_field, second_field_key
from query.calibration.summary import Summary
from query.fitting.calibrate import calibrate
from query.fitting.request import InheritedInput
from query.fitting.sampling import draw
from query.fitting.statistics import draw_samples, fit_statistics
from query.migration.overlap import ComparedQueries, overlap
from query.query_log.judged_queries import most_shown
from query.ranking.query_encoder import open_specified, query_encoder_spec
from query.ranking.search_choice import RankingOptions
from query.ranking.searcher import Searcher

SAMPLE = 2000
"""Documents over all languages that are encoded first; the second field's statistics come from these."""
_BESIDE_THEIRS = (
    "its documents are not encoded again beside their owner's; leave --re-encode out, and the map answers, or attach "
    "the index under another name with the new encoder: dragoman attach --encoder"
)


@dataclass(frozen=True)
class ReencodingReport:
    """The result of encoding a collection again.

    Attributes:
        encoder: the collection's encoder now.
        encoded: documents that got a new vector in the last run.
        unchanged: documents that had a new vector before the last run.
        refused: documents in which the encoder knows no word; searches no longer find them.
        queries: number of queries that the old and the new encoder were compared on.
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
    return (
        query_encoder is not None
        and query_encoder.encoder == absolute(encoder)
        and method in {None, query_encoder.method}
    )


def finish_migration(
    name: str, settings: Settings | None = None, *, device: Device = "auto", console: Console | None = None
) -> ReencodingReport:
    """Encode every document of a migrating collection with the encoder of its queries.

    If the process is killed, the same call continues the work. If the settings name a broker, workers encode all
    documents but the sample.

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
            report = _SecondFieldRun(engine, collection, store, query_encoder, new, active, settings, console).run()
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
            _switch(engine, collection, new, query_encoder, before, settings)
    inherited = replace(
        InheritedInput.of(stored, None), encoded_queries=InheritedInput.of(stored, active).encoded_queries
    )
    calibrate(name, settings, inherited=inherited, device=device, console=console)
    with Searcher.open(name, settings, device=device, console=console, encoder=new) as searcher:
        shared = overlap(old_hits, compared.first(searcher))
    return ReencodingReport(
        query_encoder,
        report.encoded,
        report.unchanged,
        report.refused,
        len(compared.queries),
        compared.logged,
        shared,
        report.seconds,
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


@dataclass(frozen=True)
class _SecondFieldRun:
    """Fills the second field of one collection."""

    engine: sa.Engine
    collection: Collection
    store: VectorStore
    query_encoder: QueryEncoderSpec
    encoder: Encoder
    active: Calibration
    settings: Settings
    console: Console

    def _check(self) -> None:
        _require_migration(self.engine, self.collection.name, self.query_encoder)

    def run(self) -> IndexReport:
        """Encode a sample and take its statistics; then the documents that searches showed most, then the rest."""
        hints = Hints(self.settings.broker) if self.settings.broker else None
        if hints:
            hints.check_broker(self.query_encoder.model)
        if second_field(self.engine, self.collection, self.query_encoder.model) is None:
            self._encode(self._sample(), only_first=True)
            calibrate_second_field(self.engine, self.collection, self.store, self.encoder, self.active, self.console)
        first = most_shown(self.engine, self.collection.name)
        return self._by_workers(first, hints) if hints else self._encode(first)

    def _sample(self) -> list[str]:
        return [doc_id for ids in draw(self.store, self.collection.model, SAMPLE).values() for doc_id in ids]

    def _encode(self, first: Sequence[str], *, only_first: bool = False) -> IndexReport:
        return reencode(
            first,
            self.encoder,
            self.store,
            self.engine,
            self.collection.name,
            generation=self.collection.generation,
            check=self._check,
            only_first=only_first,
            checkpoints=self.settings.checkpoints(self.collection.name),
            console=self.console,
        )

    def _by_workers(self, first: Sequence[str], hints: Hints) -> IndexReport:
        """Hand the documents out and watch the run until workers are done; do not wait if there is nothing to do."""
        name, model = self.collection.name, self.query_encoder.model
        try:
            ledger = hand_out_stored(
                first,
                self.query_encoder.encoder,
                self.encoder.spec,
                self.store,
                self.engine,
                name,
                generation=self.collection.generation,
                check=self._check,
                console=self.console,
            )
            # watch_run reports failures, so the sweep is silent
            sweep(self.engine, self.settings, hints, model, 0.0, lambda *_: None, self.console)
            return watch_run(ledger, self.settings, self.console, "the same command makes the change")
        except BadInput:
            cancel_abandoned_migration(self.engine, name)  # the migration was left before there was a run to cancel
            self._check()
            raise


def _require_migration(engine: sa.Engine, name: str, query_encoder: QueryEncoderSpec) -> None:
    """Raise ``BadInput`` if another encoder encodes the collection's queries by now."""
    active = calibration_table.active(engine, collections.require(engine, name))
    if not leads_to(active, query_encoder.model):
        raise BadInput(
            f"{query_encoder.encoder} no longer encodes the queries of {name}, so encoding the documents again ends "
            "here; the new vectors stay for a later migration to this encoder"
        )


def calibrate_second_field(
    engine: sa.Engine,
    collection: Collection,
    store: VectorStore,
    encoder: Encoder,
    active: Calibration,
    console: Console,
) -> None:
    """Take statistics of the new vectors in the store; from then on they are searched."""
    samples = draw_samples(store, encoder, console=console)
    fitted = fit_statistics(samples, encoder.spec.model).with_choice(replace(active.choice, weights=()))
    summary = Summary.of(fitted, "the migration", few=samples.few(), second_field=second_field_key(collection))
    calibration_table.keep(engine, collection.name, fitted, summary)


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
