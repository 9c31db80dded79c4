"""Collections of ir_datasets: a tiny one registered from a local file, so that nothing is downloaded."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from encoders.document import Document
from encoders.errors import BadInput, MissingPart
from indexer.readers.formats import fingerprint, read
from indexer.readers.records.source import ReadOptions, Refusal


class Article(NamedTuple):
    doc_id: str
    headline: str
    body: str
    year: str

    def default_text(self) -> str:
        return self.body


@pytest.fixture
def name(tmp_path: Path) -> Iterator[str]:
    ir_datasets = pytest.importorskip("ir_datasets")
    (tmp_path / "docs.tsv").write_text("d1\tNews\tMills on the river\t1994\nd2\t\t \t1994\nd3\t\tBridges\t1995\n")
    file = ir_datasets.util.LocalDownload(tmp_path / "docs.tsv")
    docs = ir_datasets.formats.TsvDocs(file, doc_cls=Article, lang="en")
    registered = f"dragoman-test-{tmp_path.name}"
    ir_datasets.registry.register(registered, ir_datasets.datasets.base.Dataset(docs))
    yield f"ir-datasets:{registered}"
    ir_datasets.registry._registered.pop(registered)


def test_the_documents_of_a_data_set_are_read_and_a_bad_one_is_refused(name: str) -> None:
    first, second, third = read(name, ReadOptions())
    assert first == Document("d1", "en", "Mills on the river", "News", {"year": "1994"})
    assert isinstance(second, Refusal)
    assert (second.place, second.text) == (f"{name}:d2", "its title and text are empty")
    assert third == Document("d3", "en", "Bridges", "", {"year": "1995"})


def test_an_option_for_the_language_wins_and_changes_the_fingerprint(name: str) -> None:
    assert [item.lang for item in read(name, ReadOptions(lang="de")) if isinstance(item, Document)] == ["de", "de"]
    assert fingerprint(name, ReadOptions(lang="de")) != fingerprint(name, ReadOptions())


def test_fields_are_renamed_ours_to_theirs(name: str) -> None:
    first = next(iter(read(name, ReadOptions(fields={"text": "headline", "title": "body", "when": "year"}))))
    assert first == Document("d1", "en", "News", "Mills on the river", {"when": "1994"})


def test_a_name_that_is_not_known_is_refused_at_once() -> None:
    pytest.importorskip("ir_datasets")
    with pytest.raises(BadInput, match="no-such-set is no data set"):
        read("ir-datasets:no-such-set", ReadOptions())


def test_without_the_extra_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    blocked: Any = None
    monkeypatch.setitem(sys.modules, "ir_datasets", blocked)
    with pytest.raises(MissingPart, match=r"make install EXTRAS=datasets"):
        read("ir-datasets:vaswani", ReadOptions())
