"""What the retrievers share: a collection that is opened at its first query, and a hit's metadata."""

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from indexer.collection.settings import Settings
from query.ranking.search_hits import Hit
from query.ranking.searcher import Searcher


class CollectionSearch:
    """Searches of a collection, which is opened once, by the first of them.

    Args:
        collection: the collection's name.
        home, store: where it is kept; by default as for the command (``DRAGOMAN_HOME``, ``DRAGOMAN_STORE``).
        to: languages of the documents; by default all.
        prefer: languages in which a subject's version is shown first; by default the query's.
        subjects: whether versions of a document are one hit.
    """

    def __init__(
        self,
        collection: str,
        home: str | None = None,
        store: str | None = None,
        *,
        to: Sequence[str] | None = None,
        prefer: Sequence[str] = (),
        subjects: bool = True,
    ) -> None:
        self.collection, self.home, self.store = collection, home, store
        self.options: dict[str, Any] = {"to": to, "prefer": prefer, "subjects": subjects}
        self._searcher: Searcher | None = None
        self._opening = Lock()

    def hits(self, query: str, k: int, filters: Mapping[str, Any] | None = None) -> Sequence[Hit]:
        """The k best hits of a query, best first. Raises as ``Searcher.open`` and ``Searcher.search`` do."""
        with self._opening:
            searcher = self._searcher or Searcher.open(self.collection, Settings.read(self.home, self.store))
            self._searcher = searcher
        return searcher.search(query, k=k, filters=filters, **self.options)


def metadata(hit: Hit) -> dict[str, Any]:
    """A hit's fields, language, title, score, cosine, and the ids of its other versions."""
    also = [other.doc_id for other in hit.also]
    own = {"lang": hit.lang, "title": hit.title, "score": hit.score, "cosine": hit.cosine, "also": also}
    return {**hit.document.fields, **own}
