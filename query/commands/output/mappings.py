"""Trained mappings for a person, and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from encoders.console import Console
from encoders.wording import counted
from indexer.training.mapping_training import LearntMaps


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
    console.emit({"folder": str(output), **maps.about, "model": maps.model, **values})
    console.say(f"{outcome}; use it: dragoman calibrate -c {collection or 'NAME'} --map {output}")
    console.result(str(output))
