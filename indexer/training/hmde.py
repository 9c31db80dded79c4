"""From sources to an HMDE folder: read, prepare, draw triples, train, publish. Goes on where it was stopped."""

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

from encoders.console import Console
from encoders.document import short_hash
from encoders.errors import MissingPart
from encoders.folder import ModelFolder, Precision, free_target
from encoders.hmde.triples import TripleDocument, Triples, held_out
from encoders.hmde.upper import UpperShape
from encoders.session import Device
from encoders.wording import counted
from indexer.indexing.reading import check_sources
from indexer.readers import ReadOptions, Refusal, Remark
from indexer.training.hmde_material import Sources, prepare
from onnx_export.hmde.settings import Curve, Settings
from onnx_export.huggingface.source import require_torch
from onnx_export.models import DEFAULT

if TYPE_CHECKING:
    from onnx_export.graphs.parity import ParityReport

_FILES = {"checkpoint": "checkpoint.bin", "curve": "curve.png"}


@dataclass(frozen=True)
class HmdeReport:
    """What was trained on what.

    Attributes:
        folder: the new model folder.
        parity: of both graphs together.
        curve: of the training.
        documents: read that have text, by language.
        drawn: triples of the training, by ordered pair of languages.
        possible: triples without counting negatives, by ordered pair of languages.
        single: concepts with pages in one language only; they give no triple.
        lonely: pages with a mate and no hard negative; they begin no triple.
        further: pages whose concept an earlier page of their language has; they are negatives at most.
        cut: documents of more sentences than the upper encoder sees at once; the others were left out in training.
        held_out: concepts kept for validation that have pages in two languages.
        resumed: steps that an earlier run had done.
        refused: records that could not be read.
        remarks: on how sources were read.
    """

    folder: ModelFolder
    parity: ParityReport
    curve: Curve
    documents: dict[str, int]
    drawn: dict[tuple[str, str], int]
    possible: dict[tuple[str, str], int]
    single: int
    lonely: int
    further: int
    cut: int
    held_out: int
    resumed: int
    refused: list[Refusal]
    remarks: list[Remark]

    @property
    def passes(self) -> float:
        """How many times as many triples were drawn as there are without counting negatives."""
        return sum(self.drawn.values()) / sum(self.possible.values())

    @property
    def share(self) -> str:
        """The same in words."""
        return share(sum(self.drawn.values()), sum(self.possible.values()))


def train_hmde(
    sources: Sequence[str],
    target: Path,
    *,
    settings: Settings,
    options: ReadOptions | None = None,
    encoder: str = DEFAULT,
    languages: Sequence[str] = (),
    precision: Precision = "int8",
    device: Device = "auto",
    force: bool = False,
    console: Console | None = None,
) -> HmdeReport:
    """Train HMDE on documents with concepts and categories, and publish it.

    What is not finished stands in ``TARGET.training`` and is gone on with by the same call.

    Args:
        sources: files, folders, ``ir-datasets:NAME``.
        target: the model folder to make; a model folder there is replaced.
        settings: how to train.
        options: how to read the sources.
        encoder: the lower one: the default, an exported one where it stays frozen, a Hugging Face one where it learns.
        languages: to learn from; all unless given.
        precision: of the graphs.
        device: where to train.
        force: publish below the parity bar.
        console: where progress goes; nowhere unless given.

    Raises:
        BadInput: a source can't be read, gives no triples, or the target holds something else.
        MissingPart: torch, the device asked for, or room on the disk is not there.
    """
    console = console or Console(quiet=True)
    target = free_target(target, "model")
    require_torch()
    from onnx_export.hmde import base as bases  # noqa: PLC0415
    from onnx_export.hmde.publish import publish  # noqa: PLC0415
    from onnx_export.hmde.training import Training  # noqa: PLC0415
    from onnx_export.training.device import training_device  # noqa: PLC0415 - torch

    texts = Sources(sources, options or ReadOptions(), languages)
    check_sources(texts.names, texts.options)
    base = (bases.frozen if settings.frozen else bases.trained)(encoder, settings, device, console)
    survey = texts.survey(console)
    Triples(survey.pages, settings.seed, concepts_held_out(survey.pages, settings)[0])  # refused before all is encoded
    place = target.with_name(f"{target.name}.training")
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MissingPart(f"{place} can't be made ({error.strerror}); choose another --output") from error
    config = base.config
    lower_id = short_hash(
        config.model_id("hmde", sentences=settings.sentences, tokens=settings.tokens, frozen=settings.frozen),
        config.graph,
        str(config.max_tokens),
    )
    material = prepare(texts, len(survey.pages), base.lower, place, lower_id, console)
    away, judged = concepts_held_out(material.pages, settings)
    triples = Triples(material.pages, settings.seed, away)
    validation = np.array([row for row, page in enumerate(material.pages) if page.concept in away], dtype=np.int64)
    dim = config.dim
    where = str(training_device(device))
    shape = UpperShape(
        dim=dim,
        layers=settings.layers,
        heads=heads_of(dim),
        feed_forward=settings.feed_forward,
        sentences=settings.sentences,
        tokens=settings.tokens,
        form=settings.form,
    )
    training = Training(
        base.lower,
        shape,
        triples,
        validation,
        settings,
        place=place / _FILES["checkpoint"],
        device=where,
    )
    about = short_hash(
        json.dumps(asdict(settings), sort_keys=True),
        lower_id,
        *material.hashes,
        json.dumps([asdict(page) for page in material.pages]),
    )
    resumed = training.step if training.resume(about) else 0
    if resumed:
        console.say(f"goes on after step {resumed:,}")
    planned = settings.steps * settings.batch * settings.accumulate
    console.say(f"to draw: {share(planned, sum(triples.possible.values()))}")
    curve = training.run(console)
    drawn = triples.languages(triples.draw(0, training.step * settings.batch * settings.accumulate))
    documents = Counter(page.lang for page in material.pages)
    said = training_facts(settings, curve, training.step, documents, drawn, encoder, where)
    folder, parity = publish(
        training.upper, base, target, precision, said, {_FILES["curve"]: _picture(curve)}, console, force=force
    )
    shutil.rmtree(place)
    return HmdeReport(
        folder=folder,
        parity=parity,
        curve=curve,
        documents=dict(sorted(documents.items())),
        drawn=dict(sorted(drawn.items())),
        possible=triples.possible,
        single=triples.single,
        lonely=triples.lonely,
        further=triples.further,
        cut=material.cut,
        held_out=len(judged),
        resumed=resumed,
        refused=survey.refused,
        remarks=survey.remarks,
    )


