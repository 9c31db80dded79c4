"""Document, sentence and word retrieval by the protocols of the Cr5 paper, sections 4.2 to 4.4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from encoders.console import Console
from encoders.cr5.bag_corpus import Corpus
from encoders.cr5.cr5_model import Cr5Model
from encoders.cr5.cr5_settings import Cr5Settings
from encoders.cr5.estimator import Cr5
from encoders.document import Document, FloatArray, unit_rows
from encoders.errors import BadInput
from papers.cr5_data import Wikipedia
from papers.paper_table import by_pair, published
from papers.retrieval import RANKS, RankedBy, equivalents_ranks
from papers.systems import rank_scores
from query.evaluation.drawing import empty_figure, plain_texts
from query.measures.quality_measures import Scores

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Direction = tuple[str, str]
"""Languages of the queries and of the candidates."""
Published = Mapping[RankedBy, Sequence[float]]
"""Published P@1, P@5 and P@10 of one direction, in per cent."""


def _both_directions(rows: dict[str, Sequence[float]]) -> dict[Direction, Published]:
    """The figures of each direction, from rows of two languages: by cosine, there and back, then by CSLS."""
    figures: dict[Direction, Published] = {}
    for (first, second), row in by_pair(rows).items():
        figures[first, second] = {"cosine": row[0:3], "csls": row[6:9]}
        figures[second, first] = {"cosine": row[3:6], "csls": row[9:12]}
    return figures


_FIGURES = published("cr5")
_ADVREFINE = _both_directions(_FIGURES["baselines"]["documents"])
PAPER: Mapping[str, Mapping[str, Mapping[Direction, Published]]] = {
    "documents": {training: _both_directions(rows) for training, rows in _FIGURES["documents"].items()},
    **{task: {"": _both_directions(_FIGURES[task])} for task in ("sentences", "words")},
}
"""Retrieval by task, training (table 1, b to e; not stated in tables 3 and 4) and direction."""
BASELINES: Mapping[str, Mapping[Direction, Sequence[tuple[str, Sequence[float]]]]] = {
    "documents": {
        langs: [("ADVREFINE, cosine", row["cosine"]), ("ADVREFINE, CSLS", row["csls"])]
        for langs, row in _ADVREFINE.items()
    },
    **{
        task: {
            langs: [(name, row[start : start + 3]) for name, row in _FIGURES["baselines"][task].items()]
            for langs, start in ((("it", "en"), 0), (("en", "it"), 3))
        }
        for task in ("sentences", "words")
    },
}
"""P@1, P@5 and P@10 of the paper's baselines by task and direction, in per cent (tables 1(a), 3 and 4)."""
PAPER_DATA: Mapping[str, str] = _FIGURES["data"]
"""What the paper's figures are of (sections 4.2 to 4.4)."""


@dataclass(frozen=True)
class Retrieved:
    """The results of one direction, and the number of candidates."""

    langs: Direction
    ranks: Mapping[RankedBy, Sequence[float]]  # of the queries' equivalents
    candidates: int
    queries: Sequence[str]  # names of the queries, in their order
    in_common: int | None = None  # number of concepts that documents of both languages teach; none: not counted

    def scores(self, ranked_by: RankedBy) -> Scores:
        """The scores of every query."""
        return rank_scores(dict(zip(self.queries, self.ranks[ranked_by], strict=True)))


