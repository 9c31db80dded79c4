"""Fair ranking, against a plain transcription over all documents of a real collection."""

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pytest

from encoders.document import Document, FloatArray, Passages, unit_rows
from indexer.collection.settings import Settings
from indexer.stores.contract import StoredDocument
from indexer.stores.embedded import EmbeddedStore
from query.calibration.calibration import BALANCE, Calibration
from query.calibration.comparison_space import PLAIN_SPACE
from query.calibration_fitting.language_statistics import draw_samples, fit_statistics
from query.measures.quality_measures import parse_measures, score
from query.ranking import fair_ranker as ranking_module
from query.ranking.fair_ranker import FairRanker, Stretch
from query.ranking.ranking_options import RankingOptions
from query.ranking.search_hits import Ranking, explanation
from query.ranking.searcher import Searcher
from query.trec_files.qrels import read_qrels
from query.trec_files.topics import read_topics
from query.trec_files.trec_run import Run
from tests.query.ranking.same_ranking import assert_same_hits
from tests.query.synthetic import TopicEncoder, calls_of, filled, page
from trials import DEMO, ROOT


@pytest.fixture(scope="module")
def searcher(calibrated: Settings) -> Iterator[Searcher]:
    with Searcher.open("demo", calibrated, device="cpu") as opened:
        yield opened


def calibration_of(searcher: Searcher, **changed: Any) -> Calibration:
    assert searcher.calibration is not None
    return replace(searcher.calibration, **changed)


def topics(lang: str) -> list[Document]:
    found = [topic for topic in read_topics(DEMO / "topics.tsv") if topic.lang == lang]
    return [Document(topic.qid, lang, topic.text(("title", "description"))) for topic in found]


