"""One call finds documents in every language."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from encoders.document import Document, Passages
from encoders.errors import BadInput, ModelMismatch, StoreError
from encoders.methods.vector_parts import VectorParts
from indexer.collection import collection as collections
from indexer.collection.settings import Settings
from indexer.ledger.database import connect, transaction
from query.ranking.ranking_options import RankingOptions
from query.ranking.search_hits import Detail, ScoreParts, best_passages
from query.ranking.searcher import Searcher
from query.trec_files.qrels import read_qrels
from query.trec_files.topics import read_topics
from trials import DEMO, ROOT


@pytest.fixture
def searcher(demo: Settings) -> Iterator[Searcher]:
    with Searcher.open("demo", demo, device="cpu") as opened:
        yield opened


def test_queries_find_their_subject_in_every_other_language(searcher: Searcher) -> None:
    """Most of thirty Japanese topics have a relevant document among the first three of each other language."""
    relevant: dict[str, set[str]] = {}
    for qrel in read_qrels([DEMO / "qrels.txt"]):
        relevant.setdefault(qrel.query_id, set()).add(qrel.doc_id)
    topics = [topic for topic in read_topics(DEMO / "topics.tsv") if topic.lang == "ja"]
    queries = [Document(topic.qid, "ja", topic.text(("title", "description"))) for topic in topics]
    for to in set(searcher.languages) - {"ja"}:
        rankings = searcher.rank(queries, k=3, to=[to])
        found = [bool(relevant[query.doc_id] & set(one.doc_ids)) for query, one in zip(queries, rankings, strict=True)]
        assert {lang for one in rankings for lang in one.langs} == {to}
        assert sum(found) > len(found) / 2


def test_hits_are_ranked_and_carry_the_passage_that_matches(searcher: Searcher) -> None:
    hits = searcher.search("Wie backe ich Brot ohne gekaufte Hefe?", lang="de", k=12)
    assert len(hits) == 12
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    for hit in hits:
        assert hit.passage is not None
        assert hit.document.content[hit.passage.start : hit.passage.end] == hit.passage.text
        assert hit.passage.text
        assert -1 <= hit.cosine <= 1.0001
    assert hits[0].document.fields["concept"] == "sourdough"


@pytest.mark.parametrize(
    ("lang", "text", "window", "shown"),
    [
        ("ru", "Раньше обходились без жидкостного охлаждения и шума", "ились без жидкостного охла", (7, 44)),
        ("pt", "Por isso convém, sempre, ler", "isso convé", (4, 16)),
        ("de", "Erster Satz.Zweiter Satz", "Zweiter Satz", (12, 24)),
        ("ja", "家庭用太陽光発電の費用", "太陽光", (3, 6)),
        ("en", f"see {'x' * 99} there", "x" * 40, (4, 44)),
    ],
)
def test_a_passage_begins_and_ends_with_whole_words(lang: str, text: str, window: str, shown: tuple[int, int]) -> None:
    start = text.index(window)
    passages = Passages(np.ones((1, 4), np.int8), np.array([[start, start + len(window)]], np.int32))
    detail = Detail(
        "d", ScoreParts(1, 1, None, None, None, 1, None, None, 1, None, None, None), passages, np.ones(1, np.float32)
    )
    document = Document("d", lang, text)
    (passage,) = best_passages(document, detail, np.ones(4, np.float32), VectorParts.equal(4), 1)
    assert (passage.start, passage.end) == shown
    assert passage.text == document.content[slice(*shown)]


def test_asking_all_languages_is_asking_each_and_merging(searcher: Searcher) -> None:
    everything = searcher.rank([Document("q", "en", "coffee")], k=20)[0]
    apart = [searcher.rank([Document("q", "en", "coffee")], k=20, to=[lang])[0] for lang in searcher.languages]
    merged = sorted(
        ((-float(score), doc_id) for one in apart for doc_id, score in zip(one.doc_ids, one.scores, strict=True))
    )[:20]
    assert [doc_id for _, doc_id in merged] == list(everything.doc_ids)
    assert (np.diff(everything.scores) <= 0).all()


def test_rank_and_search_agree(searcher: Searcher) -> None:
    hits = searcher.search("ночные поезда", lang="ru", k=10)
    ranking = searcher.rank([Document("q", "ru", "ночные поезда")], k=10)[0]
    assert [hit.doc_id for hit in hits] == list(ranking.doc_ids)
    assert [hit.lang for hit in hits] == list(ranking.langs)


def test_many_queries_at_once_are_ranked_as_each_alone(searcher: Searcher) -> None:
    texts = [f"{word} {number}" for number in range(35) for word in ("volcano", "шахматы")]
    together = searcher.rank([Document(str(at), "und", text) for at, text in enumerate(texts)], k=5)
    for at in (0, 33, 66, 69):
        alone = searcher.rank([Document("x", "und", texts[at])], k=5)[0]
        assert list(together[at].doc_ids) == list(alone.doc_ids)
        np.testing.assert_allclose(together[at].scores, alone.scores, atol=1e-6)


def test_filters_are_passed_to_the_store(searcher: Searcher) -> None:
    hits = searcher.search("bread", lang="en", filters={"label": "digital"}, k=50)
    assert {hit.document.fields["label"] for hit in hits} == {"digital"}


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_query_is_refused(searcher: Searcher, text: str) -> None:
    with pytest.raises(BadInput, match="the query is empty"):
        searcher.search(text)


def test_a_language_the_collection_lacks_is_refused_with_those_it_has(searcher: Searcher) -> None:
    with pytest.raises(BadInput, match="no documents in 'fi'; it has ar, de, en"):
        searcher.search("coffee", to=["fi"])
    assert searcher.search("kahvi", lang="fi", k=1)


def test_a_query_of_ten_thousand_words_is_answered(searcher: Searcher) -> None:
    assert len(searcher.search("earthquake " * 10_000, lang="en", k=3)) == 3


def test_the_query_language_is_detected_among_the_collections(searcher: Searcher) -> None:
    assert searcher.detect("ما هو أفضل وقت لزيارة الطبيب").lang == "ar"
    assert searcher.detect("家庭用太陽光発電の費用").lang == "ja"
    assert searcher.detect("Hoeveel kost een warmtepomp?").lang in searcher.languages


def test_an_unknown_collection_is_refused_with_those_there_are(demo: Settings, settings: Settings) -> None:
    with pytest.raises(BadInput, match=r"no collection 'nope' \(there are: demo\)"):
        Searcher.open("nope", demo)
    with pytest.raises(BadInput, match=r"none yet\); make it: dragoman index"):
        Searcher.open("nope", settings)


def test_a_collection_of_another_model_is_refused_at_the_door(demo: Settings) -> None:
    engine = connect(demo.database)
    with transaction(engine) as session:
        row = session.get_one(collections.Collection, "demo")
        right, row.model = row.model, "0000"
    with pytest.raises(ModelMismatch, match=r"collection demo holds vectors of .* \(model 0000\).* is model"):
        Searcher.open("demo", demo, device="cpu")
    with transaction(engine) as session:
        session.get_one(collections.Collection, "demo").model = right


def test_the_space_is_an_id_of_model_and_calibration(searcher: Searcher) -> None:
    assert len(searcher.space) == 16
    assert searcher.describe()["space"] == searcher.space != searcher.spec.model


def test_the_hits_tell_the_language_of_the_query(searcher: Searcher) -> None:
    detected = searcher.search("ما هو أفضل وقت لزيارة الطبيب", k=2)
    assert detected.lang == "ar"
    assert detected.confidence is not None
    assert 0.9 < detected.confidence <= 1
    stated = searcher.search("kahvi", lang="fin", k=2, subjects=True)
    assert (stated.lang, stated.confidence, len(stated)) == ("fi", None, 2)


@pytest.mark.parametrize("k", [0, -1])
def test_a_search_for_no_hits_is_refused(searcher: Searcher, k: int) -> None:
    with pytest.raises(BadInput, match=f"k is {k}; ask for one hit or more"):
        searcher.search("coffee", k=k)
    with pytest.raises(BadInput, match=f"k is {k}"):
        searcher.rank([Document("q", "en", "coffee")], k=k)


def test_a_string_of_languages_is_refused_with_the_list_that_is_meant(searcher: Searcher) -> None:
    with pytest.raises(
        BadInput, match=re.escape("to is the string 'de,fr'; give a list of languages: to=['de', 'fr']")
    ):
        searcher.search("coffee", to="de,fr")


def test_a_searcher_shows_itself_on_a_short_line(searcher: Searcher, calibrated_by_words: Settings) -> None:
    assert repr(searcher).startswith("<Searcher of demo: 235 documents in 10 languages, ")
    with Searcher.open("demo", calibrated_by_words, device="cpu") as calibrated:
        shown = repr(calibrated)
    assert shown.endswith(f", words, calibration {calibrated.describe()['calibration']}>")
    assert len(shown) < 120


def test_a_closed_searcher_says_so_and_so_do_those_of_the_same_store(calibrated_by_words: Settings) -> None:
    searcher = Searcher.open("demo", calibrated_by_words, device="cpu")
    plain = replace(searcher, calibration=None, ranking=RankingOptions())
    searcher.close()
    searcher.close()
    for closed in (searcher, plain):
        with pytest.raises(StoreError, match=r"collection demo is closed; open another: Searcher.open\('demo'\)"):
            closed.search("coffee")
        with pytest.raises(StoreError, match="is closed"):
            closed.rank([Document("q", "en", "coffee")])


_FORKS = """
import os, sys
from encoders.errors import StoreError
from indexer.collection.settings import Settings
from query.ranking.searcher import Searcher

settings = Settings.read(home=sys.argv[1])
searcher = Searcher.open("demo", settings, device="cpu")
assert searcher.search("coffee", k=1)
if not os.fork():
    try:
        searcher.search("coffee")
    except StoreError as error:
        print(error)
    with Searcher.open("demo", settings, device="cpu") as another:
        print(len(another.search("coffee", k=3)))
    searcher.close()
    sys.exit()
assert os.wait()[1] == 0
print(len(searcher.search("coffee", k=4)))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_after_a_fork_a_searcher_says_so_at_once_and_another_can_be_opened(demo: Settings) -> None:
    program = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _FORKS, str(demo.home)]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    refusal, *hits = done.stdout.splitlines()
    assert (
        "was opened by another process, before a fork; in each process open another: Searcher.open('demo')" in refusal
    )
    assert hits == ["3", "4"]
