"""Document, sentence and word retrieval by the protocols of the Cr5 paper, sections 4.2 to 4.4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

from encoders.console import Console
from encoders.cr5.corpus import Corpus
from encoders.cr5.estimator import Cr5
from encoders.cr5.model import Cr5Model
from encoders.cr5.settings import Cr5Settings, Pairs
from encoders.document import Document, FloatArray, unit_rows
from encoders.errors import BadInput
from query.evaluation.measures import Scores
from query.reproduce.cr5_data import Wikipedia
from query.reproduce.retrieval import Precision, precision
from query.reproduce.systems import rank_scores

RankedBy = Literal["cosine", "csls"]
Direction = tuple[str, str]
"""Languages of the queries and of the candidates."""


@dataclass(frozen=True)
class Published:
    """Published P@1, P@5 and P@10 of one direction, in per cent."""

    cosine: Sequence[float]
    csls: Sequence[float]


def _both_directions(rows: Mapping[Direction, Sequence[float]]) -> dict[Direction, Published]:
    """The figures of each direction, from rows of table 1: by cosine, there and back, then by CSLS."""
    published = {}
    for (first, second), row in rows.items():
        published[first, second] = Published(row[0:3], row[6:9])
        published[second, first] = Published(row[3:6], row[9:12])
    return published


_TABLE_1: Mapping[Pairs, Mapping[Direction, Sequence[float]]] = {
    "joint": {
        ("da", "en"): (62.6, 76.4, 80.4, 53.7, 74.5, 81.9, 68.4, 83.5, 86.9, 50.9, 74.2, 81.0),
        ("da", "it"): (41.2, 63.2, 70.9, 41.9, 66.4, 74.1, 48.2, 68.9, 76.9, 38.6, 64.3, 73.7),
        ("da", "vi"): (33.7, 54.8, 62.8, 34.6, 59.0, 67.9, 36.4, 60.2, 67.3, 36.3, 59.8, 70.4),
        ("en", "it"): (70.0, 85.0, 88.9, 78.2, 89.2, 91.1, 70.5, 85.4, 90.1, 79.0, 90.1, 92.5),
        ("en", "vi"): (50.4, 68.4, 75.9, 63.0, 79.2, 83.4, 47.3, 70.1, 78.5, 68.7, 82.8, 87.2),
        ("it", "vi"): (38.9, 61.9, 69.4, 45.5, 66.1, 73.3, 35.9, 61.9, 70.5, 48.3, 70.2, 77.1),
    },
    "pairwise": {
        ("da", "en"): (69.2, 82.7, 86.0, 58.9, 76.4, 82.2, 70.1, 84.0, 87.7, 57.3, 75.7, 82.7),
        ("da", "vi"): (32.0, 55.9, 63.5, 33.9, 58.2, 66.1, 35.6, 60.4, 68.9, 33.8, 56.3, 66.4),
        ("en", "it"): (74.6, 86.4, 88.9, 80.0, 89.8, 91.5, 71.9, 85.8, 90.3, 79.0, 90.2, 91.9),
    },
    "transitive": {
        ("da", "vi"): (21.6, 39.8, 47.4, 25.1, 44.7, 53.5, 27.8, 49.3, 60.0, 27.1, 49.6, 59.1),
    },
}
PAPER = {training: _both_directions(rows) for training, rows in _TABLE_1.items()}
"""Document retrieval by training and direction (table 1)."""
PAPER_SENTENCES = {
    ("it", "en"): Published((42.6, 55.1, 59.7), (49.7, 62.0, 66.7)),
    ("en", "it"): Published((45.8, 56.6, 61.6), (50.4, 62.7, 66.8)),
}
"""Sentence retrieval on Europarl (table 3)."""
PAPER_WORDS = {
    ("it", "en"): Published((41.0, 51.8, 55.0), (44.9, 54.4, 56.5)),
    ("en", "it"): Published((38.6, 53.0, 55.3), (41.3, 55.8, 58.0)),
}
"""Word retrieval on the dictionary of Dinu et al. (table 4)."""
PAPER_DATA = {
    "documents": "Wikipedia; 1,000 queries a pair among 200,000 articles that training did not see",
    "sentences": "Europarl; 2,000 queries among 200,000; trained on en and it; idf and ridge from 300,000 other "
    "sentences",
    "words": "the dictionary of Dinu et al.; 1,500 queries among 200,000 words; trained on en and it; ridge from its "
    "training part",
}
"""What the paper's figures are of (sections 4.2 to 4.4)."""


