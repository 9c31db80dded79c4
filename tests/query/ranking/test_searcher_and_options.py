"""One call finds documents in every language, ranked as a person wants."""

import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from encoders.document import Document, Passages
from encoders.errors import BadInput, ModelMismatch, StoreError
from encoders.methods.vector_parts import VectorParts
from indexer.collection import collection as collections
from indexer.collection.settings import Settings
from indexer.ledger.database import connect, transaction
from indexer.stores.contract import VectorStore
from query.calibration.calibration import NONE
from query.calibration_fitting.language_statistics import fit_statistics
from query.ranking.ranking_options import RankingOptions
from query.ranking.search_hits import Detail, ScoreParts, best_passages
from query.ranking.searcher import Searcher
from query.ranking.searcher_opening import target_languages
from tests.query.calibration.test_calibration import samples
from tests.query.conftest import copied
from tests.query.ranking.same_ranking import assert_same_hits
from trials import ROOT


@pytest.fixture(scope="module")
def searcher(demo: Settings) -> Iterator[Searcher]:
    with Searcher.open("demo", demo, device="cpu") as opened:
        yield opened


def test_hits_are_ranked_and_carry_the_passage_that_matches(searcher: Searcher) -> None:
    query = Document("q", "de", "Wie backe ich Brot ohne gekaufte Hefe?")
    hits, (ranking,) = searcher.search(query.text, lang="de", k=12), searcher.rank([query], k=12)
    assert len(hits) == 12
    assert [hit.doc_id for hit in hits] == list(ranking.doc_ids)
    assert [hit.lang for hit in hits] == list(ranking.langs)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    for hit in hits:
        assert hit.passage is not None
        assert hit.document.content[hit.passage.start : hit.passage.end] == hit.passage.text
        assert hit.passage.text
        assert -1 <= hit.cosine <= 1.0001
    assert hits[0].document.fields["concept"] == "sourdough"
    digital = searcher.search("bread", lang="en", filters={"label": "digital"}, k=50)
    assert {hit.document.fields["label"] for hit in digital} == {"digital"}


@pytest.mark.parametrize(
    ("lang", "text", "window", "shown"),
    [
        ("ru", "Раньше обходились без жидкостного охлаждения и шума", "ились без жидкостного охла", (0, 51)),
        ("de", "Er kam. Sie fand es, im Garten. Gut.", "fand es, im Gart", (8, 31)),
        ("de", "Sie fand ihn. Er kam spät am Abend.", "ihn. Er kam spät am Abend.", (14, 35)),
        ("ja", "家庭用太陽光発電の費用", "太陽光", (0, 11)),
        ("en", f"{'so ' * 80}see it{' so' * 80}", "e it", (240, 438)),
    ],
)
def test_a_passage_has_whole_sentences_or_words(lang: str, text: str, window: str, shown: tuple[int, int]) -> None:
    start = text.index(window)
    passages = Passages(np.ones((1, 4), np.int8), np.array([[start, start + len(window)]], np.int32))
    parts = ScoreParts(1, 1, None, None, None, 1, None, None, 1, None, None, None)
    document, detail = Document("d", lang, text), Detail("d", parts, passages, np.ones(1, np.float32))
    (passage,) = best_passages(document, detail, np.ones(4, np.float32), VectorParts.equal(4), 1)
    assert (passage.start, passage.end) == shown
    assert passage.text == document.content[slice(*shown)]


def test_asking_all_languages_is_asking_each_and_merging(searcher: Searcher) -> None:
    everything, *apart = (
        searcher.rank([Document("q", "en", "coffee")], k=20, to=to)[0]
        for to in (None, *([lang] for lang in searcher.languages))
    )
    merged = sorted((-score, doc_id) for one in apart for doc_id, score in zip(one.doc_ids, one.scores, strict=True))
    assert [doc_id for _, doc_id in merged[:20]] == list(everything.doc_ids)


def test_a_collection_of_another_model_is_refused_at_the_door(demo: Settings, tmp_path: Path) -> None:
    settings = copied(demo.home, tmp_path)
    with transaction(connect(settings.database)) as session:
        session.get_one(collections.Collection, "demo").model = "0000"
    with pytest.raises(ModelMismatch, match=r"collection demo holds vectors of .* \(model 0000\).* is model"):
        Searcher.open("demo", settings, device="cpu")


