"""A retriever for LlamaIndex; it needs the package ``llama-index-core``."""

from collections.abc import Mapping, Sequence
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from dragoman.integrations.collection_search import CollectionSearch, metadata


class DragomanRetriever(BaseRetriever):
    """Finds documents of a collection in any language; each is a text node with its score."""

    def __init__(
        self,
        collection: str,
        similarity_top_k: int = 10,
        filters: Mapping[str, Any] | None = None,
        to: Sequence[str] | None = None,
        prefer: Sequence[str] = (),
        subjects: bool = True,
        home: str | None = None,
        store: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.similarity_top_k, self.filters = similarity_top_k, filters
        self._search = CollectionSearch(collection, home, store)
        self._options = {"to": to, "prefer": prefer, "subjects": subjects}

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        hits = self._search.hits(query_bundle.query_str, self.similarity_top_k, self.filters, **self._options)
        return [
            NodeWithScore(node=TextNode(id_=hit.id, text=hit.document.content, metadata=metadata(hit)), score=hit.score)
            for hit in hits
        ]
