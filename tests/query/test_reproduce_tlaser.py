"""``dragoman reproduce tlaser`` on files of the published layouts, written here."""

import json
from pathlib import Path

import pytest

from query.cli import run

_TEXTS = {
    "english": ("markets fell and shares were sold", "the team won the match", "parliament voted on the law"),
    "german": ("Die Börse fiel, Aktien wurden verkauft", "Die Mannschaft gewann das Spiel", "Das Parlament stimmte ab"),
}
_LABELS = ("MCAT", "GCAT", "ECAT")


@pytest.fixture
def mldoc(tmp_path: Path) -> Path:
    """Two languages of MLDoc: a class and a text a line."""
    folder = tmp_path / "mldoc"
    folder.mkdir()
    for name, texts in _TEXTS.items():
        for ending, count in (("train.1000", 24), ("dev", 6), ("test", 12)):
            lines = [f"{_LABELS[n % 3]}\t{texts[n % 3]}, {n}\n" for n in range(count)]
            (folder / f"{name}.{ending}").write_text("".join(lines), encoding="utf-8")
    return folder


@pytest.fixture
def tatoeba(tmp_path: Path) -> Path:
    """A pair of Tatoeba's files."""
    folder = tmp_path / "tatoeba"
    folder.mkdir()
    (folder / "tatoeba.deu-eng.deu").write_text("Der Hund bellt.\nIch esse Brot.\nEs regnet heute.\n", encoding="utf-8")
    (folder / "tatoeba.deu-eng.eng").write_text("The dog barks.\nI eat bread.\nIt rains today.\n", encoding="utf-8")
    return folder


def test_mldoc_and_tatoeba_are_told_beside_the_papers_figures(
    mldoc: Path, tatoeba: Path, encoder: object, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["reproduce", "tlaser", "--encoder", "multilingual-e5-small", "--mldoc", str(mldoc), "-q"]
    assert run([*command, "--tatoeba", str(tatoeba), "--json"]) == 0
    documents, search = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert documents["paper"]["cT-LASER"] == [75.2, 89.2, 78.0]
    (only,) = documents["splits"]
    assert only["pairs"]["en"].keys() == {"en", "de"}
    assert only["same"] == 1.0
    assert search["rows"] == [{"pair": ["de", "en"], "errors": [0.0, 0.0], "sentences": 3}]
    assert run(command) == 0
    shown = capsys.readouterr().out
    assert "89.4" in shown
    assert "LASER (6 layers)" in shown


def test_own_documents_are_split_by_concept_several_times(
    tmp_path: Path, encoder: object, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "docs.jsonl"
    lines = [
        {
            "id": f"{name}{n}",
            "lang": name[:2].replace("ge", "de"),
            "text": texts[n % 3],
            "label": _LABELS[n % 3],
            "concept": n,
        }
        for name, texts in _TEXTS.items()
        for n in range(60)
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    command = ["reproduce", "tlaser", "--encoder", "multilingual-e5-small", "--documents", str(file), "--splits", "2"]
    assert run([*command, "--json", "-q"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["splits"]) == 2
    assert told["splits"][0]["pairs"].keys() == {"de", "en"}


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            lambda folder: (folder / "english.dev").write_text("no class here\n"),
            r"english.dev:1 has no class before a tab",
        ),
        (lambda folder: [file.unlink() for file in folder.glob("*.dev")], "has no language of MLDoc"),
    ],
)
def test_other_layouts_are_one_sentence(
    mldoc: Path, spoil: object, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(mldoc)  # type: ignore[operator]
    assert run(["reproduce", "tlaser", "--encoder", "multilingual-e5-small", "--mldoc", str(mldoc)]) == 1
    assert said in capsys.readouterr().err


def test_sides_of_different_lengths_are_refused(tatoeba: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tatoeba / "tatoeba.deu-eng.eng").write_text("one\n", encoding="utf-8")
    assert run(["reproduce", "tlaser", "--encoder", "multilingual-e5-small", "--tatoeba", str(tatoeba)]) == 1
    assert "tatoeba.deu-eng.deu has 3 lines and tatoeba.deu-eng.eng 1" in capsys.readouterr().err
    assert run(["reproduce", "tlaser", "--encoder", "multilingual-e5-small"]) == 2
