"""Documents about the same thing take part in each other's scores, and are one hit of a search for subjects."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from encoders.document import Document, FloatArray, unit_rows
from encoders.errors import BadInput
from encoders.methods.vector_parts import VectorParts
from indexer.stores.contract import VectorQuery
from indexer.text.language_detection import Detector
from query.calibration.calibration import BAR, Calibration
from query.calibration_fitting.language_statistics import draw_samples, fit_statistics
from query.ranking.candidate_mates import subjects
from query.ranking.candidates import CandidateDocuments
from query.ranking.fair_ranker import FairRanker
from query.ranking.ranking_options import RankingOptions
from query.ranking.search_hits import Hit
from query.ranking.searcher import Searcher
from tests.conftest import Patch
from tests.query.synthetic import LosingStore, TopicEncoder, filled, page

LANGS = ("de", "fr", "ja", "ru")
TWELVE = ("ar", "cs", "de", "en", "es", "fr", "it", "ja", "pt", "ru", "tr", "zh")
MODEL = TopicEncoder.spec.model


class Pages:
    """A collection whose documents know each other better than queries know documents."""

    def __init__(self, folder: Path, pages: Sequence[Document], noise: float = 1.0) -> None:
        encoder = TopicEncoder(bias=0.5, noise=noise)
        self.pages, self.noise = pages, noise
        self.store = filled(folder, encoder, pages)
        self.calibration = fit_statistics(draw_samples(self.store, encoder), MODEL)
        self.topics = sorted({topic_of(document.doc_id) for document in pages})

    def queries(self, lang: str) -> FloatArray:
        return TopicEncoder(bias=0.5, noise=2 * self.noise).encode_queries(
            [Document("", lang, f"{topic} asked") for topic in self.topics]
        )

    def ranker(self, *, mates: bool = True, passages: bool = True) -> FairRanker:
        return FairRanker(self.store, replace(self.calibration, mates=mates), 0.75, passages=passages)

    def mean_average_precision(self, *, mates: bool, passages: bool) -> float:
        """MAP at rank 50 of German queries about each topic."""
        values, answers = [], len(self.pages) / len(self.topics)
        rankings = self.ranker(mates=mates, passages=passages).rank(self.queries("de"), "de", LANGS, 50)
        for topic, ranking in zip(self.topics, rankings, strict=True):
            relevant = [topic_of(doc_id) == topic for doc_id in ranking.doc_ids]
            precisions = np.cumsum(relevant) / np.arange(1, len(relevant) + 1)
            values.append(float(precisions[relevant].sum()) / answers)
        return float(np.mean(values))


def topic_of(doc_id: str) -> str:
    return doc_id.split(":")[1]


def pages_of(pages: Sequence[Document], noise: float = 1.0) -> Callable[..., Iterator[Pages]]:

    @pytest.fixture(scope="module")
    def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
        collection = Pages(tmp_path_factory.mktemp("pages"), pages, noise)
        with closing(collection.store):
            yield collection

    return made


translated = pages_of([page(lang, f"t{at}", label=f"l{at % 2}") for lang in LANGS for at in range(60)])
untranslated = pages_of([page(LANGS[at % 4], f"t{at}") for at in range(160)])
twelve = pages_of([page(lang, f"t{at}") for lang in TWELVE for at in range(75)], noise=2.0)


@pytest.mark.parametrize("passages", [False, True])
def test_counterparts_are_found_and_else_little_is_lost(translated: Pages, untranslated: Pages, passages: bool) -> None:
    """Where each topic has a page in each language, and in one alone."""
    for pages, gain in ((translated, 0.03), (untranslated, -0.05)):
        alone, helped = (pages.mean_average_precision(mates=mates, passages=passages) for mates in (False, True))
        assert helped > alone + gain


def test_a_hit_names_a_page_about_its_topic(translated: Pages) -> None:
    queries, right = translated.queries("de"), list[tuple[float, bool]]()
    for ranking in translated.ranker().rank(queries, "de", LANGS, 50, detailed=True):
        details = ranking.details_of(ranking.doc_ids)
        for doc_id, score, detail in zip(ranking.doc_ids, ranking.scores.tolist(), details, strict=True):
            if mate := detail.parts.mate:
                assert mate.split(":")[0] != doc_id.split(":")[0]
                right.append((score, topic_of(mate) == topic_of(doc_id)))
    best = [is_right for _, is_right in sorted(right, reverse=True)[: len(queries)]]
    assert len(right) > len(queries)
    assert np.mean(best) > 0.9


def test_in_many_languages_too_the_first_hits_are_the_same_however_many_are_asked_for(twelve: Pages) -> None:
    """Pages that mates bring up crowd out their mates: these are compared by passages only for more hits."""
    ranker, queries = twelve.ranker(), twelve.queries("de")[:40]
    for rankings in zip(*(ranker.rank(queries, "de", TWELVE, k) for k in (50, 150, 300)), strict=True):
        for few, more in pairwise(rankings):
            assert len(set(more.doc_ids)) == len(more.doc_ids)
            assert list(few.doc_ids) == list(more.doc_ids[: len(few.doc_ids)])
            assert few.scores == pytest.approx(more.scores[: len(few.scores)], abs=1e-5)
            assert (np.diff(more.scores) <= 0).all()


def test_a_page_far_down_by_its_own_score_may_be_among_the_first_hits(twelve: Pages) -> None:
    """Mates take part before passages are compared, too."""
    queries, ranks = twelve.queries("de")[:40], list[int]()
    alone = twelve.ranker(mates=False, passages=False).rank(queries, "de", TWELVE, 900)
    for before, after in zip(alone, twelve.ranker().rank(queries, "de", TWELVE, 50), strict=True):
        ranks += [list(before.doc_ids).index(doc_id) for doc_id in after.doc_ids]
    assert sum(rank > 150 + 3 * len(TWELVE) for rank in ranks) > 10


def test_below_balance_half_mates_take_no_part_and_subjects_are_known_all_the_same(tmp_path: Path) -> None:
    """There a query's cosines with two languages have two scales; a mean of them would lower the better one."""
    encoder = TopicEncoder(bias=3.0, noise=0.5)
    store = filled(tmp_path, encoder, [page(lang, f"t{at}") for lang in LANGS for at in range(40)])
    calibration = fit_statistics(draw_samples(store, encoder), MODEL)
    queries = encoder.encode_queries([Document("", "de", f"t{at} asked") for at in range(20)])
    with closing(store):
        ranker, without = (FairRanker(store, replace(calibration, mates=mates), 0.0) for mates in (True, False))
        rankings, expected = (one.rank(queries, "de", LANGS, 40 * len(LANGS)) for one in (ranker, without))
        subjects = [ranker.subjects(ranking, [], "de")[0] for ranking in rankings]
    assert [list(ranking.doc_ids) for ranking in rankings] == [list(ranking.doc_ids) for ranking in expected]
    topics = [
        {topic_of(ranking.doc_ids[rank]) for rank in group}
        for ranking, groups in zip(rankings, subjects, strict=True)
        for group in groups
        if len(group) == len(LANGS)
    ]
    assert np.mean([len(of_group) == 1 for of_group in topics]) > 0.8
    assert len(topics) > 400


