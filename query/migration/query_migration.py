"""Move a collection to another encoder without encoding its documents again: what ``dragoman migrate`` does.

From a sample a map W from old vectors to new is learnt, and a query q searches the old index as Wᵀq. The map is part of
a calibration: choosing the previous calibration rolls the migration back.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from encoders.console import QUIET, Console
from encoders.errors import BadInput
from encoders.machine.placement import Device
from encoders.maps.space_maps import ANY, QueryEncoderSpec, SpaceMaps
from encoders.methods.combined_encoder import refuse_combined
from indexer.collection.settings import Settings
from indexer.ledger.database import require_writable
from onnx_export.models import absolute, open_named, taught_shares
from query.calibration import calibration_table
from query.calibration.calibration import NONE
from query.calibration.calibration_table import StoredCalibration
from query.calibration_fitting.calibration_fit import fit, keep
from query.calibration_fitting.calibration_request import CalibrationRequest
from query.calibration_fitting.open_collection import OpenCollection
from query.migration.candidate_maps import MapQuality, MapRecipe, learn_map
from query.migration.overlap import Comparison, compare
from query.migration.paired_sample import paired_sample
from query.ranking.searcher import Searcher

SAMPLE = 2000
"""Documents that both encoders encode, over all languages."""


@dataclass(frozen=True)
class MigrationReport:
    """The measured effect of migrating, and the calibration if the collection has migrated."""

    query_encoder: QueryEncoderSpec
    documents: Mapping[str, int]  # number of documents that both encoders encoded, by language
    recipe: MapRecipe
    quality: MapQuality
    comparison: Comparison  # the hits before and after migrating
    calibration: StoredCalibration | None  # the new active calibration; none if the collection has not migrated
    taught: Mapping[str, float]  # share of these documents that taught an encoder, by the encoder's name


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
    console: Console = QUIET,
) -> MigrationReport:
    """Make another encoder encode a collection's queries, by a map of ``sample`` documents; no document is changed.

    ``anyway`` migrates even if staying is better; ``dry_run`` changes nothing. Raises BadInput: there is no such
    collection or encoder, the collection has that encoder already, or is too small.
    """
    settings = settings or Settings.read()
    encoder = absolute(encoder)
    refuse_combined(encoder)
    with OpenCollection.open(name, settings, device, console) as opened:
        if not dry_run:
            require_writable(opened.engine, calibration_table.CalibrationRow)
        new = open_named(encoder, method, console, device=device)
        query_encoder = QueryEncoderSpec(encoder, new.spec.method, new.spec.model, new.spec.dim)
        refuse_combined(opened.collection.encoder)
        model = opened.collection.model
        if model == new.spec.model:
            raise BadInput(
                f"collection {name} holds vectors of {encoder} by {new.spec.method} already; name another encoder"
            )
        paired = paired_sample(opened.store, opened.encoder, new, sample, seed, console)
        weights, recipe, quality = learn_map(paired, seed)
        encoders = [(opened.collection.encoder, opened.collection.method), (encoder, new.spec.method)]
        taught = taught_shares(encoders, lambda: [document.text_hash for document in paired.documents], console)
        active = opened.stored_calibration()
        before = active.id if active else NONE
        if active and active.summary.migrated_to == new.spec.model:  # the first of repeated migrations is left
            before = active.summary.migrated_from
        about = {
            "method": f"migration to {encoder} by {new.spec.method}",
            **asdict(recipe),
            "documents": len(paired.documents),
            "before": before,
            "to": new.spec.model,
            **asdict(quality),
        }
        maps = SpaceMaps.rounded(model, {(ANY, ANY): weights}, about=about, query_encoder=query_encoder)
        request = CalibrationRequest(maps=maps, seed=seed)
        decision = fit(opened, request.after(active, None) if active else request, new)
        with Searcher.open(name, settings, device=device, console=console) as searcher:
            comparison = compare(searcher, new, decision.calibration, settings)
        stored = keep(opened, decision).stored if (quality.pays or anyway) and not dry_run else None
    documents = Counter(document.lang for document in paired.documents)
    return MigrationReport(query_encoder, documents, recipe, quality, comparison, stored, taught)
