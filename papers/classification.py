"""Zero-shot classification: labelled documents, their splits, and one classifier tested in every language."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from encoders.console import Console
from encoders.document import Document, FloatArray, short_hash
from encoders.errors import BadInput
from encoders.phrases import counted
from indexer.readers.source_documents import SourceDocuments, Sources
from onnx_export.huggingface.hub_source import require_torch
from query.report.language_pairs import PairTable, mean_counted

Part = Literal["train", "dev", "test"]
PARTS: tuple[Part, ...] = ("train", "dev", "test")
Classifier = Literal["logistic", "feed-forward"]
"""Logistic regression on standardised vectors, or the feed-forward network of LASER's and T-LASER's papers."""
Predict = Callable[[FloatArray], npt.NDArray[np.str_]]
"""(n, dim) vectors → (n,) labels."""
_STRENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0)
_ROUNDS = 2000
_SHARE = 0.8
"""Share of the training documents in each draw."""


@dataclass(frozen=True)
class Labelled:
    """(documents, dim) unit rows and (documents,) labels of one language and one part of a split."""

    vectors: FloatArray
    labels: npt.NDArray[np.str_]

    @classmethod
    def of(cls, documents: Sequence[Document], vectors: Mapping[str, FloatArray]) -> Labelled:
        """Documents with the field ``label``, with their vectors by id."""
        labels = [str(document.fields["label"]) for document in documents]
        rows = np.array([vectors[document.doc_id] for document in documents], dtype=np.float32)
        return cls(rows, np.array(labels, dtype=np.str_))


def zero_shot(data: Mapping[str, Mapping[Part, Labelled]], classifier: Classifier = "logistic") -> PairTable:
    """Accuracy of each pair, the language of training in rows: a classifier of frozen vectors.

    Logistic regression standardises by means and deviations of the training part. Its penalty, or the epoch of the
    feed-forward network, is chosen on the development part of the same language. A language that can't be learnt from,
    without a development part or with fewer than two classes, has a row of NaN; one without test documents a column.
    """
    languages = list(data)
    tests = {lang: parts["test"] for lang, parts in data.items()}
    values = np.full((len(languages), len(languages)), np.nan)
    for row, parts in enumerate(data.values()):
        if len(set(parts["train"].labels)) > 1 and len(parts["dev"].labels):
            strengths = () if classifier == "feed-forward" else _STRENGTHS
            accuracies = classify(parts["train"], parts["dev"], tests, strengths, standardised=True)
            values[row] = list(accuracies.values())
    return PairTable(languages, languages, values)


def averages(table: PairTable) -> dict[str, float]:
    """Mean accuracies over pairs of two languages, of a language with itself, and over all pairs; NaN without pairs."""
    same, cross = table.means()
    return {"cross": cross, "same": same, "all": mean_counted(table.values)}


def classify(
    train: Labelled,
    dev: Labelled,
    tests: Mapping[str, Labelled],
    strengths: Sequence[float],
    *,
    standardised: bool = False,
) -> dict[str, float]:
    """Accuracy in each language, 0 to 1, of a classifier over frozen vectors; NaN without test documents.

    ``strengths`` are inverse penalties of a softmax classifier: the accuracy on ``dev`` decides. Without any the
    classifier is the feed-forward network. ``standardised`` vectors have mean 0 and deviation 1 in each dimension of
    the training documents.
    """
    if len(set(train.labels)) < 2:
        label = str(train.labels[0])
        raise BadInput(f"the training documents have the label {label!r} alone; give some of two or more")
    predict = _softmax(train, dev, strengths, standardised=standardised) if strengths else _network(train, dev)
    return {
        lang: float(np.mean(predict(test.vectors) == test.labels)) if len(test.labels) else np.nan
        for lang, test in tests.items()
    }


def _softmax(train: Labelled, dev: Labelled, strengths: Sequence[float], *, standardised: bool) -> Predict:
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 - takes a second
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import StandardScaler  # noqa: PLC0415

    scaler = [StandardScaler()] if standardised else []
    classifiers = [
        make_pipeline(*scaler, LogisticRegression(C=strength, max_iter=_ROUNDS)).fit(train.vectors, train.labels)
        for strength in strengths
    ]
    best: Any = max(classifiers, key=lambda classifier: float(classifier.score(dev.vectors, dev.labels)))
    return lambda vectors: np.asarray(best.predict(vectors), dtype=np.str_)


def _network(train: Labelled, dev: Labelled) -> Predict:
    require_torch()
    from papers import networks  # noqa: PLC0415 - the train extra

    names, classes = np.unique(train.labels, return_inverse=True)
    dev_classes = np.searchsorted(names, dev.labels)
    dev_classes[~np.isin(dev.labels, names)] = -1
    network = networks.train_classifier((train.vectors, classes), (dev.vectors, dev_classes))
    return lambda vectors: names[networks.predict(network, vectors)]


def split(documents: Sequence[Document], seed: int | None) -> list[Part]:
    """The part of each document, by its field ``concept``: translations of one another are in the same part.

    Half of the concepts are for training and a tenth for development. A concept's part depends only on the concept and
    the seed. Without a seed it is what the field ``split`` states, empty if the document lacks it.
    """
    if seed is None:
        return [cast("Part", str(document.fields.get("split", ""))) for document in documents]
    concepts = [str(document.fields.get("concept", document.doc_id)) for document in documents]
    places = [int(short_hash(str(seed), concept), 16) / 16**16 for concept in concepts]
    return ["train" if place < 0.5 else "dev" if place < 0.6 else "test" for place in places]


def by_language(documents: Sequence[Document], seed: int | None) -> dict[str, dict[Part, list[Document]]]:
    """Documents by language and part, as ``split`` has them; a part without documents is left out."""
    languages: dict[str, dict[Part, list[Document]]] = {}
    for document, part in zip(documents, split(documents, seed), strict=True):
        languages.setdefault(document.lang, {}).setdefault(part, []).append(document)
    return languages


@dataclass(frozen=True)
class LabelledSplit:
    """Documents of one language to learn from and to choose settings by, and test documents by language."""

    train: Sequence[Document]
    dev: Sequence[Document]
    tests: Mapping[str, Sequence[Document]]


def all_documents(splits: Sequence[LabelledSplit]) -> list[Document]:
    """The documents of some splits, each once."""
    parts = (part for whole in splits for part in (whole.train, whole.dev, *whole.tests.values()))
    return list({document.doc_id: document for part in parts for document in part}.values())


def split_of(documents: Sequence[Document], taught: str, seed: int | None = None) -> LabelledSplit:
    """The split of which one language teaches."""
    if seed is None and not any("split" in document.fields for document in documents):
        raise BadInput("no document has the field split, which says its part: train, dev or test; or give --splits 5")
    languages = by_language(documents, seed)
    own_parts = languages.get(taught, {})
    for part in PARTS[:2]:
        if part not in own_parts:
            raise BadInput(
                f"there are no documents in {taught} of the part {part!r}; learn from another language, or give more"
            )
    tests = {lang: lang_parts["test"] for lang, lang_parts in sorted(languages.items()) if "test" in lang_parts}
    if not tests:
        raise BadInput("there are no documents of the part 'test'; give more")
    return LabelledSplit(own_parts["train"], own_parts["dev"], tests)


def subsampled(whole: LabelledSplit, seed: int) -> LabelledSplit:
    """The same split with a random 80 % of its training documents."""
    order = np.random.default_rng(seed).permutation(len(whole.train))[: max(2, round(_SHARE * len(whole.train)))]
    return replace(whole, train=[whole.train[index] for index in order.tolist()])


def labelled_documents(sources: Sequence[str], console: Console, languages: Sequence[str] = ()) -> list[Document]:
    """Documents with the field ``label``, the last of equal ids, in the given languages or all; warns of others."""
    source_documents = SourceDocuments(Sources(sources, languages=languages))
    documents = list(source_documents.read())
    having = [document for document in documents if document.fields.get("label") not in (None, "")]
    labelled = {document.doc_id: document for document in having}
    if refused := source_documents.refused:
        first = f"{refused[0].place}: {refused[0].text}"
        console.warn(f"{counted(len(refused), 'record')} could not be read; the first, {first}")
    if unlabelled := len(documents) - len(having):
        lacking = "document has no field label and was", "documents have no field label and were"
        console.warn(f"{counted(unlabelled, *lacking)} left out")
    if repeated := len(having) - len(labelled):
        console.warn(
            f"{counted(repeated, 'document has', 'documents have')} the id of an earlier one, which is replaced; "
            "ids go over all languages"
        )
    if not labelled:
        where = " in a language that is wanted" if languages else ""
        raise BadInput(f"{', '.join(sources)} has no document with the field label{where}; give some that have it")
    return list(labelled.values())
