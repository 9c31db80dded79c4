"""A retriever and embeddings for LangChain; they need the package ``langchain-core``."""

from asyncio import to_thread
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from pydantic import PrivateAttr

from dragoman.integrations.collection_search import CollectionSearch, metadata
from dragoman.text_encoder import TextEncoder


class DragomanRetriever(BaseRetriever):
    """Finds documents of a collection in any language; ``k`` and ``filters`` may differ by call."""

    collection: str
    k: int = 10
    filters: Mapping[str, Any] | None = None
    to: Sequence[str] | None = None
    prefer: Sequence[str] = ()
    subjects: bool = True
    home: str | None = None
    store: str | None = None
    _search: CollectionSearch = PrivateAttr()

    def model_post_init(self, _context: Any, /) -> None:
        """Name the collection; the first query opens it."""
        self._search = CollectionSearch(self.collection, self.home, self.store)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002 - LangChain passes it by its name
        k: int | None = None,
        filters: Mapping[str, Any] | None = None,
    ) -> list[Document]:
        k, filters = self.k if k is None else k, self.filters if filters is None else filters
        if self._search.place != (self.collection, self.home, self.store):  # a copy has another, or it was assigned
            self.model_post_init(None)
        hits = self._search.hits(query, k, filters, to=self.to, prefer=self.prefer, subjects=self.subjects)
        return [Document(id=hit.id, page_content=hit.document.content, metadata=metadata(hit)) for hit in hits]

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any, **options: Any) -> list[Document]:
        return await to_thread(self._get_relevant_documents, query, run_manager=run_manager.get_sync(), **options)


class DragomanEmbeddings(Embeddings):
    """Vectors of an encoder by its name, of unit length; the encoder's prefixes are set here."""

    def __init__(self, encoder: str | None = None) -> None:
        self._encoder = TextEncoder(encoder) if encoder else TextEncoder()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """A vector for each text, however long."""
        return self._encoder.encode_document(texts).tolist() if texts else []

    def embed_query(self, text: str) -> list[float]:
        """The vector of a query."""
        return list(self._encoder.encode_query(text).tolist())
