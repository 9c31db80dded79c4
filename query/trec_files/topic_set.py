"""Topics of an evaluation with their relevance judgements."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from encoders.document import Document
from encoders.errors import BadInput
from indexer.readers.irdatasets import dataset_name
from query.trec_files.file_patterns import content_hash, expand
from query.trec_files.qrels import Qrel, read_qrels
from query.trec_files.topics import Topic, queries_of, read_topics


@dataclass(frozen=True)
class TopicSet:
    """Topics and judgements, with the names and hashes of their files."""

    topics: Mapping[str, Sequence[Topic]]
    qrels: Sequence[Qrel]
    name: str  # names of the topics' files
    topics_hash: str  # hash of the topics' files; ``qrels_hash`` is that of the judgements' files
    qrels_hash: str


def by_language(topics: Sequence[Topic], langs: Sequence[str] = ()) -> dict[str, list[Topic]]:
    """Topics by language, ordered as ``langs``, or all sorted. Raises BadInput: a language has none, or one twice."""
    by_lang: dict[str, dict[str, Topic]] = {}
    for topic in topics:
        if topic.qid in by_lang.setdefault(topic.lang, {}):
            raise BadInput(f"topic {topic.qid} in {topic.lang} stands in two of the topics' files; give one of them")
        by_lang[topic.lang][topic.qid] = topic
    for lang in langs:
        if lang not in by_lang:
            raise BadInput(f"there is no topic in {lang!r}; the topics are in {', '.join(sorted(by_lang))}")
    return {lang: list(by_lang[lang].values()) for lang in langs or sorted(by_lang)}


def read_topic_set(
    topic_paths: Sequence[Path],
    qrel_paths: Sequence[Path],
    *,
    langs: Sequence[str] = (),
    lang: str = "",
    encoding: str = "",
) -> TopicSet:
    """Read files of topics, as ``read_topics``, and judgements of these or of an exported run's ``qid.lang``.

    Raises BadInput: a language has no topic.
    """
    topics = [topic for path in topic_paths for topic in read_topics(path, lang=lang, encoding=encoding)]
    return TopicSet(
        by_language(topics, langs),
        read_qrels(qrel_paths, [(topic.qid, topic.lang) for topic in topics]),
        ", ".join(dataset_name(path) or path.name for path in topic_paths),
        content_hash(topic_paths),
        content_hash(qrel_paths),
    )


def read_queries(files: Sequence[str], kind: str) -> list[Document]:
    """Queries of topics' files; messages say ``kind``. Raises BadInput: no topic has a title or a description."""
    queries = queries_of([topic for path in expand(files, kind) for topic in read_topics(path)])
    if files and not queries:
        raise BadInput(f"none of the {kind} has a title or a description to ask with")
    return queries


def read_judged(topic_files: Sequence[str], qrel_files: Sequence[str]) -> tuple[list[Document], list[Qrel]]:
    """Queries of topics' files, and judgements, which may name a topic ``qid.lang``. Raises as ``read_queries``."""
    queries = read_queries(topic_files, "topics")
    return queries, read_qrels(expand(qrel_files, "judgements"), [(query.doc_id, query.lang) for query in queries])
