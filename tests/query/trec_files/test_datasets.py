"""Topics and judgements of ``ir_datasets`` stand for files wherever a command takes these."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from ir_measures import Qrel

from encoders.errors import BadInput
from query.cli import run
from query.trec_files.file_patterns import content_hash, expand
from query.trec_files.qrels import read_qrels
from query.trec_files.topics import Topic, read_topics


class Query(NamedTuple):
    query_id: str
    text: str
    query: str


class Patient(NamedTuple):
    query_id: str
    disease: str

    def default_text(self) -> str:
        return self.disease


@pytest.fixture
def names(tmp_path: Path) -> Iterator[list[str]]:
    """Two data sets, registered from local files; the second has no judgements."""
    ir_datasets = pytest.importorskip("ir_datasets")
    base, formats = ir_datasets.datasets.base, ir_datasets.formats
    for name, text in (
        ("full", "001\tWhen does the mill open?\tmill hours\n2\tWho bakes?\tbread\n"),
        ("patients", "1\tglaucoma\n"),
        ("qrels", "001 0 d1 1\n2 0 d2 2\n"),
    ):
        (tmp_path / name).write_text(text)
    files = {name: ir_datasets.util.LocalDownload(tmp_path / name) for name in ("full", "patients", "qrels")}
    full = formats.TsvQueries(files["full"], query_cls=Query, lang="en")
    judged = base.Dataset(full, formats.TrecQrels(files["qrels"], {1: "good", 2: "best"}))
    prefix = f"dragoman-test/{tmp_path.name}"
    ir_datasets.registry.register(f"{prefix}/full", judged)
    patients = formats.TsvQueries(files["patients"], query_cls=Patient, lang=None)
    ir_datasets.registry.register(f"{prefix}/patients", base.Dataset(patients))
    yield [f"ir-datasets:{prefix}/{name}" for name in ("full", "patients")]
    for name in ("full", "patients"):
        ir_datasets.registry._registered.pop(f"{prefix}/{name}")


def test_topics_and_judgements_of_a_data_set_are_read(names: list[str]) -> None:
    full, patients = names
    assert expand([f"{full},{patients}"], "topics") == [Path(full), Path(patients)]
    assert read_topics(full, lang="de") == [
        Topic("1", "en", "mill hours", "When does the mill open?"),
        Topic("2", "en", "bread", "Who bakes?"),
    ]
    assert read_topics(patients, lang="de") == [Topic("1", "de", "glaucoma")]
    assert read_qrels([full]) == [Qrel("1", "d1", 1, "0"), Qrel("2", "d2", 2, "0")]
    assert content_hash([Path(full)]) != content_hash([Path(patients)])
    with pytest.raises(BadInput, match="patients has no judgements; name a data set with some"):
        read_qrels([patients])


def test_a_run_is_scored_by_a_data_set(names: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.run").write_text("1 Q0 d1 1 9 x\n2 Q0 d1 1 9 x\n2 Q0 d2 2 8 x\n")
    judged = ["--topics", names[0], "--qrels", names[0], "--measures", "AP"]
    assert run(["runs", "import", str(tmp_path / "a.run"), *judged, "--home", str(tmp_path / "home"), "--json"]) == 0
    assert '"AP": 0.75' in json.dumps(json.loads(capsys.readouterr().out))
