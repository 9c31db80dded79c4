"""Relevance judgements in TREC's format: ``topic 0 document grade``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from encoders.errors import BadInput
from indexer.readers.files import SourceFile, UnreadableFileError
from query.evaluation.topics import normalise_qid

if TYPE_CHECKING:
    from ir_measures import Qrel

_JUDGEMENT = re.compile(r"(\S+)\s+(\S+)\s+(\S(?:.*\S)?)\s+([+-]?\d+)")
_LONGEST = 4096


def read_qrels(paths: Iterable[str | Path]) -> list[Qrel]:
    """Read the judgements of one or several files, which together judge one collection (one file a language, say).

    A topic's id is normalised as in ``query.evaluation.topics``; a document's id may hold blanks; a judgement that
    stands twice counts once.

    Returns:
        ``ir_measures.Qrel`` tuples in the files' order.

    Raises:
        BadInput: a file can't be read, a line is no judgement, or a document has two grades for one topic.
    """
    from ir_measures import Qrel  # noqa: PLC0415 - half a second that a command without qrels need not pay

    grades: dict[tuple[str, str], tuple[int, str]] = {}
    qrels: list[Qrel] = []
    for path in paths:
        file = SourceFile(Path(path), str(path))
        judged = False
        try:
            for line in file.lines():
                where = file.at(file.line)
                judgement = _judgement(line or b"", where)
                if judgement is None:
                    continue
                judged = True
                qid, doc_id, iteration, grade = judgement
                known, there = grades.get((qid, doc_id), (None, where))
                if known is None:
                    grades[qid, doc_id] = grade, where
                    qrels.append(Qrel(qid, doc_id, grade, iteration))
                elif known != grade:
                    raise BadInput(
                        f"{where} grades {doc_id!r} {grade} for topic {qid}, and {there} grades it {known}; keep one"
                    )
        except UnreadableFileError as error:
            raise BadInput(f"the qrels {file.shown} can't be read on after line {file.line}: {error}") from error
        if not judged:
            raise BadInput(f"the qrels {file.shown} are empty; give lines of: topic 0 document grade")
    return qrels


def _judgement(line: bytes, where: str) -> tuple[str, str, str, int] | None:
    try:
        text = line.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise BadInput(f"{where} is not UTF-8; convert the qrels to it") from error
    if not text:
        return None
    found = _JUDGEMENT.fullmatch(text[:_LONGEST])
    if not found or len(text) > _LONGEST:
        raise BadInput(f"{where} is {text[:60]!r}, no judgement; it should be: topic 0 document grade")
    return normalise_qid(found[1]), found[3], found[2], int(found[4])
