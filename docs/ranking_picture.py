"""Draw ``docs/ranking.png``: one topic of the demo asked in ten languages, by plain cosine and ranked fairly.

Needs the collection ``demo``: ``make demo``, then ``.venv/bin/python docs/ranking_picture.py``.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from dragoman import RankingOptions, Searcher
from query.trec_files.qrels import read_qrels
from query.trec_files.topics import read_topics

_DEMO = Path(__file__).parent.parent / "query" / "demo"
_TOPIC = "D05"
_HITS = 10
_COLOURS = [
    "#e4b363",
    "#7a9e9f",
    "#c8553d",
    "#588b8b",
    "#93b7be",
    "#d5a18e",
    "#8f7e4f",
    "#a3a847",
    "#5b7f95",
    "#b5838d",
]


def draw(axes: Axes, title: str, rows: dict[str, list[tuple[str, bool]]], colours: dict[str, str]) -> None:
    """Draw a row for each query language: its hits in order, each in the colour of its language."""
    for row, (lang, hits) in enumerate(rows.items()):
        axes.text(-0.25, row + 0.5, lang, ha="right", va="center", fontsize=9, fontweight="bold")
        for column, (hit_lang, relevant) in enumerate(hits):
            place = (column + 0.04, row + 0.06)
            axes.add_patch(Rectangle(place, 0.92, 0.88, color=colours[hit_lang], alpha=1 if relevant else 0.3))
            axes.text(column + 0.5, row + 0.5, hit_lang, ha="center", va="center", fontsize=8)
    axes.set(xlim=(-0.8, _HITS), ylim=(len(rows), 0))
    axes.set_title(title, fontsize=10, loc="left")
    axes.axis("off")


def main() -> None:
    """Search the demo twice, and draw."""
    queries = {topic.lang: topic.title for topic in read_topics(_DEMO / "topics.tsv") if topic.qid == _TOPIC}
    judgements = read_qrels([_DEMO / "qrels.txt"])
    relevant = {qrel.doc_id for qrel in judgements if qrel.query_id == _TOPIC and qrel.relevance > 0}
    colours = dict(zip(sorted(queries), _COLOURS, strict=True))
    figure = Figure(figsize=(9.6, 3.6), layout="constrained")
    for axes, (title, calibration) in zip(
        figure.subplots(1, 2), {"plain cosine": "none", "ranked fairly (the default)": ""}.items(), strict=True
    ):
        with Searcher.open("demo", ranking=RankingOptions(calibration=calibration)) as searcher:
            rows = {
                lang: [(hit.lang, hit.doc_id in relevant) for hit in searcher.search(text, lang=lang, k=_HITS)]
                for lang, text in sorted(queries.items())
            }
        draw(axes, title, rows, colours)
    figure.savefig(Path(__file__).with_name("ranking.png"), dpi=120)


if __name__ == "__main__":
    main()
