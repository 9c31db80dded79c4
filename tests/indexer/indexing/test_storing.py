"""What becomes of a chunk's documents that are in a store already."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from encoders.document import Document
from indexer.collection.store_location import StoreLocation
from indexer.indexing.reading import CHUNK_DOCUMENTS
from indexer.indexing.storing import existing_documents, put_encoded
from indexer.stores.embedded import EmbeddedStore
from trials.fake_encoder import FakeEncoder


def test_one_document_that_is_gone_does_not_cost_a_question_for_each_of_its_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = [Document(f"d{number}", "en", f"text {number}") for number in range(CHUNK_DOCUMENTS)]
    doc_ids = [one.doc_id for one in documents]
    encoder, get, asked = FakeEncoder(), EmbeddedStore.get, []

    def counted(store: EmbeddedStore, some: Sequence[str]) -> list[Document]:
        asked.append(some)
        return get(store, some)

    with closing(StoreLocation(tmp_path.as_uri(), "c").open()) as store:
        store.create(encoder.spec.model, encoder.spec.dim)
        put_encoded(store, encoder.spec.model, documents, encoder.encode_documents(documents))
        store.delete(["d20"])
        monkeypatch.setattr(EmbeddedStore, "get", counted)
        assert existing_documents(store, doc_ids) == [one for one in documents if one.doc_id != "d20"]
        assert len(asked) < CHUNK_DOCUMENTS / 4
        store.delete(doc_ids)
        assert existing_documents(store, doc_ids) == []
