"""Several indices of an owner are one collection, each of whose documents has its index in its id: on a real server."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from encoders.document import Document
from encoders.errors import BadInput
from indexer.attaching import attached_collection
from indexer.attaching.attached_collection import AttachedCollection
from indexer.collection.settings import Settings
from indexer.collection.store_location import StoreLocation
from indexer.ledger import attach_ledger
from indexer.stores.attached.joined_store import JoinedStore
from indexer.stores.attached.users_index import UsersIndex
from indexer.stores.contract import LexicalQuery, MissingDocuments, VectorQuery
from tests.indexer.attaching.owner import MAPPING, Owner, source

MakeFamily = Callable[..., Owner]


@pytest.fixture
def family_of(elastic_url: str, engine: sa.Engine) -> Iterator[MakeFamily]:
    """Makes an owner of indices that have documents *a* and *b* each, attached by a pattern or by an alias."""
    with ExitStack() as stack:

        def made(*langs: str, companion: bool = False, alias: bool = False) -> Owner:
            owner = Owner(elastic_url, engine, companion=companion)
            stack.callback(owner.close)
            for lang in langs:
                add(owner, lang)
            name = f"{owner.prefix}-all" if alias else f"{owner.prefix}-docs-*"
            owner.attachment = replace(owner.attachment, index=name)
            owner.attachment = UsersIndex.open(owner.client, owner.attachment, new=True).attachment
            return owner

        yield made


def add(owner: Owner, lang: str, mapping: object = MAPPING) -> str:
    """Make an index of a language, behind the alias, too."""
    owner.index = f"{owner.prefix}-docs-{lang}"
    owner.make(mapping)  # type: ignore[arg-type]
    owner.client.indices.put_alias(index=owner.index, name=f"{owner.prefix}-all")
    if mapping is MAPPING:
        owner.write_all({"a": source(f"one {lang}", lang), "b": source(f"two {lang}", lang)})
    return owner.index


def ids(owner: Owner, *langs: str) -> list[str]:
    return [f"{owner.prefix}-docs-{lang}/{own_id}" for lang in langs for own_id in ("a", "b")]


def check(owner: Owner, *langs: str) -> JoinedStore:
    """Every document of these indices, and none else, is found by vectors, by words and by its id, with its text."""
    store = owner.open()
    assert store.count() == dict.fromkeys(langs, 2)
    assert sorted(owner.vectors()) == list(store.ids()) == ids(owner, *langs)
    assert [document.text for document in store.get(ids(owner, *langs))] == [
        f"{count} {lang}" for lang in langs for count in ("one", "two")
    ]
    for lang in langs:
        assert sorted(store.sample(owner.encoder.spec.model, lang, 9)) == ids(owner, lang)
        (hits,) = store.lexical(LexicalQuery(["two"], list(langs), 5))
        assert [doc_id for doc_id, _ in hits[lang]] == [f"{owner.prefix}-docs-{lang}/b"]
    return store


@pytest.mark.parametrize("alias", [False, True], ids=["pattern", "alias"])
@pytest.mark.parametrize("companion", [False, True], ids=["in place", "companion"])
def test_indices_are_one_collection_that_takes_new_ones_and_leaves_deleted_ones(
    family_of: MakeFamily, *, companion: bool, alias: bool
) -> None:
    owner = family_of("de", "en", companion=companion, alias=alias)
    report = owner.follow()
    assert (report.encoded, report.languages) == (4, {"de": 2, "en": 2})
    check(owner, "de", "en")
    add(owner, "fr")
    check(owner, "de", "en")  # an index that is not attached yet disturbs no search
    assert owner.encoded_by_following() == ids(owner, "fr")
    owner.client.update(index=f"{owner.prefix}-docs-de", id="a", doc={"content": {"body": "another text"}})
    assert owner.encoded_by_following() == ids(owner, "de")[:1]
    assert owner.encoded_by_following() == []
    owner.client.update(index=f"{owner.prefix}-docs-de", id="a", doc={"content": {"body": "one de"}})
    owner.follow()
    check(owner, "de", "en", "fr")
    for_whole = owner.open()
    owner.client.indices.delete(index=f"{owner.prefix}-docs-en")
    with pytest.raises(MissingDocuments):
        for_whole.get(ids(owner, "de", "en"))
    assert for_whole.visible([f"{owner.prefix}-docs-{lang}" for lang in ("de", "en")])[1] == {"de": 2}
    assert owner.follow().removed == (2 if companion else 0)
    check(owner, "de", "fr")
    StoreLocation(owner.attachment.url, "c").drop()
    hits = owner.client.search(index=owner.attachment.index, size=9)["hits"]["hits"]
    assert [set(hit["_source"]) for hit in hits] == [{"headline", "content", "lang"}] * 4


@pytest.mark.parametrize("companion", [False, True], ids=["in place", "companion"])
def test_a_view_has_the_documents_of_its_indices_alone(family_of: MakeFamily, *, companion: bool) -> None:
    owner = family_of("de", "en", "fr", companion=companion)
    owner.follow()
    store, docs = owner.open(), f"{owner.prefix}-docs"
    vectors = {lang: owner.encoder.encode_queries([Document("q", lang, "one")]) for lang in ("de", "en", "fr")}
    for names, langs in (([f"{docs}-de"], ["de"]), ([f"{docs}-e*", f"{docs}-fr"], ["en", "fr"])):
        view, counts = store.visible(names)
        assert counts == dict.fromkeys(langs, 2)
        found = view.search(VectorQuery(owner.encoder.spec.model, vectors, 9))
        assert {lang for lang, (hits,) in found.items() if hits.doc_ids} == set(langs)
        assert view.count_passing(["de", "en", "fr"]) == 2 * len(langs)
    assert store.visible([f"{owner.prefix}-all"])[0] is store
    assert store.shown_place(f"{docs}-de/b") == (f"{docs}-de", "b")


def test_an_index_that_is_away_for_a_pass_keeps_its_vectors(family_of: MakeFamily) -> None:
    owner = family_of("de", "en", companion=True)
    owner.follow()
    refused = add(owner, "xx", {"_routing": {"required": True}, **MAPPING})
    for own_id in ("a", "b", "c"):
        owner.client.index(index=refused, id=own_id, routing="r", document=source(own_id), refresh=True)
    owner.client.indices.close(index=f"{owner.prefix}-docs-en")
    owner.client.delete(index=f"{owner.prefix}-docs-de", id="a")
    report = owner.follow()
    assert (report.removed, len(report.unfit), attach_ledger.followed(owner.engine, "c")) == (
        1, 1, [f"{owner.prefix}-docs-de"],
    )  # fmt: skip
    owner.client.indices.open(index=f"{owner.prefix}-docs-en")
    assert (owner.encoded_by_following(), sorted(owner.vectors())) == ([], ids(owner, "de", "en")[1:])
    assert len(attach_ledger.followed(owner.engine, "c")) == 2


def test_an_index_that_is_not_of_the_family_is_not_read_whatever_an_id_says(family_of: MakeFamily) -> None:
    owner = family_of("de")
    owner.follow()
    owner.client.index(index=f"{owner.prefix}-secret", id="a", document={"body": "secret"}, refresh=True)
    store = owner.open()
    for doc_id in (f"{owner.prefix}-secret/a", "a", "/a", f"{owner.prefix}-docs-de/"):
        with pytest.raises(MissingDocuments):
            store.get([doc_id])
        assert store.originals([doc_id]) == {}


def test_an_index_that_cannot_be_attached_is_said_once_the_others_have_caught_up(
    family_of: MakeFamily, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = family_of("de")
    monkeypatch.setattr(attached_collection, "open_named", lambda *_, **__: owner.encoder)
    owner.follow()
    unfit = add(owner, "xx", {"properties": {"other": {"type": "text"}}})
    add(owner, "en")
    report = owner.follow()
    assert (report.encoded, report.unfit) == (
        2,
        [f"{unfit} has no field 'content.body'; its fields of text are: other"],
    )
    check(owner, "de", "en")
    new, settings = replace(owner.attachment, family=False, field="other"), Settings.read(home=tmp_path)
    with pytest.raises(BadInput, match="has no field"), AttachedCollection.open("new", new, settings=settings):
        pass
    assert "other" not in owner.client.indices.get_mapping(index=f"{owner.prefix}-docs-de").body
    with pytest.raises(BadInput, match="would take in our own index beside it"):
        replace(new, companion=f"{owner.prefix}-docs")
