"""Bulk writes that survive a full queue, a time-out, a restart of the server, and another client's write.

Every write but a delete names the state of the document that it was decided on (``if_seq_no`` and ``if_primary_term``,
or that the document is new). So the server refuses a late, repeated or overtaken write, which is then decided again.
"""

import json
import logging
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
from indexer.cluster import cluster_client, cluster_errors

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

CHUNK_BYTES = 10 * 1024 * 1024
"""Maximum bytes of a bulk request: one node takes 5 to 15 MB well."""
_SMALLEST_CHUNK = 512 * 1024
"""Lower bound of the request size in bytes, which is halved while the server's queue is full."""
_AT_ONCE = 4
"""Parts of a large write that are sent concurrently: the next part is built while the server works."""
_MIN_PART = 64
"""Minimum documents of a part: a chunk of an index run is one part."""
PATIENCE = 180.0
"""Seconds that a write waits for a server that is away or full before it gives up."""
_BACKOFF = (0.5, 30.0)
_TOO_LARGE = 413
_REQUEST = "it is larger than the server takes in a request (http.max_content_length)"
_MEMORY = "it takes more memory than the server has for writes at once (indexing_pressure.memory.limit)"

T = TypeVar("T")
_logger = logging.getLogger("dragoman.stores")

Action = dict[str, Any]
"""A bulk action in the format of ``elasticsearch.helpers``."""


@dataclass
class BulkOutcome:
    """The outcome of bulk actions: ids that were written, and reasons of refusals by id."""

    done: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)


class _Backoff:
    """Waits for a server that is away or full, twice as long each time; gives up after ``PATIENCE`` seconds."""

    def __init__(self, given_up: Event) -> None:
        self._given_up = given_up
        self.renew()

    def renew(self) -> None:
        """Start the waiting times anew, after a success."""
        self._pause, self._until = _BACKOFF[0], time.monotonic() + PATIENCE

    def wait(self, cause: StoreError) -> None:
        """Wait, or raise the cause if the waiting would exceed ``PATIENCE``; returns at once if a part gave up."""
        if time.monotonic() + self._pause > self._until:
            raise cause
        if self._pause == 8 * _BACKOFF[0]:  # it is no hiccup
            _logger.warning("%s; trying again for up to %d s", cause, PATIENCE)
        self._given_up.wait(self._pause)
        self._pause = min(2 * self._pause, _BACKOFF[1])


def retry_while_away(server: str, act: Callable[[], T]) -> T:
    """Call a function again while the server is away. Raises StoreError: it was away for ``PATIENCE``, or refuses."""
    backoff = _Backoff(Event())
    while True:
        try:
            with cluster_client.store_errors(server):
                return act()
        except StoreError as error:
            if not cluster_errors.is_temporary(error):
                raise
            backoff.wait(error)


