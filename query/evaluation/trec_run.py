"""A run: what a system found for each topic, as a TREC run file says it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote, unquote

import numpy as np

from encoders.errors import BadInput
from encoders.wording import counted

Scored = tuple[str, float]
"""A document's id and its score."""

_LARGEST = float(np.finfo(np.float32).max)
_SPACES = "|".join(quote(chr(code), safe="")[1:] for code in range(0x3001) if chr(code).isspace())
_ESCAPED = re.compile(rf"%25(?=(?:25)*(?:{_SPACES}))|%(?:{_SPACES})")
_TO_ESCAPE = re.compile(rf"\s|%(?=(?:25)*(?:{_SPACES}))")


@dataclass(frozen=True)
class Run:
    """Ranked documents for each topic.

    trec_eval ignores the order of a run's lines and sorts by score, in single precision, then by id from Z to A. So
    that its order is always the ranking, scores are single precision here and fall strictly: one that is not below the
    score before it is replaced by the next number below that.

    Attributes:
        tag: who made it.
        rankings: by topic id, documents with their scores, best first.

    Raises:
        BadInput: a document stands twice under a topic, or a score is no finite number.
    """

    tag: str
    rankings: Mapping[str, Sequence[Scored]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "rankings", {qid: _falling(qid, ranking) for qid, ranking in self.rankings.items()})

    def to_trec(self) -> str:
        """The run in TREC's format: ``topic Q0 document rank score tag``, ranks from 1.

        Whitespace can't stand inside an id there: it is percent-encoded (``a b`` is ``a%20b``), and an id that has such
        a code already gets its ``%`` encoded, so that ``from_trec`` gives every id back.

        Raises:
            BadInput: an id or the tag is empty.
        """
        tag = _escape(self.tag, "tag")
        lines: list[str] = []
        for qid, ranking in self.rankings.items():
            topic = _escape(qid, "topic's id")
            lines += (
                f"{topic} Q0 {_escape(doc_id, 'document id')} {rank} {np.float32(score)!s} {tag}\n"
                for rank, (doc_id, score) in enumerate(ranking, start=1)
            )
        return "".join(lines)

    @classmethod
    def from_trec(cls, lines: Iterable[str], where: str) -> Run:
        """Read a run in TREC's format, in the order that trec_eval would give it.

        Args:
            lines: of the file.
            where: what to call the file in a message.

        Raises:
            BadInput: a line hasn't six columns, a score is no number, a document stands twice under a topic.
        """
        tag = ""
        found: dict[str, dict[str, float]] = {}
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            columns = line.split()
            if len(columns) != 6:
                raise BadInput(
                    f"{where}:{number} has {counted(len(columns), 'column')}, not the six of: "
                    "topic Q0 document rank score tag"
                )
            qid, doc_id, tag = _unescape(columns[0]), _unescape(columns[2]), _unescape(columns[5])
            try:
                score = float(columns[4])
            except ValueError as error:
                raise BadInput(f"{where}:{number} has the score {columns[4]!r}; put a number there") from error
            if not abs(score) <= _LARGEST:
                raise BadInput(f"{where}:{number} has the score {columns[4]}; put a finite number there")
            if doc_id in found.setdefault(qid, {}):
                raise BadInput(f"{where}:{number} ranks {doc_id!r} for topic {qid} a second time; take one out")
            found[qid][doc_id] = score
        return cls(
            tag,
            {qid: sorted(documents.items(), key=_trec_eval_order, reverse=True) for qid, documents in found.items()},
        )

    @classmethod
    def read_trec(cls, path: str | Path) -> Run:
        """Read a TREC run file.

        Raises:
            BadInput: it can't be read, holds nothing, or a line of it is broken (the line is named).
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise BadInput(f"the run {path} can't be read ({error.strerror or error}); give another file") from error
        except UnicodeDecodeError as error:
            raise BadInput(f"the run {path} is not UTF-8; convert it") from error
        run = cls.from_trec(text.removeprefix("\ufeff").split("\n"), str(path))
        if not run.rankings:
            raise BadInput(f"the run {path} is empty; it should hold lines of: topic Q0 document rank score tag")
        return run


def _falling(qid: str, ranking: Sequence[Scored]) -> list[Scored]:
    if len({doc_id for doc_id, _ in ranking}) != len(ranking):
        twice = next(doc_id for doc_id, count in _counts(ranking).items() if count > 1)
        raise BadInput(f"topic {qid} has document {twice!r} twice in its ranking; rank it once")
    with np.errstate(over="ignore"):
        scores = np.array([score for _, score in ranking], dtype=np.float32)
    if not np.isfinite(scores).all():
        raise BadInput(f"topic {qid} has a score that is no finite number; rank documents by finite scores")
    if any(after >= before for before, after in pairwise(scores)):
        for position in range(1, len(scores)):
            scores[position] = min(scores[position], np.nextafter(scores[position - 1], np.float32(-np.inf)))
    return [(doc_id, float(score)) for (doc_id, _), score in zip(ranking, scores, strict=True)]


def _counts(ranking: Sequence[Scored]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for doc_id, _ in ranking:
        counts[doc_id] = counts.get(doc_id, 0) + 1
    return counts


def _trec_eval_order(scored: Scored) -> tuple[float, str]:
    return float(np.float32(scored[1])), _escape(scored[0], "document id")


def _escape(name: str, what: str) -> str:
    if not name:
        raise BadInput(f"a {what} is empty, which a TREC run can't hold; give it one")
    return _TO_ESCAPE.sub(lambda found: quote(found.group(), safe="") if found.group() != "%" else "%25", name)


def _unescape(name: str) -> str:
    return _ESCAPED.sub(lambda found: unquote(found.group()), name)
