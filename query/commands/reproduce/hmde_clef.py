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
    """LANG=PATH, several of a language allowed."""
    found: dict[str, list[str]] = {}
    for value in values:
        lang, equals, path = value.partition("=")
        if not (lang and equals and path):
            raise click.BadParameter(f"{value!r} is not LANG=PATH, as in de=fr94", param=option)
        found.setdefault(normalise(lang), []).append(path)
    return found


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
    from query.reproduce import hmde_clef  # noqa: PLC0415 - what --help need not load

    if documents.keys() != qrels.keys():
        raise click.UsageError("--documents and --qrels belong together; give both for each language")
    wanted = [normalise(code) for code in langs.split(",") if code.strip()] or [*documents, "en"]
    asked = defaultdict(list)
    for topic in (topic for file in topics for topic in read_topics(file)):
        if topic.lang in wanted:
            asked[topic.lang].append(topic)
    judgements = {lang: read_qrels(files) for lang, files in qrels.items()}
    if not any(hmde_clef.asked_about(lang, asked, judgements[lang]) for lang in documents):
        raise BadInput("no topic in another language than the documents' is judged; give topics in several languages")
    loaded = open_method(encoder, method, cast("Device", device), console)
    found: list[PairScore] = []
    for lang, paths in documents.items():
        with console.progress(f"encoding {lang}", None, "documents") as progress:
            doc_ids, vectors = hmde_clef.encode_all(_documents(paths, lang, console), loaded, progress)
        if not doc_ids:
            raise BadInput(f"no document could be read from {', '.join(paths)}; name the folder of the {lang} disks")
        found += hmde_clef.retrieve(lang, doc_ids, vectors, asked, judgements[lang], loaded)
    _show_pairs(found, f"{loaded.spec.name} by {loaded.spec.method}", console)


def _documents(paths: Sequence[str], lang: str, console: Console) -> Iterator[Document]:
    refused = 0
    for reading in _readings(paths, lang):
        match reading:
            case Document():
                yield reading
            case Refusal():
                refused += 1
            case Remark(where, text):
                console.say(f"{where}: {text}")
    if refused:
        console.warn(f"{counted(refused, 'record')} in {lang} could not be read: left out; dragoman index names them")


def _readings(paths: Sequence[str], lang: str) -> Iterator[Reading]:
    for path in paths:
        yield from read(path, ReadOptions(lang=lang))


def _show_pairs(found: Sequence[PairScore], ours: str, console: Console) -> None:
    from query.reproduce.hmde_clef import PAPER_CLIR, SYSTEMS  # noqa: PLC0415

    order = {pair: place for place, pair in enumerate(PAPER_CLIR)}
    found = sorted(found, key=lambda one: order.get((one.query, one.documents), len(order)))
    rows = []
    for one in found:
        paper = [f"{value:.3f}" for value in PAPER_CLIR.get((one.query, one.documents), ())] or [""] * len(SYSTEMS)
        about = f"{one.topics:,} in {one.searched:,}"
        rows.append([f"{one.query} → {one.documents}", *paper, f"{one.score:.3f}", about])
    mean = sum(one.score for one in found) / len(found)
    theirs = [one.score for one in found if (one.query, one.documents) in PAPER_CLIR]
    nine = sum(theirs) / len(theirs) if len(theirs) == len(PAPER_CLIR) else None
    if nine is not None:
        means = [f"{sum(column) / len(PAPER_CLIR):.3f}" for column in zip(*PAPER_CLIR.values(), strict=True)]
        rows.append(["mean of the paper's nine", *means, f"{nine:.3f}", ""])
    if len(found) != len(theirs) or nine is None:
        rows.append([f"mean of all {len(found)}", *[""] * len(SYSTEMS), f"{mean:.3f}", ""])
    console.table(
        ["", *(f">{name}" for name in SYSTEMS), f">{ours}", ">topics"], rows, title="MAP; the paper, and ours"
    )
    console.emit(
        {
            "encoder": ours,
            "mean": round(mean, 6),
            "paper_pairs_mean": None if nine is None else round(nine, 6),
            "pairs": [
                {
                    "query": one.query,
                    "documents": one.documents,
                    "map": round(one.score, 6),
                    "topics": one.topics,
                    "searched": one.searched,
                    "paper": dict(zip(SYSTEMS, PAPER_CLIR.get((one.query, one.documents), ()), strict=False)) or None,
                }
                for one in found
            ],
        }
    )
