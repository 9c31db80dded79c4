"""Documents, topics and judgements of the ``ir_datasets`` library: ``ir-datasets:NAME``."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from encoders.errors import BadInput, importing
from encoders.languages import normalise
from encoders.phrases import counted
from indexer.readers.records.record import make_document
from indexer.readers.records.source import Reading, ReadOptions, Refusal

PREFIX = "ir-datasets:"

_TITLES = ("title", "headline", "subject")
_TEXTS = ("text", "body", "contents", "abstract", "passage")
_ENGLISH_TOPICS = ("csl/", "hc4/", "neuclir/")
"""Data sets of whose topics the library reads the English version without naming its language."""
_PARTS = {"docs": "documents", "queries": "topics", "qrels": "judgements"}


def dataset_name(source: str | Path) -> str:
    """The name of the data set that a source is; empty: it is none."""
    return str(source).removeprefix(PREFIX) if str(source).startswith(PREFIX) else ""


def load(name: str, part: str = "docs") -> Any:
    """Load a data set, without download. Raises MissingPart; BadInput: there is no such set, or it lacks the part."""
    with importing("datasets", f"{PREFIX}{name} needs ir_datasets; install it"):
        import ir_datasets  # noqa: PLC0415 - an extra
    try:
        dataset = ir_datasets.load(name)
    except KeyError as error:
        raise BadInput(f"{PREFIX}{name} is no data set of ir_datasets; see its catalogue for the names") from error
    if not getattr(dataset, f"has_{part}")():
        raise BadInput(f"{PREFIX}{name} has no {_PARTS[part]}; name a data set with some, perhaps a part of this")
    return dataset


def rows(name: str, part: str) -> Iterator[tuple[Any, str]]:
    """Yield the ``queries`` or ``qrels`` of a data set, each with its language; the library may download them.

    An unknown language is empty. Raises as ``load``; BadInput: they can't be read to their end.
    """
    dataset = load(name, part)
    english = "en" if name.startswith(_ENGLISH_TOPICS) else ""
    lang = dataset.queries_lang() or english if part == "queries" else ""
    try:
        yield from ((row, lang or "") for row in getattr(dataset, f"{part}_iter")())
    except (OSError, RuntimeError) as error:
        raise BadInput(f"the {_PARTS[part]} of {PREFIX}{name} can't be read ({error}); run this again") from error


def read_dataset(name: str, dataset: Any, options: ReadOptions) -> Iterator[Reading]:
    """Yield a document or a refusal for each document of a data set; the library may download the data set."""
    lang = options.lang or normalise(dataset.docs_lang() or "")
    count = 0
    try:
        for count, doc in enumerate(dataset.docs_iter(), start=1):
            place = f"{PREFIX}{name}:{getattr(doc, 'doc_id', count)}"
            yield make_document(_record(doc, options), place, ReadOptions(lang=lang))
    except (OSError, RuntimeError) as error:
        yield Refusal(
            f"{PREFIX}{name}", f"it can't be read on after {counted(count, 'document')} ({error}); run this again"
        )
        return
    if not count:
        yield Refusal(f"{PREFIX}{name}", "it holds no document")


def _record(doc: Any, options: ReadOptions) -> dict[str, Any]:
    values = doc._asdict()
    names = {
        "id": options.fields.get("id", "doc_id"),
        "title": options.fields.get("title") or next((name for name in _TITLES if name in values), ""),
        "text": options.fields.get("text") or next((name for name in _TEXTS if name in values), ""),
        "lang": options.fields.get("lang", "lang"),
    }
    record = {field: values.get(source_name) for field, source_name in names.items()}
    if not names["text"]:
        record["text"] = doc.default_text()
    our_names = {source_name: field for field, source_name in options.fields.items()}
    used = set(names.values())
    for name, value in values.items():
        if name not in used and isinstance(value, str | int | float | bool):
            record[our_names.get(name, name)] = value
    return record
