"""Findings: refused records and remarks of runs, and their rows in the ledger."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import sqlalchemy as sa
from sqlalchemy.orm import Session

from indexer.ledger.database import storable, transaction
from indexer.ledger.tables import REFUSED, FindingRow, IndexRun

_REPEATED_ID = "the id stands more than once in the sources"
DUPLICATE = (
    f"{_REPEATED_ID}; another of these documents counts (--on-duplicate), unless the collection holds a higher revision"
)
"""The remark on a document that is left out."""
NOTHING_KNOWN = "it has nothing the encoder knows"
"""Why a document is refused whose words are unknown to every part of the encoder."""


@dataclass(frozen=True)
class Finding:
    """A refused record or document, or a remark for the owner of the sources."""

    kind: str  # ``REFUSED`` or ``REMARK``
    place: str  # file and line, or the id
    doc_id: str  # empty if it is unknown
    text: str  # what is wrong and what to do

    def as_json(self) -> dict[str, str]:
        """The finding as a JSON object; a document's id is ``id``, as in records and hits."""
        return {"kind": self.kind, "place": self.place, "id": self.doc_id, "text": self.text}

    @classmethod
    def refusal(cls, doc_id: str, text: str) -> Self:
        """The finding of a refused document; its place is the document's id."""
        return cls(REFUSED, doc_id, doc_id, text)

    @property
    def is_nothing_known(self) -> bool:
        """Whether the encoder knows nothing of the document, so that another run refuses it again."""
        return self.text == NOTHING_KNOWN

    @property
    def is_duplicate(self) -> bool:
        """Whether the run met the id more than once."""
        return self.text.startswith(_REPEATED_ID)

    def row(self, run_id: int) -> FindingRow:
        """The finding as a row of a run."""
        return FindingRow(
            run_id=run_id,
            kind=self.kind,
            place=storable(self.place),
            doc_id=storable(self.doc_id),
            text=storable(self.text),
        )


def findings_of(engine: sa.Engine, run_ids: Sequence[int], *kinds: str) -> list[Finding]:
    """Findings of runs, of all kinds unless some are named, in the order in which they were met, without duplicates."""
    with transaction(engine) as session:
        query = sa.select(FindingRow).where(FindingRow.run_id.in_(run_ids)).order_by(FindingRow.id)
        if kinds:
            query = query.where(FindingRow.kind.in_(kinds))
        findings = [Finding(row.kind, row.place, row.doc_id, row.text) for row in session.scalars(query)]
    return list(dict.fromkeys(findings))


def forget_findings(session: Session, done: IndexRun, seen: Callable[[Sequence[str]], set[str]]) -> None:
    """Delete earlier findings about what a done run read again; ``seen`` returns which ids of documents it met."""
    query = sa.select(IndexRun).where(IndexRun.collection == done.collection, IndexRun.id != done.id)
    inside = tuple(start for source in done.sources for start in (f"{source}:", f"{source.rstrip('/')}/"))
    for run in session.scalars(query):
        if set(run.sources) <= set(done.sources):
            session.execute(sa.delete(FindingRow).where(FindingRow.run_id == run.id))
            continue
        rows = session.scalars(sa.select(FindingRow).where(FindingRow.run_id == run.id)).all()
        seen_ids = seen([row.doc_id for row in rows if row.doc_id])
        for row in rows:
            # a place is a source, a line of it, or a file below it
            is_of_source = row.place.startswith(inside) or row.place in done.sources
            if row.doc_id in seen_ids or is_of_source:
                session.delete(row)
