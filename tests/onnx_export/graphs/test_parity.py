"""The gate: what it measures, where its bars are, and what it refuses."""

import json
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoders.console import Console
from encoders.document import FloatArray, unit_rows
from encoders.errors import BadInput
from encoders.folder.model_config import Precision
from encoders.folder.model_folder import ModelFolder
from encoders.languages import normalise
from onnx_export.graphs.parity import BARS, GateText, check_parity, compare, encode, read_texts, top_agreement
from onnx_export.graphs.publishing import require_parity

TEXTS = [GateText("en", "query" if at % 4 == 0 else "document", f"text {at}") for at in range(60)]


def vectors(seed: int = 0) -> FloatArray:
    return unit_rows(np.random.default_rng(seed).normal(size=(len(TEXTS), 32)).astype(np.float32))


def turned(rows: FloatArray, cosine: float) -> FloatArray:
    """Rows at this cosine from the given ones."""
    noise = np.random.default_rng(9).normal(size=rows.shape).astype(np.float32)
    across = unit_rows(noise - np.einsum("ij,ij->i", noise, rows)[:, None] * rows)
    return np.asarray(cosine * rows + np.sqrt(1 - cosine**2) * across, dtype=np.float32)


def test_the_gates_texts_are_queries_and_documents_in_twelve_languages() -> None:
    texts = read_texts()
    languages = {text.lang for text in texts}
    assert len(texts) >= 60
    assert len(languages) == 12
    assert len({text.text for text in texts}) == len(texts)
    for lang in languages:
        assert normalise(lang) == lang
        assert {text.role for text in texts if text.lang == lang} == {"query", "document"}


def test_equal_vectors_pass_every_bar_whatever_their_length() -> None:
    for precision in get_args(Precision):
        report = compare(precision, TEXTS, vectors() * 3, vectors())
        assert report.passed
        assert report.cosine_min == pytest.approx(1)
        assert report.top10_agreement == 1


@pytest.mark.parametrize("cosine", [0.9, 0.97, 0.995])
def test_the_cosine_reported_is_the_cosine_there_is(cosine: float) -> None:
    report = compare("int8", TEXTS, turned(vectors(), cosine), vectors())
    assert report.cosine_mean == pytest.approx(cosine, abs=1e-5)
    assert report.cosine_min == pytest.approx(cosine, abs=1e-5)


def test_one_bad_text_is_enough_and_is_named() -> None:
    spoilt = vectors()
    spoilt[17] *= -1
    report = compare("q4", TEXTS, spoilt, vectors())
    assert not report.passed
    assert report.worst == "text 17"
    assert report.shortfalls()[0] == "cosine_min -1.0000 < 0.95"


def test_bars_get_lower_with_the_bits() -> None:
    order = [BARS[precision] for precision in ("fp32", "fp16", "int8", "q4")]
    for name in ("cosine_min", "cosine_mean", "top10_agreement"):
        values = [getattr(bar, name) for bar in order]
        assert values == sorted(values, reverse=True)


@pytest.mark.parametrize(
    ("cosine", "passes"), [(0.99995, {"fp32", "fp16", "int8", "q4"}), (0.9996, {"fp16", "int8", "q4"})]
)
def test_a_distance_passes_where_its_bar_is_lower(cosine: float, passes: set[str]) -> None:
    moved = turned(vectors(), cosine)
    reports = {precision: compare(precision, TEXTS, moved, vectors()) for precision in get_args(Precision)}
    reached = {name for name, report in reports.items() if report.cosine_min >= report.bar.cosine_min}
    assert reached == passes


def test_vectors_that_are_not_numbers_are_refused_outright() -> None:
    broken = vectors()
    broken[3, 3] = np.nan
    with pytest.raises(BadInput, match=r"the fp16 graph overflows.*export with --precision fp32"):
        compare("fp16", TEXTS, broken, vectors())


def test_vectors_of_another_width_are_refused() -> None:
    with pytest.raises(BadInput, match=r"shape \(60, 16\), the model \(60, 32\)"):
        compare("fp32", TEXTS, vectors()[:, :16], vectors())


@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_agreement_is_the_overlap_of_the_two_rankings(seed: int, depth: int) -> None:
    rng = np.random.default_rng(seed)
    ours, theirs = (unit_rows(rng.normal(size=(30, 8)).astype(np.float32)) for _ in range(2))
    is_query = np.arange(30) % 3 == 0
    shares = []
    for query in np.flatnonzero(is_query):
        tops = []
        for rows in (ours, theirs):
            ranked = sorted(np.flatnonzero(~is_query), key=lambda document: -float(rows[query] @ rows[document]))
            tops.append(set(ranked[:depth]))
        shares.append(len(tops[0] & tops[1]) / depth)
    assert top_agreement(ours, theirs, is_query, depth) == pytest.approx(np.mean(shares))


def test_a_report_is_json_that_says_whether_it_passed_and_was_forced() -> None:
    report = replace(compare("int8", TEXTS, turned(vectors(), 0.5), vectors()), forced=True)
    stated = json.loads(json.dumps(report.as_json(), allow_nan=False))
    assert (stated["passed"], stated["forced"], stated["texts"]) == (False, True, 60)
    assert stated["bar"] == {"cosine_min": 0.97, "cosine_mean": 0.99, "top10_agreement": 0.8}
    assert [row[3] for row in report.rows()] == ["below", "below", "below"]


EITHER = pytest.mark.parametrize("name", ["small", pytest.param("default_folder", marks=pytest.mark.long)])


@EITHER
def test_the_gate_goes_the_way_of_every_other_command(name: str, request: pytest.FixtureRequest) -> None:
    texts, folder = read_texts(), request.getfixturevalue(name)
    reference = encode(folder, texts)
    assert check_parity(folder, texts, reference).cosine_min == pytest.approx(1, abs=1e-6)
    other_prefix = ModelFolder(folder.path, replace(folder.config, query_prefix=""))
    assert check_parity(other_prefix, texts, reference).cosine_min < 0.99


@EITHER
def test_a_text_longer_than_the_model_takes_is_cut(name: str, request: pytest.FixtureRequest) -> None:
    long = GateText("en", "document", "water " * 2000)
    assert np.isfinite(encode(request.getfixturevalue(name), [long])).all()


def test_the_table_is_shown_to_a_person_who_did_not_ask_for_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    report = compare("int8", TEXTS, vectors(), vectors())
    require_parity(report, "the graph", Console(), force=False)
    assert "the graph against torch" in capsys.readouterr().out
    require_parity(report, "the graph", Console(quiet=True), force=False)
    assert capsys.readouterr() == ("", "")
