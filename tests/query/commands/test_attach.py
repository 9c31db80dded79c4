"""``dragoman attach`` and ``detach``, as a user types them, over an index made by plain elasticsearch-py."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from elasticsearch import helpers

from encoders.document import EncoderSpec
from encoders.folder.model_folder import ModelFolder
from indexer.collection.collection import register
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database
from indexer.stores.attached.attached_address import Attachment
from query.cli import run
from query.ranking.searcher import Searcher
from tests.conftest import read_documents
from trials.servers.elastic import client_of

LANGS = ("en", "de", "ja")


class Site:
    """A server with somebody's index of help pages, and a home of ours."""

    def __init__(self, url: str, data: Path, home: Path) -> None:
        parts = urlsplit(url)
        self.server, self.prefix = f"{parts.scheme}://{parts.netloc}", parts.path.strip("/")
        self.index, self.home = f"{self.prefix}-help", home
        self.client = client_of(self.server)
        self.documents = [
            document for lang in LANGS for document in read_documents(data / "lohelp" / f"docs.{lang}.jsonl.gz", 12)
        ]
        helpers.bulk(
            self.client,
            (
                {
                    "_index": self.index,
                    "_id": document.doc_id,
                    "_source": {"headline": document.title, "body": document.text[:300], "language": document.lang},
                }
                for document in self.documents
            ),
            refresh=True,
        )

    def dragoman(self, *arguments: str) -> int:
        return run([*arguments, "-c", "help", "--home", str(self.home)])

    def attach(self, *more: str) -> int:
        fields = ["--text", "body", "--title", "headline", "--lang-field", "language", "--device", "cpu"]
        return self.dragoman("attach", self.index, "--store", f"{self.server}/{self.prefix}", *fields, *more)


@pytest.fixture
def site(elastic_url: str, data_dir: Path, default_folder: ModelFolder, tmp_path: Path) -> Iterator[Site]:
    made = Site(elastic_url, data_dir, tmp_path / "home")
    yield made
    made.client.close()


def last_json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    lines = capsys.readouterr().out.strip().splitlines()
    return dict(json.loads(lines[-1]))


@pytest.mark.data
@pytest.mark.parametrize("companion", [[], ["--companion"]], ids=["in place", "companion"])
def test_an_index_is_attached_calibrated_searched_and_detached(
    site: Site, capsys: pytest.CaptureFixture[str], companion: list[str]
) -> None:
    assert site.attach(*companion) == 0
    captured = capsys.readouterr()
    assert "help: 36 encoded, 0 unchanged" in captured.out
    assert "help: calibration" in captured.out
    shown = {document.doc_id: document for document in site.documents}
    langs = set()
    for query in ("Makros in Basic debuggen", "sort rows of a table", "日付の関数"):
        assert site.dragoman("search", query, "-k", "6", "--json") == 0
        hits = last_json(capsys)["hits"]
        assert len(hits) == 6
        assert all(hit["title"] == shown[hit["id"]].title for hit in hits)
        langs |= {hit["lang"] for hit in hits}
    assert langs == set(LANGS)
    assert site.attach(*companion, "--json") == 0
    assert last_json(capsys)["encoded"] == 0
    assert site.dragoman("status", "--json") == 0
    assert last_json(capsys)["documents"] == 36
    assert site.dragoman("detach") == 0
    said = capsys.readouterr().out
    assert ("nothing was ever written into" if companion else "emptied in 36 documents") in said
    assert ("keeps the empty field" in said) == ('"dragoman": null in _source' in said) == (not companion)
    assert site.dragoman("status") == 1
    found = site.client.search(index=site.index, size=50)["hits"]["hits"]
    assert len(found) == 36
    assert all(hit["_source"].get("dragoman") is None for hit in found)
    names = list(site.client.indices.get(index=f"{site.prefix}*", expand_wildcards="all"))
    assert names == [site.index]


@pytest.mark.data
def test_an_attached_index_ranks_as_one_of_our_own_does(site: Site, tmp_path: Path) -> None:
    """Elasticsearch as a source, into the embedded store, beside the same documents attached."""
    assert site.attach("--no-calibration", "-q") == 0
    settings = Settings.read(home=site.home)
    source = f"elastic:{site.server}/{site.index}"
    fields = ["--field", "text=body", "--field", "title=headline", "--field", "lang=language"]
    assert run(["index", source, "-c", "own", *fields, "--no-calibration", "-q", "--home", str(site.home)]) == 0
    with Searcher.open("help", settings) as attached, Searcher.open("own", settings) as own:
        for text, lang in (("sort rows of a table", "en"), ("Makros debuggen", "de"), ("日付の関数", "ja")):
            ours, theirs = (one.search(text, lang=lang, k=36) for one in (own, attached))
            assert {hit.doc_id: hit.cosine for hit in theirs} == pytest.approx(
                {hit.doc_id: hit.cosine for hit in ours}, abs=0.01
            )


@pytest.mark.data
@pytest.mark.parametrize("companion", [[], ["--companion"]], ids=["in place", "companion"])
def test_a_text_edited_since_is_shown_whole_and_no_passage_cut_out_of_it(site: Site, companion: list[str]) -> None:
    assert site.attach("--no-calibration", "-q", *companion) == 0
    with Searcher.open("help", Settings.read(home=site.home)) as searcher:
        before = {hit.doc_id: hit for hit in searcher.search("sort rows of a table", lang="en", k=36)}
        edited, *others = before
        site.client.update(index=site.index, id=edited, doc={"body": "Another text altogether."}, refresh=True)
        after = {hit.doc_id: hit for hit in searcher.search("sort rows of a table", lang="en", k=36)}
        assert before[edited].passage is not None
        assert after[edited].passage is None
        assert after[edited].document.text == "Another text altogether."
        assert all(after[doc_id].passage == before[doc_id].passage for doc_id in others)