def test_without_a_calibration_or_at_balance_0_documents_are_ranked_by_their_cosines_alone(translated: Pages) -> None:
    queries = translated.queries("de")[:9]
    doc_ids = [document.doc_id for document in translated.pages]
    cosines = queries @ translated.store.vectors(MODEL, doc_ids).T
    for calibration in (Calibration.none(MODEL, VectorParts.equal(64)), translated.calibration):
        ranker = FairRanker(translated.store, calibration, 0.0, passages=False)
        for of_query, ranking in zip(cosines, ranker.rank(queries, "de", LANGS, 30), strict=True):
            assert list(ranking.doc_ids) == [doc_ids[row] for row in np.argsort(-of_query, kind="stable")[:30]]
            assert ranking.scores == pytest.approx(np.sort(of_query)[::-1][:30], abs=1e-5)


@pytest.mark.parametrize("each", [1, 12])
def test_filters_hold_for_mates_too(translated: Pages, each: int) -> None:
    """Also where nothing passes, or a language has no documents at all."""
    queries, ranker = translated.queries("de"), translated.ranker()
    allowed = {document.doc_id for document in translated.pages if document.fields["label"] == "l1"}
    for start in range(0, 24, each):
        for ranking in ranker.rank(queries[start : start + each], "de", [*LANGS, "sw"], 120, {"label": "l1"}):
            assert set(ranking.doc_ids) == allowed
    for passages in (False, True):
        rankings = translated.ranker(passages=passages).rank(queries[:each], "de", LANGS, 10, {"label": "none"})
        assert [list(ranking.doc_ids) for ranking in rankings] == [[]] * each


