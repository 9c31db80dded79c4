"""Train a LAWDR encoder from sources: sample sentences, encode them, fit their density."""

import hashlib
import heapq
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from encoders.console import QUIET, Console, Progress
from encoders.document import Document, FloatArray, encode_in_batches
from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder, free_target
from encoders.machine.placement import Device
from encoders.methods.density import DensityWeights
from encoders.methods.lawdr_method import publish
from encoders.methods.sentence import SentenceEncoder
from encoders.methods.sentences import Sentences
from encoders.phrases import counted
from encoders.text.segmentation import sentences
from indexer.readers.records.source import Refusal
from indexer.readers.source_documents import SourceDocuments, Sources
from onnx_export.models import DEFAULT, find_model, open_sentence

SAMPLE = 20_000
"""Default number of sentences that a density is fitted on."""
_MIN_SENTENCES = 1_000
"""With fewer sentences most have no neighbour, and so the same weight; a warning says so."""
_BATCH = 512


@dataclass(frozen=True)
class LawdrReport:
    """The trained folder, and counts of the data."""

    folder: ModelFolder
    density: DensityWeights  # the weights in the folder
    documents: int
    languages: dict[str, int]  # number of sentences in the sample, by language
    refused: list[Refusal]


def train_lawdr(
    sources: Sources,
    target: Path,
    *,
    encoder: str | None = None,
    sample: int = SAMPLE,
    seed: int = 0,
    device: Device = "auto",
    console: Console = QUIET,
) -> LawdrReport:
    """Fit the density of sentences on a sample of sources, and publish it with its base encoder as a model folder.

    The sample has equally many sentences of each language; ``seed`` is that of the sample and the folds. Raises
    BadInput: a source can't be read, none has a sentence, or the target holds something else; MissingPart: ONNX
    Runtime, the device or space.
    """
    target = free_target(target, "model")
    documents = SourceDocuments(sources)
    base = find_model(encoder or DEFAULT, console)
    sentence_sample = SentenceSample(sample, seed)
    with console.progress("reading", None, "documents") as progress:
        for document in documents.read(progress):
            sentence_sample.add(document)
    texts = sentence_sample.by_language()
    if not texts:
        raise documents.nothing_read("sentence", "they have no text")
    vectors = _encode(open_sentence(encoder or DEFAULT, console, device), texts, console)
    if not len(vectors):
        raise BadInput(f"the sources have nothing that {base.config.name} knows; give others, or another --encoder")
    if len(vectors) < _MIN_SENTENCES:
        console.warn(
            f"a density of {counted(len(vectors), 'sentence')} is rough; give more documents if there are some"
        )
    console.say("fitting")
    density = DensityWeights.fit(vectors, seed)
    folder = publish(base, density, target)
    counts = {lang: len(sentences) for lang, sentences in texts.items()}
    return LawdrReport(folder, density, sentence_sample.documents, counts, documents.refused)


def _encode(sentence_encoder: SentenceEncoder, texts: dict[str, list[str]], console: Console) -> FloatArray:
    """Encode sentences, each distinct sentence once: (sentences, dim)."""
    encoder = Sentences(sentence_encoder)
    counts = Counter((lang, text) for lang, sentences in texts.items() for text in sentences)
    distinct = (Document("", lang, text) for lang, text in counts)
    rows = [np.zeros((0, encoder.spec.dim), dtype=np.float32)]
    with console.progress("encoding", counts.total(), "sentences") as progress:
        for batch, encoded in encode_in_batches(encoder, distinct, _BATCH, Progress()):
            repeats = [counts[document.lang, document.text] for document in batch]
            for count, passages in zip(repeats, encoded.passages, strict=True):
                rows += [passages.without_title().unit_vectors()] * count
            progress(sum(repeats))
    return np.concatenate(rows)


class SentenceSample:
    """A uniform sample of each language's sentences by lowest hash of seed, id and position: order does not matter."""

    def __init__(self, size: int, seed: int = 0) -> None:
        self.size = size  # sentences in all languages together; each has an equal share, at least one sentence
        self.seed = seed
        self.documents = 0  # documents added so far
        self._samples: dict[str, list[tuple[int, str]]] = {}

    def add(self, document: Document) -> None:
        """Draw from a document's sentences; the title is a sentence."""
        self.documents += 1
        content = document.content
        spans = sentences(content, document.lang, trained=True)
        if not spans:
            return
        if document.lang not in self._samples:
            self._samples[document.lang] = []
            for sample in self._samples.values():
                self._shorten(sample)
        sample = self._samples[document.lang]
        for position, (start, end) in enumerate(spans):
            negated_rank = -self._rank(document.doc_id, position)
            if len(sample) < self._share or negated_rank > sample[0][0]:
                heapq.heappush(sample, (negated_rank, content[start:end]))
                self._shorten(sample)

    def by_language(self) -> dict[str, list[str]]:
        """The sampled sentences by language; languages are sorted, sentences are in order of rank, highest first."""
        return {lang: [text for _, text in sorted(self._samples[lang])] for lang in sorted(self._samples)}

    @property
    def _share(self) -> int:
        return max(self.size // len(self._samples), 1)

    def _shorten(self, sample: list[tuple[int, str]]) -> None:
        while len(sample) > self._share:
            heapq.heappop(sample)

    def _rank(self, doc_id: str, position: int) -> int:
        hashed = f"{self.seed} {position} {doc_id}".encode("utf-8", "surrogatepass")
        return int.from_bytes(hashlib.blake2b(hashed, digest_size=8).digest())
