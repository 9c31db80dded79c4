"""Runs of the lexical baselines: BM25 within a language, and PSQ over a collection's documents."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain

import numpy as np

from encoders.document import Document
from encoders.errors import BadInput
from encoders.text.words import words
from indexer.text.terms import LexicalIndex
from query.lexical_baselines.lexicons import Lexicons
from query.lexical_baselines.structured_queries import QueryTranslation, TermCounts
from query.ranking.search_hits import Ranking
from query.ranking.searcher import Searcher
from query.trec_files.trec_run import Run, RunEntry


def rank_by_psq(
    searcher: Searcher, queries: Mapping[str, Sequence[Document]], targets: Sequence[str], lexicons: Lexicons, k: int
) -> dict[str, dict[str, Run]]:
    """Runs of PSQ by language of queries and of documents: where there are lexicons, and in the queries' own language.

    A language of queries without a lexicon has no runs. One language's terms are in memory at a time. Raises BadInput:
    there are lexicons, and none is for a language of queries and a target language.
    """
    psq_runs: dict[str, dict[str, Run]] = {}
    pairs = [(lang, documents) for lang in queries for documents in targets if lexicons.has(lang, documents)]
    translated = {lang for lang, documents in pairs if lang != documents}
    if lexicons.names and not translated:
        raise BadInput(
            f"no lexicon is from a language of the topics ({', '.join(queries)}) to another of the documents "
            f"({', '.join(targets)}); give one with --lexicon, such as en-de=FILE"
        )
    for documents in targets:
        langs = [lang for lang in queries if lang in translated and (lang == documents or (lang, documents) in pairs)]
        if not langs:
            continue
        items = chain.from_iterable(searcher.store.scan(searcher.stored_model, lang=documents))
        counts = TermCounts((item.document for item in items), documents)
        for lang in langs:
            query_words = list(chain.from_iterable(words(query.content, lang) for query in queries[lang]))
            translation = QueryTranslation(lexicons.translations(lang, documents, query_words), lang, documents)
            rankings = {query.doc_id: counts.rank(translation.query(query.content), k) for query in queries[lang]}
            psq_runs.setdefault(lang, {})[documents] = Run("PSQ", rankings)
    return psq_runs


def merged(by_documents: Mapping[str, Run], k: int) -> tuple[Run, dict[str, Ranking]]:
    """One run over all languages of documents, by raw scores: the ``k`` best, also with the languages of the hits."""
    rankings: dict[str, Ranking] = {}
    for qid in dict.fromkeys(chain.from_iterable(run.rankings for run in by_documents.values())):
        hits = [(*hit, lang) for lang, run in by_documents.items() for hit in run.rankings[qid]]
        hits = sorted(hits, key=lambda hit: -hit[1])[:k]
        scores = np.array([score for _, score, _ in hits], dtype=np.float32)
        rankings[qid] = Ranking([doc_id for doc_id, _, _ in hits], [lang for _, _, lang in hits], scores)
    return Run("PSQ", {qid: ranking.scored for qid, ranking in rankings.items()}), rankings


def without_lexicon(lang: str, targets: Sequence[str], by_documents: Mapping[str, Run]) -> Iterator[str]:
    """The remark on target languages that PSQ has no lexicon for."""
    missing = [documents for documents in targets if documents not in by_documents]
    if missing and by_documents:
        yield f"there is no lexicon from {lang} to {', '.join(missing)}; PSQ finds no documents there"
    elif missing:
        yield f"there is no lexicon from {lang}; its topics have no run of PSQ"


def rank_by_bm25(
    documents: Iterable[Document], queries: Sequence[Document], lang: str, *, k: int = 1000
) -> list[list[RunEntry]]:
    """For each query up to ``k`` documents of one language with BM25 scores, best first; each shares a word with it.

    The index is a temporary SQLite database, which moves to disk as it grows and is deleted afterwards.
    """
    doc_ids: list[str] = []
    with closing(sqlite3.connect("")) as connection:
        index = LexicalIndex(connection, lang)
        index.add(_numbered(documents, doc_ids))
        return [[(doc_ids[key], score) for key, score in index.search(query.content, k)] for query in queries]


def _numbered(documents: Iterable[Document], doc_ids: list[str]) -> Iterable[tuple[int, str]]:
    for key, document in enumerate(documents):
        doc_ids.append(document.doc_id)
        yield key, document.content
