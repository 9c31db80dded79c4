"""Language bias of a sample of raw and corrected vectors: the share of nearest neighbours in the own language."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from encoders.document import FloatArray, unit_rows
from indexer.stores.contract import VectorStore, read_existing
from query.calibration.calibration import Calibration
from query.calibration.margin import centring
from query.calibration_fitting.document_samples import draw_each

SAMPLE = 2_000
"""Documents of a sample, over all languages; slightly more if there are many languages."""
NEIGHBOURS = 10
_EACH = 20


@dataclass(frozen=True)
class VectorSample:
    """Vectors of documents drawn at random, equally many of each language if it has so many."""

    langs: npt.NDArray[np.str_]  # (n,) languages of the documents
    raw: FloatArray  # (n, dim) unit vectors as the encoder made them
    corrected: FloatArray | None  # (n, dim) unit vectors without the languages' means; none without a calibration

    @classmethod
    def draw(cls, store: VectorStore, model: str, calibration: Calibration | None, *, seed: int = 0) -> "VectorSample":
        """Draw a sample from a store that is not empty; the calibration corrects it to the extent of its balance."""
        each = max(_EACH, SAMPLE // max(len(store.count()), 1))
        drawn = sorted(draw_each(store, model, each, seed=seed).items())
        read = partial(store.vectors, model)
        vectors = {lang: list(read_existing(read, doc_ids).values()) for lang, doc_ids in drawn}
        languages, counts = list(vectors), list(map(len, vectors.values()))
        ends = np.cumsum(counts).tolist()
        rows = {lang: slice(end - count, end) for lang, count, end in zip(languages, counts, ends, strict=True)}
        raw = np.stack([vector for of_lang in vectors.values() for vector in of_lang])
        langs = np.repeat(languages, counts)
        return cls(
            langs, raw, calibration.correct_documents(raw, rows, centring(calibration.balance)) if calibration else None
        )


def projection(vectors: FloatArray) -> FloatArray:
    """(n, 2) projection of the vectors on the two directions of largest variance; 0 where vectors don't vary."""
    centred = vectors.astype(np.float64) - vectors.mean(axis=0)
    _, directions = np.linalg.eigh(centred.T @ centred)
    top = directions[:, ::-1][:, :2]
    top = top * np.sign(top[np.abs(top).argmax(axis=0), np.arange(2)])
    projected: FloatArray = (centred @ top).astype(np.float32)
    return projected


def neighbour_share(vectors: FloatArray, langs: npt.NDArray[np.str_]) -> float:
    """Share of a vector's nearest ten neighbours in its own language, mean over at least two (n, dim) vectors."""
    k = min(NEIGHBOURS, len(vectors) - 1)
    cosines = unit_rows(vectors) @ unit_rows(vectors).T
    np.fill_diagonal(cosines, -np.inf)
    nearest = np.argpartition(-cosines, k - 1, axis=1)[:, :k]
    return float((langs[nearest] == langs[:, None]).mean())


def fair_share(langs: npt.NDArray[np.str_]) -> float:
    """Expected ``neighbour_share`` if neighbours are drawn at random."""
    _, codes, counts = np.unique(langs, return_inverse=True, return_counts=True)
    return float((counts[codes] - 1).mean() / max(len(langs) - 1, 1))
