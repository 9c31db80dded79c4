"""Zero-shot classification of Debian's package descriptions, which several benchmarks measure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from encoders.document import Document, FloatArray
from papers.classification import PARTS, Averages, Labelled, averages, split, zero_shot


def accuracies(documents: Sequence[Document], vectors: FloatArray, splits: int) -> list[Averages]:
    """Mean accuracies over pairs of languages, of several splits by package; ``vectors`` has a row a document."""
    labels = np.array([document.fields["label"] for document in documents])
    langs = np.array([document.lang for document in documents])
    means = []
    for seed in range(splits):
        parts = np.array(split(documents, seed))
        data = {
            lang: {
                part: Labelled(vectors[rows], labels[rows])
                for part in PARTS
                for rows in [(langs == lang) & (parts == part)]
            }
            for lang in dict.fromkeys(langs.tolist())
        }
        means.append(averages(zero_shot(data)))
    return means
