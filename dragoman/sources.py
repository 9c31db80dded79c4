"""Sources that a program gives: names of files, folders and indices, and records as dicts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import IO, Any

from filelock import FileLock, Timeout

from encoders.errors import BadInput, StoreError
from encoders.folder.whole_folder import FILE_MODE, make_private_folder
from indexer.collection.settings import Settings
from indexer.readers.records.record import lacks_id
from indexer.readers.records.source import ReadOptions
from indexer.stores.collection_names import check_collection_name

Source = str | os.PathLike[str] | Mapping[str, Any]
"""The name of a file, a folder, ``elastic:INDEX`` or ``ir-datasets:NAME``; or a record with ``id`` and ``text``."""


@contextmanager
def source_names(
    sources: Source | Iterable[Source], collection: str, settings: Settings, options: ReadOptions
) -> Iterator[list[str]]:
    """Names of sources; records are written to a JSON lines file in the home, which is removed at the end.

    To the ledger, all records of a collection are one source, as the file's name stays. Raises BadInput: there is no
    source, a record has no id or is no JSON, or the options are for files only; StoreError: the file can't be written.
    """
    names: list[str] = []
    records = None
    with ExitStack() as stack:
        for number, source in enumerate(_listed(sources), start=1):
            if not isinstance(source, Mapping):
                names.append(os.fspath(source))
                continue
            if records is None:
                if options.format or options.encoding:
                    raise BadInput("dicts have no format and no encoding; index files that need these by another call")
                records = stack.enter_context(_opened(collection, settings))
                names.append(records.name)
            with _file_errors(records.name):
                records.write(_line(source, number, options))
        if not names:
            raise BadInput("there is nothing to index; give names of files or folders, or dicts with id and text")
        if records is not None:
            with _file_errors(records.name):
                records.flush()
        yield names


def _listed(sources: Source | Iterable[Source]) -> Iterable[Source]:
    """The sources; a name or a record alone is one source."""
    return [sources] if isinstance(sources, str | os.PathLike | Mapping) else sources


def _line(record: Mapping[str, Any], number: int, options: ReadOptions) -> str:
    """A record as a line of ASCII, for any encoding; a record without id would take the id of an earlier call's."""
    if lacks_id(record, options):
        raise BadInput(
            f"source {number} has no id; give each dict an id, or name the field that holds it: "
            "ReadOptions(fields={'id': NAME})"
        )
    try:
        return json.dumps(dict(record)) + "\n"
    except (TypeError, ValueError) as error:
        raise BadInput(
            f"source {number} can't be written as JSON ({error}); give strings, numbers, lists and dicts"
        ) from error


@contextmanager
def _opened(collection: str, settings: Settings) -> Iterator[IO[str]]:
    """The file of a collection's records, empty and locked against other processes."""
    check_collection_name(collection)
    path = settings.home / f"{collection}.records.jsonl"
    with ExitStack() as stack:
        with _file_errors(str(path)):
            make_private_folder(settings.home)
            try:
                stack.enter_context(FileLock(f"{path}.lock", timeout=0, mode=FILE_MODE))
            except Timeout as error:
                raise StoreError(
                    f"another process is indexing records into collection {collection}; wait for it"
                ) from error
            stack.callback(path.unlink, missing_ok=True)
            path.touch(FILE_MODE)
            file = stack.enter_context(path.open("w", encoding="ascii"))
        yield file


@contextmanager
def _file_errors(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"{name}, where records wait to be indexed, can't be written ({error.strerror}); "
            "free the disk, or name another home: Settings.read(home=…)"
        ) from error
