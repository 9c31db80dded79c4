"""``python -m papers hmde-clef``: the HMDE paper's table of retrieval, on its data or on yours."""

from __future__ import annotations

from dataclasses import dataclass

import click

from encoders.console import Console
from encoders.machine.placement import Device
from papers.cached_encoder import CachedEncoder
from papers.commands.clef_options import clef_options
from papers.hmde_clef import PAPER, PAPER_DATA, RANKED_BY, SYSTEMS, ClefTable, RetrievalData, score_pairs
from papers.hmde_methods import METHODS, open_method
from papers.paper_table import PaperTable, data_json, documents_in_words
from papers.runner import Table, command_of, option
from papers.systems import System, say_logged
from query.commands.options.encoder_options import default_encoder_option, device_option


@dataclass(frozen=True, kw_only=True)
class RetrievalTable(Table):
    """Retrieval between languages by plain cosine, title and description (table 2).

    The paper's data is CLEF-2003: --documents de=DIR, and the same for fi, it and ru, folders of the disks; --qrels in
    the same way; --topics, the files of topics 141 to 200. Any collection with topics in several languages will do.
    """

    retrieval: RetrievalData = option(clef_options(required=True))
    encoder: str = option(default_encoder_option())
    method: str | None = option(
        type=click.Choice(METHODS), help="How a document's vector is made; longformer needs PyTorch."
    )
    device: Device = option(device_option)

    def compute(self) -> None:  # noqa: D102
        engine = self.open_log()
        loaded = CachedEncoder(
            open_method(self.encoder, self.method, self.device, self.console), self.settings.home, self.console
        )
        table = score_pairs(self.retrieval, loaded, self.console)
        system = System(
            "hmde-clef",
            RANKED_BY,
            loaded.spec,
            table.documents,
            table.runs(),
            self.retrieval.topics_name,
            self.retrieval.topics_hash,
            self.retrieval.qrels_hash,
        )
        number = system.log(engine)
        _show_table(table, f"{loaded.spec.name} by {loaded.spec.method}", number, system.topics, self.console)
        say_logged([number], self.console)
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
    console.show(
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


command = command_of(RetrievalTable, "hmde-clef")
