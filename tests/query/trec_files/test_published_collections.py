"""Test collections as they are published, in tiny files: documents, topics and judgements belong together."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from encoders.errors import BadInput
from indexer.readers.formats import read
from indexer.readers.records.source import ReadOptions
from query.cli import run
from query.trec_files.file_patterns import content_hash, expand
from query.trec_files.qrels import read_qrels
from query.trec_files.topic_set import read_topic_set
from query.trec_files.topics import Topic, read_topics
from tests.indexer.readers.reading import documents

_TITLE = {"topic_title": "Floods", "topic_description": "Find floods.", "topic_narrative": "Any."}
_CC_TOPIC = {
    "topic_id": "007",
    "languages_with_qrels": ["fas"],
    "topics": [
        {"lang": "eng", "source": "original", **_TITLE},
        {"lang": "fas", "source": "google translation", **_TITLE, "topic_title": "سیل‌ها"},
        {"lang": "fas", "source": "human translation", **_TITLE, "topic_title": "سیل"},
    ],
}
_CC_NEWS = {"id": "12", "cc_file": "CC-NEWS.warc", "time": "2020", "title": "سیل", "text": "رود", "url": "https://a.b"}
_CLIR_TOPIC = {"src_id": "7", "src_query": "Floods", "tgt_results": [["12", 6], ["13", 0]]}
_TSV, _TREC = "7\tFloods\n", "7 Q0 12 6\n7 Q0 13 0\n"
_QRELS = [("7", "12", 6), ("7", "13", 0)]
PUBLISHED = {
    "NeuCLIR and HC4": (json.dumps(_CC_NEWS), "fas", "", json.dumps(_CC_TOPIC), _TREC),
    "MIRACL": ('{"docid": "12", "title": "سیل", "text": "رود"}', "fa", "", _TSV, _TREC.replace(" ", "\t")),
    "Mr. TyDi and AfriCLIRMatrix": ('{"id": "12", "contents": "سیل\\n\\nرود"}', "fa", "contents", _TSV, _TREC),
}
"""Documents, their language, their field of texts if it is to be named, topics and judgements."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_files_are_read_as_they_are_published(name: str, tmp_path: Path) -> None:
    texts, lang, field, topics, qrels = PUBLISHED[name]
    files = [tmp_path / "docs.jsonl", tmp_path / "topics", tmp_path / "qrels"]
    for file, text in zip(files, (texts, topics, qrels), strict=True):
        file.write_text(f"{text}\n", encoding="utf-8")
    (document,) = documents(read(str(files[0]), ReadOptions(lang=lang, fields={"text": field} if field else {})))
    assert (document.doc_id, document.lang, document.content.split()) == ("12", "fa", ["سیل", "رود"])
    topic_set = read_topic_set(files[1:2], files[2:], lang="eng")
    assert [qrel[:3] for qrel in topic_set.qrels] == _QRELS
    assert topic_set.topics["en"][0].title == "Floods"
    assert [topic.title for topic in topic_set.topics.get("fa", ())] == (["سیل"] if "fas" in topics else [])


@pytest.fixture
def names(tmp_path: Path) -> Iterator[list[str]]:
    """Data sets of the library's own classes, registered from local files; the last has no judgements."""
    ir_datasets = pytest.importorskip("ir_datasets")
    base, formats, local = ir_datasets.datasets.base, ir_datasets.formats, ir_datasets.util.LocalDownload
    for name, content in (("docs", _CC_NEWS), ("cc", _CC_TOPIC), ("clir", _CLIR_TOPIC)):
        (tmp_path / name).write_text(json.dumps(content) + "\n")
    (tmp_path / "qrels").write_text(_TREC)
    (tmp_path / "docs.tsv").write_text("12\tBruggen\n")
    docs = formats.ExctractedCCDocs(local(tmp_path / "docs"), subset_lang="fa", docstore_path=tmp_path / "store")
    topics = formats.ExctractedCCQueries(
        local(tmp_path / "cc"), "fa", cls=formats.extracted_cc.ExctractedCCNoReportNoHtNarQuery
    )
    sets = {
        f"neuclir/{tmp_path.name}": base.Dataset(docs, topics, formats.TrecQrels(local(tmp_path / "qrels"), {})),
        f"clirmatrix-{tmp_path.name}": base.Dataset(
            formats.TsvDocs(local(tmp_path / "docs.tsv"), lang="dt"),
            formats.CLIRMatrixQueries(local(tmp_path / "clir"), "dt"),
            formats.CLIRMatrixQrels(local(tmp_path / "clir"), {}),
        ),
        f"docs-{tmp_path.name}": base.Dataset(docs),
    }
    for name, data_set in sets.items():
        ir_datasets.registry.register(name, data_set)
    yield [f"ir-datasets:{name}" for name in sets]
    for name in sets:
        ir_datasets.registry._registered.pop(name)


def test_data_sets_are_read_by_name_and_their_languages_are_mapped(
    names: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    neuclir, clirmatrix, unjudged = names
    assert expand([f"{neuclir},{clirmatrix}"], "topics") == [Path(neuclir), Path(clirmatrix)]
    assert read_topics(neuclir, lang="de") == [Topic("7", "en", "Floods", "Find floods.", "Any.")]
    assert read_topics(clirmatrix) == [Topic("7", "nl", "Floods")]
    for name in (neuclir, clirmatrix):
        assert [qrel[:3] for qrel in read_qrels([name])] == _QRELS
    read_by_name = [documents(read(name, ReadOptions())) for name in (neuclir, clirmatrix)]
    assert [(document.doc_id, document.lang) for (document,) in read_by_name] == [("12", "fa"), ("12", "nl")]
    assert content_hash([Path(neuclir)]) != content_hash([Path(clirmatrix)])
    with pytest.raises(BadInput, match="has no judgements; name a data set with some"):
        read_qrels([unjudged])
    (tmp_path / "a.run").write_text("7 Q0 13 1 9 x\n7 Q0 12 2 8 x\n")
    judged = ["--topics", neuclir, "--qrels", neuclir, "--measures", "AP", "--home", str(tmp_path / "home"), "--json"]
    assert run(["runs", "import", str(tmp_path / "a.run"), *judged]) == 0
    assert '"AP": 0.5' in json.dumps(json.loads(capsys.readouterr().out))
