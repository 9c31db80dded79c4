"""Relevance judgements: TREC's lines, ``topic 0 document grade``, tables with a header, and data sets."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from encoders.errors import BadInput
from indexer.readers import irdatasets
from indexer.readers.records.encodings import UndecodableError
from indexer.readers.records.files import SourceFile, UnreadableFileError
from query.trec_files.topics import normalise_qid
from query.trec_files.trec_run import trec_id

_JUDGEMENT = re.compile(r"(\S+)\s+(\S+)\s+(\S(?:.*\S)?)\s+(\S+)")
_GRADE = re.compile(r"([+-]?\d+)(?:\.0*)?")
_SEVERAL_COLUMNS = re.compile(r".*\s[+-]?\d[\d.e-]*", re.IGNORECASE)
"""What would be a document's id in a line of more than four columns, as of a run."""
_HEADER = (
    {"query-id", "query_id", "queryid", "qid", "topic", "topic-id", "topic_id", "topicid"},
    {"iteration", "iter", "q0", "0"},
    {"corpus-id", "corpus_id", "doc-id", "doc_id", "docid", "docno", "doc", "document", "document_id", "pid"},
    {"score", "relevance", "rel", "label", "grade", "judgement", "judgment"},
)
"""Names of the columns of topic, iteration, document and grade."""
_LONGEST = 4096


class Qrel(NamedTuple):
    """A judgement, with the names of ``ir_measures``, which takes half a second to load."""

    query_id: str
    doc_id: str
    relevance: int
    iteration: str = "0"


def read_qrels(paths: Iterable[str | Path], versions: Collection[tuple[str, str]] = ()) -> list[Qrel]:
    """Judgements of files and of ``ir-datasets:NAME`` that together judge one collection, in their order.

    Repeated judgements count once; those of other numbered iterations, subtopics, are kept. A topic's id is normalised
    as in ``query.trec_files.topics``; ``qid.lang`` is the ``qid`` of one of ``versions``, topics' ids with languages. A
    document's id may contain blanks. Raises BadInput: a file can't be read or is empty, a line is no judgement, or a
    document has two grades for one topic; MissingPart: a data set needs an extra that is not installed.
    """
    qids = {qid for qid, _ in versions}
    names = {name: qid for qid, lang in versions if (name := f"{qid}.{lang}") not in qids}
    grades: dict[tuple[str, str], tuple[int, str]] = {}
    qrels: dict[tuple[str, str, str], Qrel] = {}
    for path in paths:
        name = irdatasets.dataset_name(path)
        judged = False
        for where, named, doc_id, iteration, grade in _of_dataset(name) if name else _of_file(path):
            judged, qid = True, names.get(named, named)
            known_grade, place = grades.setdefault((qid, doc_id), (grade, where))
            if known_grade != grade:
                raise BadInput(
                    f"{where} grades {doc_id!r} {grade} for topic {qid}, and {place} grades it {known_grade}; keep one"
                )
            subtopic = iteration if iteration.isdecimal() else "0"
            qrels.setdefault((qid, doc_id, subtopic), Qrel(qid, doc_id, grade, iteration))
        if not judged:
            raise BadInput(f"the qrels {path} are empty; give lines of: topic 0 document grade")
    return list(qrels.values())


_Judgement = tuple[str, str, str, str, int]
"""Place, topic, document, iteration and grade."""


def _of_dataset(name: str) -> Iterator[_Judgement]:
    for number, (qrel, _) in enumerate(irdatasets.rows(name, "qrels"), start=1):
        iteration = str(getattr(qrel, "subtopic_id", getattr(qrel, "iteration", "0")))
        place = f"{irdatasets.PREFIX}{name}:{number}"
        yield place, normalise_qid(qrel.query_id), qrel.doc_id, iteration, int(qrel.relevance)


def _of_file(path: str | Path) -> Iterator[_Judgement]:
    file = SourceFile(Path(path), str(path))
    positions: list[int] | None = None  # of a table's columns, after the first line
    try:
        file.settle()
        for line in file.lines():
            where, text = file.at(file.line), line.decode("utf-8", "replace").strip()
            if not text or (positions is None and (positions := _positions(text))):
                continue
            yield _judgement(text, positions, where)
    except UndecodableError as error:
        raise BadInput(f"the qrels {file.shown} are not UTF-8; convert them to it") from error
    except UnreadableFileError as error:
        raise BadInput(f"the qrels {file.shown} can't be read on after line {file.line}: {error}") from error


def to_trec(qrels: Iterable[Qrel], names: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Lines of judgements in TREC's format, with the names that a run gives each topic; ids are escaped as in runs."""
    for qrel in qrels:
        for name in names.get(qrel.query_id, ()):
            topic, document = trec_id(name, "topic's id"), trec_id(qrel.doc_id, "document id")
            yield f"{topic} {qrel.iteration} {document} {qrel.relevance}\n"


def _columns(text: str) -> list[str]:
    tabs = [column.strip() for column in text.split("\t")]
    return tabs if len(tabs) > 1 else text.split()


def _positions(header: str) -> list[int]:
    """Positions of topic, iteration (-1: none), document and grade in a header; empty: the line is no header."""
    names = [name.lower() for name in _columns(header)]
    positions = [next((at for at, name in enumerate(names) if name in known), -1) for known in _HEADER]
    return [] if -1 in (positions[0], *positions[2:]) else positions


def _judgement(text: str, positions: Sequence[int], where: str) -> _Judgement:
    columns: Sequence[str] = _columns(text[: _LONGEST + 1])
    if positions:
        columns = ["0" if at < 0 else columns[at] for at in positions] if len(columns) > max(positions) else ()
    elif len(columns) != 4:  # the document's id has blanks, or the line is of another file, such as a run
        match = _JUDGEMENT.fullmatch(text[: _LONGEST + 1]) if len(columns) > 4 else None
        columns = match.groups() if match and not _SEVERAL_COLUMNS.fullmatch(match[3]) else ()
    grade = _GRADE.fullmatch(columns[3]) if columns and len(text) <= _LONGEST else None
    if not grade:
        raise BadInput(
            f"{where} is {text[:60]!r}, no judgement; it should be: topic 0 document grade, with tabs between them if "
            "an id holds blanks"
        )
    return where, normalise_qid(columns[0]), columns[2], columns[1], int(grade[1])