@dataclass(frozen=True)
class Retrieved:
    """Precision in one direction, and the number of candidates; ``queries`` names the queries in their order."""

    langs: Direction
    ours: Precision
    candidates: int
    queries: Sequence[str]

    def scores(self, ranked_by: RankedBy) -> Scores:
        """The scores of every query by cosine or by CSLS."""
        ranks = self.ours.cosine_ranks if ranked_by == "cosine" else self.ours.csls_ranks
        return rank_scores(dict(zip(self.queries, ranks, strict=True)))


def retrieve_documents(
    data: Wikipedia, langs: Sequence[str], settings: Cr5Settings, queries: int, most: int, console: Console
) -> tuple[dict[Direction, Cr5Model], list[Retrieved]]:
    """Table 1: train without the queries' concepts, and rank each query's article among those of the other language.

    Args:
        data: the articles.
        langs: languages of the articles.
        settings: how to train.
        queries: number of query concepts of a pair of languages; the paper sets as many aside to choose the ridge.
        most: greatest number of ranked articles of a language; articles not learnt from come first.
        console: shows the progress.

    Returns:
        The models by pair of languages (the same model for all pairs unless training is pairwise), and the results.

    Raises:
        BadInput: a pair of languages has too few concepts in common, or no concept is left to train with.
    """
    concepts = {lang: set(data.concepts(lang)) for lang in langs}
    held_out = _held_out(concepts, queries, settings.seed)
    left_out = set().union(*held_out.values())
    groups = list(combinations(langs, 2)) if settings.pairs == "pairwise" else [tuple(langs)]
    models: dict[Direction, Cr5Model] = {}
    results = []
    for group in groups:
        corpus = _corpus(data, {lang: concepts[lang] for lang in group}, left_out, console)
        model = Cr5(settings).fit(corpus, console).model_
        for pair in combinations(group, 2):
            models[pair] = model
            sides = {}
            for lang in pair:
                taught = set().union(*(concepts[taught_lang] for taught_lang in group if taught_lang != lang))
                candidates = _candidates(held_out[pair], concepts[lang], taught - left_out, most)
                sides[lang] = _encoded(data, model, lang, candidates)
            for query_lang, candidate_lang in (pair, pair[::-1]):
                asked, ours = _precision(sides[query_lang], sides[candidate_lang], held_out[pair])
                results.append(Retrieved((query_lang, candidate_lang), ours, len(sides[candidate_lang][1]), asked))
    return models, results


def _corpus(data: Wikipedia, concepts: Mapping[str, set[str]], left_out: set[str], console: Console) -> Corpus:
    """The articles of some languages; ``concepts`` are all concepts by language."""
    corpus = Corpus()
    for lang, lang_concepts in concepts.items():
        with console.progress(f"counting {lang}", len(lang_concepts), "articles") as progress:
            for concept, article_words in data.articles(lang):
                if concept not in left_out:
                    corpus.documents += 1
                    corpus.add_words(lang, concept, article_words)
                progress(1)
    return corpus


def _precision(
    queries: tuple[FloatArray, Sequence[str]], candidates: tuple[FloatArray, Sequence[str]], concepts: set[str]
) -> tuple[list[str], Precision]:
    """The queries of some concepts, and their precision; both sides are vectors and their concepts."""
    candidate_rows = {concept: row for row, concept in enumerate(candidates[1])}
    rows = [row for row, concept in enumerate(queries[1]) if concept in concepts and concept in candidate_rows]
    asked = [queries[1][row] for row in rows]
    return asked, precision(queries[0][rows], candidates[0], [{candidate_rows[concept]} for concept in asked])