@pytest.mark.parametrize("each", [1, 12])
def test_documents_that_are_lost_while_they_are_ranked_are_left_out(tmp_path: Path, each: int) -> None:
    """At any of the reads: of the hits, the candidates' vectors, or the passages."""
    made = Pages(tmp_path, [page(lang, f"t{at}") for lang in LANGS for at in range(40)])
    made.store.close()
    with closing(LosingStore(tmp_path, "synthetic")) as store:
        ranker, queries = FairRanker(store, replace(made.calibration, mates=True)), made.queries("de")
        for start in range(0, 8 * each, each):
            rankings = ranker.rank(queries[start : start + each], "de", LANGS, 60)
            assert all(len(ranking.doc_ids) == 60 for ranking in rankings)
            assert not {doc_id for ranking in rankings for doc_id in ranking.doc_ids} & set(store.lost)
        assert len(store.lost) >= (1 if each == 1 else 2)


TEN = ("ar", "de", "en", "es", "fr", "ja", "pt", "ru", "tr", "zh")


Opened = Callable[..., Searcher]


@pytest.fixture
def opened(tmp_path: Path, request: pytest.FixtureRequest) -> Opened:
    def searcher(pages: Sequence[Document], encoder: TopicEncoder | None = None, *, mates: bool = True) -> Searcher:
        encoder = encoder or TopicEncoder(bias=0.5)
        store = filled(tmp_path, encoder, pages)
        request.addfinalizer(store.close)
        calibration = replace(fit_statistics(draw_samples(store, encoder), MODEL), mates=mates)
        return Searcher("c", encoder, store, store.count(), Detector(store.count().keys()), calibration)

    return searcher


def versions(head: Hit) -> list[Hit]:
    return [head, *head.also]


def topics_of(head: Hit) -> list[str]:
    return [shown.doc_id.split(":")[1] for shown in versions(head)]


def ids_shown(heads: Sequence[Hit]) -> list[str]:
    return [shown.doc_id for head in heads for shown in versions(head)]


def best_of(head: Hit) -> Hit:
    return max(versions(head), key=lambda shown: shown.score)


def pages_in(langs: Sequence[str], topics: int = 60) -> list[Document]:
    return [page(lang, f"t{at}") for lang in langs for at in range(topics)]


@pytest.mark.parametrize("k", [1, 10])
def test_a_search_for_subjects_shows_k_of_them_each_once_and_the_same_again(opened: Opened, k: int) -> None:
    searcher = opened(pages_in(LANGS))
    heads = searcher.search("t3 asked", lang="de", k=k, subjects=True)
    assert len(heads) == k
    topics = [topics_of(head)[0] for head in heads]
    assert [set(topics_of(head)) for head in heads] == [{topic} for topic in dict.fromkeys(topics)]
    assert topics_of(heads[0]) == ["t3"] * len(LANGS)
    assert replace(searcher).search("t3 asked", lang="de", k=k, subjects=True) == heads


