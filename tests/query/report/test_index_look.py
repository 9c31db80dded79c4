"""A look at somebody's indices before anything is attached: on a real server, where nothing is written."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elasticsearch import Elasticsearch

from query.cli import run
from query.report import index_look
from trials.fake_encoder import FakeEncoder
from trials.servers.elastic import client_of

pytestmark = pytest.mark.parts


def fill(client: Elasticsearch, prefix: str, *, vectors: bool) -> None:
    """Make two indices, one a language; with ``vectors`` those of a language are near each other."""
    for lang, count in (("de", 30), ("en", 15)):
        fields: dict[str, Any] = {"body": {"type": "text"}, "tag": {"type": "text"}, "lang": {"type": "keyword"}}
        fields |= {"emb": {"type": "dense_vector", "dims": 2, "similarity": "cosine"}} if vectors else {}
        client.indices.create(index=f"{prefix}-{lang}", mappings={"properties": fields})
        for at, angle in enumerate(np.arange(count) / 100 + (lang == "en")):
            row = {"emb": [float(np.cos(angle)), float(np.sin(angle))]} if vectors else {}
            source = {"body": f"a text of {lang} {10 + at}", "tag": "x", "lang": lang, **row}
            client.index(index=f"{prefix}-{lang}", document=source)
        client.indices.refresh(index=f"{prefix}-{lang}")


def state(client: Elasticsearch, prefix: str) -> Any:
    stats = client.indices.stats(index=f"{prefix}-*", metric="indexing")["_all"]["total"]["indexing"]["index_total"]
    return stats, client.indices.get_mapping(index="*", expand_wildcards="all").body.keys()


@pytest.mark.parametrize("vectors", [True, False], ids=["by own vectors", "before it has any"])
def test_languages_are_shown_with_what_vectors_do_to_them_or_what_attaching_costs(
    elastic_url: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vectors: bool
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
    assert seen["documents"] == 45
    assert seen["languages"] == pytest.approx({"de": 2 / 3, "en": 1 / 3})
    if vectors:
        assert (seen["vector"], seen["own_language"]) == ("emb", {"de": 1.0, "en": 1.0})
        assert page.read_text("utf-8").count("<svg") == 1
    else:
        assert seen["hours"] > 0 < seen["gigabytes"]
        assert seen["characters"] == {"de": 15.0, "en": 15.0}
        assert "Attaching its 45 documents would take" in page.read_text("utf-8")
    assert "has vectors in no field" in look("--vector", "tag", status=1)
    assert "has no field 'nope'" in look("--text", "nope", status=1)