def _held_out(concepts: Mapping[str, set[str]], queries: int, seed: int) -> dict[Direction, set[str]]:
    chance = np.random.default_rng(seed)
    held_out = {}
    for first, second in combinations(concepts, 2):
        common = sorted(concepts[first] & concepts[second])
        if len(common) <= 2 * queries:
            raise BadInput(
                f"{first} and {second} have {len(common):,} concepts in common, too few to hold {queries:,} out; "
                "ask fewer with --queries"
            )
        held_out[first, second] = {common[index] for index in chance.permutation(len(common))[:queries]}
    return held_out


def _candidates(query_concepts: set[str], concepts: set[str], taught_concepts: set[str], count: int) -> set[str]:
    """Candidate concepts of a language: the queries' concepts, then concepts that training had in no other language.

    ``taught_concepts`` are those that training has in another language too: the model may have learnt them.
    """
    distractors = sorted(concepts - query_concepts, key=lambda concept: (concept in taught_concepts, concept))
    return query_concepts | set(distractors[: max(count - len(query_concepts), 0)])


def _encoded(data: Wikipedia, model: Cr5Model, lang: str, wanted_concepts: set[str]) -> tuple[FloatArray, list[str]]:
    """Vectors and concepts of a language's candidates, in the order of its articles."""
    bags, row_concepts = [], []
    for concept, article_words in data.articles(lang):
        if concept in wanted_concepts:
            bags.append(model.ids(article_words, lang))
            row_concepts.append(concept)
    blocks = [unit_rows(model.sums(bags[start : start + 1000])) for start in range(0, len(bags), 1000)]
    return np.concatenate([np.zeros((0, model.dim), np.float32), *blocks]), row_concepts


def retrieve_sentences(
    model: Cr5Model, langs: tuple[str, str], texts: tuple[Sequence[str], Sequence[str]], queries: int, candidates: int
) -> list[Retrieved]:
    """Table 3: each sentence's translation among all candidates of the other language, both directions."""
    count = min(candidates, len(texts[0]))
    vectors = {
        lang: model.encode([Document("", lang, text) for text in lang_texts[:count]])
        for lang, lang_texts in zip(langs, texts, strict=True)
    }
    query_rows = list(range(min(queries, count)))
    results = []
    for query_lang, candidate_lang in (langs, langs[::-1]):
        ours = precision(vectors[query_lang][query_rows], vectors[candidate_lang], [{row} for row in query_rows])
        results.append(Retrieved((query_lang, candidate_lang), ours, count, [str(row + 1) for row in query_rows]))
    return results


def retrieve_words(
    model: Cr5Model, langs: tuple[str, str], dictionary: Mapping[str, set[str]], queries: int
) -> list[Retrieved]:
    """Table 4: each word's translation among the vocabulary of the other language, both directions.

    A word that the model does not have counts as not found.
    """
    reverse: dict[str, set[str]] = {}
    for word, translations in dictionary.items():
        for translation in translations:
            reverse.setdefault(translation, set()).add(word)
    results = []
    for (query_lang, candidate_lang), entries in ((langs, dictionary), (langs[::-1], reverse)):
        word_rows, target_rows = (
            dict(zip(model.vocabularies[lang], range(10**9), strict=False)) for lang in (query_lang, candidate_lang)
        )
        vectors, candidates = (unit_rows(model.words_of(lang)[1]) for lang in (query_lang, candidate_lang))
        query_words = list(entries)[:queries]
        rows = np.array([word_rows.get(word, -1) for word in query_words])
        query_vectors = np.where(rows[:, None] >= 0, vectors[rows], np.float32(0))
        equivalents = [
            {target_rows[word] for word in entries[query_word] if word in target_rows} if row >= 0 else set()
            for query_word, row in zip(query_words, rows.tolist(), strict=True)
        ]
        ours = precision(query_vectors, candidates, equivalents, source=vectors)
        results.append(Retrieved((query_lang, candidate_lang), ours, len(target_rows), query_words))
    return results
