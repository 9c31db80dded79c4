"""Cross-encoders of BERT and XLM-R shape: the graph scores pairs as transformers does."""

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from encoders.document import FloatArray, unit_rows
from encoders.errors import BadInput
from encoders.folder.model_config import ModelConfig, Precision
from encoders.folder.model_folder import ModelFolder, publishing
from encoders.inference.cross_encoder import Pair, Reranker
from onnx_export.graphs.parity import compare_scores, read_texts
from onnx_export.huggingface import source_reranker as rerankers
from onnx_export.huggingface.hub_export import write_files
from onnx_export.huggingface.hub_layout import read_layout
from tests.onnx_export.conftest import POSITIONS, save_reranker

pytestmark = pytest.mark.torch

PAIRS: list[Pair] = [
    ("How long should bread dough rise?", "A slow rise overnight gives the bread more flavour."),
    ("warning signs", ""),
    ("", "Der Teig ruht."),
    ("vulcano", "Il vulcano " * 100),
    ("volcano " * 100, "The mountain."),
]


def saved(folder: Path, shape: str, labels: int = 1) -> Path:
    return save_reranker(folder / f"{shape}-{labels}", shape, labels=labels)


def by_transformers(folder: Path, pairs: list[Pair]) -> FloatArray:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    queries, passages = map(list, zip(*pairs, strict=True))
    batch = tokenizer(queries, passages, truncation=True, max_length=POSITIONS, padding=True, return_tensors="pt")
    if model.config.type_vocab_size < 2:
        batch.pop("token_type_ids", None)
    with torch.no_grad():
        logits = model(**batch).logits.numpy()
    scores: FloatArray = logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]
    return scores


def exported(source: Path, target: Path, precision: Precision = "fp32") -> Reranker:
    loaded = rerankers.load(read_layout(source))
    tokens = loaded.source.max_tokens
    config = ModelConfig("tiny", 1, tokens, "cross-encoder", "", "", (), precision, "weights", "", "")
    with publishing(target, config) as draft:
        write_files(loaded.source, draft, precision)
    return Reranker(ModelFolder.open(target), device="cpu")


@pytest.mark.parametrize(("shape", "labels"), [("xlm-r", 1), ("bert", 2)])
def test_a_graph_scores_pairs_as_transformers_does(shape: str, labels: int, tmp_path: Path) -> None:
    source = saved(tmp_path, shape, labels)
    reranker = exported(source, tmp_path / "made")
    expected = by_transformers(source, PAIRS)
    assert np.ptp(expected) > 1e-3
    np.testing.assert_allclose(reranker.scores(PAIRS), expected, atol=2e-5)
    loaded = rerankers.load(read_layout(source))
    np.testing.assert_allclose(rerankers.reference_scores(loaded, PAIRS), expected, atol=2e-5)
    assert (loaded.typed, reranker.scores([]).shape) == (shape == "bert", (0,))


@pytest.mark.parametrize("labels", [1, 2])
@pytest.mark.parametrize(("precision", "bound"), [("fp16", 0.01), ("int8", 0.2), ("q4", 0.5)])
def test_other_precisions_score_alike(precision: Precision, bound: float, labels: int, tmp_path: Path) -> None:
    source = saved(tmp_path, "bert", labels)
    scores = exported(source, tmp_path / "made", precision).scores(PAIRS)
    assert np.abs(scores - by_transformers(source, PAIRS)).max() < bound


def test_a_separator_in_a_text_does_not_end_the_query_and_to_have_none_is_refused(tmp_path: Path) -> None:
    reranker = exported(saved(tmp_path, "bert"), tmp_path / "made")
    (row,) = reranker.token_rows([("what is [SEP] in a tokenizer", "a token")])
    assert (row == 3).sum() == 2
    with pytest.raises(BadInput, match="puts nothing between query and passage"):
        rerankers.load(read_layout(save_reranker(tmp_path / "unpaired", paired=False)))
    with pytest.raises(BadInput, match=r"has 3 labels, and a reranker has one, or two .* --pooling mean exports"):
        rerankers.load(read_layout(saved(tmp_path, "bert", 3)))


def test_the_gate_compares_each_querys_scores_and_its_ten_best() -> None:
    texts = [text for text in read_texts() if text.lang in {"de", "en"}]
    random = np.random.default_rng(0)
    reference = random.normal(3, 2, (4, 40)).astype(np.float32)
    queries = [text for text in texts if text.role == "query"]
    assert len(queries) == len(reference)
    same = compare_scores("fp32", texts, reference, reference)
    assert (same.texts, same.passed, round(same.top10_agreement, 6)) == (4, True, 1.0)
    noisy = reference + random.normal(0, 1, reference.shape).astype(np.float32)
    report = compare_scores("fp32", texts, noisy, reference)
    centre = reference.mean()
    cosines = (unit_rows(noisy - centre) * unit_rows(reference - centre)).sum(axis=1)
    assert report.cosine_min == pytest.approx(cosines.min(), abs=1e-5)
    assert report.cosine_mean == pytest.approx(cosines.mean(), abs=1e-5)
    assert report.worst == queries[int(cosines.argmin())].text
    best = ([set(row[:10]) for row in np.argsort(-scores)] for scores in (noisy, reference))
    shares = [len(ours & theirs) / 10 for ours, theirs in zip(*best, strict=True)]
    assert report.top10_agreement == pytest.approx(np.mean(shares))
    with pytest.raises(BadInput, match="overflows"):
        compare_scores("fp16", texts, np.full_like(reference, np.nan), reference)
