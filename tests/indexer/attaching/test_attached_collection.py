"""An index made by somebody else gets vectors, and keeps its owner's writes: on real servers, with rights.

``python -m benchmarks.attack --only "an owner's writes"`` is a longer trial.
"""

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.parse import urlsplit

import numpy as np
import pytest
import sqlalchemy as sa

from encoders.document import Document, Encoded
from encoders.errors import BadInput, StoreError
from encoders.folder.model_folder import ModelFolder
from encoders.inference.batch_checkpoint import current_checkpoint
from indexer.attaching import attached_collection as attaching
from indexer.attaching.attached_collection import AttachedCollection, detach
from indexer.attaching.catch_up import catch_up
from indexer.cluster.cluster_address import Credentials
from indexer.cluster.cluster_errors import IndexGone
from indexer.cluster.source_values import filter_texts
from indexer.collection import collection as collections
from indexer.collection.collection import find, register
from indexer.collection.settings import Settings
from indexer.collection.store_location import StoreLocation
from indexer.ledger.database import connect, read_database_id
from indexer.readers.formats import count_distinct, read
from indexer.readers.records.source import ReadOptions
from indexer.stores.attached import attach_checks
from indexer.stores.attached.attached_address import Attachment, is_attached
from indexer.stores.attached.in_place import detach as detach_from
from indexer.stores.attached.users_index import UsersIndex, only_index
from indexer.stores.clustered.server_index import ServerIndex
from indexer.stores.contract import LexicalQuery, MissingDocuments
from tests.conftest import Patch
from tests.indexer.attaching.owner import MAPPING, Owner, source, texts
from trials.attach_race import race, race_with_follow
from trials.fake_encoder import FakeEncoder
from trials.servers.elastic import PASSWORD, ElasticServer
from trials.servers.secured import admin, credentials

OwnerOf = Callable[..., Owner]


@pytest.fixture
def owner_of(elastic_url: str, engine: sa.Engine) -> Iterator[OwnerOf]:
    """Makes an owner with an empty index of two shards, whose mapping is strict unless another is given."""
    with ExitStack() as stack:

        def made(mapping: Mapping[str, Any] = MAPPING, *, companion: bool = False, **settings: Any) -> Owner:
            owner = Owner(elastic_url, engine, companion=companion)
            stack.callback(owner.close)
            owner.make(mapping, **settings)
            return owner

        yield made


@pytest.fixture(params=["in place", "companion"])
def owner(request: pytest.FixtureRequest, owner_of: OwnerOf) -> Owner:
    return owner_of(companion=request.param == "companion")


@pytest.fixture
def in_place(owner_of: OwnerOf) -> Owner:
    """For what happens in place alone."""
    return owner_of()


def at_the_door(owner: Owner, model: str = "model-c") -> None:
    attach_checks.check(owner.client, UsersIndex.open(owner.client, owner.attachment), model)


def refused_at_the_door(owner: Owner, reason: str, **attachment: Any) -> None:
    owner.attachment = replace(owner.attachment, **attachment)
    with pytest.raises(BadInput, match=reason):
        at_the_door(owner)


def test_every_document_gets_its_vector_and_the_index_stays_its_owners(owner: Owner) -> None:
    before = {f"d{at}/ü:": source(f"text {at}", year=1990 + at) for at in range(150)}
    owner.write_all(before)
    report = owner.follow()
    assert (report.encoded, report.refused, report.behind, len(owner.encoder.encoded)) == (150, [], False, 150)
    owner.check()
    mapping = owner.client.indices.get_mapping(index=owner.index)[owner.index]["mappings"]
    added = set(mapping["properties"]) - set(MAPPING["properties"])
    assert (added, mapping["dynamic"]) == (set() if owner.attachment.companion else {"dragoman"}, "strict")
    with pytest.raises(BadInput, match="are their owner's"):
        owner.open().delete(list(before))
    for doc_id, document in before.items():
        now = owner.read(doc_id)
        now.pop("dragoman", None)
        assert now == document


def test_following_encodes_what_is_new_or_has_another_text_or_lost_our_field_and_nothing_else(owner: Owner) -> None:
    owner.begin(texts(20))
    owner.update("d7", {"content": {"body": "another text"}})
    owner.update("d8", {"headline": "another title"})
    owner.update("d9", {"year": 2001})
    owner.write("d5", source("text 5"))  # a write of the whole document takes our field
    owner.write("new", source("a new text"))
    owner.client.delete(index=owner.index, id="d3")
    owner.encoder.encoded.clear()
    report, beside = owner.follow(), bool(owner.attachment.companion)
    assert sorted(owner.encoder.encoded) == ["d7", "d8", "new"] if beside else ["d5", "d7", "d8", "new"]
    assert report.removed == (1 if beside else 0)
    owner.check()
    assert owner.encoded_by_following() == []
    store = owner.open()
    assert (store.count(), len(list(store.ids()))) == ({"en": 20}, 20)


