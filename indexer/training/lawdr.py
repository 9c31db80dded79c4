"""Train a LAWDR encoder from sources: sample sentences, encode them, fit their density."""

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
"""Default number of sentences that a density is fitted on."""
_MIN_SENTENCES = 1_000
"""With fewer sentences most have no neighbour, and so the same weight; a warning says so."""
_BATCH = 512


@dataclass(frozen=True)
class LawdrReport:
    """The trained folder, and counts of the data.

    Attributes:
        density: the weights in the folder.
        documents: number of documents read.
        languages: number of sentences in the sample, by language.
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
        target: the model folder to write; an existing model folder is replaced.
        options: how to read the sources.
        encoder: name or folder of the base encoder; None: the default.
        sample: number of sentences to fit on, equally many per language.
        seed: seed of the sample and of the folds.
        device: where to encode.
        console: where progress is shown; None: nowhere.

    Raises:
        BadInput: a source can't be read, no source has a sentence, or the target holds something else.
        MissingPart: ONNX Runtime, the requested device, or space for the folder is missing.
    """
    console = console or Console(quiet=True)
    target = free_target(target, "model")
    readings = [read(source, options or ReadOptions()) for source in sources]
    base = find_model(encoder or DEFAULT, console)
    sentence_sample = SentenceSample(sample, seed)
    refused = _draw(chain.from_iterable(readings), sentence_sample, console)
    texts = sentence_sample.by_language()
    if not texts:
        reason = f"{refused[0].where}: {refused[0].reason}" if refused else "they have no text"
        raise BadInput(f"no sentence could be read from {', '.join(sources)} ({reason}); give sources that have some")
    vectors = _encode(SentenceEncoder(base, device=device), texts, console)
    if not len(vectors):
        raise BadInput(f"the sources have nothing that {base.config.name} knows; give others, or another --encoder")
    if len(vectors) < _MIN_SENTENCES:
        console.warn(
            f"a density of {counted(len(vectors), 'sentence')} is rough; give more documents if there are some"
        )
    console.say("fitting")
    density = DensityWeights.fit(vectors, seed)
    folder = publish(base, density, target)
    return LawdrReport(
        folder, density, sentence_sample.documents, {lang: len(sentences) for lang, sentences in texts.items()}, refused
    )


def _draw(readings: Iterable[Reading], sample: SentenceSample, console: Console) -> list[Refusal]:
    """Add every document to a sample; return the refusals."""
    detector = Detector(None)
    refused = []
    with console.progress("reading", None, "documents") as progress:
        for reading in readings:
            match reading:
                case Document(lang=lang):
                    has_language = lang != UNDETERMINED
                    document = reading if has_language else replace(reading, lang=detector.detect(reading.content).lang)
                    sample.add(document)
                    progress(1)
                case Refusal():
                    refused.append(reading)
    return refused


def _encode(sentence_encoder: SentenceEncoder, texts: dict[str, list[str]], console: Console) -> FloatArray:
    """Encode sentences, each distinct sentence once: (sentences, dim)."""
    encoder = Sentences(sentence_encoder)
    counts = Counter((lang, text) for lang, sentences in texts.items() for text in sentences)
    distinct = list(counts)
    rows = [np.zeros((0, encoder.spec.dim), dtype=np.float32)]
    with console.progress("encoding", counts.total(), "sentences") as progress:
        for start in range(0, len(distinct), _BATCH):
            batch = distinct[start : start + _BATCH]
            encoded = encoder.encode_documents([Document("", lang, text) for lang, text in batch])
            for key, passages in zip(batch, encoded.passages, strict=True):
                rows += [passages.unit_vectors()] * counts[key]
            progress(sum(counts[key] for key in batch))
    return np.concatenate(rows)
