"""Dragoman in a program: put documents into a collection, and find them in any language.

Example::

    from dragoman import Searcher, index

    index(["docs.jsonl", {"id": "elbe", "lang": "de", "title": "Hochwasser", "text": "Die Elbe steigt."}], "news")
    with Searcher.open("news") as searcher:
        for hit in searcher.search("flood", k=3):
            print(hit.lang, hit.document.title, f"{hit.score:.2f}")

This is the public API. The packages ``query``, ``indexer``, ``onnx_export`` and ``encoders`` are the parts behind it.
``settings`` are where the store and the database are; by default ``DRAGOMAN_*`` variables, or the home folder. Every
error that a caller can act on is a ``DragomanError``.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, get_type_hints

if TYPE_CHECKING:
    from dragoman.functions import calibrate, delete, delete_collection, evaluate, index, status
    from dragoman.text_encoder import TextEncoder
    from encoders.console import Console
    from encoders.document import Document
    from encoders.errors import BadInput, DragomanError, MissingPart, ModelMismatch, StoreError
    from indexer.collection.settings import Settings
    from indexer.indexing.pipeline import IndexReport
    from indexer.readers.records.source import ReadOptions
    from query import __version__
    from query.calibration_fitting.calibration_fit import CalibrationReport
    from query.evaluation.collection_evaluation import Evaluation
    from query.ranking.ranking_options import RankingOptions
    from query.ranking.search_hits import Facets, Hit, Hits, Passage
    from query.ranking.searcher import NoDocument, Searcher
    from query.ranking.searcher_opening import EmptyCollection

__all__ = [
    "BadInput",
    "CalibrationReport",
    "Console",
    "Document",
    "DragomanError",
    "EmptyCollection",
    "Evaluation",
    "Facets",
    "Hit",
    "Hits",
    "IndexReport",
    "MissingPart",
    "ModelMismatch",
    "NoDocument",
    "Passage",
    "RankingOptions",
    "ReadOptions",
    "Searcher",
    "Settings",
    "StoreError",
    "TextEncoder",
    "__version__",
    "calibrate",
    "delete",
    "delete_collection",
    "evaluate",
    "index",
    "status",
]

_MODULES = {
    **dict.fromkeys(["calibrate", "delete", "delete_collection", "evaluate", "index", "status"], "dragoman.functions"),
    **dict.fromkeys(["BadInput", "DragomanError", "MissingPart", "ModelMismatch", "StoreError"], "encoders.errors"),
    **dict.fromkeys(["Facets", "Hit", "Hits", "Passage"], "query.ranking.search_hits"),
    **dict.fromkeys(["NoDocument", "Searcher"], "query.ranking.searcher"),
    "EmptyCollection": "query.ranking.searcher_opening",
    "CalibrationReport": "query.calibration_fitting.calibration_fit",
    "Console": "encoders.console",
    "Document": "encoders.document",
    "Evaluation": "query.evaluation.collection_evaluation",
    "IndexReport": "indexer.indexing.pipeline",
    "RankingOptions": "query.ranking.ranking_options",
    "ReadOptions": "indexer.readers.records.source",
    "Settings": "indexer.collection.settings",
    "TextEncoder": "dragoman.text_encoder",
    "__version__": "query",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for: ``import dragoman`` imports no other package."""
    if name in _MODULES:
        value = getattr(import_module(_MODULES[name]), name)
        _name_types()
        return value
    raise AttributeError(f"module 'dragoman' has no attribute {name!r}")


def _name_types() -> None:
    """Give the public types that are loaded the names by which programs import them; their type hints stay known."""
    for name, module in _MODULES.items():
        public = getattr(sys.modules.get(module), name, None)
        if isinstance(public, type) and public.__module__ != __name__:
            hints = get_type_hints(public)
            for field in getattr(public, "__dataclass_fields__", {}).values():
                field.type = hints[field.name]
            public.__annotations__ = {name: hints[name] for name in public.__annotations__}
            public.__module__ = __name__


def __dir__() -> list[str]:
    return __all__