def test_what_the_owner_copies_or_writes_back_gets_the_vector_of_its_text(in_place: Owner) -> None:
    in_place.begin({"a": source("one"), "b": source("two"), "c": source("three")})
    read = in_place.read("a")
    assert read["dragoman"]["text_hash"]
    in_place.write("copy", read)  # a usual reading lacks the vector
    in_place.write("whole", in_place.read_whole("a"), refresh=True)
    store = in_place.open()
    assert sorted(in_place.nearest(store, "one")) == ["a", "b", "c", "whole"]
    in_place.client.delete(index=in_place.index, id="a")
    with pytest.raises(MissingDocuments):
        store.get(["a"])
    assert sorted(in_place.nearest(store, "one")) == ["b", "c", "whole"]  # which has the id column of *a*
    in_place.write("a", read)
    in_place.follow()
    in_place.check()
    assert list(in_place.open().ids()) == ["a", "b", "c", "copy", "whole"]
    in_place.write("a", read)
    in_place.write("b", in_place.read_whole("b"))
    in_place.client.indices.refresh(index=in_place.index)
    assert (set(in_place.vectors()), in_place.encoded_by_following()) == ({"b", "c", "copy", "whole"}, ["a"])
    read = in_place.read("c")
    in_place.update("c", {"content": {"body": "four"}})
    in_place.follow()
    in_place.update("c", read)  # text and hash belong together again, and the vector is another text's
    assert in_place.encoded_by_following() == ["c"]
    in_place.check()


def test_the_owners_own_vectors_stay_bit_for_bit(in_place: Owner) -> None:
    own = [0.5, -0.5, 0.5, -0.5]
    in_place.begin({"a": source("one", own_vector=own)})
    in_place.update("a", {"content": {"body": "two"}})
    in_place.follow()
    found = in_place.client.search(index=in_place.index, docvalue_fields=[{"field": "own_vector"}])["hits"]["hits"]
    assert found[0]["fields"]["own_vector"] == [own]
    in_place.check()


def test_a_language_is_the_owners_or_a_detected_one_and_another_takes_the_words_with_it(owner: Owner) -> None:
    german = "Das Hochwasser stieg in der Nacht weiter, und viele Menschen verließen ihre Häuser."
    owner.begin({"a": source(german, None, headline="Hochwasser"), "b": source("gift", "en")})
    assert owner.encoded_by_following() == []
    assert "lang" not in owner.read("a")
    store = owner.open()
    assert (store.count(), store.get(["a"])[0].lang) == ({"de": 1, "en": 1}, "de")
    owner.update("a", {"content": {"body": "The flood rose further in the night, and many people left their houses."}})
    owner.update("b", {"lang": "de"})
    assert owner.encoded_by_following() == ["a", "b"]
    store = owner.open()
    assert (store.count(), [one.lang for one in store.get(["a", "b"])]) == ({"de": 1, "en": 1}, ["en", "de"])
    (hits,) = store.lexical(LexicalQuery(["gift"], ["en", "de"], 5))
    assert {lang: [doc_id for doc_id, _ in of_lang] for lang, of_lang in hits.items()} == {"en": [], "de": ["b"]}


def test_what_cannot_be_encoded_is_listed_until_it_can_and_has_no_vector_meanwhile(owner: Owner) -> None:
    odd = {"empty": source("", headline=""), "odd": source("text", "no-language-at-all")}
    unknown = {"nothing": source("nothing known of it"), "number": source("text", headline=7)}
    owner.write_all({"good": source("text"), **odd, **unknown})
    refused = {note.doc_id: note.text for note in owner.follow().refused}
    assert refused.keys() == {"empty", "nothing", "odd", "number"}
    assert (refused["empty"], set(owner.vectors())) == ("its title and text are empty", {"good"})
    owner.update("empty", {"content": {"body": "a text now"}})
    owner.update("good", {"content": {"body": ""}, "headline": ""})
    owner.client.delete(index=owner.index, id="odd")
    report = owner.follow()
    assert {note.doc_id for note in report.refused} == {"good", "nothing", "number"}
    assert (report.encoded, report.removed, set(owner.vectors())) == (1, 1, {"empty"})
    copying = {"all": {"type": "text"}, "note": {"type": "text", "copy_to": "all"}}
    owner.client.indices.put_mapping(index=owner.index, properties=copying)
    copies = UsersIndex.open(owner.client, replace(owner.attachment, text="all", title="")).document("a", {"note": "x"})
    assert "'all' has copies (copy_to), which no _source holds; name note with --text" in str(copies)


def test_texts_in_arrays_and_in_names_with_dots_are_read(owner: Owner) -> None:
    array = {"headline": ["one", "two"], "content": [{"body": "first"}, {"body": ["second", "third"]}]}
    owner.begin({"array": array, "dots": {"headline": "t", "content.body": "dotted", "lang": "en"}})
    assert [(one.title, one.text, dict(one.fields)) for one in owner.open().get(["array", "dots"])] == [
        ("one two", "first\n\nsecond\n\nthird", {}),
        ("t", "dotted", {}),
    ]


def test_hits_are_filtered_by_the_owners_fields_shown_with_them_and_counted_by_them(owner: Owner) -> None:
    owner.client.indices.put_mapping(index=owner.index, properties={"part": {"type": "alias", "path": "section"}})
    sections = "help", "World news"
    owner.begin({f"d{at}": source(f"text {at}", section=sections[at % 2], year=1990 + at) for at in range(6)})
    owner.update("d0", {"section": "World news"})
    assert owner.encoded_by_following() == []
    store = owner.open()
    assert sorted(owner.nearest(store, section="World news", year="1991")) == ["d1"]
    assert sorted(owner.nearest(store, year=[1992, 1993])) == ["d2", "d3"]
    assert [doc_id for doc_id, _ in store.lexical(LexicalQuery(["text"], ["en"], 9, {"year": 1992}))[0]["en"]] == ["d2"]
    (shown,) = store.get(["d2"])
    assert (shown.title, dict(shown.fields)) == ("title of text 2", {"section": "help", "year": 1992})
    assert set(store.stamps("model-c", ["d2", "nobody"])) == {"d2"}
    names = [("section", "World news"), ("year", "1991")]
    if owner.attachment.companion:
        with pytest.raises(BadInput, match=r"no document has the field 'section\.keyword'"):
            store.require_fields(["section.keyword"])
    else:
        names += [("section.keyword", "World news"), ("part", "World news")]
    documents = store.get([f"d{at}" for at in range(6)])
    for name, value in names:
        path = store.value_path(name)
        counted = [document.doc_id for document in documents if value in filter_texts(document.fields, path)]
        assert sorted(owner.nearest(store, **{name: value})) == counted
        assert counted == (["d1"] if name == "year" else ["d0", "d1", "d3", "d5"])


