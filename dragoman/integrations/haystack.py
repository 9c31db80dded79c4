"""A retriever for Haystack; it needs the package ``haystack-ai``."""

from collections.abc import Mapping, Sequence
from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict

from dragoman.integrations.collection_search import CollectionSearch, metadata


@component
class DragomanRetriever:
    """Finds documents of a collection in any language; ``top_k`` and ``filters`` may differ by run.

    ``filters`` are Dragoman's: values by the names of fields.
    """

    def __init__(
        self,
        collection: str,
        top_k: int = 10,
        filters: Mapping[str, Any] | None = None,
        to: Sequence[str] | None = None,
        prefer: Sequence[str] = (),
        subjects: bool = True,
        home: str | None = None,
        store: str | None = None,
    ) -> None:
        self.top_k, self.filters = top_k, filters
        self._search = CollectionSearch(collection, home, store)
        self._options = {"to": to, "prefer": prefer, "subjects": subjects}

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, top_k: int | None = None, filters: dict[str, Any] | None = None
    ) -> dict[str, list[Document]]:
        """The best documents for a query, best first."""
        k = self.top_k if top_k is None else top_k
        hits = self._search.hits(query, k, filters or self.filters, **self._options)
        best = [Document(id=hit.id, content=hit.document.content, meta=metadata(hit), score=hit.score) for hit in hits]
        return {"documents": best}

    def to_dict(self) -> dict[str, Any]:
        """The retriever as a pipeline's file has it."""
        place = dict(zip(("collection", "home", "store"), self._search.place, strict=True))
        return default_to_dict(self, top_k=self.top_k, filters=self.filters, **place, **self._options)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "DragomanRetriever":
        """A retriever of a pipeline's file."""
        return default_from_dict(cls, data)
