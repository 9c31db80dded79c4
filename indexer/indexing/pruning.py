"""Remove from a store what the sources of a run do not have any more."""

from __future__ import annotations

from encoders.console import Console
from indexer.ledger.ledger import Ledger
from indexer.ledger.tables import OF_COLLECTION, REFUSED
from indexer.stores.contract import VectorStore


def prune(ledger: Ledger, store: VectorStore, console: Console) -> int:
    """Remove what the sources lost; nothing while something of them could not be read, for it may be just that."""
    run = ledger.run
    others = {source for earlier in ledger.earlier() for source in earlier.sources} - set(run.sources)
    others = {source for source in others if not source.startswith(OF_COLLECTION)}
    if others:
        console.warn(
            f"nothing is pruned, because the collection was indexed from {min(others)} too; "
            "name all its sources in one command"
        )
        return 0
    nameless = [note.place for note in ledger.findings() if note.kind == REFUSED and not note.doc_id]
    if nameless:
        console.warn(f"nothing is pruned, because {nameless[0]} and perhaps more could not be read; mend it first")
        return 0
    gone = ledger.unseen(store.ids())
    return store.delete(gone) if gone else 0
