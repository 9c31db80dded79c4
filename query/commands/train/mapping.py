"""``dragoman train mapping``: learn maps between languages from documents about the same concepts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import click

from encoders.console import Console
from encoders.languages import normalise
from encoders.maps.networks import Networks
from encoders.maps.space import SpaceMaps
from encoders.wording import counted
from indexer.training.mapping import LearntMaps, MappingPlan, learn, require_writable, write
from indexer.training.mapping_sources import AlignedSources
from indexer.training.nca import LearntNetworks, learn_networks
from query.commands.options import PATH, aligned_options, output_options, place_options, reading_options, seed_option


@click.command("mapping")
@click.option("-o", "--output", type=PATH, required=True, help="Folder to make.")
@click.option(
    "--method",
    "map_method",
    type=click.Choice(["lca", "lcc", "nca"]),
    default="lca",
    show_default=True,
    help="lca: a map a pair of languages. lcc: codes of all languages. nca: networks a pair, which only rescore.",
)
@click.option("--ridge", type=click.FloatRange(0), help="0: the pseudo-inverse.  [default: by held-out concepts]")
@click.option(
    "--shrink",
    type=click.Choice(["itself", "nothing"]),
    default="itself",
    show_default=True,
    help="What a ridge draws LCA's maps to; nothing: as published.",
)
@click.option(
    "--pivot", default="", metavar="LANG", help="Language that LCA's maps go through.  [default: none up to 12]"
)
@click.option(
    "--dimensions", type=click.IntRange(1), help="Of LCC's codes (200); principal axes that LCA cuts to (all)."
)
@seed_option("Of the held-out concepts.")
@reading_options
@place_options
@aligned_options
@output_options
def command(
    output: Path,
    map_method: Literal["lca", "lcc", "nca"],
    ridge: float | None,
    shrink: str,
    pivot: str,
    dimensions: int | None,
    seed: int,
    aligned: AlignedSources,
    console: Console,
) -> None:
    """Learn maps between the languages of SOURCEs, whose documents have the field `concept`, in seconds.

    The concept is the same for translations of one another; fifty of them are enough for a start. FOLDER is then ranked
    with: dragoman calibrate -c NAME --map FOLDER. No document is encoded again. Without SOURCEs, -c NAME takes the
    vectors that a collection holds. The networks of --method nca take minutes; no index can be asked through them, so
    they compare what is found without a map. dragoman mates --map FOLDER measures a mapping elsewhere.
    """
    if map_method == "nca" and (pivot or dimensions is not None or ridge is not None):
        raise click.UsageError("--ridge, --pivot and --dimensions are of lca and lcc; leave them out with nca")
    require_writable(output)
    documents, spec = aligned.load(console)
    if map_method == "nca":
        networks = learn_networks(documents, spec, seed, console)
        write(networks.networks, output)
        _show_networks(networks, output, console)
        return
    plan = MappingPlan(map_method, ridge, shrink == "itself", normalise(pivot) if pivot else "", dimensions, seed)
    learnt = learn(documents, spec, plan)
    write(learnt.maps, output)
    for remark in learnt.remarks:
        console.warn(remark)
    _show_maps(learnt, output, console)


def _show_maps(learnt: LearntMaps, output: Path, console: Console) -> None:
    maps, best = learnt.maps, learnt.tried[learnt.ridge]
    values = {
        "tried": {f"{ridge:g}": asdict(mates) for ridge, mates in learnt.tried.items()},
        "centred": asdict(learnt.centred),
        "pairs": {f"{lang} → {other_lang}": count for (lang, other_lang), count in learnt.pairs.items()},
        "remarks": learnt.remarks,
    }
    outcome = (
        f"{counted(maps.about['concepts'], 'concept')}, {min(learnt.pairs.values()):,} to "
        f"{max(learnt.pairs.values()):,} a pair of {len(maps.about['languages'])} languages; mates of "
        f"held-out concepts found first: {best.rate:.3f} (means taken out only: {learnt.centred.rate:.3f}), "
        f"ridge {learnt.ridge:g}"
    )
    _show_mapping(maps, values, outcome, output, console)


def _show_networks(learnt: LearntNetworks, output: Path, console: Console) -> None:
    networks = learnt.networks
    values = {"reached": asdict(learnt.reached), "centred": asdict(learnt.centred)}
    outcome = (
        f"{len(networks.graphs)} networks of {len(networks.about['languages'])} languages, learnt from "
        f"{counted(networks.about['concepts'], 'concept')}; mates of held-out concepts found first: "
        f"{learnt.reached.rate:.3f} (means taken out only: {learnt.centred.rate:.3f})"
    )
    _show_mapping(networks, values, outcome, output, console)


def _show_mapping(
    mapping: SpaceMaps | Networks, values: Mapping[str, Any], outcome: str, output: Path, console: Console
) -> None:
    console.emit({"folder": str(output), **mapping.about, "model": mapping.model, **values})
    console.say(f"{outcome}; use it: dragoman calibrate -c NAME --map {output}")
    console.result(str(output))
