"""Train an HMDE folder from sources: read, prepare, draw triples, train, publish; an interrupted run is resumed."""

from __future__ import annotations

import io
import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from encoders.console import QUIET, Console
from encoders.document import short_hash
from encoders.folder.model_config import Precision
from encoders.folder.model_folder import ModelFolder, free_target
from encoders.hmde.triples import TripleDocument, Triples, held_out
from encoders.machine.placement import Device
from encoders.phrases import counted
from indexer.indexing.reading import check_sources
from indexer.readers.records.source import Refusal, Remark
from indexer.readers.source_documents import Sources
from indexer.training.hmde_material import Material, prepare, survey
from onnx_export.hmde.hmde_settings import Curve, Settings
from onnx_export.huggingface.hub_source import require_torch
from onnx_export.models import DEFAULT
from onnx_export.training.curve import draw

if TYPE_CHECKING:
    from onnx_export.graphs.parity import ParityReport
    from onnx_export.hmde.lower_base import Base
    from onnx_export.hmde.training import Training


_MOST_HELD_OUT = 2_048
"""Pages that are held out at most."""


@dataclass(frozen=True)
class HmdeReport:
    """The trained folder, and counts of the data and the training."""

    folder: ModelFolder
    parity: ParityReport  # of the lower and the upper graph together
    curve: Curve  # loss and validation score over the training steps
    documents: dict[str, int]  # number of documents with text, by language
    drawn: dict[tuple[str, str], int]  # number of triples that the training drew, by ordered pair of languages
    triples: Triples
    cut: int  # documents with more segments than the upper encoder reads; later segments are left out
    held_out: frozenset[str]  # validation concepts that have pages in two languages
    resumed: int  # number of steps that an earlier run had done
    refused: list[Refusal]
    remarks: list[Remark]

    @property
    def passes(self) -> float:
        """Triples drawn per possible triple, where possible triples do not count negatives."""
        return sum(self.drawn.values()) / sum(self.triples.possible.values())

    @property
    def share(self) -> str:
        """``passes`` in words."""
        return _share(sum(self.drawn.values()), self.triples)


def train_hmde(
    sources: Sources,
    target: Path,
    *,
    settings: Settings,
    encoder: str = DEFAULT,
    precision: Precision = "int8",
    device: Device = "auto",
    force: bool = False,
    console: Console = QUIET,
) -> HmdeReport:
    """Train HMDE on documents with concepts and categories, and publish it as a model folder, even over an older one.

    Unfinished work is in ``TARGET.training``; the same call resumes it. ``encoder``, the lower encoder, is the default,
    an exported encoder if frozen, or a Hugging Face encoder if trained too. ``force`` publishes below the parity bar.
    Raises BadInput: a source can't be read or gives no triples, or the target holds something else; MissingPart: torch,
    the device, or disk space; StoreError: another process trains there.
    """
    target = free_target(target, "model")
    require_torch()
    from onnx_export.hmde import lower_base as bases  # noqa: PLC0415
    from onnx_export.hmde.hmde_folder import publish  # noqa: PLC0415 - torch
    from onnx_export.training.training_checkpoint import locked  # noqa: PLC0415

    check_sources(sources.names, sources.options)
    base = (bases.open_frozen if settings.frozen else bases.open_trained)(encoder, settings, device, console)
    pages, documents = survey(sources, console)
    Triples(pages, settings.seed, concepts_held_out(pages, settings)[0], settings.drawing)  # raises before the encoding
    work_folder = target.with_name(f"{target.name}.training")
    with locked(work_folder):
        lower_id = _lower_id(base, settings)
        material = prepare(sources, len(pages), base.lower, work_folder, lower_id, console)
        validation_concepts, judged_concepts = concepts_held_out(material.pages, settings)
        triples = Triples(material.pages, settings.seed, validation_concepts, settings.drawing)
        run_id = _run_id(settings, lower_id, material, validation_concepts)
        training = _new_training(base, triples, validation_concepts, settings, work_folder, run_id)
        if resumed := training.step:
            console.say(f"goes on after step {resumed:,}")
        step_triples = settings.batch * settings.accumulate
        console.say(f"to draw: {_share(settings.steps * step_triples, triples)}")
        curve = training.run(console)
        rows = triples.draw(0, training.step * step_triples)
        drawn = triples.languages(rows)
        counts = Counter(page.lang for page in material.pages)
        folder, parity = publish(
            training.upper, base, target, precision, training_facts(training, counts, drawn, encoder),
            {"curve.png": _picture(curve)}, console,
            taught_by=[material.text_keys[row] for row in np.unique(rows)], force=force,
        )  # fmt: skip
        shutil.rmtree(work_folder)
    return HmdeReport(
        folder, parity, curve, documents=dict(sorted(counts.items())), drawn=dict(sorted(drawn.items())),
        triples=triples, cut=material.cut, held_out=frozenset(judged_concepts), resumed=resumed,
        refused=documents.refused, remarks=documents.remarks,
    )  # fmt: skip


