"""``python -m papers tlaser`` on files of the published layouts, written here."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from encoders.document import Document, Encoded
from encoders.errors import BadInput
from encoders.methods.token_windows import First
from papers.data import read_tatoeba
from tests.conftest import Patch
from tests.papers.conftest import Ask

_TEXTS = {
    "english": ("markets fell and shares were sold", "the team won the match", "parliament voted on the law"),
    "german": ("Die Börse fiel, Aktien wurden verkauft", "Die Mannschaft gewann das Spiel", "Das Parlament stimmte ab"),
}
_LABELS = ("MCAT", "GCAT", "ECAT")
TLASER = ["tlaser", "--encoder", "multilingual-e5-small"]


@pytest.fixture
def mldoc(tmp_path: Path) -> Path:
    """Two languages of MLDoc: a class and a text a line."""
    (tmp_path / "mldoc").mkdir()
    for name, texts in _TEXTS.items():
        for ending, count in (("train.1000", 24), ("dev", 6), ("test", 12)):
            lines = [f"{_LABELS[n % 3]}\t{texts[n % 3]}, {n}\n" for n in range(count)]
            (tmp_path / "mldoc" / f"{name}.{ending}").write_text("".join(lines), encoding="utf-8")
    return tmp_path / "mldoc"


@pytest.fixture
def tatoeba(tmp_path: Path) -> Path:
    folder = tmp_path / "tatoeba"
    folder.mkdir()
    (folder / "tatoeba.deu-eng.deu").write_text("Der Hund bellt.\nIch esse Brot.\nEs regnet heute.\n", encoding="utf-8")
    (folder / "tatoeba.deu-eng.eng").write_text("The dog barks.\nI eat bread.\nIt rains today.\n", encoding="utf-8")
    return folder


def _documents(file: Path, **counts: int) -> list[str]:
    """So many documents a language, and the command that takes them."""
    records = [
        {"id": f"{name}{n}", "lang": {"english": "en", "german": "de"}[name], "text": _TEXTS[name][n % 3]}
        | {"label": _LABELS[n % 3], "concept": n}
        for name, count in counts.items()
        for n in range(count)
    ]
    file.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return [*TLASER, "--documents", str(file), "-q"]


def test_mldoc_and_tatoeba_are_told(mldoc: Path, tatoeba: Path, encoder: object, ask: Ask) -> None:
    command = [*TLASER, "--mldoc", str(mldoc), "-q"]
    documents, search = ask(*command, "--tatoeba", str(tatoeba), "--json").values
    assert documents["paper"]["cT-LASER"] == [75.2, 89.2, 78.0]
    (only,) = documents["splits"]
    assert (only["pairs"]["en"].keys(), only["same"]) == ({"en", "de"}, 1.0)
    assert search["rows"] == [{"pair": ["de", "en"], "errors": [0.0, 0.0], "sentences": 3}]
    shown = ask(*command).out
    assert all(text in shown for text in ("88.4  89.4  100.0", "LASER (6 layers)", "23,500"))
    assert re.search(r"T-LASER +84.6", shown)
    assert "table 6" not in shown
    for file in mldoc.glob("german.*"):
        file.rename(file.with_name(file.name.replace("german", "spanish")))
    shown = ask(*command).out
    assert "table 6" in shown
    assert re.search(r"cT-LASER +88.4 +68.0 +67.7 +91.6", shown)


def test_a_document_can_be_its_first_words(tmp_path: Path, encoder: object, monkeypatch: Patch, ask: Ask) -> None:
    seen: list[str] = []
    encode = First.encode_documents

    def remembered(encoder: First, documents: Sequence[Document]) -> Encoded:
        seen.extend(document.text for document in documents)
        return encode(encoder, documents)

    monkeypatch.setattr(First, "encode_documents", remembered)
    command = [*_documents(tmp_path / "docs.jsonl", english=60), "--splits", "1"]
    ask(*command, "--words", "3")
    assert set(seen) == {"markets fell and", "the team won", "parliament voted on"}
    assert "reads 512 tokens at most, fewer than 750 words" in ask(*command, "--words", "750").err
    ask(*command, "--words", "3", "--method", "sentences", status=2)


def test_few_documents_are_tested_and_learnt_from_where_they_can_be(tmp_path: Path, encoder: object, ask: Ask) -> None:
    command = _documents(tmp_path / "docs.jsonl", english=60, german=6)
    captured = ask(*command, "--json")
    pairs = [split["pairs"] for split in json.loads(captured.out)["splits"]]
    assert all(pair.keys() == pair["en"].keys() == {"de", "en"} for pair in pairs)
    assert len(pairs) == 5
    assert any(pair["de"]["en"] is None for pair in pairs)
    assert all(pair["en"]["en"] is not None for pair in pairs)
    assert re.search(r"de has too few documents or labels to learn from in \d of 5 splits", captured.err)
    assert "nan" not in ask(*command).out


def test_one_language_has_no_cross(tmp_path: Path, mldoc: Path, encoder: object, ask: Ask) -> None:
    command = _documents(tmp_path / "docs.jsonl", english=60)
    for told in ask(*command, "--mldoc", str(mldoc), "--languages", "en", "--json").values:
        assert told["splits"][0]["cross"] is None
        assert told["splits"][0]["same"] == told["splits"][0]["all"]


def test_documents_that_teach_nothing_are_refused_and_bad_lines_told(tmp_path: Path, encoder: object, ask: Ask) -> None:
    command = _documents(tmp_path / "docs.jsonl", english=3)
    with (tmp_path / "docs.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"id": "x", "lang": "en", "text": "no label"}\nno JSON\n')
    said = ask(*command, status=1).err
    assert "no language has documents of two labels to learn from" in said
    assert re.search(r"1 record could not be read; the first, .*docs.jsonl:5: ", said)
    assert "1 document has no field label and was left out" in said


def test_languages_choose_pairs_and_layouts_are_checked(mldoc: Path, tatoeba: Path, encoder: object, ask: Ask) -> None:
    def refused(said: str, *data: str) -> None:
        assert said in ask(*TLASER, *data, status=1).err

    (mldoc / "english.dev").write_text("no class here\n")
    refused("english.dev:1 has no class before a tab", "--mldoc", str(mldoc))
    for file in mldoc.glob("*.dev"):
        file.unlink()
    refused("has no language of MLDoc", "--mldoc", str(mldoc))
    for side in list(tatoeba.iterdir()):
        (tatoeba / side.name.replace("deu", "fra")).write_text(side.read_text(encoding="utf-8"), encoding="utf-8")
    told = ask(*TLASER, "--tatoeba", str(tatoeba), "--json", "--languages", "en,de").json
    assert [row["pair"] for row in told["rows"]] == [["de", "en"]]
    said = "Tatoeba's folder has de-en, fr-en and no pair of en, ja"
    refused(said, "--tatoeba", str(tatoeba), "--languages", "en,ja")
    (tatoeba / "tatoeba.deu-eng.eng").write_text("one\n", encoding="utf-8")
    refused("tatoeba.deu-eng.deu has 3 lines and tatoeba.deu-eng.eng 1", "--tatoeba", str(tatoeba))
    for side in list(tatoeba.iterdir()):
        side.write_text("", encoding="utf-8")
    refused("tatoeba.deu-eng.deu and tatoeba.deu-eng.eng are empty; get both again", "--tatoeba", str(tatoeba))
    ask(*TLASER, status=2)
    for side in list(tatoeba.iterdir()):
        side.write_text("x\n", encoding="utf-8")
        side.rename(tatoeba / side.name.replace("deu", "mul"))
    with pytest.raises(BadInput, match="has 'mul' in its name, which is no language"):
        read_tatoeba(tatoeba, [])