def write(
    client: "Elasticsearch",
    server: str,
    doc_ids: Iterable[str],
    decide: Callable[[Sequence[str]], Mapping[str, Action]],
) -> BulkOutcome:
    """Write until every document is written, refused, or decided against.

    ``decide`` returns an action for each given id that needs a write, from the documents' current state; threads call
    it in turn, each with different ids. Raises StoreError: the server took nothing for ``PATIENCE``, or refuses all.
    """
    listed, given_up = list(doc_ids), Event()
    size = max(-(-len(listed) // _AT_ONCE), _MIN_PART)
    parts = [listed[start : start + size] for start in range(0, len(listed), size)]
    if len(parts) < 2:
        return _write(client, server, decide, given_up, listed)
    outcome, lock = BulkOutcome(), Lock()

    def decide_alone(part_ids: Sequence[str]) -> Mapping[str, Action]:
        with lock:  # without the lock all parts would be ready at the same time, and the server idle until then
            return decide(part_ids)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        try:
            for part in pool.map(partial(_write, client, server, decide_alone, given_up), parts):
                outcome.done |= part.done
                outcome.refused |= part.refused
        finally:
            given_up.set()
    return outcome


def _write(
    client: "Elasticsearch",
    server: str,
    decide: Callable[[Sequence[str]], Mapping[str, Action]],
    given_up: Event,
    doc_ids: list[str],
) -> BulkOutcome:
    """Write one part, one request after another, until the part is done or another part gave up."""
    outcome = BulkOutcome()
    groups = [doc_ids]
    size = CHUNK_BYTES
    backoff = _Backoff(given_up)
    broken: Counter[str] = Counter()
    while groups and not given_up.is_set():
        pending = groups.pop()
        full: StoreError | None
        actions: Mapping[str, Action] = {}
        try:
            with cluster_client.store_errors(server):
                actions = decide(pending)
                later, full = _attempt(client, server, actions, outcome, size)
        except StoreError as error:
            later, full = [doc_id for doc_id in pending if doc_id not in outcome.done], error
            if limit := _too_large(error, [actions[doc_id] for doc_id in later if doc_id in actions], broken):
                if len(later) == 1:
                    outcome.refused[later[0]] = limit
                else:
                    middle = len(later) // 2
                    groups += [later[middle:], later[:middle]]
                continue
            if not cluster_errors.is_temporary(error):
                given_up.set()
                raise
        if len(later) < len(pending):
            backoff.renew()
        groups += [later] if later else []
        if full:  # otherwise another client wrote first, and these documents are decided again at once
            backoff.wait(full)
            size = max(size // 2, _SMALLEST_CHUNK)
    return outcome


def _too_large(error: StoreError, sent: Sequence[Action], broken: Counter[str]) -> str:
    """The limit that a failed request exceeded; empty if its size was not the cause.

    A server reports the limit, or ends the connection, as a dying server does too. So documents are then sent apart,
    and a document is too large only if it is large and broke the connection twice, with an answer in between.
    """
    if cluster_errors.never_fits(str(error)):
        return _MEMORY
    if getattr(error.__cause__, "status_code", None) == _TOO_LARGE:
        return _REQUEST
    if not (sent and cluster_errors.connection_broke(error)):
        return ""
    if len(sent) > 1:
        return _REQUEST
    (action,) = sent
    broken[action["_id"]] += 1
    return _REQUEST if broken[action["_id"]] > 1 and len(json.dumps(action)) > _SMALLEST_CHUNK else ""


def _attempt(
    client: "Elasticsearch", server: str, actions: Mapping[str, Action], outcome: BulkOutcome, size: int
) -> tuple[list[str], StoreError | None]:
    """Send actions once; returns the ids to decide on again, and the reason to wait before that, if there is one."""
    from elasticsearch import helpers  # noqa: PLC0415

    later = []
    full = None
    answers: Any = helpers.streaming_bulk(
        client, actions.values(), chunk_size=5000, max_chunk_bytes=size, max_retries=0, raise_on_error=False
    )
    with closing(answers):  # otherwise another thread may close the generator after an error
        for doc_id, (done, answer) in zip(actions, answers, strict=True):
            ((kind, item),) = answer.items()
            failure = item.get("error")
            kind_of_error = failure.get("type") if isinstance(failure, dict) else ""
            if done or (kind == "delete" and item["status"] == 404):
                outcome.done |= {doc_id} if done else set()
            elif item["status"] == 409 or kind_of_error == "document_missing_exception":
                later.append(doc_id)
            elif cluster_errors.never_fits(why := cluster_errors.reason(item)):
                if len(actions) > 1:  # perhaps only all actions for the shard together do not fit
                    raise StoreError(f"the server has too little memory for these writes ({why})")
                outcome.refused[doc_id] = _MEMORY
            elif item["status"] in {429, 503}:
                later.append(doc_id)
                full = cluster_errors.TemporaryFailure(f"{server} {cluster_errors.sentence(item['status'], item)}")
            elif kind_of_error == "index_not_found_exception":
                raise cluster_errors.IndexGone(f"the index {item['_index']} is gone from {server}; bring it back")
            elif item["status"] in {401, 403, 404}:
                raise StoreError(f"{server} {cluster_errors.sentence(item['status'], item)}")
            else:
                outcome.refused[doc_id] = cluster_errors.reason(item)
    return later, full
