"""Encode a collection that has migrated again, in the background: what ``dragoman migrate --re-encode`` does.

The new encoder's vectors fill a second field of the same store. Meanwhile every document is found, by its new vector if
it has one and else by its old one through the map (``query.ranking.two_field_ranker``). At the end the second field is
searched, and the old one stays for ``rollback``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

import sqlalchemy as sa

from encoders.console import Console
from encoders.document import Encoder
from encoders.errors import BadInput
from encoders.maps.space import QueryEncoderSpec
from encoders.session import Device
from encoders.wording import counted
from indexer.collection import collection as collections
from indexer.collection import generations
from indexer.collection.collection import Collection
from indexer.index import collection_lock
from indexer.indexing.pipeline import IndexReport
from indexer.indexing.storing import NOTHING_KNOWN
from indexer.ledger.database import opened, owner_of, transaction
from indexer.ledger.ledger import Note, refuse_while_workers
from indexer.reencode import hand_out_again, reencode
from indexer.settings import Settings
from indexer.stores.contract import VectorStore
from indexer.stores.factory import drop_store
from indexer.workers.hints import Hints
from indexer.workers.sweeping import sweep
from indexer.workers.watching import watch_run
from onnx_export.models import absolute
from query.calibration import loading
from query.calibration import table as calibration_table
from query.calibration.calibration import Calibration
from query.calibration.lineage import cancel_abandoned_migration, leads_to, origin
from query.calibration.summary import Summary
from query.fitting.calibrate import calibrate
from query.fitting.decision import CalibrationInput
from query.fitting.sampling import drawn
from query.fitting.statistics import draw_samples, fit_statistics
from query.migration.overlap import ComparedQueries, overlap
from query.query_log.judged_queries import most_asked
from query.ranking.options import RankingOptions
from query.ranking.query_encoder import open_specified, query_encoder_spec
from query.ranking.searcher import Searcher

SAMPLE = 2000
"""Documents over all languages that are encoded first: the second field's statistics are taken of them."""
_BESIDE_THEIRS = (
    "its documents are not encoded again beside their owner's; leave --re-encode out, and the map answers, or attach "
    "the index under another name with the new encoder: dragoman attach --encoder"
)


@dataclass(frozen=True)
class ReencodingReport:
    """What encoding a collection again did.

    Attributes:
        encoder: the one that it is of now.
        encoded: documents that got a vector, by the run that brought it to its end.
        unchanged: documents that had one before that run.
        refused: documents that the encoder knows nothing of, and that are not found any more.
        queries: how many the old encoder and the new one were compared on.
        logged: whether those were really asked, or else documents' titles and first sentences.
        overlap: share of the first ten hits that both have.
        seconds: of this process.
    """

    encoder: QueryEncoderSpec
    encoded: int
    unchanged: int
    refused: Sequence[Note]
    queries: int
    logged: bool
    overlap: float
    seconds: float


def is_migrating(name: str, encoder: str, method: str | None, settings: Settings) -> bool:
    """Whether a collection, which must be our own, is asked by this encoder already, through a map.

    Raises:
        BadInput: there is no such collection, or its documents are somebody else's.
    """
    with opened(settings.database) as engine:
        found = collections.require(engine, name)
        found.refuse_attached(_BESIDE_THEIRS)
        asker = query_encoder_spec(calibration_table.load(engine, found))
    return asker is not None and asker.encoder == absolute(encoder) and method in {None, asker.method}


def re_encode(
    name: str, settings: Settings | None = None, *, device: Device = "auto", console: Console | None = None
) -> ReencodingReport:
    """Encode every document of a migrating collection by the encoder of its queries; killed, the same call goes on.

    Args:
        name: the collection.
        settings: where things are; read from the environment unless given. Where they name a broker, workers encode all
            but the sample.
        device: where to encode.
        console: where progress goes; nowhere unless given.

    Raises:
        BadInput: it has not migrated, left its migration meanwhile, or its documents are somebody else's; or some could
            not be encoded though the encoder knows them.
        DragomanError: whatever store, database or encoder refuse; what is done stays done.
    """
    console, settings = console or Console(quiet=True), settings or Settings.read()
    with opened(settings.database) as engine:
        found = collections.require(engine, name)
        settings.check_store(name, found.store or settings.home_store)
        found.refuse_attached(_BESIDE_THEIRS)
        kept, active = calibration_table.active(engine, found), calibration_table.load(engine, found)
        asker = query_encoder_spec(active)
        if asker is None or kept is None or active is None:
            raise BadInput(
                f"{name} has not migrated; choose an encoder: dragoman migrate -c {name} --encoder NAME --re-encode"
            )
        refuse_while_workers(engine, name, unless=asker.model if settings.broker else "", again=True)
        new = open_specified(found, asker, device, console)
        with collection_lock(settings, name), closing(found.open_store(settings, owner=owner_of(engine))) as store:
            report = _Filling(engine, found, store, asker, new, active, settings, console).run()
            _refuse_gaps(name, asker, report.refused)
            if not store.count(asker.model):
                raise BadInput(f"{asker.encoder} knows nothing of any document of {name}; dragoman rollback -c {name}")
            compared = ComparedQueries.on(name, store, asker.model, settings)
            before = origin(engine, found)
            options = RankingOptions(calibration=before)
            with Searcher.open(name, settings, device=device, ranking=options, console=console) as searcher:
                old = compared.first(searcher)
            _switch(engine, found, new, asker, before, settings)
    given = replace(CalibrationInput.of(kept, None), asked=CalibrationInput.of(kept, active).asked)
    calibrate(name, settings, given=given, device=device, console=console)
    with Searcher.open(name, settings, device=device, console=console, encoder=new) as searcher:
        shared = overlap(old, compared.first(searcher))
    return ReencodingReport(
        asker,
        report.encoded,
        report.unchanged,
        report.refused,
        len(compared.queries),
        compared.logged,
        shared,
        report.seconds,
    )


