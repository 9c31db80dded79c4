"""The upper part of HMDE: sentence vectors of a document → its vector, by an ONNX graph of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from encoders.document import FloatArray, unit_rows
from encoders.errors import BadInput
from encoders.folder import ModelFolder, file_hash
from encoders.session import Device, load_graph

GRAPH, ABOUT = "upper.onnx", "hmde.json"
FORMAT = 2
_TOGETHER = 64
"""Windows a batch; what fills them up to the longest is masked."""
_AGAIN = "train it again: dragoman train hmde SOURCE… -o FOLDER"

Form = Literal["paper", "weighted"]


@dataclass(frozen=True)
class UpperShape:
    """Sizes of the upper transformer (HMDE, appendix A.1), and what a document's vector is made of.

    Attributes:
        dim: width of sentence and document vectors.
        layers: of the transformer.
        heads: attention heads a layer.
        feed_forward: width inside the feed-forward part.
        sentences: the most it sees at once; of longer documents windows are averaged.
        tokens: the most a sentence may have, special tokens and prefix included.
        form: ``paper``: the mean of the sentences' outputs. ``weighted``: the mean of the sentences, with weights that
            their outputs give, and a linear map of it added; before training it is the plain mean, where queries are.
    """

    dim: int
    layers: int = 2
    heads: int = 6
    feed_forward: int = 2048
    sentences: int = 32
    tokens: int = 128
    form: Form = "paper"


@dataclass(frozen=True)
class UpperFile:
    """What ``hmde.json`` of a model folder says.

    Attributes:
        shape: of the upper transformer.
        weights: hash of its trained weights: the same for every build.
        graph: hash of ``upper.onnx``.
    """

    shape: UpperShape
    weights: str
    graph: str

    @classmethod
    def read(cls, folder: ModelFolder) -> UpperFile:
        """Read the file and see that the graph is the one it names and fits the folder's lower encoder.

        Raises:
            BadInput: one of them is missing, damaged or of another model.
        """
        file = folder.path / ABOUT
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
            found = cls(UpperShape(**data["shape"]), str(data["weights"]), str(data["graph"]))
            known = data["format"] == FORMAT and found.shape.form in get_args(Form)
        except FileNotFoundError as error:
            raise BadInput(f"{folder.path} has no {ABOUT}, which method hmde needs; {_AGAIN}") from error
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise BadInput(f"{file} can't be read ({error}); {_AGAIN}") from error
        if not known:
            raise BadInput(f"{file} is of another version of Dragoman; {_AGAIN}")
        if found.shape.dim != folder.config.dim:
            raise BadInput(
                f"{file} is for sentence vectors with {found.shape.dim} dimensions and the folder's encoder makes "
                f"{folder.config.dim}; {_AGAIN}"
            )
        graph = folder.path / GRAPH
        if not graph.is_file() or file_hash(graph) != found.graph:
            raise BadInput(f"{graph} is missing or damaged; {_AGAIN}")
        return found


def is_hmde(folder: ModelFolder) -> bool:
    """Whether a model folder has an upper encoder."""
    return (folder.path / ABOUT).is_file()


class UpperSession:
    """A loaded upper graph.

    Attributes:
        file: what it is.
    """

    def __init__(self, folder: ModelFolder, device: Device = "auto") -> None:
        """Load the graph.

        Raises:
            BadInput: it is missing, damaged or doesn't fit the folder.
            MissingPart: ONNX Runtime, or the device asked for, is not there.
        """
        self.file = UpperFile.read(folder)
        self._session = load_graph(folder.path / GRAPH, device)

    def documents(self, sentences: Sequence[FloatArray]) -> FloatArray:
        """Documents' sentence vectors, (sentences, dim) each → (documents, dim) unit rows; nothing gives a zero row.

        A document that is longer than the transformer is the mean over its windows, each counted by its sentences over
        the square of its place: the paper reads the first alone.
        """
        size = self.file.shape.sentences
        cuts = [(row, at) for row, one in enumerate(sentences) for at in range(0, len(one), size)]
        sums = np.zeros((len(sentences), self.file.shape.dim), dtype=np.float32)
        cuts.sort(key=lambda cut: min(len(sentences[cut[0]]) - cut[1], size))
        for start in range(0, len(cuts), _TOGETHER):
            windows = [sentences[row][at : at + size] for row, at in cuts[start : start + _TOGETHER]]
            stack, mask = padded(windows)
            vectors = self._session.run(["vectors"], {"sentences": stack, "mask": mask})[0]
            for (row, at), window, vector in zip(cuts[start : start + _TOGETHER], windows, vectors, strict=True):
                sums[row] += len(window) / (1 + at // size) ** 2 * vector
        return unit_rows(sums)


def padded(documents: Sequence[FloatArray]) -> tuple[FloatArray, np.ndarray[tuple[int, ...], np.dtype[np.int64]]]:
    """Documents' sentence vectors side by side, (documents, longest, dim) float32, zeros after; and their mask."""
    longest = max(map(len, documents))
    stack = np.zeros((len(documents), longest, documents[0].shape[1]), dtype=np.float32)
    mask = np.zeros((len(documents), longest), dtype=np.int64)
    for row, one in enumerate(documents):
        stack[row, : len(one)] = one
        mask[row, : len(one)] = 1
    return stack, mask
