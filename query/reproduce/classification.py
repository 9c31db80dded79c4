"""Zero-shot classification: splits of labelled documents, one classifier, every pair of languages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from encoders.console import Console
from encoders.document import Document, FloatArray, short_hash
from encoders.errors import BadInput
from encoders.wording import counted
from indexer.readers import ReadOptions, Refusal, read
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


_SHARE = 0.8
"""Of the training documents in each of several draws."""


@dataclass(frozen=True)
class LabelledSplit:
    """Documents of one language to learn from, and of every language to be tested on.

    Attributes:
        train: documents to learn from.
        dev: of the same language, by which settings are chosen.
        tests: by language.
    """

    train: Sequence[Document]
    dev: Sequence[Document]
    tests: Mapping[str, Sequence[Document]]

    @property
    def documents(self) -> list[Document]:
        """All of them, each once."""
        every = [*self.train, *self.dev, *(document for some in self.tests.values() for document in some)]
        return list({document.doc_id: document for document in every}.values())


def labelled_documents(sources: Sequence[str], console: Console, languages: Sequence[str] = ()) -> list[Document]:
    """Documents of sources that have the field ``label``, in some languages or all; what is left out is told.

    Of several with one id the last is taken, as indexing does.

    Raises:
        BadInput: there are none.
    """
    kept: dict[str, Document] = {}
    refused: list[Refusal] = []
    unlabelled = again = 0
    for reading in chain.from_iterable(read(source, ReadOptions()) for source in sources):
        if isinstance(reading, Refusal):
            refused.append(reading)
        elif isinstance(reading, Document) and (not languages or reading.lang in languages):
            if reading.fields.get("label") in (None, ""):
                unlabelled += 1
                continue
            again += reading.doc_id in kept
            kept[reading.doc_id] = reading
    if refused:
        console.warn(
            f"{counted(len(refused), 'record')} could not be read; the first, {refused[0].where}: {refused[0].reason}"
        )
    if unlabelled:
        lacking = ("document has no field label and was", "documents have no field label and were")
        console.warn(f"{counted(unlabelled, *lacking)} left out")
    if again:
        console.warn(
            f"{counted(again, 'document has', 'documents have')} the id of an earlier one, which is replaced; "
            "ids go over all languages"
        )
    if not kept:
        where = " in a language that is wanted" if languages else ""
        raise BadInput(f"{', '.join(sources)} has no document with the field label{where}; give some that have it")
    return list(kept.values())


def stored(documents: Sequence[Document], taught: str) -> LabelledSplit:
    """The split that the field ``split`` of the documents states.

    Raises:
        BadInput: there is nothing to learn from, to choose by or to test on.
    """
    if not any("split" in document.fields for document in documents):
        raise BadInput("no document has the field split, which says its part: train, dev or test; or give --splits 5")
    return _by_part(documents, [str(document.fields.get("split", "")) for document in documents], taught)


def by_concept(documents: Sequence[Document], taught: str, seed: int) -> LabelledSplit:
    """A split by the field ``concept``: half to learn from, a tenth to choose by, translations on one side.

    Raises:
        BadInput: there is nothing to learn from, to choose by or to test on.
    """
    return _by_part(documents, split(documents, seed), taught)


def drawn(whole: LabelledSplit, seed: int) -> LabelledSplit:
    """The same split with 80 % of its training documents."""
    order = np.random.default_rng(seed).permutation(len(whole.train))[: max(2, round(_SHARE * len(whole.train)))]
    return replace(whole, train=[whole.train[at] for at in order.tolist()])


def _by_part(documents: Sequence[Document], parts: Sequence[Part | str], taught: str) -> LabelledSplit:
    sides: dict[tuple[str, str], list[Document]] = {}
    for document, part in zip(documents, parts, strict=True):
        sides.setdefault((document.lang, part), []).append(document)
    for part in ("train", "dev"):
        if (taught, part) not in sides:
            raise BadInput(
                f"there are no documents in {taught} of the part {part!r}; learn from another language, or give more"
            )
    tests = {lang: some for (lang, part), some in sorted(sides.items()) if part == "test"}
    if not tests:
        raise BadInput("there are no documents of the part 'test'; give more")
    return LabelledSplit(sides[taught, "train"], sides[taught, "dev"], tests)
