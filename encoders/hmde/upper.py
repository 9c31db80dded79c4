"""The upper encoder of HMDE: the vectors of a document's segments → the document's vector, by a second ONNX graph."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from encoders.document import FloatArray, unit_rows
from encoders.errors import BadInput
from encoders.field_types import filled
from encoders.folder.model_cache import file_hash
from encoders.folder.model_config import read_json
from encoders.folder.model_folder import ModelFolder, graph_files, is_forced
from encoders.inference.graph import Graph
from encoders.machine.placement import Device, place

GRAPH, ABOUT, WEIGHTS = "upper.onnx", "hmde.json", "weights.safetensors"
CARD_HEADING = "Documents (HMDE)"
"""Heading of the model card's section about the upper encoder."""
FORMAT = 2
_TOGETHER = 64
"""Parts of documents in a batch; shorter parts are padded to the longest, and the padding is masked."""
_AGAIN = "train it again: dragoman train hmde SOURCE… -o FOLDER"

Form = Literal["paper", "weighted"]
Segmentation = Literal["sentences", "windows", "plain-windows"]
"""The segments of a document: its sentences, windows of tokens that are read with the title, as method *windows*, or
windows of tokens alone (HMDE, table 4)."""


@dataclass(frozen=True)
class UpperShape:
    """Sizes of the upper transformer (HMDE, appendix A.1), and how a document's vector is made."""

    dim: int
    layers: int = 2
    heads: int = 6
    feed_forward: int = 2048
    sentences: int = 32  # maximum segments read at once; a longer document is read in parts
    tokens: int = 128  # maximum tokens of a segment, special tokens and prefix included
    # ``paper``: the mean of the transformer's outputs. ``weighted``: the mean of the segments' vectors with weights
    # from the transformer's outputs, plus a linear map of that mean; before training it is the plain mean, in the space
    # of the queries.
    form: Form = "paper"
    segmentation: Segmentation = "sentences"
    whole: bool = True  # further segments are read in further parts; if not, they are left out


@dataclass(frozen=True)
class UpperFile:
    """The content of ``hmde.json`` in a model folder."""

    shape: UpperShape
    weights: str  # hash of the trained weights; all builds share it
    graph: str  # hash of ``upper.onnx`` and of its weights beside it
    forced: bool = False  # whether it was published although the graphs together failed the parity check
    frozen: bool = True  # whether the lower encoder stayed as it was

    @classmethod
    def read(cls, folder: ModelFolder) -> Self:
        """Read and check the file. Raises BadInput: file or graph is missing, damaged or of another model."""
        file = folder.path / ABOUT
        try:
            data = read_json(file)
            shape = filled(UpperShape, data["shape"])
            is_frozen = bool(data.get("settings", {}).get("frozen", True))
            upper = cls(shape, str(data["weights"]), str(data["graph"]), is_forced(data.get("parity", {})), is_frozen)
            is_known = data["format"] == FORMAT
        except FileNotFoundError as error:
            raise BadInput(f"{folder.path} has no {ABOUT}, which method hmde needs; {_AGAIN}") from error
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise BadInput(f"{file} can't be read ({error}); {_AGAIN}") from error
        if not is_known:
            raise BadInput(f"{file} is of another version of Dragoman; {_AGAIN}")
        if min(upper.shape.sentences, upper.shape.tokens) < 1:
            raise BadInput(f"{file} lets the transformer read no segment or no token; {_AGAIN}")
        if upper.shape.dim != folder.config.dim:
            raise BadInput(
                f"{file} is for vectors with {upper.shape.dim} dimensions and the folder's encoder makes "
                f"{folder.config.dim}; {_AGAIN}"
            )
        graph = folder.path / GRAPH
        if not graph.is_file() or file_hash(*graph_files(graph)) != upper.graph:
            raise BadInput(f"{graph} is missing or damaged; {_AGAIN}")
        return upper


def is_hmde(folder: ModelFolder) -> bool:
    """Whether a model folder has an upper encoder."""
    return (folder.path / ABOUT).is_file()


class UpperSession:
    """A loaded upper graph and the content of its ``hmde.json``."""

    def __init__(self, folder: ModelFolder, device: Device = "auto") -> None:
        """Load the graph. Raises BadInput: it is missing, damaged or doesn't fit; MissingPart: from the session."""
        self.file = UpperFile.read(folder)
        self._graph = Graph(folder.path / GRAPH, place(device))

    def documents(self, segments: Sequence[FloatArray]) -> FloatArray:
        """Segments' vectors, (segments, dim) for each document → (documents, dim) unit rows; no segment: a zero row.

        A document of more segments than are read at once is the mean over its parts, each weighted by its segments over
        the square of its position from 1. Unless the shape says ``whole``, the first part alone is read, as published.
        """
        size = self.file.shape.sentences
        if not self.file.shape.whole:
            segments = [document[:size] for document in segments]
        cuts = [(row, first) for row, document in enumerate(segments) for first in range(0, len(document), size)]
        sums = np.zeros((len(segments), self.file.shape.dim), dtype=np.float32)
        cuts.sort(key=lambda cut: min(len(segments[cut[0]]) - cut[1], size))
        for start in range(0, len(cuts), _TOGETHER):
            parts = [segments[row][first : first + size] for row, first in cuts[start : start + _TOGETHER]]
            stack, mask = padded(parts)
            vectors = self._graph.run("vectors", {"sentences": stack, "mask": mask})
            for (row, first), part, vector in zip(cuts[start : start + _TOGETHER], parts, vectors, strict=True):
                sums[row] += len(part) / (1 + first // size) ** 2 * vector
        return unit_rows(sums)


def padded(documents: Sequence[FloatArray]) -> tuple[FloatArray, np.ndarray[tuple[int, ...], np.dtype[np.int64]]]:
    """Stack the vectors of documents' segments, (documents, longest, dim) float32 padded with zeros; and their mask."""
    longest = max(map(len, documents))
    stack = np.zeros((len(documents), longest, documents[0].shape[1]), dtype=np.float32)
    mask = np.zeros((len(documents), longest), dtype=np.int64)
    for row, vectors in enumerate(documents):
        stack[row, : len(vectors)] = vectors
        mask[row, : len(vectors)] = 1
    return stack, mask
