"""Topics with their judgements: what an evaluation asks, and what answers it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from encoders.folder import file_hash
from query.evaluation.experiment import by_language
from query.evaluation.qrels import read_qrels
from query.evaluation.topics import Topic, read_topics

if TYPE_CHECKING:
    from ir_measures import Qrel


@dataclass(frozen=True)
class TopicSet:
    """Topics and judgements, and where they come from.

    Attributes:
        topics: by language.
        qrels: the judgements.
        name: names of the topics' files.
        topics_hash: of the topics' contents.
        qrels_hash: of the judgements' contents.
    """

    topics: Mapping[str, Sequence[Topic]]
    qrels: Sequence[Qrel]
    name: str
    topics_hash: str
    qrels_hash: str


def read_topic_set(
    topic_paths: Sequence[Path],
    qrel_paths: Sequence[Path],
    *,
    langs: Sequence[str] = (),
    lang: str = "",
    encoding: str = "",
) -> TopicSet:
    """Read files of topics and of judgements.

    Args:
        topic_paths: files of topics.
        qrel_paths: files of judgements.
        langs: languages of topics wanted, in this order; all where none is named.
        lang: language of topics that name none.
        encoding: of the topics' files; UTF-8, then what they declare, unless given.

    Raises:
        BadInput: a file can't be read, a language has no topic, or a topic stands twice.
    """
    topics = [topic for path in topic_paths for topic in read_topics(path, lang=lang, encoding=encoding)]
    return TopicSet(
        by_language(topics, langs),
        read_qrels(qrel_paths),
        ", ".join(path.name for path in topic_paths),
        file_hash(*topic_paths),
        file_hash(*qrel_paths),
    )