def _refuse_gaps(name: str, asker: QueryEncoderSpec, refused: Sequence[Note]) -> None:
    """See that the only documents without a new vector are those that the encoder knows nothing of."""
    reasons = Counter(note.text for note in refused if note.text != NOTHING_KNOWN)
    if reasons:
        ((reason, count),) = reasons.most_common(1)
        without = counted(reasons.total(), "document has", "documents have")
        raise BadInput(
            f"{name} is not changed to {asker.encoder} yet, because {without} no vector of it "
            f"({count:,}: {reason}); all are found as before. See which: dragoman status -c {name}; see to the reason, "
            "or delete them (dragoman delete), and give the same command again"
        )


class _Filling:
    """The second field of one collection, while it is filled."""

    def __init__(
        self,
        engine: sa.Engine,
        collection: Collection,
        store: VectorStore,
        asker: QueryEncoderSpec,
        encoder: Encoder,
        active: Calibration,
        settings: Settings,
        console: Console,
    ) -> None:
        self.engine, self.collection, self.store, self.asker = engine, collection, store, asker
        self.encoder, self.active, self.settings, self.console = encoder, active, settings, console
        self._check = partial(_see_that_it_migrates, engine, collection.name, asker)

    def run(self) -> IndexReport:
        """A sample first, which says how the new vectors lie; then what is asked for most, then the rest."""
        hints = Hints(self.settings.broker) if self.settings.broker else None
        if hints:
            hints.waiting(self.asker.model)  # a broker that is away is said before anything is encoded
        if loading.second_field(self.engine, self.collection, self.asker.model) is None:
            self._encode(self._sample(), only_first=True)
            calibrate_second_field(self.engine, self.collection, self.store, self.encoder, self.active, self.console)
        first = most_asked(self.engine, self.collection.name)
        return self._by_workers(first, hints) if hints else self._encode(first)

    def _sample(self) -> list[str]:
        return [doc_id for some in drawn(self.store, self.collection.model, SAMPLE).values() for doc_id in some]

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
            console=self.console,
        )

    def _by_workers(self, first: Sequence[str], hints: Hints) -> IndexReport:
        """Hand out, and look on until workers are done; where there is nothing to do none is waited for."""
        name, model = self.collection.name, self.asker.model
        try:
            ledger = hand_out_again(
                first,
                self.asker.encoder,
                self.encoder.spec,
                self.store,
                self.engine,
                name,
                generation=self.collection.generation,
                check=self._check,
                console=self.console,
            )
            sweep(self.engine, self.settings, hints, model, every=0.0, failed=lambda *_: None)  # looking on tells
            return watch_run(ledger.run.id, name, self.settings, self.console, "the same command makes the change")
        except BadInput:
            cancel_abandoned_migration(self.engine, name)  # left before there was a run to end
            self._check()
            raise


def _see_that_it_migrates(engine: sa.Engine, name: str, asker: QueryEncoderSpec) -> None:
    """Refuse to go on for a collection that is asked by another encoder by now."""
    now = calibration_table.active(engine, collections.require(engine, name))
    if not leads_to(now, asker.model):
        raise BadInput(
            f"{name} is not asked by {asker.encoder} any more, so encoding it again ends here; "
            "what was encoded stays, and is there should it migrate again"
        )


def calibrate_second_field(
    engine: sa.Engine, found: Collection, store: VectorStore, encoder: Encoder, active: Calibration, console: Console
) -> None:
    """Take statistics of the new vectors that there are; from then on they are searched."""
    samples = draw_samples(store, encoder, console=console)
    made = fit_statistics(samples, encoder.spec.model).with_choice(balance=active.balance, margin=active.margin)
    summary = Summary.of(made, "the migration", few=samples.few(), second_field=loading.place(found))
    calibration_table.keep(engine, found.name, made, summary)


def _switch(
    engine: sa.Engine, found: Collection, new: Encoder, asker: QueryEncoderSpec, before: str, settings: Settings
) -> None:
    """Let the second field be the one that is searched; going back leads to the old encoder as it was."""
    _see_that_it_migrates(engine, found.name, asker)
    with transaction(engine) as session:
        calibration_table.choose(session, found, before)
        gone = generations.change_field(session, found.name, asker.encoder, new.spec)
    if gone:
        place, owner = found.place(settings), owner_of(engine)
        drop_store(place, found.name, gone, credentials=settings.credentials, owner=owner)
