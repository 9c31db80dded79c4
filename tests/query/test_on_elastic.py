"""Everything a collection is used for, on Elasticsearch: the answers are those of the embedded store."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from indexer.collection.settings import Settings
from query.ranking.ranking_options import RankingOptions
from query.ranking.searcher import Searcher
from tests.query.conftest import moved
from trials import DEMO
from trials.command import TOPICS, ask, require_done
from trials.servers.elastic import client_of

QUERIES = (("en", "flood in the old town"), ("de", "Bienen im Garten"), ("ru", "шахматы"), ("ja", "山火事"))


@pytest.fixture
def embedded(calibrated_by_words: Settings, tmp_path: Path) -> Settings:
    """A copy of the calibrated demo collection, and a third of its topics."""
    topics = (DEMO / "topics.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "topics.tsv").write_text("".join(topics[: len(topics) // 3]), encoding="utf-8")
    shutil.copytree(calibrated_by_words.home, tmp_path / "embedded")
    return Settings.read(home=tmp_path / "embedded")


@pytest.fixture
def on_server(embedded: Settings, elastic_url: str, tmp_path: Path) -> Settings:
    return moved(embedded, "demo", elastic_url, tmp_path / "home")


def hits(settings: Settings, ranking: RankingOptions) -> list[list[tuple[str, float, str | None]]]:
    with Searcher.open("demo", settings, device="cpu", ranking=ranking) as searcher:
        found = [searcher.search(text, lang=lang) for lang, text in QUERIES]
    return [
        [(hit.doc_id, round(hit.score, 4), hit.passage.text if hit.passage else None) for hit in one] for one in found
    ]


def test_the_same_hits_scores_and_passages_from_both_stores(embedded: Settings, on_server: Settings) -> None:
    for ranking in (RankingOptions(calibration="none"), RankingOptions(), RankingOptions(balance=1.0)):
        assert hits(on_server, ranking) == hits(embedded, ranking)


def test_facets_and_similar_documents_are_the_same_from_both_stores(embedded: Settings, on_server: Settings) -> None:
    def answers(settings: Settings) -> list[Any]:
        label = {"label": ["home", "nature"]}
        with Searcher.open("demo", settings, device="cpu") as searcher:
            similar = [
                searcher.similar("demo:de:sourdough", k=20),
                searcher.similar("demo:ja:volcano", to=["ja", "en"], filters=label),
            ]
            hits = [[(hit.doc_id, round(hit.score, 4)) for hit in of_document] for of_document in similar]
            facets = [
                searcher.search("Bienen im Garten", lang="de", facets=["lang", "label"], filters=filters).facets
                for filters in (None, label)
            ]
            return [*hits, *facets]

    assert answers(on_server) == answers(embedded)


def test_a_mapped_ranking_is_the_same_from_both_stores(embedded: Settings, elastic_url: str, tmp_path: Path) -> None:
    plain, folder = hits(embedded, RankingOptions()), str(tmp_path / "mapping")
    run(embedded, "train", "mapping", "-c", "demo", "--languages", "en,de,ru,ja", "-o", folder)
    run(embedded, "calibrate", "-c", "demo", "--map", folder, "--balance", "0.875")
    mapped = hits(embedded, RankingOptions())
    assert mapped != plain
    assert hits(moved(embedded, "demo", elastic_url, tmp_path / "moved"), RankingOptions()) == mapped


def run(settings: Settings, *arguments: str) -> list[dict[str, Any]]:
    done = ask([*arguments, "--json", "--home", str(settings.home)])
    assert done.status == 0, done.sentence
    return [json.loads(line) for line in done.output.splitlines()]


def scores(settings: Settings, *options: str) -> dict[str, float]:
    topics = ["--topics", str(settings.home.parent / "topics.tsv"), *TOPICS[2:]]
    lines = run(settings, "evaluate", *topics, "-c", "demo", "--measures", "AP", *options)
    return {row["id"].partition(".")[2]: row["means"]["AP"] for row in lines[-1]["runs"]}


def test_evaluating_gives_the_same_map(embedded: Settings, on_server: Settings) -> None:
    here, there = scores(embedded), scores(on_server)
    assert here.keys() == there.keys()
    assert max(abs(here[name] - there[name]) for name in here) <= 0.001
    # The two BM25s differ in how they round lengths and weigh frequent words: a language of 23 pages feels it alone.
    assert scores(on_server, "--hybrid")["all"] == pytest.approx(scores(embedded, "--hybrid")["all"], abs=0.005)


def test_status_calibrate_report_and_delete_work_on_it(on_server: Settings, elastic_url: str, tmp_path: Path) -> None:
    (status,) = run(on_server, "status", "-c", "demo")
    assert (status["documents"], status["trouble"], status["store"]) == (235, "", elastic_url)
    page = tmp_path / "report.html"
    require_done(["report", "-c", "demo", "-o", str(page), "--home", str(on_server.home)])
    assert page.stat().st_size > 10_000
    (made,) = run(on_server, "calibrate", "-c", "demo", "--balance", "0.5")
    assert made["balance"] == 0.5
    server, _, prefix = elastic_url.rpartition("/")
    with client_of(server) as client:
        assert client.indices.exists(index=f"{prefix}-demo")
        run(on_server, "delete", "--all", "-y", "-c", "demo")
        assert not client.indices.get(index=f"{prefix}*", expand_wildcards="all").body