def test_the_hits_tell_the_language_of_the_query(searcher: Searcher) -> None:
    """It is detected among those of the collection, or stated."""
    detected = searcher.search("ما هو أفضل وقت لزيارة الطبيب", k=2)
    assert detected.lang == "ar"
    assert 0.9 < (detected.confidence or 0) <= 1
    for text, lang in (("家庭用太陽光発電の費用", "ja"), ("lune", "und"), ("pain", "und"), ("Wetter in Ägypten", "de")):
        assert searcher.search(text, k=1).lang == lang, searcher.detect(text)
    stated = searcher.search("kahvi", lang="fin", k=np.int64(2), subjects=True)  # type: ignore[arg-type]
    assert (stated.lang, stated.confidence, len(stated)) == ("fi", None, 2)


def test_what_can_not_be_searched_for_is_refused(searcher: Searcher) -> None:
    none: list[tuple[str, dict[str, Any], str]] = [
        *((text, {}, "the query is empty") for text in ("", "  \n")),
        ("coffee", {"to": ["fi"]}, "no documents in 'fi'; it has ar, de, en"),
        ("coffee", {"to": "de,fr"}, "to is the string 'de,fr'; give a list of languages: to=['de', 'fr']"),
        *(("coffee", wrong, "is no language code") for wrong in ({"to": [None]}, {"lang": 5}, {"lang": ["de"]})),
        *(("coffee", {"filters": half}, "half of a surrogate") for half in ({"label": "\ud800"}, {"\ud800": 1})),
        ("coffee", {"facets": ["\ud800"]}, "facets has half of a surrogate pair"),
        *(("coffee", {"k": k}, f"k is {k}; ask for one hit or more") for k in (0, -1)),
    ]
    for text, options, said in none:
        with pytest.raises(BadInput, match=re.escape(said)):
            searcher.search(text, **options)
    with pytest.raises(BadInput, match="k is 0"):
        searcher.rank([Document("q", "en", "coffee")], k=0)
    assert len(searcher.search("earthquake " * 10_000, lang="en", k=3)) == 3


def test_a_closed_searcher_says_so_and_so_do_those_of_the_same_store(calibrated_by_words: Settings) -> None:
    searcher = Searcher.open("demo", calibrated_by_words, device="cpu")
    plain = replace(searcher, calibration=None, ranking=RankingOptions())
    for _ in range(2):
        searcher.close()
    for closed in (searcher, plain):
        with pytest.raises(StoreError, match=r"collection demo is closed; open another: Searcher.open\('demo'\)"):
            closed.search("coffee")
        with pytest.raises(StoreError, match="is closed"):
            closed.rank([Document("q", "en", "coffee")])