def test_the_face_of_a_subject_is_in_the_preferred_language(opened: Opened) -> None:
    """Some subjects have no French version; of these Russian is preferred to the rest."""
    pages = [one for one in pages_in(LANGS) if not (one.lang == "fr" and int(one.doc_id.split(":")[1][1:]) % 2)]
    heads = opened(pages).search("t3 asked", lang="de", k=10, subjects=True, prefer=["fr", "ru"])
    languages = [{shown.lang for shown in versions(head)} for head in heads]
    assert [head.lang for head in heads] == ["fr" if "fr" in langs else "ru" for langs in languages]
    assert {head.lang for head in heads} == {"fr", "ru"}
    for head in heads:
        scores = [other.score for other in head.also]
        assert scores == sorted(scores, reverse=True)


def test_without_a_preferred_version_the_face_is_in_the_language_of_the_query_or_the_best(opened: Opened) -> None:
    searcher = opened(pages_in(LANGS))
    for lang in LANGS:
        heads = searcher.search("t3 asked", lang=lang, k=5, subjects=True)
        assert {head.lang for head in heads} == {lang}
        assert heads == searcher.search("t3 asked", lang=lang, k=5, subjects=True, prefer=[lang])
    heads = searcher.search("t3 asked", lang="sv", k=10, subjects=True, prefer=["fi", "sv"])
    assert [head.doc_id for head in heads] == [best_of(head).doc_id for head in heads]
    assert len({head.lang for head in heads}) > 1


def test_what_a_reader_prefers_changes_no_answer(opened: Opened) -> None:
    searcher = opened(pages_in(LANGS), TopicEncoder(bias=0.5, noise=2.0))
    answers = [searcher.search("t3 asked", lang="de", k=30, subjects=True, prefer=[lang]) for lang in LANGS]
    assert len({(hits.good, *(head.fits for head in hits)) for hits in answers}) == 1
    assert any(version.fits != head.fits for hits in answers for head in hits for version in head.also)


def test_a_subject_stands_where_its_best_version_does(opened: Opened) -> None:
    searcher = opened(pages_in(LANGS))
    flat = searcher.search("t3 asked", lang="de", k=50)
    heads = searcher.search("t3 asked", lang="de", k=8, subjects=True, prefer=["ru"])
    best = [head.score for head in heads]
    assert best == sorted(best, reverse=True) == [best_of(head).score for head in heads]
    others = set(ids_shown(heads)) - {best_of(head).doc_id for head in heads}
    assert [best_of(head).doc_id for head in heads] == [hit.doc_id for hit in flat if hit.doc_id not in others][:8]
    scores = {hit.doc_id: hit.score for hit in flat}
    shown = {hit.doc_id: hit.score for head in heads for hit in head.also if hit.doc_id in scores}
    assert shown == pytest.approx({doc_id: scores[doc_id] for doc_id in shown})
    assert len(shown) > 20


def test_the_first_subjects_are_the_same_however_many_are_asked_for(opened: Opened) -> None:
    """Fifty subjects in ten languages are more hits than the first stretch has."""
    searcher = opened(pages_in(TEN))
    for topic in ("t3", "t44"):
        found = [searcher.search(f"{topic} asked", lang="de", k=k, subjects=True) for k in (5, 20, 50)]
        assert [len(heads) for heads in found] == [5, 20, 50]
        for few, more in pairwise(found):
            assert [best_of(head).doc_id for head in few] == [best_of(head).doc_id for head in more[: len(few)]]
            for head, wider in zip(few, more, strict=False):
                assert set(ids_shown([head])) <= set(ids_shown([wider]))
        shown = ids_shown(found[-1])
        assert len(set(shown)) == len(shown) > 150


def test_a_store_that_finds_other_hits_mixes_no_subjects(opened: Opened, monkeypatch: Patch) -> None:
    """As one with approximate kNN does: of fifty hits in each language it misses each seventh."""
    searcher = opened(pages_in(TEN))
    search = searcher.store.search

    def missing(query: VectorQuery) -> object:
        found = search(query)
        if query.k > 100:
            return found
        return {lang: [hits.without(hits.doc_ids[1::7]) for hits in by_query] for lang, by_query in found.items()}

    monkeypatch.setattr(searcher.store, "search", missing)
    few = searcher.search("t3 asked", lang="de", k=5, subjects=True)
    heads = searcher.search("t3 asked", lang="de", k=50, subjects=True)
    assert [topics_of(head)[0] for head in heads[:5]] == [topics_of(head)[0] for head in few]
    mixed = sum(len(set(topics_of(head))) > 1 for head in heads[:15])
    assert mixed <= 3  # one that lacks a version may take another's
    assert len(set(ids_shown(heads))) == len(ids_shown(heads))


