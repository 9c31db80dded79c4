"""Relevance judgements in TREC's format: ``topic 0 document grade``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from encoders.errors import BadInput
from indexer.readers.records.files import SourceFile, UnreadableFileError
from query.trec_files.topics import normalise_qid
from query.trec_files.trec_run import trec_id

if TYPE_CHECKING:
    from ir_measures import Qrel

_JUDGEMENT = re.compile(r"(\S+)\s+(\S+)\s+(\S(?:.*\S)?)\s+([+-]?\d+)")
_LONGEST = 4096


def read_qrels(paths: Iterable[str | Path]) -> list[Qrel]:
    """Judgements of files that together judge one collection, in their order; repeated ones count once.

    A topic's id is normalised as in ``query.trec_files.topics``; a document's may contain blanks. Raises BadInput: a
    file can't be read or is empty, a line is no judgement, or a document has two grades for one topic.
    """
    from ir_measures import Qrel  # noqa: PLC0415 - half a second, only for commands with qrels

    grades: dict[tuple[str, str], tuple[int, str]] = {}
    qrels: list[Qrel] = []
    for path in paths:
        file = SourceFile(Path(path), str(path))
        judged = False
        try:
            for line in file.lines():
                where = file.at(file.line)
                judgement = _judgement(line, where)
                if judgement is None:
                    continue
                judged = True
                qid, doc_id, iteration, grade = judgement
                known_grade, place = grades.get((qid, doc_id), (None, where))
                if known_grade is None:
                    grades[qid, doc_id] = grade, where
                    qrels.append(Qrel(qid, doc_id, grade, iteration))
                elif known_grade != grade:
                    raise BadInput(
                        f"{where} grades {doc_id!r} {grade} for topic {qid}, and {place} grades it {known_grade}; "
                        "keep one"
                    )
        except UnreadableFileError as error:
            raise BadInput(f"the qrels {file.shown} can't be read on after line {file.line}: {error}") from error
        if not judged:
            raise BadInput(f"the qrels {file.shown} are empty; give lines of: topic 0 document grade")
    return qrels


def to_trec(qrels: Iterable[Qrel], names: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Lines of judgements in TREC's format, with the names that a run gives each topic; ids are escaped as in runs."""
    for qrel in qrels:
        for name in names.get(qrel.query_id, ()):
            topic, document = trec_id(name, "topic's id"), trec_id(qrel.doc_id, "document id")
            yield f"{topic} {qrel.iteration} {document} {qrel.relevance}\n"


def _judgement(line: bytes, where: str) -> tuple[str, str, str, int] | None:
    try:
        text = line.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise BadInput(f"{where} is not UTF-8; convert the qrels to it") from error
    if not text:
        return None
    match = _JUDGEMENT.fullmatch(text[:_LONGEST])
    if not match or len(text) > _LONGEST:
        raise BadInput(f"{where} is {text[:60]!r}, no judgement; it should be: topic 0 document grade")
    return normalise_qid(match[1]), match[3], match[2], int(match[4])
