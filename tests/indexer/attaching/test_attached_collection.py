"""An index made by somebody else gets vectors, and keeps its owner's writes: on a real server."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
import sqlalchemy as sa

from encoders.document import Document, Encoded
from encoders.errors import BadInput, DragomanError, StoreError
from encoders.inference.batch_checkpoint import current_checkpoint
from indexer.attaching import attached_collection as attaching
from indexer.attaching.attached_collection import AttachedCollection, detach
from indexer.attaching.catch_up import catch_up
from indexer.cluster.cluster_address import Credentials
from indexer.cluster.cluster_errors import IndexGone
from indexer.cluster.source_values import filter_texts
from indexer.collection.collection import find, register
from indexer.collection.settings import Settings
from indexer.collection.store_location import StoreLocation
from indexer.ledger.database import connect, read_database_id
from indexer.stores.attached import attach_checks
from indexer.stores.attached.attached_address import Attachment, is_attached
from indexer.stores.attached.in_place import detach as detach_from
from indexer.stores.attached.users_index import UsersIndex, only_index
from indexer.stores.clustered.server_index import ServerIndex
from indexer.stores.contract import LexicalQuery, MissingDocuments, VectorQuery
from tests.indexer.attaching.owner import MAPPING, Owner, source, texts
from trials.fake_encoder import FakeEncoder

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


def test_every_document_gets_its_vector_and_the_index_stays_its_owners(owner: Owner) -> None:
    before = {f"d{at}/ü:": source(f"text {at}", year=1990 + at) for at in range(150)}
    owner.write_all(before)
    report = owner.follow()
    assert (report.encoded, report.refused, report.behind) == (150, [], False)
    assert len(owner.encoder.encoded) == 150
    owner.check()
    for doc_id, document in before.items():
        now = owner.read(doc_id)
        now.pop("dragoman", None)
        assert now == document
    mapping = owner.client.indices.get_mapping(index=owner.index)[owner.index]["mappings"]
    added = set(mapping["properties"]) - set(MAPPING["properties"])
    assert added == (set() if owner.attachment.companion else {"dragoman"})
    assert mapping["dynamic"] == "strict"


def test_following_encodes_what_is_new_or_has_another_text_and_nothing_else(owner: Owner) -> None:
    owner.write_all(texts(100))
    owner.follow()
    owner.update("d7", {"content": {"body": "another text"}})
    owner.update("d8", {"headline": "another title"})
    owner.update("d9", {"year": 2001})
    owner.write("new", source("a new text"))
    owner.client.delete(index=owner.index, id="d3")
    assert owner.encoded_by_following() == ["d7", "d8", "new"]
    owner.check()
    assert owner.encoded_by_following() == []


def test_a_deleted_document_is_gone_from_searches_and_counts(owner: Owner) -> None:
    owner.write_all(texts(20))
    owner.follow()
    for at in range(5):
        owner.client.delete(index=owner.index, id=f"d{at}")
    report = owner.follow()
    assert report.removed == (5 if owner.attachment.companion else 0)
    owner.check()
    store = owner.open()
    assert store.count() == {"en": 15}
    assert len(list(store.ids())) == 15


def test_a_write_of_the_whole_document_takes_our_field_and_following_puts_it_back(owner: Owner) -> None:
    owner.write("a", source("one"))
    owner.write("b", source("two"))
    owner.follow()
    owner.write("a", source("one"))
    owner.write("b", source("three"))
    assert owner.encoded_by_following() == (["b"] if owner.attachment.companion else ["a", "b"])
    owner.check()


def test_a_read_and_write_back_loses_the_vector_alone_and_following_puts_it_back(in_place: Owner) -> None:
    in_place.write("a", source("one"))
    in_place.write("b", source("two"))
    in_place.follow()
    read = in_place.read("a")
    assert read["dragoman"]["text_hash"]
    in_place.write("a", read)
    in_place.client.indices.refresh(index=in_place.index)
    assert in_place.vectors().keys() == {"b"}
    assert in_place.encoded_by_following() == ["a"]
    in_place.check()


def test_a_whole_reading_written_back_keeps_its_vector(in_place: Owner) -> None:
    in_place.write("a", source("one"))
    in_place.follow()
    in_place.write("a", in_place.read_whole("a"))
    assert in_place.encoded_by_following() == []
    in_place.check()


def test_an_old_reading_written_back_as_an_update_leaves_the_vector_of_another_text_and_following_sees_it(
    in_place: Owner,
) -> None:
    """Text and hash are the old ones again, and belong together; the vector was in no reading."""
    in_place.write("a", source("one"))
    in_place.follow()
    read = in_place.read("a")
    in_place.update("a", {"content": {"body": "two"}})
    in_place.follow()
    in_place.update("a", read)
    assert in_place.encoded_by_following() == ["a"]
    in_place.check()


def test_a_copy_of_a_document_with_our_field_in_it_is_a_document_of_its_own(in_place: Owner) -> None:
    in_place.write("a", source("one"))
    in_place.follow()
    in_place.write("b", in_place.read("a"))
    in_place.follow()
    in_place.check()
    store = in_place.open()
    assert list(store.ids()) == ["a", "b"]


def test_a_copy_with_our_vector_in_it_is_found_by_its_own_id_before_it_is_followed(in_place: Owner) -> None:
    in_place.write("a", source("one"))
    in_place.follow()
    in_place.write("b", in_place.read_whole("a"), refresh=True)
    store, model = in_place.open(), in_place.encoder.spec.model
    query = {"en": in_place.encoder.encode_queries([Document("query", "en", "one")])}
    (candidates,) = store.search(VectorQuery(model, query, 5, with_vectors=True))["en"]
    assert sorted(candidates.doc_ids) == ["a", "b"]


def test_the_owners_own_vectors_stay_bit_for_bit(in_place: Owner) -> None:
    own = [0.5, -0.5, 0.5, -0.5]
    in_place.write("a", source("one", own_vector=own))
    in_place.follow()
    in_place.update("a", {"content": {"body": "two"}})
    in_place.follow()
    found = in_place.client.search(index=in_place.index, docvalue_fields=[{"field": "own_vector"}])["hits"]["hits"]
    assert found[0]["fields"]["own_vector"] == [own]
    in_place.check()


def test_another_language_takes_the_words_of_the_first_with_it(owner: Owner) -> None:
    owner.write("a", source("gift", "en"))
    owner.follow()
    owner.update("a", {"lang": "de"})
    assert owner.encoded_by_following() == ["a"]
    store = owner.open()
    assert store.count() == {"de": 1}
    assert store.lexical(LexicalQuery(["gift"], ["en"], 5))[0]["en"] == []
    assert [doc_id for doc_id, _ in store.lexical(LexicalQuery(["gift"], ["de"], 5))[0]["de"]] == ["a"]


def test_a_document_that_states_no_language_gets_one_and_its_own_field_is_left_alone(owner: Owner) -> None:
    german = "Das Hochwasser stieg in der Nacht weiter, und viele Menschen verließen ihre Häuser."
    owner.write("a", source(german, None, headline="Hochwasser"))
    assert owner.follow().encoded == 1
    assert owner.encoded_by_following() == []
    assert "lang" not in owner.read("a")
    store = owner.open()
    assert store.count() == {"de": 1}
    assert store.get(["a"])[0].lang == "de"
    owner.update("a", {"content": {"body": "The flood rose further in the night, and many people left their houses."}})
    owner.follow()
    store = owner.open()
    assert store.count() == {"en": 1}


def test_what_cannot_be_encoded_is_listed_until_it_can_and_has_no_vector_meanwhile(owner: Owner) -> None:
    owner.write("good", source("text"))
    owner.write("empty", source("", headline=""))
    owner.write("nothing", source("nothing known of it"))
    owner.write("odd", source("text", "no-language-at-all"))
    owner.write("number", source("text", headline=7))
    report = owner.follow()
    assert {note.doc_id for note in report.refused} == {"empty", "nothing", "odd", "number"}
    assert {note.doc_id: note.text for note in report.refused}["empty"] == "its title and text are empty"
    assert owner.vectors().keys() == {"good"}
    owner.update("empty", {"content": {"body": "a text now"}})
    owner.update("good", {"content": {"body": ""}, "headline": ""})
    owner.client.delete(index=owner.index, id="odd")
    report = owner.follow()
    assert {note.doc_id for note in report.refused} == {"good", "nothing", "number"}
    assert (report.encoded, report.removed) == (1, 1)
    assert owner.vectors().keys() == {"empty"}


def test_texts_in_arrays_and_in_names_with_dots_are_read(owner: Owner) -> None:
    owner.write("array", {"headline": ["one", "two"], "content": [{"body": "first"}, {"body": ["second", "third"]}]})
    owner.write("dots", {"headline": "t", "content.body": "dotted", "lang": "en"})
    owner.follow()
    store = owner.open()
    array, dots = store.get(["array", "dots"])
    assert (array.title, array.text) == ("one two", "first\n\nsecond\n\nthird")
    assert (dots.title, dots.text, dict(dots.fields), dict(array.fields)) == ("t", "dotted", {}, {})


def test_hits_are_filtered_by_the_owners_fields_and_shown_with_them(owner: Owner) -> None:
    for at in range(6):
        owner.write(f"d{at}", source(f"text {at}", section="news" if at % 2 else "help", year=1990 + at))
    owner.follow()
    owner.update("d0", {"section": "news"})
    assert owner.encoded_by_following() == []
    store = owner.open()
    query = {"en": FakeEncoder().encode_queries([Document("q", "en", "text")])}

    def found(**filters: Any) -> list[str]:
        return sorted(store.search(VectorQuery("model-c", query, 10, filters))["en"][0].doc_ids)

    assert found(section="news") == ["d0", "d1", "d3", "d5"]
    assert found(section="news", year="1991") == ["d1"]
    assert found(year=[1992, 1993]) == ["d2", "d3"]
    assert [doc_id for doc_id, _ in store.lexical(LexicalQuery(["text"], ["en"], 9, {"year": 1992}))[0]["en"]] == ["d2"]
    assert dict(store.get(["d2"])[0].fields) == {"section": "help", "year": 1992}
    assert store.get(["d2"])[0].title == "title of text 2"
    assert set(store.stamps("model-c", ["d2", "nobody"])) == {"d2"}


def test_what_is_counted_of_a_field_is_what_its_filter_compares_with(owner: Owner) -> None:
    part = {"part": {"type": "alias", "path": "section"}}
    owner.client.indices.put_mapping(index=owner.index, properties=part)
    for at in range(6):
        owner.write(f"d{at}", source(f"text {at}", section="World news" if at % 3 else "help", year=1990 + at))
    owner.follow()
    store = owner.open()
    query = {"en": FakeEncoder().encode_queries([Document("q", "en", "text")])}
    names = [("section", "World news"), ("year", "1991")]
    if owner.attachment.companion:
        with pytest.raises(BadInput, match=r"no document has the field 'section\.keyword'"):
            store.require_fields(["section.keyword"])
    else:
        names += [("section.keyword", "World news"), ("part", "World news")]
    for name, value in names:
        found = store.search(VectorQuery("model-c", query, 10, {name: value}))["en"][0].doc_ids
        path = store.value_path(name)
        documents = store.get([f"d{at}" for at in range(6)])
        counted = [document.doc_id for document in documents if value in filter_texts(document.fields, path)]
        assert sorted(found) == counted != []


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("lang", "'lang' of .* has the documents' languages; count them by the facet lang"),
        ("headline.raw", "'headline.raw' of .* is the documents' title, which is not counted"),
        ("section.words", "'section.words' of .* is text without a keyword field below it"),
        ("content.body", "'content.body' of .* is text without a keyword field below it; filter by another field"),
        ("alias", "'alias' of .* is text without a keyword field below it"),
        ("sektion", "has no field 'sektion' to filter by"),
    ],
)
def test_a_field_that_has_nothing_to_count_is_refused(in_place: Owner, name: str, sentence: str) -> None:
    section = {**MAPPING["properties"]["section"]["fields"], "words": {"type": "text"}}
    in_place.client.indices.put_mapping(
        index=in_place.index,
        properties={"section": {"type": "text", "fields": section}, "alias": {"type": "alias", "path": "content.body"}},
    )
    in_place.write("a", source("text"))
    in_place.follow()
    store = in_place.open()
    with pytest.raises(BadInput, match=sentence):
        store.value_path(name)


def test_a_document_deleted_since_is_left_out_when_the_search_is_made_again(owner: Owner) -> None:
    """Searched before anybody followed: the index of vectors does not know yet."""
    owner.write_all(texts(30))
    owner.follow()
    store = owner.open()
    query = {"en": FakeEncoder().encode_queries([Document("q", "en", "text")])}
    for at in range(20):
        owner.client.delete(index=owner.index, id=f"d{at}")
    for _ in range(3):
        ids = list(store.search(VectorQuery("model-c", query, 10))["en"][0].doc_ids)[:5]
        try:
            assert len(store.get(ids)) == 5
            break
        except KeyError:
            continue
    else:
        pytest.fail("it stays in the results")


@pytest.mark.parametrize("owner", ["companion"], indirect=True)
def test_a_document_that_was_forgotten_is_left_out_when_the_search_is_made_again(owner: Owner) -> None:
    """The owner removed their texts, and ``attach --follow`` forgot them since the index of vectors was refreshed."""
    owner.write_all(texts(30))
    owner.follow()
    store = owner.open()
    query = VectorQuery("model-c", {"en": FakeEncoder().encode_queries([Document("q", "en", "text")])}, 10)
    before = list(store.search(query)["en"][0].doc_ids)
    owner.client.indices.put_settings(index=store.index, settings={"refresh_interval": "-1"})
    with closing(owner.open()) as follower:
        assert follower.forget(before[:5]) == 5
    assert list(store.search(query)["en"][0].doc_ids) == before
    with pytest.raises(MissingDocuments):
        store.get(before[:1])
    after = store.search(query)["en"][0].doc_ids
    assert set(after).isdisjoint(before[:5])
    assert len(store.get(after)) == 10


def test_another_index_under_the_same_alias_is_read_from_its_start(owner: Owner) -> None:
    owner.write("a", source("one"))
    owner.client.indices.put_alias(index=owner.index, name=f"{owner.prefix}-alias")
    owner.attachment = replace(owner.attachment, index=f"{owner.prefix}-alias")
    assert owner.follow().encoded == 1
    second = f"{owner.prefix}-second"
    owner.client.indices.create(index=second, mappings=MAPPING)
    owner.client.index(index=second, id="b", document=source("two"))
    actions = [
        {"remove": {"index": owner.index, "alias": f"{owner.prefix}-alias"}},
        {"add": {"index": second, "alias": f"{owner.prefix}-alias"}},
    ]
    owner.client.indices.update_aliases(actions=actions)
    report = owner.follow()
    assert (report.encoded, report.resumed) == (1, False)
    assert owner.vectors().keys() == {"b"}


def test_an_index_that_a_snapshot_was_restored_over_is_read_from_its_start(owner: Owner) -> None:
    """It has its uuid still, and counts on from an earlier number."""
    snapshots, name = owner.client.snapshot, owner.prefix
    snapshots.create_repository(name=name, repository={"type": "fs", "settings": {"location": name}})
    owner.write("a", source("one"))
    owner.follow()
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
    owner.write_all(texts(400))
    owner.encoder.broken_at = 200
    with pytest.raises(RuntimeError, match="the power went out"):
        owner.follow()
    owner.client.indices.refresh(index=f"{owner.prefix}*")
    done = len(owner.vectors())
    assert 0 < done < 400
    owner.encoder.broken_at = -1
    owner.encoder.encoded.clear()
    report = owner.follow()
    assert report.resumed
    assert len(owner.encoder.encoded) == report.encoded <= 400 - done
    owner.check()


def test_two_homes_attached_to_one_index_encode_nothing_twice(in_place: Owner, tmp_path: Path) -> None:
    in_place.write_all(texts(10))
    in_place.follow()
    in_place.engine = connect(f"sqlite:///{tmp_path / 'other.db'}")
    assert in_place.encoded_by_following() == []
    in_place.engine.dispose()


def test_a_version_of_the_owners_is_never_got_ahead_of(in_place: Owner) -> None:
    """An update would bump it, and the owner's next write at that number would be refused."""
    in_place.write("mine", source("text"))
    in_place.write("back", source("text"))
    in_place.follow()
    in_place.write("theirs", source("text"), version=1_700_000_000, version_type="external")
    in_place.write("back", in_place.read("back"), version=1_700_000_000, version_type="external")
    report = in_place.follow()
    assert sorted(note.doc_id for note in report.refused) == ["back", "theirs"]
    assert "its owner numbers its versions (external versioning)" in report.refused[0].text
    assert in_place.client.get(index=in_place.index, id="back")["_version"] == 1_700_000_000
    assert in_place.vectors().keys() == {"mine"}
    in_place.write("theirs", source("next"), version=1_700_000_001, version_type="external")
    assert in_place.client.get(index=in_place.index, id="theirs")["_version"] == 1_700_000_001
    assert "dragoman" not in in_place.read("theirs")


