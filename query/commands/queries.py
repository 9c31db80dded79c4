"""``dragoman queries``: the logged queries of a collection, for people to judge."""

import json
from pathlib import Path

import click

from encoders.console import Console, Note
from encoders.phrases import counted
from encoders.table_layout import Table
from indexer.collection.settings import Settings
from query.commands.options.common_options import common_options, searched_collection_option
from query.commands.options.help import Command
from query.commands.options.option_types import FILE
from query.query_log.judged_queries import require_searches, topic_lines
from query.trec_files.output_files import require_writable, write_lines

_SHOWN = 30


@click.command("queries", cls=Command)
@searched_collection_option("The collection.")
@click.option("-o", "--output", type=FILE, help="Write all of them here, as JSON lines.")
@common_options
def command(name: str, output: Path | None, settings: Settings, console: Console) -> None:
    """List the queries that dragoman serve --log kept, most asked first.

    The file has a line for each query: topics as dragoman evaluate reads them, with the documents that were shown and
    those that were opened. Judge the shown ones in lines of "qid 0 document grade", and give these to
    dragoman evaluate --from-log --qrels.
    """
    lines = list(topic_lines(require_searches(name, settings)))
    if output:
        require_writable(output)
        write_lines(output, lines)
        sentence = f"{counted(len(lines), 'query', 'queries')} of {name} written to {output}"
        console.show({"collection": name, "queries": len(lines), "file": output}, sentence)
        return
    topics = [json.loads(line) for line in lines]
    table = Table.of(
        [
            {
                ">asked": f"{topic['asked']:,}",
                ">shown": f"{len(topic['shown']):,}",
                ">opened": f"{len(topic['relevant']):,}",
                "in": topic["lang"],
                "~query": topic["title"],
                "qid": topic["qid"],
            }
            for topic in topics[:_SHOWN]
        ],
        f"what {name} was asked",
    )
    more = Note(f"{len(topics) - _SHOWN:,} more; all of them: dragoman queries -c {name} -o FILE")
    console.show({"collection": name, "queries": topics}, [table, *([more] if len(topics) > _SHOWN else [])])
