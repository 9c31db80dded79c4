"""Topics × collection → runs and scores, with a store and a searcher as they are used, and an encoder of words."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ir_measures import Qrel

from encoders.document import Document, Encoded, EncoderSpec, FloatArray, Passages, unit_rows
from encoders.errors import BadInput
from indexer.stores.contract import StoredDocument
from indexer.stores.embedded import EmbeddedStore
from indexer.text.language_detection import Detector
from query.evaluation.foreign_scores import score_foreign
from query.evaluation.scored_runs import EvaluationPlan, Judgements, ScoredRuns
from query.evaluation.topic_ranking import rank_and_score
from query.lexical_baselines.lexicons import Lexicons
from query.measures.quality_measures import parse_measures
from query.ranking.searcher import Searcher
from query.trec_files.topic_set import by_language
from query.trec_files.topics import Topic
from query.trec_files.trec_run import Run

_TEXTS = {
    "en:flood": "flood elbe river water",
    "en:train": "train rail crash",
    "en:music": "music opera",
    "de:flood": "hochwasser elbe wasser",
    "de:train": "zug unglück schiene",
    "de:music": "oper theater",
    "fi:flood": "tulva elbe vesi",
}
DOCUMENTS = [Document(doc_id, doc_id[:2], text) for doc_id, text in _TEXTS.items()]
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


Evaluate = Callable[..., ScoredRuns]


@pytest.fixture
def evaluate(tmp_path: Path) -> Iterator[Evaluate]:
    with word_searcher(tmp_path / "store") as searcher:

        def evaluated(
            langs: Sequence[str] = (),
            *,
            topics: Sequence[Topic] = TOPICS,
            qrels: Sequence[Qrel] = QRELS,
            step: Callable[[int], None] = lambda _: None,
            **changes: Any,
        ) -> ScoredRuns:
            plan = EvaluationPlan(parse_measures(["AP", "P@10"]), "words", **changes)
            return rank_and_score(searcher, by_language(topics, langs), qrels, plan, step)

        yield evaluated


def test_each_topic_language_has_a_run_and_all_have_one(evaluate: Evaluate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("query.ranking.searcher._BLOCK", 2)
    steps = list[int]()
    scored_runs = evaluate(step=steps.append)
    assert [run.name for run in scored_runs.runs] == ["de", "de-same", "de-bm25", "en", "en-same", "en-bm25", "all"]
    runs = scored_runs.of_kind("language")
    assert (set(runs["en"].topics), runs["de"].unjudged) == ({"1", "2"}, ["3"])
    assert set(scored_runs.of_kind("pooled")["mul"].topics) == {"1.de", "2.de", "1.en", "2.en"}
    assert (sum(steps), max(steps)) == (len(TOPICS), 2)  # progress
    for kind in ("same", "bm25"):  # within its own language only that language's documents count
        assert scored_runs.of_kind(kind)["de"].values("AP") == {"1": 1.0, "2": 1.0}
    assert runs["de"].values("AP")["2"] < 1.0
    missed = "5 of the 6 judged documents are in the collection; a relevant document that is not counts as missed"
    assert scored_runs.remarks == [missed]
    german, pooled = scored_runs.runs[0], scored_runs.runs[-1]
    assert scored_runs.main is pooled
    assert german.scores.values("own-language")["1"] == pytest.approx(1 / 3)  # elbe stands in all three languages
    assert set(german.scores.values("PEER@100")) == {"1", "2"}
    counts = {lang: (one.retrieved, one.relevant) for lang, one in german.relevant_counts.items()}
    assert counts == {"de": (2, 2), "en": (2, 2), "fi": (1, 1)}
    assert set(pooled.scores.values("own-language")) == {"1.de", "2.de", "1.en", "2.en"}
    assert pooled.relevant_counts["fi"].relevant == 2
    assert not any(run.relevant_counts for run in scored_runs.runs if run.kind in {"same", "bm25"})


def test_fairness_is_not_asked_of_one_language_or_of_topics_in_another(evaluate: Evaluate) -> None:
    german, several = evaluate(to=["de"]), evaluate(to=["de", "fi"])
    assert all(set(run.scores.means) - {"RBO"} == {"AP", "P@10", "Judged@10"} for run in german.runs)
    assert [run.name for run in german.runs if "RBO" in run.scores.means] == ["all"]
    assert not any(run.relevant_counts for run in german.runs)
    assert german.remarks == ["5 of the 6 judged documents are in the collection; the others don't count"]
    means = {run.lang: set(run.scores.means) for run in several.runs if run.kind == "language"}
    assert means["de"] - means["en"] == {"own-language", "LPR"}
    assert set(several.main.scores.topics) == {"1.de", "2.de", "1.en", "2.en"}
    assert "own-language" not in several.main.scores.topics["1.en"]


def test_only_judged_documents_of_the_target_languages_count(evaluate: Evaluate) -> None:
    (run,) = evaluate(["de"], to=["fi"]).runs
    assert run.name == "de"
    assert run.scores.values("AP") == {"1": 1.0}
    assert run.scores.unjudged == ["2", "3"]
    assert [run.name for run in evaluate(["en"], baseline="none").runs] == ["en"]
    with pytest.raises(BadInput, match="the collection has none of the 1 judged documents"):
        evaluate(qrels=[Qrel("1", "elsewhere", 1)])
    with pytest.raises(BadInput, match="no relevant document for any of the topics"):
        evaluate(qrels=[Qrel("77", "en:flood", 1), Qrel("1", "en:flood", 0)])


LEXICON = {"hochwasser": {"flood": 0.9, "water": 0.1}, "zug": {"train": 1.0}}


def test_psq_ranks_what_the_encoder_ranks(evaluate: Evaluate) -> None:
    german = Lexicons({("de", "en"): LEXICON}, names=["words"])
    lexicons = Lexicons({("de", "en"): LEXICON, ("en", "de"): {"train": {"zug": 1.0}}}, names=["words"])
    scored_runs = evaluate(lexicons=lexicons, pairs=True, to=["de", "en"], baseline="none")
    names = [run.name for run in scored_runs.runs]
    assert names[:6] == ["de", "de-de", "de-en", "de-psq", "de-de-psq", "de-en-psq"]
    assert (names[-2:], scored_runs.main.name) == (["all", "all-psq"], "all")
    psq, pair, pooled = scored_runs.of_kind("psq")["de"], scored_runs.runs[5], scored_runs.runs[-1]
    assert psq.values("AP") == pair.scores.values("AP") == {"1": 1.0, "2": 1.0}
    assert {"own-language", "PEER@100", "TLR@20", "LPR"} <= psq.means.keys()
    assert (pair.kind, pair.lang, pair.documents) == ("psq-pair", "de", "en")
    assert (pooled.kind, pooled.lang, pooled.topic("1.de")) == ("psq-pooled", "mul", "1")
    assert set(pooled.scores.topics) == {"1.de", "2.de", "1.en", "2.en"}
    scored_runs = evaluate(lexicons=german)
    assert "there is no lexicon from de to fi; PSQ finds no documents there" in scored_runs.remarks
    assert "there is no lexicon from en; its topics have no run of PSQ" in scored_runs.remarks
    assert [run.name for run in scored_runs.runs if run.kind.startswith("psq")] == ["de-psq"]
    with pytest.raises(BadInput, match=r"no lexicon is from a language of the topics \(de, en\) to another"):
        evaluate(lexicons=Lexicons({("de", "fr"): LEXICON}, names=["words"]))


def test_depth_and_fields_are_obeyed_and_topics_that_nobody_judged_are_left_out(evaluate: Evaluate) -> None:
    scored_runs = evaluate(["en"], qrels=QRELS[:3], depth=1, fields=["description"])
    assert scored_runs.runs[0].scores.values("AP") == {"1": pytest.approx(1 / 3)}
    assert "topics in en that have no description to ask with, and count 0: 1" in scored_runs.remarks
    scored_runs = evaluate(topics=[*TOPICS, Topic("9", "fi", "tulva")])
    assert set(scored_runs.of_kind("language")) == {"de", "en"}
    assert "no topic in fi has a relevant document; the language is left out" in scored_runs.remarks


def test_topics_are_told_apart_by_language_and_a_run_from_elsewhere_is_scored_over_the_same() -> None:
    ids = {lang: [topic.qid for topic in some] for lang, some in by_language(TOPICS).items()}
    assert ids == {"de": ["1", "2", "3"], "en": ["1", "2"]}
    assert list(by_language(TOPICS, ["en"])) == ["en"]
    with pytest.raises(BadInput, match="topic 1 in en stands in two"):
        by_language([TOPICS[0], TOPICS[0]])

    def scored(qid: str, langs: Sequence[str] = ()) -> dict[str, float]:
        run = Run("x", {qid: [("en:flood", 1.0)]})
        plan = EvaluationPlan(parse_measures(["AP"]), "x")
        return score_foreign(run, by_language(TOPICS, langs), Judgements(QRELS, {}), plan).main.scores.values("AP")

    third = pytest.approx(1 / 3)
    assert scored("1", ["en"]) == {"1": third, "2": 0.0}
    assert scored("1.de") == {"1": third, "2": 0.0}  # it was not asked in English
    with pytest.raises(BadInput, match=r"has none of the topics; name those of .* like 1\.de, .* own are like '1'"):
        scored("1")
