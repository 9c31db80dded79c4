"""Trained mappings for a person, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from encoders.console import Console
from encoders.maps.networks import Networks
from encoders.maps.space_maps import SpaceMaps
from encoders.wording import counted
from indexer.training.mapping_training import LearntMaps
from indexer.training.nca_training import LearntNetworks


def show_maps(learnt: LearntMaps, collection: str | None, output: Path, console: Console) -> None:
    """Show what linear maps find, and how to rank ``collection`` with their folder ``output``."""
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
    _show_mapping(maps, values, outcome, collection, output, console)


def show_networks(learnt: LearntNetworks, collection: str | None, output: Path, console: Console) -> None:
    """Show what networks find, and how to rank ``collection`` with their folder ``output``."""
    networks = learnt.networks
    values = {"reached": asdict(learnt.reached), "centred": asdict(learnt.centred)}
    outcome = (
        f"{len(networks.graphs)} networks of {len(networks.about['languages'])} languages, learnt from "
        f"{counted(networks.about['concepts'], 'concept')}; mates of held-out concepts found first: "
        f"{learnt.reached.rate:.3f} (means taken out only: {learnt.centred.rate:.3f})"
    )
    _show_mapping(networks, values, outcome, collection, output, console)


def _show_mapping(
    mapping: SpaceMaps | Networks,
    values: Mapping[str, Any],
    outcome: str,
    collection: str | None,
    output: Path,
    console: Console,
) -> None:
    console.emit({"folder": str(output), **mapping.about, "model": mapping.model, **values})
    console.say(f"{outcome}; use it: dragoman calibrate -c {collection or 'NAME'} --map {output}")
    console.result(str(output))
