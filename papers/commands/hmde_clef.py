"""``python -m papers hmde-clef``: the HMDE paper's table of retrieval, on its data or on yours."""

from __future__ import annotations

import click

from encoders.console import Console
from encoders.machine.placement import Device
from indexer.collection.settings import Settings
from papers.cached_encoder import CachedEncoder
from papers.commands.clef_options import clef_options
from papers.hmde_clef import PAPER, PAPER_DATA, RANKED_BY, SYSTEMS, ClefTable, RetrievalData, score_pairs
from papers.hmde_methods import METHODS, open_method
from papers.paper_table import PaperTable, data_json, documents_in_words
from papers.systems import System, open_log, say_logged
from query.commands.help import Command
from query.commands.options import common_options, default_encoder_option, device_option


@click.command("hmde-clef", cls=Command)
@clef_options(required=True)
@default_encoder_option()
@click.option("--method", type=click.Choice(METHODS), help="How a document's vector is made; longformer needs PyTorch.")
@device_option
@common_options
def command(
    retrieval: RetrievalData,
    encoder: str,
    method: str | None,
    device: Device,
    settings: Settings,
    console: Console,
) -> None:
    """Retrieval between languages by plain cosine, title and description (table 2).

    The paper's data is CLEF-2003: --documents de=DIR, and the same for fi, it and ru, folders of the disks; --qrels in
    the same way; --topics, the files of topics 141 to 200. Any collection with topics in several languages will do.
    """
    engine = click.get_current_context().with_resource(open_log(settings))
    loaded = CachedEncoder(open_method(encoder, method, device, console), settings.home, console)
    table = score_pairs(retrieval, loaded, console)
    system = System(
        "hmde-clef",
        RANKED_BY,
        loaded.spec,
        table.documents,
        table.runs(),
        retrieval.topics_name,
        retrieval.topics_hash,
        retrieval.qrels_hash,
    )
    number = system.log(engine)
    _show_table(table, f"{loaded.spec.name} by {loaded.spec.method}", number, system.topics, console)
    say_logged([number], console)
    loaded.say_cached()


def _show_table(table: ClefTable, encoder: str, evaluation: int, topics: str, console: Console) -> None:
    our_data = f"topics of {topics}; documents: {documents_in_words(table.documents)}"
    shown = PaperTable(
        "MAP; the paper, and ours", [""], SYSTEMS, [encoder], ["topics"], 3, paper_data=PAPER_DATA, our_data=our_data
    )
    for pair in table.pairs:
        topic_counts = f"{pair.topics:,} in {pair.searched:,}"
        shown.add([f"{pair.query} → {pair.documents}"], pair.paper, [pair.map], topic_counts)
    paper_pairs_mean = table.paper_pairs_mean
    if paper_pairs_mean is not None:
        means = [sum(column) / len(PAPER) for column in zip(*PAPER.values(), strict=True)]
        shown.add(["mean of the paper's nine"], means, [paper_pairs_mean], "")
    if paper_pairs_mean is None or len(table.pairs) > len(PAPER):
        shown.add([f"mean of all {len(table.pairs)}"], [], [table.mean], "")
    shown.show(console)
    console.emit(
        {
            "evaluation": evaluation,
            "encoder": encoder,
            **data_json(PAPER_DATA, our_data),
            "mean": round(table.mean, 6),
            "paper_pairs_mean": None if paper_pairs_mean is None else round(paper_pairs_mean, 6),
            "pairs": [
                {
                    "query": pair.query,
                    "documents": pair.documents,
                    "map": round(pair.map, 6),
                    "topics": pair.topics,
                    "searched": pair.searched,
                    "paper": dict(zip(SYSTEMS, pair.paper, strict=False)) or None,
                }
                for pair in table.pairs
            ],
        }
    )