def test_a_companion_follows_external_versions(owner_of: OwnerOf) -> None:
    owner = owner_of(companion=True)
    owner.write("a", source("one"), version=1_000_000, version_type="external")
    assert owner.follow().encoded == 1
    owner.write("a", source("two"), version=1_000_001, version_type="external_gte")
    assert owner.encoded_by_following() == ["a"]
    owner.check()


def test_two_homes_with_companions_of_one_name_leave_each_others_alone(
    elastic_url: str, engine: sa.Engine, tmp_path: Path
) -> None:
    first = Owner(elastic_url, engine, companion=True)
    first.make()
    first.write_all(texts(5))
    first.follow()
    second = Owner(elastic_url, connect(f"sqlite:///{tmp_path / 'other.db'}"), companion=True)
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
    for one in (first, second):
        one.client.close()


def test_a_companion_that_was_lost_is_made_again(owner_of: OwnerOf) -> None:
    owner = owner_of(companion=True)
    owner.write("a", source("one"))
    owner.follow()
    store = owner.open()
    owner.client.indices.delete(index=store.index)
    with pytest.raises(StoreError, match=r"is gone from .*let it be made again \(dragoman attach -c c\)"):
        store.count()
    with pytest.raises(StoreError, match=r"dragoman attach -c c"):
        StoreLocation(owner.attachment.url, "c", Credentials()).open_attached()
    assert owner.follow().encoded == 1
    owner.check()


