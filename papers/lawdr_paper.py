"""LAWDR's published figures: tables 1 and 3 to 8, by encoder, pooling and inputs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from encoders.folder.model_config import ModelConfig
from papers.published import published

Inputs = Literal["single", "multi"]
"""What the encoder reads at once: a sentence, or as many sentences as fit (section 7)."""


@dataclass(frozen=True)
class Variant:
    """A row of tables 3 and 4."""

    debiased: bool
    weighted: bool
    margin: bool

    @property
    def name(self) -> str:
        """Name of the variant."""
        bias, weights = ("debiased" if self.debiased else "biased"), ("weighted" if self.weighted else "mean")
        return f"{bias}, {weights}, {'margin' if self.margin else 'cosine'}"


_BOTH = (False, True)
VARIANTS = tuple(Variant(debiased, weighted, margin) for debiased in _BOTH for weighted in _BOTH for margin in _BOTH)
"""The rows in the order of tables 3 and 4."""

Column = tuple[str, str]
"""An encoder of the paper and its pooling: ST (special token) or MP (mean pooling)."""
_NAMES = {
    "BERT": r"m-?bert|bert-base-multilingual-(un)?cased",
    "XLM": r"xlm(-mlm-100-1280)?",
    "XLM-R": r"xlm-?r(oberta)?(-(base|large))?",
}
_POOLING = {"cls": "ST", "mean": "MP"}


def paper_column(config: ModelConfig) -> Column | None:
    """The paper's column of an encoder, by its name and pooling; none if the paper has no figures of it."""
    encoder = config.name.rpartition("/")[2].lower()
    name = next((name for name, pattern in _NAMES.items() if re.fullmatch(pattern, encoder)), None)
    pooling = _POOLING.get(config.pooling)
    return (name, pooling) if name and pooling else None


_FIGURES = published("lawdr")
_COLUMNS: Sequence[Column] = [tuple(column.split()) for column in _FIGURES["columns"]]
PAPER: Mapping[str, Mapping[Inputs, Mapping[Column, Mapping[Variant, float]]]] = {
    task: {
        inputs: {
            column: dict(zip(VARIANTS, figures, strict=True))
            for column, figures in zip(_COLUMNS, zip(*rows, strict=True), strict=True)
        }
        for inputs, rows in by_inputs.items()
    }
    for task, by_inputs in _FIGURES["recall"].items()
}
"""Recall in per cent by task, inputs, column and row (tables 3, 4, 7 and 8; table 5 is a part of table 8)."""
BASELINES: Mapping[str, str] = _FIGURES["baselines"]
PAPER_DATA: Mapping[str, str] = _FIGURES["data"]
PAPER_PROBE: Mapping[Column, Sequence[float]] = {tuple(name.split()): row for name, row in _FIGURES["probe"].items()}
"""Accuracy in per cent: vectors, language component, semantic component (tables 1 and 6)."""
PAPER_RANK: Mapping[str, int] = _FIGURES["rank"]
