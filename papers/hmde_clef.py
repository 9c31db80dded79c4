"""The table of retrieval of the HMDE paper: documents of one language by topics in another, on CLEF-2003."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from encoders.console import Console
from encoders.document import Document, Encoder, FloatArray
from encoders.errors import BadInput
from encoders.folder.model_cache import file_hash
from encoders.wording import counted
from indexer.indexing.reading import readings
from indexer.readers.source import ReadOptions, Refusal, Remark
from papers.encoding import vectors_by_id
from papers.published import by_pair, published
from papers.systems import runs_of_pairs, tag
from query.evaluation.scored_runs import ScoredRun
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

TopicsByPair = Mapping[str, Mapping[str, Sequence[Topic]]]
"""Topics by language of the documents, then by their own language."""


@dataclass(frozen=True)
class RetrievalData:
    """Documents, topics and judgements of retrieval between languages.

    Attributes:
        documents: sources by language.
        topics: in another language than the documents', each with a relevant document.
        qrels: judgements by language of the documents.
        topics_name, topics_hash, qrels_hash: names and hashes of the files.
    """

    documents: Mapping[str, Sequence[str]]
    topics: TopicsByPair
    qrels: Mapping[str, Sequence[Qrel]]
    topics_name: str
    topics_hash: str
    qrels_hash: str

    @classmethod
    def read(
        cls,
        documents: Mapping[str, Sequence[str]],
        qrels: Mapping[str, Sequence[Path]],
        topics: Sequence[Path],
        query_langs: Sequence[str],
    ) -> RetrievalData:
        """Read the files of judgements and topics; documents are read when they are encoded.

        Raises BadInput: a file can't be read, or no topic in another language than the documents' is judged.
        """
        selected_topics = [topic for file in topics for topic in read_topics(file) if topic.lang in query_langs]
        judgements = {lang: read_qrels(files) for lang, files in qrels.items()}
        return cls(
            documents,
            topics_by_pair(selected_topics, judgements),
            judgements,
            ", ".join(file.name for file in topics),
            file_hash(*topics),
            file_hash(*(file for files in qrels.values() for file in files)),
        )


@dataclass(frozen=True)
class PairScore:
    """Scores of topics in one language over the documents of another."""

    query: str
    documents: str
    scores: Scores  # of the topics with a relevant document in the language of the documents
    run: Run  # the rankings
    searched: int  # number of documents

    @property
    def map(self) -> float:
        """Mean average precision."""
        return self.scores.means["AP"]

    @property
    def topics(self) -> int:
        """Number of topics."""
        return len(self.scores.topics)

    @property
    def paper(self) -> Sequence[float]:
        """MAP of the paper's systems; empty if the paper lacks this pair of languages."""
        return PAPER.get((self.query, self.documents), ())


@dataclass(frozen=True)
class ClefTable:
    """Scores of pairs of languages, the paper's first and in its order."""

    pairs: Sequence[PairScore]

    @property
    def mean(self) -> float:
        """Mean MAP of all pairs."""
        return sum(pair.map for pair in self.pairs) / len(self.pairs)

    @property
    def documents(self) -> dict[str, int]:
        """Number of documents by language."""
        return dict(sorted((pair.documents, pair.searched) for pair in self.pairs))

    def runs(self) -> list[ScoredRun]:
        """The runs of the pairs, and the pooled run."""
        by_langs = {(pair.query, pair.documents): pair for pair in self.pairs}
        return runs_of_pairs(
            {langs: pair.scores for langs, pair in by_langs.items()},
            {langs: pair.run for langs, pair in by_langs.items()},
        )

    @property
    def paper_pairs_mean(self) -> float | None:
        """Mean MAP of the paper's pairs; none if a pair is missing."""
        scores = [pair.map for pair in self.pairs if pair.paper]
        return sum(scores) / len(scores) if len(scores) == len(PAPER) else None


def topics_by_pair(topics: Sequence[Topic], qrels: Mapping[str, Sequence[Qrel]]) -> TopicsByPair:
    """Topics in another language than the documents' that have a relevant document.

    ``qrels`` are the judgements by language of the documents. Raises BadInput: there is no such topic.
    """
    by_pair: dict[str, dict[str, list[Topic]]] = {}
    for lang, lang_qrels in qrels.items():
        judged = relevant_topics(lang_qrels)
        by_lang: dict[str, list[Topic]] = {topic.lang: [] for topic in topics if topic.lang != lang}
        for topic in topics:
            if topic.lang != lang and topic.qid in judged:
                by_lang[topic.lang].append(topic)
        by_pair[lang] = {topic_lang: lang_topics for topic_lang, lang_topics in by_lang.items() if lang_topics}
    if not any(by_pair.values()):
        raise BadInput("no topic in another language than the documents' is judged; give topics in several languages")
    return by_pair


def score_pairs(retrieval: RetrievalData, encoder: Encoder, console: Console) -> ClefTable:
    """Rank the documents of each language by plain cosine for the topics of each other language, as in the paper.

    Raises BadInput: a source can't be read or has no document.
    """
    pairs: list[PairScore] = []
    for lang, paths in retrieval.documents.items():
        vectors = vectors_by_id(f"encoding {lang}", _documents(paths, lang, console), encoder, _BATCH, console)
        if not vectors:
            raise BadInput(f"no document could be read from {', '.join(paths)}; name the folder of the {lang} disks")
        doc_ids, rows = list(vectors), np.array(list(vectors.values()))
        for query_lang, lang_topics in retrieval.topics[lang].items():
            run = Run(tag(encoder.spec, RANKED_BY), _rankings(query_lang, lang_topics, doc_ids, rows, encoder))
            measures = parse_measures(DEFAULT_MEASURES)
            scores = score(run, retrieval.qrels[lang], measures, [topic.qid for topic in lang_topics])
            pairs.append(PairScore(query_lang, lang, scores, run, len(doc_ids)))
    order = {langs: position for position, langs in enumerate(PAPER)}
    return ClefTable(sorted(pairs, key=lambda pair: order.get((pair.query, pair.documents), len(order))))


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