def test_a_field_that_has_nothing_to_count_is_refused(in_place: Owner) -> None:
    section = {**MAPPING["properties"]["section"]["fields"], "words": {"type": "text"}}
    in_place.client.indices.put_mapping(
        index=in_place.index,
        properties={"section": {"type": "text", "fields": section}, "alias": {"type": "alias", "path": "content.body"}},
    )
    in_place.begin()
    store = in_place.open()
    for name, sentence in (
        ("lang", "'lang' of .* has the documents' languages; count them by the facet lang"),
        ("headline.raw", "'headline.raw' of .* is the documents' title, which is not counted"),
        ("section.words", "'section.words' of .* is text without a keyword field below it"),
        ("content.body", "'content.body' of .* is text without a keyword field below it; filter by another field"),
        ("alias", "'alias' of .* is text without a keyword field below it"),
        ("sektion", "has no field 'sektion' to filter by"),
    ):
        with pytest.raises(BadInput, match=sentence):
            store.value_path(name)


def test_a_document_deleted_since_is_left_out_when_the_search_is_made_again(owner: Owner) -> None:
    """Searched before anybody followed: the index of vectors does not know yet."""
    owner.begin(texts(30))
    store = owner.open()
    for at in range(20):
        owner.client.delete(index=owner.index, id=f"d{at}")
    for last in (False, False, True):
        try:
            assert len(store.get(owner.nearest(store)[:5])) == 5
            break
        except KeyError:
            assert not last, "it stays in the results"


def test_a_document_that_was_forgotten_is_left_out_when_the_search_is_made_again(owner_of: OwnerOf) -> None:
    """The owner removed their texts, and ``attach --follow`` forgot them since the index of vectors was refreshed."""
    owner = owner_of(companion=True)
    owner.begin(texts(30))
    store = owner.open()
    before = owner.nearest(store)
    owner.client.indices.put_settings(index=store.index, settings={"refresh_interval": "-1"})
    with closing(owner.open()) as follower:
        assert follower.forget(before[:5]) == 5
    assert owner.nearest(store) == before
    with pytest.raises(MissingDocuments):
        store.get(before[:1])
    after = owner.nearest(store)
    assert (set(after) & set(before[:5]), len(store.get(after))) == (set(), 10)


def test_another_index_under_the_same_alias_is_read_from_its_start(owner: Owner) -> None:
    alias, second = f"{owner.prefix}-alias", f"{owner.prefix}-second"
    owner.client.indices.put_alias(index=owner.index, name=alias)
    owner.attachment = replace(owner.attachment, index=alias)
    owner.begin()
    owner.client.indices.create(index=second, mappings=MAPPING)
    owner.client.index(index=second, id="b", document=source("two"))
    owner.move(alias, second)
    report = owner.follow()
    assert (report.encoded, report.resumed, set(owner.vectors())) == (1, False, {"b"})


def test_an_index_that_a_snapshot_was_restored_over_is_read_from_its_start(owner: Owner) -> None:
    """It has its uuid still, and counts on from an earlier number."""
    snapshots, name = owner.client.snapshot, owner.prefix
    snapshots.create_repository(name=name, repository={"type": "fs", "settings": {"location": name}})
    owner.begin()
    snapshots.create(repository=name, snapshot=name, indices=owner.index, wait_for_completion=True)
    owner.write_all(texts(40))
    owner.follow()
    owner.client.indices.close(index=owner.index)
    snapshots.restore(repository=name, snapshot=name, indices=owner.index, wait_for_completion=True)
    owner.client.cluster.health(index=owner.index, wait_for_status="green")
    owner.write_all({f"n{at}": source(f"new {at}") for at in range(100)})
    report = owner.follow()
    assert (report.encoded, report.resumed) == (100, True)
    owner.check()
    assert owner.encoded_by_following() == []
    snapshots.delete_repository(name=name)


def test_killed_in_the_middle_it_goes_on_where_it_stopped(owner: Owner) -> None:
    owner.write_all(texts(300))
    owner.encoder.broken_at = 150
    with pytest.raises(RuntimeError, match="the power went out"):
        owner.follow()
    owner.client.indices.refresh(index=f"{owner.prefix}*")
    done = len(owner.vectors())
    assert 0 < done < 300
    owner.encoder.broken_at = -1
    owner.encoder.encoded.clear()
    report = owner.follow()
    assert report.resumed
    assert len(owner.encoder.encoded) == report.encoded <= 300 - done
    owner.check()


