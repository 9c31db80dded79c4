"""The best hits in the order of a reranker, the same in a search and in an evaluation."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from encoders.console import Console
from encoders.document import Document
from encoders.folder.model_cache import model_cache
from encoders.folder.model_folder import ModelFolder
from encoders.inference.cross_encoder import Reranker
from indexer.collection.settings import Settings
from indexer.stores.contract import MissingDocuments
from onnx_export import models
from query.cli import run
from query.ranking.fair_ranker import FairRanker
from query.ranking.hit_reranker import read_text
from query.ranking.ranking_options import RankingOptions
from query.ranking.search_hits import RERANKED
from query.ranking.searcher import Searcher
from tests.conftest import Capture, Patch
from tests.encoders.gpus import Library, install_cards, install_provider
from tests.query.synthetic import calls_of
from trials import DEMO

QUERY = "Der Imker Karl von Frisch und die Bienen im Garten"


def opened(settings: Settings, reranker: ModelFolder, *, mates: bool = True) -> Searcher:
    """The demo, by a calibration of which mates count or do not."""
    searcher = Searcher.open("demo", settings, device="cpu", ranking=RankingOptions(rerank=str(reranker.path)))
    assert searcher.calibration
    return replace(searcher, calibration=replace(searcher.calibration, mates=mates))


@pytest.mark.parametrize("mates", [False, True])
def test_the_best_thirty_are_reranked_and_the_rest_stays(
    calibrated_by_words: Settings, reranker: ModelFolder, mates: bool
) -> None:
    """Mates take part in these scores, too."""
    with opened(calibrated_by_words, reranker, mates=mates) as searcher:
        fair = replace(searcher, reranker=None)
        base, reranked = (one.search(QUERY, lang="de", k=40, explain=True) for one in (fair, searcher))
        scores = Reranker(reranker, device="cpu").scores([(QUERY, read_text(hit)) for hit in base[:RERANKED]])
        (ranking,) = fair.rank([Document("q", "de", QUERY)], k=RERANKED)
        assert searcher.calibration
        expected = FairRanker(searcher.store, searcher.calibration).with_mates(ranking, scores, "de")
        assert np.array_equal(expected, scores) != mates
    order, ids = np.argsort(-expected, kind="stable"), [hit.doc_id for hit in base]
    assert [hit.doc_id for hit in reranked] == [*(ids[row] for row in order), *ids[RERANKED:]] != ids
    assert [hit.score for hit in reranked] == [hit.score for hit in base]
    shown = [hit.parts.reranked for hit in reranked if hit.parts]
    np.testing.assert_allclose(np.array(shown[:RERANKED], dtype=float), expected[order], rtol=1e-5)
    assert shown[RERANKED:] == [None] * 10
    assert reranked.reranking
    assert base.reranking is None


def test_mates_take_part_by_differences_of_scores(calibrated_by_words: Settings, reranker: ModelFolder) -> None:
    with opened(calibrated_by_words, reranker) as searcher:
        (ranking,) = replace(searcher, reranker=None).rank([Document("q", "de", QUERY)], k=RERANKED)
        scores = np.random.default_rng(1).normal(-4, 3, RERANKED).astype(np.float32)
        assert searcher.calibration
        counting = FairRanker(searcher.store, searcher.calibration)
        helped, shifted = (counting.with_mates(ranking, given, "de") for given in (scores, scores + 100))
    assert (helped != scores).any()
    np.testing.assert_allclose(shifted - 100, helped, atol=1e-4)


@pytest.mark.parametrize("k", [3, 60])
def test_an_evaluation_ranks_what_a_search_shows(k: int, calibrated_by_words: Settings, reranker: ModelFolder) -> None:
    """Without mates, which may have equal scores."""
    with opened(calibrated_by_words, reranker, mates=False) as searcher:
        hits = searcher.search(QUERY, lang="de", k=k)
        other, ranking = searcher.rank([Document("p", "de", "Sauerteig"), Document("q", "de", QUERY)], k=k)
    assert [hit.doc_id for hit in hits] == list(ranking.doc_ids)
    assert [hit.lang for hit in hits] == list(ranking.langs)
    assert len(other.doc_ids) == k


def test_what_is_deleted_is_left_out(calibrated_by_words: Settings, reranker: ModelFolder, monkeypatch: Patch) -> None:
    with opened(calibrated_by_words, reranker) as searcher:
        query = Document("q", "de", QUERY)
        (whole,) = replace(searcher, reranker=None).rank([query], k=RERANKED + 21)
        gone, read = whole.doc_ids[2], searcher.store.get

        def get(doc_ids: Sequence[str]) -> list[Document]:
            if gone in doc_ids:
                raise MissingDocuments([gone], {})
            return read(doc_ids)

        monkeypatch.setattr(searcher.store, "get", get)
        (ranking,) = searcher.rank([query], k=RERANKED + 20)
    assert gone not in ranking.doc_ids
    assert set(ranking.doc_ids) <= set(whole.doc_ids)


@pytest.mark.parametrize(("k", "stretches"), [(10, 1), (100, 2)])
def test_a_search_for_subjects_is_reranked_once(
    calibrated_by_words: Settings, reranker: ModelFolder, monkeypatch: Patch, k: int, stretches: int
) -> None:
    """The hits of the first stretch are about fewer than a hundred subjects, so more are ranked."""
    with opened(calibrated_by_words, reranker, mates=True) as searcher:
        scored = calls_of(monkeypatch, searcher.reranker, "scores")
        searches = calls_of(monkeypatch, searcher.store, "search")
        heads = searcher.search(QUERY, lang="de", k=k, subjects=True)
    assert 10 <= len(heads) <= k
    assert (len(searches), [len(hits) for _, hits in scored]) == (stretches, [RERANKED])
    assert heads.reranking


def test_the_reranker_reads_title_and_passage(calibrated_by_words: Settings) -> None:
    with Searcher.open("demo", calibrated_by_words, device="cpu") as searcher:
        hit = searcher.search(QUERY, lang="de", k=1)[0]
    assert hit.passage
    assert read_text(hit) == f"{hit.document.title}\n{hit.passage.text}"
    assert read_text(replace(hit, passage=None)) == hit.document.content
    assert read_text(replace(hit, document=replace(hit.document, title=""))) == hit.passage.text


def test_an_encoder_is_no_reranker_and_a_reranker_no_encoder(
    home: Settings, reranker: ModelFolder, word_model: ModelFolder, capsys: Capture
) -> None:
    source = str(DEMO / "docs.de.jsonl")
    for command, sentence in (
        (["search", QUERY, "-c", "demo", "--rerank", str(word_model.path)], "scores no pairs; --rerank takes a folder"),
        (["search", QUERY, "-c", "demo", "--rerank", "nowhere"], "there is no reranker 'nowhere'"),
        (["index", source, "-c", "new", "--encoder", str(reranker.path)], "is a reranker, which makes no vectors"),
    ):
        assert run(command) == 1
        assert sentence in capsys.readouterr().err


def test_commands_say_how_long_it_took(home: Settings, reranker: ModelFolder, capsys: Capture) -> None:
    options = ["-c", "demo", "--rerank", str(reranker.path)]
    assert run(["search", QUERY, "--lang", "de", *options, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reranking"]["seconds"] > 0
    assert run(["search", QUERY, "--lang", "de", *options, "--explain", "-k", "1"]) == 0
    said = capsys.readouterr()
    assert "reranking took" in said.err
    assert "the reranker gives" in " ".join(said.out.split())
    judged = ["--topics", str(DEMO / "topics.tsv"), "--qrels", str(DEMO / "qrels.txt"), "--langs", "de"]
    assert run(["evaluate", *judged, "--baseline", "none", *options, "--json"]) == 0
    evaluation = json.loads(capsys.readouterr().out)
    settings, build = evaluation["settings"], ("tokens", reranker.config.build_id)
    assert evaluation["tag"] == "words-fair-rerank-tokens"
    assert (settings["reranker"], settings["reranker_build"]) == build
    assert settings["reranking_seconds"] > 0
    assert run(["runs", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])["ranking"].endswith(", reranked by tokens")


def test_a_card_gets_the_reranker_s_build_for_cards(
    reranker: ModelFolder, tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    install_cards(monkeypatch, Library(["H100"]))
    sessions = install_provider(monkeypatch)
    monkeypatch.setattr("encoders.console._warned", set())
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path))
    builds: dict[str, Path] = {}
    for precision in ("int8", "fp16"):
        builds[precision] = model_cache() / f"mine-{precision}"
        shutil.copytree(reranker.path, builds[precision])
        config = builds[precision] / "config.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), "precision": precision}))
        if precision == "int8":
            models.open_reranker("mine-int8", Console(), "auto")
            assert "mine-int8 works on the CPU: it is in int8" in capsys.readouterr().err
    models.open_reranker("mine-int8", Console(), "auto")
    assert "works on the H100, in fp16" in capsys.readouterr().err
    asked = [(Path(graph).parent, len(providers)) for graph, providers in sessions.asked]
    assert asked == [(builds["int8"], 1), (builds["fp16"], 2)]
