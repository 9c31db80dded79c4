"""Recognise a collection whose files have the ids that an earlier version gave them."""

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path, PurePath

from encoders.errors import BadInput
from indexer.ledger.tables import IndexRun
from indexer.readers.formats import is_path
from indexer.readers.records.files import source_files
from indexer.stores.contract import VectorStore

_FILES = 20
"""Files of a source that are looked for in the collection."""


def refuse_former_ids(sources: Sequence[str], store: VectorStore, model: str, earlier: Iterable[IndexRun]) -> None:
    """Refuse sources whose files a collection holds by other ids, for each would be stored a second time.

    An earlier version left a single source's name out, and put more folders before equal names. Raises BadInput: an
    ``earlier`` run read a source, and the store has its files by the former ids alone.
    """
    indexed = {source for run in earlier for source in run.sources}
    for source in (source for source in sources if source in indexed and is_path(source)):
        names = [PurePath(file.name).parts for file in islice(source_files(Path(source)), _FILES)]
        present_ids = {doc_id for name in names for doc_id in _ids("/".join(name))}
        folders = Path(os.path.normpath(source)).parent.parts[1:]
        prefixes = [folders[start:] for start in range(len(folders))]
        former_ids = {
            doc_id: "/".join(name)
            for name in names
            for former_name in (name[1:], *((*prefix, *name) for prefix in prefixes))
            if former_name
            for doc_id in _ids("/".join(former_name))
        }
        stored_ids = store.stamps(model, [*present_ids, *former_ids]).keys()
        if former := next((doc_id for doc_id in former_ids if doc_id in stored_ids), None):
            if stored_ids & present_ids:
                continue
            raise BadInput(
                f"the collection has the files of {source} by ids that an earlier version gave them ({former}; now "
                f"{former_ids[former]}): index all its sources with --prune, or build it anew with --rebuild"
            )


def _ids(name: str) -> Iterator[str]:
    """Ids of a file that is a document, and of the first of its records without an id."""
    return iter((name, f"{name}:1", f"{name}:2", f"{name}#1"))