def left(owner: Owner) -> list[str]:
    owner.client.indices.refresh(index=owner.index)
    hits = owner.client.search(index=owner.index, query={"exists": {"field": "dragoman.id"}}, size=1000)
    return sorted(hit["_id"] for hit in hits["hits"]["hits"])


def test_a_version_of_the_owners_is_never_got_ahead_of(in_place: Owner) -> None:
    """An update would bump it, and the owner's next write at that number would be refused."""
    first, second = ({"version": 1_700_000_000 + at, "version_type": "external"} for at in range(2))
    in_place.begin({"mine": source("text"), "back": source("text")})
    in_place.write("theirs", source("text"), **first)
    in_place.write("back", in_place.read("back"), **first)
    report = in_place.follow()
    assert sorted(note.doc_id for note in report.refused) == ["back", "theirs"]
    assert "its owner numbers its versions (external versioning)" in report.refused[0].text
    assert in_place.client.get(index=in_place.index, id="back")["_version"] == 1_700_000_000
    assert in_place.vectors().keys() == {"mine"}
    in_place.write("theirs", source("next"), **second)
    assert in_place.client.get(index=in_place.index, id="theirs")["_version"] == 1_700_000_001
    assert "dragoman" not in in_place.read("theirs")
    done = detach_from(in_place.attachment, Credentials())
    assert (done.emptied, done.kept, done.gone, left(in_place)) == (1, 1, False, ["back"])
    in_place.write("back", source("next"), **second)
    assert left(in_place) == []


def test_a_companion_follows_external_versions_and_is_made_again_when_it_was_lost(owner_of: OwnerOf) -> None:
    owner = owner_of({**MAPPING, "_source": {"includes": ["content", "headline", "lang"]}}, companion=True)
    owner.write("a", source("one", year=1990), version=1_000_000, version_type="external")
    at_the_door(owner)  # an object that is kept in sources keeps the text in it
    assert owner.follow().encoded == 1
    owner.write("a", source("two"), version=1_000_001, version_type="external_gte")
    assert owner.encoded_by_following() == ["a"]
    owner.check()
    store = owner.open()
    owner.client.indices.delete(index=store.index)
    with pytest.raises(StoreError, match=r"is gone from .*let it be made again \(dragoman attach -c c\)"):
        store.count()
    with pytest.raises(StoreError, match=r"dragoman attach -c c"):
        StoreLocation(owner.attachment.url, "c", Credentials()).open_attached()
    assert owner.follow().encoded == 1
    owner.check()


def test_two_homes_with_companions_of_one_name_leave_each_others_alone(owner_of: OwnerOf, tmp_path: Path) -> None:
    first = owner_of(companion=True)
    first.begin(texts(5))
    second = first.beside(connect(f"sqlite:///{tmp_path / 'other.db'}"))
    second.index = f"{second.prefix}-others"
    second.attachment = replace(second.attachment, index=second.index)
    second.make()
    second.write("x", source("other text"))
    with pytest.raises(BadInput, match=rf"belongs to a collection that is attached to {first.index}, and is left"):
        second.follow()
    second.attachment = first.attachment
    with pytest.raises(BadInput, match="belongs to a collection of another database"):
        second.follow()
    StoreLocation(second.attachment.url, "c", database_id=read_database_id(second.engine)).drop()
    first.check()
    second.engine.dispose()


def test_an_index_that_vanishes_meanwhile_is_said_to_be_gone_by_its_name(owner: Owner) -> None:
    owner.begin(texts(3))
    store, model = owner.open(), owner.encoder.spec.model
    (item, *_) = [item for page in store.scan(model) for item in page]
    (shard, top), *_ = store.last_writes().items()
    owner.client.indices.delete(index=owner.index)
    acts: list[Callable[[], object]] = [store.last_writes, lambda: store.check(model)]
    acts += [partial(ask, ["d1"]) for ask in (store.gone, store.get, store.originals)]
    acts.append(lambda: list(store.changes(model, shard, 10, above=-1, upto=top.seq_no)))
    acts.append(lambda: store.count_changes(shard, above=-1, upto=top.seq_no))
    ours: list[Callable[[], object]] = [partial(store.put, model, [item]), partial(store.vectors, model, ["d1"])]
    ours += [partial(store.forget, ["d1"]), store.count]
    if owner.attachment.companion:
        for act in ours:  # what is done in our own index goes on
            act()
        acts.append(lambda: store.prune(0))
    else:
        acts += [*ours, store.drop]
    for act in acts:
        with pytest.raises(IndexGone, match=f"the index {owner.index} is gone"):
            act()
    assert not owner.client.indices.exists(index=owner.index)


def test_what_vanishes_around_detaching_is_gone(in_place: Owner, settings: Settings, monkeypatch: Patch) -> None:
    in_place.begin()
    stored = replace(settings, store=in_place.attachment.url)
    collection = register(in_place.engine, "c", stored, "x", in_place.encoder.spec)
    in_place.client.indices.delete(index=in_place.index)
    in_place.make()  # anew, under its name
    (done,) = detach(in_place.engine, collection, settings)
    assert (done.gone, done.emptied, find(in_place.engine, "c")) == (True, 0, None)
    in_place.begin()
    read = ServerIndex.read_with_vectors

    def vanishing(index: Any, *arguments: Any, **more: Any) -> Any:
        in_place.client.indices.delete(index=in_place.index, ignore_unavailable=True)
        return read(index, *arguments, **more)

    monkeypatch.setattr(ServerIndex, "read_with_vectors", vanishing)
    assert detach_from(in_place.attachment, Credentials()).gone
    assert not in_place.client.indices.exists(index=in_place.index)


