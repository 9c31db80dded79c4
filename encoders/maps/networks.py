"""NCA between several languages: a network each way of each pair, as a mapping's folder holds them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self
from zipfile import BadZipFile

import numpy as np

from encoders.document import FloatArray
from encoders.errors import BadInput
from encoders.maps import nca
from encoders.maps.nca import Network
from encoders.maps.space import FORMAT, HEADER, SpaceMaps


@dataclass(frozen=True)
class Networks:
    """What compares documents of two languages by what each says of the other.

    Attributes:
        model: id of the documents' vectors.
        graphs: ONNX graphs by the languages that they lead from and to.
        means: (dim,) of each language's rows in training.
        about: how they were made, for people.
    """

    model: str
    graphs: Mapping[tuple[str, str], bytes]
    means: Mapping[str, FloatArray]
    about: Mapping[str, Any]

    def compared(self, lang: str, other: str, x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Rows whose cosines compare two languages' rows, (n, dim) and (m, dim) as the encoder made them.

        Raises:
            BadInput: there is no network for them.
        """
        for pair in ((lang, other), (other, lang)):
            if pair not in self.graphs:
                raise BadInput(
                    f"the mapping has no network from {pair[0]} to {pair[1]}; it knows {', '.join(self.means)}"
                )
        means = self.means[lang], self.means[other]
        return nca.compared(x, y, means, self._network(lang, other), self._network(other, lang))

    def _network(self, source: str, target: str) -> Network:
        if (source, target) not in self._loaded:
            self._loaded[source, target] = Network(self.graphs[source, target])
        return self._loaded[source, target]

    @cached_property
    def _loaded(self) -> dict[tuple[str, str], Network]:
        return {}

    def write(self, folder: Path) -> None:
        """Write ``mapping.json``, ``nca/SOURCE-TARGET.onnx`` and ``nca/means.npz`` into a folder that is there."""
        inside = folder / NETWORKS
        inside.mkdir()
        for pair, graph in self.graphs.items():
            _graph(inside, pair).write_bytes(graph)
        np.savez(inside / _MEANS, allow_pickle=False, **self.means)
        header = {"format": FORMAT, "model": self.model, "networks": [*self.graphs], "about": dict(self.about)}
        (folder / HEADER).write_text(json.dumps(header, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read what ``write`` wrote.

        Raises:
            BadInput: it is damaged.
        """
        inside = folder / NETWORKS
        try:
            header = json.loads((folder / HEADER).read_text(encoding="utf-8"))
            pairs = [(str(source), str(target)) for source, target in header["networks"]]
            with np.load(inside / _MEANS, allow_pickle=False) as arrays:
                means = {lang: arrays[lang] for lang in arrays.files}
            graphs = {pair: _graph(inside, pair).read_bytes() for pair in pairs}
            return cls(header["model"], graphs, means, header["about"])
        except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
            raise BadInput(
                f"the networks in {folder} can't be read ({error}); "
                "make them again: dragoman train mapping --method nca"
            ) from error


def read_mapping(folder: Path) -> SpaceMaps | Networks:
    """Read a mapping's folder, of whatever method.

    Raises:
        BadInput: it holds none, or a damaged one.
    """
    return Networks.read(folder) if (folder / NETWORKS).is_dir() else SpaceMaps.read(folder)


NETWORKS = "nca"
"""Folder of the networks within a mapping's."""
_MEANS = "means.npz"


def _graph(inside: Path, pair: tuple[str, str]) -> Path:
    return inside / f"{'-'.join(pair)}.onnx"
