"""How far a collection's languages keep to themselves, in a sample of its vectors: raw, and as they are searched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from encoders.document import FloatArray, unit_rows
from indexer.stores.contract import VectorStore
from query.calibration.calibration import Calibration
from query.calibration.margin import centring

SAMPLE = 2_000
"""Documents of a sample, over all languages; of many languages a few more."""
NEIGHBOURS = 10
_EACH = 20


@dataclass(frozen=True)
class VectorSample:
    """Documents drawn at random, of each language as many as there can be.

    Attributes:
        langs: (n,) their languages.
        raw: (n, dim) unit vectors as the encoder made them.
        corrected: (n, dim) unit vectors without the languages' components; none where there is no calibration.
    """

    langs: npt.NDArray[np.str_]
    raw: FloatArray
    corrected: FloatArray | None

    @property
    def languages(self) -> list[str]:
        """In order."""
        return sorted(set(self.langs.tolist()))

    @classmethod
    def draw(cls, store: VectorStore, model: str, calibration: Calibration | None, *, seed: int = 0) -> VectorSample:
        """Draw it from a store that holds documents.

        Args:
            store: holds them.
            model: whose vectors.
            calibration: corrects them, as far as its balance says.
            seed: of the draw.
        """
        languages = sorted(store.count())
        each = max(_EACH, SAMPLE // max(len(languages), 1))
        doc_ids: list[str] = []
        rows: dict[str, slice] = {}
        for lang in languages:
            drawn = store.sample(model, lang, each, seed=seed)
            rows[lang] = slice(len(doc_ids), len(doc_ids) + len(drawn))
            doc_ids += drawn
        raw = store.vectors(model, doc_ids)
        langs = np.repeat(languages, [one.stop - one.start for one in rows.values()])
        return cls(langs, raw, calibration.mixed(raw, rows, centring(calibration.balance)) if calibration else None)


def projection(vectors: FloatArray) -> FloatArray:
    """The two directions of the largest variance, (n, 2); zero where vectors don't vary."""
    centred = vectors.astype(np.float64) - vectors.mean(axis=0)
    _, directions = np.linalg.eigh(centred.T @ centred)
    top = directions[:, ::-1][:, :2]
    top = top * np.sign(top[np.abs(top).argmax(axis=0), np.arange(2)])
    flat: FloatArray = (centred @ top).astype(np.float32)
    return flat


def neighbour_share(vectors: FloatArray, langs: npt.NDArray[np.str_], k: int = NEIGHBOURS) -> float:
    """Of a vector's k nearest others, the share in its own language; the mean over vectors.

    Args:
        vectors: (n, dim), two at least.
        langs: (n,) their languages.
        k: how many neighbours.
    """
    k = min(k, len(vectors) - 1)
    cosines = unit_rows(vectors) @ unit_rows(vectors).T
    np.fill_diagonal(cosines, -np.inf)
    nearest = np.argpartition(-cosines, k - 1, axis=1)[:, :k]
    return float((langs[nearest] == langs[:, None]).mean())


def fair_share(langs: npt.NDArray[np.str_]) -> float:
    """What ``neighbour_share`` is where neighbours are drawn at random."""
    _, codes, counts = np.unique(langs, return_inverse=True, return_counts=True)
    return float((counts[codes] - 1).mean() / max(len(langs) - 1, 1))
