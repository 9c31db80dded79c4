"""The contract of a vector store: every implementation passes this suite unchanged."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from encoders.document import Document, FloatArray, Passages, int8_rows, unit_rows
from encoders.errors import BadInput, ModelMismatch
from indexer.cluster.source_values import filter_texts
from indexer.collection.store_location import StoreLocation
from indexer.stores import embedded, embedded_tables
from indexer.stores.contract import (
    ChecksFields,
    Filters,
    LexicalQuery,
    MissingDocuments,
    Stamp,
    StoredDocument,
    VectorQuery,
    VectorStore,
)
from indexer.stores.embedded import EmbeddedStore

MODEL, DIM = "model-a", 8


@pytest.fixture(params=["embedded", pytest.param("elastic", marks=pytest.mark.elastic)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of a place for stores of each kind."""
    if request.param == "embedded":
        return tmp_path.as_uri()
    url: str = request.getfixturevalue("elastic_url")
    return url


@pytest.fixture
def store(place: str) -> Iterator[VectorStore]:
    """An empty store of each kind."""
    opened = StoreLocation(place, "contract").open()
    opened.create(MODEL, DIM)
    yield opened
    opened.close()


def random_vectors(count: int, seed: int = 0) -> FloatArray:
    return unit_rows(np.random.default_rng(seed).standard_normal((count, DIM)).astype(np.float32))


def item(
    doc_id: str, lang: str = "en", *, text: str = "text", revision: int = 0, seed: int | None = None, **fields: object
) -> StoredDocument:
    vector = random_vectors(1, abs(hash(doc_id)) % 2**31 if seed is None else seed)[0]
    passages = Passages(int8_rows(random_vectors(2, 7)), np.array([[0, 2], [1, 4]], dtype=np.int32))
    return StoredDocument(Document(doc_id, lang, text, "title", fields, revision), vector, passages, (True, False))


def test_what_is_put_comes_back_as_it_was(store: VectorStore) -> None:
    given_item = item("a/b c:d%ü", "de", text="Grüße 洪水 \U0001f30a", label="news", number=3)
    assert store.put(MODEL, [given_item]).stored == 1
    assert store.get(["a/b c:d%ü"]) == [given_item.document]
    assert store.vectors(MODEL, ["a/b c:d%ü"]).tobytes() == given_item.vector.tobytes()
    passages = store.passages(MODEL, ["a/b c:d%ü"])[0]
    assert passages.vectors.tobytes() == given_item.passages.vectors.tobytes()
    assert passages.offsets.tolist() == [[0, 2], [1, 4]]
    scanned = [one for page in store.scan(MODEL) for one in page]
    assert [one.document for one in scanned] == [given_item.document]
    assert scanned[0].known == (True, False)
    assert scanned[0].vector.tobytes() == given_item.vector.tobytes()


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
    with pytest.raises(MissingDocuments):
        read(MODEL, "b", "a")
    assert len(read(MODEL, "b")) == 1
    assert read(MODEL, "c") == [third.passages.vectors.tobytes()]


def test_the_cache_of_passages_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    each = item("a").passages.vectors.nbytes + embedded._BESIDE_VECTORS
    monkeypatch.setattr(embedded, "_PASSAGES_BYTES", 3 * each)
    with closing(EmbeddedStore(tmp_path, "cached")) as store:
        store.create(MODEL, DIM)
        store.put(MODEL, [item(name) for name in "abcdefg"])
        cache = store._passages
        for doc_ids, cached in ("ab", "ab"), ("abc", "abc"), ("de", "de"), ("abcdefg", "de"), ("e", "de"):
            assert len(store.passages(MODEL, list(doc_ids))) == len(doc_ids)
            assert sorted(doc_id for _, doc_id in cache._values) == list(cached)
        assert cache._size == 2 * each
    assert not cache._values


