"""Document, sentence and word retrieval by the protocols of the Cr5 paper, sections 4.2 to 4.4."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, islice, permutations
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from encoders.console import Console
from encoders.cr5.bag_corpus import Corpus
from encoders.cr5.cr5_model import Cr5Model
from encoders.cr5.cr5_settings import Cr5Settings
from encoders.cr5.estimator import Cr5
from encoders.document import Document, FloatArray, IntArray, unit_rows
from encoders.errors import BadInput
from papers.data import Wikipedia
from papers.table import mean_scores
from query.calibration.margin import neighbourhood
from query.measures.quality_measures import Scores

Direction = tuple[str, str]
"""Languages of the queries and of the candidates."""
RankedBy = Literal["cosine", "csls"]
RANKED_BY: Sequence[RankedBy] = get_args(RankedBy)
RANKS = (1, 5, 10)
_Concepts = Mapping[tuple[str, ...], AbstractSet[str]]  # by pair of languages, and one of them
_NEIGHBOURS = 10
_BLOCK = 256


def equivalents_ranks(
    queries: FloatArray,
    candidates: FloatArray,
    equivalents: Sequence[AbstractSet[int]],
    source: FloatArray | None = None,
) -> Mapping[RankedBy, list[float]]:
    """Rank of each query's nearest equivalent among all candidates, from 1; infinite if it has none.

    Queries (q, dim), candidates (c, dim) and source (n, dim) are unit rows; ``equivalents`` are rows of candidates by
    query. CSLS (Conneau et al. 2017) takes the ten neighbours of candidates from ``source``, by default the queries.
    """
    source = queries if source is None else source
    neighbours = min(_NEIGHBOURS, len(source))
    hubs = np.concatenate([neighbourhood(block @ source.T, neighbours) for block in _blocks(candidates)])
    ranks: dict[RankedBy, list[float]] = {"cosine": [], "csls": []}
    remaining = iter(equivalents)
    for block in _blocks(queries):
        cosines = block @ candidates.T
        rows = list(islice(remaining, len(block)))
        ranks["cosine"] += _ranks(cosines, rows)
        ranks["csls"] += _ranks(2 * cosines - hubs, rows)  # a query's own neighbourhood is the same for its candidates
    return ranks


def precision(ranks: Sequence[float]) -> list[float]:
    """Share of the queries, in per cent, whose equivalent is among the first k candidates (P@k), for k of ``RANKS``."""
    return [100 * (sum(rank <= k for rank in ranks) / max(len(ranks), 1)) for k in RANKS]


def _blocks(rows: FloatArray) -> Iterator[FloatArray]:
    return (rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK))


def _ranks(scores: npt.NDArray[np.float32], equivalents: Sequence[AbstractSet[int]]) -> list[float]:
    ranks = []
    for row_scores, rows in zip(scores, map(list, equivalents), strict=True):
        wrong = np.delete(row_scores, rows)
        ranks.append(1.0 + float((wrong >= row_scores[rows].max()).sum()) if rows else np.inf)
    return ranks


@dataclass(frozen=True)
class Retrieved:
    """The results of one direction, and the number of candidates."""

    langs: Direction
    ranks: Mapping[RankedBy, Sequence[float]]  # of the queries' equivalents
    candidates: int
    queries: Sequence[str]  # names of the queries, in their order
    in_common: int | None = None  # number of concepts that documents of both languages teach; none: not counted

    def scores(self, ranked_by: RankedBy) -> Scores:
        """Success@k for k of ``RANKS`` and RR of every query."""
        ranks = zip(self.queries, self.ranks[ranked_by], strict=True)
        return mean_scores(
            {name: {**{f"Success@{k}": float(rank <= k) for k in RANKS}, "RR": 1 / rank} for name, rank in ranks}
        )


def retrieve_documents(
    data: Wikipedia,
    langs: Sequence[str],
    settings: Cr5Settings,
    queries: int,
    most: int,
    console: Console,
    intersection: int | None = None,
    ridges: Sequence[float | None] = (),
) -> tuple[Sequence[Cr5Model], list[Retrieved]]:
    """Table 1: train without the queries' concepts, and rank each query's article among those of the other language.

    ``queries`` concepts of each pair of languages are asked, at most ``most`` articles of a language are ranked, those
    not learnt from first, and the languages of a model have at most ``intersection`` concepts in common in training.
    Of several ``ridges`` as many further concepts of each pair choose one. Returns a model for each, of the first two
    languages, which is that of all unless training is pairwise, and the results.
    """
    concepts = {lang: set(data.concepts(lang)) for lang in langs}
    held_out = _held_out(concepts, 2 * queries if ridges[1:] else queries, settings.seed)
    asked = {pair: _drawn(some, queries, np.random.default_rng(settings.seed)) for pair, some in held_out.items()}
    left_out = set().union(*held_out.values())
    models: list[Sequence[Cr5Model]] = []
    results = []
    for group in combinations(langs, 2 if settings.pairs == "pairwise" else len(langs)):
        common = set.intersection(*(concepts[lang] - left_out for lang in group))
        untaught = left_out | (common - _drawn(common, intersection, np.random.default_rng(settings.seed)))
        corpus = _corpus(data, {lang: concepts[lang] for lang in group}, untaught, console)
        fits = [Cr5(replace(settings, ridge=ridge)).fit(corpus, console) for ridge in ridges or [settings.ridge]]
        models.append([fit.model_ for fit in fits])
        if untrained := [lang for lang in group if lang not in models[-1][0].vocabularies]:
            raise BadInput(
                f"no article in {' and '.join(untrained)} is left to train with; leave it out of --languages, or take "
                "other --pairs"
            )
        candidates: dict[tuple[str, ...], set[str]] = {}
        for lang in group:
            taught = set().union(*(concepts[taught_lang] for taught_lang in group if taught_lang != lang))
            for pair in (pair for pair in combinations(group, 2) if lang in pair):
                candidates[*pair, lang] = _candidates(held_out[pair], concepts[lang], taught - untaught, most)
        ranked = partial(_ranked_articles, data, fits[0].concept_numbers_, candidates)
        choosing = {pair: held_out[pair] - asked[pair] for pair in combinations(group, 2)}
        results += ranked({pair: asked[pair] for pair in choosing}, chosen(models[-1], partial(ranked, choosing)))
    return models[0], results


def _ranked_articles(
    data: Wikipedia, numbers: Mapping[str, IntArray], candidates: _Concepts, asked: _Concepts, model: Cr5Model
) -> list[Retrieved]:
    """Both directions of each pair of languages; ``numbers`` are of the concepts that teach, by language."""
    results = []
    for pair, concepts in asked.items():
        sides = {lang: _encoded(data, model, lang, candidates[*pair, lang]) for lang in pair}
        in_common = len(np.intersect1d(numbers[pair[0]], numbers[pair[1]], assume_unique=True))
        results += _both_directions(sides, concepts, in_common)
    return results


def chosen(models: Sequence[Cr5Model], search: Callable[[Cr5Model], Sequence[Retrieved]]) -> Cr5Model:
    """The model, of several λ, by which most of a search's queries find their equivalent first by cosine."""
    if len(models) == 1:
        return models[0]
    found = [np.mean([precision(result.ranks["cosine"])[0] for result in search(model)]) for model in models]
    return models[int(np.argmax(found))]


