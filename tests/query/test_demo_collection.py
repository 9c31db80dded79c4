"""The demo's articles, topics and judgements keep what they promise."""

import json
from typing import Any

from query.trec_files.qrels import read_qrels
from query.trec_files.topics import read_topics
from trials import DEMO

LANGS = {"ar", "de", "en", "es", "fr", "ja", "pt", "ru", "tr", "zh"}
ARTICLES: list[dict[str, Any]] = [
    json.loads(line) for file in DEMO.glob("docs.*.jsonl") for line in file.read_text("utf-8").splitlines()
]


def test_there_are_24_subjects_in_ten_languages_some_lack_one_and_each_has_the_length_of_an_article() -> None:
    subjects = {lang: {one["concept"] for one in ARTICLES if one["lang"] == lang} for lang in LANGS}
    for article in ARTICLES:
        size = len(article["text"]) / 2 if article["lang"] in ("ja", "zh") else len(article["text"].split())
        assert 80 <= size <= 160, article["id"]
    assert len(set().union(*subjects.values())) >= 24
    assert {len(one) for one in subjects.values()} >= {23, 24}
    assert len(ARTICLES) == sum(len(one) for one in subjects.values())


def test_topics_are_asked_in_every_language_and_judgements_are_graded() -> None:
    topics = read_topics(DEMO / "topics.tsv")
    qids = {topic.qid for topic in topics}
    assert {(topic.qid, topic.lang) for topic in topics} == {(qid, lang) for qid in qids for lang in LANGS}
    assert all(topic.title and topic.description for topic in topics)
    qrels = read_qrels([DEMO / "qrels.txt"])
    assert {qrel.query_id for qrel in qrels} == qids
    assert {1, 2} <= {qrel.relevance for qrel in qrels}
    assert {qrel.doc_id for qrel in qrels} <= {article["id"] for article in ARTICLES}