def test_filters_are_evaluated_once_until_the_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated: list[Filters] = []

    def matching(connection: sa.Connection, filters: Filters) -> dict[int, str]:
        evaluated.append(filters)
        return evaluate(connection, filters)

    evaluate = embedded_tables.matching
    monkeypatch.setattr(embedded_tables, "matching", matching)
    with closing(EmbeddedStore(tmp_path, "filtered")) as store, closing(EmbeddedStore(tmp_path, "filtered")) as second:
        store.create(MODEL, DIM)
        store.put(MODEL, [item("a", text="flood", label="news")])

        def found() -> list[object]:
            query = VectorQuery(MODEL, {"en": random_vectors(1, 1)}, 5, {"label": "news"})
            (nearest,) = store.search(query)["en"]
            (hits,) = store.lexical(LexicalQuery(["flood"], ["en"], 5, {"label": "news"}))
            return [sorted(nearest.doc_ids), sorted(dict(hits["en"])), store.count_passing(["en"], {"label": "news"})]

        assert found() == [["a"], ["a"], 1]
        assert len(evaluated) == 1
        second.put(MODEL, [item("b", text="flood", label="news")])
        assert found() == [["a", "b"], ["a", "b"], 2]
        assert len(evaluated) == 2
        for number in range(40):
            store.count_passing(["en"], {"label": str(number)})
            assert len(store._matches._values) <= 16


def test_putting_twice_changes_nothing(store: VectorStore) -> None:
    items = [item("a"), item("b", "de")]
    store.put(MODEL, items)
    store.put(MODEL, items)
    assert store.count() == {"de": 1, "en": 1}


def test_a_newer_revision_replaces_and_an_older_one_never_does(store: VectorStore) -> None:
    store.put(MODEL, [item("a", revision=5, text="five")])
    report = store.put(MODEL, [item("a", revision=4, text="four")])
    assert (report.stored, list(report.older)) == (0, ["a"])
    assert store.get(["a"])[0].text == "five"
    assert store.put(MODEL, [item("a", "de", revision=6, text="six")]).stored == 1
    assert (store.get(["a"])[0].text, store.count()) == ("six", {"de": 1})


def test_an_equal_revision_replaces_since_files_without_revisions_change_too(store: VectorStore) -> None:
    store.put(MODEL, [item("a", text="before")])
    assert store.put(MODEL, [item("a", text="after", seed=3)]).stored == 1
    assert store.get(["a"])[0].text == "after"
    assert store.vectors(MODEL, ["a"]).tobytes() == item("a", seed=3).vector.tobytes()


def test_of_the_same_id_twice_in_one_put_the_later_one_wins_unless_it_is_older(store: VectorStore) -> None:
    store.put(MODEL, [item("a", text="first"), item("a", text="second")])
    store.put(MODEL, [item("b", text="new", revision=2), item("b", text="old", revision=1)])
    assert [document.text for document in store.get(["a", "b"])] == ["second", "new"]


def test_stamps_tell_what_need_not_be_encoded_again(store: VectorStore) -> None:
    stored = item("a", revision=3)
    store.put(MODEL, [stored])
    stamps = store.stamps(MODEL, ["a", "nobody"])
    assert set(stamps) == {"a"}
    assert stamps["a"] == Stamp.of(stored.document)
    assert stamps["a"] != Stamp.of(item("a", revision=3, label="other").document)


@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        (np.full(DIM, np.nan, dtype=np.float32), "not finite"),
        (np.zeros(DIM, dtype=np.float32), "not of unit length"),
        (np.ones(DIM, dtype=np.float32), "not of unit length"),
        (np.ones(DIM + 1, dtype=np.float32), "has 9 numbers, not 8"),
    ],
)
def test_a_vector_that_is_none_is_refused_with_the_reason_and_the_rest_goes_on(
    store: VectorStore, vector: FloatArray, reason: str
) -> None:
    good = item("good")
    bad = StoredDocument(Document("bad", "en", "x"), vector, good.passages)
    report = store.put(MODEL, [bad, good])
    assert report.stored == 1
    assert reason in report.refused["bad"]
    assert list(store.ids()) == ["good"]


def _brute_force(items: list[StoredDocument], lang: str, query: FloatArray, k: int) -> list[tuple[float, str]]:
    scored = [(-float(one.vector @ query), one.document.doc_id) for one in items if one.document.lang == lang]
    return sorted(scored)[:k]


@pytest.mark.parametrize("k", [1, 3, 1000])
def test_search_finds_the_nearest_of_each_language_with_a_query_of_its_own(store: VectorStore, k: int) -> None:
    items = [item(f"{lang}{number}", lang) for lang in ("de", "en", "zh-Hant") for number in range(40)]
    store.put(MODEL, items)
    queries = {lang: random_vectors(3, seed) for seed, lang in enumerate(("de", "en", "zh-Hant", "fr"))}
    found = store.search(VectorQuery(MODEL, queries, k, with_vectors=True))
    assert found.keys() == queries.keys()
    assert [len(candidates.doc_ids) for candidates in found["fr"]] == [0, 0, 0]
    for lang in ("de", "en", "zh-Hant"):
        for query, candidates in zip(queries[lang], found[lang], strict=True):
            expected = _brute_force(items, lang, query, k)
            assert list(candidates.doc_ids) == [doc_id for _, doc_id in expected]
            np.testing.assert_allclose(candidates.scores, [-score for score, _ in expected], atol=1e-5)
            assert candidates.vectors is not None
            np.testing.assert_allclose(candidates.vectors @ query, candidates.scores, atol=1e-5)


