"""Labels of sources: the ids of whole files begin with the label where several sources are read together."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path, PurePath

from indexer.readers import elastic, irdatasets
from indexer.readers.standard_input import STANDARD_INPUT


def source_labels(sources: Sequence[str]) -> dict[str, str]:
    """A label for each file and folder: its name, with as many of its folders' names as tell it from the others.

    The label of a lone file or folder is empty. Labels don't depend on the working directory, as long as it does not
    change which files and folders are meant.
    """
    parts = {source: _parts(source) for source in sources if is_path(source)}
    lengths = dict.fromkeys(parts, 1)
    while True:
        labels = {source: "/".join(parts[source][-length:]) for source, length in lengths.items()}
        labelled = defaultdict(set)
        for source, label in labels.items():
            labelled[label].add(parts[source])
        clashing = [source for source, label in labels.items() if len(labelled[label]) > 1]
        if not clashing:
            return labels if len(set(parts.values())) > 1 else dict.fromkeys(labels, "")
        for source in clashing:
            lengths[source] += 1


def is_path(source: str) -> bool:
    """Whether a source is a file or a folder."""
    return source != STANDARD_INPUT and not source.startswith((elastic.PREFIX, irdatasets.PREFIX))


def _parts(source: str) -> tuple[str, ...]:
    """Names of the folders above a file or folder, and its own."""
    path = PurePath(os.path.normpath(Path(source).expanduser().absolute()))
    return path.parts[1:]
