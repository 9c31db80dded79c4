"""Bring the index of an earlier version's collection into the present layout: stored documents are written anew."""

from contextlib import closing

from encoders.console import Console
from encoders.errors import BadInput
from indexer.collection import collection as collections
from indexer.collection import generations
from indexer.collection.settings import Settings
from indexer.index_sources import collection_lock
from indexer.ledger.database import open_database, read_database_id
from indexer.ledger.index_runs import refuse_while_workers
from indexer.stores.clustered.store import ServerStore


def move_vectors(name: str, settings: Settings, console: Console) -> int:
    """Copy a collection into a new generation, where vectors have a field for each language; no document is encoded.

    Returns the number of documents copied, 0 if the collection has such fields already. A killed call is finished by
    another; ``rollback`` returns to the generation before. Raises BadInput: there is no such collection, it is
    attached, or workers are at work.
    """
    with open_database(settings.database) as engine, collection_lock(name, engine):
        collection = collections.require(engine, name)
        collection.check_store(settings)
        collection.refuse_attached(
            "its vectors stay where they are; for a field of each language, detach it and attach it again"
        )
        refuse_while_workers(engine, name)
        database_id = read_database_id(engine)
        with closing(collection.open_store(settings, database_id=database_id)) as old:
            if not (isinstance(old, ServerStore) and old.shares_fields(collection.model)):
                return 0
            number = generations.begin(engine, name, settings, collection.encoder, collection).number
            with closing(collection.open_store(settings, generation=number, make=True, database_id=database_id)) as new:
                new.create(collection.model, collection.dim)
                total = sum(old.count(collection.model).values())
                with console.progress("moving", total, "documents") as progress:
                    for page in old.scan(collection.model):
                        report = new.put(collection.model, page)
                        if report.refused:
                            doc_id, reason = next(iter(report.refused.items()))
                            raise BadInput(f"{doc_id} of {name} can't be written ({reason}); nothing has changed")
                        progress(len(page))
                new.delete(set(new.ids()) - set(old.ids()))  # of another build, broken off before
                new.publish()
        generations.switch(engine, name, settings)
        return total
