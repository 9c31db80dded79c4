"""NCA rescores candidates: found as without maps, they are compared through the network of both languages."""

import json
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from encoders.document import FloatArray, unit_rows
from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder
from encoders.maps.networks import Networks, read_mapping
from indexer.collection.settings import Settings
from indexer.training.mapping_training import write
from query.calibration.calibration import Calibration
from query.calibration.comparison_space import MappedSpace
from query.cli import run
from query.ranking.fair_ranker import FairRanker
from query.ranking.searcher import Searcher
from tests.query.calibration.test_mapped_space import CENTRED, LANGS, collection
from tests.query.conftest import copied
from tests.query.synthetic import DIM, page
from trials import DEMO

pytestmark = pytest.mark.torch


def rows(lang: str) -> FloatArray:
    """(80, dim) unit vectors of concepts in a language, around a mean of its own."""
    chance = np.random.default_rng([LANGS.index(lang), 7])
    concepts = np.random.default_rng(0).standard_normal((80, DIM))
    return unit_rows(np.asarray(concepts + 8 * chance.standard_normal(DIM) / DIM**0.5 + 2, dtype=np.float32))


@pytest.fixture(scope="module")
def networks() -> Networks:
    """Between German and English only, of a trained network's form: no network knows French."""
    from onnx_export.nca_export import build_graph

    graphs = {
        (source, target): build_graph(
            {
                name: np.random.default_rng([number, at]).standard_normal(shape, dtype=np.float32) / 8
                for at, (name, shape) in enumerate(SHAPES.items())
            },
            rows(source).mean(axis=0),
            0.1,
            0.1,
        )
        for number, (source, target) in enumerate(permutations(("de", "en"), 2))
    }
    means = {lang: rows(lang).mean(axis=0) for lang in ("de", "en")}
    return Networks("topics", graphs, means, {"method": "nca", "languages": ["de", "en"]})


SHAPES = {"0.weight": (9, DIM), "0.bias": (9,), "2.weight": (DIM, 9), "2.bias": (DIM,)}


def by_hand(networks: Networks, lang: str, query_lang: str, left: FloatArray) -> FloatArray:
    """Centred rows as the graph of the two languages maps them, given the lengths that training rows had."""
    if (lang, query_lang) not in networks.graphs:
        return unit_rows(left)
    taught = rows(lang)
    lengths = np.sqrt(np.mean(np.sum((taught - taught.mean(axis=0)) ** 2, axis=1)))
    graph = networks._network(lang, query_lang)
    return unit_rows(graph.transform(unit_rows(left) * lengths + taught.mean(axis=0)))


@pytest.mark.parametrize("query_lang", ["de", "fr"])
def test_documents_are_compared_through_the_network_of_their_language_and_the_querys(
    tmp_path: Path, networks: Networks, query_lang: str
) -> None:
    store, statistics, encoder = collection(tmp_path)
    query = encoder.encode_queries([page(query_lang, "topic7")])
    ranker = CENTRED(store, replace(statistics, space=MappedSpace(networks)))
    (ranking,) = ranker.rank(query, query_lang, LANGS, 90)
    asked = unit_rows(query - statistics.mean("query", query_lang))[0]
    expected = {}
    for lang in LANGS:
        for items in store.scan("topics", lang=lang):
            left = np.stack([item.vector for item in items]) - statistics.mean("document", lang)
            for item, vector in zip(items, by_hand(networks, lang, query_lang, left), strict=True):
                expected[item.document.doc_id] = float(vector @ asked)
    found = dict(zip(ranking.doc_ids, ranking.scores.tolist(), strict=True))
    assert found.keys() == expected.keys()
    assert max(abs(found[doc_id] - expected[doc_id]) for doc_id in found) < 1e-5


def test_passages_are_compared_through_it_too(tmp_path: Path, networks: Networks) -> None:
    store, statistics, encoder = collection(tmp_path)
    query = encoder.encode_queries([page("de", "topic7")])
    ranker = FairRanker(store, replace(statistics, space=MappedSpace(networks)), 0.5)
    (ranking,) = ranker.rank(query, "de", ["en"], 5, detailed=True)
    asked = unit_rows(query - statistics.mean("query", "de"))[0]
    for doc_id, detail in zip(ranking.doc_ids, ranking.details_of(ranking.doc_ids), strict=True):
        (stored,) = store.passages("topics", [doc_id])
        left = unit_rows(stored.vectors) - statistics.mean("passage", "en")
        assert detail.parts.passage == pytest.approx(
            float((by_hand(networks, "en", "de", left) @ asked).max()), abs=1e-5
        )


