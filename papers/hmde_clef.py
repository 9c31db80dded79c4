"""``python -m papers hmde-clef``: documents of one language by topics in another, on CLEF-2003 or on your data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from encoders.console import Console
from encoders.document import Document, Encoder, FloatArray
from encoders.errors import BadInput
from encoders.folder.model_cache import file_hash
from encoders.languages import language_list, normalise
from encoders.machine.placement import Device
from encoders.phrases import counted
from indexer.indexing.reading import readings
from indexer.readers.records.source import ReadOptions, Refusal, Remark
from papers.cached_encoder import vectors_by_id
from papers.hmde_methods import METHOD, open_method
from papers.paper_table import PaperTable, by_pair, documents_in_words, published
from papers.runner import Table, command_of, option
from papers.systems import System, runs_of_pairs, say_logged, tag
from query.commands.options.common_options import gathered
from query.commands.options.encoder_options import default_encoder_option, device_option
from query.commands.options.option_types import FILLED, PATH, Decorator
from query.measures.quality_measures import DEFAULT_MEASURES, Scores, parse_measures, relevant_topics, score
from query.trec_files.qrels import read_qrels
from query.trec_files.topics import Topic, read_topics
from query.trec_files.trec_run import Run

if TYPE_CHECKING:
    from ir_measures import Qrel

_FIGURES = published("hmde")["retrieval"]
SYSTEMS: Sequence[str] = _FIGURES["systems"]
PAPER: Mapping[tuple[str, str], Sequence[float]] = by_pair(_FIGURES["pairs"])
"""MAP of the paper's systems by language of query and documents (table 2)."""
PAPER_DATA: str = _FIGURES["data"]
RANKED_BY = "cosine"
_DEPTH = 1000
_BATCH = 256


@dataclass(frozen=True)
class RetrievalData:
    """Documents, topics and judgements of retrieval between languages."""

    documents: Mapping[str, Sequence[str]]  # sources by language
    # by language of the documents, then by their own, another one; each has a relevant document
    topics: Mapping[str, Mapping[str, Sequence[Topic]]]
    qrels: Mapping[str, Sequence[Qrel]]  # by language of the documents
    topics_name: str  # names of the files
    topics_hash: str  # of the files
    qrels_hash: str  # of the files


@dataclass(frozen=True)
class PairScore:
    """Scores of topics in one language over the documents of another."""

    langs: tuple[str, str]  # of the topics and of the documents
    scores: Scores  # of the topics with a relevant document in the language of the documents
    run: Run  # the rankings
    searched: int  # number of documents

    @property
    def map(self) -> float:
        """Mean average precision."""
        return self.scores.means["AP"]

    @property
    def paper(self) -> Sequence[float]:
        """MAP of the paper's systems; empty if the paper lacks this pair of languages."""
        return PAPER.get(self.langs, ())


@dataclass(frozen=True)
class ClefTable:
    """Scores of pairs of languages, the paper's first and in its order."""

    pairs: Sequence[PairScore]

    @property
    def mean(self) -> float:
        """Mean MAP of all pairs."""
        return sum(pair.map for pair in self.pairs) / len(self.pairs)

    @property
    def paper_pairs_mean(self) -> float | None:
        """Mean MAP of the paper's pairs; none if a pair is missing."""
        scores = [pair.map for pair in self.pairs if pair.paper]
        return sum(scores) / len(scores) if len(scores) == len(PAPER) else None

    @property
    def documents(self) -> dict[str, int]:
        """Number of documents by language."""
        return dict(sorted((pair.langs[1], pair.searched) for pair in self.pairs))


def topics_by_pair(topics: Sequence[Topic], qrels: Mapping[str, Sequence[Qrel]]) -> dict[str, dict[str, list[Topic]]]:
    """Topics in another language than the documents' that have a relevant document.

    ``qrels`` are the judgements by language of the documents.
    """
    by_pair: dict[str, dict[str, list[Topic]]] = {}
    for lang, lang_qrels in qrels.items():
        judged = relevant_topics(lang_qrels)
        by_pair[lang] = {}
        for topic_lang in dict.fromkeys(topic.lang for topic in topics if topic.lang != lang):
            selected = [topic for topic in topics if topic.lang == topic_lang and topic.qid in judged]
            if selected:
                by_pair[lang][topic_lang] = selected
    if not any(by_pair.values()):
        raise BadInput("no topic in another language than the documents' is judged; give topics in several languages")
    return by_pair


def score_pairs(retrieval: RetrievalData, encoder: Encoder, console: Console) -> ClefTable:
    """Rank the documents of each language by plain cosine for the topics of each other language, as in the paper."""
    pairs: list[PairScore] = []
    measures = parse_measures(DEFAULT_MEASURES)
    for lang, paths in retrieval.documents.items():
        vectors = vectors_by_id(f"encoding {lang}", _documents(paths, lang, console), encoder, _BATCH, console)
        if not vectors:
            raise BadInput(f"no document could be read from {', '.join(paths)}; name the folder of the {lang} disks")
        doc_ids, rows = list(vectors), np.array(list(vectors.values()))
        for query_lang, lang_topics in retrieval.topics[lang].items():
            run = Run(tag(encoder.spec, RANKED_BY), _rankings(query_lang, lang_topics, doc_ids, rows, encoder))
            scores = score(run, retrieval.qrels[lang], measures, [topic.qid for topic in lang_topics])
            pairs.append(PairScore((query_lang, lang), scores, run, len(doc_ids)))
    order = {langs: position for position, langs in enumerate(PAPER)}
    return ClefTable(sorted(pairs, key=lambda pair: order.get(pair.langs, len(order))))


