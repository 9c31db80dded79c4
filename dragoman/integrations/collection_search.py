"""What the retrievers share: a collection that is opened at its first query, and a hit's metadata."""

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from indexer.collection.settings import Settings
from query.ranking.search_hits import Hit
from query.ranking.searcher import Searcher


class CollectionSearch:
    """Searches of a collection, which is opened once, by the first of them; a copy opens it again.

    Args:
        collection: the collection's name.
        home, store: where it is kept; by default as for the command (``DRAGOMAN_HOME``, ``DRAGOMAN_STORE``).
    """

    def __init__(self, collection: str, home: str | None, store: str | None) -> None:
        self.place = (collection, home, store)
        self._searcher: Searcher | None = None
        self._opening = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.place

    def hits(self, query: str, k: int, filters: Mapping[str, Any] | None, **options: Any) -> Sequence[Hit]:
        """The k best hits of a query, best first. Options and errors are those of ``Searcher``."""
        with self._opening:
            searcher = self._searcher = self._searcher or Searcher.open(self.place[0], Settings.read(*self.place[1:]))
        return searcher.search(query, k=k, filters=filters, **options)


def metadata(hit: Hit) -> dict[str, Any]:
    """A hit's fields, language, title, score, cosine, and the ids of its other versions."""
    also = [other.doc_id for other in hit.also]
    own = {"lang": hit.lang, "title": hit.title, "score": hit.score, "cosine": hit.cosine, "also": also}
    return {**hit.document.fields, **own}