def _lower_id(base: Base, settings: Settings) -> str:
    """Identifies the lower encoder and the settings that documents are prepared with."""
    config = base.config
    names = ("segmentation", "sentences", "tokens", "frozen")
    model = config.model_id("hmde", **{name: getattr(settings, name) for name in names})
    return short_hash(model, config.graph, str(config.max_tokens))


def _run_id(settings: Settings, lower_id: str, material: Material, validation_concepts: set[str]) -> str:
    """Identifies everything that a checkpoint depends on."""
    settings_json = json.dumps(asdict(settings), sort_keys=True)
    pages_json = json.dumps([asdict(page) for page in material.pages])
    concepts_json = json.dumps(sorted(validation_concepts))
    return short_hash(settings_json, lower_id, *material.hashes, pages_json, concepts_json)


def _new_training(
    base: Base, triples: Triples, validation_concepts: set[str], settings: Settings, work_folder: Path, run_id: str
) -> Training:
    """A training that has not begun, or stands where an earlier run's checkpoint left it."""
    from onnx_export.hmde.training import Training  # noqa: PLC0415 - torch

    validation = [row for row, page in enumerate(triples.pages) if page.concept in validation_concepts]
    training = Training(
        base.lower,
        settings.shape(base.config.dim),
        triples,
        np.array(validation, dtype=np.int64),
        settings,
        place=work_folder / "checkpoint.bin",
    )
    training.resume(run_id)
    return training


def concepts_held_out(pages: Sequence[TripleDocument], settings: Settings) -> tuple[set[str], set[str]]:
    """Hold out concepts of 2,048 pages at most; returns all, and the judges: concepts with pages in two languages.

    Both are empty if fewer than two could judge, since a single concept's mate is always retrieved, or if no concept
    with pages in two languages would be left to learn from.
    """
    langs: dict[str, set[str]] = defaultdict(set)
    counts: Counter[str] = Counter()
    for page in pages:
        if page.concept:
            langs[page.concept].add(page.lang)
            counts[page.concept] += 1
    paired = {concept for concept, concept_langs in langs.items() if len(concept_langs) > 1}
    drawn = [concept for concept in langs if held_out(concept, settings.held_out, settings.seed)]
    total, chosen = 0, set()
    for concept in drawn:
        if total + counts[concept] <= _MOST_HELD_OUT:
            total += counts[concept]
            chosen.add(concept)
    judged = chosen & paired
    return (chosen, judged) if 2 <= len(judged) < len(paired) else (set(), set())


def _share(drawn: int, triples: Triples) -> str:
    """The number of drawn triples and of possible triples (negatives not counted), and their ratio, in words."""
    possible = sum(triples.possible.values())
    part = f"{drawn / possible:.1%}" if drawn < possible else f"{drawn / possible:,.1f} passes"
    return f"{counted(drawn, 'triple')} of {possible:,} without counting negatives, {part}"


def training_facts(
    training: Training, documents: Counter[str], drawn: Counter[tuple[str, str]], encoder: str
) -> dict[str, Any]:
    """The facts about a training that ``hmde.json`` in the model folder holds."""
    settings, curve, device = training.settings, training.curve, training.lower.device
    return {
        "lower": Path(encoder).name,
        "settings": asdict(settings),
        "device": device,
        "precision": "bfloat16" if device.startswith("cuda") else "float32",
        "documents": documents.total(),
        "languages": dict(sorted(documents.items())),
        "triples": {f"{first}-{second}": count for (first, second), count in sorted(drawn.items())},
        "steps": training.step,
        "best": curve.best,
        "stopped": curve.stopped,
        "validated": curve.validated,
        "untrained": curve.points[0].score,
        "score": curve.best_score,
        "curve": [asdict(point) for point in curve.points],
    }


def _picture(curve: Curve) -> bytes:
    """Draw the curve as PNG: loss, and MAP on held-out concepts."""
    panels = {f"loss, kept: step {curve.best:,}": ["loss"]}
    if curve.validated:
        panels[f"MAP on held-out concepts, kept: {curve.best_score:.4f}"] = ["score"]
    buffer = io.BytesIO()
    draw([asdict(point) for point in curve.points], panels, buffer)
    return buffer.getvalue()