def test_near_duplicates_of_a_language_are_one_subject_and_nobody_knows_whether_they_answer(opened: Opened) -> None:
    """Their words are the same but for a number; what is about the same thing in other words is a hit of its own."""
    notice = "t99 the parcel has been registered and will be delivered within three days"
    notices = [Document(f"{lang}:t99:{at}", lang, notice, f"t99 {at}") for lang in LANGS[:2] for at in range(40)]
    searcher = opened([*notices, *pages_in(LANGS[:2], 20)], TopicEncoder(bias=0.5, noise=0.1))
    heads = searcher.search("t99 parcel", lang="de", k=10, subjects=True)
    alike = {doc_id: hit.alike for head in heads for hit in versions(head) if (doc_id := hit.doc_id) and hit.alike}
    assert (sorted(alike.values()), len(heads)) == ([39, 39], 10)
    assert len(set(map(tuple, map(topics_of, heads)))) > 8
    assert [hit.fits is None for head in heads for hit in versions(head)] == [
        hit.doc_id in alike for head in heads for hit in versions(head)
    ]
    assert len(searcher.search("t99 parcel", lang="de", k=30)) == 30


def test_near_duplicates_have_six_in_ten_pieces_in_common_and_are_near_without_the_means_too() -> None:
    """The third document is near by plain cosine alone, so its text is not read."""
    without = np.linalg.cholesky(np.array([[1, 0.6, 0.4], [0.6, 1, 0.4], [0.4, 0.4, 1]])).astype(np.float32)
    without = np.hstack((without, np.zeros((3, 1), dtype=np.float32)))
    raw = unit_rows(without + np.array([0, 0, 0, 4], dtype=np.float32))
    documents = CandidateDocuments("012", {"en": slice(0, 3)}, raw, without, VectorParts.equal(4))
    stored, random, verdicts = dict[str, Document](), np.random.default_rng(0), set()

    def read(doc_ids: Sequence[str]) -> list[Document]:
        return [stored[doc_id] for doc_id in doc_ids]

    for changed in range(0, 200, 5):
        letters = random.choice(list("abcd é漢😀"), 400 + 2 * changed)
        other = np.where(np.isin(np.arange(len(letters)), random.choice(len(letters), changed)), "x", letters)
        stored |= {f"{row}": Document(f"{row}", "en", "".join(text)) for row, text in enumerate((letters, other))}
        first, second = ({one.text[at : at + 4] for at in range(min(len(letters), 500))} for one in stored.values())
        _, behind = subjects(documents, np.arange(3), [], BAR, read, mates=False)
        assert behind == ({0: 1} if len(first & second) >= 0.6 * len(first | second) else {})
        verdicts.add(bool(behind))
    assert verdicts == {False, True}


@pytest.mark.parametrize(("topics", "known"), [(7, False), (8, True)])
def test_of_few_documents_nobody_knows_whether_they_answer(opened: Opened, topics: int, known: bool) -> None:
    found = opened(pages_in(LANGS, topics)).search("t3 asked", lang="de", k=3)
    assert (len(found), found.good is not None) == (3, known)


