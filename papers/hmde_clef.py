"""``python -m papers hmde-clef``: documents of one language by topics in another, on CLEF-2003 or on your data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from encoders.console import Console
from encoders.document import Document, Encoder
from encoders.errors import BadInput
from encoders.folder.model_cache import file_hash
from encoders.languages import language_list, normalise
from encoders.machine.placement import Device
from encoders.methods.method_registry import METHODS, default_method
from encoders.methods.token_windows import Segments, TitledWindows
from encoders.phrases import counted
from indexer.readers.records.source import ReadOptions
from indexer.readers.source_documents import SourceDocuments, Sources
from onnx_export.huggingface.hub_source import require_torch
from onnx_export.models import find_model, open_named
from papers import table as tables
from papers.cached_encoder import vectors_by_id
from papers.table import PaperTable, Table, documents_in_words, option
from query.commands.options.common_options import gathered
from query.commands.options.encoder_options import default_encoder_option, device_option
from query.commands.options.option_types import PATH, Decorator
from query.measures.quality_measures import DEFAULT_MEASURES, Scores, parse_measures, relevant_topics, score
from query.trec_files.qrels import read_qrels
from query.trec_files.topics import Topic, read_topics
from query.trec_files.trec_run import Run

if TYPE_CHECKING:
    from ir_measures import Qrel

_FIGURES = tables.published("hmde")["retrieval"]
PAPER: Mapping[tuple[str, str], Sequence[float]] = {
    (topics, documents): row for pair, row in _FIGURES["pairs"].items() for topics, documents in [pair.split("-")]
}
"""MAP of the paper's systems by language of query and documents (table 2)."""
LONGFORMER = "longformer"
"""The paper's mLongformer, which exists in torch alone."""
method_option = click.option(
    "--method",
    type=click.Choice((*METHODS, LONGFORMER)),
    help="How a document's vector is made; longformer needs PyTorch.",
)
_DEPTH = 1000


def open_method(
    reference: str, method: str | None, device: Device, console: Console, checkpoint: str | None = None
) -> Encoder:
    """Open an encoder by a method; for *longformer*, by the default's name or by a Hugging Face folder or name.

    Without a method, a folder that was trained for none is opened by *segments*, as the paper does.
    """
    if method != LONGFORMER:
        folder = find_model(reference, console)
        if method is None and default_method(folder) == TitledWindows.method:
            method = Segments.method
        return open_named(reference, method, console, device=device)
    require_torch()
    from papers.trainable import TorchEncoder, open_trainable  # noqa: PLC0415 - torch

    return TorchEncoder(open_trainable(reference, method, checkpoint, device, console), method)


@dataclass(frozen=True)
class RetrievalData:
    """Documents, topics and judgements of retrieval between languages."""

    documents: Mapping[str, Sequence[str]]  # sources by language
    # by language of the documents, then by their own, another one; each has a relevant document
    topics: Mapping[str, Mapping[str, Sequence[Topic]]]
    qrels: Mapping[str, Sequence[Qrel]]  # by language of the documents
    topics_name: str  # names of the files
    hashes: tuple[str, str]  # of the files of topics and judgements


@dataclass(frozen=True)
class PairScores:
    """Scores and rankings by languages of topics and documents, the paper's pairs first and in its order."""

    scores: Mapping[tuple[str, str], Scores]
    rankings: Mapping[tuple[str, str], Run]
    documents: Mapping[str, int]  # number of documents by language

    @property
    def maps(self) -> dict[tuple[str, str], float]:
        """Mean average precision by pair."""
        return {langs: scores.means["AP"] for langs, scores in self.scores.items()}

    @property
    def means(self) -> tuple[float, float | None]:
        """Mean MAP of all pairs, and of the paper's; none if one of these is missing."""
        maps, has_all = self.maps, self.scores.keys() >= PAPER.keys()
        return sum(maps.values()) / len(maps), sum(maps[langs] for langs in PAPER) / len(PAPER) if has_all else None


