"""The contract of a vector store: every implementation passes this suite unchanged."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from encoders.document import Document, FloatArray, Passages, int8_rows, unit_rows
from encoders.errors import BadInput, ModelMismatch
from indexer.cluster.source_values import filter_texts
from indexer.collection.store_location import StoreLocation
from indexer.stores import contract
from indexer.stores.contract import ChecksFields, LexicalQuery, Stamp, StoredDocument, VectorQuery, VectorStore

MODEL, DIM = "model-a", 8


@pytest.fixture(params=["embedded", pytest.param("elastic", marks=pytest.mark.elastic)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "embedded":
        return tmp_path.as_uri()
    url: str = request.getfixturevalue("elastic_url")
    return url


@pytest.fixture
def store(place: str) -> Iterator[VectorStore]:
    opened = StoreLocation(place, "contract").open()
    opened.create(MODEL, DIM)
    yield opened
    opened.close()


def random_vectors(count: int, seed: int = 0) -> FloatArray:
    return unit_rows(np.random.default_rng(seed).standard_normal((count, DIM)).astype(np.float32))


def nearest(store: VectorStore, model: str = MODEL, langs: Sequence[str] = ("en",), **filters: Any) -> list[str]:
    """Ids of ten documents of each language, sorted."""
    lists = store.search(VectorQuery(model, dict.fromkeys(langs, random_vectors(1)), 10, filters)).values()
    return sorted(doc_id for (one,) in lists for doc_id in one.doc_ids)


def found(store: VectorStore, text: str, lang: str, k: int = 10, **filters: Any) -> list[str]:
    """Ids of the documents that have the words, best first."""
    return [doc_id for doc_id, _ in store.lexical(LexicalQuery([text], [lang], k, filters or None))[0][lang]]


def item(
    doc_id: str, lang: str = "en", *, text: str = "text", revision: int = 0, seed: int | None = None, **fields: Any
) -> StoredDocument:
    vector = random_vectors(1, abs(hash(doc_id)) % 2**31 if seed is None else seed)[0]
    passages = Passages(int8_rows(random_vectors(2, 7)), np.array([[0, 2], [1, 4]], dtype=np.int32))
    return StoredDocument(Document(doc_id, lang, text, "title", fields, revision), vector, passages, (True, False))


def test_what_is_put_comes_back_as_it_was(store: VectorStore) -> None:
    given_item = item("a/b c:d%ü", "de", text="Grüße 洪水 \U0001f30a", label="news", number=3)
    document, ids = given_item.document, [given_item.document.doc_id]
    assert (store.put(MODEL, [given_item]).stored, store.get(ids)) == (1, [document])
    assert store.vectors(MODEL, ids).tobytes() == given_item.vector.tobytes()
    (passages,) = store.passages(MODEL, ids)
    assert passages.vectors.tobytes() == given_item.passages.vectors.tobytes()
    assert passages.offsets.tolist() == [[0, 2], [1, 4]]
    ((scanned,),) = store.scan(MODEL)
    assert (scanned.document, scanned.known) == (document, (True, False))
    assert scanned.vector.tobytes() == given_item.vector.tobytes()
    assert store.stamps(MODEL, [*ids, "nobody"]) == {ids[0]: Stamp.of(document)}
    assert Stamp.of(document) != Stamp.of(replace(document, fields={"label": "other"}))


def test_order_of_asking_is_order_of_answers_and_an_unknown_id_is_an_error(store: VectorStore) -> None:
    items = [item(name) for name in "cab"]
    store.put(MODEL, items)
    assert [document.doc_id for document in store.get(["b", "c", "a", "b"])] == ["b", "c", "a", "b"]
    assert store.vectors(MODEL, ["b", "c"]).tobytes() == items[2].vector.tobytes() + items[0].vector.tobytes()
    for ask in (store.get, lambda ids: store.vectors(MODEL, ids), lambda ids: store.passages(MODEL, ids)):
        with pytest.raises(KeyError):
            ask(["a", "nobody"])


def test_passages_that_were_read_before_are_those_that_are_stored_now(place: str, store: VectorStore) -> None:
    """A store may keep passages in memory, but another process may change the documents."""

    def with_passages(doc_id: str, seed: int) -> StoredDocument:
        vectors = int8_rows(random_vectors(2, seed))
        return replace(item(doc_id, text=f"{seed}"), passages=replace(item(doc_id).passages, vectors=vectors))

    def read(model: str, *doc_ids: str) -> list[bytes]:
        return [passages.vectors.tobytes() for passages in store.passages(model, doc_ids)]

    first, later, by_another = (with_passages("a", seed) for seed in (1, 2, 3))
    store.put(MODEL, [first, with_passages("b", 4)])
    store.vectors(MODEL, ["a"])  # with the vectors in memory, the rows of the documents are known, too
    assert read(MODEL, "a") == read(MODEL, "a") == [first.passages.vectors.tobytes()]
    assert read(MODEL, "b", "a")[1] == first.passages.vectors.tobytes()
    store.put(MODEL, [later])
    assert read(MODEL, "a") == [later.passages.vectors.tobytes()]
    second = StoreLocation(place, "contract").open()
    second.put(MODEL, [by_another])
    second.create("model-b", DIM)
    second.put("model-b", [replace(by_another, passages=first.passages)])
    second.publish()
    assert read(MODEL, "a") == [by_another.passages.vectors.tobytes()]
    assert read("model-b", "a") == [first.passages.vectors.tobytes()]
    store.vectors(MODEL, ["a", "b"])
    second.delete(["a"])
    second.put(MODEL, [third := with_passages("c", 5)])  # it may take the row of "a"
    second.publish()
    second.close()
    with pytest.raises(contract.MissingDocuments):
        read(MODEL, "b", "a")
    assert len(read(MODEL, "b")) == 1
    assert read(MODEL, "c") == [third.passages.vectors.tobytes()]


def test_a_revision_replaces_what_is_not_newer(store: VectorStore) -> None:
    store.put(MODEL, [item("a", revision=5, text="five")])
    report = store.put(MODEL, [item("a", revision=4, text="four")])
    assert (report.stored, list(report.older), store.get(["a"])[0].text) == (0, ["a"], "five")
    assert store.put(MODEL, [item("a", "de", revision=6, text="six")]).stored == 1
    assert (store.get(["a"])[0].text, store.count()) == ("six", {"de": 1})
    for _ in range(2):  # files without revisions change, too
        assert store.put(MODEL, [item("a", "de", revision=6, text="after", seed=3)]).stored == 1
        assert (store.get(["a"])[0].text, store.count()) == ("after", {"de": 1})
        assert store.vectors(MODEL, ["a"]).tobytes() == item("a", seed=3).vector.tobytes()
    store.put(MODEL, [item("b", text="first"), item("b", text="second")])
    store.put(MODEL, [item("c", text="new", revision=2), item("c", text="old", revision=1)])
    assert [document.text for document in store.get(["b", "c"])] == ["second", "new"]


def test_a_vector_that_is_none_is_refused_with_the_reason_and_the_rest_goes_on(store: VectorStore) -> None:
    reasons = ["not finite", "not of unit length", "not of unit length", "has 9 numbers, not 8"]
    vectors = np.full(DIM, np.nan), np.zeros(DIM), np.ones(DIM), np.ones(DIM + 1)
    bad = [replace(item(f"bad{at}"), vector=vector.astype(np.float32)) for at, vector in enumerate(vectors)]
    report = store.put(MODEL, [*bad, item("good")])
    assert report.stored == 1
    assert all(reason in report.refused[f"bad{at}"] for at, reason in enumerate(reasons))
    assert list(store.ids()) == ["good"]


def test_search_finds_the_nearest_of_each_language_with_a_query_of_its_own(store: VectorStore) -> None:
    items = [item(f"{lang}{number}", lang) for lang in ("de", "en", "zh-Hant") for number in range(20)]
    store.put(MODEL, items)
    queries = {lang: random_vectors(3, seed) for seed, lang in enumerate(("de", "en", "zh-Hant", "fr"))}
    assert store.search(VectorQuery(MODEL, queries, 5))["en"][0].vectors is None
    for k in (1, 3, 1000):
        hits = store.search(VectorQuery(MODEL, queries, k, with_vectors=True))
        assert hits.keys() == queries.keys()
        assert [len(candidates.doc_ids) for candidates in hits.pop("fr")] == [0, 0, 0]
        for lang, of_lang in hits.items():
            for query, candidates in zip(queries[lang], of_lang, strict=True):
                scored = [
                    (-float(one.vector @ query), one.document.doc_id) for one in items if one.document.lang == lang
                ]
                expected = sorted(scored)[:k]
                assert list(candidates.doc_ids) == [doc_id for _, doc_id in expected]
                np.testing.assert_allclose(candidates.scores, [-score for score, _ in expected], atol=1e-5)
                assert candidates.vectors is not None
                np.testing.assert_allclose(candidates.vectors @ query, candidates.scores, atol=1e-5)


def test_what_was_deleted_or_dropped_since_leaves_nothing(store: VectorStore, place: str) -> None:
    store.put(MODEL, [item("a")])
    assert nearest(store) == ["a"]
    store.put(MODEL, [item("b"), item("c", "de")])
    assert (nearest(store), store.delete(["a", "nobody"]), store.delete(["a"])) == (["a", "b"], 1, 0)
    assert (nearest(store), store.count(), store.stamps(MODEL, ["a"])) == (["b"], {"de": 1, "en": 1}, {})
    with pytest.raises(KeyError):
        store.vectors(MODEL, ["a"])
    store.drop()
    with closing(StoreLocation(place, "contract").open()) as again:
        assert (again.count(), dict(again.models())) == ({}, {})


def test_filters_let_through_what_has_the_field_and_compare_as_text(store: VectorStore) -> None:
    others = [item("d"), item("e", "de", label="news"), item("f", "fr", label="news")]
    years: list[dict[str, Any]] = [
        {"label": "news", "year": 1994, "draft": True, "tags": ["x", "y"], "score": 0.5},
        {"label": "help", "year": 1994, "draft": False, "tags": []},
        {"label": "news", "year": 1995, "sent": "2024-05-31T22:10:00+02:00"},
    ]
    store.put(MODEL, [*(item(doc_id, **fields) for doc_id, fields in zip("abc", years, strict=True)), *others])
    store.publish()
    passing: list[tuple[dict[str, Any], str]] = [
        ({"label": "news"}, "ac"), ({"label": ["news", "help"]}, "abc"),
        ({"label": "news", "year": "1994"}, "a"), ({"label": "sports"}, ""), ({'odd "name"': "x"}, ""),
        ({"draft": True}, "a"), ({"draft": "true"}, "a"), ({"draft": "false"}, "b"), ({"tags": "y"}, "a"),
        ({"tags": ["y", "z"]}, "a"), ({"tags": "z"}, ""), ({"year": 1995}, "c"), ({"score": "0.5"}, "a"),
        ({"year": {"gte": 1994.5}}, "c"), ({"year": {"gte": 900, "lte": 1994}}, "ab"), ({"tags": {"lte": "x"}}, "a"),
        ({"score": {"lte": 0.5}, "year": {"gte": 5}}, "a"), ({"label": {"gte": 0}}, ""), ({"draft": {"gte": 0}}, ""),
        ({"year": {"gte": "1995"}}, "c"), ({"year": {"lte": "recent"}}, ""), ({"nothing": {"gte": 1}}, ""),
        ({"sent": {"gte": "2024-05-31", "lte": "2024-05-31"}}, "c"), ({"sent": {"lte": "2024-05-30"}}, ""),
    ]  # fmt: skip
    for filters, ids in passing:
        assert nearest(store, **filters) == sorted(found(store, "text", "en", **filters)) == list(ids), filters
    assert store.count_passing(["en", "de"], {"label": "news"}) == 3
    assert store.count_passing(["en", "de"], {"label": ["help", "news"]}) == 4
    assert store.count_passing(["en", "fr"]) == 5
    assert store.count_passing(["en"], {"label": "sports"}) == store.count_passing(["fi"]) == 0
    assert found(store, "text", "en", 1, label="news") == ["a"]
    assert isinstance(store, ChecksFields)
    store.require_fields(["label", "year"])
    for name in ("lable", 'odd "name"', "odd\x00name"):
        with pytest.raises(BadInput, match="no document has the field"):
            store.require_fields(["year", name])


def test_a_filter_lets_through_the_documents_that_have_the_value_at_its_path(store: VectorStore) -> None:
    """Through objects, nested arrays and names with dots; an object is no value."""
    fields: dict[str, dict[str, Any]] = {
        "a": {"shelf": {"row": 1}},
        "b": {"shelf": [{"row": 2}, {"row": [1, [3, True]]}]},
        "c": {"shelf.row": 1},
        "d": {"shelf": 1},
        "e": {"shelf": [[1, {"row": "2"}]], "row": 2},
        "f": {"shelf": {"x.row": 3, "x": {"row": "deep"}}},
    }
    store.put(MODEL, [item(doc_id, **of_document) for doc_id, of_document in fields.items()])
    store.publish()
    for path in ("shelf", "shelf.row", "shelf.x.row", "row", "shelf.nothing"):
        for value in ("1", "2", "3", "true", "deep", '{"row":1}'):
            expected = [doc_id for doc_id, of_document in fields.items() if value in filter_texts(of_document, path)]
            assert nearest(store, **{path: value}) == expected, (path, value)
            assert store.count_passing(["en"], {path: [value, "none"]}) == len(expected)
    assert isinstance(store, ChecksFields)
    store.require_fields(["shelf", "shelf.row", "shelf.x.row"])
    for path in ("shelf.x", "shelf.rwo", "shelf.row.x"):
        with pytest.raises(BadInput, match="no document has the field"):
            store.require_fields([path])


def test_two_writers_at_once_lose_nothing_and_keep_the_newest(store: VectorStore, place: str) -> None:
    other = StoreLocation(place, "contract").open()

    def write(target: VectorStore, revisions: range) -> None:
        for revision in revisions:
            target.put(MODEL, [item(f"d{number}", revision=revision) for number in range(5)])

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(write, store, range(0, 40, 2)), pool.submit(write, other, range(1, 40, 2))]:
            done.result()
    other.close()
    assert {document.revision for document in store.get([f"d{number}" for number in range(5)])} == {39}


def test_scan_and_ids_give_everything_once_in_order(store: VectorStore) -> None:
    items = [item(f"d{number:03d}", "de" if number % 3 else "en") for number in range(50)]
    store.put(MODEL, items[::-1])
    assert list(store.ids()) == [one.document.doc_id for one in items]
    pages = list(store.scan(MODEL, batch=7))
    assert max(map(len, pages)) == 7
    assert [one.document.doc_id for page in pages for one in page] == [one.document.doc_id for one in items]
    english = [one.document.doc_id for page in store.scan(MODEL, lang="en", batch=4) for one in page]
    assert english == [one.document.doc_id for one in items if one.document.lang == "en"]


def test_vectors_of_a_model_never_created_are_refused(store: VectorStore) -> None:
    for ask in (lambda: store.put("model-b", [item("a")]), lambda: nearest(store, "model-b")):
        with pytest.raises(ModelMismatch, match=r"no vectors of model model-b \(it holds: model-a\)"):
            ask()
    with pytest.raises(ModelMismatch, match="with 8 numbers, not 16"):
        store.create(MODEL, 16)
    store.create(MODEL, DIM)
    assert dict(store.models()) == {MODEL: DIM}


def test_two_models_live_side_by_side_until_the_text_changes(store: VectorStore) -> None:
    """A vector belongs to the text it was made from: a new text leaves no old vector behind."""
    store.create("model-b", DIM)
    items = [item("a", text="one"), item("b"), item("c", "de")]
    store.put(MODEL, items)
    store.put("model-b", [item("a", text="one", seed=5)])
    assert store.stamps(MODEL, ["a"]).keys() == store.stamps("model-b", ["a"]).keys() == {"a"}
    langs = ("de", "en")
    assert (nearest(store, MODEL, langs), nearest(store, "model-b", langs)) == (["a", "b", "c"], ["a"])
    assert (store.count(MODEL), store.count("model-b")) == ({"de": 1, "en": 2}, {"en": 1})
    assert store.vectors(MODEL, ["a"]).tobytes() == items[0].vector.tobytes()
    store.put("model-b", [item("a", text="two", seed=6)])
    assert store.stamps(MODEL, ["a"]) == {}


def test_a_name_that_no_store_can_carry_is_refused(place: str) -> None:
    for name in ("", "a/b", "../up", ".hidden", "x" * 101, "a b"):
        with pytest.raises(BadInput, match="can't be named"):
            StoreLocation(place, name).open()


def test_a_language_drawn_whole_comes_in_one_order_however_it_was_written(place: str) -> None:
    names, drawn = [f"d{number}" for number in range(20)], list[list[str]]()
    for collection, written in (("one", names), ("two", names[::-1])):
        with closing(StoreLocation(place, collection).open()) as store:
            store.create(MODEL, DIM)
            for doc_id in written:
                store.put(MODEL, [item(doc_id)])
            store.publish()
            drawn.append(store.sample(MODEL, "en", 30, seed=1))
    assert drawn[0] == drawn[1] != sorted(names)
    assert sorted(drawn[0]) == sorted(names)


WRITE = st.tuples(*map(st.sampled_from, ("abc", ["de", "en"], ["amber", "beryl"], range(4), ["put", "put", "delete"])))


@hypothesis_settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(writes=st.lists(WRITE, max_size=12), asked_after=st.integers(0, 12))
def test_any_order_of_writes_leaves_what_the_rules_say_and_the_words_of_the_texts(
    store: VectorStore, writes: list[tuple[str, str, str, int, str]], asked_after: int
) -> None:
    store.delete(list(store.ids()))
    expected: dict[str, tuple[str, str, int]] = {}
    for at, (doc_id, lang, word, revision, action) in enumerate(writes):
        if at == asked_after:
            found(store, "amber", "en")
        if action == "delete":
            store.delete([doc_id])
            expected.pop(doc_id, None)
        else:
            store.put(MODEL, [item(doc_id, lang, text=word, revision=revision)])
            if doc_id not in expected or revision >= expected[doc_id][2]:
                expected[doc_id] = (lang, word, revision)
    assert {one.doc_id: (one.lang, one.text, one.revision) for one in store.get(list(store.ids()))} == expected
    for lang, word in product(("de", "en"), ("amber", "beryl")):
        there = sorted(doc_id for doc_id, one in expected.items() if one[:2] == (lang, word))
        assert sorted(found(store, word, lang)) == there


def test_words_of_title_and_text_are_found_in_their_language_best_first(store: VectorStore) -> None:
    texts = {
        "elbe": "Am 17. August 2002 stieg die Elbe in Dresden.",
        "rhein": "Im Januar 1995 stieg der Rhein in Köln: Gift.",
        "cve": "Die Lücke CVE-2021-44228 steckt in Log4j.",
    }
    foreign = [item("en", text="gift"), item("zh", "zh-Hant", text="禮物 gift")]
    store.put(MODEL, [*(item(doc_id, "de", text=text) for doc_id, text in texts.items()), *foreign])
    assert found(store, "Dresden 2002", "de") == ["elbe"]
    assert found(store, "CVE-2021-44228", "de") == found(store, "log4j", "de") == ["cve"]
    assert sorted(found(store, "title", "de")) == ["cve", "elbe", "rhein"]
    assert found(store, "Donau", "de") == found(store, "?!", "de") == found(store, "", "de") == []
    assert found(store, "禮物", "zh-Hant") == ["zh"]
    (hits,) = store.lexical(LexicalQuery(["gift"], ["en", "fr", "de"], 5))
    assert {lang: list(dict(of_lang)) for lang, of_lang in hits.items()} == {"en": ["en"], "fr": [], "de": ["rhein"]}
    others = [item(f"other{at}", text="nothing of the kind") for at in range(20)]
    store.put(MODEL, [*(item(f"d{at}", text="river " * (1 + at % 3) + "flood") for at in range(9)), *others])
    scored = dict(store.lexical(LexicalQuery(["river"], ["en"], 5))[0]["en"])
    assert list(scored) == ["d2", "d5", "d8", "d1", "d4"]
    assert list(scored.values()) == sorted(scored.values(), reverse=True)
    assert min(scored.values()) > 0


def test_words_are_asked_for_together_with_vectors(store: VectorStore) -> None:
    places = (("a", "en", 1), ("b", "en", 2), ("c", "de", 1))
    store.put(MODEL, [item(name, lang, text=f"gift {name}", year=year) for name, lang, year in places])
    queries = dict.fromkeys(("de", "en"), random_vectors(2))
    store.create("model-b", DIM)
    store.put("model-b", [item("of another model", text="gift")])
    for filters in (None, {"year": 1}):
        wording = LexicalQuery(["gift", "nothing there", "!"], ["en", "de", "fr"], 5, filters, [MODEL])
        near, words = store.search_with_words(VectorQuery(MODEL, queries, 5, filters), wording)
        alone = store.search(VectorQuery(MODEL, queries, 5, filters))
        assert [{lang: sorted(doc_id for doc_id, _ in hits) for lang, hits in one.items()} for one in words] == [
            {"en": ["a"] if filters else ["a", "b"], "de": ["c"], "fr": []},
            *[{"en": [], "de": [], "fr": []}] * 2,
        ]
        for lang, lists in near.items():
            for one, other in zip(lists, alone[lang], strict=True):
                assert (one.doc_ids, one.scores.tolist()) == (other.doc_ids, other.scores.tolist())
