"""``dragoman demo``: the whole job on the collection that ships with Dragoman."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import as_file, files

import click

from encoders.console import Console, output_options
from indexer.indexing import index
from indexer.readers import ReadOptions
from indexer.settings import Settings, place_options
from query.evaluate_command import evaluate_files
from query.search_command import as_json_hit, show
from query.searcher import Searcher

COLLECTION = "demo"


@dataclass(frozen=True)
class _Aloud:
    """A query that the demo searches for everybody to see, and what it means."""

    text: str
    meaning: str


_ALOUD = (
    _Aloud("Wie schütze ich mein Haus vor Hochwasser?", "German: how do I protect my house from floods?"),
    _Aloud("眠れない夜に何をすればいいか", "Japanese: what to do on a sleepless night"),
    _Aloud("من اخترع الطباعة؟", "Arabic: who invented printing?"),
)


@click.command("demo", short_help="Do the whole job on the collection that ships with Dragoman.")
@place_options
@output_options
def command(settings: Settings, console: Console) -> None:
    """Index a small collection in ten languages, search it aloud, score it, and say what to type next.

    It needs no server, no GPU and no network. The collection stays, as 'demo', and can be searched further.
    """
    with as_file(files("query") / "demo") as folder:
        console.result("1. Indexing 235 short articles on 26 subjects in ten languages\n")
        report = index(
            [str(path) for path in sorted(folder.glob("docs.*.jsonl"))],
            COLLECTION,
            settings=settings,
            options=ReadOptions(),
            console=console,
        )
        console.result(f"   {report.encoded} encoded, {report.unchanged} were there, {report.seconds:,.1f} s\n")
        console.emit({"step": "index", "encoded": report.encoded, "unchanged": report.unchanged})
        console.result("2. Searching\n")
        with Searcher.open(COLLECTION, settings, console=console) as searcher:
            for query in _ALOUD:
                _search(searcher, query, console)
        console.result("3. Scoring 30 topics, asked in each of the ten languages\n")
        evaluate_files([folder / "topics.tsv"], [folder / "qrels.txt"], COLLECTION, settings, console)
    console.result(_NEXT)


def _search(searcher: Searcher, query: _Aloud, console: Console) -> None:
    lang = searcher.detect(query.text).lang
    console.result(f'$ dragoman search "{query.text}" -c {COLLECTION}   # {query.meaning}; detected: {lang}')
    hits = searcher.search(query.text, lang=lang, k=4)
    elsewhere = searcher.search(query.text, lang=lang, to=[code for code in searcher.languages if code != lang], k=4)
    if console.json:
        console.emit({"step": "search", "query": query.text, "lang": lang, "hits": [as_json_hit(hit) for hit in hits]})
        return
    show(hits)
    console.result(
        f"   … and in the other languages alone (--to {','.join(sorted({hit.lang for hit in elsewhere}))} …):"
    )
    show(elsewhere)
    console.result("")


_NEXT = f"""
The first hits are mostly in the query's own language: that is the bias of every multilingual encoder, and why the
"same language" column is far above the pooled MAP.

Next:
  dragoman search "your words" -c {COLLECTION}                         search it yourself, in any language
  dragoman index DOCS.jsonl -c NAME                            your own documents: id, lang, title, text a line
  dragoman search "your words" -c NAME
  dragoman evaluate --topics TOPICS.tsv --qrels QRELS.txt -c NAME
  dragoman status                                              what is indexed, and what was refused
  dragoman delete --all -c {COLLECTION}                                remove the demo"""