def test_search_without_vectors_brings_none(store: VectorStore) -> None:
    store.put(MODEL, [item("a")])
    assert store.search(VectorQuery(MODEL, {"en": random_vectors(1)}, 5))["en"][0].vectors is None


def test_search_sees_what_was_put_and_deleted_since(store: VectorStore) -> None:
    query = {"en": random_vectors(1)}
    store.put(MODEL, [item("a")])
    assert list(store.search(VectorQuery(MODEL, query, 5))["en"][0].doc_ids) == ["a"]
    store.put(MODEL, [item("b")])
    assert sorted(store.search(VectorQuery(MODEL, query, 5))["en"][0].doc_ids) == ["a", "b"]
    store.delete(["a"])
    assert list(store.search(VectorQuery(MODEL, query, 5))["en"][0].doc_ids) == ["b"]


def test_filters_let_through_what_has_the_field(store: VectorStore) -> None:
    store.put(
        MODEL,
        [
            item("a", label="news", year=1994),
            item("b", label="help", year=1994),
            item("c", label="news", year=1995),
            item("d"),
        ],
    )
    query = {"en": random_vectors(1)}

    def found(**filters: object) -> list[str]:
        return sorted(store.search(VectorQuery(MODEL, query, 10, filters))["en"][0].doc_ids)

    assert found(label="news") == ["a", "c"]
    assert found(label=["news", "help"]) == ["a", "b", "c"]
    assert found(label="news", year="1994") == ["a"]
    assert found(label="sports") == []
    assert found(**{'odd "name"': "x"}) == []


def test_a_field_that_no_document_has_is_refused_by_name(store: VectorStore) -> None:
    store.put(MODEL, [item("a", label="news", year=1994), item("b")])
    store.publish()
    assert isinstance(store, ChecksFields)
    store.require_fields(["label", "year"])
    for name in ("lable", 'odd "name"', "odd\x00name"):
        with pytest.raises(BadInput, match="no document has the field"):
            store.require_fields(["year", name])


def test_documents_that_pass_filters_are_counted_by_language(store: VectorStore) -> None:
    store.put(MODEL, [item("a", label="news"), item("b", "de", label="news"), item("c", "fr", label="news"), item("d")])
    assert store.count_passing(["en", "de"], {"label": "news"}) == 2
    assert store.count_passing(["en", "de"], {"label": ["help", "news"]}) == 2
    assert store.count_passing(["en", "fr"]) == 3
    assert store.count_passing(["en"], {"label": "help"}) == store.count_passing(["fi"]) == 0


def test_filters_compare_as_text_and_look_into_lists(store: VectorStore) -> None:
    store.put(MODEL, [item("a", draft=True, tags=["x", "y"], year=1994, score=0.5), item("b", draft=False, tags=[])])
    query = {"en": random_vectors(1)}

    def found(**filters: object) -> list[str]:
        return sorted(store.search(VectorQuery(MODEL, query, 10, filters))["en"][0].doc_ids)

    assert (
        found(draft=True) == found(draft="true") == found(tags="y") == found(year=1994) == found(score="0.5") == ["a"]
    )
    assert found(draft="false") == ["b"]
    assert found(tags=["y", "z"]) == ["a"]
    assert found(tags="z") == []


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
    query = {"en": random_vectors(1)}
    for path in ("shelf", "shelf.row", "shelf.x.row", "row", "shelf.nothing"):
        for value in ("1", "2", "3", "true", "deep", '{"row":1}'):
            hits = store.search(VectorQuery(MODEL, query, 10, {path: value}))["en"][0].doc_ids
            expected = [doc_id for doc_id, of_document in fields.items() if value in filter_texts(of_document, path)]
            assert sorted(hits) == expected, (path, value)
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


