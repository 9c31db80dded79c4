"""A look at somebody's indices before anything is attached: on a real server, where nothing is written."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elasticsearch import ConnectionTimeout, Elasticsearch

from indexer.cluster import index_changes
from query.cli import run
from query.report import index_look
from tests.conftest import Capture, Patch
from trials.fake_encoder import FakeEncoder
from trials.servers.elastic import client_of

pytestmark = pytest.mark.parts


def fill(client: Elasticsearch, prefix: str, *, vectors: bool) -> None:
    """Make three indices, one a language, and one without text that can be attached with theirs.

    With ``vectors`` those of a language are near each other; German sources lack them.
    """
    client.index(index=f"{prefix}-other", document={"name": "not a text"}, refresh=True)
    for number, (lang, count) in enumerate((("de", 30), ("en", 15), ("fr", 2))):
        fields: dict[str, Any] = {"body": {"type": "text"}, "tag": {"type": "text"}, "lang": {"type": "keyword"}}
        searched = {"type": "dense_vector", "dims": 2, "similarity": "cosine"}
        fields |= {"emb": searched, "raw": {"type": "dense_vector", "dims": 2, "index": False}} if vectors else {}
        mapping = {"properties": fields, "_source": {"excludes": ["emb"] if lang == "de" else []}}
        client.indices.create(index=f"{prefix}-{lang}", mappings=mapping)
        for at, angle in enumerate(np.arange(count) / 100 + number):
            row = {"emb": [float(np.cos(angle)), float(np.sin(angle))]} if vectors else {}
            source = {"body": f"a text of {lang} {10 + at}", "tag": "x", "lang": lang, **row}
            client.index(index=f"{prefix}-{lang}", document=source)
        client.indices.refresh(index=f"{prefix}-{lang}")


def state(client: Elasticsearch, prefix: str) -> Any:
    stats = client.indices.stats(index=f"{prefix}-*", metric="indexing")["_all"]["total"]["indexing"]["index_total"]
    return stats, client.indices.get_mapping(index="*", expand_wildcards="all").body.keys()


@pytest.mark.parametrize("vectors", [True, False], ids=["by own vectors", "before it has any"])
def test_languages_are_shown_with_what_vectors_do_to_them_or_what_attaching_costs(
    elastic_url: str, capsys: Capture, tmp_path: Path, monkeypatch: Patch, vectors: bool
) -> None:
    monkeypatch.setattr(index_look, "open_named", lambda *_: FakeEncoder())
    server, _, prefix = elastic_url.rpartition("/")
    page = tmp_path / "page.html"

    def look(*more: str, status: int = 0) -> Any:
        place = ["--store", server, "-o", str(page), "--home", str(tmp_path / "home"), "--lang-field", "lang"]
        assert run(["report", "--index", f"{prefix}-*", "--json", *place, *more]) == status
        said = capsys.readouterr()
        return said.err if status else json.loads(said.out)

    with client_of(server) as client:
        fill(client, prefix, vectors=vectors)
        before = state(client, prefix)
        seen = look()
        assert state(client, prefix) == before
        copying = {"all": {"type": "text"}, "note": {"type": "text", "copy_to": "all"}}
        client.indices.put_mapping(index=f"{prefix}-de", properties=copying)
    assert (seen["documents"], seen["languages"]) == (47, pytest.approx({"de": 30 / 47, "en": 15 / 47, "fr": 2 / 47}))
    if vectors:
        assert (seen["vector"], seen["own_language"]) == ("emb", {"de": 1.0, "en": 1.0, "fr": 0.1})
        assert seen["mean"] == pytest.approx((30 + 15 + 0.2) / 47)
        assert seen["expected"] == pytest.approx((30**2 + 15**2 + 2**2) / 47**2)
        assert page.read_text("utf-8").count("<svg") == 1
    else:
        assert seen["hours"] > 0 < seen["gigabytes"]
        assert seen["characters"] == {"de": 15.0, "en": 15.0, "fr": 15.0}
        assert "Attaching its 47 documents would take" in page.read_text("utf-8")
    for field in ("tag", "raw"):
        assert "has indexed vectors in no field" in look("--vector", field, status=1)
    assert "has no field 'nope'" in look("--text", "nope", status=1)
    assert "text are empty: 'all' has copies (copy_to)" in look("--text", "all", status=1)

    def late(*_: object) -> int:
        raise ConnectionTimeout("late")

    monkeypatch.setattr(index_changes, "count", late)
    assert f"{server} did not answer" in look(status=1)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--index", "x", "-c", "news", "--evaluation", "1"], "leave -c, --evaluation out"),
        (["-c", "news", "--vector", "v", "--text", "t", "--lang-field", "l"], "leave --vector, --text, --lang-field"),
    ],
    ids=["of a collection", "of an index"],
)
def test_options_without_a_meaning_are_refused(capsys: Capture, arguments: list[str], says: str) -> None:
    assert run(["report", *arguments]) == 2
    assert says in " ".join(capsys.readouterr().err.split())