def test_an_index_that_vanishes_meanwhile_is_said_to_be_gone_by_its_name(owner: Owner) -> None:
    owner.write_all(texts(3))
    owner.follow()
    store, model = owner.open(), owner.encoder.spec.model
    (item, *_) = [item for page in store.scan(model) for item in page]
    (shard, top), *_ = store.last_writes().items()
    owner.client.indices.delete(index=owner.index)
    acts: dict[str, Callable[[], object]] = {
        "last_writes": store.last_writes,
        "changes": lambda: list(store.changes(model, shard, 10, above=-1, upto=top.seq_no)),
        "count_changes": lambda: store.count_changes(shard, above=-1, upto=top.seq_no),
        "gone": lambda: store.gone(["d1"]),
        "get": lambda: store.get(["d1"]),
        "originals": lambda: store.originals(["d1"]),
        "check": lambda: store.check(model),
        "prune": lambda: store.prune(0),
        "put": lambda: store.put(model, [item]),
        "forget": lambda: store.forget(["d1"]),
        "vectors": lambda: store.vectors(model, ["d1"]),
        "count": store.count,
        "drop": store.drop,
    }
    if owner.attachment.companion:  # what is done in our own index goes on
        for name in ("put", "vectors", "forget", "count"):
            acts.pop(name)()
        acts.pop("drop")
    else:
        acts.pop("prune")
    for name, act in acts.items():
        with pytest.raises(IndexGone) as raised:
            act()
        assert f"the index {owner.index} is gone" in str(raised.value), name
    assert not owner.client.indices.exists(index=owner.index)