def test_dropping_takes_our_field_from_every_document_and_leaves_the_rest(owner: Owner) -> None:
    before = texts(30)
    owner.begin(before)
    StoreLocation(owner.attachment.url, "c").drop()
    for doc_id, document in before.items():
        assert {name: value for name, value in owner.read(doc_id).items() if value is not None} == document
    assert owner.client.count(index=owner.index)["count"] == 30
    if not owner.attachment.companion:
        owner.client.indices.refresh(index=owner.index)
        assert owner.vectors() == {}
    assert list(owner.client.indices.get(index=f"{owner.prefix}*", expand_wildcards="all")) == [owner.index]
    StoreLocation(owner.attachment.url, "c").drop()


def test_an_attachment_is_its_url(elastic_url: str) -> None:
    attachment = Attachment("https://h:9200", "news", "a.b", title="t", lang="de", field="x_1", companion="dragoman")
    assert Attachment.parse(attachment.url) == attachment
    assert [is_attached(url) for url in (attachment.url, "https://h:9200/dragoman?field=x")] == [True, False]
    parsed = Attachment.parse("https://user:pw@h:9200/news?text=body")
    assert parsed.url == "https://h:9200/news?text=body&field=dragoman&vectors=auto"
    for option in ("server=x", "index=x", "nonsense=x"):
        with pytest.raises(BadInput, match="has no option"):
            Attachment.parse(f"https://h:9200/news?text=a&{option}")
    with pytest.raises(BadInput, match="has no index news"):
        StoreLocation(f"{urlsplit(elastic_url)._replace(path='/news').geturl()}?text=body", "c").open(make=False)


FLAT = {"content.body": {"type": "text"}, "headline": {"type": "text"}, "lang": {"type": "keyword"}}
REFUSED: Sequence[tuple[dict[str, Any], str]] = [
    ({"_source": {"enabled": False}}, "keeps no _source"),
    ({"_source": {"excludes": ["year"]}}, "from its index for good; attach with --companion"),
    *(({"_source": {"excludes": [part]}}, "leaves 'content.body' out of its") for part in ("content.*", "content")),
    ({"mode": "disabled"}, "keeps no _source"), ({"mode": "synthetic"}, "synthetic _source"),
    ({"_source": {"includes": ["content.body", "headline", "lang"]}}, "attach with --companion"),
    ({"_routing": {"required": True}}, "placed by routing values"),
    ({"properties": {**MAPPING["properties"], "dragoman": {"type": "keyword"}}}, "with --field"),
    ({"properties": {"b": {"type": "text"}}}, "no field 'content.body'; its fields of text are: b"),
    ({"properties": {"content": {"type": "nested", "properties": {"body": {"type": "text"}}}}}, "in nested"),
    ({"properties": {"content": {"properties": {"body": {"type": "long"}}}}}, "is long, not text"),
    ({"subobjects": False, "properties": FLAT}, r"takes no objects \(subobjects: false\).*attach with --companion"),
]  # fmt: skip


@pytest.mark.parametrize(("mapping", "reason"), REFUSED, ids=range(len(REFUSED)))
def test_what_a_mapping_forbids_is_said_at_the_door(owner_of: OwnerOf, mapping: dict[str, Any], reason: str) -> None:
    kept = {"properties": MAPPING["properties"], **mapping}
    mode = kept.pop("mode", None)
    owner = owner_of(kept, **({"index.mapping.source.mode": mode} if mode else {}))
    refused_at_the_door(owner, reason)
    if reason == "keeps no _source":
        refused_at_the_door(owner, reason, companion=owner.prefix)


def test_documents_say_at_the_door_what_no_mapping_does(in_place: Owner) -> None:
    at_the_door(in_place)
    in_place.write("a", source("one"), version=5_000, version_type="external", refresh=True)
    refused_at_the_door(in_place, r"numbers the versions of its documents.*attach with --companion")
    in_place.attachment = replace(in_place.attachment, companion=in_place.prefix)
    at_the_door(in_place)
    in_place.write("b", source("one"), routing="somewhere", refresh=True)
    refused_at_the_door(in_place, rf"placed by routing values.*dragoman index elastic:{in_place.index} -c NAME")


@pytest.mark.usefixtures("default_folder")
def test_the_first_of_two_that_attach_at_once_keeps_the_field(
    in_place: Owner, settings: Settings, monkeypatch: Patch
) -> None:
    in_place.write("a", source("one"))

    def register_two(engine: Any, name: str, *rest: Any, register: Any = collections.register) -> None:
        register(engine, name, *rest)
        register(engine, "later", *rest)

    monkeypatch.setattr(collections, "register", register_two)
    with AttachedCollection.open("first", in_place.attachment, settings=settings) as attached:
        assert "dragoman attach -c first" in collections.require(attached.engine, "first").emptiness
        attached.lock = Mock(side_effect=[None, StoreError("another process is at it"), *[None] * 9])
        with pytest.raises(StoreError, match="another process is at it"):
            attached.catch_up()
        assert ("dragoman" in in_place.read("a"), attached.catch_up().encoded) == (False, 1)
    with (
        AttachedCollection.open("later", settings=settings) as attached,
        pytest.raises(BadInput, match="has vectors of collection first in 'dragoman' already"),
    ):
        attached.catch_up()
    with AttachedCollection.open("first", settings=settings) as attached:  # while a lost lock let another detach it
        collections.remove(attached.engine, collections.require(attached.engine, "first"), settings, forget=True)
        with pytest.raises(BadInput, match="there is no collection 'first'"):
            attached.catch_up()


