"""The parity gate: does a graph say what the model it was made from says?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from encoders.document import BoolArray, FloatArray, unit_rows
from encoders.errors import BadInput
from encoders.folder import ModelFolder, Precision
from encoders.session import OnnxSession
from encoders.text.tokens import Tokenizer

TOP = 10
"""Depth of the rankings that are compared."""


@dataclass(frozen=True)
class GateText:
    """A text the gate encodes.

    Attributes:
        lang: BCP 47 tag.
        role: encoded as a query or as a document, with that role's prefix.
        text: the text.
    """

    lang: str
    role: Literal["query", "document"]
    text: str


@dataclass(frozen=True)
class ParityBar:
    """What a graph must reach to be published.

    Attributes:
        cosine_min: of the worst text's vector with its reference.
        cosine_mean: over all texts.
        top10_agreement: share of the reference's ten best documents that the graph finds too.
    """

    cosine_min: float
    cosine_mean: float
    top10_agreement: float


BARS: Mapping[Precision, ParityBar] = {
    "fp32": ParityBar(cosine_min=0.9999, cosine_mean=0.9999, top10_agreement=0.99),
    "fp16": ParityBar(cosine_min=0.999, cosine_mean=0.9995, top10_agreement=0.97),
    "int8": ParityBar(cosine_min=0.97, cosine_mean=0.99, top10_agreement=0.80),
    "q4": ParityBar(cosine_min=0.95, cosine_mean=0.98, top10_agreement=0.75),
}
"""The bar of each precision.

=====  ======  =====  ======  ====================================================================================
       min     mean   top 10  why there
=====  ======  =====  ======  ====================================================================================
fp32   0.9999  0.9999 0.99    the same arithmetic in another order: about 1e-6 from torch; a wrong pooling, position
                              or mask is far below
fp16   0.999   0.9995 0.97    eleven bits of mantissa through twelve layers: 0.99999 on multilingual-E5-small; an
                              overflow is far below
int8   0.97    0.99   0.80    multilingual-E5-small, per channel: min .9948, mean .9968, top 10 .92; with one scale for
                              a whole matrix mean .9886, top 10 .87, which should not pass
q4     0.95    0.98   0.75    rounding of the weights alone, and activations in int8 as above
=====  ======  =====  ======  ====================================================================================

A text's neighbours at rank ten lie closer together than any of these cosines, so agreement falls fast and its bar is
the loosest: it is there for graphs that keep every vector near its place and still shuffle the rankings.
"""


@dataclass(frozen=True)
class ParityReport:
    """How near a graph's vectors are to the reference's.

    Attributes:
        precision: of the graph.
        cosine_min: the worst text's.
        cosine_mean: over all texts.
        top10_agreement: mean share of common documents in the ten nearest of each query.
        texts: how many were compared.
        languages: of the texts.
        worst: the text with the lowest cosine.
        bar: what had to be reached.
        forced: published below the bar because the user said so.
    """

    precision: Precision
    cosine_min: float
    cosine_mean: float
    top10_agreement: float
    texts: int
    languages: tuple[str, ...]
    worst: str
    bar: ParityBar
    forced: bool = False

    @property
    def passed(self) -> bool:
        """Whether the bar is reached."""
        return not self.shortfalls()

    def shortfalls(self) -> list[str]:
        """What stays below the bar, as ``cosine_min 0.9512 < 0.97``."""
        return [
            f"{name} {getattr(self, name):.4f} < {needed}"
            for name, needed in asdict(self.bar).items()
            if not getattr(self, name) >= needed
        ]

    def rows(self) -> list[tuple[str, str, str, str]]:
        """The report as a table: measure, value, bar, verdict."""
        rows = []
        for name, needed in asdict(self.bar).items():
            value = getattr(self, name)
            rows.append((name.replace("_", " "), f"{value:.5f}", f"≥ {needed}", "ok" if value >= needed else "below"))
        return rows

    def as_json(self) -> dict[str, Any]:
        """The report as ``parity.json`` holds it."""
        return {**asdict(self), "languages": list(self.languages), "passed": self.passed}


def read_texts(file: Path | None = None) -> list[GateText]:
    """The gate's texts, JSON lines of ``lang``, ``role`` and ``text``; those of the package unless a file is given."""
    source = file or Path(__file__).with_name("texts.jsonl")
    return [GateText(**json.loads(line)) for line in source.read_text(encoding="utf-8").splitlines()]


