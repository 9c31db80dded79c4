"""Somebody with an index in Elasticsearch, and Dragoman attached to it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import sqlalchemy as sa
from elasticsearch import BadRequestError, helpers

from encoders.document import Document, FloatArray
from indexer.attaching.catch_up import AttachReport, catch_up
from indexer.cluster.cluster_address import Credentials
from indexer.collection.store_location import StoreLocation
from indexer.ledger.database import read_database_id
from indexer.stores.attached.attached_address import Attachment
from indexer.stores.attached.joined_store import JoinedStore
from indexer.stores.contract import VectorQuery
from trials.fake_encoder import FakeEncoder
from trials.servers.elastic import client_of

MAPPING: dict[str, Any] = {
    "dynamic": "strict",
    "properties": {
        "headline": {"type": "text", "fields": {"raw": {"type": "keyword"}}},
        "content": {"properties": {"body": {"type": "text"}}},
        "lang": {"type": "keyword"},
        "section": {"type": "text", "fields": {"keyword": {"type": "keyword"}}},
        "year": {"type": "integer"},
        "own_vector": {"type": "dense_vector", "dims": 4, "similarity": "dot_product"},
    },
}


def source(text: str, lang: str | None = "en", **others: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"headline": f"title of {text}", "content": {"body": text}, "lang": lang, **others}
    return {name: value for name, value in made.items() if value is not None}


def texts(count: int) -> dict[str, dict[str, Any]]:
    return {f"d{at}": source(f"text {at}") for at in range(count)}


class Owner:
    """Somebody with an index, and us beside them."""

    def __init__(self, url: str, engine: sa.Engine, *, companion: bool) -> None:
        self.server, _, self.prefix = url.rpartition("/")
        self.index = f"{self.prefix}-theirs"
        self.client = client_of(self.server)
        self.engine = engine
        self.encoder = FakeEncoder()
        self.stores: list[JoinedStore] = []
        self.others: list[Owner] = []
        fields: dict[str, Any] = {"text": "content.body", "title": "headline", "lang_field": "lang"}
        self.attachment = Attachment(self.server, self.index, **fields, companion=self.prefix if companion else "")

    def beside(self, engine: sa.Engine) -> "Owner":
        """Another home that is attached to the same place; it is closed with this one."""
        self.others.append(Owner(f"{self.server}/{self.prefix}", engine, companion=bool(self.attachment.companion)))
        return self.others[-1]

    def make(self, mapping: Mapping[str, Any] = MAPPING, **settings: Any) -> None:
        self.client.indices.create(
            index=self.index, mappings=mapping, settings={"number_of_shards": 2, "number_of_replicas": 0, **settings}
        )

    def write(self, doc_id: str, document: Mapping[str, Any], **how: Any) -> None:
        self.client.index(index=self.index, id=doc_id, document=document, **how)

    def write_all(self, documents: Mapping[str, Mapping[str, Any]]) -> None:
        helpers.bulk(
            self.client,
            ({"_index": self.index, "_id": doc_id, "_source": dict(one)} for doc_id, one in documents.items()),
        )

    def begin(self, documents: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        """Write documents, by default a single one, and follow them."""
        self.write_all(documents or {"a": source("one")})
        self.follow()

    def update(self, doc_id: str, changed: Mapping[str, Any]) -> None:
        self.client.update(index=self.index, id=doc_id, doc=changed)

    def read(self, doc_id: str) -> dict[str, Any]:
        """A source without our vector, which servers since version 9.2 leave out by themselves."""
        excluded = ["*.vector", "*.vectors"]
        found: dict[str, Any] = self.client.get(index=self.index, id=doc_id, source_excludes=excluded)["_source"]
        return found

    def read_whole(self, doc_id: str) -> dict[str, Any]:
        """A source with our vector."""
        self.client.indices.refresh(index=self.index)
        query = {"ids": {"values": [doc_id]}}
        try:
            answer = self.client.search(index=self.index, query=query, source={"exclude_vectors": False})
        except BadRequestError:  # version 8.18 gives vectors unasked
            answer = self.client.search(index=self.index, query=query)
        (hit,) = answer["hits"]["hits"]
        found: dict[str, Any] = hit["_source"]
        return found

    def open(self) -> JoinedStore:
        location = StoreLocation(self.attachment.url, "c", Credentials(), read_database_id(self.engine))
        self.stores.append(location.open_attached(make=True))
        return self.stores[-1]

    def close(self) -> None:
        closing: list[JoinedStore | Owner] = [*self.stores, *self.others]
        for opened in closing:
            opened.close()
        self.client.close()

    def follow(self) -> AttachReport:
        return catch_up(self.open(), self.encoder, self.engine, "c")

    def encoded_by_following(self) -> list[str]:
        """Ids that had to be encoded again."""
        self.encoder.encoded.clear()
        self.follow()
        return sorted(self.encoder.encoded)

    def nearest(self, store: JoinedStore, text: str = "text", **filters: Any) -> list[str]:
        """Ids of the ten that are nearest to an English text."""
        query = {"en": self.encoder.encode_queries([Document("q", "en", text)])}
        return list(store.search(VectorQuery(self.encoder.spec.model, query, 10, filters))["en"][0].doc_ids)

    def move(self, alias: str, index: str) -> None:
        """Give the alias of our index to another one."""
        actions = [{"remove": {"index": self.index, "alias": alias}}, {"add": {"index": index, "alias": alias}}]
        self.client.indices.update_aliases(actions=actions)

    def vectors(self) -> dict[str, FloatArray]:
        """Every vector that a search can find."""
        pages = self.open().scan(self.encoder.spec.model)
        return {item.document.doc_id: item.vector for page in pages for item in page}

    def check(self) -> None:
        """Every document has the vector of its text, and nothing else has one."""
        self.client.indices.refresh(index=self.index)
        hits = self.client.search(index=self.index, size=10_000)["hits"]["hits"]
        written = {}
        for hit in hits:
            body, title = hit["_source"]["content"]["body"], hit["_source"]["headline"]
            if body:
                written[hit["_id"]] = Document(hit["_id"], hit["_source"].get("lang", "und"), body, title)
        vectors = self.vectors()
        assert vectors.keys() == written.keys()
        for doc_id, document in written.items():
            np.testing.assert_allclose(vectors[doc_id], FakeEncoder().encode_queries([document])[0], atol=1e-6)
