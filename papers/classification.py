"""Zero-shot classification: labelled documents, their splits, and one classifier tested in every language."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Literal, cast

import numpy as np
import numpy.typing as npt

from encoders.console import Console
from encoders.document import Document, FloatArray, short_hash
from encoders.errors import BadInput
from encoders.phrases import counted
from indexer.readers.records.files import text_lines
from indexer.readers.source_documents import SourceDocuments, Sources
from onnx_export.huggingface.hub_source import require_torch
from query.report.language_pairs import PairTable, mean_counted

Part = Literal["train", "dev", "test"]
PARTS: tuple[Part, ...] = ("train", "dev", "test")
Classifier = Literal["logistic", "feed-forward"]
"""Logistic regression on standardised vectors, or the feed-forward network of LASER's and T-LASER's papers."""
Predict = Callable[[FloatArray], npt.NDArray[np.str_]]
"""(n, dim) vectors → (n,) labels."""
_SHARES: Mapping[Part, float] = {"train": 0.5, "dev": 0.1, "test": 0.4}
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
    best = max(classifiers, key=lambda classifier: float(classifier.score(dev.vectors, dev.labels)))
    predict: Predict = best.predict
    return predict


def _network(train: Labelled, dev: Labelled) -> Predict:
    require_torch()
    from papers import networks  # noqa: PLC0415 - the train extra

    names, classes = np.unique(train.labels, return_inverse=True)
    dev_classes = np.searchsorted(names, dev.labels)
    dev_classes[~np.isin(dev.labels, names)] = -1
    network = networks.train_classifier((train.vectors, classes), (dev.vectors, dev_classes))
    return lambda vectors: names[networks.predict(network, vectors)]


def split(documents: Sequence[Document], seed: int) -> list[Part]:
    """The part of each document, by its field ``concept``: translations of one another are in the same part.

    Half of the concepts are for training and a tenth for development. A concept's part depends only on the concept and
    the seed.
    """
    parts, edges = list(_SHARES), np.cumsum(list(_SHARES.values()))[:-1]
    concepts = [str(document.fields.get("concept", document.doc_id)) for document in documents]
    places = [int(short_hash(str(seed), concept), 16) / 16**16 for concept in concepts]
    return [parts[index] for index in np.searchsorted(edges, places, side="right").tolist()]


def by_language(documents: Iterable[Document], parts: Iterable[Part]) -> dict[str, dict[Part, list[Document]]]:
    """Documents by language and part, from the part of each document; a part without documents is left out."""
    languages: dict[str, dict[Part, list[Document]]] = {}
    for document, part in zip(documents, parts, strict=True):
        languages.setdefault(document.lang, {}).setdefault(part, []).append(document)
    return languages


def stated_parts(documents: Iterable[Document]) -> list[Part]:
    """The part that each document's field ``split`` states; empty if the document lacks the field."""
    return [cast("Part", str(document.fields.get("split", ""))) for document in documents]


@dataclass(frozen=True)
class LabelledSplit:
    """Documents of one language to learn from and to choose settings by, and test documents by language."""

    train: Sequence[Document]
    dev: Sequence[Document]
    tests: Mapping[str, Sequence[Document]]


def all_documents(splits: Sequence[LabelledSplit]) -> list[Document]:
    """The documents of some splits, each once."""
    documents = chain.from_iterable(chain(whole.train, whole.dev, *whole.tests.values()) for whole in splits)
    return list({document.doc_id: document for document in documents}.values())


def split_of(documents: Sequence[Document], taught: str, seed: int | None = None) -> LabelledSplit:
    """The split that the documents' field ``split`` states; with a seed by the field ``concept``, as ``split`` does."""
    if seed is None and not any("split" in document.fields for document in documents):
        raise BadInput("no document has the field split, which says its part: train, dev or test; or give --splits 5")
    languages = by_language(documents, stated_parts(documents) if seed is None else split(documents, seed))
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
    """Documents of sources that have the field ``label``, in the given languages or all; warns of left-out documents.

    As in indexing, the language of a document that names none is detected, and the last of several documents with the
    same id is taken.
    """
    labelled: dict[str, Document] = {}
    unlabelled = repeated = 0
    source_documents = SourceDocuments(Sources(sources, languages=languages))
    for document in source_documents.read():
        if document.fields.get("label") in (None, ""):
            unlabelled += 1
            continue
        repeated += document.doc_id in labelled
        labelled[document.doc_id] = document
    if refused := source_documents.refused:
        first = f"{refused[0].place}: {refused[0].text}"
        console.warn(f"{counted(len(refused), 'record')} could not be read; the first, {first}")
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


_LANGUAGES = ["english", "spanish", "german", "french", "italian", "russian", "japanese", "chinese"]
_CODES = dict(zip(_LANGUAGES, ["en", "es", "de", "fr", "it", "ru", "ja", "zh"], strict=True))
_NAME = re.compile(rf"({'|'.join(_LANGUAGES)})\.(train\.1000|dev|test)(\.\w+)?")
_PARTS = {"train.1000": "train", "dev": "dev", "test": "test"}


def read_mldoc(folder: Path) -> list[Document]:
    """Documents with the fields ``label`` and ``split``, language after language; other files are ignored."""
    if not folder.is_dir():
        raise BadInput(f"{folder} is no folder; name the one that MLDoc's script filled")
    paths = sorted(path for path in folder.iterdir() if path.is_file())
    files = [(path, match) for path in paths if (match := _NAME.fullmatch(path.name))]
    if not files:
        raise BadInput(f"{folder} has no english.train.1000 or the like; name the folder that MLDoc's script filled")
    documents = []
    for path, match in files:
        split, lang = _PARTS[match[2]], _CODES[match[1]]
        for number, (where, line) in enumerate(text_lines(path), 1):
            if not line.strip():
                continue
            label, tab, text = line.partition("\t")
            if not (label and tab):
                raise BadInput(f"{where} has no class before a tab; see that it is a file of MLDoc's")
            documents.append(Document(f"{path.name}:{number}", lang, text, fields={"label": label, "split": split}))
    return documents