@pytest.mark.usefixtures("default_folder")
def test_a_second_collection_takes_a_field_of_its_own(in_place: Owner, settings: Settings, monkeypatch: Patch) -> None:
    """The encoder's vectors of titles would stand where those of the texts are looked for."""
    in_place.write("a", source("one"))
    in_place.client.indices.put_alias(index=in_place.index, name=f"{in_place.prefix}-alias")
    by_title = replace(in_place.attachment, text="headline", title="")
    family = replace(in_place.attachment, index=f"{in_place.prefix}-th*")

    def attach(name: str, attachment: Attachment) -> int:
        with AttachedCollection.open(name, attachment, settings=settings) as attached:
            return attached.catch_up().encoded

    def attach_meanwhile(*checked: Any, check: Any = attach_checks.check) -> None:
        monkeypatch.setattr(attach_checks, "check", check)
        check(*checked)
        assert attach("texts", in_place.attachment) == 1

    monkeypatch.setattr(attach_checks, "check", attach_meanwhile)
    for same in (by_title, by_title, replace(by_title, index=f"{in_place.prefix}-alias"), family):
        with pytest.raises(BadInput, match=r"vectors of collection texts in 'dragoman' already; name another field"):
            attach("titles", same)
    assert attach("titles", replace(by_title, field="titles")) == 1
    assert attach("beside", replace(by_title, companion=in_place.prefix)) == 1
    assert (attach("texts", in_place.attachment), attach("family", replace(family, field="family"))) == (0, 1)
    with pytest.raises(BadInput, match="vectors of collection family in 'family' already"):
        attach("one", replace(in_place.attachment, field="family"))
    with pytest.raises(BadInput, match="can't be named 'MyColl' on Elasticsearch"):
        attach("MyColl", replace(in_place.attachment, companion=in_place.prefix))
    assert find(in_place.engine, "MyColl") is None


def test_a_long_documents_batches_are_kept_in_the_home(in_place: Owner, settings: Settings, monkeypatch: Patch) -> None:
    checkpoints = settings.checkpoints("c")
    kept: list[list[Path]] = []

    class InBatches(FakeEncoder):
        def encode_documents(self, documents: Sequence[Document]) -> Encoded:
            checkpoint = current_checkpoint.get()
            assert checkpoint
            list(checkpoint.batches("key", [1], 8, lambda _: iter([np.ones((1, 8), np.float32)])))
            kept.append(list(checkpoints.iterdir()))
            return super().encode_documents(documents)

    monkeypatch.setattr(attaching, "open_named", lambda *_, **__: InBatches())
    in_place.write("book", {**source("book"), "content": {"body": "word " * 50_000}})
    with AttachedCollection.open("c", in_place.attachment, settings=settings) as attached:
        assert attached.catch_up().encoded == 1
    assert ([len(files) for files in kept], checkpoints.exists()) == ([1], False)


def test_a_document_that_is_edited_while_it_is_encoded_is_encoded_again_by_the_same_call(in_place: Owner) -> None:
    class Edited(FakeEncoder):
        def encode_documents(self, documents: Sequence[Document]) -> Encoded:
            if not self.encoded:
                in_place.update("a", {"content": {"body": "edited"}})
            return super().encode_documents(documents)

    in_place.encoder = Edited()
    in_place.write("a", source("text"))
    assert (in_place.follow().encoded, in_place.encoder.encoded) == (1, ["a", "a"])
    in_place.check()


def test_what_is_not_one_open_index_of_theirs_and_one_model_is_refused(in_place: Owner) -> None:
    theirs = in_place.attachment
    StoreLocation(f"{in_place.server}/{in_place.prefix}", "c", Credentials()).open(make=True).publish()
    ours = {"index": f"{in_place.prefix}-c", "text": "text", "title": "", "lang_field": ""}
    for companion in ("", in_place.prefix):
        refused_at_the_door(in_place, "is where Dragoman stores the collection c,", **ours, companion=companion)
    in_place.attachment = theirs
    other, both = f"{in_place.prefix}-other", f"{in_place.prefix}-both"
    in_place.client.indices.create(index=other, mappings=MAPPING)
    in_place.client.indices.put_alias(index=[in_place.index, other], name=both)
    refused_at_the_door(in_place, "stands for 2 indices", index=both)
    refused_at_the_door(in_place, "has no index", index=f"{in_place.prefix}-none")
    with pytest.raises(BadInput, match="no name of an index"):
        replace(theirs, index="a,-b*")
    stream = {".ds-logs-2026.11.21-000001": {"data_stream": "logs", "mappings": {}, "settings": {}}}
    family = partial(UsersIndex._family, in_place.client, replace(theirs, index="logs*"))
    for described in (partial(only_index, "logs"), family):  # the tests' older server has no data streams
        with pytest.raises(BadInput, match=r"data stream logs.*dragoman index elastic:logs -c NAME"):
            described(stream)
    in_place.attachment = theirs
    in_place.begin()
    with pytest.raises(BadInput, match=r"another model \(model-c\)"):
        at_the_door(in_place, "model-x")
    in_place.client.indices.put_settings(index=in_place.index, settings={"index.blocks.write": True})
    refused_at_the_door(in_place, "has the block 'write'")
    in_place.client.indices.close(index=in_place.index)
    refused_at_the_door(in_place, rf"is closed; open it \(POST {in_place.index}/_open\)")
    with pytest.raises(StoreError, match=rf"{in_place.index} is closed; open it: POST {in_place.index}/_open"):
        read(f"elastic:{in_place.server}/{in_place.index}", ReadOptions())


