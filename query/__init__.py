"""Queries → ranked documents in any language: search, evaluation and the command.

``from query import Searcher`` is all that most programs need.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from query.ranking.hits import Hit, Passage, Ranking
    from query.ranking.search_choice import RankingOptions
    from query.ranking.searcher import Searcher

__version__ = "0.1.0"
__all__ = ["Hit", "Passage", "Ranking", "RankingOptions", "Searcher", "__version__"]

_MODULES = dict.fromkeys(["Hit", "Passage", "Ranking"], "query.ranking.hits") | {
    "RankingOptions": "query.ranking.search_choice",
    "Searcher": "query.ranking.searcher",
}


def __getattr__(name: str) -> Any:
    """Import the public names when they are first asked for: ``dragoman --help`` asks for none."""
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'query' has no attribute {name!r}")
