"""Mate retrieval by a mapping that was learnt elsewhere: ``dragoman mates --map FOLDER``."""

from __future__ import annotations

from pathlib import Path

from encoders.errors import BadInput
from encoders.maps.mates import Mates
from encoders.maps.networks import Networks, read_mapping
from encoders.maps.parallel import Parallel
from encoders.maps.space import SpaceMaps
from query.alignment.mates import Compared, over_pairs
from query.calibration.mapped_calibration import check_model


def measured(folder: Path, parallel: Parallel, model: str) -> tuple[dict[str, Mates], list[str]]:
    """Mate retrieval over all ordered pairs of all documents: raw, centred, and by the mapping; and what it knows not.

    Linear maps are of what the documents' own means leave, as in a search; networks have means of their own. Languages
    that a linear map knows nothing of are as they are, or stand in the mean of the others' maps.

    Raises:
        BadInput: no concept is in all of the languages; the folder holds no mapping, or none for a pair of them.
        ModelMismatch: the mapping is for vectors of another model.
    """
    if not parallel.concepts:
        raise BadInput(
            f"no concept is in all of {', '.join(parallel.rows)}, so there is nothing to find; "
            "name languages that have documents of the same concepts: --languages"
        )
    maps = read_mapping(folder)
    check_model(maps, model, next(iter(parallel.rows.values())).shape[1])
    means = {lang: rows.mean(axis=0) for lang, rows in parallel.rows.items()}
    ways: dict[str, Compared] = {
        "raw": lambda lang, other, some: (some.rows[lang], some.rows[other]),
        "centred": lambda lang, other, some: (some.rows[lang] - means[lang], some.rows[other] - means[other]),
        str(maps.about["method"]): _by(maps),
    }
    unknown = [lang for lang in parallel.rows if not maps.knows(lang)]
    return {name: over_pairs(way, parallel) for name, way in ways.items()}, unknown


def _by(maps: SpaceMaps | Networks) -> Compared:
    if isinstance(maps, Networks):
        return lambda lang, other, some: maps.compared(lang, other, some.rows[lang], some.rows[other])
    return lambda lang, other, some: maps.compared(
        lang,
        other,
        some.rows[lang] - some.rows[lang].mean(axis=0),
        some.rows[other] - some.rows[other].mean(axis=0),
    )