@pytest.mark.parametrize(
    ("langs", "cosine", "pairs", "expected"),
    [
        ("abcdefghij", 0.3, {(row, 9): 0.2 for row in range(9)}, [[*range(9)]]),
        ("aaaabbbbcccc", 0.05, {(0, 4): 0.35, (0, 8): 0.3, (4, 8): 0.3}, [[0, 4, 8]]),
        ("aaaabbbbcccc", 0.05, {(0, 4): 0.35, (0, 8): 0.3, (4, 9): 0.3, (5, 8): 0.06, (1, 9): 0.06}, []),
    ],
    ids=["a stranger is nearer to the mean of versions than to them", "third languages agree", "they disagree"],
)
def test_a_subject_is_of_versions_that_are_near_to_each_other_and_have_the_same_neighbours(
    langs: str, cosine: float, pairs: dict[tuple[int, int], float], expected: list[list[int]]
) -> None:
    cosines = cosine + (1 - cosine) * np.eye(len(langs))
    for (row, column), of_pair in pairs.items():
        cosines[row, column] = cosines[column, row] = of_pair
    vectors = np.linalg.cholesky(cosines).astype(np.float32)
    languages = {lang: slice(langs.index(lang), langs.rindex(lang) + 1) for lang in langs}
    parts = VectorParts.equal(len(langs))
    documents = CandidateDocuments([f"{row}" for row in range(len(langs))], languages, vectors, vectors, parts)
    groups, _ = subjects(documents, np.arange(len(langs)), [], BAR, lambda _: [], mates=True)
    assert [group for group in groups if len(group) > 1] == expected


def test_without_mates_each_document_is_a_subject(opened: Opened) -> None:
    """Where they don't count, and by plain cosine."""
    searcher = opened(pages_in(LANGS), mates=False)
    for one in (searcher, replace(searcher, calibration=None, ranking=RankingOptions())):
        flat, heads = (one.search("t3 asked", lang="de", k=10, subjects=subjects) for subjects in (False, True))
        assert len(flat) == 10
        assert ids_shown(heads) == [hit.doc_id for hit in flat]


def test_all_versions_have_what_is_asked_of_hits(opened: Opened) -> None:
    searcher = opened(pages_in(LANGS))
    heads = searcher.search("t3 asked", lang="de", to=["fr", "ja"], k=5, subjects=True, explain=True, passages=2)
    shown = [shown for head in heads for shown in versions(head)]
    assert len(shown) > 5
    assert {hit.lang for hit in shown} == {"fr", "ja"}
    assert all(hit.parts is not None and len(hit.passages) == 2 for hit in shown)
    for flat, prefer, message in (
        (False, "de", "prefer is the string 'de'"),
        (True, ["de"], "search with subjects=True"),
    ):
        with pytest.raises(BadInput, match=message):
            searcher.search("t3 asked", lang="de", subjects=not flat, prefer=prefer)
    assert searcher.search("t3 asked", lang="de", k=1, subjects=True, prefer=["fra"])[0].lang == "fr"


def test_a_document_that_vanishes_is_in_no_subject(opened: Opened, monkeypatch: Patch) -> None:
    searcher, lost = opened(pages_in(LANGS)), ["fr:t3:0"]
    get = searcher.store.get

    def lose_then_get(doc_ids: Sequence[str]) -> list[Document]:
        searcher.store.delete(lost)
        return get(doc_ids)

    monkeypatch.setattr(searcher.store, "get", lose_then_get)
    heads = searcher.search("t3 asked", lang="de", k=10, subjects=True)
    assert topics_of(heads[0]) == ["t3"] * 3
    assert not {*lost} & {*ids_shown(heads)}


def test_a_document_that_vanishes_between_stretches_moves_no_other(opened: Opened, monkeypatch: Patch) -> None:
    searcher = opened(pages_in(TEN))
    search, searches = searcher.store.search, list[int]()

    def lose_then_search(query: VectorQuery) -> object:
        searches.append(query.k)
        if len(searches) == 2:
            searcher.store.delete(["fr:t3:0"])
        return search(query)

    monkeypatch.setattr(searcher.store, "search", lose_then_search)
    heads = searcher.search("t3 asked", lang="de", k=50, subjects=True)
    assert len(searches) > 2
    assert topics_of(heads[0]) == ["t3"] * 9
    assert [set(topics_of(head)) for head in heads[:10]] == [{topics_of(head)[0]} for head in heads[:10]]