def test_an_alias_of_a_part_is_refused_and_copies_placed_by_routing_are_emptied(in_place: Owner) -> None:
    in_place.write("secret", source("geheim", "de"))
    alias, whole = f"{in_place.prefix}-alias", in_place.attachment
    in_place.attachment = replace(whole, index=alias)
    part: Any
    for how, part in (("a filter", {"filter": {"term": {"lang": "en"}}}), ("a routing value", {"search_routing": "x"})):
        in_place.client.indices.put_alias(index=in_place.index, name=alias, **part)
        with pytest.raises(BadInput, match=rf"{alias} is an alias with {how}.*name the index itself"):
            in_place.follow()
    assert "dragoman" not in in_place.read("secret")
    in_place.attachment = whole
    assert in_place.follow().encoded == 1
    copied = in_place.read("secret")
    for value in ("x", "y", "zz", "abc"):
        in_place.write("secret", copied, routing=value)
    assert detach_from(in_place.attachment, Credentials()).emptied >= 2
    assert left(in_place) == []


def test_detaching_leaves_sources_as_they_were_without_a_script_or_pipeline(in_place: Owner) -> None:
    """The pipelines do not exist: a write through them would be refused."""
    written = {"a": source("one", own_vector=[0.6, 0.8, 0.0, 0.0]), "b": source("two", year=1990)}
    in_place.begin(written)
    for pipeline, instead in (("default_pipeline", {}), ("final_pipeline", {"dragoman": None})):
        in_place.client.indices.put_settings(index=in_place.index, settings={pipeline: "none-such"})
        in_place.follow()
        assert (detach_from(in_place.attachment, Credentials()).emptied, left(in_place)) == (2, [])
        for doc_id, document in written.items():
            assert in_place.read_whole(doc_id) == document | instead


def test_after_an_alias_moved_on_the_index_that_got_vectors_is_emptied(in_place: Owner, settings: Settings) -> None:
    alias, other = f"{in_place.prefix}-alias", in_place.beside(in_place.engine)
    in_place.client.indices.put_alias(index=in_place.index, name=alias)
    in_place.attachment = replace(in_place.attachment, index=alias)
    stored = replace(settings, store=in_place.attachment.url)
    collection = register(in_place.engine, "c", stored, "x", in_place.encoder.spec)
    in_place.begin()
    other.index = f"{in_place.prefix}-second"
    other.attachment = replace(other.attachment, index=other.index)
    other.make()
    in_place.move(alias, other.index)
    other.write("b", source("two"))
    catch_up(other.open(), other.encoder, other.engine, "another")
    done = detach(in_place.engine, collection, settings)
    assert [(one.index, one.emptied) for one in done] == [(in_place.index, 1)]
    assert (left(in_place), left(other)) == ([], ["b"])


def test_another_home_that_reads_other_fields_into_our_object_is_refused(in_place: Owner, tmp_path: Path) -> None:
    """Each would take the other's vectors for those of stale texts, for ever."""
    in_place.begin(texts(5))
    other = in_place.beside(connect(f"sqlite:///{tmp_path / 'b.db'}"))
    in_place.engine = connect(f"sqlite:///{tmp_path / 'c.db'}")
    assert in_place.encoded_by_following() == []  # two homes encode nothing twice
    other.attachment = replace(in_place.attachment, text="headline", title="")
    fields = r"vectors of other fields \(lang_field lang, text content.body, title headline\)"
    with pytest.raises(BadInput, match=fields):
        other.follow()
    bare = {"dragoman": {"properties": {"id": {"type": "keyword"}}}}  # as from before fields were noted
    in_place.client.indices.put_mapping(index=in_place.index, properties=bare)
    assert in_place.encoded_by_following() == []
    with pytest.raises(BadInput, match=fields):
        other.follow()
    StoreLocation(in_place.attachment.url, "c").drop()
    assert other.follow().encoded == 5
    for one in (in_place, other):
        one.engine.dispose()


def test_a_value_of_the_owners_under_our_name_that_no_mapping_knows_stays(owner_of: OwnerOf) -> None:
    owner = owner_of({**MAPPING, "dynamic": False})
    theirs: dict[str, Any] = {"a": "a word", "b": {"id": "k", "colour": "red"}, "c": [{"id": "k"}], "d": None}
    for doc_id, value in theirs.items():
        owner.write(doc_id, source("text", dragoman=value))
    report = owner.follow()
    assert {note.doc_id for note in report.refused} == {"a", "b", "c"}
    assert "its owner has a value in the field 'dragoman'; name another field with --field" in report.refused[0].text
    assert owner.vectors().keys() == {"d"}
    StoreLocation(owner.attachment.url, "c").drop()
    assert {doc_id: owner.read(doc_id).get("dragoman") for doc_id in theirs} == theirs


def test_an_index_with_too_little_room_for_fields_says_which_setting_to_raise(owner_of: OwnerOf) -> None:
    owner = owner_of(MAPPING, **{"index.mapping.total_fields.limit": 11})
    owner.write("a", source("one"))
    with pytest.raises(StoreError, match=r"raise index\.mapping\.total_fields\.limit of the index"):
        owner.follow()


