"""A document finds the documents that are like it, in other languages, by the stored vectors."""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from encoders.document import Document, FloatArray
from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from indexer.index_sources import index
from indexer.stores.contract import MissingDocuments, StoredDocument
from query.calibration.comparison_space import PLAIN_SPACE
from query.ranking.ranking_options import RankingOptions
from query.ranking.searcher import NoDocument, Searcher

DOC = "demo:de:sourdough"


@pytest.fixture(scope="module")
def searcher(calibrated_by_words: Settings) -> Iterator[Searcher]:
    with Searcher.open("demo", calibrated_by_words, device="cpu") as opened:
        yield opened


@pytest.mark.parts
def test_the_first_is_about_the_same_thing(calibrated: Settings) -> None:
    """Four documents of five on a subject of the demo find another of it first; chance finds one of twenty."""
    with Searcher.open("demo", calibrated, device="cpu") as searcher:
        concepts = {document.doc_id: document.fields["concept"] for document in _documents(searcher)}
        right = []
        for doc_id in list(concepts)[::8]:
            hits = searcher.similar(doc_id, k=5)
            assert doc_id.split(":")[1] == hits.lang not in {hit.lang for hit in hits}
            right.append(concepts[doc_id] == concepts[hits[0].doc_id])
        assert np.mean(right) > 0.8


def _documents(searcher: Searcher) -> list[Document]:
    return [one.document for page in searcher.store.scan(searcher.stored_model) for one in page]


def without_mates(searcher: Searcher) -> Searcher:
    """The same documents, ranked by what they are compared by alone."""
    calibration = searcher.calibration and replace(searcher.calibration, mates=False, space=PLAIN_SPACE)
    return replace(searcher, calibration=calibration)


@pytest.mark.parametrize("calibration", ["", "none"], ids=["calibrated", "plain"])
def test_documents_are_ranked_by_cosines_without_the_languages_means(
    calibrated_by_words: Settings, calibration: str
) -> None:
    """Against plain numpy, without what mates add."""
    ranking = RankingOptions(calibration=calibration)
    with without_mates(Searcher.open("demo", calibrated_by_words, device="cpu", ranking=ranking)) as searcher:
        stored = [one for page in searcher.store.scan(searcher.stored_model) for one in page]
        statistics = searcher.calibration.languages if searcher.calibration else {}

        def corrected(one: StoredDocument) -> FloatArray:
            lang = one.document.lang
            vector = one.vector - statistics[lang].means["document"] if statistics else one.vector
            return vector / np.linalg.norm(vector)

        query = next(one for one in stored if one.document.doc_id == DOC)
        cosines = {
            one.document.doc_id: float(corrected(one) @ corrected(query)) for one in stored if one.document.lang != "de"
        }
        hits = searcher.similar(DOC, k=20)
    assert [hit.score for hit in hits] == pytest.approx(sorted(cosines.values(), reverse=True)[:20], abs=1e-5)
    assert [hit.score for hit in hits] == pytest.approx([cosines[hit.doc_id] for hit in hits], abs=1e-5)
    for hit in hits:
        raw = next(one.vector for one in stored if one.document.doc_id == hit.doc_id)
        assert hit.cosine == pytest.approx(float(raw @ query.vector), abs=1e-5)
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
    for mates in (True, False):
        assert searcher.calibration
        opened = replace(searcher, calibration=replace(searcher.calibration, mates=mates))
        five, twenty = (opened.similar(DOC, k=k) for k in (5, 20))
        assert [hit.score for hit in twenty] == sorted((hit.score for hit in twenty), reverse=True)
        assert [hit.doc_id for hit in five] == [hit.doc_id for hit in twenty[:5]]


def test_what_can_not_be_compared_is_refused(searcher: Searcher) -> None:
    with pytest.raises(NoDocument, match="collection demo has no document of this id"):
        searcher.similar("nothing")
    with pytest.raises(BadInput, match="no documents in 'fi'"):
        searcher.similar(DOC, to=["fi"])
    with pytest.raises(BadInput, match="k is 0"):
        searcher.similar(DOC, k=0)


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
    """Where encoders are combined, and the only one that knows it has no weight; or a migration's encoder refused it.

    To search again would not help.
    """
    read = searcher.store.vectors

    def unknown(model: str, doc_ids: Sequence[str]) -> FloatArray:
        return read(model, doc_ids) * np.float32(list(doc_ids) != [DOC])

    def missing(model: str, doc_ids: Sequence[str]) -> FloatArray:
        raise MissingDocuments([DOC], {})

    for vectors, error, said in (
        (unknown, BadInput, "the encoder knew no word of this document"),
        (missing, NoDocument, "no document of this id"),
    ):
        monkeypatch.setattr(searcher.store, "vectors", vectors)
        with pytest.raises(error, match=said):
            searcher.similar(DOC)


def test_documents_deleted_meanwhile_are_left_out(calibrated_by_words: Settings, tmp_path: Path) -> None:
    shutil.copytree(calibrated_by_words.home, tmp_path / "home")
    settings = Settings.read(home=tmp_path / "home")
    with (
        Searcher.open("demo", settings, device="cpu") as searcher,
        Searcher.open("demo", settings, device="cpu") as other,
    ):
        first = searcher.similar(DOC, k=3)[0].doc_id
        with closing(other.store) as store:
            store.delete([first, "demo:fr:sourdough"])
        assert first not in {hit.doc_id for hit in searcher.similar(DOC, k=235)}
        with pytest.raises(NoDocument):
            searcher.similar("demo:fr:sourdough")


def test_a_migrated_collection_compares_in_the_space_of_the_new_encoder(migrated_by_words: Settings) -> None:
    with Searcher.open("demo", migrated_by_words, device="cpu") as searcher:
        hits = searcher.similar(DOC, k=30)
        assert len(hits) == 30
        assert "de" not in {hit.lang for hit in hits}
        assert all(-1.001 <= hit.cosine <= 1.001 for hit in hits)
