"""The parity gate: compare a graph's vectors with those of the model that it was made from."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from encoders.document import BoolArray, FloatArray, Int32Array, unit_rows
from encoders.errors import BadInput
from encoders.folder.model_config import Precision, read_json
from encoders.folder.model_folder import ModelFolder
from encoders.hmde.upper import UpperSession
from encoders.inference.session import OnnxSession
from encoders.machine.placement import Device
from encoders.text.fast_tokenizer import GATE_TEXTS
from encoders.text.tokens import Tokenizer

TOP = 10
"""Depth of the compared rankings."""


@dataclass(frozen=True)
class GateText:
    """A text that the gate encodes as a query or as a document, with the role's prefix."""

    lang: str
    role: Literal["query", "document"]
    text: str


@dataclass(frozen=True)
class ParityBar:
    """Minimum values of a ``ParityReport``, below which its graph is not published."""

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
       min     mean   top 10  reason
=====  ======  =====  ======  ====================================================================================
fp32   0.9999  0.9999 0.99    the same arithmetic in another order: about 1e-6 from torch; a wrong pooling, position
                              or mask is far below
fp16   0.999   0.9995 0.97    eleven bits of mantissa through twelve layers: 0.99999 on multilingual-E5-small; an
                              overflow is far below
int8   0.97    0.99   0.80    multilingual-E5-small: min .998, mean .999, top 10 .97; with dynamic ranges and one scale
                              for a whole matrix mean .9886, top 10 .87, which should not pass
q4     0.95    0.98   0.75    rounding of the weights alone, and activations in int8 as above
=====  ======  =====  ======  ====================================================================================

A text's neighbours near rank ten are closer together than any of these cosines, so agreement falls fast and its bar is
the loosest. This bar detects graphs that move every vector little but still change the rankings.
"""


@dataclass(frozen=True)
class ParityReport:
    """Similarity of a graph's vectors to the reference vectors."""

    precision: Precision
    cosine_min: float  # smallest cosine of a text's two vectors
    cosine_mean: float  # mean cosine over all texts
    top10_agreement: float  # mean share of common documents among the ten nearest of each query
    texts: int
    languages: tuple[str, ...]
    worst: str  # the text with the smallest cosine
    bar: ParityBar
    forced: bool = False  # whether the graph was published below the bar because the user forced it

    @property
    def passed(self) -> bool:
        """Whether the bar is reached."""
        return not self.shortfalls()

    def shortfalls(self) -> list[str]:
        """The measures below the bar, as ``cosine_min 0.9512 < 0.97``."""
        return [
            f"{name} {getattr(self, name):.4f} < {minimum}"
            for name, minimum in asdict(self.bar).items()
            if not getattr(self, name) >= minimum
        ]

    def rows(self) -> list[tuple[str, str, str, str]]:
        """The report as a table: measure, value, bar, verdict."""
        rows = []
        for name, minimum in asdict(self.bar).items():
            value = getattr(self, name)
            rows.append((name.replace("_", " "), f"{value:.5f}", f"≥ {minimum}", "ok" if value >= minimum else "below"))
        return rows

    def table(self) -> str:
        """The report as a Markdown table."""
        rows = "\n".join(f"| {' | '.join(row)} |" for row in self.rows())
        return f"| measure | value | bar | |\n|---|---:|---:|---|\n{rows}"

    @property
    def verdict(self) -> str:
        """Whether the bar is reached, for a model card."""
        return "reached" if self.passed else "**not reached**; published because it was forced"

    def as_json(self) -> dict[str, Any]:
        """The report as ``parity.json`` holds it."""
        return {**asdict(self), "languages": list(self.languages), "passed": self.passed}


def read_texts() -> list[GateText]:
    """Read the gate's texts from the package's file."""
    return [GateText(**json.loads(line)) for line in GATE_TEXTS.read_text(encoding="utf-8").splitlines()]


def read_report(folder: ModelFolder) -> ParityReport | None:
    """The report in a folder's ``parity.json``; none if there is no such file."""
    file = folder.path / "parity.json"
    if not file.is_file():
        return None
    stated = read_json(file)
    stated.pop("passed")
    return ParityReport(**{**stated, "languages": tuple(stated["languages"]), "bar": ParityBar(**stated["bar"])})


def check_parity(folder: ModelFolder, texts: Sequence[GateText], reference: FloatArray) -> ParityReport:
    """Encode the texts on the CPU as search and indexing do, and compare the vectors with the reference.

    There are at least one query and eleven documents, so that a ranking can differ. ``reference`` (texts, dim) float32
    is the source model's vector of each text with its role's prefix. Raises BadInput: the graph's vectors have another
    shape, or are not finite numbers.
    """
    return compare(folder.config.precision, texts, encode(folder, texts), reference)


