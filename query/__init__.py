"""Queries → ranked documents in any language: search, evaluation and the command.

``from query import Searcher`` is all that most programs need.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from query.ranking.choice import RankingOptions
    from query.ranking.hits import Hit, Passage, Ranking
    from query.ranking.searcher import Searcher

__version__ = "0.1.0"
__all__ = ["Hit", "Passage", "Ranking", "RankingOptions", "Searcher", "__version__"]


def __getattr__(name: str) -> Any:
    """Import the public names when they are first asked for: ``dragoman --help`` asks for none."""
    if name == "Searcher":
        from query.ranking.searcher import Searcher  # noqa: PLC0415

        return Searcher
    if name == "RankingOptions":
        from query.ranking.choice import RankingOptions  # noqa: PLC0415

        return RankingOptions
    if name in {"Hit", "Passage", "Ranking"}:
        from query.ranking import hits  # noqa: PLC0415

        return getattr(hits, name)
    raise AttributeError(f"module 'query' has no attribute {name!r}")