def test_delete_leaves_nothing_of_a_document(store: VectorStore) -> None:
    store.put(MODEL, [item("a"), item("b", "de")])
    assert store.delete(["a", "nobody"]) == 1
    assert store.delete(["a"]) == 0
    assert store.count() == {"de": 1}
    assert store.stamps(MODEL, ["a"]) == {}
    with pytest.raises(KeyError):
        store.vectors(MODEL, ["a"])


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
    for ask in (
        lambda: store.put("model-b", [item("a")]),
        lambda: store.search(VectorQuery("model-b", {"en": random_vectors(1)}, 5)),
    ):
        with pytest.raises(ModelMismatch, match=r"no vectors of model model-b \(it holds: model-a\)"):
            ask()
    with pytest.raises(ModelMismatch, match="with 8 numbers, not 16"):
        store.create(MODEL, 16)
    store.create(MODEL, DIM)
    assert dict(store.models()) == {MODEL: DIM}


def test_two_models_live_side_by_side_until_the_text_changes(store: VectorStore) -> None:
    """A vector belongs to the text it was made from: a new text leaves no old vector behind."""
    store.create("model-b", DIM)
    store.put(MODEL, [item("a", text="one")])
    store.put("model-b", [item("a", text="one", seed=5)])
    assert store.stamps(MODEL, ["a"]).keys() == store.stamps("model-b", ["a"]).keys() == {"a"}
    store.put("model-b", [item("a", text="two", seed=6)])
    assert store.stamps(MODEL, ["a"]) == {}


def test_drop_leaves_nothing(store: VectorStore, place: str) -> None:
    store.put(MODEL, [item("a")])
    store.drop()
    again = StoreLocation(place, "contract").open()
    assert again.count() == {}
    assert dict(again.models()) == {}
    again.close()


@pytest.mark.parametrize("name", ["", "a/b", "../up", ".hidden", "x" * 101, "a b"])
def test_a_name_that_no_store_can_carry_is_refused(name: str, place: str) -> None:
    with pytest.raises(BadInput, match="can't be named"):
        StoreLocation(place, name).open()


@hypothesis_settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    writes=st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.sampled_from(["put", "put", "delete"])), max_size=12
    )
)
def test_any_order_of_writes_leaves_what_the_rules_say(store: VectorStore, writes: list[tuple[str, int, str]]) -> None:
    store.delete(list(store.ids()))
    expected: dict[str, int] = {}
    for at, (doc_id, revision, action) in enumerate(writes):
        if action == "delete":
            store.delete([doc_id])
            expected.pop(doc_id, None)
        else:
            store.put(MODEL, [item(doc_id, revision=revision, text=str(at))])
            expected[doc_id] = max(expected.get(doc_id, 0), revision)
    assert {document.doc_id: document.revision for document in store.get(list(store.ids()))} == expected


def found(store: VectorStore, text: str, lang: str, k: int = 10, **filters: object) -> list[str]:
    return [doc_id for doc_id, _ in store.lexical(LexicalQuery([text], [lang], k, filters or None))[0][lang]]


def test_names_and_numbers_are_found_by_their_words_in_title_and_text(store: VectorStore) -> None:
    texts = {
        "elbe": "Am 17. August 2002 stieg die Elbe in Dresden.",
        "rhein": "Im Januar 1995 stieg der Rhein in Köln.",
        "cve": "Die Lücke CVE-2021-44228 steckt in Log4j.",
    }
    store.put(MODEL, [item(doc_id, "de", text=text) for doc_id, text in texts.items()])
    assert found(store, "Dresden 2002", "de") == ["elbe"]
    assert found(store, "CVE-2021-44228", "de") == ["cve"]
    assert found(store, "log4j", "de") == ["cve"]
    assert sorted(found(store, "title", "de")) == ["cve", "elbe", "rhein"]
    assert found(store, "Donau", "de") == []
    assert found(store, "?!", "de") == found(store, "", "de") == []


def test_words_are_found_with_scores_that_fall_and_at_most_k(store: VectorStore) -> None:
    store.put(MODEL, [item(f"d{at}", text="river " * (1 + at % 3) + "flood") for at in range(9)] + _others(20))
    scored = store.lexical(LexicalQuery(["river"], ["en"], 5))[0]["en"]
    assert [doc_id for doc_id, _ in scored] == ["d2", "d5", "d8", "d1", "d4"]
    scores = [score for _, score in scored]
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] > 0


def _others(count: int, lang: str = "en") -> list[StoredDocument]:
    return [item(f"other{at}", lang, text="nothing of the kind") for at in range(count)]