def topics_by_pair(topics: Sequence[Topic], qrels: Mapping[str, Sequence[Qrel]]) -> dict[str, dict[str, list[Topic]]]:
    """Topics that have a relevant document in another language; judgements are by language of the documents."""
    by_pair: dict[str, dict[str, list[Topic]]] = {lang: {} for lang in qrels}
    for lang, lang_qrels in qrels.items():
        judged = relevant_topics(lang_qrels)
        for topic in topics:
            if topic.lang != lang and topic.qid in judged:
                by_pair[lang].setdefault(topic.lang, []).append(topic)
    if not any(by_pair.values()):
        raise BadInput("no topic in another language than the documents' is judged; give topics in several languages")
    return by_pair


def score_pairs(retrieval: RetrievalData, encoder: Encoder, console: Console) -> PairScores:
    """Rank the documents of each language by plain cosine for the topics of each other language, as in the paper."""
    runs: dict[tuple[str, str], Run] = {}
    scores: dict[tuple[str, str], Scores] = {}
    counts: dict[str, int] = {}
    measures = parse_measures(DEFAULT_MEASURES)
    for lang, paths in retrieval.documents.items():
        vectors = vectors_by_id(f"encoding {lang}", _documents(paths, lang, console), encoder, 256, console)
        if not vectors:
            raise BadInput(f"no document could be read from {', '.join(paths)}; name the folder of the {lang} disks")
        doc_ids, rows = list(vectors), np.array(list(vectors.values()))
        for query_lang, topics in retrieval.topics[lang].items():
            queries = encoder.encode_queries([Document(topic.qid, query_lang, topic.text()) for topic in topics])
            rankings = {}
            for topic, query in zip(topics, queries, strict=True):
                cosines = rows @ query
                best = np.argsort(-cosines, kind="stable")[:_DEPTH]
                rankings[topic.qid] = [(doc_ids[row], float(cosines[row])) for row in best.tolist()]
            runs[query_lang, lang] = run = Run(tables.tag(encoder.spec, "cosine"), rankings)
            scores[query_lang, lang] = score(run, retrieval.qrels[lang], measures, list(rankings))
            counts[lang] = len(doc_ids)
    order = [*(langs for langs in PAPER if langs in scores), *(langs for langs in scores if langs not in PAPER)]
    return PairScores({langs: scores[langs] for langs in order}, runs, dict(sorted(counts.items())))


def _documents(paths: Sequence[str], lang: str, console: Console) -> Iterator[Document]:
    """Documents of the sources of one language; the console says what could not be read."""
    documents = SourceDocuments(Sources(paths, ReadOptions(lang=lang)))
    yield from documents.read()
    for remark in documents.remarks:
        console.say(f"{remark.place}: {remark.text}")
    if count := len(documents.refused):
        console.warn(f"{counted(count, 'record')} in {lang} could not be read: left out; dragoman index names them")


def clef_options(*, required: bool) -> Decorator:
    """``--documents``, ``--qrels``, ``--topics`` and ``--langs`` as ``retrieval``, None if nothing need be named."""
    several: dict[str, Any] = {"multiple": True, "required": required}
    by_language: dict[str, Any] = {"callback": _by_language, **several}
    return gathered(
        "retrieval",
        _retrieval_data,
        click.option("--documents", metavar="LANG=PATH", help="Documents of each language.", **by_language),
        click.option("--qrels", metavar="LANG=FILE", help="Judgements of these documents.", **by_language),
        click.option("--topics", type=PATH, metavar="FILE", help="Topics in all query languages.", **several),
        click.option("--langs", default="", metavar="LANG,…", help="Query languages.  [default: the documents', en]"),
    )