def test_an_index_that_vanishes_while_it_is_detached_is_said_to_be_gone(
    in_place: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_place.write_all(texts(3))
    in_place.follow()
    read = ServerIndex.read

    def vanishing(index: Any, *arguments: Any, **more: Any) -> Any:
        in_place.client.indices.delete(index=in_place.index, ignore_unavailable=True)
        return read(index, *arguments, **more)

    monkeypatch.setattr(ServerIndex, "read", vanishing)
    assert detach_from(in_place.attachment, Credentials()).gone
    assert not in_place.client.indices.exists(index=in_place.index)


def test_a_closed_index_is_said_to_be_closed(owner: Owner) -> None:
    owner.write_all(texts(3))
    owner.follow()
    owner.client.indices.close(index=owner.index)
    with pytest.raises(DragomanError, match=f"{owner.index} is closed; open it"):
        owner.follow()


def test_dropping_takes_our_field_from_every_document_and_leaves_the_rest(owner: Owner) -> None:
    before = texts(30)
    owner.write_all(before)
    owner.follow()
    StoreLocation(owner.attachment.url, "c").drop()
    for doc_id, document in before.items():
        assert {name: value for name, value in owner.read(doc_id).items() if value is not None} == document
    assert owner.client.count(index=owner.index)["count"] == 30
    if not owner.attachment.companion:
        owner.client.indices.refresh(index=owner.index)
        assert owner.vectors() == {}
    names = owner.client.indices.get(index=f"{owner.prefix}*", expand_wildcards="all")
    assert list(names) == [owner.index]
    StoreLocation(owner.attachment.url, "c").drop()


def test_documents_of_theirs_are_never_deleted_by_us(owner: Owner) -> None:
    owner.write("a", source("one"))
    owner.follow()
    store = owner.open()
    with pytest.raises(BadInput, match="are their owner's"):
        store.delete(["a"])
    assert owner.read("a")["content"] == {"body": "one"}


@pytest.mark.parametrize("option", ["server=x", "index=x", "nonsense=x"])
def test_an_attachments_url_has_its_own_options_alone(option: str) -> None:
    with pytest.raises(BadInput, match="has no option"):
        Attachment.parse(f"https://h:9200/news?text=a&{option}")


def test_an_attachment_is_its_url(elastic_url: str) -> None:
    attachment = Attachment("https://h:9200", "news", "a.b", title="t", lang="de", field="x_1", companion="dragoman")
    assert Attachment.parse(attachment.url) == attachment
    assert is_attached(attachment.url)
    assert not is_attached("https://h:9200/dragoman?field=x")
    assert (
        Attachment.parse("https://user:pw@h:9200/news?text=body").url
        == "https://h:9200/news?text=body&field=dragoman&vectors=int8_hnsw"
    )
    with pytest.raises(BadInput, match="has no index news"):
        StoreLocation(f"{urlsplit(elastic_url)._replace(path='/news').geturl()}?text=body", "c").open(make=False)


REFUSED: Sequence[tuple[str, dict[str, Any], str]] = [
    ("no source", {"_source": {"enabled": False}}, "keeps no _source"),
    ("excludes", {"_source": {"excludes": ["year"]}}, "from its index for good; attach with --companion"),
    ("excludes the text", {"_source": {"excludes": ["content.*"]}}, "leaves 'content.body' out of its _source"),
    ("excludes its object", {"_source": {"excludes": ["content"]}}, "leaves 'content.body' out of its _source"),
    ("includes", {"_source": {"includes": ["content.body", "headline", "lang"]}}, "attach with --companion"),
    ("routing", {"_routing": {"required": True}}, "placed by routing values"),
    ("ours is not ours", {"properties": {**MAPPING["properties"], "dragoman": {"type": "keyword"}}}, "with --field"),
    ("no text", {"properties": {"b": {"type": "text"}}}, "no field 'content.body'; its fields of text are: b"),
    ("nested", {"properties": {"content": {"type": "nested", "properties": {"body": {"type": "text"}}}}}, "in nested"),
    ("no words", {"properties": {"content": {"properties": {"body": {"type": "long"}}}}}, "is long, not text"),
]  # fmt: skip


@pytest.mark.parametrize(("mapping", "reason"), [one[1:] for one in REFUSED], ids=[one[0] for one in REFUSED])
def test_what_forbids_it_is_said_at_the_door(owner_of: OwnerOf, mapping: dict[str, Any], reason: str) -> None:
    owner = owner_of({"properties": MAPPING["properties"], **mapping})
    with pytest.raises(BadInput, match=reason):
        at_the_door(owner)


def at_the_door(owner: Owner) -> None:
    attachment = owner.attachment
    attach_checks.check(owner.client, UsersIndex.open(owner.client, attachment), "model-c")


def test_documents_say_at_the_door_what_no_mapping_does(in_place: Owner) -> None:
    at_the_door(in_place)
    in_place.write("a", source("one"), version=5_000, version_type="external", refresh=True)
    with pytest.raises(BadInput, match=r"numbers the versions of its documents.*attach with --companion"):
        at_the_door(in_place)
    in_place.attachment = replace(in_place.attachment, companion=in_place.prefix)
    at_the_door(in_place)
    in_place.write("b", source("one"), routing="somewhere", refresh=True)
    with pytest.raises(BadInput, match=rf"placed by routing values.*dragoman index elastic:{in_place.index} -c NAME"):
        at_the_door(in_place)


@pytest.mark.usefixtures("default_folder")
def test_a_second_collection_in_an_index_takes_a_field_of_its_own(in_place: Owner, settings: Settings) -> None:
    """The encoder's vectors of titles would stand where those of the texts are looked for."""
    in_place.write("a", source("one"))
    in_place.client.indices.put_alias(index=in_place.index, name=f"{in_place.prefix}-alias")
    by_title = replace(in_place.attachment, text="headline", title="")

    def attach(name: str, attachment: Attachment) -> int:
        with AttachedCollection.open(name, attachment, settings=settings) as attached:
            return attached.catch_up().encoded

    assert attach("texts", in_place.attachment) == 1
    for same in (by_title, replace(by_title, index=f"{in_place.prefix}-alias")):
        with pytest.raises(BadInput, match=r"vectors of collection texts in 'dragoman' already; name another field"):
            attach("titles", same)
    assert attach("titles", replace(by_title, field="titles")) == 1
    assert attach("beside", replace(by_title, companion=in_place.prefix)) == 1
    assert attach("texts", in_place.attachment) == 0


def test_what_is_encoded_of_a_very_long_document_is_kept_in_the_home(
    in_place: Owner, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert [len(files) for files in kept] == [1]
    assert not checkpoints.exists()


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


def test_an_index_of_dragomans_own_is_refused(owner: Owner) -> None:
    store = StoreLocation(f"{owner.server}/{owner.prefix}", "c", Credentials()).open(make=True)
    store.publish()
    owner.attachment = replace(owner.attachment, index=f"{owner.prefix}-c", text="text", title="", lang_field="")
    with pytest.raises(BadInput, match="is where Dragoman stores the collection c,"):
        at_the_door(owner)


def test_an_alias_over_several_indices_and_an_index_that_is_not_there_are_refused(in_place: Owner) -> None:
    other = f"{in_place.prefix}-other"
    in_place.client.indices.create(index=other, mappings=MAPPING)
    in_place.client.indices.put_alias(index=[in_place.index, other], name=f"{in_place.prefix}-both")
    in_place.attachment = replace(in_place.attachment, index=f"{in_place.prefix}-both")
    with pytest.raises(BadInput, match="stands for 2 indices"):
        at_the_door(in_place)
    in_place.attachment = replace(in_place.attachment, index=f"{in_place.prefix}-none")
    with pytest.raises(BadInput, match="has no index"):
        at_the_door(in_place)
    with pytest.raises(BadInput, match="no name of one index"):
        replace(in_place.attachment, index="a*")


def test_a_data_stream_is_refused() -> None:
    """As a full server answers for one; the tests' server has no data streams."""
    answer = {".ds-logs-2026.11.21-000001": {"data_stream": "logs", "mappings": {}, "settings": {}}}
    with pytest.raises(BadInput, match=r"data stream logs.*dragoman index elastic:logs -c NAME"):
        only_index("logs", answer)


def test_a_blocked_index_a_synthetic_source_and_another_model_are_refused(in_place: Owner) -> None:
    in_place.write("a", source("one"))
    in_place.follow()
    with pytest.raises(BadInput, match=r"another model \(model-c\)"):
        attach_checks.check(in_place.client, UsersIndex.open(in_place.client, in_place.attachment), "model-x")
    in_place.client.indices.put_settings(index=in_place.index, settings={"index.blocks.write": True})
    with pytest.raises(BadInput, match="has the block 'write'"):
        at_the_door(in_place)
    synthetic = f"{in_place.prefix}-synthetic"
    in_place.client.indices.create(
        index=synthetic,
        mappings={"properties": MAPPING["properties"]},
        settings={"index.mapping.source.mode": "synthetic"},
    )
    in_place.attachment = replace(in_place.attachment, index=synthetic)
    with pytest.raises(BadInput, match="synthetic _source"):
        at_the_door(in_place)


def test_an_object_that_is_kept_in_sources_keeps_the_text_in_it(owner_of: OwnerOf) -> None:
    owner = owner_of({**MAPPING, "_source": {"includes": ["content", "headline", "lang"]}}, companion=True)
    owner.write("a", source("one", year=1990))
    at_the_door(owner)
    assert owner.follow().encoded == 1
    owner.check()


@pytest.mark.parametrize("companion", [False, True], ids=["in place", "companion"])
def test_a_setting_that_keeps_no_source_is_refused_as_a_mapping_is(owner_of: OwnerOf, companion: bool) -> None:
    owner = owner_of(MAPPING, companion=companion, **{"index.mapping.source.mode": "disabled"})
    with pytest.raises(BadInput, match="keeps no _source"):
        at_the_door(owner)


@pytest.mark.parametrize(
    ("part", "how"), [({"filter": {"term": {"lang": "en"}}}, "a filter"), ({"search_routing": "x"}, "a routing value")]
)
def test_an_alias_that_shows_a_part_of_an_index_is_refused(in_place: Owner, part: dict[str, Any], how: str) -> None:
    in_place.write("secret", source("geheim", "de"))
    alias = f"{in_place.prefix}-alias"
    in_place.client.indices.put_alias(index=in_place.index, name=alias, **part)
    in_place.attachment = replace(in_place.attachment, index=alias)
    with pytest.raises(BadInput, match=rf"{alias} is an alias with {how}.*name the index itself"):
        in_place.follow()
    assert "dragoman" not in in_place.read("secret")
    in_place.attachment = replace(in_place.attachment, index=in_place.index)
    assert in_place.follow().encoded == 1


def left(owner: Owner, index: str = "") -> list[str]:
    """Ids of the documents that hold our field."""
    owner.client.indices.refresh(index=index or owner.index)
    hits = owner.client.search(index=index or owner.index, query={"exists": {"field": "dragoman.id"}}, size=1000)
    return sorted(hit["_id"] for hit in hits["hits"]["hits"])


def test_detaching_leaves_documents_whose_versions_are_their_owners(in_place: Owner) -> None:
    in_place.write("mine", source("text"))
    in_place.write("back", source("text"))
    in_place.follow()
    in_place.write("back", in_place.read("back"), version=1_700_000_000, version_type="external")
    done = detach_from(in_place.attachment, Credentials())
    assert (done.emptied, done.kept, done.gone) == (1, 1, False)
    assert left(in_place) == ["back"]
    in_place.write("back", source("next"), version=1_700_000_001, version_type="external")
    assert left(in_place) == []


def test_detaching_ends_where_a_copy_that_was_placed_by_routing_holds_our_field(in_place: Owner) -> None:
    in_place.write_all(texts(3))
    in_place.follow()
    copied = in_place.read("d0")
    for value in ("x", "y", "zz", "abc"):
        in_place.write("d0", copied, routing=value)
    assert detach_from(in_place.attachment, Credentials()).emptied >= 4
    assert left(in_place) == []


def test_after_an_alias_moved_on_the_index_that_got_vectors_is_emptied_and_no_other(
    in_place: Owner, settings: Settings
) -> None:
    in_place.write("a", source("one"))
    alias, second = f"{in_place.prefix}-alias", f"{in_place.prefix}-second"
    in_place.client.indices.put_alias(index=in_place.index, name=alias)
    in_place.attachment = replace(in_place.attachment, index=alias)
    collection = register(
        in_place.engine, "c", replace(settings, store=in_place.attachment.url), "x", in_place.encoder.spec
    )
    in_place.follow()
    in_place.client.indices.create(index=second, mappings=MAPPING)
    actions = [{"remove": {"index": in_place.index, "alias": alias}}, {"add": {"index": second, "alias": alias}}]
    in_place.client.indices.update_aliases(actions=actions)
    other = Owner(f"{in_place.server}/{in_place.prefix}", in_place.engine, companion=False)
    other.attachment = replace(other.attachment, index=second)
    other.index = second
    other.write("b", source("two"))
    store = other.open()
    catch_up(store, other.encoder, other.engine, "another")
    done = detach(in_place.engine, collection, settings)
    assert [(one.index, one.emptied) for one in done] == [(in_place.index, 1)]
    assert left(in_place) == []
    assert left(other) == ["b"]
    other.client.close()


def test_an_index_that_was_made_anew_under_its_name_is_said_to_be_gone(in_place: Owner, settings: Settings) -> None:
    in_place.write("a", source("one"))
    in_place.follow()
    stored = replace(settings, store=in_place.attachment.url)
    collection = register(in_place.engine, "c", stored, "x", in_place.encoder.spec)
    in_place.client.indices.delete(index=in_place.index)
    in_place.make()
    (done,) = detach(in_place.engine, collection, settings)
    assert (done.gone, done.emptied) == (True, 0)
    assert find(in_place.engine, "c") is None


@pytest.mark.parametrize("companion", [False, True], ids=["in place", "companion"])
def test_a_collection_whose_server_is_gone_can_be_forgotten(
    elastic_url: str, engine: sa.Engine, settings: Settings, companion: bool
) -> None:
    owner = Owner(elastic_url, engine, companion=companion)
    away = replace(owner.attachment, server="http://127.0.0.1:9")
    collection = register(engine, "c", replace(settings, store=away.url), "x", owner.encoder.spec)
    with pytest.raises(StoreError, match="can't be reached"):
        detach(engine, collection, settings)
    assert detach(engine, collection, settings, forget=True) == []
    assert find(engine, "c") is None
    owner.client.close()


def test_another_home_that_reads_other_fields_into_our_object_is_refused(in_place: Owner, tmp_path: Path) -> None:
    """Each would take the other's vectors for those of stale texts, for ever."""
    in_place.write_all(texts(5))
    in_place.follow()
    other = Owner(f"{in_place.server}/{in_place.prefix}", connect(f"sqlite:///{tmp_path / 'b.db'}"), companion=False)
    other.attachment = replace(in_place.attachment, text="headline", title="")
    with pytest.raises(
        BadInput, match=r"vectors of other fields \(lang_field lang, text content.body, title headline\)"
    ):
        other.follow()
    assert in_place.encoded_by_following() == []
    StoreLocation(in_place.attachment.url, "c").drop()
    assert other.follow().encoded == 5
    other.engine.dispose()
    other.client.close()


def test_an_attachment_from_before_fields_were_noted_notes_them(in_place: Owner) -> None:
    in_place.write("a", source("one"))
    in_place.follow()
    bare = {"dragoman": {"properties": {"id": {"type": "keyword"}}}}
    in_place.client.indices.put_mapping(index=in_place.index, properties=bare)
    assert in_place.encoded_by_following() == []
    mapping = in_place.client.indices.get_mapping(index=in_place.index)[in_place.index]["mappings"]
    noted = mapping["properties"]["dragoman"]["properties"]["id"]["meta"]
    assert noted == {"text": "content.body", "title": "headline", "lang_field": "lang"}


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


def test_an_index_that_takes_no_objects_and_one_that_is_closed_are_refused(owner_of: OwnerOf) -> None:
    flat = {"content.body": {"type": "text"}, "headline": {"type": "text"}, "lang": {"type": "keyword"}}
    owner = owner_of({"subobjects": False, "properties": flat})
    with pytest.raises(BadInput, match=r"takes no objects \(subobjects: false\).*attach with --companion"):
        at_the_door(owner)
    owner.client.indices.close(index=owner.index)
    with pytest.raises(BadInput, match=rf"is closed; open it \(POST {owner.index}/_open\)"):
        at_the_door(owner)


def test_an_index_with_too_little_room_for_fields_says_which_setting_to_raise(owner_of: OwnerOf) -> None:
    owner = owner_of(MAPPING, **{"index.mapping.total_fields.limit": 11})
    owner.write("a", source("one"))
    with pytest.raises(StoreError, match=r"raise index\.mapping\.total_fields\.limit of the index"):
        owner.follow()


@pytest.mark.usefixtures("default_folder")
def test_a_companion_that_no_index_can_be_named_after_is_no_collection(in_place: Owner, settings: Settings) -> None:
    beside = replace(in_place.attachment, companion=in_place.prefix)
    with (
        pytest.raises(BadInput, match="can't be named 'MyColl' on Elasticsearch"),
        AttachedCollection.open("MyColl", beside, settings=settings),
    ):
        pass
    assert find(in_place.engine, "MyColl") is None


def test_while_a_command_opens_its_encoder_no_other_attaches_the_collection(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
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
