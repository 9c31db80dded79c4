"""Facets count the best documents, by language and by the values of fields."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from encoders.document import Document, Passages
from encoders.errors import BadInput
from indexer.collection.settings import Settings
from indexer.stores.contract import StoredDocument
from indexer.stores.embedded import EmbeddedStore
from query.ranking.search_hits import Facets
from query.ranking.searcher import Searcher
from tests.query.conftest import copied

QUERY = "Der Imker Karl von Frisch und die Bienen im Garten"


@pytest.fixture(scope="module")
def searcher(calibrated_by_words: Settings) -> Iterator[Searcher]:
    with Searcher.open("demo", calibrated_by_words, device="cpu") as opened:
        yield opened


def test_values_are_texts_that_a_filter_takes_and_each_counts_once_a_document() -> None:
    fields: list[dict[str, Any]] = [
        {"x": [1, 1, "1", None, {"y": 2}]},
        {"x": True},
        {"x": 1.5, "a": {"b": "deep"}},
        {"x": "true"},
        {},
    ]
    documents = [Document(str(at), "de", "text", fields=of_one) for at, of_one in enumerate(fields)]
    facets = Facets.of(documents, {name: name for name in ("x", "a.b", "lang", "none")}, 9)
    assert facets.counts == {"x": {"true": 2, "1": 1, "1.5": 1}, "a.b": {"deep": 1}, "lang": {"de": 5}, "none": {}}
    assert list(facets.counts["x"]) == ["true", "1", "1.5"]
    assert (facets.counted, facets.total) == (5, 9)


@pytest.mark.parametrize(("k", "counted"), [(3, 50), (50, 50), (80, 80), (1_000, 235)])
def test_the_first_fifty_or_k_are_counted_and_the_hits_stay(searcher: Searcher, k: int, counted: int) -> None:
    hits = searcher.search(QUERY, lang="de", k=k, facets=["lang", "label"])
    assert list(hits) == list(searcher.search(QUERY, lang="de", k=k))
    best = searcher.search(QUERY, lang="de", k=counted)
    assert hits.facets
    assert hits.facets.counts["lang"] == Counter(hit.lang for hit in best)
    assert hits.facets.counts["label"] == Counter(hit.document.fields["label"] for hit in best)
    assert (hits.facets.counted, hits.facets.total) == (counted, 235)
    assert best.facets is None


def test_a_value_filters_by_its_text_and_the_total_is_of_what_passes(searcher: Searcher) -> None:
    for value in searcher.search(QUERY, lang="de", facets=["label"]).facets.counts["label"]:  # type: ignore[union-attr]
        narrowed = searcher.search(QUERY, lang="de", to=["fr", "ja"], filters={"label": value}, facets=["label"], k=1)
        assert narrowed.facets
        passing = searcher.store.count_passing(["fr", "ja"], {"label": value})
        assert narrowed.facets.total == passing
        assert narrowed.facets.counts == {"label": {value: min(passing, 50)}}
    many = searcher.search(QUERY, lang="de", filters={"label": ["home", "nature", "digital"]}, facets=["lang"])
    assert many.facets
    assert many.facets.counted == 50
    assert many.facets.total == searcher.store.count_passing(
        list(searcher.languages), {"label": ["home", "nature", "digital"]}
    )


@pytest.mark.parametrize("k", [5, 60])
def test_a_search_for_subjects_counts_all_their_documents(searcher: Searcher, k: int) -> None:
    assert searcher.calibration
    counting = replace(searcher, calibration=replace(searcher.calibration, mates=True))
    hits = counting.search(QUERY, lang="de", k=k, subjects=True, facets=["lang"])
    assert any(hit.also for hit in hits)
    assert hits.facets
    assert hits.facets.counted == sum(1 + len(hit.also) for hit in hits)
    assert sum(hits.facets.counts["lang"].values()) == hits.facets.counted


def test_a_field_that_no_document_has_is_refused(searcher: Searcher) -> None:
    with pytest.raises(BadInput, match=r"no document has the field 'lable', did you mean 'label'"):
        searcher.search(QUERY, facets=["lable"])
    with pytest.raises(BadInput, match="facets is the string 'lang'; give a list of fields"):
        searcher.search(QUERY, facets="lang")


def test_what_is_counted_at_a_path_through_objects_can_be_filtered_by(
    calibrated_by_words: Settings, tmp_path: Path
) -> None:
    settings = copied(calibrated_by_words.home, tmp_path / "home")
    with Searcher.open("demo", settings, device="cpu") as searcher:
        hits = searcher.search(QUERY, lang="de", k=60)
        for at, hit in enumerate(hits):
            document = replace(hit.document, fields={"shelf": [{"row": at % 3}, {"row": "x"}]})
            model = searcher.stored_model
            (vector,) = searcher.store.vectors(model, [hit.doc_id])
            (passages,) = searcher.store.passages(model, [hit.doc_id])
            searcher.store.put(model, [StoredDocument(document, vector, passages)])
        facets = searcher.search(QUERY, lang="de", k=60, facets=["shelf.row"]).facets
        assert facets
        assert facets.counts == {"shelf.row": {"x": 60, "0": 20, "1": 20, "2": 20}}
        for value, count in facets.counts["shelf.row"].items():
            narrowed = searcher.search(QUERY, lang="de", filters={"shelf.row": value}, facets=["shelf.row"])
            assert narrowed.facets
            assert narrowed.facets.total == count
        with pytest.raises(
            BadInput, match=r"'shelf' has no text, number or boolean in any document; if it has objects, their fields"
        ):
            searcher.search(QUERY, lang="de", facets=["shelf"])


@pytest.mark.parametrize("value", [1e-07, 52.52000659999999, 1e20, 2.0, -0.5, 3, True])
def test_a_number_is_counted_as_the_filter_of_the_embedded_store_compares_it(tmp_path: Path, value: float) -> None:
    store = EmbeddedStore(tmp_path, "numbers")
    store.create("m", 2)
    document = Document("a", "en", "text", fields={"number": value})
    nothing = Passages(np.zeros((0, 2), np.int8), np.zeros((0, 2), np.int32))
    store.put("m", [StoredDocument(document, np.array([1, 0], dtype=np.float32), nothing)])
    (text,) = Facets.of([document], {"number": "number"}, 1).counts["number"]
    assert store.count_passing(["en"], {"number": [text]}) == 1