def test_while_an_encoder_is_opened_no_other_attaches(settings: Settings, monkeypatch: Patch) -> None:
    attachment = Attachment("http://127.0.0.1:9", "help", text="body")

    def opened_while_another_begins(*_: object, **__: object) -> None:
        with (
            pytest.raises(StoreError, match="another process is indexing collection help"),
            AttachedCollection.open("help", attachment, settings=settings),
        ):
            pass
        raise BadInput("it is locked")

    monkeypatch.setattr("indexer.attaching.attached_collection.open_named", opened_while_another_begins)
    with pytest.raises(BadInput, match="it is locked"), AttachedCollection.open("help", attachment, settings=settings):
        pass


@pytest.mark.parametrize("part", ["passages", "offsets", "known"])
def test_forged_parts_are_mended(in_place: Owner, part: str, caplog: pytest.LogCaptureFixture) -> None:
    """What others wrote into our part of a document is not trusted."""
    in_place.begin(texts(3))
    model = in_place.encoder.spec.model
    in_place.update("d1", {"dragoman": {"models": {model: {part: base64.b64encode(b"five!").decode()}}}})
    in_place.client.indices.refresh(index=in_place.index)
    store = in_place.open()
    found = in_place.nearest(store)
    stored = dict(zip(found, store.passages(model, found), strict=True))
    assert sorted(stored) == ["d0", "d1", "d2"]
    damaged = part != "known"
    assert (len(stored["d1"].offsets) == 0) == damaged
    assert ("the passages of d1 are damaged; index or attach mends them" in caplog.text) == damaged
    assert in_place.encoded_by_following() == ["d1"]
    in_place.check()


@pytest.fixture(scope="module")
def server(secured: ElasticServer) -> Iterator[ElasticServer]:
    with admin(secured) as client:
        for index in ("theirs", "untouched"):
            client.index(index=index, id="a", document={"body": "one", "lang": "en"}, refresh=True)
        yield secured
        client.indices.delete(index=["theirs", "untouched"])


def attach(server: ElasticServer, engine: sa.Engine, user: str, companion: str = "", index: str = "theirs") -> int:
    attachment = Attachment(server.url, index, "body", lang_field="lang", companion=companion)
    who = credentials(server, user)
    store = StoreLocation(attachment.url, "c", who).open_attached(make=True)
    try:
        encoded = catch_up(store, FakeEncoder(), engine, "c").encoded
        assert store.get(["a"])[0].text == "one"
    finally:
        store.close()
    StoreLocation(attachment.url, "c", who).drop()
    return encoded


def test_rights_on_the_index_or_to_read_it_are_enough(server: ElasticServer, engine: sa.Engine) -> None:
    assert (attach(server, engine, "in_place"), attach(server, engine, "beside", companion="ours")) == (1, 1)


def test_missing_rights_are_said_before_anything_is_written(server: ElasticServer, engine: sa.Engine) -> None:
    with pytest.raises(StoreError, match=r"no right to index, manage on untouched; attaching needs .* or --companion"):
        attach(server, engine, "reader", index="untouched")
    with admin(server) as client:
        mapping = client.indices.get_mapping(index="untouched")["untouched"]["mappings"]["properties"]
    assert "dragoman" not in mapping


def test_an_index_is_read_with_the_rights_of_the_guide(server: ElasticServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("USER", "source"), ("PASSWORD", PASSWORD), ("CA", str(server.ca))):
        monkeypatch.setenv(f"DRAGOMAN_ELASTIC_{name}", value)
    place, options = f"elastic:{server.url}/theirs", ReadOptions(fields={"text": "body"})
    assert [one.doc_id for one in read(place, options) if isinstance(one, Document)] == ["a"]
    assert count_distinct(place, options) == 1
    monkeypatch.setenv("DRAGOMAN_ELASTIC_USER", "reader")
    with pytest.raises(StoreError, match=r"does not allow it .*indices:monitor/stats"):
        read(place, options)


@pytest.mark.parametrize(
    "companion", [False, pytest.param(True, marks=pytest.mark.long)], ids=["in place", "companion"]
)
def test_after_a_race_every_text_has_its_own_vector(elastic_url: str, tmp_path: Path, *, companion: bool) -> None:
    server, _, prefix = elastic_url.rpartition("/")
    outcome = race(server, prefix, f"sqlite:///{tmp_path / 'race.db'}", 250, companion=companion)
    assert (outcome.writes, outcome.wrong) == (500, [])
    assert outcome.documents > 50


@pytest.mark.parametrize(
    ("per_second", "companion"),
    [(30, False), pytest.param(30, True, marks=pytest.mark.long), pytest.param(4, False, marks=pytest.mark.long)],
    ids=["30 a second", "30 a second, companion", "4 a second"],
)
@pytest.mark.long
def test_an_owner_who_writes_while_it_is_followed_and_calibrated_ends_nothing(
    elastic_url: str, settings: Settings, small: ModelFolder, interruptible: None, *, per_second: float, companion: bool
) -> None:
    server, _, prefix = elastic_url.rpartition("/")
    outcome = race_with_follow(
        server, settings, prefix, seconds=10, per_second=per_second, companion=companion, encoder=str(small.path)
    )
    assert outcome.writes / per_second in range(10, 200, 2)  # two seconds more at a time until one is calibrated
    assert outcome.wrong == []
    assert outcome.calibrations > 0
