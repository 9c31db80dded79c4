"""Sources that a program gives: names of files, folders and indices, records as dicts, and tables of records."""

import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from importlib import import_module
from typing import IO, Any, Protocol

from filelock import FileLock, Timeout

from encoders.document import short_hash
from encoders.errors import BadInput, MissingPart, StoreError
from encoders.folder.whole_folder import FILE_MODE, make_private_folder
from indexer.collection.settings import Settings
from indexer.readers.records.record import known_names
from indexer.readers.records.source import ReadOptions
from indexer.stores.collection_names import check_collection_name

_ROWS = 1000
"""Rows of a frame that become dicts at once."""


class Table(Protocol):
    """A data frame of pandas or polars, or a table of another library with Arrow's PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow stream."""


Source = str | os.PathLike[str] | Mapping[str, Any] | Table
"""The name of a file, a folder, ``elastic:INDEX`` or ``ir-datasets:NAME``; a record with ``text``; or a table of such
records."""


@contextmanager
def source_names(
    sources: Source | Iterable[Source], collection: str, settings: Settings, options: ReadOptions
) -> Iterator[list[str]]:
    """Names of sources; records are written to a JSON lines file in the home, which is removed at the end.

    To the ledger, all records of a collection are one source, as the file's name stays. Raises BadInput: there is no
    source, a record is no JSON, or the options are for files only; MissingPart: a table needs pyarrow; StoreError: the
    file can't be written.
    """
    names: list[str] = []
    records, made_ids = None, Counter[str]()
    with ExitStack() as stack:
        for number, source in enumerate(_listed(sources), start=1):
            if isinstance(source, str | os.PathLike) and source != "":
                names.append(os.fspath(source))
                continue
            if not isinstance(source, Mapping):
                kind = "empty" if isinstance(source, str) else f"a {type(source).__name__}"
                raise BadInput(f"source {number} is {kind}; give a name, a dict, or a data frame")
            if records is None:
                if options.format or options.encoding:
                    raise BadInput("dicts have no format and no encoding; index files that need these by another call")
                records = stack.enter_context(_opened(collection, settings))
                names.append(records.name)
            with _file_errors(records.name):
                records.write(_line(source, number, options, made_ids))
        if not names:
            raise BadInput("there is nothing to index; give names of files or folders, or dicts with id and text")
        if records is not None:
            with _file_errors(records.name):
                records.flush()
        yield names


def _listed(sources: Any) -> Iterator[Any]:
    """The sources, with the rows of tables; a name, a record or a table alone is one source."""
    if type(sources).__name__ == "Series":
        raise BadInput("a Series is one column; give the frame that it is of")
    if _is_table(sources) or not isinstance(sources, Iterable) or isinstance(sources, str | os.PathLike | Mapping):
        sources = [sources]
    for source in sources:
        if _is_table(source):
            yield from _rows(source)
        else:
            yield source


def _is_table(source: object) -> bool:
    """Whether a source is a table; older frames of pandas and polars, and lazy frames, are no Arrow streams."""
    return any(hasattr(source, name) for name in ("__arrow_c_stream__", "iterrows", "collect_schema"))


def _rows(table: Any) -> Iterator[Mapping[str, Any]]:
    """The rows of a table. Raises BadInput: two columns have one name, or it has none; MissingPart."""
    if hasattr(table, "collect_schema") and hasattr(table, "collect"):
        table = table.collect()
    if hasattr(table, "iter_rows"):
        yield from table.iter_rows(named=True)
    elif hasattr(table, "iterrows"):
        if all(name is not None and name not in table.columns for name in table.index.names):
            table = table.reset_index()
        _refuse_repeated(table.columns)
        for start in range(0, len(table), _ROWS):
            yield from table.iloc[start : start + _ROWS].to_dict("records")
    else:
        try:
            reader = import_module("pyarrow").RecordBatchReader.from_stream(table)
        except ImportError as error:
            raise MissingPart(
                f"a {type(table).__name__} is read by pyarrow; install it (pip install pyarrow), or give dicts"
            ) from error
        except (TypeError, ValueError) as error:
            raise BadInput(f"a {type(table).__name__} can't be read as a table ({error}); give a table") from error
        _refuse_repeated(reader.schema.names)
        for batch in reader:
            yield from batch.to_pylist()


def _refuse_repeated(columns: Iterable[object]) -> None:
    """Refuse a table of whose columns dicts would lose one. Raises BadInput."""
    repeated = next((name for name, number in Counter(columns).items() if number > 1), None)
    if repeated is not None:
        raise BadInput(f"the table names the column {repeated!r} more than once; rename all but one")


def _line(record: Mapping[str, Any], number: int, options: ReadOptions, made_ids: Counter[str]) -> str:
    """A record as a line of ASCII, for any encoding.

    The id of a record without one is a hash of the record, and its number among equal records from the second on.
    """
    try:
        line = json.dumps(dict(record), default=_plain)
        if "id" not in options.fields and _is_missing(_id(record, options)):
            made_id = short_hash(line)
            made_ids[made_id] += 1
            suffix = f"-{made_ids[made_id]}" if made_ids[made_id] > 1 else ""
            line = json.dumps({**record, "id": f"{made_id}{suffix}"}, default=_plain)
    except (RecursionError, TypeError, ValueError) as error:
        raise BadInput(
            f"record {number} can't be written as JSON ({error}); give strings, numbers, dates, lists and dicts"
        ) from error
    return f"{line}\n"


def _id(record: Mapping[Any, Any], options: ReadOptions) -> object:
    """The id of a record, which may be in another field; None: it has none."""
    names = [name for name, value in record.items() if isinstance(name, str) and not isinstance(value, dict | None)]
    known = known_names(names, options)
    return next((record[name] for name in names if known.get(name, name) == "id"), None)


def _is_missing(value: object) -> bool:
    """Whether a value stands for none: None, and NaN, NaT and NA of numpy and pandas."""
    return value is None or str(value) in ("nan", "NaN", "NaT", "<NA>")


def _plain(value: Any) -> Any:
    """A value that JSON has in place of one that JSON lacks. Raises TypeError: there is none."""
    if _is_missing(value):
        return math.nan
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    if isinstance(value, Decimal):
        return int(value) if value.is_finite() and value == value.to_integral_value() else float(value)
    for method in ("isoformat", "tolist"):
        if hasattr(value, method) and type(value).__name__ != "datetime64":
            return getattr(value, method)()
    if str(value) == repr(value):  # as of objects that are no values, and of bytes
        raise TypeError(f"a value is a {type(value).__name__}")
    return str(value)


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
