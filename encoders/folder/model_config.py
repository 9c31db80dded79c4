"""``config.json`` of a model folder: what the model is, and the ids of its vectors."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from encoders.document import EncoderSpec, short_hash

Pooling = Literal["mean", "cls", "cls-dense-tanh", "max", "lasttoken", "weightedmean", "sum", "cross-encoder"]
Precision = Literal["fp32", "fp16", "int8", "q4"]
FORMAT = 1


@dataclass(frozen=True)
class ModelConfig:
    """The content of ``config.json`` in a model folder."""

    name: str
    dim: int
    max_tokens: int  # longest input, special tokens included; 0 means no limit
    pooling: Pooling  # of token states: LASER ``max``, Cr5 ``sum`` of words; a ``cross-encoder`` scores pairs
    query_prefix: str
    document_prefix: str
    languages: tuple[str, ...]  # BCP 47 tags the model was trained for; empty if unknown
    precision: Precision
    weights: str  # hash of the source weights; all builds of one model share it
    tokenizer: str  # hash of ``tokenizer.json``, or of ``vocabulary.json``
    graph: str  # hash of the ONNX graph with its weights
    licence: str = ""  # of the source weights, as their publisher states it; empty if unknown
    forced: bool = False  # whether the model was published although its graph failed the parity check
    pieces: str = ""  # hash of the table of the tokenizer's pieces; empty if there is none
    has_weights_beside: bool = False  # whether ``model.onnx.data``, memory-mapped, has large weights
    format: int = FORMAT

    def model_id(self, method: str, **settings: object) -> str:
        """Return the id of the vectors that a document method with these settings makes with this model.

        It depends on source weights, tokenizer, prefixes, pooling, method and settings, not on the build: int8 on a CPU
        and fp16 on a GPU write into one index. A forced graph may make other vectors, so the id covers its hash.
        """
        return short_hash(
            self.weights,
            self.tokenizer,
            self.pooling,
            self.query_prefix,
            self.document_prefix,
            method,
            json.dumps(settings, sort_keys=True),
            *([self.graph] if self.forced else []),
        )

    def spec(self, method: str, **settings: object) -> EncoderSpec:
        """Spec of a document encoder over this model, by its method and the settings that decide its vectors."""
        return EncoderSpec(
            name=self.name,
            method=method,
            dim=self.dim,
            languages=self.languages,
            model=self.model_id(method, **settings),
            build=self.build_id,
        )

    @property
    def tokenizer_name(self) -> str:
        """Name of the file that turns texts into the graph's ids."""
        return "vocabulary.json" if self.pooling == "sum" else "tokenizer.json"

    @property
    def is_reranker(self) -> bool:
        """Whether the model scores pairs of a query and a passage, and makes no vectors."""
        return self.pooling == "cross-encoder"

    @property
    def output(self) -> str:
        """Name of the graph's output."""
        return "scores" if self.is_reranker else "vectors"

    @property
    def build_id(self) -> str:
        """The id of the exact graph."""
        return short_hash(self.graph, self.precision)


def read_json(file: Path) -> Any:
    """Parse a JSON file. Raises OSError: it can't be read; ValueError: it is no JSON in UTF-8, or nested too deeply."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