def _both_directions(
    sides: Mapping[str, tuple[FloatArray, Sequence[str]]], asked: AbstractSet[str], in_common: int | None = None
) -> list[Retrieved]:
    """Ranks of the asked texts' equivalents, which have their names, from vectors and names by both languages."""
    results = []
    for langs in permutations(sides, 2):
        (vectors, names), (candidates, other_names) = (sides[lang] for lang in langs)
        places = {name: place for place, name in enumerate(other_names)}
        rows = [row for row, name in enumerate(names) if name in asked and name in places]
        ranks = equivalents_ranks(vectors[rows], candidates, [{places[names[row]]} for row in rows])
        results.append(Retrieved((langs[0], langs[1]), ranks, len(places), [names[row] for row in rows], in_common))
    return results


def _drawn(concepts: AbstractSet[str], count: int | None, chance: np.random.Generator) -> set[str]:
    """So many concepts at random; none: all of them."""
    ordered = sorted(concepts)
    return {ordered[index] for index in chance.permutation(len(ordered))[:count]}


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
        common = concepts[first] & concepts[second]
        if len(common) <= 2 * queries:
            few = f"{len(common):,} concepts in common, too few to hold {queries:,} out"
            raise BadInput(f"{first} and {second} have {few}; ask fewer with --queries")
        held_out[first, second] = _drawn(common, queries, chance)
    return held_out


def _candidates(query_concepts: set[str], concepts: set[str], taught_concepts: set[str], count: int) -> set[str]:
    """Candidate concepts of a language: the queries', then those that training had in no other language."""
    distractors = sorted(concepts - query_concepts, key=lambda concept: (concept in taught_concepts, concept))
    return query_concepts | set(distractors[: max(count - len(query_concepts), 0)])


def _encoded(data: Wikipedia, model: Cr5Model, lang: str, concepts: AbstractSet[str]) -> tuple[FloatArray, list[str]]:
    """Vectors and concepts of a language's candidates, in the order of its articles."""
    wanted = [(name, model.ids(words, lang)) for name, words in data.articles(lang) if name in concepts]
    bags = [bag for _, bag in wanted]
    blocks = [unit_rows(model.sums(bags[start : start + 1000])) for start in range(0, len(bags), 1000)]
    return np.concatenate([np.zeros((0, model.dim), np.float32), *blocks]), [name for name, _ in wanted]


def retrieve_sentences(
    langs: Direction, texts: Sequence[Sequence[str]], queries: int, candidates: int, model: Cr5Model
) -> list[Retrieved]:
    """Table 3: each sentence's translation among all candidates of the other language, both directions."""
    names = [str(number + 1) for number in range(min(candidates, len(texts[0])))]
    sides = {
        lang: (model.encode([Document("", lang, text) for text in lang_texts[: len(names)]]), names)
        for lang, lang_texts in zip(langs, texts, strict=True)
    }
    return _both_directions(sides, set(names[:queries]))


def retrieve_words(langs: Direction, entries: Mapping[str, set[str]], queries: int, model: Cr5Model) -> list[Retrieved]:
    """Table 4: each word's translation among the words of the other language; a word without vector is not found."""
    reverse: dict[str, set[str]] = {}
    for word, translations in entries.items():
        for translation in translations:
            reverse.setdefault(translation, set()).add(word)
    places = {lang: {word: row for row, word in enumerate(model.vocabularies[lang])} for lang in langs}
    vectors = {lang: unit_rows(model.words_of(lang)[1]) for lang in langs}
    results = []
    for (lang, other), dictionary in ((langs, entries), (langs[::-1], reverse)):
        words = list(dictionary)[:queries]
        rows = np.array([places[lang].get(word, -1) for word in words])
        asked = np.where(rows[:, None] >= 0, vectors[lang][rows], np.float32(0))
        equivalents = [
            {places[other][entry] for entry in dictionary[word] if entry in places[other]} if row >= 0 else set()
            for word, row in zip(words, rows.tolist(), strict=True)
        ]
        ranks = equivalents_ranks(asked, vectors[other], equivalents, source=vectors[lang])
        results.append(Retrieved((lang, other), ranks, len(places[other]), words))
    return results