def encode(folder: ModelFolder, texts: Sequence[GateText], device: Device = "cpu") -> FloatArray:
    """Encode the gate's texts with a model folder: (texts, dim) float32."""
    tokenizer = Tokenizer(folder)
    return OnnxSession(folder, device=device).run(gate_rows(folder, tokenizer, texts), tokenizer.pad)


def gate_rows(folder: ModelFolder, tokenizer: Tokenizer, texts: Sequence[GateText]) -> list[Int32Array]:
    """Token ids of the gate's texts, with their roles' prefixes."""
    rows = []
    for text in texts:
        is_query = text.role == "query"
        (tokens,) = (tokenizer.tokenize_queries if is_query else tokenizer.tokenize)([text.text])
        overhead = tokenizer.query_overhead if is_query else tokenizer.document_overhead
        ids = tokens.ids[: folder.config.max_tokens - overhead]
        rows.append(tokenizer.query(ids) if is_query else tokenizer.segment(ids))
    return rows


def gate_documents(texts: Sequence[GateText], most: int) -> dict[int, list[int]]:
    """The gate's documents for HMDE: row of a document's text → rows of 1 to ``most`` texts that follow each other."""
    rows = [row for row, text in enumerate(texts) if text.role == "document"]
    return {
        row: [rows[(first + offset) % len(rows)] for offset in range(1 + first % most)]
        for first, row in enumerate(rows)
    }


def with_documents(upper: UpperSession, texts: Sequence[GateText], vectors: FloatArray) -> FloatArray:
    """Vectors of the gate's texts by a lower encoder, (texts, dim), with documents' vectors by the upper encoder."""
    documents, result = gate_documents(texts, upper.file.shape.sentences), vectors.copy()
    result[list(documents)] = upper.documents([vectors[rows] for rows in documents.values()])
    return result


def compare(
    precision: Precision, texts: Sequence[GateText], vectors: FloatArray, reference: FloatArray
) -> ParityReport:
    """Compare vectors with reference vectors, (texts, dim). Raises BadInput: shapes differ, or they are not finite."""
    if vectors.shape != reference.shape:
        raise BadInput(
            f"the graph makes vectors of shape {vectors.shape}, the model {reference.shape}; report this model"
        )
    _require_finite(precision, vectors)
    units, reference_units = unit_rows(vectors), unit_rows(reference)
    is_query = np.array([text.role == "query" for text in texts])
    return _report(precision, texts, units, reference_units, top_agreement(units, reference_units, is_query))


def compare_scores(
    precision: Precision, texts: Sequence[GateText], scores: FloatArray, reference: FloatArray
) -> ParityReport:
    """Compare a reranker's scores of the gate's queries with reference scores, both (queries, documents).

    A query's scores, less the mean of all reference scores, are compared as a vector is, and the ten documents with the
    largest scores as the ten nearest are. Raises BadInput: a score is not a finite number.
    """
    _require_finite(precision, scores)
    centre = np.float32(reference.mean(dtype=np.float64))
    agreement = _agreement(_largest(scores, TOP), _largest(reference, TOP))
    queries = [text for text in texts if text.role == "query"]
    return _report(precision, queries, unit_rows(scores - centre), unit_rows(reference - centre), agreement)


def _require_finite(precision: Precision, values: FloatArray) -> None:
    if not np.isfinite(values).all():
        raise BadInput(f"the {precision} graph overflows: its values are not numbers; export with --precision fp32")


def _report(
    precision: Precision, texts: Sequence[GateText], units: FloatArray, reference_units: FloatArray, agreement: float
) -> ParityReport:
    """The report on the texts' rows, both (texts, dim) of unit length."""
    cosines = np.einsum("ij,ij->i", units, reference_units, dtype=np.float64)
    return ParityReport(
        precision=precision,
        cosine_min=float(cosines.min()),
        cosine_mean=float(cosines.mean()),
        top10_agreement=agreement,
        texts=len(texts),
        languages=tuple(sorted({text.lang for text in texts})),
        worst=texts[int(cosines.argmin())].text,
        bar=BARS[precision],
    )


def top_agreement(vectors: FloatArray, reference: FloatArray, is_query: BoolArray, depth: int = TOP) -> float:
    """Mean over queries of the share of the reference's ``depth`` nearest documents that vectors (unit) rank too."""
    return _agreement(*(_largest(rows[is_query] @ rows[~is_query].T, depth) for rows in (vectors, reference)))


def _agreement(rankings: Sequence[Sequence[int]], expected_rankings: Sequence[Sequence[int]]) -> float:
    """Mean over queries of the share of the expected documents that a ranking has."""
    shares = [
        len(set(ranking) & set(expected)) / len(expected)
        for ranking, expected in zip(rankings, expected_rankings, strict=True)
    ]
    return float(np.mean(shares))


def _largest(scores: FloatArray, depth: int) -> list[list[int]]:
    """Columns of the largest of the (queries, documents) scores, the largest first."""
    largest: list[list[int]] = np.argsort(-scores, axis=1, kind="stable")[:, :depth].tolist()
    return largest
