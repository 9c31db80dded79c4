"""``dragoman attach`` and ``detach``, as a user types them, over an index made by plain elasticsearch-py."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from elasticsearch import helpers

from encoders.document import EncoderSpec
from encoders.folder.model_folder import ModelFolder
from indexer.collection.collection import register
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database
from indexer.stores.attached.attached_address import Attachment
from query.ranking.searcher import Searcher
from tests.conftest import read_documents
from tests.query.conftest import Command
from trials.servers.elastic import client_of

LANGS = ("en", "de", "ja")
PLAIN = ("--no-calibration", "-q")


class Site:
    """A server with somebody's index of help pages, and a home of ours."""

    def __init__(self, url: str, data: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        parts = urlsplit(url)
        self.server, self.prefix = f"{parts.scheme}://{parts.netloc}", parts.path.strip("/")
        self.index, self.settings = f"{self.prefix}-help", Settings.read(home=home)
        self.client = client_of(self.server)
        self.dragoman = Command(capsys, "-c", "help", "--home", str(home))
        files = [data / "lohelp" / f"docs.{lang}.jsonl.gz" for lang in LANGS]
        self.documents = [document for file in files for document in read_documents(file, 12)]
        sources = (
            (one.doc_id, {"headline": one.title, "body": one.text[:300], "language": one.lang})
            for one in self.documents
        )
        actions = ({"_index": self.index, "_id": doc_id, "_source": source} for doc_id, source in sources)
        helpers.bulk(self.client, actions, refresh=True)

    def attach(self, *more: str, pattern: str = "") -> str:
        fields = ["--text", "body", "--title", "headline", "--lang-field", "language", "--device", "cpu"]
        return self.dragoman(
            "attach", f"{self.index}{pattern}", "--store", f"{self.server}/{self.prefix}", *fields, *more
        )


@pytest.fixture
def site(
    elastic_url: str, data_dir: Path, default_folder: ModelFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[Site]:
    made = Site(elastic_url, data_dir, tmp_path / "home", capsys)
    yield made
    made.client.close()


@pytest.fixture
def attached(site: Site) -> Site:
    """The same, the index attached without a calibration."""
    site.attach(*PLAIN)
    return site


@pytest.mark.data
@pytest.mark.parametrize("companion", [[], ["--companion"]], ids=["in place", "companion"])
def test_an_index_is_attached_calibrated_searched_and_detached(site: Site, companion: list[str]) -> None:
    said = site.attach(*companion)
    assert "help: 36 encoded, 0 unchanged" in said
    assert " across 3 languages: own-language share " in said
    shown = {document.doc_id: document for document in site.documents}
    langs = set()
    for query in ("Makros in Basic debuggen", "sort rows of a table", "日付の関数"):
        hits = site.dragoman.one("search", query, "-k", "6")["hits"]
        assert len(hits) == 6
        assert all(hit["title"] == shown[hit["id"]].title for hit in hits)
        langs |= {hit["lang"] for hit in hits}
    assert (langs, json.loads(site.attach(*companion, "--json").splitlines()[-1])["encoded"]) == (set(LANGS), 0)
    assert site.dragoman.one("status")["documents"] == 36
    said = site.dragoman("detach")
    assert ("nothing was ever written into" if companion else "removed from 36 documents") in said
    assert ("keeps the empty field" in said) == (not companion)
    site.dragoman("status", status=1)
    found = site.client.search(index=site.index, size=50)["hits"]["hits"]
    assert len(found) == 36
    assert all(hit["_source"].get("dragoman") is None for hit in found)
    assert list(site.client.indices.get(index=f"{site.prefix}*", expand_wildcards="all")) == [site.index]


@pytest.mark.data
@pytest.mark.parametrize("companion", [[], ["--companion"]], ids=["in place", "companion"])
def test_a_text_edited_since_is_shown_whole_and_no_passage_cut_out_of_it(site: Site, companion: list[str]) -> None:
    site.attach(*PLAIN, *companion)
    with Searcher.open("help", site.settings) as searcher:
        before = {hit.doc_id: hit for hit in searcher.search("sort rows of a table", lang="en", k=36)}
        edited, *others = before
        site.client.update(index=site.index, id=edited, doc={"body": "Another text altogether."}, refresh=True)
        after = {hit.doc_id: hit for hit in searcher.search("sort rows of a table", lang="en", k=36)}
        assert before[edited].passage is not None
        assert after[edited].passage is None
        assert after[edited].document.text == "Another text altogether."
        assert all(after[doc_id].passage == before[doc_id].passage for doc_id in others)


@pytest.mark.data
@pytest.mark.parametrize("pattern", ["", "*"])
def test_following_goes_on_over_a_block_and_a_new_index(site: Site, interruptible: None, pattern: str) -> None:
    """``dragoman attach --follow`` in a process of its own, which looks five times a second."""
    site.attach(*PLAIN, pattern=pattern)
    program, pipe = [sys.executable, "-c", "from query.cli import main; main()"], subprocess.PIPE
    command = [*program, "attach", "--follow", "--every", "0.2", *site.dragoman.place, "--device", "cpu"]
    page = {"headline": "A new page", "body": "of text", "language": "en"}
    blocked = {"index.blocks.write": True}  # a block of a full disk is lifted by the server, too
    index, client, stack = site.index, site.client, ExitStack()
    with subprocess.Popen([*command, "--no-calibration"], stdout=pipe, stderr=pipe, text=True) as process, stack:
        stack.callback(process.kill)

        def warns(what: str) -> None:
            assert process.stderr
            while what not in process.stderr.readline():
                assert process.poll() is None

        assert process.stdout
        assert process.stdout.readline().startswith("help: 0 encoded")
        process.send_signal(signal.SIGSTOP)
        client.index(index=index, id="new", document=page)
        client.indices.put_settings(index=index, settings=blocked)
        process.send_signal(signal.SIGCONT)
        warns("trying again")
        client.indices.put_settings(index=index, settings=dict.fromkeys(blocked))
        assert process.stdout.readline().startswith("help: 1 encoded")
        mapping = client.indices.get_mapping(index=index)[index]["mappings"]
        if pattern:
            index = f"{index}-2"
        else:
            client.indices.delete(index=index)
            warns("has no index")
        mapping["properties"].pop("dragoman")
        client.indices.create(index=index, mappings=mapping)
        client.index(index=index, id="first", document=page)
        assert process.stdout.readline().startswith("help: 1 encoded")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130


def test_a_collection_of_a_server_that_is_gone_is_forgotten(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    spec = EncoderSpec("fake", "segments", 8, (), "model-c", "build-c")
    away = Attachment("http://127.0.0.1:9", "theirs", "body")
    with open_database(site.settings.database) as engine:
        for name, store in (("help", away.url), ("own", "http://127.0.0.1:9/p")):
            register(engine, name, replace(site.settings, store=store), "x", spec)
    assert "can't be reached" in site.dragoman("detach", status=1)
    assert "help is forgotten; dragoman in theirs stays on http://127.0.0.1:9" in site.dragoman("detach", "--forget")
    own = Command(capsys, "-c", "own", "--home", str(site.settings.home))
    said = own("delete", "--all", "-y", "--forget")
    assert "own is forgotten; what it has in http://127.0.0.1:9/p stays there" in said
    site.dragoman("status", status=1)


def test_what_is_missing_is_said(site: Site) -> None:
    for arguments, sentence in (
        ([site.index], "say which server the index is on"),
        ([site.index, "--store", site.server], "say which field holds the text"),
        ([site.index, "--store", site.server, "--text", "bodi"], "its fields of text are: body, headline, language"),
        ([], "there is no collection help"),
    ):
        assert sentence in site.dragoman("attach", *arguments, status=1)
    site.dragoman("detach", status=1)
    properties = site.client.indices.get_mapping(index=site.index)[site.index]["mappings"]["properties"]
    assert list(properties) == ["body", "headline", "language"]


@pytest.mark.data
def test_an_attached_collection_takes_no_documents_and_delete_all_detaches_it(attached: Site, tmp_path: Path) -> None:
    dragoman, other = attached.dragoman, tmp_path / "docs.jsonl"
    other.write_text('{"id": "a", "lang": "en", "text": "text"}\n', encoding="utf-8")
    for arguments, sentence in (
        (["index", other], "is attached to an index, and its documents come from there"),
        (["delete", attached.documents[0].doc_id], "are their owner's"),
        (["attach", attached.index, "--store", attached.server, "--text", "headline"], "detach it first"),
    ):
        assert sentence in dragoman(*arguments, status=1)
    assert "help is detached; the field dragoman was removed from 36 documents" in dragoman("delete", "--all", "--yes")
    dragoman("status", status=1)
    assert attached.client.count(index=attached.index)["count"] == 36
