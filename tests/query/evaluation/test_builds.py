"""The builds of the default encoder find the same: fp16, which cards run, and int8, which CPUs run."""

from pathlib import Path

import numpy as np
import pytest

from encoders.console import Console
from encoders.document import Document, Encoder
from encoders.machine.placement import Device, NoCuda, place
from encoders.methods.method_registry import open_encoder
from onnx_export.graphs import device_check
from onnx_export.graphs.device_check import check_device
from onnx_export.graphs.parity import read_texts
from onnx_export.models import default_folder as default_build
from query.measures.quality_measures import parse_measures, score
from query.trec_files.qrels import read_qrels
from query.trec_files.topics import read_topics
from query.trec_files.trec_run import Run
from tests.conftest import read_documents

LANGS = ("de", "ja")


def mean_average_precision(data: Path, collection: str, kind: str, documents_by: Encoder, queries_by: Encoder) -> float:
    """MAP of English topics over both languages' documents, by plain cosine."""
    folder = data / collection
    documents = [item for lang in LANGS for item in read_documents(folder / f"docs.{lang}.jsonl.gz", 10_000)]
    ids = {item.doc_id for item in documents}
    qrels = [qrel for qrel in read_qrels([folder / f"qrels.{kind}.{lang}.txt" for lang in LANGS]) if qrel.doc_id in ids]
    judged = {qrel.query_id for qrel in qrels}
    topics = [
        topic for topic in read_topics(folder / f"topics.{kind}.tsv") if topic.lang == "en" and topic.qid in judged
    ]
    queries = queries_by.encode_queries([Document(topic.qid, "en", topic.text()) for topic in topics])
    cosines = queries @ documents_by.encode_documents(documents).vectors.T
    rankings = {
        topic.qid: [(documents[row].doc_id, float(of_topic[row])) for row in np.argsort(-of_topic, kind="stable")]
        for topic, of_topic in zip(topics, cosines, strict=True)
    }
    assert len(topics) > 50
    return score(Run("cosine", rankings), qrels, parse_measures(["AP"]), list(rankings)).means["AP"]


def assert_same_map(data: Path, device: Device) -> None:
    """Documents of the fp16 build on a device, and of the int8 build on the CPU, are found alike by int8 queries.

    Of all pages: of 200 a language the difference has a standard error of .004, of all .002.
    """
    on_cpu = open_encoder(default_build(Console(quiet=True), "int8"), device="cpu")
    on_device = open_encoder(default_build(Console(quiet=True), "fp16"), device=device)
    for collection, kind in (("lohelp", "index"), ("ntrex", "headline")):
        exact, half = (mean_average_precision(data, collection, kind, by, on_cpu) for by in (on_cpu, on_device))
        print(f"{collection}: MAP {exact:.4f} of int8 documents, {half:.4f} of fp16 documents")
        assert abs(half - exact) < 0.005, collection
        assert exact > 0.2


@pytest.mark.data
@pytest.mark.long
def test_documents_of_both_builds_are_found_alike(data_dir: Path) -> None:
    """On the CPU the fp16 build has half weights and float32 sums; what half sums do, a card must show."""
    assert_same_map(data_dir, "cpu")


@pytest.fixture
def card() -> Device:
    try:
        return place("cuda").device
    except NoCuda as error:
        pytest.skip(f"needs an NVIDIA GPU: {error.reason}")


@pytest.mark.gpu
def test_a_card_computes_the_whole_graph_and_agrees_with_the_cpu(card: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_check, "_SECONDS", 0.1)
    check = check_device(default_build(Console(quiet=True), "fp16"), place(card), read_texts())
    assert check.strays == []
    assert check.parity is not None
    assert check.parity.cosine_min > 0.999
    assert check.passed


@pytest.mark.gpu
@pytest.mark.data
def test_documents_of_a_card_are_found_as_those_of_the_cpu(card: Device, data_dir: Path) -> None:
    assert_same_map(data_dir, card)