def check_parity(folder: ModelFolder, texts: Sequence[GateText], reference: FloatArray) -> ParityReport:
    """Encode the texts as search and indexing would and compare with the reference.

    Tokenizer, prefixes, batches and session are the ones of every other command, on the CPU, so that a difference in
    any of them is found here.

    Args:
        folder: the model; its graph and tokenizer are read.
        texts: at least one query and eleven documents, so that a ranking can differ.
        reference: (texts, dim) float32, what the source model makes of each text with its role's prefix.

    Raises:
        BadInput: the vectors of the graph are not comparable: another shape, or not numbers.
    """
    return compare(folder.config.precision, texts, encode(folder, texts), reference)


def encode(folder: ModelFolder, texts: Sequence[GateText]) -> FloatArray:
    """Vectors of the gate's texts, (texts, dim) float32, by a model folder on the CPU."""
    tokenizer = Tokenizer(folder)
    session = OnnxSession(folder, device="cpu")
    rows = []
    for text, tokens in zip(texts, tokenizer.tokenize([text.text for text in texts]), strict=True):
        is_query = text.role == "query"
        overhead = tokenizer.query_overhead if is_query else tokenizer.document_overhead
        ids = tokens.ids[: folder.config.max_tokens - overhead]
        rows.append(tokenizer.query(ids) if is_query else tokenizer.segment(ids))
    return session.run(rows, tokenizer.pad)


def compare(
    precision: Precision, texts: Sequence[GateText], vectors: FloatArray, reference: FloatArray
) -> ParityReport:
    """Compare vectors with the reference's, both (texts, dim).

    Raises:
        BadInput: shapes differ or a vector holds something that is no number.
    """
    if vectors.shape != reference.shape:
        raise BadInput(
            f"the graph makes vectors of shape {vectors.shape}, the model {reference.shape}; report this model"
        )
    if not np.isfinite(vectors).all():
        raise BadInput(f"the {precision} graph overflows: its vectors are not numbers; export with --precision fp32")
    ours, theirs = unit_rows(vectors), unit_rows(reference)
    cosines = np.einsum("ij,ij->i", ours, theirs, dtype=np.float64)
    is_query = np.array([text.role == "query" for text in texts])
    return ParityReport(
        precision=precision,
        cosine_min=float(cosines.min()),
        cosine_mean=float(cosines.mean()),
        top10_agreement=top_agreement(ours, theirs, is_query),
        texts=len(texts),
        languages=tuple(sorted({text.lang for text in texts})),
        worst=texts[int(cosines.argmin())].text,
        bar=BARS[precision],
    )


def top_agreement(vectors: FloatArray, reference: FloatArray, is_query: BoolArray, depth: int = TOP) -> float:
    """Mean share of the reference's ``depth`` nearest documents of each query that are the vectors' nearest too.

    Args:
        vectors: (texts, dim) unit rows.
        reference: the same texts, (texts, dim) unit rows.
        is_query: (texts,) true for queries, false for documents.
        depth: of the rankings.
    """
    mine, theirs = (_nearest(rows, is_query, depth) for rows in (vectors, reference))
    shares = [len(set(a) & set(b)) / len(b) for a, b in zip(mine, theirs, strict=True)]
    return float(np.mean(shares))


def _nearest(rows: FloatArray, is_query: BoolArray, depth: int) -> list[list[int]]:
    cosines = rows[is_query] @ rows[~is_query].T
    nearest: list[list[int]] = np.argsort(-cosines, axis=1, kind="stable")[:, :depth].tolist()
    return nearest
