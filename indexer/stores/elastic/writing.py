"""Bulk writes that survive what happens to servers: a full queue, a time-out, an absence, somebody else's write.

Every write says which state of the document it was decided on (``if_seq_no`` and ``if_primary_term``, or that there is
none). So a write that arrives late, or twice, or after somebody else's, is refused by the server, and decided again.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, TypeVar

from encoders.errors import StoreError
from indexer.elastic import connection, errors

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

CHUNK_BYTES = 10 * 1024 * 1024
"""Of a bulk request: 5 to 15 MB is what one node takes well."""
_SMALLEST_CHUNK = 512 * 1024
"""A server whose queue is full is sent less at once."""
_AT_ONCE = 4
"""Parts of a large write that are on their way together: the next is made while the server is at work."""
_LEAST = 64
"""Documents that are worth a part of their own: a chunk of an index run is one."""
PATIENCE = 180.0
"""Seconds a write waits for a server that is away or full before it gives up."""
_BACKOFF = (0.5, 30.0)
_TOO_LARGE = 413
_REQUEST = "it is larger than the server takes in a request (http.max_content_length)"
_MEMORY = "it takes more memory than the server has for writes at once (indexing_pressure.memory.limit)"

T = TypeVar("T")

Action = dict[str, Any]
"""An action as ``elasticsearch.helpers`` takes it."""


@dataclass
class BulkOutcome:
    """What became of some actions.

    Attributes:
        done: ids that were written.
        refused: reasons by id.
    """

    done: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ServerDocument:
    """A document as the server holds it.

    Attributes:
        source: what was asked of its source.
        seq_no: of its last write.
        primary_term: of that.
        version: of the document.
    """

    source: Mapping[str, Any]
    seq_no: int
    primary_term: int
    version: int = 0

    @property
    def unchanged(self) -> dict[str, int]:
        """What a write says so that it happens only to this state."""
        return {"if_seq_no": self.seq_no, "if_primary_term": self.primary_term}


def read(
    client: Elasticsearch,
    server: str,
    index: str,
    doc_ids: Sequence[str],
    fields: Sequence[str],
    routing: Mapping[str, str] | None = None,
    excludes: Sequence[str] = (),
) -> dict[str, ServerDocument]:
    """Documents as they are now, refreshed or not; ids the index does not have are left out.

    Args:
        client: of the server.
        server: its name in messages.
        index: that has them.
        doc_ids: which.
        fields: what to read of their sources.
        routing: values by which some of them were placed, by id.
        excludes: what of those fields to leave out.
    """
    if not doc_ids:
        return {}
    placed = routing or {}
    asked = [{"_id": one, "routing": placed[one]} if one in placed else {"_id": one} for one in doc_ids]
    answer = client.mget(index=index, docs=asked, source_includes=list(fields), source_excludes=list(excludes))
    return {
        one["_id"]: ServerDocument(one.get("_source", {}), one["_seq_no"], one["_primary_term"], one["_version"])
        for one in connection.found(server, index, answer["docs"])
    }


class _Patience:
    """Waits longer each time for a server that is away or full, until it is too long; not at all once given up."""

    def __init__(self, given_up: Event) -> None:
        self._given_up = given_up
        self.renew()

    def renew(self) -> None:
        """Something went well: begin anew."""
        self._pause, self._until = _BACKOFF[0], time.monotonic() + PATIENCE

    def wait(self, cause: StoreError) -> None:
        """Wait, or raise the cause: that it can't be waited for, or has been for long enough."""
        if time.monotonic() + self._pause > self._until:
            raise cause
        self._given_up.wait(self._pause)
        self._pause = min(2 * self._pause, _BACKOFF[1])


def patiently(server: str, act: Callable[[], T]) -> T:
    """Do something that can be done again, waiting for a server that is away or overloaded.

    Raises:
        StoreError: it was for ``PATIENCE``, or refuses.
    """
    patience = _Patience(Event())
    while True:
        try:
            with connection.guarded(server):
                return act()
        except StoreError as error:
            if not errors.passes(error):
                raise
            patience.wait(error)


