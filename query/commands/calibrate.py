"""``dragoman calibrate``: make languages comparable; list calibrations, choose one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import cast

import click

from encoders.console import Console
from encoders.document import Document
from encoders.errors import BadInput
from encoders.maps.networks import read_mapping
from encoders.methods.vector_parts import parsed_weights, shown_weights
from encoders.session import Device
from encoders.wording import counted
from indexer.collection import collection as collections
from indexer.collection.collection import Collection
from indexer.ledger.database import opened
from indexer.settings import Settings
from query.calibration import table as calibration_table
from query.calibration.lineage import give_up_if_left
from query.calibration.margin import MARGINS, Margin
from query.calibration.table import KeptCalibration
from query.commands.options import device_option, output_options, place_options, weights_option
from query.evaluation.file_patterns import expand
from query.evaluation.qrels import read_qrels
from query.evaluation.topics import read_topics
from query.fitting.fit import CalibrationReport, Given, Judged, Upkeep, calibrate
from query.fitting.probe import DEFAULT, Setting
from query.query_log.judged_queries import logged_queries


@click.command("calibrate", short_help="Make languages comparable: after index by itself, again when wanted.")
@click.option(
    "-c", "--collection", "name", required=True, envvar="DRAGOMAN_COLLECTION", help="The collection to calibrate."
)
@click.option("--list", "listing", is_flag=True, help="Show the calibrations there are; make none.")
@click.option("--use", "wanted", default="", metavar="ID|none", help="Search with this one from now on; make none.")
@click.option("--topics", "topic_files", multiple=True, metavar="FILE", help="Topics to decide by, with --qrels.")
@click.option("--qrels", "qrel_files", multiple=True, metavar="FILE", help="Their judgements, in TREC format.")
@click.option(
    "--queries",
    "log_files",
    multiple=True,
    metavar="FILE",
    help="Queries that were really asked, as topics are written.",
)
@click.option("--from-log", is_flag=True, help="Those too that dragoman serve --log kept.")
@click.option("--balance", type=float, help="0: nothing is balanced … 1: every language equal.  [default: decided]")
@click.option("--margin", type=click.Choice(MARGINS), help="Form of the margin.  [default: decided]")
@click.option(
    "--rank",
    type=click.IntRange(0, 256),
    help="Directions of the language subspace taken out; 0: the mean.  [default: decided]",
)
@weights_option("Of the encoders that the collection combines, in their order.  [default: decided]")
@click.option(
    "--map",
    "mapping",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Rank with maps of dragoman train mapping.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the random samples.")
@device_option
@place_options
@output_options
def command(
    name: str,
    listing: bool,
    wanted: str,
    topic_files: tuple[str, ...],
    qrel_files: tuple[str, ...],
    log_files: tuple[str, ...],
    from_log: bool,
    balance: float | None,
    margin: str | None,
    rank: int | None,
    weights: str,
    mapping: Path | None,
    seed: int,
    device: str,
    settings: Settings,
    console: Console,
) -> None:
    """Take the languages' statistics of a sample, and decide how to rank with them.

    How is decided by --topics with --qrels where they are given; else by documents that have the same `concept`;
    else by whether languages can be told apart, and neighbours share one while titles still find their documents.
    Giving --balance, --margin, --rank or --weights decides it yourself; of these what is not given is ¾, ratio, the
    mean and equal weights. No document is encoded again and the index is not touched.
    """
    if bool(topic_files) != bool(qrel_files):
        raise click.UsageError("--topics and --qrels belong together; give both")
    if listing or wanted:
        engine = click.get_current_context().with_resource(opened(settings.database))
        found = collections.require(engine, name)
        if wanted:
            chosen = calibration_table.use(engine, name, wanted)
            give_up_if_left(engine, name)
            console.result(f"{name} is searched with {f'calibration {chosen.id}' if chosen else 'plain cosine'} now")
        _list(calibration_table.every(engine, name), found, console)
        return
    if mapping and rank:
        raise click.UsageError("--map and --rank don't go together: maps are of what the mean's removal leaves")
    given = balance is not None or margin is not None or rank is not None or weights
    if given and topic_files:
        raise click.UsageError("--topics decides how to rank; leave --balance, --margin, --rank and --weights out")
    setting = Setting(
        DEFAULT.rank if rank is None else rank,
        cast("Margin", margin) if margin else DEFAULT.margin,
        DEFAULT.balance if balance is None else balance,
        parsed_weights(weights) if weights else (),
    )
    judged = None
    if topic_files:
        judged = Judged(_queries(topic_files, "topics"), read_qrels(expand(qrel_files, "judgements")))
    report = calibrate(
        name,
        settings,
        judged=judged,
        log=[*_queries(log_files, "queries"), *(logged_queries(name, settings) if from_log else ())],
        setting=setting if given else None,
        given=Given(maps=read_mapping(mapping)) if mapping else None,
        seed=seed,
        device=cast("Device", device),
        console=console,
    )
    show(report, name, console)


def _queries(names: Sequence[str], what: str) -> list[Document]:
    topics = [topic for path in expand(names, what) for topic in read_topics(path)]
    queries = [Document(topic.qid, topic.lang, topic.text(("title", "description"))) for topic in topics]
    if names and not any(query.text.strip() for query in queries):
        raise BadInput(f"none of the {what} has a title or a description to ask with")
    return [query for query in queries if query.text.strip()]


_DECIDED = {
    "judgements": "by your judgements: MAP on half of the topics",
    "concepts": "by documents of one concept: MAP of half of the titles and first sentences",
    "titles": "by titles that find the rest of their own document, and by their neighbours' languages",
    "languages": "by its languages, which a linear classifier can't tell apart",
    "you": "by you",
    "default": "by default: there was nothing to decide by",
}


def directions(rank: int) -> str:
    """A rank in words; nothing for 0."""
    return counted(rank, "direction") if rank else ""


def show(report: CalibrationReport, name: str, console: Console, *, table: bool = True) -> None:
    """Say what was decided, and by what."""
    console.emit(
        {
            "collection": name,
            "calibration": report.kept.id,
            **asdict(report.setting),
            "decided_by": report.decided_by,
            "taken_over": report.taken_over,
            "languages": report.kept.summary["languages"],
            "few": dict(report.few),
            "drift": dict(report.drift),
            "told_apart": report.kept.summary.get("told_apart"),
            "probe": [one.as_dict() for one in report.tried],
        }
    )
    measure = "own title" if report.decided_by in ("titles", "languages") else "MAP"
    weights = shown_weights(report.kept.summary["weights"])
    if report.tried and table and not console.json:
        rows = [
            [
                directions(one.setting.rank) or "the mean",
                one.setting.margin,
                f"{one.setting.balance:g}",
                *([shown_weights(one.setting.weights) or "equal"] if weights else []),
                f"{one.value:.3f}",
                f"{one.held_out:.3f}",
                f"{one.own_language:.0%}",
                "chosen" if one.chosen else "",
            ]
            for one in report.tried
        ]
        console.table(
            [
                *("taken out", "margin", ">balance", *([">weights"] if weights else [])),
                *(f">{measure}", ">other half", ">own language", ""),
            ],
            rows,
            title="What the probe tried",
        )
    rank = directions(report.setting.rank)
    taken = f"{rank} of each language" if rank else "the language mean"
    weighed = f", weights {weights}" if weights else ""
    console.result(
        f"{name}: calibration {report.kept.id}, balance {report.setting.balance:g}, {report.setting.margin} margin, "
        f"{taken} taken out{weighed}; {'as it was,' if report.taken_over else 'decided'} {_DECIDED[report.decided_by]}"
    )
    if apart := report.kept.summary.get("told_apart"):
        console.say(
            f"a linear classifier tells the language of {apart['accuracy']:.0%} of documents, of {apart['languages']} "
            f"languages; below {apart['bar']:.0%} nothing would be balanced"
        )
    if report.maps_left:
        console.warn(
            "the calibration before ranked with maps, and this one doesn't; it is still there: --list, --use ID"
        )
    if mapping := report.kept.summary.get("map"):
        console.say(f"with maps: {mapping['method']}")
        if mapping["unknown"]:
            ranked = "by the mean of the languages' maps" if mapping["stands_in"] else "as without maps"
            console.warn(f"the maps know nothing of {', '.join(mapping['unknown'])}: ranked {ranked}")
    if report.few:
        listed = ", ".join(f"{lang} {count}" for lang, count in sorted(report.few.items()))
        console.say(f"few documents, so drawn towards the mean of all languages: {listed}")
    if report.drift:
        worst = max(report.drift, key=report.drift.__getitem__)
        console.say(f"first tens that are others than before: {report.drift[worst]:.0%} in {worst}, the most")


def tell_upkeep(upkeep: Upkeep, name: str, console: Console) -> None:
    """Say what became of the calibration after documents came or went."""
    if upkeep.report:
        console.say(f"{name} is calibrated anew: {upkeep.reason}")
        show(upkeep.report, name, console, table=False)
    else:
        console.say(f"{name} keeps its calibration: {upkeep.reason}")


def _list(kept: Sequence[KeptCalibration], collection: Collection, console: Console) -> None:
    name, active = collection.name, {one.id for one in kept if one.active and one.model == collection.model}
    for one in kept:
        console.emit(
            {"calibration": one.id, "active": one.id in active, "created": one.created.isoformat(timespec="seconds")}
            | dict(one.summary)
        )
    if console.json:
        return
    if not kept:
        console.result(
            f"{name} has no calibration and is searched by plain cosine; make one: dragoman calibrate -c {name}"
        )
        return
    combined = any(_weights(one) for one in kept)
    rows = [
        [
            one.id,
            f"{one.created:%Y-%m-%d %H:%M}",
            f"{one.summary['balance']:g}",
            one.summary["margin"],
            str(one.summary["rank"] or "mean"),
            *([_weights(one)] if combined else []),
            f"{len(one.summary['languages'])}",
            one.summary["decided_by"] + (", maps" if "map" in one.summary else ""),
            "active" if one.id in active else "" if one.model == collection.model else "of another model",
        ]
        for one in kept
    ]
    console.table(
        [
            *("calibration", "made (UTC)", ">balance", "margin", ">taken out", *([">weights"] if combined else [])),
            *(">languages", "decided by", ""),
        ],
        rows,
        title=f"Calibrations of {name}",
    )
    if not active:
        console.say(f"none is active: plain cosine; choose one with: dragoman calibrate --use ID -c {name}")


def _weights(kept: KeptCalibration) -> str:
    return shown_weights(kept.summary.get("weights", ()))