@dataclass(frozen=True)
class Following:
    """``dragoman attach --follow`` in a process of its own, which looks five times a second."""

    process: subprocess.Popen[str]

    def says(self) -> str:
        """Its next line."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def warns(self, what: str) -> None:
        """Wait for a warning."""
        assert self.process.stderr is not None
        while what not in self.process.stderr.readline():
            assert self.process.poll() is None


@pytest.fixture
def following(site: Site, interruptible: None) -> Iterator[Following]:
    assert site.attach("--no-calibration", "-q") == 0
    command = [sys.executable, "-c", "from query.cli import main; main()", "attach", "-c", "help", "--follow"]
    with subprocess.Popen(
        [*command, "--every", "0.2", "--home", str(site.home), "--device", "cpu", "--no-calibration"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Following(process)
        finally:
            process.kill()


@pytest.mark.data
def test_following_goes_on_until_it_is_interrupted(site: Site, following: Following) -> None:
    assert following.says().startswith("help: 0 encoded")
    site.client.index(
        index=site.index, id="new", document={"headline": "A new page", "body": "of text", "language": "en"}
    )
    assert following.says().startswith("help: 1 encoded")
    following.process.send_signal(signal.SIGINT)
    assert following.process.wait(60) == 130


@pytest.mark.data
def test_who_follows_waits_for_the_end_of_a_block_and_for_an_index_that_is_made_anew(
    site: Site, following: Following
) -> None:
    page = {"headline": "A new page", "body": "of text", "language": "en"}
    blocked = {"index.blocks.write": True}  # a block of a full disk is lifted by the server, too
    assert following.says().startswith("help: 0 encoded")
    following.process.send_signal(signal.SIGSTOP)
    site.client.index(index=site.index, id="new", document=page)
    site.client.indices.put_settings(index=site.index, settings=blocked)
    following.process.send_signal(signal.SIGCONT)
    following.warns("trying again")
    site.client.indices.put_settings(index=site.index, settings=dict.fromkeys(blocked))
    assert following.says().startswith("help: 1 encoded")
    mapping = site.client.indices.get_mapping(index=site.index)[site.index]["mappings"]
    site.client.indices.delete(index=site.index)
    following.warns("has no index")
    mapping["properties"].pop("dragoman")
    site.client.indices.create(index=site.index, mappings=mapping)
    site.client.index(index=site.index, id="first", document=page)
    assert following.says().startswith("help: 1 encoded")
    following.process.send_signal(signal.SIGINT)
    assert following.process.wait(60) == 130


@pytest.mark.data
def test_delete_all_of_an_attached_collection_says_what_detach_says(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    assert site.attach("--no-calibration", "-q") == 0
    capsys.readouterr()
    assert site.dragoman("delete", "--all", "--yes") == 0
    said = capsys.readouterr().out
    assert "help is detached; the field dragoman was emptied in 36 documents" in said
    assert 'keep "dragoman": null in _source' in said
    assert site.dragoman("status") == 1


def test_a_collection_of_a_server_that_is_gone_is_forgotten_with_what_stays(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings.read(home=site.home)
    spec = EncoderSpec("fake", "segments", 8, (), "model-c", "build-c")
    away = Attachment("http://127.0.0.1:9", "theirs", "body")
    with open_database(settings.database) as engine:
        for name, store in (("help", away.url), ("own", "http://127.0.0.1:9/p")):
            register(engine, name, replace(settings, store=store), "x", spec)
    assert site.dragoman("detach") == 1
    assert "can't be reached" in capsys.readouterr().err
    assert site.dragoman("detach", "--forget") == 0
    assert "help is forgotten; dragoman in theirs stays on http://127.0.0.1:9" in capsys.readouterr().out
    assert run(["delete", "--all", "-y", "--forget", "-c", "own", "--home", str(site.home)]) == 0
    assert "own is forgotten; what it has in http://127.0.0.1:9/p stays there" in capsys.readouterr().out
    assert site.dragoman("status") == 1


def test_what_is_missing_is_said(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, sentence in (
        ([site.index], "say which server the index is on"),
        ([site.index, "--store", site.server], "say which field holds the text"),
        ([site.index, "--store", site.server, "--text", "bodi"], "its fields of text are: body, headline, language"),
        ([], "there is no collection help"),
    ):
        assert site.dragoman("attach", *arguments) == 1
        assert sentence in capsys.readouterr().err
    assert site.dragoman("detach") == 1
    assert list(site.client.indices.get_mapping(index=site.index)[site.index]["mappings"]["properties"]) == [
        "body",
        "headline",
        "language",
    ]


@pytest.mark.data
def test_an_attached_collection_takes_no_other_documents_and_loses_none(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert site.attach("--no-calibration", "-q") == 0
    other = tmp_path / "docs.jsonl"
    other.write_text('{"id": "a", "lang": "en", "text": "text"}\n', encoding="utf-8")
    assert site.dragoman("index", str(other)) == 1
    assert "is attached to an index, and its documents come from there" in capsys.readouterr().err
    assert site.dragoman("delete", site.documents[0].doc_id) == 1
    assert "are their owner's" in capsys.readouterr().err
    assert site.dragoman("attach", site.index, "--store", site.server, "--text", "headline") == 1
    assert "detach it first" in capsys.readouterr().err
    assert site.dragoman("delete", "--all", "--yes") == 0
    assert site.client.count(index=site.index)["count"] == 36
