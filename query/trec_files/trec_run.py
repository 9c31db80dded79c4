"""A run: the ranking of a system for each topic, read from and written to TREC run files."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

import numpy as np

from encoders import zstd
from encoders.console import Console
from encoders.errors import BadInput
from encoders.phrases import counted
from indexer.readers.records.files import SourceFile, UnreadableFileError

RunEntry = tuple[str, float]
"""A document's id and its score."""

_LARGEST = float(np.finfo(np.float32).max)
_SPACES = "|".join(quote(chr(code), safe="")[1:] for code in range(0x3001) if chr(code).isspace())
_ESCAPED = re.compile(rf"%25(?=(?:25)*(?:{_SPACES}))|%(?:{_SPACES})")
_TO_ESCAPE = re.compile(rf"\s|%(?=(?:25)*(?:{_SPACES}))")


@dataclass(frozen=True)
class Run:
    """Ranked documents for each topic.

    trec_eval sorts by score, in single precision, then by id from Z to A. So scores here have single precision and
    decrease strictly: a score that is not below the one before is the next smaller number. Raises BadInput: a ranking
    has a document twice, or a score is not finite.
    """

    tag: str  # name of the system
    rankings: Mapping[str, Sequence[RunEntry]]  # documents with their scores by topic id, best first

    def __post_init__(self) -> None:
        object.__setattr__(self, "rankings", {qid: _falling(qid, ranking) for qid, ranking in self.rankings.items()})

    @property
    def doc_ids(self) -> set[str]:
        """The ids of all ranked documents."""
        return {doc_id for ranking in self.rankings.values() for doc_id, _ in ranking}

    def to_trec(self) -> str:
        """The run in TREC's format: ``topic Q0 document rank score tag``, ranks from 1, ids without whitespace.

        Whitespace becomes ``%20``, and the ``%`` of an id that has such a code is encoded too, so that ``from_trec``
        restores every id. Raises BadInput: an id or the tag is empty.
        """
        tag = trec_id(self.tag, "tag")
        lines: list[str] = []
        for qid, ranking in self.rankings.items():
            topic = trec_id(qid, "topic's id")
            lines += (
                f"{topic} Q0 {trec_id(doc_id, 'document id')} {rank} {np.float32(score)!s} {tag}\n"
                for rank, (doc_id, score) in enumerate(ranking, start=1)
            )
        return "".join(lines)

    @classmethod
    def from_trec(cls, lines: Iterable[str], where: str) -> "Run":
        """Read a run in TREC's format, in trec_eval's order. Raises BadInput: a broken line, or a document twice."""
        tags: dict[str, None] = {}
        rankings: dict[str, dict[str, float]] = {}
        for number, line in enumerate(lines, start=1):
            if not (columns := line.split()):
                continue
            if len(columns) != 6:
                raise BadInput(
                    f"{where}:{number} has {counted(len(columns), 'column')}, not the six of: "
                    "topic Q0 document rank score tag"
                )
            qid, doc_id = own_id(columns[0]), own_id(columns[2])
            tags[own_id(columns[5])] = None
            try:
                score = float(columns[4])
            except ValueError as error:
                raise BadInput(f"{where}:{number} has the score {columns[4]!r}; put a number there") from error
            if not abs(score) <= _LARGEST:
                raise BadInput(f"{where}:{number} has the score {columns[4]}; put a finite number there")
            if doc_id in rankings.setdefault(qid, {}):
                raise BadInput(f"{where}:{number} ranks {doc_id!r} for topic {qid} a second time; take one out")
            rankings[qid][doc_id] = score
        if len(tags) > 1:
            Console().warn_once(f"{where} has the tags {', '.join(tags)} and is read as one run; give a file of each")
        return cls(
            next(reversed(tags), ""),
            {qid: sorted(documents.items(), key=_trec_eval_order, reverse=True) for qid, documents in rankings.items()},
        )

    @classmethod
    def read_trec(cls, path: str | Path) -> "Run":
        """Read a TREC run file, maybe compressed. Raises BadInput: it can't be read, is empty, or has a broken line."""
        file = SourceFile(Path(path), str(path))
        try:
            run = cls.from_trec((line.decode() for line in file.lines()), str(path))
        except UnreadableFileError as error:
            raise BadInput(f"the run {path} can't be read ({error}); give another file") from error
        except UnicodeDecodeError as error:
            raise BadInput(f"the run {path} is not UTF-8; convert it") from error
        if not run.rankings:
            raise BadInput(f"the run {path} is empty; it should hold lines of: topic Q0 document rank score tag")
        return run


def pack(run: Run) -> bytes:
    """A run as compressed TREC text."""
    return zstd.compress(run.to_trec().encode(), 6)


def unpack(trec: bytes) -> Iterator[str]:
    """The lines of a compressed run, with their line ends."""
    return iter(zstd.decompress(trec).decode().splitlines(keepends=True))


def _falling(qid: str, ranking: Sequence[RunEntry]) -> list[RunEntry]:
    duplicates = [doc_id for doc_id, count in Counter(doc_id for doc_id, _ in ranking).items() if count > 1]
    if duplicates:
        raise BadInput(f"topic {qid} has document {duplicates[0]!r} twice in its ranking; rank it once")
    with np.errstate(over="ignore"):
        scores = np.array([score for _, score in ranking], dtype=np.float32)
    if not np.isfinite(scores).all():
        raise BadInput(f"topic {qid} has a score that is no finite number; rank documents by finite scores")
    if (np.diff(scores) >= 0).any():
        for position in range(1, len(scores)):
            scores[position] = min(scores[position], np.nextafter(scores[position - 1], np.float32(-np.inf)))
    return [(doc_id, float(score)) for (doc_id, _), score in zip(ranking, scores, strict=True)]


def _trec_eval_order(scored: RunEntry) -> tuple[float, str]:
    return float(np.float32(scored[1])), trec_id(scored[0], "document id")


def trec_id(name: str, what: str) -> str:
    """An id as TREC's files have it: whitespace is percent-encoded. Raises BadInput: the id, ``what``, is empty."""
    if not name:
        raise BadInput(f"a {what} is empty, which TREC's files can't hold; give it one")
    return _TO_ESCAPE.sub(lambda match: quote(match.group(), safe="") if match.group() != "%" else "%25", name)


def own_id(name: str) -> str:
    """The id that ``trec_id`` wrote as ``name``."""
    return _ESCAPED.sub(lambda match: unquote(match.group()), name)