def _documents(paths: Sequence[str], lang: str, console: Console) -> Iterator[Document]:
    """Documents of the sources of one language; the console says what could not be read."""
    refusals = 0
    for reading in readings(paths, ReadOptions(lang=lang)):
        match reading:
            case Document():
                yield reading
            case Refusal():
                refusals += 1
            case Remark(place, text):
                console.say(f"{place}: {text}")
    if refusals:
        console.warn(f"{counted(refusals, 'record')} in {lang} could not be read: left out; dragoman index names them")


def _rankings(
    query_lang: str, topics: Sequence[Topic], doc_ids: Sequence[str], vectors: FloatArray, encoder: Encoder
) -> dict[str, list[tuple[str, float]]]:
    """The nearest documents and their cosines by topic id; ``vectors`` are (documents, dim) unit rows."""
    queries = encoder.encode_queries([Document(topic.qid, query_lang, topic.text()) for topic in topics])
    rankings = {}
    for topic, query in zip(topics, queries, strict=True):
        cosines = vectors @ query
        best = np.argsort(-cosines, kind="stable")[:_DEPTH]
        rankings[topic.qid] = [(doc_ids[row], float(cosines[row])) for row in best.tolist()]
    return rankings


def clef_options(*, required: bool) -> Decorator:
    """``--documents``, ``--qrels``, ``--topics`` and ``--langs``; the command gets ``retrieval``.

    ``retrieval`` is None if no documents are named, which only a command that requires them refuses.
    """
    several: dict[str, Any] = {"multiple": True, "required": required}
    by_language: dict[str, Any] = {"callback": _by_language, **several}
    return gathered(
        "retrieval",
        _retrieval_data,
        click.option("--documents", metavar="LANG=PATH", help="Documents of each language.", **by_language),
        click.option("--qrels", type=FILLED, metavar="LANG=FILE", help="Judgements of these documents.", **by_language),
        click.option("--topics", type=PATH, metavar="FILE", help="Topics in all query languages.", **several),
        click.option(
            "--langs", default="", metavar="LANG,…", help="Query languages.  [default: those of the documents, and en]"
        ),
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
    return RetrievalData(
        documents,
        topics_by_pair(selected_topics, judgements),
        judgements,
        ", ".join(file.name for file in topics),
        file_hash(*topics),
        file_hash(*(file for lang_files in files.values() for file in lang_files)),
    )


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
    method: str | None = option(**METHOD)
    device: Device = option(device_option)

    def compute(self) -> None:  # noqa: D102
        engine = self.open_log()
        loaded = self.cached(open_method(self.encoder, self.method, self.device, self.console))
        table = score_pairs(self.retrieval, loaded, self.console)
        system = System(
            "hmde-clef",
            RANKED_BY,
            loaded.spec,
            table.documents,
            runs_of_pairs(
                {pair.langs: pair.scores for pair in table.pairs}, {pair.langs: pair.run for pair in table.pairs}
            ),
            self.retrieval.topics_name,
            self.retrieval.topics_hash,
            self.retrieval.qrels_hash,
        )
        number = system.log(engine)
        self._show(table, f"{loaded.spec.name} by {loaded.spec.method}", number)
        say_logged([number], self.console)
        loaded.say_cached()

    def _show(self, table: ClefTable, encoder: str, evaluation: int) -> None:
        shown = PaperTable(
            "MAP; the paper, and ours",
            [""],
            SYSTEMS,
            [encoder],
            ["topics"],
            digits=3,
            paper_data=PAPER_DATA,
            our_data=f"topics of {self.retrieval.topics_name}; documents: {documents_in_words(table.documents)}",
        )
        pairs = []
        for pair in table.pairs:
            topics = len(pair.scores.topics)
            shown.add([" → ".join(pair.langs)], pair.paper, [pair.map], f"{topics:,} in {pair.searched:,}")
            pairs.append(
                {
                    "query": pair.langs[0],
                    "documents": pair.langs[1],
                    "map": round(pair.map, 6),
                    "topics": topics,
                    "searched": pair.searched,
                    "paper": dict(zip(SYSTEMS, pair.paper, strict=False)) or None,
                }
            )
        mean = table.paper_pairs_mean
        if mean is not None:
            means = [sum(column) / len(PAPER) for column in zip(*PAPER.values(), strict=True)]
            shown.add(["mean of the paper's nine"], means, [mean], "")
        if mean is None or len(table.pairs) > len(PAPER):
            shown.add([f"mean of all {len(table.pairs)}"], [], [table.mean], "")
        shown.show(self.console)
        self.console.show(
            {
                "evaluation": evaluation,
                "encoder": encoder,
                **shown.data_json(),
                "mean": round(table.mean, 6),
                "paper_pairs_mean": None if mean is None else round(mean, 6),
                "pairs": pairs,
            }
        )


command = command_of(RetrievalTable, "hmde-clef")