def retrieve_documents(
    data: Wikipedia,
    langs: Sequence[str],
    settings: Cr5Settings,
    queries: int,
    most: int,
    console: Console,
    intersection: int | None = None,
) -> tuple[dict[Direction, Cr5Model], list[Retrieved]]:
    """Table 1: train without the queries' concepts, and rank each query's article among those of the other language.

    ``queries`` concepts of each pair of languages are asked, at most ``most`` articles of a language are ranked, those
    not learnt from first, and the languages of a model have at most ``intersection`` concepts in common in training.
    Returns the models by pair of languages, one for all pairs unless training is pairwise, and the results.
    """
    concepts = {lang: set(data.concepts(lang)) for lang in langs}
    held_out = _held_out(concepts, queries, settings.seed)
    left_out = set().union(*held_out.values())
    groups = list(combinations(langs, 2)) if settings.pairs == "pairwise" else [tuple(langs)]
    models: dict[Direction, Cr5Model] = {}
    results = []
    for group in groups:
        untaught = left_out | _beyond([concepts[lang] - left_out for lang in group], intersection, settings.seed)
        corpus = _corpus(data, {lang: concepts[lang] for lang in group}, untaught, console)
        fitted = Cr5(settings).fit(corpus, console)
        model = fitted.model_
        if untrained := [lang for lang in group if lang not in model.vocabularies]:
            raise BadInput(
                f"no article in {' and '.join(untrained)} is left to train with; leave it out of --languages, or take "
                "other --pairs"
            )
        for pair in combinations(group, 2):
            models[pair] = model
            sides = {}
            for lang in pair:
                taught = set().union(*(concepts[taught_lang] for taught_lang in group if taught_lang != lang))
                candidates = _candidates(held_out[pair], concepts[lang], taught - untaught, most)
                sides[lang] = _encoded(data, model, lang, candidates)
            first, second = (fitted.concept_numbers_[lang] for lang in pair)
            in_common = len(np.intersect1d(first, second, assume_unique=True))
            for query_lang, candidate_lang in (pair, pair[::-1]):
                (queries_side, asked), (candidates_side, ranked) = sides[query_lang], sides[candidate_lang]
                places = {concept: place for place, concept in enumerate(ranked)}
                rows = [row for row, name in enumerate(asked) if name in held_out[pair] and name in places]
                names = [asked[row] for row in rows]
                ranks = equivalents_ranks(queries_side[rows], candidates_side, [{places[name]} for name in names])
                results.append(Retrieved((query_lang, candidate_lang), ranks, len(ranked), names, in_common))
    return models, results


def _beyond(concepts: Sequence[set[str]], most: int | None, seed: int) -> set[str]:
    """Concepts that all of these languages have, beyond a number of them that are drawn at random."""
    common = sorted(set.intersection(*concepts))
    if most is None or len(common) <= most:
        return set()
    return {common[index] for index in np.random.default_rng(seed).permutation(len(common))[most:]}


def published_in_common(training: str, langs: Direction) -> str:
    """Number of concepts that both languages have in the paper's training, as printed; empty if the paper has none."""
    of_training: dict[str, str] = _FIGURES["in_common"].get(training, {})
    return of_training.get("-".join(langs)) or of_training.get("-".join(langs[::-1]), "")


_DRAWN = 20
"""Greatest k that is drawn."""


def precision_figure(results: Sequence[Retrieved], paper: Mapping[Direction, Published]) -> Figure:
    """Draw precision at k by CSLS for each pair of languages, the mean of both directions (figure 2).

    The paper's P@1, P@5 and P@10 of Cr5 and of ADVREFINE are points beside the curves.
    """
    by_langs = {result.langs: result for result in results}
    ranks = np.arange(1, _DRAWN + 1)
    figure = empty_figure(7.0, 4.6)
    with plain_texts():
        axes = figure.subplots()
        for number, langs in enumerate(langs for langs in by_langs if langs[0] < langs[1]):
            both = np.array([*by_langs[langs].ranks["csls"], *by_langs[langs[::-1]].ranks["csls"]])
            colour = f"C{number}"
            axes.plot(ranks, [100 * (both <= rank).mean() for rank in ranks], color=colour, label=" – ".join(langs))
            for rows, marker in ((paper, "o"), (_ADVREFINE, "x")):
                if langs in rows:
                    values = np.mean([rows[langs]["csls"], rows[langs[::-1]]["csls"]], axis=0)
                    axes.plot(RANKS, values, marker, color=colour, markersize=5)
        axes.plot([], [], "o", color="gray", label="paper: Cr5")
        axes.plot([], [], "x", color="gray", label="paper: ADVREFINE")
        axes.set(xlabel="k", ylabel="precision at k, in %", ylim=(0, 100))
        axes.legend(frameon=False, fontsize=8)
    return figure


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
        asked = vectors[query_lang][query_rows]
        ranks = equivalents_ranks(asked, vectors[candidate_lang], [{row} for row in query_rows])
        results.append(Retrieved((query_lang, candidate_lang), ranks, count, [str(row + 1) for row in query_rows]))
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
        ranks = equivalents_ranks(query_vectors, candidates, equivalents, source=vectors)
        results.append(Retrieved((query_lang, candidate_lang), ranks, len(target_rows), query_words))
    return results
