"""Reading many documents by searches: by id, or all or at random, which wait for a server that is away or full."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from indexer.cluster.cluster_client import PAGE, pages
from indexer.stores.clustered.document_layout import Layout
from indexer.stores.clustered.server_index import Hits, ServerIndex


def hits_by_id(
    index: ServerIndex,
    doc_ids: Sequence[str],
    columns: Mapping[str, Any],
    holds: Callable[[Mapping[str, Any]], object],
    texts_of: Collection[str] = (),
    fields: Sequence[str] = (),
) -> Iterator[Hits]:
    """Hits for ids with ``columns`` (``Layout.bare``), a page in each request; ``texts_of`` some ids with ``fields``.

    ``holds`` says whether a hit has what was asked for. If one is missing, the index is refreshed once: a stamp shows
    another process's write before a search does.
    """
    with_text = {"docvalue_fields": columns["docvalue_fields"], "_source": list(fields)}
    always = {"seq_no_primary_term": True, "track_total_hits": False}

    def search(page: Sequence[str]) -> Hits:
        bodies: list[dict[str, Any]] = []
        for has_text, parts in ((True, with_text), (False, columns)):
            ids = [doc_id for doc_id in page if (doc_id in texts_of) == has_text]
            bodies += [{"size": len(ids), "query": index.ids_query(ids), **always, **parts}] if ids else []
        return [hit for hits in index.search(bodies) for hit in hits if holds(hit)]

    index.refresh()
    refreshed = False
    for page in pages(list(dict.fromkeys(doc_ids))):
        hits = search(page)
        yield hits
        missing = sorted(set(page) - {hit["_id"] for hit in hits})
        if missing:
            if not refreshed:
                index.refresh_foreign_writes()
                refreshed = True
            yield search(missing)


def pages_in_order(
    index: ServerIndex, layout: Layout, clauses: Sequence[Mapping[str, Any]], body: Mapping[str, Any], size: int
) -> Iterator[Hits]:
    """Hits ordered by id, one search a page: the server keeps no state that a restart could lose."""
    index.refresh()
    paged = {
        **body,
        "size": size,
        "query": {"bool": {"filter": list(clauses)}},
        "sort": [layout.by_id],
        "track_total_hits": False,
    }
    while True:
        (hits,) = index.retry_while_away(partial(index.search, [paged]))
        if not hits:
            return
        yield hits
        paged["search_after"] = hits[-1]["sort"]


def random_ids(
    index: ServerIndex, layout: Layout, clauses: Sequence[Mapping[str, Any]], count: int, seed: int
) -> list[str]:
    """Ids of at most ``count`` documents, drawn at random, in random order: of the same ids the same order."""
    index.refresh()
    random_order = {"query": {"bool": {"filter": clauses}}, "random_score": {"seed": seed, "field": layout.name("id")}}
    body: dict[str, Any] = {
        **layout.bare(),
        "query": {"function_score": {**random_order, "boost_mode": "replace"}},
        "sort": ["_score", layout.by_id],
        "track_total_hits": False,
    }
    doc_ids: list[str] = []
    while len(doc_ids) < count:
        page_body = {**body, "size": min(PAGE, count - len(doc_ids))}
        (hits,) = index.retry_while_away(partial(index.search, [page_body]))
        if not hits:
            break
        doc_ids += [hit["_id"] for hit in hits]
        body["search_after"] = hits[-1]["sort"]
    doc_ids.sort()  # the server's order depends on the index's name
    return [doc_ids[row] for row in np.random.default_rng(seed).permutation(len(doc_ids))]
