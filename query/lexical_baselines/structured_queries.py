"""BM25 over structured queries: PSQ, query translation by a lexicon (Darwish and Oard 2003).

A query term e counts in a document as often as its translations f are expected to stand for it, and likewise its
document frequency: tf(e, d) = Σ_f p(f | e) · tf(f, d), df(e) = Σ_f p(f | e) · df(f).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from encoders.cr5.word_vocabulary import BagCounter
from encoders.document import Document
from encoders.text.words import folded, runs
from indexer.text.terms import analyser
from query.lexical_baselines.lexicons import Translations
from query.trec_files.trec_run import RunEntry

K1, B = 1.2, 0.75
"""Parameters of BM25: those of SQLite's FTS5, by which ``rank_by_bm25`` ranks."""
_LEAST_IDF = 1e-6
"""IDF of a term in half of the documents or more, as in FTS5."""

Expectation = Mapping[str, float]
"""A structured term: by index term of the documents' language how often it stands for the query's term, p(f | e)."""
_Values = npt.NDArray[np.float64]
_Postings = tuple[npt.NDArray[np.int32], _Values]
"""Rows of the documents that have a term, and how often each has it."""
_NO_ROWS = np.zeros(0, dtype=np.int32)


class TermCounts:
    """How often each term is in each document of one language, in memory: 16 bytes for each term of a document."""

    def __init__(self, documents: Iterable[Document], lang: str) -> None:
        """Count the terms of documents; ``lang`` is a normalised BCP 47 tag."""
        counter, terms = BagCounter(), analyser(lang).terms
        self.doc_ids: list[str] = []
        for document in documents:
            self.doc_ids.append(document.doc_id)
            counter.add(terms(document.content))
        by_document = counter.matrix()
        self._by_term = by_document.tocsc()
        self._columns = {term: column for column, term in enumerate(counter.words)}
        lengths = np.asarray(by_document.sum(axis=1), dtype=np.float64).ravel()
        self._norms: _Values = K1 * (1 - B + B * lengths / max(lengths.sum() / max(len(lengths), 1), 1e-9))
        """(documents,) k1 · (1 - b + b · length / mean length)."""

    def rank(self, query: Sequence[Expectation], k: int) -> list[RunEntry]:
        """The ``k`` best documents for structured terms, best first, each with a BM25 score above 0; ties in order.

        As in ``LexicalIndex.search``, terms in over half of the documents count only if the query has no rarer term.
        """
        terms = [self._expected(expectation) for expectation in query]
        rare = [term for term in terms if 0 < term[1] * 2 <= len(self.doc_ids)] or terms
        scores = np.zeros(len(self.doc_ids))
        for (rows, frequencies), document_frequency in rare:
            idf = np.log((len(self.doc_ids) - document_frequency + 0.5) / (document_frequency + 0.5))
            scores[rows] += max(idf, _LEAST_IDF) * frequencies * (K1 + 1) / (frequencies + self._norms[rows])
        hits = np.flatnonzero(scores > 0)
        best = hits[np.argsort(-scores[hits], kind="stable")[:k]].tolist()
        return [(self.doc_ids[row], float(scores[row])) for row in best]

    def _expected(self, expectation: Expectation) -> tuple[_Postings, float]:
        """The expected term frequencies of a structured term, and its expected document frequency."""
        postings, document_frequency = list[_Postings](), 0.0
        for term, probability in expectation.items():
            matching = [known for known in self._columns if known.startswith(term[:-1])] if term[-1] == "*" else [term]
            columns = [self._columns[known] for known in matching if known in self._columns]
            places = [slice(*self._by_term.indptr[column : column + 2]) for column in columns]
            rows, frequencies = _summed([(self._by_term.indices[place], self._by_term.data[place]) for place in places])
            postings.append((rows, probability * frequencies))
            document_frequency += probability * len(rows)
        return _summed(postings), min(document_frequency, float(len(self.doc_ids)))


def _summed(postings: Sequence[_Postings]) -> _Postings:
    """One frequency for each row that any of the postings has."""
    rows, places = np.unique(np.concatenate([_NO_ROWS, *(rows for rows, _ in postings)]), return_inverse=True)
    values = np.concatenate([np.zeros(0), *(values for _, values in postings)])
    return rows, np.bincount(places, weights=values, minlength=len(rows)).astype(np.float64)


class QueryTranslation:
    """Makes structured queries from queries in one language for documents in another.

    Words that share a term have the mean of their translations. A translation of several terms, such as a phrase or the
    n-grams of a Chinese word, is spread evenly, so that a phrase in a document counts as often as a word. A word of
    several terms is translated where a query has all in order; the longest is chosen.
    """

    def __init__(self, translations: Translations, lang: str, documents: str) -> None:
        """``translations`` are from ``lang`` to ``documents``, normalised BCP 47 tags; empty for one language."""
        self._lang, self._source, self._target = lang, analyser(lang), analyser(documents)
        rows = defaultdict[tuple[str, ...], list[Mapping[str, float]]](list)
        for word, row in translations.items():
            rows[tuple(self._source.query_terms(word))].append(row)
        self._expectations = {terms: self._mean(same) for terms, same in rows.items() if terms}
        self._longest = max(map(len, self._expectations), default=0)

    def query(self, text: str) -> list[Expectation]:
        """The structured terms of a query; a term that the lexicon lacks stands for itself."""
        terms: list[tuple[str, str]] = []
        for run, size in runs(folded(text, self._lang)):
            of_run = self._source.query_terms(run)
            terms += [(term, term if size and len(run) > size else run) for term in of_run]
        query: dict[tuple[str, ...], Expectation] = {}
        place = 0
        while place < len(terms):
            next_terms = tuple(term for term, _ in terms[place : place + self._longest])
            heads = (next_terms[:size] for size in range(len(next_terms), 0, -1))
            key = next((head for head in heads if head in self._expectations), ())
            if key:
                query[key] = self._expectations[key]
            else:
                query[(terms[place][0],)] = self._spread(terms[place][1], 1.0)
            place += max(len(key), 1)
        return list(query.values())

    def _mean(self, rows: Sequence[Mapping[str, float]]) -> Expectation:
        mean = defaultdict[str, float](float)
        for row in rows:
            for translation, probability in row.items():
                for term, share in self._spread(translation, probability / len(rows)).items():
                    mean[term] += share
        return dict(mean)

    def _spread(self, word: str, probability: float) -> dict[str, float]:
        terms = self._target.query_terms(word)
        return {term: probability / len(terms) for term in terms}
