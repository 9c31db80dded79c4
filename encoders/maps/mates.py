"""Mate retrieval: does a document find its translation first? (Tashu et al. 2024, section 4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from encoders.document import FloatArray, unit_rows

_BLOCK = 1024


@dataclass(frozen=True)
class Mates:
    """What mate retrieval reached.

    Attributes:
        rate: share of documents whose mate is the nearest.
        mrr: mean reciprocal rank of mates.
    """

    rate: float
    mrr: float


def mates(queries: FloatArray, documents: FloatArray) -> Mates:
    """Find each row's mate, the row of the same place, among all rows of the other side by cosine (eqs. 1 to 4).

    A mate that ties with others has the last place of them.

    Args:
        queries: (n, dim).
        documents: (n, dim).
    """
    places = ranks(queries, documents)
    return Mates(float((places == 1).mean()), float((1.0 / places).mean()))


def ranks(queries: FloatArray, documents: FloatArray) -> npt.NDArray[np.intp]:
    """The place of each row's mate among all rows of the other side, from 1."""
    asked, found = unit_rows(queries), unit_rows(documents)
    places = [np.zeros(0, dtype=np.intp)]
    for start in range(0, len(asked), _BLOCK):
        cosines = asked[start : start + _BLOCK] @ found.T
        own = cosines[np.arange(len(cosines)), np.arange(start, start + len(cosines))]
        places.append((cosines >= own[:, None]).sum(axis=1))
    return np.concatenate(places)


def mean(found: Sequence[Mates]) -> Mates:
    """Mean of both measures."""
    return Mates(float(np.mean([one.rate for one in found])), float(np.mean([one.mrr for one in found])))