def test_words_of_one_language_are_not_found_in_another(store: VectorStore) -> None:
    store.put(
        MODEL, [item("a", "de", text="Gift"), item("b", "en", text="gift"), item("c", "zh-Hant", text="禮物 gift")]
    )
    assert found(store, "gift", "de") == ["a"]
    assert found(store, "gift", "en") == ["b"]
    assert found(store, "禮物", "zh-Hant") == ["c"]
    assert found(store, "gift", "fr") == []
    together = store.lexical(LexicalQuery(["gift"], ["en", "fr", "de"], 5))[0]
    assert {lang: [doc_id for doc_id, _ in hits] for lang, hits in together.items()} == {
        "en": ["b"],
        "fr": [],
        "de": ["a"],
    }


def test_words_are_those_of_what_was_put_last(store: VectorStore) -> None:
    store.put(MODEL, [item("a", text="amber"), item("b", text="beryl", revision=2)])
    assert (found(store, "amber", "en"), found(store, "beryl", "en")) == (["a"], ["b"])
    store.put(MODEL, [item("a", text="agate"), item("b", text="basalt", revision=1), item("c", text="coral")])
    assert found(store, "amber basalt", "en") == []
    assert sorted(found(store, "agate beryl coral", "en")) == ["a", "b", "c"]
    store.put(MODEL, [item("a", "de", text="agate")])
    assert (found(store, "agate", "en"), found(store, "agate", "de")) == ([], ["a"])
    store.delete(["a", "c", "nobody"])
    assert found(store, "agate", "de") == found(store, "coral", "en") == []
    store.put(MODEL, [item("d", text="diamond")])
    assert found(store, "diamond coral agate", "en") == ["d"]


def test_words_are_found_among_documents_that_have_a_field(store: VectorStore) -> None:
    store.put(MODEL, [item(f"d{at}", text="river", label="news" if at % 2 else "help") for at in range(6)])
    assert found(store, "river", "en", 2, label="news") == ["d1", "d3"]
    assert found(store, "river", "en", 9, label=["news", "help"]) == [f"d{at}" for at in range(6)]
    assert found(store, "river", "en", 9, label="sports") == []


@hypothesis_settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    writes=st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.sampled_from(["de", "en"]),
            st.sampled_from(["amber", "beryl"]),
            st.sampled_from(["put", "put", "delete"]),
        ),
        max_size=12,
    ),
    asked_after=st.integers(0, 12),
)
def test_any_order_of_writes_leaves_the_words_of_the_texts(
    store: VectorStore, writes: list[tuple[str, str, str, str]], asked_after: int
) -> None:
    store.delete(list(store.ids()))
    expected: dict[str, tuple[str, str]] = {}
    for at, (doc_id, lang, word, action) in enumerate(writes):
        if at == asked_after:
            store.lexical(LexicalQuery(["amber"], ["en"], 1))
        if action == "delete":
            store.delete([doc_id])
            expected.pop(doc_id, None)
        else:
            store.put(MODEL, [item(doc_id, lang, text=word)])
            expected[doc_id] = (lang, word)
    for lang in ("de", "en"):
        for word in ("amber", "beryl"):
            there = sorted(doc_id for doc_id, stored in expected.items() if stored == (lang, word))
            assert sorted(found(store, word, lang)) == there


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
        scores = {doc_id: score for hits in words[0].values() for doc_id, score in hits}
        (by_words,) = store.lexical(LexicalQuery(["gift"], wording.langs, wording.k, filters))
        everything = {doc_id: score for hits in by_words.values() for doc_id, score in hits}
        assert scores == {doc_id: everything[doc_id] for doc_id in scores}
        for lang, lists in near.items():
            for one, other in zip(lists, alone[lang], strict=True):
                assert one.doc_ids == other.doc_ids
                assert one.scores.tolist() == other.scores.tolist()


def test_vectors_of_another_model_stand_beside_the_first(store: VectorStore) -> None:
    store.create("model-b", DIM)
    items = [item(name, lang) for name, lang in (("a", "en"), ("b", "en"), ("c", "de"))]
    store.put(MODEL, items)
    query = dict.fromkeys(("de", "en"), random_vectors(1))
    store.put("model-b", items[:1])

    def found(model: str) -> list[str]:
        lists = store.search(VectorQuery(model, query, 5)).values()
        return sorted(doc_id for (one,) in lists for doc_id in one.doc_ids)

    assert found(MODEL) == ["a", "b", "c"]
    assert found("model-b") == ["a"]
    assert store.count("model-b") == {"en": 1}
    assert store.count(MODEL) == {"de": 1, "en": 2}
    assert store.vectors(MODEL, ["a"]).tobytes() == items[0].vector.tobytes()
