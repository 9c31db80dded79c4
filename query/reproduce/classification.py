"""Zero-shot topic classification: a classifier learns in one language and is tested in every other, X × Y."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from encoders.document import Document, FloatArray, short_hash
from query.report.language_pairs import PairTable, mean_counted

Part = Literal["train", "dev", "test"]

_SHARES: Mapping[Part, float] = {"train": 0.5, "dev": 0.1, "test": 0.4}
_STRENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0)
_PATIENCE = 2000


@dataclass(frozen=True)
class Labelled:
    """Documents of one language and one part of a split.

    Attributes:
        vectors: (documents, dim) unit rows.
        labels: (documents,) names of classes.
    """

    vectors: FloatArray
    labels: npt.NDArray[np.str_]


@dataclass(frozen=True)
class Averages:
    """What the paper's tables end with: mean accuracies over pairs of languages, 0 to 1.

    Attributes:
        cross: trained in one language, tested in another.
        same: tested in the language of training.
        all: over every pair.
    """

    cross: float
    same: float
    all: float


def zero_shot(data: Mapping[str, Mapping[Part, Labelled]]) -> PairTable:
    """Accuracy of each pair, the language of training in rows: logistic regression on frozen, standardised vectors.

    Means and deviations are the training part's, and the penalty is chosen on the development part of the same
    language: no other has been seen before the test.

    Args:
        data: by language; the row of one that lacks a part, or has a single class to learn, is NaN, and so is the
            column of one without a test part.
    """
    languages = list(data)
    values = np.full((len(languages), len(languages)), np.nan)
    for row, parts in enumerate(data.values()):
        if not _teaches(parts):
            continue
        classifier = _fitted(parts["train"], parts["dev"])
        for column, other in enumerate(data.values()):
            test = other["test"]
            if len(test.labels):
                values[row, column] = np.mean(classifier.predict(test.vectors) == test.labels)
    return PairTable(languages, languages, values)


def averages(table: PairTable) -> Averages:
    """Means over pairs of two languages, of one with itself, and over all; NaN where there are none."""
    same, cross = table.means()
    return Averages(cross, same, mean_counted(table.values))


def split(documents: Sequence[Document], seed: int) -> list[Part]:
    """The part of each document, by its field ``concept``: translations of one another are in one part.

    A half is for training, a tenth for development; a concept's part depends on itself and the seed alone.
    """
    edges = np.cumsum(list(_SHARES.values()))
    parts = list(_SHARES)
    places = [
        int(short_hash(str(seed), str(document.fields.get("concept", document.doc_id))), 16) / 16**16
        for document in documents
    ]
    return [parts[min(int(np.searchsorted(edges, place, side="right")), 2)] for place in places]


def _teaches(parts: Mapping[Part, Labelled]) -> bool:
    return len(set(parts["train"].labels)) > 1 and len(parts["dev"].labels) > 0


def _fitted(train: Labelled, dev: Labelled) -> Any:
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 - a second that other commands need not pay
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import StandardScaler  # noqa: PLC0415

    tried = [
        make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=_PATIENCE)).fit(
            train.vectors, train.labels
        )
        for strength in _STRENGTHS
    ]
    return max(tried, key=lambda classifier: classifier.score(dev.vectors, dev.labels))