def write(
    client: Elasticsearch,
    server: str,
    doc_ids: Iterable[str],
    decide: Callable[[Sequence[str]], Mapping[str, Action]],
) -> BulkOutcome:
    """Write until every document is written, refused, or decided against.

    Args:
        client: of the server.
        server: its name in messages.
        doc_ids: of the documents.
        decide: what to do with each of some documents as they are at this moment; one it leaves out needs nothing.
            Several threads ask it, one after another, each about documents of its own.

    Raises:
        StoreError: it took nothing for ``PATIENCE``, or refuses writes altogether.
    """
    every, given_up = list(doc_ids), Event()
    size = max(-(-len(every) // _AT_ONCE), _LEAST)
    parts = [every[at : at + size] for at in range(0, len(every), size)]
    if len(parts) < 2:
        return _write(client, server, decide, given_up, every)
    outcome, turn = BulkOutcome(), Lock()

    def in_turn(some: Sequence[str]) -> Mapping[str, Action]:
        with turn:  # all at once they would be ready at once, and the server idle until then
            return decide(some)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        try:
            for part in pool.map(partial(_write, client, server, in_turn, given_up), parts):
                outcome.done |= part.done
                outcome.refused |= part.refused
        finally:
            given_up.set()
    return outcome


def _write(
    client: Elasticsearch,
    server: str,
    decide: Callable[[Sequence[str]], Mapping[str, Action]],
    given_up: Event,
    doc_ids: list[str],
) -> BulkOutcome:
    """The same of one part, in one request after another, until another part can't be written."""
    outcome = BulkOutcome()
    groups = [doc_ids]
    size = CHUNK_BYTES
    patience = _Patience(given_up)
    broken: Counter[str] = Counter()
    while groups and not given_up.is_set():
        pending = groups.pop()
        full: StoreError | None
        actions: Mapping[str, Action] = {}
        try:
            with connection.guarded(server):
                actions = decide(pending)
                later, full = _attempt(client, actions, outcome, size)
        except StoreError as error:
            later, full = [doc_id for doc_id in pending if doc_id not in outcome.done], error
            if limit := _too_large(error, [actions[doc_id] for doc_id in later if doc_id in actions], broken):
                groups += _halves(later, limit, outcome)
                continue
            if not errors.passes(error):
                given_up.set()
                raise
        if len(later) < len(pending):
            patience.renew()
        groups += [later] if later else []
        if full:  # otherwise another writer was faster: decided again at once
            patience.wait(full)
            size = max(size // 2, _SMALLEST_CHUNK)
    return outcome


def _too_large(error: StoreError, sent: Sequence[Action], broken: Counter[str]) -> str:
    """Why a request failed because of its size; empty where it did not.

    The server says so, or ends the connection in its midst. A server that dies does that too. So several are sent
    apart, and one must be large and meet it twice, though the server answered in between.
    """
    if errors.never_fits(str(error)):
        return _MEMORY
    if getattr(error.__cause__, "status_code", None) == _TOO_LARGE:
        return _REQUEST
    if not (sent and errors.broke(error)):
        return ""
    if len(sent) > 1:
        return _REQUEST
    (action,) = sent
    broken[action["_id"]] += 1
    return _REQUEST if broken[action["_id"]] > 1 and len(json.dumps(action)) > _SMALLEST_CHUNK else ""


def _halves(doc_ids: list[str], limit: str, outcome: BulkOutcome) -> list[list[str]]:
    """What to send apart of documents that are too large for a limit together; one that is so alone is refused."""
    if len(doc_ids) == 1:
        outcome.refused[doc_ids[0]] = limit
        return []
    middle = len(doc_ids) // 2
    return [doc_ids[middle:], doc_ids[:middle]]


def _attempt(
    client: Elasticsearch, actions: Mapping[str, Action], outcome: BulkOutcome, size: int
) -> tuple[list[str], StoreError | None]:
    """Send actions once; returns the ids to decide on again, and why it is better to wait before that."""
    from elasticsearch import helpers  # noqa: PLC0415

    later = []
    full = None
    answers: Any = helpers.streaming_bulk(
        client, actions.values(), chunk_size=5000, max_chunk_bytes=size, max_retries=0, raise_on_error=False
    )
    with closing(answers):  # left open by an error, another thread may come to end it
        for done, answer in answers:
            ((kind, item),) = answer.items()
            doc_id = item["_id"]
            if done or (kind == "delete" and item["status"] == 404):
                outcome.done |= {doc_id} if done else set()
            elif item["status"] == 409 or _is_gone(item):
                later.append(doc_id)
            elif errors.never_fits(why := errors.reason(item)):
                if len(actions) > 1:  # it may be all of what its shard was sent at once that does not fit
                    raise StoreError(f"the server has too little memory for these writes ({why})")
                outcome.refused[doc_id] = _MEMORY
            elif item["status"] in {429, 503} and "cluster_block" not in str(item["error"]):
                later.append(doc_id)
                full = errors.TemporaryFailure(
                    f"the server's queue is full ({errors.reason(item)}); run the command again later"
                )
            elif "cluster_block" in str(item["error"]):
                raise errors.WritesBlocked(f"the server {_blocked(item)}")
            elif item["status"] in {401, 403, 404}:
                raise StoreError(f"the server {_blocked(item)}")
            else:
                outcome.refused[doc_id] = errors.reason(item)
    return later, full


def _is_gone(item: Mapping[str, Any]) -> bool:
    """Whether a document was to be updated that somebody else has deleted since."""
    error = item.get("error")
    return isinstance(error, dict) and error.get("type") == "document_missing_exception"


def _blocked(item: Mapping[str, Any]) -> str:
    return (
        f"writes nothing into {item['_index']} ({errors.reason(item)}); "
        "free disk on its nodes if it is the watermark, or see to the user's rights, then run the command again"
    )