def _retrieval_data(
    documents: dict[str, list[str]], qrels: dict[str, list[str]], topics: tuple[Path, ...], langs: str
) -> RetrievalData | None:
    """Read the files of judgements and topics; documents are read when they are encoded."""
    if documents.keys() != qrels.keys():
        raise click.UsageError("--documents and --qrels belong together; give both for each language")
    if bool(documents) != bool(topics):
        raise click.UsageError("--documents and --topics belong together; give both")
    if not documents:
        return None
    query_langs = language_list(langs) or [*documents, "en"]
    files = {lang: [Path(file) for file in lang_files] for lang, lang_files in qrels.items()}
    judgements = {lang: read_qrels(lang_files) for lang, lang_files in files.items()}
    selected_topics = [topic for file in topics for topic in read_topics(file) if topic.lang in query_langs]
    names, by_pair = ", ".join(file.name for file in topics), topics_by_pair(selected_topics, judgements)
    hashes = file_hash(*topics), file_hash(*(file for lang_files in files.values() for file in lang_files))
    return RetrievalData(documents, by_pair, judgements, names, hashes)


def _by_language(_context: click.Context, option: click.Parameter, values: Sequence[str]) -> dict[str, list[str]]:
    """Paths by language, from values LANG=PATH; a language may have several."""
    by_lang: dict[str, list[str]] = {}
    for value in values:
        lang, equals, path = value.partition("=")
        if not (lang and equals and path):
            raise click.BadParameter(f"{value!r} is not LANG=PATH, as in de=fr94", param=option)
        by_lang.setdefault(normalise(lang), []).append(path)
    return by_lang


@dataclass(frozen=True, kw_only=True)
class RetrievalTable(Table):
    """Retrieval between languages by plain cosine, title and description (table 2).

    The paper's data is CLEF-2003: --documents de=DIR, and the same for fi, it and ru, folders of the disks; --qrels in
    the same way; --topics, the files of topics 141 to 200. Any collection with topics in several languages will do.
    """

    retrieval: RetrievalData = option(clef_options(required=True))
    encoder: str = option(default_encoder_option())
    method: str | None = option(method_option)
    device: Device = option(device_option)

    def compute(self) -> None:  # noqa: D102
        engine, retrieval = self.open_log(), self.retrieval
        loaded = self.cached(open_method(self.encoder, self.method, self.device, self.console))
        pairs = score_pairs(retrieval, loaded, self.console)
        runs = tables.runs_of_pairs(pairs.scores, pairs.rankings)
        about = (loaded.spec, pairs.documents, runs, retrieval.topics_name, retrieval.hashes)
        number = tables.log(engine, "hmde-clef", "cosine", *about)
        self._show(pairs, f"{loaded.spec.name} by {loaded.spec.method}", number)
        self.say_logged([number])
        loaded.say_cached()

    def _show(self, pairs: PairScores, encoder: str, evaluation: int) -> None:
        table = PaperTable(
            "MAP; the paper, and ours",
            [encoder],
            _FIGURES["systems"],
            counts=["topics"],
            digits=3,
            paper_data=_FIGURES["data"],
            our_data=f"topics of {self.retrieval.topics_name}; documents: {documents_in_words(pairs.documents)}",
        )
        rows = []
        for langs, value in pairs.maps.items():
            topics, searched, paper = len(pairs.scores[langs].topics), pairs.documents[langs[1]], PAPER.get(langs, ())
            table.add([" → ".join(langs)], paper, [value], f"{topics:,} in {searched:,}")
            figures = {"map": round(value, 6), "topics": topics, "searched": searched}
            named = dict(zip(table.paper, paper, strict=True)) if paper else None
            rows.append({"query": langs[0], "documents": langs[1], **figures, "paper": named})
        mean, nine = pairs.means
        if nine is not None:
            means = [sum(column) / len(PAPER) for column in zip(*PAPER.values(), strict=True)]
            table.add(["mean of the paper's nine"], means, [nine], "")
        if nine is None or len(rows) > len(PAPER):
            table.add([f"mean of all {len(rows)}"], [], [mean], "")
        table.show(self.console)
        about = {"evaluation": evaluation, "encoder": encoder, **table.data_json(), "mean": round(mean, 6)}
        self.console.show({**about, "paper_pairs_mean": nine and round(nine, 6), "pairs": rows})


command = tables.command_of(RetrievalTable, "hmde-clef")
