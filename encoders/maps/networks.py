"""NCA between several languages: a network for each ordered pair, as a mapping's folder holds them."""

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
from encoders.folder.model_config import read_json
from encoders.maps import nca_map
from encoders.maps.nca_map import Network
from encoders.maps.space_maps import FORMAT, HEADER, SpaceMaps, model_and_about


@dataclass(frozen=True)
class Networks:
    """Networks that map vectors of each language into the space of another.

    Attributes:
        model: id of the documents' vectors.
        graphs: ONNX graphs by source and target language.
        means: (dim,) mean of each language's rows in training.
    """

    model: str
    graphs: Mapping[tuple[str, str], bytes]
    means: Mapping[str, FloatArray]
    about: Mapping[str, Any]

    query_encoder = None
    """The documents' encoder encodes the queries too."""
    width = None
    """Documents are mapped into the space of the queries, whose width stays."""
    stands_in = False
    """There is no map for languages that the networks were not learnt from."""

    def mapped(self, query_lang: str, lang: str, rows: FloatArray) -> FloatArray:
        """Map centred documents of a language to compare them with queries of another, (n, dim).

        Only the direction of a row counts. The means of a collection and of its passages differ from those in training,
        so each row is moved to where the training documents lay: around their mean, at the root mean square distance
        that unit vectors have from it.
        """
        if (lang, query_lang) not in self.graphs:
            return rows
        mean = self.means[lang]
        radius = np.sqrt(np.maximum(np.float32(1) - mean @ mean, np.float32(0)))
        return self._network(lang, query_lang).transform(unit_rows(rows) * radius + mean)

    def queries_in_document_space(self, query_lang: str, lang: str, queries: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return the queries unchanged: no query vector can replace a network."""
        return queries

    def mapped_queries(self, lang: str, rows: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return the centred queries unchanged."""
        return rows

    def knows(self, lang: str) -> bool:
        """Whether networks were learnt for a language."""
        return lang in self.means

    def compared(self, lang: str, other: str, x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Rows whose cosines compare two languages, from (n, dim) and (m, dim) rows as the encoder made them.

        Raises:
            BadInput: there is no network for the languages.
        """
        for pair in ((lang, other), (other, lang)):
            if pair not in self.graphs:
                raise BadInput(
                    f"the mapping has no network from {pair[0]} to {pair[1]}; it knows {', '.join(self.means)}"
                )
        means = self.means[lang], self.means[other]
        return nca_map.compared(x, y, means, self._network(lang, other), self._network(other, lang))

    def _network(self, source: str, target: str) -> Network:
        if (source, target) not in self._loaded:
            self._loaded[source, target] = Network(self.graphs[source, target])
        return self._loaded[source, target]

    @cached_property
    def _loaded(self) -> dict[tuple[str, str], Network]:
        return {}

    def header(self) -> dict[str, Any]:
        """Everything but the networks and means, as JSON."""
        return {"format": FORMAT, "model": self.model, "networks": [*self.graphs], "about": dict(self.about)}

    def arrays(self) -> dict[str, np.ndarray]:
        """Means as float32 and graphs as bytes, by name."""
        arrays = {f"{_MEAN}{lang}": mean.astype(np.float32) for lang, mean in self.means.items()}
        for pair, graph in self.graphs.items():
            arrays[_GRAPH + "-".join(pair)] = np.frombuffer(graph, dtype=np.uint8)
        return arrays

    @classmethod
    def of(cls, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Self:
        """Make networks from the values of ``header`` and ``arrays``.

        Raises:
            KeyError: an entry or an array is missing.
            TypeError: an entry has another type.
        """
        model, pairs, about = _header(header)
        graphs = {pair: arrays[_GRAPH + "-".join(pair)].tobytes() for pair in pairs}
        means = {name.removeprefix(_MEAN): mean for name, mean in arrays.items() if name.startswith(_MEAN)}
        return cls(model, graphs, means, about)

    def write(self, folder: Path) -> None:
        """Write ``mapping.json``, ``nca/SOURCE-TARGET.onnx`` and ``nca/means.npz`` into an existing folder."""
        network_folder = folder / NETWORKS
        network_folder.mkdir()
        for pair, graph in self.graphs.items():
            _graph_file(network_folder, pair).write_bytes(graph)
        np.savez(network_folder / _MEANS, allow_pickle=False, **self.means)
        (folder / HEADER).write_text(json.dumps(self.header(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the files that ``write`` writes.

        Raises:
            BadInput: the folder is damaged or of another version, or a graph can't be loaded.
        """
        network_folder = folder / NETWORKS
        try:
            header = read_json(folder / HEADER)
            if header["format"] != FORMAT:
                raise BadInput(
                    f"{folder / HEADER} is of another version; make it again: dragoman train mapping --method nca"
                )
            model, pairs, about = _header(header)
            with np.load(network_folder / _MEANS, allow_pickle=False) as arrays:
                means = {lang: arrays[lang] for lang in arrays.files}
            graphs = {pair: _graph_file(network_folder, pair).read_bytes() for pair in pairs}
            networks = cls(model, graphs, means, about)
        except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
            raise BadInput(
                f"the networks in {folder} can't be read ({error}); "
                "make them again: dragoman train mapping --method nca"
            ) from error
        for pair in pairs:
            networks._network(*pair)
        return networks


def _header(header: Mapping[str, Any]) -> tuple[str, list[tuple[str, str]], dict[str, Any]]:
    """A header's model, the languages of its networks, and how they were made."""
    model, about = model_and_about(header)
    return model, [(str(source), str(target)) for source, target in header["networks"]], about


def read_mapping(folder: Path) -> SpaceMaps | Networks:
    """Read a mapping's folder, of any method.

    Raises:
        BadInput: the folder holds no mapping, or a damaged one.
    """
    return Networks.read(folder) if (folder / NETWORKS).is_dir() else SpaceMaps.read(folder)


NETWORKS = "nca"
"""Folder of the networks inside a mapping's folder."""
_MEANS = "means.npz"
_MEAN, _GRAPH = "means/", "graphs/"


def _graph_file(network_folder: Path, pair: tuple[str, str]) -> Path:
    return network_folder / f"{'-'.join(pair)}.onnx"
