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
        labels: (documents,) names of the documents' classes.
    """

    vectors: FloatArray
    labels: npt.NDArray[np.str_]


@dataclass(frozen=True)
class Averages:
    """Mean accuracies over pairs of languages, 0 to 1, as at the end of the paper's tables.

    Attributes:
        cross: mean of pairs tested in another language than that of training.
        same: mean of pairs tested in the language of training.
        all: mean over every pair.
    """

    cross: float
    same: float
    all: float


def zero_shot(data: Mapping[str, Mapping[Part, Labelled]]) -> PairTable:
    """Accuracy of each pair, the language of training in rows: logistic regression on frozen, standardised vectors.

    Means and deviations are those of the training part, and the penalty is chosen on the development part of the same
    language: the classifier has seen no other language before the test.

    Args:
        data: documents by language and part. A language without a development part, or with fewer than two classes in
            its training part, has a row of NaN; a language without test documents has a column of NaN.
    """
    languages = list(data)
    values = np.full((len(languages), len(languages)), np.nan)
    for row, parts in enumerate(data.values()):
        if not _is_trainable(parts):
            continue
        classifier = _fitted(parts["train"], parts["dev"])
        for column, test_parts in enumerate(data.values()):
            test = test_parts["test"]
            if len(test.labels):
                values[row, column] = np.mean(classifier.predict(test.vectors) == test.labels)
    return PairTable(languages, languages, values)


def averages(table: PairTable) -> Averages:
    """Means over pairs of two languages, over pairs of a language with itself, and over all; NaN if there are none."""
    same, cross = table.means()
    return Averages(cross, same, mean_counted(table.values))


def split(documents: Sequence[Document], seed: int) -> list[Part]:
    """The part of each document, by its field ``concept``: translations of one another are in the same part.

    Half of the concepts are for training and a tenth for development. A concept's part depends only on the concept and
    the seed.
    """
    edges = np.cumsum(list(_SHARES.values()))
    parts = list(_SHARES)
    places = [
        int(short_hash(str(seed), str(document.fields.get("concept", document.doc_id))), 16) / 16**16
        for document in documents
    ]
    return [parts[min(int(np.searchsorted(edges, place, side="right")), 2)] for place in places]


def _is_trainable(parts: Mapping[Part, Labelled]) -> bool:
    return len(set(parts["train"].labels)) > 1 and len(parts["dev"].labels) > 0


def _fitted(train: Labelled, dev: Labelled) -> Any:
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 - takes a second
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import StandardScaler  # noqa: PLC0415

    classifiers = [
        make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=_PATIENCE)).fit(
            train.vectors, train.labels
        )
        for strength in _STRENGTHS
    ]
    return max(classifiers, key=lambda classifier: classifier.score(dev.vectors, dev.labels))


_SHARE = 0.8
"""Share of the training documents in each draw."""


@dataclass(frozen=True)
class LabelledSplit:
    """Training documents of one language, and test documents of every language.

    Attributes:
        train: documents to learn from.
        dev: documents of the same language, by which settings are chosen.
        tests: test documents by language.
    """

    train: Sequence[Document]
    dev: Sequence[Document]
    tests: Mapping[str, Sequence[Document]]

    @property
    def documents(self) -> list[Document]:
        """All documents of the split, each once."""
        documents = chain(self.train, self.dev, *self.tests.values())
        return list({document.doc_id: document for document in documents}.values())


def labelled_documents(sources: Sequence[str], console: Console, languages: Sequence[str] = ()) -> list[Document]:
    """Documents of sources that have the field ``label``, in the given languages or all; warns of left-out documents.

    The last of several documents with the same id is taken, as in indexing.

    Raises:
        BadInput: no document has the field.
    """
    labelled: dict[str, Document] = {}
    refusals: list[Refusal] = []
    unlabelled = repeated = 0
    for reading in chain.from_iterable(read(source, ReadOptions()) for source in sources):
        if isinstance(reading, Refusal):
            refusals.append(reading)
        elif isinstance(reading, Document) and (not languages or reading.lang in languages):
            if reading.fields.get("label") in (None, ""):
                unlabelled += 1
                continue
            repeated += reading.doc_id in labelled
            labelled[reading.doc_id] = reading
    if refusals:
        console.warn(
            f"{counted(len(refusals), 'record')} could not be read; "
            f"the first, {refusals[0].where}: {refusals[0].reason}"
        )
    if unlabelled:
        lacking = ("document has no field label and was", "documents have no field label and were")
        console.warn(f"{counted(unlabelled, *lacking)} left out")
    if repeated:
        console.warn(
            f"{counted(repeated, 'document has', 'documents have')} the id of an earlier one, which is replaced; "
            "ids go over all languages"
        )
    if not labelled:
        where = " in a language that is wanted" if languages else ""
        raise BadInput(f"{', '.join(sources)} has no document with the field label{where}; give some that have it")
    return list(labelled.values())


def stored_split(documents: Sequence[Document], taught: str) -> LabelledSplit:
    """The split that the documents' field ``split`` states.

    Raises:
        BadInput: there are no documents of a part to learn from, to choose by or to test on.
    """
    if not any("split" in document.fields for document in documents):
        raise BadInput("no document has the field split, which says its part: train, dev or test; or give --splits 5")
    return _by_part(documents, [str(document.fields.get("split", "")) for document in documents], taught)


def split_by_concept(documents: Sequence[Document], taught: str, seed: int) -> LabelledSplit:
    """A split by the field ``concept``: half to learn from, a tenth to choose by, translations in the same part.

    Raises:
        BadInput: there are no documents of a part to learn from, to choose by or to test on.
    """
    return _by_part(documents, split(documents, seed), taught)


def subsampled(whole: LabelledSplit, seed: int) -> LabelledSplit:
    """The same split with a random 80 % of its training documents."""
    order = np.random.default_rng(seed).permutation(len(whole.train))[: max(2, round(_SHARE * len(whole.train)))]
    return replace(whole, train=[whole.train[index] for index in order.tolist()])


def _by_part(documents: Sequence[Document], parts: Sequence[Part | str], taught: str) -> LabelledSplit:
    sides: dict[tuple[str, str], list[Document]] = {}
    for document, part in zip(documents, parts, strict=True):
        sides.setdefault((document.lang, part), []).append(document)
    for part in ("train", "dev"):
        if (taught, part) not in sides:
            raise BadInput(
                f"there are no documents in {taught} of the part {part!r}; learn from another language, or give more"
            )
    tests = {lang: part_documents for (lang, part), part_documents in sorted(sides.items()) if part == "test"}
    if not tests:
        raise BadInput("there are no documents of the part 'test'; give more")
    return LabelledSplit(sides[taught, "train"], sides[taught, "dev"], tests)
