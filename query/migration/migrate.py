"""Move a collection to another encoder without encoding its documents again: what ``dragoman migrate`` does.

A bounded sample of documents is encoded by the new encoder too. A map W from the old vectors to the new, learnt from
it, lets the new encoder's queries be asked of the old index as Wᵀq. The map is part of a calibration: rolled back by
choosing the one before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

import numpy as np

from encoders.console import Console
from encoders.document import Encoder
from encoders.errors import BadInput
from encoders.maps.mates import Mates
from encoders.maps.space import ANY, QueryEncoderSpec, SpaceMaps
from encoders.methods.combined import refuse_combined
from encoders.methods.registry import open_encoder
from encoders.session import Device
from indexer.settings import Settings
from onnx_export.models import absolute, find_model
from query.calibration import table as calibration_table
from query.calibration.calibration import Calibration
from query.calibration.lineage import before
from query.calibration.mapped_calibration import MappedCalibration
from query.calibration.setting import DEFAULT, Setting
from query.calibration.table import KeptCalibration
from query.fitting.calibrate import calibrate
from query.fitting.decision import CalibrationInput
from query.fitting.open_collection import OpenCollection
from query.fitting.statistics import draw_samples, fit_statistics
from query.migration.candidate_maps import MapQuality, MapRecipe, chosen, learnt
from query.migration.overlap import ComparedQueries, overlap
from query.migration.sample import both_of
from query.ranking.choice import Choice
from query.ranking.searcher import Searcher

SAMPLE = 2000
"""Documents that are encoded by both, over all languages."""
KEPT = 0.95
"""Of what re-encoding would find, the part that the map should keep."""


@dataclass(frozen=True)
class MigrationReport:
    """What migrating costs, and whether it was done.

    Attributes:
        asker: the new encoder.
        documents: that were encoded by both, by language.
        way: how the map was learnt.
        mates: of held-out documents, old vectors through the map among new ones.
        worth: by pseudo-queries.
        overlap: share of the first ten hits that are the same before and after, or would be if it migrated.
        queries: how many that was measured on.
        logged: whether those were really asked, or else documents' titles and first sentences.
        calibration: the one that is active now; none where the collection stays.
    """

    asker: QueryEncoderSpec
    documents: Mapping[str, int]
    way: MapRecipe
    mates: Mates
    worth: MapQuality
    overlap: float
    queries: int
    logged: bool
    calibration: KeptCalibration | None


def migrate(
    name: str,
    encoder: str,
    method: str | None = None,
    settings: Settings | None = None,
    *,
    sample: int = SAMPLE,
    anyway: bool = False,
    dry_run: bool = False,
    seed: int = 0,
    device: Device = "auto",
    console: Console | None = None,
) -> MigrationReport:
    """Let queries be encoded by another encoder from now on; no document is touched.

    Args:
        name: the collection.
        encoder: name or folder of the new encoder.
        method: how it makes a document's vector; its default unless given.
        settings: where things are; read from the environment unless given.
        sample: documents to encode by both.
        anyway: migrate even where the sample says that staying is better.
        dry_run: report and change nothing.
        seed: of the sample.
        device: where to encode.
        console: where progress goes; nowhere unless given.

    Raises:
        BadInput: there is no such collection or encoder, the collection is of that encoder already, or too small.
        DragomanError: whatever store, database or encoder refuse.
    """
    console, settings = console or Console(quiet=True), settings or Settings.read()
    encoder = absolute(encoder)
    refuse_combined(encoder)
    new = open_encoder(find_model(encoder, console), method, device=device)
    asker = QueryEncoderSpec(encoder, new.spec.method, new.spec.model, new.spec.dim)
    opened = OpenCollection.open(name, settings, device, console)
    try:
        refuse_combined(opened.collection.encoder)
        model = opened.collection.model
        if model == new.spec.model:
            raise BadInput(
                f"collection {name} holds vectors of {encoder} by {new.spec.method} already; name another encoder"
            )
        active = calibration_table.active(opened.engine, opened.collection)
        both = both_of(opened.store, opened.encoder, new, sample, seed, console)
        way, found, worth = chosen(both, seed)
        weights = learnt(both, {lang: np.ones(len(one.old), dtype=np.bool_) for lang, one in both.items()})(way)
    finally:
        opened.close()
    documents = {lang: len(one.documents) for lang, one in both.items()}
    about = {
        "method": f"migration to {encoder} by {new.spec.method}",
        **asdict(way),
        "documents": sum(documents.values()),
        "before": before(active, new.spec.model),
        "to": new.spec.model,
        **asdict(worth),
    }
    maps = SpaceMaps.rounded(model, {(ANY, ANY): weights}, about=about, asker=asker)
    given, kept = _given(maps, active), None
    with Searcher.open(name, settings, device=device, console=console) as searcher:
        compared = ComparedQueries.on(name, searcher.store, model, settings)
        first = compared.first(searcher)
        if dry_run or not (worth.pays or anyway):
            samples = draw_samples(searcher.store, new, stored=opened.encoder.spec, seed=seed, console=console)
            mapped = MappedCalibration.on(fit_statistics(samples, model), maps)
            after = compared.first(_ranking_by(searcher, mapped, given.setting or DEFAULT, new))
        else:
            kept = calibrate(name, settings, given=given, seed=seed, device=device, console=console).kept
            with Searcher.open(name, settings, device=device, console=console, encoder=new) as migrated:
                after = compared.first(migrated)
    shared = overlap(first, after)
    return MigrationReport(asker, documents, way, found, worth, shared, len(compared.queries), compared.logged, kept)


def _ranking_by(searcher: Searcher, calibration: Calibration, setting: Setting, encoder: Encoder) -> Searcher:
    """A searcher as it would be with a calibration that is not kept; it is closed with the one it is made of."""
    made = calibration.with_choice(balance=setting.balance, margin=setting.margin)
    return replace(searcher, encoder=encoder, calibration=made, choice=Choice.of(made))


def _given(maps: SpaceMaps, active: KeptCalibration | None) -> CalibrationInput:
    """The new maps, ranked with as the collection was."""
    if active is None:
        return CalibrationInput(maps=maps)
    setting = replace(active.summary.setting, weights=())
    return CalibrationInput(setting, active.summary.decided_by, maps=maps)
