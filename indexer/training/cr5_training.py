"""Train a Cr5 encoder from sources: count the words of documents with concepts, solve, publish."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Literal

from encoders.console import QUIET, Console
from encoders.cr5.bag_corpus import Corpus
from encoders.cr5.cr5_settings import Cr5Settings
from encoders.cr5.estimator import Cr5
from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder, free_target
from indexer.readers.records.source import Refusal
from indexer.readers.source_documents import SourceDocuments, Sources
from onnx_export.cr5_folder import publish


@dataclass(frozen=True)
class Cr5Report:
    """The trained folder, and counts of the data and the training."""

    folder: ModelFolder
    documents: dict[str, int]  # number of training documents, by language
    concepts: int
    read: int
    vocabulary: dict[str, int]  # number of words, by language
    ridge: float  # λ
    tried: dict[float, float]  # mean reciprocal rank of held-out mates, by λ; empty if the settings fix λ
    remarks: list[str]
    refused: list[Refusal]


def train_cr5(
    sources: Sources,
    target: Path,
    *,
    settings: Cr5Settings | None = None,
    precision: Literal["fp32", "int8"] = "int8",
    console: Console = QUIET,
) -> list[Cr5Report]:
    """Learn from documents whose field ``concept`` is the same for translations; the target becomes a model folder.

    Pairwise training of more than two languages writes a folder per pair inside it. The default settings are the
    paper's. Raises BadInput: a source can't be read, nothing can be learnt, or the target holds something else;
    MissingPart: the disk is full.
    """
    settings = settings or Cr5Settings()
    target = target.expanduser().resolve()
    if settings.pairs != "pairwise":
        free_target(target, "model")
    elif target.is_file():
        raise BadInput(f"{target} is a file; choose another --output")
    documents, corpus = SourceDocuments(sources), Corpus()
    with console.progress("counting", None, "documents") as progress:
        for document in documents.read(progress):
            corpus.add(document)
    if not corpus.documents:
        raise documents.nothing_read()
    train = partial(_train, settings=settings, precision=precision, refused=documents.refused, console=console)
    if settings.pairs != "pairwise" or len(corpus.languages()) <= 2:
        return [train(corpus, free_target(target, "model"))]
    return _train_pairs(corpus, target, train, console)


def _train_pairs(
    corpus: Corpus, target: Path, train: Callable[[Corpus, Path], Cr5Report], console: Console
) -> list[Cr5Report]:
    """Write a model folder per pair that can be learnt. Raises BadInput: none can, or a folder holds something else."""
    pairs = list(combinations(sorted(corpus.languages()), 2))
    targets = [free_target(target / f"{first}-{second}", "model") for first, second in pairs]
    reports, failed = list[Cr5Report](), list[str]()
    for pair, folder in zip(pairs, targets, strict=True):
        try:
            reports.append(train(corpus.only(pair), folder))
        except BadInput as error:
            failed.append(f"{folder.name}: {error}")
            console.warn(f"{folder.name} is left out: {error}")
    if not reports:
        raise BadInput(f"no pair of languages can be learnt ({'; '.join(failed)})")
    return reports


def _train(
    corpus: Corpus,
    target: Path,
    settings: Cr5Settings,
    precision: Literal["fp32", "int8"],
    refused: list[Refusal],
    console: Console,
) -> Cr5Report:
    fitted = Cr5(settings).fit(corpus, console)
    documents = ", ".join(f"{lang} {count:,}" for lang, count in fitted.documents_.items())
    about = {
        "Training documents": f"{documents}; about {fitted.concepts_:,} concepts",
        "Training": f"{settings.pairs}{' over ' + ', '.join(settings.pivots) if settings.pivots else ''}",
        "Ridge (λ)": f"{fitted.ridge_:g}{' by cross-validation over concepts' if fitted.tried_ else ''}",
    }
    folder = publish(fitted.model_, target, precision, about, corpus.text_keys())
    return Cr5Report(
        folder=folder,
        documents=fitted.documents_,
        concepts=fitted.concepts_,
        read=corpus.documents,
        vocabulary={lang: len(words) for lang, words in fitted.model_.vocabularies.items()},
        ridge=fitted.ridge_,
        tried=fitted.tried_,
        remarks=fitted.remarks_,
        refused=refused,
    )