def test_candidates_of_the_first_hits(searcher: Searcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """In few languages there are 150 candidates together at least."""
    searches = calls_of(monkeypatch, searcher.store, "search")
    vectors = searcher.encoder.encode_queries(topics("de")[:1])
    for targets in (["de", "en", "fr"], ["de", "en"], ["de"]):
        (ranking,) = FairRanker(searcher.store, calibration_of(searcher)).rank(vectors, "de", targets, 10)
        assert len(ranking.doc_ids) == 10
    assert [query.k for (query,) in searches] == [50, 75, 150]


@pytest.mark.parametrize("balance", [0.3, 0.5, 0.75, 1.0])
def test_scores_are_those_of_the_formulas(searcher: Searcher, balance: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no more documents than the first stretch takes nothing is left out: each has the transcription's score."""
    monkeypatch.setattr(ranking_module, "STRETCHES", (Stretch(1000, 1000),))
    calibration = calibration_of(searcher, mates=False, space=PLAIN_SPACE)
    query = topics("de")[3]
    share, beta = np.float32(min(1, 2 * balance)), max(0, 2 * balance - 1)
    known, bank = calibration.languages, calibration.bank("de", float(share))
    (asked,) = unit_rows(searcher.encoder.encode_queries([query]) - share * known["de"].means["query"])

    def compared(item: StoredDocument, centred: FloatArray, lang: str) -> float:
        *near, title = unit_rows(item.passages.unit_vectors() - share * known[lang].means["passage"])
        ends = item.passages.offsets[:-1, 1]
        first = near[: max(1, int((ends <= 500).sum()))]  # the opening's windows, as far as 500 characters
        opening = unit_rows(np.sum(first, axis=0, keepdims=True))[0] @ asked
        return float(centred @ asked + title @ asked + opening + 2 * max(near @ asked)) / 5

    expected: dict[str, float] = {}
    for lang in known:
        items = [item for page in searcher.store.scan(searcher.spec.model, lang=lang) for item in page]
        vectors = unit_rows(np.stack([item.vector for item in items]) - share * known[lang].means["document"])
        cosines = [compared(*pair, lang) for pair in zip(items, vectors, strict=True)]
        fwd = np.mean(sorted(cosines)[-3:])
        for item, vector, cosine in zip(items, vectors, cosines, strict=True):
            near = (bank.queries.vectors @ vector)[np.array(bank.sources) != item.document.doc_id]
            bwd = np.mean(sorted(near)[-min(3, max(1, len(bank.sources) // 8)) :])
            expected[item.document.doc_id] = cosine / max(float(fwd + bwd) / 2, 0.1) ** beta
    alone = replace(searcher, calibration=calibration)
    (ranking,) = alone.rank([query], k=300, ranking=RankingOptions(balance=balance))
    assert dict(zip(ranking.doc_ids, ranking.scores.tolist(), strict=True)) == pytest.approx(expected, rel=0, abs=2e-3)


def test_queries_that_wait_are_ranked_together(searcher: Searcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two languages, two numbers of hits and a filter."""
    searches = [
        partial(searcher.search, query.text, lang=query.lang, k=k, filters=filters)
        for query in (*topics("de")[:4], *topics("en")[:4])
        for k, filters in ((5, None), (60, None), (5, {"source": "demo"}))
    ]
    monkeypatch.setattr(type(searcher.store), "require_fields", lambda *_: None)
    alone = [search() for search in searches]
    sizes, rank_together = list[int](), FairRanker.rank_together

    def counted(self: FairRanker, search: Any, vectors: Any, texts: Any) -> Any:
        sizes.append(len(vectors))
        sleep(0.05)  # meanwhile other queries are encoded, and wait
        return rank_together(self, search, vectors, texts)

    monkeypatch.setattr(FairRanker, "rank_together", counted)
    with ThreadPoolExecutor(len(searches)) as pool:
        together = list(pool.map(lambda search: search(), searches))
    assert sum(sizes) == len(searches) > len(sizes)
    for hits, expected in zip(together, alone, strict=True):
        assert_same_hits(hits, expected)


_FORKED = """
import os
from query.ranking.fair_ranker import _waiting
for calls in _waiting.values(): calls._room = 0
child = os.fork()
if not child: os._exit(min(calls._room for calls in _waiting.values()))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_process_that_is_forked_while_others_are_ranked_has_room_for_one_ranking_of_its_own() -> None:
    assert subprocess.check_output([sys.executable, "-c", _FORKED], text=True, cwd=ROOT).strip() == "1"


@pytest.mark.parts
def test_calibrated_search_is_better_and_fairer_than_plain_cosine(searcher: Searcher, demo: Settings) -> None:
    """MAP of thirty topics in ten languages at least half again as high; a third of the bias at most."""
    qrels = read_qrels([DEMO / "qrels.txt"])
    queries = [query for lang in searcher.languages for query in topics(lang)]
    keyed = [replace(query, doc_id=f"{query.doc_id}.{query.lang}") for query in queries]
    expanded = [qrel._replace(query_id=f"{qrel.query_id}.{lang}") for lang in searcher.languages for qrel in qrels]

    def measured(opened: Searcher) -> tuple[float, float]:
        rankings = dict(zip((query.doc_id for query in keyed), opened.rank(keyed, k=100), strict=True))
        own = [rankings[query.doc_id].langs[:10].count(query.lang) / 10 for query in keyed]
        run = {qid: list(zip(one.doc_ids, map(float, one.scores), strict=True)) for qid, one in rankings.items()}
        return score(Run("r", run), expanded, parse_measures(["AP"])).means["AP"], float(np.mean(own))

    fair, share = measured(searcher)
    with Searcher.open("demo", demo, device="cpu") as plain:
        before, before_share = measured(plain)
    assert fair > 1.5 * before
    assert share < before_share / 3


def test_a_language_that_has_no_answer_is_not_pushed_to_the_top(searcher: Searcher) -> None:
    """Three quarters of the answers in others stand above its best document, by chance twice among two hits."""
    relevant = defaultdict[str, set[str]](set)
    for qrel in read_qrels([DEMO / "qrels.txt"]):
        if qrel.relevance > 1:
            relevant[qrel.query_id].add(qrel.doc_id)
    answers = above = early = 0
    for lang in ("en", "de", "ja"):
        lacking = [
            (query, missing)
            for query in topics(lang)
            for missing in set(searcher.languages) - {doc_id.split(":")[1] for doc_id in relevant[query.doc_id]}
        ]
        rankings = searcher.rank([query for query, _ in lacking], k=60, ranking=RankingOptions(balance=1.0))
        for (query, missing), ranking in zip(lacking, rankings, strict=True):
            first = list(ranking.langs).index(missing)
            early += first < 2
            answers += len(relevant[query.doc_id])
            above += len(relevant[query.doc_id] & set(ranking.doc_ids[:first]))
    assert above > 0.75 * answers
    assert early <= 2


def test_a_search_asks_the_store_for_everything_once(searcher: Searcher, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("search", "vectors", "passages", "get")
    calls = {name: calls_of(monkeypatch, searcher.store, name) for name in names}
    assert searcher.search("Brot backen", lang="de", k=5)
    assert [len(calls[name]) for name in names] == [1, 0, 1, 1]


ITALIAN = {
    "earthquake": "cosa fare durante un terremoto",
    "mould": "come togliere la muffa dal muro",
    "migraine": "rimedi contro il mal di testa",
    "bicycle-repair": "riparare una gomma bucata della bicicletta",
    "river-floods": "il fiume ha allagato la città",
}


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("lang", ["und", "it", "sw"])
def test_a_query_in_a_language_that_is_lacking_is_answered(searcher: Searcher, lang: str, hybrid: bool) -> None:
    """Five queries are judged together: in one, which of two nearly equal leaders has more say hangs on the CPU."""
    answers = list[int]()
    for concept, query in ITALIAN.items():
        hits = searcher.search(query, lang=lang, k=10, ranking=RankingOptions(hybrid=hybrid))
        assert np.isfinite([hit.score for hit in hits]).sum() == 10
        answers.append(sum(hit.document.fields["concept"] == concept for hit in hits))
    assert sum(answers) >= 25, answers
    assert sum(of_query >= 3 for of_query in answers) >= 4, answers


def test_a_name_that_one_document_has_brings_it_up_also_by_words_alone(searcher: Searcher, demo: Settings) -> None:
    """With mates and without, and by plain cosine."""
    for mates in (False, True):
        asked = replace(searcher, calibration=calibration_of(searcher, mates=mates))
        hits = asked.search("Le Teil", lang="fr", k=30, ranking=RankingOptions(hybrid=True))
        assert next(hit.doc_id for hit in hits if hit.lang == "fr") == "demo:fr:earthquake"
    with Searcher.open("demo", demo, device="cpu", ranking=RankingOptions(hybrid=True)) as opened:
        hits = opened.search("Nefftegorsk Нефтегорск", lang="ru", to=["ru"], k=3)
    assert hits[0].doc_id == "demo:ru:earthquake"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[EmbeddedStore, Calibration]:
    """400 documents in each of three languages, thirty topics: far more than candidates."""
    encoder = TopicEncoder(bias=0.5, noise=1.0)
    pages = [page(lang, f"t{at % 30}", at) for lang in ("de", "fr", "ja") for at in range(400)]
    store = filled(tmp_path_factory.mktemp("many"), encoder, pages)
    return store, fit_statistics(draw_samples(store, encoder), encoder.spec.model)


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("passages", [False, True])
@pytest.mark.parametrize("balance", [0.0, 0.3, 0.75, 1.0])
@pytest.mark.parametrize("mates", [False, True])
def test_the_first_hits_are_the_same_however_many_are_asked_for(
    many: tuple[EmbeddedStore, Calibration], balance: float, passages: bool, hybrid: bool, mates: bool
) -> None:
    """What an evaluation to depth 1,000 scores is what a search shows."""
    store, made = many
    ranker = FairRanker(store, replace(made, mates=mates), balance, hybrid=hybrid, passages=passages)
    queries = [Document(str(at), "de", f"t{at} sentence {7 * at}") for at in range(12)]
    vectors, texts = TopicEncoder(0.5, 1.0).encode_queries(queries), [query.text for query in queries]

    def ranked(k: int, queries: int = 12) -> list[Ranking]:
        return ranker.rank(vectors[:queries], "de", ("de", "fr", "ja"), k, texts=texts[:queries])

    deepest = ranked(1200)
    assert all(len(set(one.doc_ids)) == len(one.doc_ids) == 1200 for one in deepest)
    assert all((np.diff(one.scores) <= 0).all() for one in deepest)
    for k in (1, 10, 50, 51, 100, 150, 151, 400, 1000):
        for one, whole in zip(ranked(k), deepest, strict=True):
            assert list(one.doc_ids) == list(whole.doc_ids[:k])
            assert one.scores == pytest.approx(whole.scores[:k], abs=1e-5)
    assert list(ranked(10, 1)[0].doc_ids) == list(deepest[0].doc_ids[:10])


def nearness(searcher: Searcher, query: Document, hit_id: str, lang: str) -> tuple[Passages, FloatArray]:
    """A document's passages, and their corrected cosines with a German query."""
    calibration = calibration_of(searcher)
    asked = calibration.correct_queries(searcher.encoder.encode_queries([query]), "de")[0]
    passages = searcher.store.passages(searcher.spec.model, [hit_id])[0].without_title()
    rows = {lang: slice(0, len(passages.vectors))}
    return passages, calibration.correct_documents(passages.unit_vectors(), rows, kind="passage") @ asked


def test_the_passage_shown_is_the_one_that_the_score_is_of(searcher: Searcher) -> None:
    query = next(one for one in topics("de") if "Brot" in one.content)
    hits = searcher.search(query.content, lang="de", k=20)
    assert len(hits) == 20
    for hit in hits:
        passages, near = nearness(searcher, query, hit.doc_id, hit.lang)
        start, end = passages.offsets[int(near.argmax())]
        assert hit.passage is not None
        overlap = min(end, hit.passage.end) - max(start, hit.passage.start)
        assert 2 * overlap > max(end - start, hit.passage.end - hit.passage.start) - 2 * len(hit.title)


def test_where_passages_are_not_compared_a_hits_details_have_them_all_the_same(searcher: Searcher) -> None:
    query = topics("de")[0]
    ranker = FairRanker(searcher.store, calibration_of(searcher), 0.75, passages=False)
    vector = searcher.encoder.encode_queries([query])
    (ranking,) = ranker.rank(vector, "de", sorted(searcher.languages), 20, detailed=True)
    assert len(ranking.doc_ids) == 20
    for doc_id, lang, detail in zip(ranking.doc_ids, ranking.langs, ranking.details_of(ranking.doc_ids), strict=True):
        assert detail.cosines == pytest.approx(nearness(searcher, query, doc_id, lang)[1], abs=1e-5)
        assert (detail.parts.title, detail.parts.opening, detail.parts.passage) == (None, None, None)
        assert detail.parts.compared == pytest.approx(detail.parts.corrected, abs=1e-5)


@pytest.mark.parametrize("hybrid", [False, True])
def test_the_parts_of_a_hit_make_its_score(searcher: Searcher, hybrid: bool) -> None:
    """Without words, margin and mates are the hit's score; with them, its score before they moved it."""
    helped = replace(searcher, calibration=calibration_of(searcher, mates=True))
    options = RankingOptions(balance=0.75, hybrid=hybrid)
    hits = helped.search("Le Teil", lang="fr", k=50, ranking=options, explain=True)
    all_parts, langs = [hit.parts for hit in hits if hit.parts], {hit.doc_id: hit.lang for hit in hits}
    for hit, parts in zip(hits, all_parts, strict=True):
        assert parts.fwd is not None is not parts.bwd
        near = (parts.corrected, parts.title, parts.opening, parts.passage, parts.passage)
        assert None not in near
        assert parts.cosine == pytest.approx(hit.cosine, abs=1e-5)
        assert parts.compared == pytest.approx(np.mean(np.array(near, dtype=float)), abs=1e-5)
        assert parts.score == pytest.approx(parts.compared / max((parts.fwd + parts.bwd) / 2, 0.1) ** 0.5, rel=1e-5)
        assert (parts.mate is None) == (parts.mates is None)
        assert parts.mate is None or langs.get(parts.mate) != hit.lang
    assert any(parts.mate for parts in all_parts)
    own = [parts.score + (parts.mates or 0) for parts in all_parts]
    if hybrid:
        assert max(parts.words or 0 for parts in all_parts) == 1
        assert own != sorted(own, reverse=True)
        told = "".join(explanation(parts, 0.5, 0.75) for parts in all_parts)
        assert "its words have 1.00 of the best document's BM25 score" in told
    else:
        assert {parts.words for parts in all_parts} == {None}
        assert own == pytest.approx([hit.score for hit in hits], rel=1e-5)
        told = explanation(all_parts[0], hits[0].score, 0.75)
        assert told.endswith(f"; score {hits[0].score:.3f}")
        assert "to the power 0.5: " in told


def test_plain_cosine_says_nothing_of_neighbours(demo: Settings) -> None:
    with Searcher.open("demo", demo, device="cpu") as opened:
        (hit,) = opened.search("Brot", lang="de", k=1, explain=True)
    assert hit.parts
    assert explanation(hit.parts, hit.score, 0.0) == f"cosine {hit.cosine:.3f}; score {hit.cosine:.3f}"


@pytest.mark.parametrize("each", [1, 2, 5])
def test_in_a_tiny_collection_the_right_document_is_first(tmp_path: Path, each: int) -> None:
    """A language's mean must not be its one document: nothing of that would be left."""
    encoder, langs = TopicEncoder(bias=0.8), ("de", "fr", "ja", "ru")
    pages = [page(lang, f"{lang}-{at}") for lang in langs for at in range(each)]
    store = filled(tmp_path, encoder, pages)
    ranker = FairRanker(store, fit_statistics(draw_samples(store, encoder), encoder.spec.model))
    assert ranker.balance == BALANCE
    for lang in langs:
        queries = [Document(one.doc_id, lang, f"{one.text.split()[0]} asked") for one in pages]
        rankings = ranker.rank(encoder.encode_queries(queries), lang, langs, 3)
        assert [ranking.doc_ids[0] for ranking in rankings] == [one.doc_id for one in pages]
