"""LAWDR's published figures: tables 1 and 3 to 8, by encoder, pooling and inputs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from encoders.folder.model_config import ModelConfig

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
COLUMNS: Sequence[Column] = tuple((name, pooling) for name in ("BERT", "XLM", "XLM-R") for pooling in ("ST", "MP"))
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


def _by_column(table: str) -> Mapping[Column, Mapping[Variant, float]]:
    """The columns of a table of eight rows, of six figures each."""
    rows = [[float(figure) for figure in line.split()] for line in table.strip().splitlines()]
    return {
        column: dict(zip(VARIANTS, figures, strict=True))
        for column, figures in zip(COLUMNS, zip(*rows, strict=True), strict=True)
    }


PAPER: Mapping[str, Mapping[Inputs, Mapping[Column, Mapping[Variant, float]]]] = {
    "WMT16": {
        "single": _by_column("""
            5.0 8.1 16.2 17.0 3.8 4.7
            7.1 9.4 17.9 17.7 4.7 5.6
            6.3 8.7 18.4 17.6 3.9 4.9
            7.7 10.4 19.2 18.5 4.7 6.1
            77.7 85.1 86.3 87.7 56.9 60.7
            78.1 86.1 87.3 88.6 58.0 61.2
            77.3 85.3 85.8 88.4 57.3 60.9
            78.0 86.6 87.0 88.8 57.6 61.3"""),
        "multi": _by_column("""
            8.7 25.7 18.3 25.1 3.0 4.7
            8.7 28.2 20.5 26.9 3.3 5.5
            9.1 29.2 19.1 25.9 2.9 6.6
            9.1 30.6 21.2 27.4 3.2 7.2
            68.4 84.9 82.1 85.9 49.8 65.9
            68.7 85.5 83.1 86.6 49.9 66.0
            68.1 85.0 82.3 87.6 49.9 65.9
            68.7 85.6 83.1 88.3 50.2 66.1"""),
    },
    "WMT16 with URLs": {
        "single": _by_column("""
            61.5 62.7 65.2 64.0 61.2 61.4
            62.1 63.4 65.9 64.3 61.4 61.7
            62.1 62.9 65.3 64.0 61.2 61.8
            62.5 63.8 65.9 64.4 61.5 62.1
            86.8 92.5 93.7 93.8 77.8 79.3
            87.6 93.1 93.8 94.2 78.4 79.5
            87.2 93.0 93.7 94.0 78.1 79.6
            87.3 94.0 93.9 94.8 78.1 79.4"""),
        "multi": _by_column("""
            62.3 66.4 65.0 66.7 60.7 61.5
            62.4 67.6 65.9 67.6 61.0 61.7
            62.3 67.9 65.2 67.0 60.9 62.1
            62.7 68.3 66.1 67.7 61.0 62.1
            83.2 92.9 90.6 92.8 75.4 82.8
            83.6 93.1 91.3 93.2 75.3 82.9
            83.3 93.0 90.9 93.8 75.4 82.8
            83.3 93.2 91.3 94.5 75.6 83.1"""),
    },
    "WMT19": {
        "single": _by_column("""
            1.0 4.6 6.8 8.1 0.1 0.1
            1.5 5.8 13.0 15.6 0.1 0.1
            1.3 5.2 7.2 8.5 0.1 0.1
            1.8 6.4 13.3 16.1 0.1 0.1
            57.6 76.1 85.1 89.8 23.9 42.2
            60.6 79.0 87.1 90.7 25.7 47.0
            57.8 75.9 85.5 90.0 25.5 42.8
            61.0 79.5 87.6 91.0 26.0 47.6"""),
        "multi": _by_column("""
            7.4 12.3 9.5 12.3 0.2 0.6
            8.9 17.0 16.6 20.9 0.2 1.2
            8.1 14.8 9.5 12.2 0.2 1.6
            10.0 21.0 16.5 20.7 0.2 1.9
            59.6 84.3 78.5 86.9 41.3 72.8
            62.7 85.9 80.7 88.0 42.4 74.1
            59.7 85.7 78.5 87.3 41.3 73.2
            62.8 86.3 80.8 88.4 42.4 74.2"""),
    },
}
"""Recall in per cent by task, inputs, column and row (tables 3, 4, 7 and 8; table 5 is a part of table 8)."""

BASELINES: Mapping[str, str] = {
    "WMT16": "LASER 62.8 (first 512 tokens), 20.2 (all tokens); Gomes and Lopes, by translation, 85.8",
    "WMT16 with URLs": "LASER 84.7 (first 512 tokens), 69.5 (all tokens); Gomes and Lopes, by translation, 95.0",
    "WMT19": "LASER 68.0 (first 512 tokens), 3.0 (all tokens)",
}
"""Recall in per cent of the baselines, by task (tables 7 and 8)."""

PAPER_DATA = {
    "WMT16": "203 websites in English and French",
    "WMT16 with URLs": "203 websites in English and French",
    "WMT19": "news commentary v14: 15 languages, 99 pairs of languages",
    "probe": "parallel pages of eu2007.de: 1,356 English and 1,295 French sentences",
}
"""What the paper's figures are of."""

PAPER_PROBE: Mapping[Column, tuple[float, float, float]] = {
    ("BERT", "MP"): (95.3, 100.0, 52.5),
    ("XLM", "MP"): (97.3, 100.0, 53.5),
    ("XLM-R", "MP"): (94.7, 97.6, 52.0),
    ("BERT", "ST"): (95.3, 99.3, 52.0),
    ("XLM", "ST"): (97.3, 100.0, 55.5),
    ("XLM-R", "ST"): (93.1, 96.7, 52.0),
}
"""Accuracy in per cent: vectors, language component, semantic component (tables 1 and 6)."""
PAPER_RANK = {"BERT": 64, "XLM": 32, "XLM-R": 256}
"""Rank of the language subspaces (section 10.1)."""
