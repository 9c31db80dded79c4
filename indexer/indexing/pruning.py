"""Remove documents from a store that the sources of a run do not have any more."""

from encoders.console import Console
from indexer.ledger.ledger import Ledger
from indexer.ledger.tables import OF_COLLECTION
from indexer.stores.contract import VectorStore


def prune(ledger: Ledger, store: VectorStore, console: Console) -> int:
    """Remove documents missing from the sources; returns how many: none if a record of unknown id can't be read."""
    run = ledger.run
    other_sources = {source for earlier in ledger.earlier() for source in earlier.sources} - set(run.sources)
    other_sources = {source for source in other_sources if not source.startswith(OF_COLLECTION)}
    if other_sources:
        console.warn(
            f"nothing is pruned, because the collection was indexed from {min(other_sources)} too; "
            "name all its sources in one command"
        )
        return 0
    unread_places = [refusal.place for refusal in ledger.refusals() if not refusal.doc_id]
    if unread_places:
        console.warn(f"nothing is pruned, because {unread_places[0]} and perhaps more could not be read; mend it first")
        return 0
    gone = ledger.unseen(store.ids())
    return store.delete(gone) if gone else 0
