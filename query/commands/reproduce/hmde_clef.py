"""``dragoman reproduce hmde-clef``: the HMDE paper's table of retrieval, on its data or on yours."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from encoders.console import Console
from encoders.document import Document
from encoders.errors import BadInput
from encoders.languages import normalise
from encoders.session import Device
from encoders.wording import counted
from indexer.readers import Reading, ReadOptions, Refusal, Remark, read
from onnx_export.models import DEFAULT
from query.commands.options import device_option, output_options
from query.reproduce.hmde_methods import METHODS, open_method

if TYPE_CHECKING:
    from query.reproduce.hmde_clef import PairScore

_PATH = click.Path(path_type=Path)


def _by_language(_context: click.Context, option: click.Parameter, values: Sequence[str]) -> dict[str, list[str]]:
    """Paths by language, from values LANG=PATH; a language may have several."""
    by_lang: dict[str, list[str]] = {}
    for value in values:
        lang, equals, path = value.partition("=")
        if not (lang and equals and path):
            raise click.BadParameter(f"{value!r} is not LANG=PATH, as in de=fr94", param=option)
        by_lang.setdefault(normalise(lang), []).append(path)
    return by_lang


@click.command("hmde-clef")
@click.option(
    "--documents", callback=_by_language, multiple=True, required=True, metavar="LANG=PATH", help="Of each language."
)
@click.option("--qrels", callback=_by_language, multiple=True, required=True, metavar="LANG=FILE", help="For these.")
@click.option("--topics", type=_PATH, multiple=True, required=True, metavar="FILE", help="In all query languages.")
@click.option(
    "--langs", default="", metavar="LANG,…", help="Query languages.  [default: those of the documents, and en]"
)
@click.option("--encoder", metavar="NAME|FOLDER", default=DEFAULT, show_default=True)
@click.option("--method", type=click.Choice(METHODS), help="How a document's vector is made; longformer needs PyTorch.")
@device_option
@output_options
def command(
    documents: dict[str, list[str]],
    qrels: dict[str, list[str]],
    topics: tuple[Path, ...],
    langs: str,
    encoder: str,
    method: str | None,
    device: str,
    console: Console,
) -> None:
    """Retrieval between languages by plain cosine, title and description (table 2).

    The paper's data is CLEF-2003: --documents de=DIR, and the same for fi, it and ru, folders of the disks; --qrels in
    the same way; --topics, the files of topics 141 to 200. Any collection with topics in several languages will do.
    """
    from query.evaluation.qrels import read_qrels  # noqa: PLC0415
    from query.evaluation.topics import read_topics  # noqa: PLC0415
    from query.reproduce import hmde_clef  # noqa: PLC0415 - not needed by --help

    if documents.keys() != qrels.keys():
        raise click.UsageError("--documents and --qrels belong together; give both for each language")
    query_langs = [normalise(code) for code in langs.split(",") if code.strip()] or [*documents, "en"]
    topics_by_lang = defaultdict(list)
    for topic in (topic for file in topics for topic in read_topics(file)):
        if topic.lang in query_langs:
            topics_by_lang[topic.lang].append(topic)
    judgements = {lang: read_qrels(files) for lang, files in qrels.items()}
    if not any(hmde_clef.topics_about(lang, topics_by_lang, judgements[lang]) for lang in documents):
        raise BadInput("no topic in another language than the documents' is judged; give topics in several languages")
    loaded = open_method(encoder, method, cast("Device", device), console)
    results: list[PairScore] = []
    for lang, paths in documents.items():
        with console.progress(f"encoding {lang}", None, "documents") as progress:
            doc_ids, vectors = hmde_clef.encode_all(_documents(paths, lang, console), loaded, progress)
        if not doc_ids:
            raise BadInput(f"no document could be read from {', '.join(paths)}; name the folder of the {lang} disks")
        results += hmde_clef.retrieve(lang, doc_ids, vectors, topics_by_lang, judgements[lang], loaded)
    _show_pairs(results, f"{loaded.spec.name} by {loaded.spec.method}", console)


def _documents(paths: Sequence[str], lang: str, console: Console) -> Iterator[Document]:
    refusals = 0
    for reading in _readings(paths, lang):
        match reading:
            case Document():
                yield reading
            case Refusal():
                refusals += 1
            case Remark(where, text):
                console.say(f"{where}: {text}")
    if refusals:
        console.warn(f"{counted(refusals, 'record')} in {lang} could not be read: left out; dragoman index names them")


def _readings(paths: Sequence[str], lang: str) -> Iterator[Reading]:
    for path in paths:
        yield from read(path, ReadOptions(lang=lang))


def _show_pairs(pairs: Sequence[PairScore], ours: str, console: Console) -> None:
    from query.reproduce.hmde_clef import PAPER_CLIR, SYSTEMS  # noqa: PLC0415

    order = {langs: position for position, langs in enumerate(PAPER_CLIR)}
    pairs = sorted(pairs, key=lambda pair: order.get((pair.query, pair.documents), len(order)))
    rows = []
    for pair in pairs:
        figures = PAPER_CLIR.get((pair.query, pair.documents), ())
        paper = [f"{value:.3f}" for value in figures] or [""] * len(SYSTEMS)
        topic_counts = f"{pair.topics:,} in {pair.searched:,}"
        rows.append([f"{pair.query} → {pair.documents}", *paper, f"{pair.score:.3f}", topic_counts])
    mean = sum(pair.score for pair in pairs) / len(pairs)
    paper_pair_scores = [pair.score for pair in pairs if (pair.query, pair.documents) in PAPER_CLIR]
    complete = len(paper_pair_scores) == len(PAPER_CLIR)
    paper_pairs_mean = sum(paper_pair_scores) / len(paper_pair_scores) if complete else None
    if paper_pairs_mean is not None:
        means = [f"{sum(column) / len(PAPER_CLIR):.3f}" for column in zip(*PAPER_CLIR.values(), strict=True)]
        rows.append(["mean of the paper's nine", *means, f"{paper_pairs_mean:.3f}", ""])
    if len(pairs) != len(paper_pair_scores) or paper_pairs_mean is None:
        rows.append([f"mean of all {len(pairs)}", *[""] * len(SYSTEMS), f"{mean:.3f}", ""])
    console.table(
        ["", *(f">{name}" for name in SYSTEMS), f">{ours}", ">topics"], rows, title="MAP; the paper, and ours"
    )
    console.emit(
        {
            "encoder": ours,
            "mean": round(mean, 6),
            "paper_pairs_mean": None if paper_pairs_mean is None else round(paper_pairs_mean, 6),
            "pairs": [
                {
                    "query": pair.query,
                    "documents": pair.documents,
                    "map": round(pair.score, 6),
                    "topics": pair.topics,
                    "searched": pair.searched,
                    "paper": dict(zip(SYSTEMS, PAPER_CLIR.get((pair.query, pair.documents), ()), strict=False)) or None,
                }
                for pair in pairs
            ],
        }
    )
