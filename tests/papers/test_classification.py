"""Zero-shot classification on vectors whose answer is known."""

import json
from pathlib import Path

import numpy as np
import pytest

from encoders.console import Console
from encoders.document import Document, unit_rows
from papers.classification import Labelled, Part, averages, labelled_documents, split, zero_shot

_CLASSES = np.array(["games", "science", "text"])


def _language(rotation: np.ndarray, seed: int) -> dict[Part, Labelled]:
    """Three classes a corner each, turned as a language is."""
    rng = np.random.default_rng(seed)
    parts: dict[Part, Labelled] = {}
    for part, count in (("train", 60), ("dev", 15), ("test", 90)):
        classes = np.arange(count) % 3
        points = np.eye(6)[classes] + 0.1 * rng.normal(size=(count, 6))
        parts[part] = Labelled(unit_rows((points @ rotation).astype(np.float32)), _CLASSES[classes])  # type: ignore[index]
    return parts


def test_languages_in_one_space_teach_each_other_and_one_in_a_space_of_its_own_teaches_itself() -> None:
    turned = np.roll(np.eye(6), 1, axis=1)
    table = zero_shot({"de": _language(np.eye(6), 0), "en": _language(np.eye(6), 1), "xx": _language(turned, 2)})
    assert list(table.queries) == list(table.documents) == ["de", "en", "xx"]
    assert table.values.diagonal() == pytest.approx([1.0, 1.0, 1.0])
    assert table.values[0, 1] == table.values[1, 0] == 1.0
    assert table.values[0, 2] < 0.5
    cross = table.values[~np.eye(3, dtype=np.bool_)].mean()
    assert averages(table) == pytest.approx({"same": 1.0, "cross": cross, "all": table.values.mean()})


def test_the_language_of_a_labelled_document_that_names_none_is_detected(tmp_path: Path) -> None:
    texts = {"de": "Der Hund läuft über die Straße und bellt.", "en": "The dog runs over the street and barks."}
    source = tmp_path / "docs.jsonl"
    records = [{"id": lang, "text": text, "label": "dogs"} for lang, text in texts.items()]
    source.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    console = Console(quiet=True)
    assert [document.lang for document in labelled_documents([str(source)], console)] == ["de", "en"]
    assert [document.doc_id for document in labelled_documents([str(source)], console, ["en"])] == ["en"]


def test_translations_are_in_one_part_and_parts_have_their_shares() -> None:
    langs = ("de", "en")
    documents = [Document(f"{lang}{n}", lang, "", fields={"concept": str(n)}) for lang in langs for n in range(3000)]
    first, second = split(documents, 0), split(documents, 1)
    assert first[:3000] == first[3000:]
    assert first != second
    shares = [first[:3000].count(part) / 3000 for part in ("train", "dev", "test")]
    assert shares == pytest.approx([0.5, 0.1, 0.4], abs=0.03)
    assert split(documents[:10], 0) == first[:10]
