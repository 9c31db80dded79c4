"""Topics × collection → runs and scores, with a store and a searcher as they are used, and an encoder of words."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from ir_measures import Qrel

from encoders.document import Document, Encoded, EncoderSpec, FloatArray, Passages, unit_rows
from encoders.errors import BadInput
from indexer.stores.contract import StoredDocument
from indexer.stores.embedded import EmbeddedStore
from indexer.text.language_detection import Detector
from query.evaluation.foreign_scores import score_foreign
from query.evaluation.scored_runs import EvaluationPlan, Judgements
from query.evaluation.topic_ranking import rank_and_score
from query.lexical_baselines.lexicons import Lexicons
from query.measures.quality_measures import parse_measures
from query.ranking.searcher import Searcher
from query.trec_files.topic_set import by_language
from query.trec_files.topics import Topic
from query.trec_files.trec_run import Run, unpack

DOCUMENTS = [
    Document("en:flood", "en", "flood elbe river water"),
    Document("en:train", "en", "train rail crash"),
    Document("en:music", "en", "music opera"),
    Document("de:flood", "de", "hochwasser elbe wasser"),
    Document("de:train", "de", "zug unglück schiene"),
    Document("de:music", "de", "oper theater"),
    Document("fi:flood", "fi", "tulva elbe vesi"),
]
TOPICS = [
    Topic("1", "en", "flood elbe", "water"),
    Topic("2", "en", "train crash"),
    Topic("1", "de", "hochwasser elbe"),
    Topic("2", "de", "zug unglück"),
    Topic("3", "de", "oper"),
]
QRELS = [
    *(Qrel("1", f"{lang}:flood", 1) for lang in ("en", "de", "fi")),
    Qrel("2", "en:train", 1),
    Qrel("2", "de:train", 1),
    Qrel("2", "fr:train", 1),
]


class WordHashes:
    """Adds up a fixed random vector for each word: texts that share words are near."""

    spec = EncoderSpec("words", "words", 64, (), "words", "words")

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        none = Passages(np.zeros((0, 64), np.int8), np.zeros((0, 2), np.int32))
        vectors = self.encode_queries(documents)
        return Encoded(vectors, [none] * len(documents), np.ones((len(documents), 1), np.bool_))

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        rows = [sum((_word(word) for word in query.content.split()), np.zeros(64, np.float32)) for query in queries]
        return unit_rows(np.array(rows, dtype=np.float32).reshape(len(rows), 64))


def _word(word: str) -> FloatArray:
    seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")
    return np.random.default_rng(seed).normal(size=64).astype(np.float32)


def word_searcher(folder: Path, documents: Sequence[Document] = DOCUMENTS) -> Searcher:
    encoder = WordHashes()
    store = EmbeddedStore(folder, "words")
    store.create("words", 64)
    encoded = encoder.encode_documents(documents)
    stored = zip(documents, encoded.vectors, encoded.passages, strict=True)
    store.put("words", [StoredDocument(document, vector, passages) for document, vector, passages in stored])
    return Searcher("words", encoder, store, store.count(), Detector(store.count()))


@pytest.fixture
def searcher(tmp_path: Path) -> Iterator[Searcher]:
    with word_searcher(tmp_path / "store") as searcher:
        yield searcher


def plan(**changes: object) -> EvaluationPlan:
    return EvaluationPlan(**{"measures": parse_measures(["AP", "P@10"]), "tag": "words", **changes})  # type: ignore[arg-type]


def test_each_topic_language_has_a_run_and_all_have_one(searcher: Searcher) -> None:
    scored_runs = rank_and_score(searcher, by_language(TOPICS), QRELS, plan())
    assert [run.name for run in scored_runs.runs] == ["de", "de-same", "de-bm25", "en", "en-same", "en-bm25", "all"]
    runs = scored_runs.of_kind("language")
    assert set(runs["en"].topics) == {"1", "2"}
    assert runs["de"].unjudged == ["3"]
    assert set(scored_runs.of_kind("pooled")["mul"].topics) == {"1.de", "2.de", "1.en", "2.en"}


def test_progress_counts_every_topic_once_as_it_is_ranked(searcher: Searcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("query.ranking.searcher._BLOCK", 2)
    topics, steps = by_language(TOPICS), list[int]()
    rank_and_score(searcher, topics, QRELS, plan(), steps.append)
    assert sum(steps) == sum(map(len, topics.values()))
    assert max(steps) <= 2


def test_each_run_against_several_languages_says_how_fair_it_is(searcher: Searcher) -> None:
    scored_runs = rank_and_score(searcher, by_language(TOPICS), QRELS, plan())
    german, pooled = scored_runs.runs[0], scored_runs.runs[-1]
    assert scored_runs.main is pooled
    assert german.scores.values("own-language")["1"] == pytest.approx(1 / 3)  # elbe stands in all three languages
    assert set(german.scores.values("PEER@100")) == {"1", "2"}
    assert {lang: (one.retrieved, one.relevant) for lang, one in german.relevant_counts.items()} == {
        "de": (2, 2),
        "en": (2, 2),
        "fi": (1, 1),
    }
    assert set(pooled.scores.values("own-language")) == {"1.de", "2.de", "1.en", "2.en"}
    assert pooled.relevant_counts["fi"].relevant == 2
    assert not any(run.relevant_counts for run in scored_runs.runs if run.kind in {"same", "bm25"})


def test_fairness_is_not_asked_of_a_search_in_one_language(searcher: Searcher) -> None:
    scored_runs = rank_and_score(searcher, by_language(TOPICS), QRELS, plan(to=["de"]))
    assert all(set(run.scores.means) == {"AP", "P@10", "Judged@10"} for run in scored_runs.runs)
    assert not any(run.relevant_counts for run in scored_runs.runs)


def test_topics_in_a_language_that_is_not_searched_have_no_own_language_share(searcher: Searcher) -> None:
    scored_runs = rank_and_score(searcher, by_language(TOPICS), QRELS, plan(to=["de", "fi"]))
    means = {run.lang: set(run.scores.means) for run in scored_runs.runs if run.kind == "language"}
    assert means["de"] - means["en"] == {"own-language", "LPR"}
    assert set(scored_runs.main.scores.topics) == {"1.de", "2.de", "1.en", "2.en"}
    assert "own-language" not in scored_runs.main.scores.topics["1.en"]


def test_within_its_own_language_only_that_languages_documents_count(searcher: Searcher) -> None:
    scored_runs = rank_and_score(searcher, by_language(TOPICS), QRELS, plan())
    assert scored_runs.of_kind("same")["de"].values("AP") == {"1": 1.0, "2": 1.0}
    assert scored_runs.of_kind("bm25")["de"].values("AP") == {"1": 1.0, "2": 1.0}
    assert scored_runs.of_kind("language")["de"].values("AP")["2"] < 1.0


def test_only_judged_documents_of_the_target_languages_count(searcher: Searcher) -> None:
    scored_runs = rank_and_score(searcher, by_language(TOPICS, ["de"]), QRELS, plan(to=["fi"]))
    assert [run.name for run in scored_runs.runs] == ["de"]
    scores = scored_runs.runs[0].scores
    assert scores.values("AP") == {"1": 1.0}
    assert scores.unjudged == ["2", "3"]


def test_judged_documents_that_are_not_in_the_collection_are_said(searcher: Searcher) -> None:
    scored_runs = rank_and_score(searcher, by_language(TOPICS), QRELS, plan())
    assert scored_runs.remarks == [
        "5 of the 6 judged documents are in the collection; a relevant document that is not counts as missed"
    ]
    assert rank_and_score(searcher, by_language(TOPICS), QRELS, plan(to=["de"])).remarks == [
        "5 of the 6 judged documents are in the collection; the others don't count"
    ]
    with pytest.raises(BadInput, match="the collection has none of the 1 judged documents"):
        rank_and_score(searcher, by_language(TOPICS), [Qrel("1", "elsewhere", 1)], plan())


def test_the_baseline_can_be_left_out(searcher: Searcher) -> None:
    scored_runs = rank_and_score(searcher, by_language(TOPICS, ["en"]), QRELS, plan(baseline="none"))
    assert [run.name for run in scored_runs.runs] == ["en"]


LEXICON = {"hochwasser": {"flood": 0.9, "water": 0.1}, "zug": {"train": 1.0}}


def test_psq_ranks_what_the_encoder_ranks(searcher: Searcher) -> None:
    lexicons = Lexicons({("de", "en"): LEXICON, ("en", "de"): {"train": {"zug": 1.0}}}, names=["words"])
    scored_runs = rank_and_score(
        searcher, by_language(TOPICS), QRELS, plan(lexicons=lexicons, pairs=True, to=["de", "en"], baseline="none")
    )
    names = ["de", "de-de", "de-en", "de-psq", "de-de-psq", "de-en-psq"]
    assert [run.name for run in scored_runs.runs[:6]] == names
    assert [run.name for run in scored_runs.runs[-2:]] == ["all", "all-psq"]
    assert scored_runs.main.name == "all"
    psq = scored_runs.of_kind("psq")["de"]
    assert psq.values("AP") == {"1": 1.0, "2": 1.0}
    assert {"own-language", "PEER@100", "TLR@20", "LPR"} <= psq.means.keys()
    pair = scored_runs.runs[5]
    assert (pair.kind, pair.lang, pair.documents) == ("psq-pair", "de", "en")
    assert pair.scores.values("AP") == {"1": 1.0, "2": 1.0}
    pooled = scored_runs.runs[-1]
    assert (pooled.kind, pooled.lang) == ("psq-pooled", "mul")
    assert pooled.topic("1.de") == "1"
    assert set(pooled.scores.topics) == {"1.de", "2.de", "1.en", "2.en"}


def test_psq_in_one_language_alone_is_bm25_there(searcher: Searcher) -> None:
    lexicons = Lexicons({("de", "en"): LEXICON}, names=["words"])
    scored_runs = rank_and_score(searcher, by_language(TOPICS, ["de"]), QRELS, plan(lexicons=lexicons, pairs=True))
    runs = {run.name: run for run in scored_runs.runs}
    psq, bm25 = (list(unpack(runs[name].trec or b"")) for name in ("de-de-psq", "de-bm25"))
    assert [line.split()[:4] for line in psq] == [line.split()[:4] for line in bm25]


def test_languages_without_a_lexicon_are_said(searcher: Searcher) -> None:
    lexicons = Lexicons({("de", "en"): LEXICON}, names=["words"])
    scored_runs = rank_and_score(searcher, by_language(TOPICS), QRELS, plan(lexicons=lexicons))
    assert "there is no lexicon from de to fi; PSQ finds no documents there" in scored_runs.remarks
    assert "there is no lexicon from en; its topics have no run of PSQ" in scored_runs.remarks
    assert [run.name for run in scored_runs.runs if run.kind.startswith("psq")] == ["de-psq"]


def test_lexicons_of_other_languages_are_refused(searcher: Searcher) -> None:
    lexicons = Lexicons({("de", "fr"): LEXICON}, names=["words"])
    with pytest.raises(BadInput, match=r"no lexicon is from a language of the topics \(de, en\) to another"):
        rank_and_score(searcher, by_language(TOPICS), QRELS, plan(lexicons=lexicons))


def test_depth_and_fields_are_obeyed(searcher: Searcher) -> None:
    scored_runs = rank_and_score(
        searcher, by_language(TOPICS, ["en"]), QRELS[:3], plan(depth=1, fields=["description"])
    )
    scores = scored_runs.runs[0].scores
    assert scores.values("AP") == {"1": pytest.approx(1 / 3)}
    assert "topics in en that have no description to ask with, and count 0: 1" in scored_runs.remarks


def test_a_language_whose_topics_nobody_judged_is_said_and_the_others_go_on(searcher: Searcher) -> None:
    topics = by_language([*TOPICS, Topic("9", "fi", "tulva")])
    scored_runs = rank_and_score(searcher, topics, QRELS, plan())
    assert set(scored_runs.of_kind("language")) == {"de", "en"}
    assert "no topic in fi has a relevant document; the language is left out" in scored_runs.remarks


def test_qrels_for_none_of_the_topics_are_refused(searcher: Searcher) -> None:
    with pytest.raises(BadInput, match="no relevant document for any of the topics"):
        rank_and_score(searcher, by_language(TOPICS), [Qrel("77", "en:flood", 1), Qrel("1", "en:flood", 0)], plan())


def test_a_target_language_that_is_not_there_is_refused(searcher: Searcher) -> None:
    with pytest.raises(BadInput, match="no documents in 'sw'"):
        rank_and_score(searcher, by_language(TOPICS), QRELS, plan(to=["sw"]))


def test_topics_are_told_apart_by_language() -> None:
    assert {lang: [topic.qid for topic in some] for lang, some in by_language(TOPICS).items()} == {
        "de": ["1", "2", "3"],
        "en": ["1", "2"],
    }
    assert list(by_language(TOPICS, ["en"])) == ["en"]
    with pytest.raises(BadInput, match="no topic in 'fi'; the topics are in de, en"):
        by_language(TOPICS, ["fi"])
    with pytest.raises(BadInput, match="topic 1 in en stands in two"):
        by_language([TOPICS[0], TOPICS[0]])


def test_a_run_from_elsewhere_is_scored_over_the_same_topics() -> None:
    measures = parse_measures(["AP"])
    english = by_language(TOPICS, ["en"])
    judgements = Judgements(QRELS, {})
    plain = score_foreign(Run("x", {"1": [("en:flood", 1.0)]}), english, judgements, measures).main
    assert plain.scores.values("AP") == {"1": pytest.approx(1 / 3), "2": 0.0}
    several = score_foreign(Run("x", {"1.de": [("en:flood", 1.0)]}), by_language(TOPICS), judgements, measures).main
    assert several.scores.values("AP") == {"1.de": pytest.approx(1 / 3), "2.de": 0.0, "1.en": 0.0, "2.en": 0.0}
    with pytest.raises(BadInput, match=r"has none of the topics; name those of several languages like 1\.de"):
        score_foreign(Run("x", {"1": [("en:flood", 1.0)]}), by_language(TOPICS), judgements, measures)
