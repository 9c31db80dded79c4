"""From sources to a LAWDR encoder: sample sentences, encode them, fit their density."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np

from encoders.console import Console
from encoders.document import Document, FloatArray
from encoders.errors import BadInput
from encoders.folder import ModelFolder, free_target
from encoders.languages import UNDETERMINED
from encoders.methods.density import DensityWeights
from encoders.methods.lawdr import publish
from encoders.methods.sentence import SentenceEncoder
from encoders.methods.sentences import Sentences
from encoders.session import Device
from encoders.wording import counted
from indexer.readers import Reading, ReadOptions, Refusal, read
from indexer.text.language_detection import Detector
from indexer.training.sampling import SentenceSample
from onnx_export.models import DEFAULT, find_model

SAMPLE = 20_000
"""Sentences a density is fitted on unless said."""
_ROUGH = 1_000
"""Fewer leave most sentences without a neighbour: they then weigh the same."""
_TOGETHER = 512


@dataclass(frozen=True)
class LawdrReport:
    """What was fitted on what.

    Attributes:
        folder: the new model folder.
        density: the weights in it.
        documents: that were read.
        languages: sentences in the sample, by language.
        refused: records that could not be read.
    """

    folder: ModelFolder
    density: DensityWeights
    documents: int
    languages: dict[str, int]
    refused: list[Refusal]


def train_lawdr(
    sources: Sequence[str],
    target: Path,
    *,
    options: ReadOptions | None = None,
    encoder: str | None = None,
    sample: int = SAMPLE,
    seed: int = 0,
    device: Device = "auto",
    console: Console | None = None,
) -> LawdrReport:
    """Fit the density of sentences on a sample of sources, and publish it with its base encoder.

    Args:
        sources: files, folders, ``ir-datasets:NAME``.
        target: the model folder to make; a model folder there is replaced.
        options: how to read the sources.
        encoder: name or folder of the base; the default unless given.
        sample: sentences to fit on, as many of each language.
        seed: of sample and folds.
        device: where to encode.
        console: where progress goes; nowhere unless given.

    Raises:
        BadInput: a source can't be read, none has a sentence, or the target holds something else.
        MissingPart: ONNX Runtime, the device asked for, or room for the folder is not there.
    """
    console = console or Console(quiet=True)
    target = free_target(target, "model")
    readings = [read(source, options or ReadOptions()) for source in sources]
    base = find_model(encoder or DEFAULT, console)
    drawn = SentenceSample(sample, seed)
    refused = _draw(chain.from_iterable(readings), drawn, console)
    texts = drawn.by_language()
    if not texts:
        why = f"{refused[0].where}: {refused[0].reason}" if refused else "they have no text"
        raise BadInput(f"no sentence could be read from {', '.join(sources)} ({why}); give sources that have some")
    vectors = _encode(SentenceEncoder(base, device=device), texts, console)
    if not len(vectors):
        raise BadInput(f"the sources have nothing that {base.config.name} knows; give others, or another --encoder")
    if len(vectors) < _ROUGH:
        console.warn(
            f"a density of {counted(len(vectors), 'sentence')} is rough; give more documents if there are some"
        )
    console.say("fitting")
    density = DensityWeights.fit(vectors, seed)
    folder = publish(base, density, target)
    return LawdrReport(
        folder, density, drawn.documents, {lang: len(sentences) for lang, sentences in texts.items()}, refused
    )


def _draw(readings: Iterable[Reading], sample: SentenceSample, console: Console) -> list[Refusal]:
    """Show a sample every document; returns what could not be read."""
    detector = Detector(None)
    refused = []
    with console.progress("reading", None, "documents") as progress:
        for reading in readings:
            match reading:
                case Document(lang=lang):
                    known = lang != UNDETERMINED
                    sample.add(reading if known else replace(reading, lang=detector.detect(reading.content).lang))
                    progress(1)
                case Refusal():
                    refused.append(reading)
    return refused


def _encode(sentence: SentenceEncoder, texts: dict[str, list[str]], console: Console) -> FloatArray:
    """The vectors of sentences, those that occur twice encoded once: (sentences, dim)."""
    encoder = Sentences(sentence)
    counts = Counter((lang, text) for lang, sentences in texts.items() for text in sentences)
    distinct = list(counts)
    rows = [np.zeros((0, encoder.spec.dim), dtype=np.float32)]
    with console.progress("encoding", counts.total(), "sentences") as progress:
        for start in range(0, len(distinct), _TOGETHER):
            batch = distinct[start : start + _TOGETHER]
            encoded = encoder.encode_documents([Document("", lang, text) for lang, text in batch])
            for name, passages in zip(batch, encoded.passages, strict=True):
                rows += [passages.unit_vectors()] * counts[name]
            progress(sum(counts[name] for name in batch))
    return np.concatenate(rows)
