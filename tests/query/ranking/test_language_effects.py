"""What a reranker favours languages by is measured against the fair ranking, and nothing else is taken from it."""

from __future__ import annotations

import numpy as np

from query.ranking.language_effects import RIDGE, LanguageEffects, Pool

LANGS = ("de", "en", "ja")
FAVOUR = {"de": 1.0, "en": 0.5, "ja": -1.5}
OWN = 2.0


def pools(count: int, *, noise: float = 0.1, slope: float = 3.0) -> list[Pool]:
    """Hits whose scores are the fair ones, times ``slope``, and a language's favour; each query has a level."""
    random = np.random.default_rng(0)
    made = []
    for number in range(count):
        lang = LANGS[number % 3]
        langs = [LANGS[draw] for draw in random.integers(0, 3, 30)]
        fair = np.sort(random.normal(1, 0.3, 30))[::-1].astype(np.float32)
        favours = [FAVOUR[of_hit] + OWN * (of_hit == lang) for of_hit in langs]
        scores = random.normal(0, 5) + slope * fair + favours + random.normal(0, noise, 30)
        made.append(Pool(lang, langs, fair, scores.astype(np.float32)))
    return made


def test_what_was_put_in_is_found_out() -> None:
    effects = LanguageEffects.fitted(pools(400))
    level = np.mean([effects.by_language[lang] - FAVOUR[lang] for lang in LANGS])
    for lang in LANGS:
        assert abs(effects.by_language[lang] - level - FAVOUR[lang]) < 0.05
    assert abs(effects.own - OWN) < 0.05
    np.testing.assert_allclose(
        effects.of("de", ["de", "ja", "xx"]),
        [effects.by_language["de"] + effects.own, effects.by_language["ja"], 0],
        rtol=1e-6,
    )


def test_it_is_the_ridge_regression_of_the_formula() -> None:
    """The same least squares with a column for each query's level, and the ridge as rows of their own."""
    given = pools(9, noise=1.0)
    rows, targets = [], []
    for number, pool in enumerate(given):
        for lang, fair, score in zip(pool.langs, pool.fair, pool.scores, strict=True):
            level = np.eye(len(given))[number]
            rows.append([*(lang == one for one in LANGS), lang == pool.lang, fair, *level])
            targets.append(score)
    for column in range(4):
        rows.append(list(np.sqrt(RIDGE) * np.eye(5 + len(given))[column]))
        targets.append(0)
    expected = np.linalg.lstsq(np.array(rows, dtype=float), np.array(targets, dtype=float), rcond=None)[0]
    effects = LanguageEffects.fitted(given)
    np.testing.assert_allclose([*effects.by_language.values(), effects.own], expected[:4], atol=1e-5)


def test_a_reranker_that_agrees_with_the_fair_ranking_favours_nobody() -> None:
    agreeing = [Pool(pool.lang, pool.langs, pool.fair, 7 * pool.fair - 2) for pool in pools(60)]
    effects = LanguageEffects.fitted(agreeing)
    assert max(map(abs, [*effects.by_language.values(), effects.own])) < 1e-3


def test_a_language_with_few_hits_has_a_small_effect() -> None:
    once = Pool("de", ["de", "en", "fi"], np.ones(3, np.float32), np.array([0, 0, 9], np.float32))
    effects = LanguageEffects.fitted([*pools(60, noise=0.0), once])
    assert 0 < effects.by_language["fi"] - np.mean(list(effects.by_language.values())) < 3