def concepts_held_out(pages: Sequence[TripleDocument], settings: Settings) -> tuple[set[str], set[str]]:
    """Concepts whose pages teach nothing, and those of them that have a mate to be found, by which a model is judged.

    There are none where fewer than two could be judged by, since a concept alone is always found, and none where no
    concept with a mate would be left to learn from.
    """
    langs: dict[str, set[str]] = defaultdict(set)
    for page in pages:
        if page.concept:
            langs[page.concept].add(page.lang)
    paired = {concept for concept, several in langs.items() if len(several) > 1}
    away = {concept for concept in langs if held_out(concept, settings.held_out, settings.seed)}
    judged = away & paired
    return (away, judged) if 2 <= len(judged) < len(paired) else (set(), set())


def share(drawn: int, possible: int) -> str:
    """How many triples are drawn of those that there are without counting negatives, in words."""
    part = f"{drawn / possible:.1%}" if drawn < possible else f"{drawn / possible:,.1f} passes"
    return f"{counted(drawn, 'triple')} of {possible:,} without counting negatives, {part}"


def heads_of(dim: int) -> int:
    """Attention heads of the upper transformer: of 64 dimensions each, as BERT's, where that divides; else one."""
    return dim // 64 if dim % 64 == 0 else 1


def training_facts(
    settings: Settings,
    curve: Curve,
    steps: int,
    documents: Counter[str],
    drawn: Counter[tuple[str, str]],
    encoder: str,
    device: str = "cpu",
) -> dict[str, Any]:
    """What ``hmde.json`` of a folder says of its training."""
    return {
        "lower": Path(encoder).name,
        "settings": asdict(settings),
        "device": device,
        "precision": "bfloat16 in the lower encoder" if device == "cuda" and not settings.frozen else "float32",
        "documents": documents.total(),
        "languages": dict(sorted(documents.items())),
        "triples": {f"{first}-{second}": count for (first, second), count in sorted(drawn.items())},
        "steps": steps,
        "best": curve.best,
        "stopped": curve.stopped,
        "validated": curve.validated,
        "untrained": curve.points[0].score,
        "score": curve.best_score,
        "curve": [asdict(point) for point in curve.points],
    }


def _picture(curve: Curve) -> bytes:
    """The curve as PNG: loss, and MAP on held-out concepts."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - half a second

    figure = Figure(figsize=(7.0, 3.6), layout="constrained")
    axes = figure.subplots()
    steps = [point.step for point in curve.points]
    axes.plot(steps, [point.loss for point in curve.points], color="#c8553d", label="loss")
    axes.set_xlabel("step")
    axes.set_ylabel("loss", color="#c8553d")
    kept = f"kept: step {curve.best:,}"
    if curve.validated:
        other = axes.twinx()
        other.plot(steps, [point.score for point in curve.points], color="#1b7f79", label="MAP")
        other.axvline(curve.best, color="#222222", linewidth=0.8, linestyle="--")
        other.set_ylabel("MAP on held-out concepts", color="#1b7f79")
        kept += f", MAP {curve.best_score:.4f}"
    axes.set_title(kept, fontsize=10, loc="left")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120, metadata={"Software": None})
    return buffer.getvalue()
