"""The table of classification of the HMDE paper: learnt in one language, tested in each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from encoders.console import Console
from encoders.document import Document, Encoder
from papers.classification import Labelled, LabelledSplit, all_documents, classify
from papers.encoding import vectors_by_id
from papers.hmde_methods import FineTuning
from papers.published import published

if TYPE_CHECKING:
    from papers.trainable import Trainable

_FIGURES = published("hmde")["classification"]
SYSTEMS: Sequence[str] = _FIGURES["systems"]
PAPER: Mapping[str, Sequence[float]] = _FIGURES["languages"]
"""Accuracy in per cent of the paper's systems, fine-tuned on English (table 1)."""
PAPER_DATA: str = _FIGURES["data"]
_STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
_BATCH = 256


def paper_means(langs: Sequence[str], taught: str) -> list[float]:
    """Means of the paper's systems over languages, in per cent.

    Empty if the paper lacks a language or ``taught`` is not English.
    """
    if taught != "en" or not PAPER.keys() >= set(langs):
        return []
    # 1e-6 rounds a half up, as in the paper.
    return [float(np.mean(column)) + 1e-6 for column in zip(*(PAPER[lang] for lang in langs), strict=True)]


@dataclass(frozen=True)
class Accuracy:
    """Mean accuracy over splits and its standard deviation, in per cent, four decimals."""

    accuracy: float
    spread: float

    @classmethod
    def of(cls, by_split: npt.NDArray[np.float64]) -> Accuracy:
        """Mean and standard deviation of (splits,) accuracies in per cent."""
        return cls(round(float(by_split.mean()), 4), round(float(by_split.std()), 4))


@dataclass(frozen=True)
class Accuracies:
    """A classifier's accuracy by language, over all languages, and over all but the language of training if any."""

    languages: Mapping[str, Accuracy]
    mean: Accuracy
    others: Accuracy | None

    @classmethod
    def of(cls, by_split: Sequence[Mapping[str, float]], taught: str) -> Accuracies:
        """Means over the accuracies by language, 0 to 1, of each split; a split may lack documents of a language."""
        langs = dict.fromkeys(lang for by_lang in by_split for lang in by_lang)

        def mean(among: Collection[str]) -> Accuracy:
            of_splits = [[accuracy for lang, accuracy in by_lang.items() if lang in among] for by_lang in by_split]
            return Accuracy.of(100 * np.array([np.mean(of_split) for of_split in of_splits if of_split]))

        others = langs.keys() - {taught}
        return cls({lang: mean({lang}) for lang in langs}, mean(langs), mean(others) if others else None)

    def as_json(self) -> dict[str, Any]:
        """The accuracies as JSON."""
        return {
            "languages": {lang: asdict(accuracy) for lang, accuracy in self.languages.items()},
            "others": self.others and self.others.accuracy,
            "others_spread": self.others and self.others.spread,
            "mean": self.mean.accuracy,
            "mean_spread": self.mean.spread,
        }


def classify_frozen(splits: Sequence[LabelledSplit], taught: str, encoder: Encoder, console: Console) -> Accuracies:
    """Accuracies of a softmax classifier over frozen vectors (HMDE eq. 2); each document is encoded once.

    Raises BadInput: the training documents of a split have fewer than two labels.
    """
    vectors = vectors_by_id("encoding", all_documents(splits), encoder, _BATCH, console)
    by_split = []
    for split in splits:
        train, dev = (Labelled.of(documents, vectors) for documents in (split.train, split.dev))
        tests = {lang: Labelled.of(documents, vectors) for lang, documents in split.tests.items()}
        by_split.append(classify(train, dev, tests, _STRENGTHS))
    return Accuracies.of(by_split, taught)


def classify_fine_tuned(
    splits: Sequence[LabelledSplit], taught: str, encoder: Trainable, settings: FineTuning, console: Console
) -> Accuracies:
    """Accuracies of the encoder with a linear layer, trained anew for each split.

    Raises BadInput: the training documents of a split have fewer than two labels, or the loss is not a finite number.
    """
    from papers.fine_tuning import Classifier, Examples, load_documents  # noqa: PLC0415 - torch

    documents = all_documents(splits)
    with console.progress("reading", len(documents), "documents") as progress:
        rows = load_documents(encoder, documents, progress)
    untrained = encoder.state()

    def examples(part: Sequence[Document]) -> Examples:
        return Examples(
            [rows[document.doc_id] for document in part], [str(document.fields["label"]) for document in part]
        )

    by_split = []
    for seed, split in enumerate(splits):
        encoder.restore(untrained)
        train = examples(split.train)
        classifier = Classifier(encoder, train.labels, replace(settings, seed=seed))
        classifier.train(train, examples(split.dev), console)
        by_split.append({lang: classifier.accuracy(examples(part)) for lang, part in split.tests.items()})
    return Accuracies.of(by_split, taught)
