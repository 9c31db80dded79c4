"""What a report's pictures show: bias in a sample, shares by language pair, figures that name every language."""

import html
import re
from pathlib import Path

import numpy as np
import pytest

from encoders.printable import one_line
from query.evaluation.drawing import difference_figure, save_figure
from query.measures.significance import compare, corrected
from query.report import bias
from query.report.figures import inline_svg, languages_figure, pairs_figure
from query.report.language_pairs import FirstHits, PairTable, shares_by_pair


def test_neighbours_of_clusters_are_all_of_the_own_language_and_of_noise_as_many_as_chance_gives() -> None:
    around = 0.01 * np.random.default_rng(0).standard_normal((60, 16))
    vectors = np.asarray(np.repeat(np.eye(16)[:3], 20, axis=0) + around, dtype=np.float32)
    langs = np.repeat(["l0", "l1", "l2"], 20)
    assert bias.neighbour_share(vectors, langs) == 1.0
    assert bias.fair_share(langs) == pytest.approx(19 / 59)
    noise = np.random.default_rng(1).standard_normal((600, 16)).astype(np.float32)
    many = np.repeat(["a", "b", "c"], 200)
    assert bias.neighbour_share(noise, many) == pytest.approx(bias.fair_share(many), abs=0.03)


def test_the_projection_keeps_a_plane_as_it_is() -> None:
    plane = np.random.default_rng(0).standard_normal((30, 2))
    turned = (plane @ np.linalg.qr(np.random.default_rng(1).standard_normal((16, 2)))[0].T).astype(np.float32)
    flat = bias.projection(turned)
    between = np.linalg.norm(turned[:, None] - turned[None], axis=2)
    np.testing.assert_allclose(np.linalg.norm(flat[:, None] - flat[None], axis=2), between, atol=1e-5)
    assert np.isfinite(bias.projection(np.ones((5, 4), dtype=np.float32))).all()


def test_shares_of_first_hits_sum_to_one() -> None:
    hits = FirstHits(["de", "de", "en"], [["de", "en"], ["de", "de"], []])
    np.testing.assert_allclose(shares_by_pair(hits, ["de", "en"]).values, [[0.75, 0.25], [np.nan, np.nan]])
    assert hits.own_language(1) == pytest.approx(2 / 3)


@pytest.mark.parametrize("languages", [2, 10, pytest.param(42, marks=pytest.mark.parts)])
def test_pictures_name_every_language(languages: int) -> None:
    codes = [f"l{number}" for number in range(languages)]
    langs = np.repeat(codes, 3)
    points = np.random.default_rng(0).standard_normal((len(langs), 2)).astype(np.float32)
    panels = {"before": points, "after": points}
    tables = {title: PairTable(codes, codes, np.full((languages, languages), np.nan)) for title in panels}
    tables["after"] = PairTable(codes, codes, np.eye(languages))
    for svg in (
        inline_svg(lambda: languages_figure(panels, langs), "languages", "what it shows"),
        inline_svg(lambda: pairs_figure(tables, "MAP"), "pairs", "what it shows"),
    ):
        shown = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
        assert set(codes) <= set(shown)
        assert svg.startswith('<svg role="img" aria-label="what it shows"')
        assert "nan" not in shown


@pytest.mark.parametrize("qid", [r"$\frac{x$", "\u202egpj.exe", "a\x1bb", "<script>", "t" * 5_000])
def test_a_topic_may_be_named_as_it_likes(qid: str, tmp_path: Path) -> None:
    """matplotlib reads what stands between dollars as a formula, and a long name leaves the picture no room."""
    scores = {str(number): {"AP": number / 9} for number in range(9)}
    compared = compare("a", {qid: {"AP": 0.1}, **scores}, "b", {qid: {"AP": 0.9}, **scores}, ["AP"])
    (comparison,) = corrected(compared)
    svg = inline_svg(lambda: difference_figure([comparison]), "topics", qid)
    assert html.escape(one_line(qid), quote=False)[:20] in " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", svg))
    assert not re.search("[\x1b\u202e]|<script", svg)
    save_figure(difference_figure([comparison]), tmp_path / "figure.png")
