"""The demo's articles, topics and judgements keep what they promise."""

import json

from query.trec_files.qrels import read_qrels
from query.trec_files.topics import read_topics
from trials import DEMO

LANGS = {"ar", "de", "en", "es", "fr", "ja", "pt", "ru", "tr", "zh"}


def test_there_are_24_subjects_in_ten_languages_some_lack_one_and_topics_are_judged_by_grades() -> None:
    articles = [json.loads(line) for file in DEMO.glob("docs.*.jsonl") for line in file.read_text("utf-8").splitlines()]
    subjects = {lang: {one["concept"] for one in articles if one["lang"] == lang} for lang in LANGS}
    assert len(set().union(*subjects.values())) >= 24
    assert {len(one) for one in subjects.values()} >= {23, 24}
    assert len(articles) == sum(len(one) for one in subjects.values())
    topics, qrels = read_topics(DEMO / "topics.tsv"), read_qrels([DEMO / "qrels.txt"])
    qids = {qrel.query_id for qrel in qrels}
    assert {(topic.qid, topic.lang) for topic in topics} == {(qid, lang) for qid in qids for lang in LANGS}
    assert {1, 2} <= {qrel.relevance for qrel in qrels}
    assert {qrel.doc_id for qrel in qrels} <= {article["id"] for article in articles}
