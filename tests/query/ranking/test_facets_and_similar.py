"""Facets count the best documents by fields; a document finds those that are like it, in other languages."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from encoders.document import Document, FloatArray, Passages
from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from indexer.index_sources import index
from indexer.stores.contract import MissingDocuments, StoredDocument
from indexer.stores.embedded import EmbeddedStore
from query.calibration.comparison_space import PLAIN_SPACE
from query.ranking.ranking_options import RankingOptions
from query.ranking.search_hits import Facets, Hits
from query.ranking.searcher import NoDocument, Searcher
from tests.query.conftest import copied

QUERY = "Der Imker Karl von Frisch und die Bienen im Garten"


@pytest.fixture(scope="module")
def searcher(calibrated_by_words: Settings) -> Iterator[Searcher]:
    with Searcher.open("demo", calibrated_by_words, device="cpu") as opened:
        yield opened


def facets_of(hits: Hits) -> Facets:
    assert hits.facets
    return hits.facets


def test_values_are_texts_that_a_filter_takes_and_each_counts_once_a_document() -> None:
    several: dict[str, Any] = {"x": [1, 1, "1", None, {"y": 2}]}
    fields: list[dict[str, Any]] = [several, {"x": True}, {"x": 1.5, "a": {"b": "deep"}}, {"x": "true"}, {}]
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
    facets = facets_of(hits)
    assert facets.counts["lang"] == Counter(hit.lang for hit in best)
    assert facets.counts["label"] == Counter(hit.document.fields["label"] for hit in best)
    assert (facets.counted, facets.total) == (counted, 235)
    assert best.facets is None


def test_a_value_filters_by_its_text_and_the_total_is_of_what_passes(searcher: Searcher) -> None:
    several = ["home", "nature", "digital"]
    for value in facets_of(searcher.search(QUERY, lang="de", facets=["label"])).counts["label"]:
        to, label = ["fr", "ja"], {"label": value}
        narrowed = facets_of(searcher.search(QUERY, lang="de", to=to, filters=label, facets=["label"], k=1))
        passing = searcher.store.count_passing(to, label)
        assert (narrowed.total, narrowed.counts) == (passing, {"label": {value: min(passing, 50)}})
    many = facets_of(searcher.search(QUERY, lang="de", filters={"label": several}, facets=["lang"]))
    passing = searcher.store.count_passing(list(searcher.languages), {"label": several})
    assert (many.counted, many.total) == (50, passing)


@pytest.mark.parametrize("k", [5, 60])
def test_a_search_for_subjects_counts_all_their_documents(searcher: Searcher, k: int) -> None:
    assert searcher.calibration
    counting = replace(searcher, calibration=replace(searcher.calibration, mates=True))
    hits = counting.search(QUERY, lang="de", k=k, subjects=True, facets=["lang"])
    assert any(hit.also for hit in hits)
    facets = facets_of(hits)
    assert sum(facets.counts["lang"].values()) == facets.counted == sum(1 + len(hit.also) for hit in hits)


def test_a_field_that_no_document_has_is_refused(searcher: Searcher) -> None:
    said = {"no document has the field 'lable', did you mean 'label'": ["lable"], "facets is the string 'lang'": "lang"}
    for sentence, facets in said.items():
        with pytest.raises(BadInput, match=sentence):
            searcher.search(QUERY, facets=facets)


def test_what_is_counted_through_objects_can_be_filtered_by(calibrated_by_words: Settings, tmp_path: Path) -> None:
    with Searcher.open("demo", copied(calibrated_by_words.home, tmp_path / "home"), device="cpu") as searcher:
        store, model = searcher.store, searcher.stored_model
        for at, hit in enumerate(searcher.search(QUERY, lang="de", k=60)):
            document = replace(hit.document, fields={"shelf": [{"row": at % 3}, {"row": "x"}], "year": 1990 + at})
            (vector,), (passages,) = store.vectors(model, [hit.doc_id]), store.passages(model, [hit.doc_id])
            store.put(model, [StoredDocument(document, vector, passages)])
        facets = facets_of(searcher.search(QUERY, lang="de", k=60, facets=["shelf.row"]))
        assert facets.counts == {"shelf.row": {"x": 60, "0": 20, "1": 20, "2": 20}}
        for value, count in facets.counts["shelf.row"].items():
            narrowed = searcher.search(QUERY, lang="de", filters={"shelf.row": value}, facets=["shelf.row"])
            assert facets_of(narrowed).total == count
        for name, bound, reason in (
            ("year", "abc", "year holds numbers, and 'abc' is none"),
            ("label", 3, "holds texts"),
        ):
            filters = {name: {"lte": bound}}
            assert not searcher.search(QUERY, lang="de", filters=filters)
            assert reason in searcher.why_nothing(QUERY, filters)
        with pytest.raises(BadInput, match=r"'shelf' has no text, number or boolean .* has objects, their fields"):
            searcher.search(QUERY, lang="de", facets=["shelf"])


def test_a_number_is_counted_as_the_filter_of_the_embedded_store_compares_it(tmp_path: Path) -> None:
    with closing(EmbeddedStore(tmp_path, "numbers")) as store:
        store.create("m", 2)
        nothing = Passages(np.zeros((0, 2), np.int8), np.zeros((0, 2), np.int32))
        for value in (1e-07, 52.52000659999999, 1e20, 2.0, -0.5, 3, True):
            document = Document("a", "en", "text", fields={"number": value})
            store.put("m", [StoredDocument(document, np.array([1, 0], dtype=np.float32), nothing)])
            (text,) = Facets.of([document], {"number": "number"}, 1).counts["number"]
            assert store.count_passing(["en"], {"number": [text]}) == 1


DOC = "demo:de:sourdough"


@pytest.mark.parts
def test_the_first_is_about_the_same_thing(calibrated: Settings) -> None:
    """Four documents of five on a subject of the demo find another of it first; chance finds one of twenty."""
    with Searcher.open("demo", calibrated, device="cpu") as searcher:
        stored = [one.document for page in searcher.store.scan(searcher.stored_model) for one in page]
        concepts = {document.doc_id: document.fields["concept"] for document in stored}
        right = []
        for doc_id in list(concepts)[::8]:
            hits = searcher.similar(doc_id, k=5)
            assert doc_id.split(":")[1] == hits.lang not in {hit.lang for hit in hits}
            right.append(concepts[doc_id] == concepts[hits[0].doc_id])
        assert np.mean(right) > 0.8


@pytest.mark.parametrize("calibration", ["", "none"], ids=["calibrated", "plain"])
def test_documents_are_ranked_by_cosines_without_means(calibrated_by_words: Settings, calibration: str) -> None:
    """Against plain numpy, without what mates add."""
    ranking = RankingOptions(calibration=calibration)
    with Searcher.open("demo", calibrated_by_words, device="cpu", ranking=ranking) as searcher:
        plain = searcher.calibration and replace(searcher.calibration, mates=False, space=PLAIN_SPACE)
        stored = {one.document.doc_id: one for page in searcher.store.scan(searcher.stored_model) for one in page}
        hits = replace(searcher, calibration=plain).similar(DOC, k=20)

    def corrected(one: StoredDocument) -> FloatArray:
        vector = one.vector - plain.languages[one.document.lang].means["document"] if plain else one.vector
        return vector / np.linalg.norm(vector)

    query = stored[DOC]
    cosines = {
        doc_id: float(corrected(one) @ corrected(query)) for doc_id, one in stored.items() if one.document.lang != "de"
    }
    assert [hit.score for hit in hits] == pytest.approx(sorted(cosines.values(), reverse=True)[:20], abs=1e-5)
    assert [hit.score for hit in hits] == pytest.approx([cosines[hit.doc_id] for hit in hits], abs=1e-5)
    for hit in hits:
        assert hit.cosine == pytest.approx(float(stored[hit.doc_id].vector @ query.vector), abs=1e-5)
        assert hit.passage
        assert hit.passage.text in hit.document.content


def test_languages_and_fields_bound_what_is_found_and_a_document_never_finds_itself(searcher: Searcher) -> None:
    assert {hit.lang for hit in searcher.similar(DOC, to=["ja", "ar"], k=30)} == {"ja", "ar"}
    own = [hit.doc_id for hit in searcher.similar(DOC, to=["de"], k=100)]
    assert len(own) == searcher.languages["de"] - 1
    assert DOC not in own
    assert {hit.document.fields["label"] for hit in searcher.similar(DOC, filters={"label": "home"})} == {"home"}
    with pytest.raises(BadInput, match="no document has the field 'nothing'"):
        searcher.similar(DOC, filters={"nothing": "home"})
    with pytest.raises(BadInput, match="the field 'lang'; choose the documents' languages by --to"):
        searcher.similar(DOC, filters={"lang": "de"})
    with pytest.raises(BadInput, match="k is 0"):
        searcher.similar(DOC, k=0)
    for mates in (True, False):
        assert searcher.calibration
        opened = replace(searcher, calibration=replace(searcher.calibration, mates=mates))
        five, twenty = (opened.similar(DOC, k=k) for k in (5, 20))
        assert [hit.score for hit in twenty] == sorted((hit.score for hit in twenty), reverse=True)
        assert [hit.doc_id for hit in five] == [hit.doc_id for hit in twenty[:5]]


def test_a_collection_of_one_language_has_no_other(tmp_path: Path, word_model: ModelFolder) -> None:
    settings = Settings.read(home=tmp_path)
    records = [json.dumps({"id": str(at), "lang": "de", "text": f"Bienen im Garten {at}"}) for at in range(3)]
    (tmp_path / "docs.jsonl").write_text("\n".join(records), encoding="utf-8")
    index([str(tmp_path / "docs.jsonl")], "one", settings=settings, encoder=str(word_model.path), device="cpu")
    with Searcher.open("one", settings, device="cpu") as searcher:
        with pytest.raises(BadInput, match="documents in de alone; ask for similar documents in de"):
            searcher.similar("0")
        assert {hit.doc_id for hit in searcher.similar("0", to=["de"], k=2)} == {"1", "2"}


def test_a_document_without_a_vector_has_no_like(searcher: Searcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the only encoder that knows it has no weight, or a migration's refused it; to search again won't help."""
    read = searcher.store.vectors
    monkeypatch.setattr(searcher.store, "vectors", lambda model, ids: read(model, ids) * np.float32(list(ids) != [DOC]))
    with pytest.raises(BadInput, match="the encoder knew no word of this document"):
        searcher.similar(DOC)
    monkeypatch.setattr(searcher.store, "vectors", Mock(side_effect=MissingDocuments([DOC], {})))
    with pytest.raises(NoDocument, match="no document of this id"):
        searcher.similar(DOC)


def test_documents_deleted_meanwhile_are_left_out(calibrated_by_words: Settings, tmp_path: Path) -> None:
    settings = copied(calibrated_by_words.home, tmp_path)
    with Searcher.open("demo", settings, device="cpu") as searcher:
        first = searcher.similar(DOC, k=3)[0].doc_id
        with Searcher.open("demo", settings, device="cpu") as other:
            other.store.delete([first, "demo:fr:sourdough"])
        assert first not in {hit.doc_id for hit in searcher.similar(DOC, k=235)}
        with pytest.raises(NoDocument):
            searcher.similar("demo:fr:sourdough")


def test_a_migrated_collection_compares_in_the_space_of_the_new_encoder(migrated_by_words: Settings) -> None:
    with Searcher.open("demo", migrated_by_words, device="cpu") as searcher:
        hits = searcher.similar(DOC, k=30)
        assert len(hits) == 30
        assert "de" not in {hit.lang for hit in hits}
        assert all(-1.001 <= hit.cosine <= 1.001 for hit in hits)
