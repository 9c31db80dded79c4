"""``python -m papers tlaser`` on files of the published layouts, written here."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from encoders.document import Document, Encoded
from encoders.errors import BadInput
from encoders.methods.sentences import Sentences
from encoders.methods.token_windows import First
from papers.__main__ import run as compute
from papers.tlaser import read_tatoeba

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
    mldoc: Path,
    tatoeba: Path,
    encoder: object,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["tlaser", "--encoder", "multilingual-e5-small", "--mldoc", str(mldoc), "-q"]
    assert compute([*command, "--tatoeba", str(tatoeba), "--json"]) == 0
    documents, search = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert documents["paper"]["cT-LASER"] == [75.2, 89.2, 78.0]
    (only,) = documents["splits"]
    assert only["pairs"]["en"].keys() == {"en", "de"}
    assert only["same"] == 1.0
    assert search["rows"] == [{"pair": ["de", "en"], "errors": [0.0, 0.0], "sentences": 3}]
    taken: list[int] = []
    encode = Sentences.encode_documents

    def counted(encoder: Sentences, documents: Sequence[Document]) -> Encoded:
        taken.append(len(documents))
        return encode(encoder, documents)

    monkeypatch.setattr(Sentences, "encode_documents", counted)
    assert compute([*command, "--method", "sentences", "--json"]) == 0
    assert sum(taken) == 2 * (24 + 6 + 12)
    capsys.readouterr()
    assert compute(command) == 0
    shown = capsys.readouterr().out
    assert "88.4  89.4  100.0" in shown
    assert "LASER (6 layers)" in shown
    assert "23,500" in shown
    assert re.search(r"T-LASER +84.6", shown)
    assert "table 6" not in shown


def test_english_and_spanish_alone_stand_beside_the_papers_bilingual_encoders(
    mldoc: Path, encoder: object, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in mldoc.glob("german.*"):
        file.rename(file.with_name(file.name.replace("german", "spanish")))
    command = ["tlaser", "--encoder", "multilingual-e5-small", "--mldoc", str(mldoc), "-q"]
    assert compute(command) == 0
    shown = capsys.readouterr().out
    assert "table 6" in shown
    assert re.search(r"cT-LASER +88.4 +68.0 +67.7 +91.6", shown)


def test_a_document_can_be_one_sequence_of_its_first_words(
    tmp_path: Path, encoder: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[str] = []
    encode = First.encode_documents

    def remembered(encoder: First, documents: Sequence[Document]) -> Encoded:
        seen.extend(document.text for document in documents)
        return encode(encoder, documents)

    monkeypatch.setattr(First, "encode_documents", remembered)
    command = [*_documents(tmp_path / "docs.jsonl", {"english": 60}), "--splits", "1"]
    assert compute([*command, "--words", "3"]) == 0
    assert set(seen) == {"markets fell and", "the team won", "parliament voted on"}
    capsys.readouterr()
    assert compute([*command, "--words", "750"]) == 0
    assert "reads 512 tokens at most, fewer than 750 words" in capsys.readouterr().err
    assert compute([*command, "--words", "3", "--method", "sentences"]) == 2


@pytest.mark.torch
def test_the_papers_classifier_can_be_chosen(
    tmp_path: Path, encoder: object, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*_documents(tmp_path / "docs.jsonl", {"english": 60}), "--splits", "1", "--json"]
    assert compute([*command, "--classifier", "feed-forward"]) == 0
    assert json.loads(capsys.readouterr().out)["splits"][0]["same"] > 0.5


def _documents(file: Path, counts: dict[str, int]) -> list[str]:
    """So many documents a language, and the command that takes them."""
    lines = [
        {
            "id": f"{name}{n}",
            "lang": name[:2].replace("ge", "de"),
            "text": _TEXTS[name][n % 3],
            "label": _LABELS[n % 3],
            "concept": n,
        }
        for name, count in counts.items()
        for n in range(count)
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return ["tlaser", "--encoder", "multilingual-e5-small", "--documents", str(file), "-q"]


def test_a_language_of_few_documents_is_tested_and_learnt_from_where_it_can_be(
    tmp_path: Path, encoder: object, capsys: pytest.CaptureFixture[str]
) -> None:
    command = _documents(tmp_path / "docs.jsonl", {"english": 60, "german": 6})
    assert compute([*command, "--json"]) == 0
    captured = capsys.readouterr()
    pairs = [split["pairs"] for split in json.loads(captured.out)["splits"]]
    assert all(pair.keys() == pair["en"].keys() == {"de", "en"} for pair in pairs)
    assert len(pairs) == 5
    assert any(pair["de"]["en"] is None for pair in pairs)
    assert all(pair["en"]["en"] is not None for pair in pairs)
    assert re.search(r"de has too few documents or labels to learn from in \d of 5 splits", captured.err)
    assert compute(command) == 0
    assert "nan" not in capsys.readouterr().out


def test_one_language_has_no_cross(
    tmp_path: Path, mldoc: Path, encoder: object, capsys: pytest.CaptureFixture[str]
) -> None:
    command = _documents(tmp_path / "docs.jsonl", {"english": 60})
    assert compute([*command, "--mldoc", str(mldoc), "--languages", "en", "--json"]) == 0
    for told in map(json.loads, capsys.readouterr().out.splitlines()):
        assert told["splits"][0]["cross"] is None
        assert told["splits"][0]["same"] == told["splits"][0]["all"]


def test_documents_that_teach_nothing_are_one_sentence_and_lines_that_are_none_are_told(
    tmp_path: Path, encoder: object, capsys: pytest.CaptureFixture[str]
) -> None:
    command = _documents(tmp_path / "docs.jsonl", {"english": 3})
    with (tmp_path / "docs.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"id": "x", "lang": "en", "text": "no label"}\nno JSON\n')
    assert compute(command) == 1
    said = capsys.readouterr().err
    assert "no language has documents of two labels to learn from" in said
    assert re.search(r"1 record could not be read; the first, .*docs.jsonl:5: ", said)
    assert "1 document has no field label and was left out" in said


def test_other_layouts_are_one_sentence(mldoc: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["tlaser", "--encoder", "multilingual-e5-small", "--mldoc", str(mldoc)]
    (mldoc / "english.dev").write_text("no class here\n")
    assert compute(command) == 1
    assert "english.dev:1 has no class before a tab" in capsys.readouterr().err
    for file in mldoc.glob("*.dev"):
        file.unlink()
    assert compute(command) == 1
    assert "has no language of MLDoc" in capsys.readouterr().err


def test_languages_choose_pairs_too(tatoeba: Path, encoder: object, capsys: pytest.CaptureFixture[str]) -> None:
    for side in list(tatoeba.iterdir()):
        (tatoeba / side.name.replace("deu", "fra")).write_text(side.read_text(encoding="utf-8"), encoding="utf-8")
    command = ["tlaser", "--encoder", "multilingual-e5-small", "--tatoeba", str(tatoeba), "--json"]
    assert compute([*command, "--languages", "en,de"]) == 0
    assert [row["pair"] for row in json.loads(capsys.readouterr().out)["rows"]] == [["de", "en"]]
    assert compute([*command, "--languages", "en,ja"]) == 1
    assert "Tatoeba's folder has de-en, fr-en and no pair of en, ja" in capsys.readouterr().err


def test_a_file_whose_name_has_no_language_is_refused(tatoeba: Path) -> None:
    for side in list(tatoeba.iterdir()):
        side.rename(tatoeba / side.name.replace("deu", "mul"))
    with pytest.raises(BadInput, match="has 'mul' in its name, which is no language"):
        read_tatoeba(tatoeba, [])


def test_sides_of_different_lengths_are_refused(tatoeba: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tatoeba / "tatoeba.deu-eng.eng").write_text("one\n", encoding="utf-8")
    assert compute(["tlaser", "--encoder", "multilingual-e5-small", "--tatoeba", str(tatoeba)]) == 1
    assert "tatoeba.deu-eng.deu has 3 lines and tatoeba.deu-eng.eng 1" in capsys.readouterr().err
    for side in tatoeba.iterdir():
        side.write_text("", encoding="utf-8")
    assert compute(["tlaser", "--encoder", "multilingual-e5-small", "--tatoeba", str(tatoeba)]) == 1
    assert "tatoeba.deu-eng.deu and tatoeba.deu-eng.eng are empty; get both again" in capsys.readouterr().err
    assert compute(["tlaser", "--encoder", "multilingual-e5-small"]) == 2
