"""What others wrote into our part of a document is not trusted."""

import base64
from collections.abc import Iterator
from contextlib import closing

import pytest
import sqlalchemy as sa

from encoders.document import Document
from indexer.stores.contract import VectorQuery
from tests.indexer.attaching.owner import Owner, texts


@pytest.fixture
def owner(elastic_url: str, engine: sa.Engine) -> Iterator[Owner]:
    with closing(Owner(elastic_url, engine, companion=False)) as made:
        made.make()
        yield made


@pytest.mark.parametrize("part", ["passages", "offsets", "known"])
def test_forged_parts_break_no_search_and_the_next_attach_mends_them(
    owner: Owner, part: str, caplog: pytest.LogCaptureFixture
) -> None:
    owner.write_all(texts(3))
    owner.follow()
    model = owner.encoder.spec.model
    forged = {"models": {model: {part: base64.b64encode(b"five!").decode()}}}
    owner.update("d1", {"dragoman": forged})
    owner.client.indices.refresh(index=owner.index)
    query = {"en": owner.encoder.encode_queries([Document("q", "en", "text")])}
    with closing(owner.open()) as store:
        (found,) = store.search(VectorQuery(model, query, 5))["en"]
        stored = dict(zip(found.doc_ids, store.passages(model, found.doc_ids), strict=True))
    assert sorted(stored) == ["d0", "d1", "d2"]
    damaged = part != "known"
    assert (len(stored["d1"].offsets) == 0) == damaged
    assert ("the passages of d1 are damaged; index or attach mends them" in caplog.text) == damaged
    assert owner.encoded_by_following() == ["d1"]
    owner.check()