def test_candidates_are_those_that_are_found_without_networks(tmp_path: Path, networks: Networks) -> None:
    """A hundred and fifty of 160: which ten are left out, no network decides."""
    store, statistics, encoder = collection(tmp_path, 160)
    query = encoder.encode_queries([page("de", "topic7")])
    plain, found = (
        CENTRED(store, one).rank(query, "de", ["en"], 150)[0]
        for one in (statistics, replace(statistics, space=MappedSpace(networks)))
    )
    assert len(found.doc_ids) == 150
    assert set(found.doc_ids) == set(plain.doc_ids)
    assert found.doc_ids != plain.doc_ids


def test_the_artifact_with_its_networks_survives_writing_and_its_id_depends_on_them(
    tmp_path: Path, networks: Networks
) -> None:
    store, statistics, encoder = collection(tmp_path)
    made = replace(statistics, space=MappedSpace(networks))
    read = Calibration.from_bytes(made.to_bytes())
    assert read.id == made.id != statistics.id
    maps = read.space.maps_of_documents
    assert isinstance(maps, Networks)
    assert [lang for lang in LANGS if maps.knows(lang)] == ["de", "en"]
    query = encoder.encode_queries([page("de", "topic7")])
    before, after = (CENTRED(store, one).rank(query, "de", LANGS, 20)[0] for one in (made, read))
    assert before.doc_ids == after.doc_ids


def test_a_graph_that_cannot_be_loaded_is_refused_before_it_is_ranked_with(tmp_path: Path, networks: Networks) -> None:
    write(networks, tmp_path / "m")
    (tmp_path / "m" / "nca" / "de-en.onnx").write_bytes(b"no graph")
    with pytest.raises(BadInput, match="the network can't be loaded"):
        read_mapping(tmp_path / "m")


def test_networks_of_another_version_are_refused(tmp_path: Path, networks: Networks) -> None:
    write(networks, tmp_path / "m")
    header = tmp_path / "m" / "mapping.json"
    header.write_text(json.dumps(json.loads(header.read_text()) | {"format": 99}))
    with pytest.raises(BadInput, match="is of another version; make it again: dragoman train mapping --method nca"):
        read_mapping(tmp_path / "m")


@pytest.mark.torch
def test_networks_are_learnt_ranked_with_and_left_again(
    calibrated_by_words: Settings,
    word_model: ModelFolder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = copied(calibrated_by_words.home, tmp_path)
    monkeypatch.setenv("DRAGOMAN_HOME", str(settings.home))
    folder = str(tmp_path / "networks")
    sources = [str(DEMO / f"docs.{lang}.jsonl") for lang in ("en", "de")]
    learn = ["train", "mapping", *sources, "--method", "nca", "--encoder", str(word_model.path), "-o", folder]
    assert run([*learn, "--device", "cpu"]) == 0
    assert "use it: dragoman calibrate -c NAME --map" in capsys.readouterr().err

    def scores() -> tuple[Calibration | None, dict[str, float]]:
        with Searcher.open("demo", settings, device="cpu") as searcher:
            hits = searcher.search("Bienen im Garten", lang="de", k=20)
            return searcher.calibration, {hit.doc_id: hit.score for hit in hits}

    before, plain = scores()
    assert before is not None
    assert run(["calibrate", "-c", "demo", "--map", folder, "--balance", f"{before.balance:g}", "-q"]) == 0
    assert "the maps know nothing of ar, es, fr, ja, pt, ru, tr, zh: ranked as without maps" in capsys.readouterr().err
    mapped, found = scores()
    assert mapped is not None
    assert isinstance(mapped.space.maps_of_documents, Networks)
    assert found != plain
    assert run(["calibrate", "-c", "demo", "-q"]) == 0
    assert "the previous calibration ranked with maps" in capsys.readouterr().err
    assert run(["calibrate", "-c", "demo", "--use", before.id, "-q"]) == 0
    assert scores()[1] == plain
