"""Searches that a server has no room for are sent again, and those alone."""

from collections.abc import Sequence
from typing import Any

import pytest

from indexer.cluster.cluster_errors import SearchRefused
from indexer.stores.clustered import server_index, writing
from indexer.stores.clustered.document_layout import Layout
from indexer.stores.clustered.scan import pages_in_order
from indexer.stores.clustered.server_index import ServerIndex

FULL = {"error": {"type": "es_rejected_execution_exception", "reason": "rejected execution"}, "status": 429}
BROKEN = {"error": {"type": "parsing_exception", "reason": "unknown query"}, "status": 400}


class Crowded:
    """A client of a server that refuses the last search of a request, as often as it is told.

    Attributes:
        refusals: what it still answers to the last search.
        sent: the bodies of each request.
    """

    def __init__(self, *refusals: dict[str, Any]) -> None:
        self.refusals, self.sent = list(refusals), list[list[Any]]()

    def msearch(self, *, searches: Sequence[Any]) -> dict[str, Any]:
        bodies = list(searches[1::2])
        self.sent.append([body["number"] for body in bodies if "number" in body])
        answers = [{"hits": {"hits": [{"_id": str(body.get("number")), "sort": ["z"]}]}} for body in bodies]
        if bodies[-1].get("search_after"):
            answers[-1] = {"hits": {"hits": []}}
        return {"responses": [*answers[:-1], self.refusals.pop(0) if self.refusals else answers[-1]]}


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_index, "_PAUSES", (0.0, 0.0))
    monkeypatch.setattr(writing, "_BACKOFF", (0.0, 0.0))


def index_of(client: Any) -> ServerIndex:
    return ServerIndex(client, "http://there", "pages", "id", remedy="", stale=False)


def bodies(count: int) -> list[dict[str, Any]]:
    return [{"number": number, "size": 1} for number in range(count)]


def test_a_search_that_a_full_queue_refused_is_sent_again_without_the_others() -> None:
    client = Crowded(FULL, FULL)
    hits = index_of(client).search(bodies(3))
    assert [hit["_id"] for (hit,) in hits] == ["0", "1", "2"]
    assert client.sent == [[0, 1, 2], [2], [2]]


def test_a_queue_that_stays_full_is_said_and_is_never_an_empty_answer() -> None:
    with pytest.raises(SearchRefused, match=r"can't search now .*try again") as refused:
        index_of(Crowded(FULL, FULL, FULL)).search(bodies(2))
    assert refused.value.status == 429


def test_a_search_that_can_not_succeed_is_sent_once() -> None:
    client = Crowded(BROKEN)
    with pytest.raises(SearchRefused, match="refused a search"):
        index_of(client).search(bodies(2))
    assert len(client.sent) == 1


def test_reading_all_documents_waits_for_a_queue_that_stays_full() -> None:
    client = Crowded(*[FULL] * 9)
    assert len(list(pages_in_order(index_of(client), Layout(), [], {}, 10))) == 1
