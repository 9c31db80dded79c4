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

from encoders.document import FloatArray, unit_rows
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

    asker = None
    """Queries are of the documents' own encoder."""
    width = None
    """Documents come into the queries' space."""
    stands_in = False
    """Nothing compares languages that it doesn't know."""

    def mapped(self, query_lang: str, lang: str, rows: FloatArray) -> FloatArray:
        """Centred documents of a language as they compare with queries of another, (n, dim); only directions count.

        A collection has means of its own, and passages others, so a network is given a direction as the languages'
        documents lay in training: as far from their mean as those, unit vectors, were (in square mean).
        """
        if (lang, query_lang) not in self.graphs:
            return rows
        mean = self.means[lang]
        radius = np.sqrt(np.maximum(np.float32(1) - mean @ mean, np.float32(0)))
        return self._network(lang, query_lang).transform(unit_rows(rows) * radius + mean)

    def asking(self, query_lang: str, lang: str, queries: FloatArray) -> FloatArray:  # noqa: ARG002
        """Queries as they ask for a language's documents: as they are, as no query stands for a network."""
        return queries

    def mapped_queries(self, lang: str, rows: FloatArray) -> FloatArray:  # noqa: ARG002
        """Centred queries of a language as they are compared: as they are."""
        return rows

    def knows(self, lang: str) -> bool:
        """Whether networks were learnt of a language."""
        return lang in self.means

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

    def header(self) -> dict[str, Any]:
        """All but the networks and means, as JSON carries it."""
        return {"format": FORMAT, "model": self.model, "networks": [*self.graphs], "about": dict(self.about)}

    def arrays(self) -> dict[str, np.ndarray]:
        """Means by name, float32, and graphs, as bytes."""
        found = {f"{_MEAN}{lang}": mean.astype(np.float32) for lang, mean in self.means.items()}
        for pair, graph in self.graphs.items():
            found[_GRAPH + "-".join(pair)] = np.frombuffer(graph, dtype=np.uint8)
        return found

    @classmethod
    def of(cls, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Self:
        """What ``header`` and ``arrays`` gave.

        Raises:
            KeyError: something is missing.
        """
        pairs = [(str(source), str(target)) for source, target in header["networks"]]
        graphs = {pair: arrays[_GRAPH + "-".join(pair)].tobytes() for pair in pairs}
        means = {name.removeprefix(_MEAN): mean for name, mean in arrays.items() if name.startswith(_MEAN)}
        return cls(header["model"], graphs, means, header["about"])

    def write(self, folder: Path) -> None:
        """Write ``mapping.json``, ``nca/SOURCE-TARGET.onnx`` and ``nca/means.npz`` into a folder that is there."""
        inside = folder / NETWORKS
        inside.mkdir()
        for pair, graph in self.graphs.items():
            _graph(inside, pair).write_bytes(graph)
        np.savez(inside / _MEANS, allow_pickle=False, **self.means)
        (folder / HEADER).write_text(json.dumps(self.header(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read what ``write`` wrote.

        Raises:
            BadInput: it is damaged or of another version, or a graph can't be loaded.
        """
        inside = folder / NETWORKS
        try:
            header = json.loads((folder / HEADER).read_text(encoding="utf-8"))
            if header["format"] != FORMAT:
                raise BadInput(
                    f"{folder / HEADER} is of another version; make it again: dragoman train mapping --method nca"
                )
            pairs = [(str(source), str(target)) for source, target in header["networks"]]
            with np.load(inside / _MEANS, allow_pickle=False) as arrays:
                means = {lang: arrays[lang] for lang in arrays.files}
            graphs = {pair: _graph(inside, pair).read_bytes() for pair in pairs}
            found = cls(header["model"], graphs, means, header["about"])
        except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
            raise BadInput(
                f"the networks in {folder} can't be read ({error}); "
                "make them again: dragoman train mapping --method nca"
            ) from error
        for pair in pairs:
            found._network(*pair)
        return found


def read_mapping(folder: Path) -> SpaceMaps | Networks:
    """Read a mapping's folder, of whatever method.

    Raises:
        BadInput: it holds none, or a damaged one.
    """
    return Networks.read(folder) if (folder / NETWORKS).is_dir() else SpaceMaps.read(folder)


NETWORKS = "nca"
"""Folder of the networks within a mapping's."""
_MEANS = "means.npz"
_MEAN, _GRAPH = "means/", "graphs/"


def _graph(inside: Path, pair: tuple[str, str]) -> Path:
    return inside / f"{'-'.join(pair)}.onnx"