_FORKS = """
import os, sys
from encoders.errors import StoreError
from indexer.collection.settings import Settings
from query.ranking.searcher import Document, Searcher
searcher = Searcher.open("demo", settings := Settings.read(home=sys.argv[1]), device="cpu")
assert searcher.search("coffee", k=1)
if not os.fork():
    for ask in searcher.search, lambda text: searcher.encoder.encode_queries([Document("", "en", text)]):
        try:
            ask("coffee")
        except StoreError as error:
            print(error)
    print(len(Searcher.open("demo", settings, device="cpu").search("coffee", k=3)))
    searcher.close()
    sys.exit()
assert os.wait()[1] == 0
print(len(searcher.search("coffee", k=4)))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_after_a_fork_a_searcher_says_so_at_once_and_another_can_be_opened(demo: Settings) -> None:
    program = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _FORKS, str(demo.home)]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    refusal, encoders, *hits = done.stdout.splitlines()
    assert "by another process, before a fork; in each process open another: Searcher.open('demo')" in refusal
    assert (encoders[:12], hits) == ("this encoder", ["3", "4"])


def test_the_calibrations_balance_is_taken_unless_one_is_stated() -> None:
    """Plain cosine has none."""
    calibration = replace(fit_statistics(samples({"de": 40}), "m"), balance=0.6)
    options = RankingOptions(hybrid=True, rerank="folder")
    assert options.of("c", calibration) == replace(options, balance=0.6)
    assert options.of("c", None) == options
    for stated in (0.0, 0.3):
        options = RankingOptions(balance=stated, hybrid=True)
        assert options.of("c", calibration) == options
        with pytest.raises(BadInput, match="c is searched without; make one: dragoman calibrate -c c"):
            options.of("c", None)
        with pytest.raises(BadInput, match="plain cosine has no balance"):
            RankingOptions(calibration="none", balance=stated)
    for outside in (-0.1, 1.5, 2, float("nan"), float("inf")):
        with pytest.raises(BadInput, match="balance goes from 0"):
            RankingOptions(balance=outside)


def test_a_searcher_has_a_balance_and_a_search_may_have_another(calibrated_by_words: Settings) -> None:
    def opened(options: RankingOptions) -> Searcher:
        return Searcher.open("demo", calibrated_by_words, device="cpu", ranking=options)

    def scores(searcher: Searcher, ranking: RankingOptions | None = None) -> list[float]:
        return [hit.score for hit in searcher.search("Bienen im Garten", lang="de", k=20, ranking=ranking)]

    with opened(RankingOptions()) as searcher:
        assert searcher.calibration is not None
        assert searcher.ranking == RankingOptions(balance=searcher.calibration.balance)
        assert searcher.describe()["balance"] == searcher.calibration.balance
        usual = scores(searcher)
        assert scores(searcher, RankingOptions()) == usual != scores(searcher, RankingOptions(balance=0.0))
        assert scores(searcher) == usual
    with opened(RankingOptions(calibration="none")) as plain:
        assert (plain.calibration, plain.ranking.balance) == (None, None)
        with pytest.raises(BadInput, match="a balance needs a calibration"):
            scores(plain, RankingOptions(balance=0.5))
    with opened(RankingOptions(balance=0.3)) as stated:
        assert stated.ranking.balance == 0.3
        assert scores(stated) != usual


def test_the_rankers_that_were_used_last_are_kept(calibrated_by_words: Settings) -> None:
    """Each has its corrected banks; many balances must not keep them all."""
    with Searcher.open("demo", calibrated_by_words, device="cpu") as searcher:
        searcher.search("Bienen", lang="de")
        (usual,) = searcher._rankers.values()
        for percent in range(0, 100, 4):
            searcher.search("Bienen", lang="de", k=1, ranking=RankingOptions(balance=percent / 100))
            searcher.search("Bienen", lang="de", k=1)
        assert usual in searcher._rankers.values()
        assert len(searcher._rankers) < 20


def test_a_language_that_is_not_there_stands_for_its_other_scripts() -> None:
    assert target_languages("c", ["de", "sr-Latn", "zh", "zh-Hant"], ["sr", "zh-CN", "de"]) == ["sr-Latn", "zh", "de"]
    assert target_languages("c", ["de", "zh-Hant"], ["zh"]) == ["zh-Hant"]
    with pytest.raises(BadInput, match=r"no language|no documents in"):
        target_languages("c", ["de-Latn"], ["d"])


class Away:
    """A file's store as a server's, which reads texts with passages; the names of what is asked for are listed."""

    shown_place, narrowed, originals, require_visible = list, list, list, list  # as ``OnServer`` has them

    def __init__(self, store: VectorStore) -> None:
        self.store, self.asked = store, list[str]()

    def passages_and_texts(self, model: str, doc_ids: Sequence[str], texts_of: Collection[str]) -> Any:
        self.asked.append("passages_and_texts")
        return self.store.passages(model, doc_ids), dict(zip(texts_of, self.store.get(list(texts_of)), strict=True))

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.store, name)

        def noted(*arguments: Any) -> Any:
            self.asked.append(name)
            return value(*arguments)

        return noted if callable(value) else value


@pytest.mark.parametrize("ranking", [RankingOptions(), RankingOptions(calibration=NONE)])
@pytest.mark.parametrize("subjects", [True, False])
def test_a_search_asks_a_store_for_candidates_and_once_more(
    calibrated: Settings, ranking: RankingOptions, subjects: bool
) -> None:
    """Subjects are made of vectors and texts that the ranking has read."""
    with Searcher.open("demo", calibrated, device="cpu", ranking=ranking) as searcher:
        alone = searcher.search("Bienen im Garten", lang="de", subjects=subjects)
        server = Away(searcher.store)
        asking = replace(searcher, store=cast("VectorStore", server))
        assert_same_hits(asking.search("Bienen im Garten", lang="de", subjects=subjects), alone)
    assert server.asked == ["search", "passages_and_texts"]
