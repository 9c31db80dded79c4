"""The encoder of a Cr5 folder, by the direct path and by ONNX Runtime; several encoders as one."""

import json
import re
import unicodedata
from itertools import product
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from encoders.console import Console
from encoders.cr5.bags_of_words import DATA, BagsOfWords
from encoders.cr5.cr5_settings import Cr5Settings
from encoders.cr5.estimator import Cr5
from encoders.document import Document
from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder
from encoders.methods.combined_encoder import SEPARATOR, Combined, nearest_spans
from encoders.methods.method_registry import default_method, open_encoder
from encoders.methods.sentence import SentenceEncoder
from encoders.text.words import words
from onnx_export.cr5_folder import publish
from onnx_export.models import open_named
from tests.encoders.cr5.conftest import corpus

LONG = " ".join(f"de1x{number % 5} Füllwort," for number in range(200))


@pytest.fixture(scope="module", params=["fp32", "int8"])
def folder(request: pytest.FixtureRequest, trained: Cr5, tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    return publish(trained.model_, tmp_path_factory.mktemp("m") / "words", request.param, {"Ridge": "0.3"})


def test_documents_and_queries_alone_or_together_go_the_estimators_way(folder: ModelFolder, trained: Cr5) -> None:
    documents = [Document("1", "de", LONG), Document("2", "en", "en1x1 EN1x2 en1x1", title="en1x4")]
    encoder = open_encoder(folder)
    expected = trained.model_.encode(documents)
    assert (encoder.encode_documents(documents).vectors * expected).sum(axis=1).min() > 0.9999
    assert (encoder.encode_queries(documents) * expected).sum(axis=1).min() > 0.9999
    documents = [Document(str(n), "de", f"de{n}x1 de{n}x2 defill{n}") for n in range(8)]
    together = encoder.encode_documents(documents).vectors
    alone = np.concatenate([encoder.encode_documents([one]).vectors for one in documents])
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_onnx_runtime_says_the_same(folder: ModelFolder) -> None:
    encoder = BagsOfWords(folder)
    texts = [Document("1", "de", LONG), Document("2", "en", "en1x1 en1x1 nowhere"), Document("3", "fr", "inconnu")]
    bags = [np.unique(encoder.model.ids(words(one.content, one.lang), one.lang), return_counts=True) for one in texts]
    ids, counts = np.zeros((2, 3, max(len(bag[0]) for bag in bags)), dtype=np.int64)
    for row, (some, often) in enumerate(bags):
        ids[row, : len(some)], counts[row, : len(some)] = some, often
    session = onnxruntime.InferenceSession(str(folder.graph))
    (vectors,) = session.run(["vectors"], {"input_ids": ids, "attention_mask": counts})
    np.testing.assert_allclose(vectors, encoder.encode_documents(texts).vectors, atol=1e-5)


def test_the_title_is_the_last_passage_and_the_others_are_overlapping_windows(folder: ModelFolder) -> None:
    encoder = open_encoder(folder)
    encoded = encoder.encode_documents([Document("1", "de", LONG)])
    offsets = encoded.passages[0].offsets
    assert (offsets[0, 0], offsets[-1, 1]) == (0, len(LONG))
    assert (offsets[1:, 0] < offsets[:-1, 1]).all()
    assert [len(words(LONG[start:end], "de")) for start, end in offsets[:-1]] == [126] * (len(offsets) - 1)
    assert np.linalg.norm(encoded.passages[0].unit_vectors(), axis=1).min() > 0.99
    titles = ["en1x4", "unknown words", ""]
    passages = encoder.encode_documents([Document("1", "en", "en1x1 en1x2", title) for title in titles]).passages
    assert [one.has_title for one in passages] == [True, False, False]
    assert passages[0].offsets[-1].tolist() == [0, len("en1x4")]
    (title,) = encoder.encode_queries([Document("q", "en", "en1x4")])
    assert passages[0].unit_vectors()[-1] @ title > 0.999
    assert not encoder.encode_documents([Document("1", "en", "", "en1x4")]).passages[0].has_title


def test_what_it_does_not_know_is_said_and_is_no_nan(folder: ModelFolder) -> None:
    texts = [("de", "nichts davon bekannt"), ("de", ""), ("de", "de1x1"), ("ja", "de1x1")]
    encoded = open_encoder(folder).encode_documents([Document(text, lang, text) for lang, text in texts])
    assert encoded.known.tolist() == [[False], [False], [True], [False]]
    assert np.isfinite(encoded.vectors).all()
    assert not encoded.vectors[[0, 1, 3]].any()
    assert [len(one.offsets) for one in encoded.passages] == [0, 0, 1, 0]
    assert not open_encoder(folder).encode_queries([Document("q", "ja", "hana")]).any()


def test_builds_of_one_model_are_interchangeable(trained: Cr5, tmp_path: Path) -> None:
    exact, small = (publish(trained.model_, tmp_path / precision, precision, {}) for precision in ("fp32", "int8"))
    assert open_encoder(exact).spec.model == open_encoder(small).spec.model
    assert open_encoder(exact).spec.build != open_encoder(small).spec.build
    assert (small.path / DATA).stat().st_size < (exact.path / DATA).stat().st_size + 8192


def test_the_folder_and_its_method_belong_together(folder: ModelFolder, default_folder: ModelFolder) -> None:
    assert default_method(folder) == "cr5"
    with pytest.raises(BadInput, match=r"can't be used by method segments; method cr5 works only with folders"):
        open_encoder(folder, "segments")
    with pytest.raises(BadInput, match=r"can't be used by method cr5"):
        open_encoder(default_folder, "cr5")
    with pytest.raises(BadInput, match=r"sums words \(Cr5\) and is no sentence encoder"):
        SentenceEncoder(folder)


def test_a_damaged_folder_is_one_sentence(trained: Cr5, tmp_path: Path) -> None:
    folder = publish(trained.model_, tmp_path / "m", "fp32", {})
    (folder.path / DATA).write_bytes(b"short")
    with pytest.raises(BadInput, match=r"model.onnx.data is not there or not of [\d,]+ bytes; train it again"):
        open_encoder(folder)
    table = np.memmap((trained_again := publish(trained.model_, tmp_path / "n", "fp32", {})).path / DATA, np.float32)
    table[-1] = np.nan
    table.flush()
    every = [Document("d", lang, " ".join(words)) for lang, words in trained.model_.vocabularies.items()]
    with pytest.raises(BadInput, match=r"the model has vectors that are no numbers; train it again"):
        open_encoder(trained_again).encode_documents(every)
    words = json.loads(folder.tokenizer.read_text(encoding="utf-8"))
    for other in ({**words, "de": words["de"][::-1]}, ["a"], {"en": 5}):
        folder.tokenizer.write_text(json.dumps(other))
        with pytest.raises(BadInput, match=r"vocabulary.json is not the one that the model was made with; train it"):
            open_encoder(folder)
    folder.tokenizer.write_text("{")
    with pytest.raises(BadInput, match=r"vocabulary.json can't be read .*; train it again"):
        open_encoder(folder)


def test_by_the_cards_rules_alone_others_find_the_same_words(folder: ModelFolder) -> None:
    card = re.sub(r"`, |` is", "`\n", (folder.path / "MODEL_CARD.md").read_text(encoding="utf-8"))
    word, without_blanks, katakana, hiragana, han, thai = re.findall(r"`(.*\[.*)`", card)[-6:]
    marks = "".join(m for code in range(0x300, 0x10000) if unicodedata.category(m := chr(code)).startswith("M"))
    cut = re.compile(f"({katakana}+)|({hiragana}+|{han}+)|({thai}+)|({without_blanks.replace('[', '[^', 1)}+)")

    def found(text: str, lang: str) -> list[str]:
        text = text.replace("I", "ı").replace("İ", "i") if lang == "tr" else text
        text = unicodedata.normalize("NFKC", text.replace("\u00ad", "")).casefold()
        told = []
        for one in re.findall(word.replace("M", marks), text):
            runs = [(run[0], (0, 2, 3, 0)[(run.lastindex or 1) - 1]) for run in cut.finditer(one)]
            for run, size in runs if re.search(without_blanks, one) else [(one, 0)]:
                told += [run[at : at + size] for at in range(max(len(run) - size + 1, 1))] if size else [run]
        return told

    texts = "DIŞARI İYİ 1_000 ﬁn|Do\u00adku\u00adment|東京タワーはどこですか한국어|สวัสดี ครับ ok|नमस्ते दुनिया|Äpfel, l’été"
    for text, lang in product(texts.split("|"), ("tr", "de")):
        assert found(text, lang) == words(text, lang)


FRENCH = Document("2", "fr", "fr3x1 fr3x2 fr3x0")
GERMAN = Document("1", "de", " ".join(f"de1x{number % 5}" for number in range(200)), title="de1x4")
NOTHING = Document("3", "ja", "hana")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[ModelFolder]:
    place = tmp_path_factory.mktemp("models")
    wide = Cr5(Cr5Settings(dimensions=8, ridge=0.3)).fit(corpus(["de", "en", "fr"]))
    narrow = Cr5(Cr5Settings(dimensions=6, ridge=0.3)).fit(corpus(["de", "en"], seed=1))
    return [publish(one.model_, place / name, "fp32", {}) for one, name in ((wide, "wide"), (narrow, "narrow"))]


def test_vectors_and_passages_are_those_of_both_with_equal_weight(folders: list[ModelFolder]) -> None:
    parts = [open_encoder(folder) for folder in folders]
    both = Combined(parts)
    expected = np.concatenate([part.encode_queries([GERMAN]) for part in parts], axis=1) / np.sqrt(2)
    np.testing.assert_allclose(both.encode_queries([GERMAN]), expected, atol=1e-6)
    np.testing.assert_allclose(both.encode_documents([GERMAN]).vectors, expected, atol=1e-6)
    assert (both.spec.dim, both.spec.widths, both.spec.languages) == (14, (8, 6), ("de", "en", "fr"))
    (passages,) = both.encode_documents([GERMAN]).passages
    first, second = (part.encode_documents([GERMAN]).passages[0] for part in parts)
    assert len(passages.offsets) > 1
    np.testing.assert_array_equal(passages.offsets, first.offsets)
    expected = np.concatenate([first.unit_vectors(), second.unit_vectors()], axis=1) / np.sqrt(2)
    assert (passages.unit_vectors() * expected).sum(axis=1).min() > 0.999


def test_what_one_part_does_not_know_is_known_by_the_other_and_said(folders: list[ModelFolder]) -> None:
    encoded = Combined([open_encoder(folder) for folder in folders]).encode_documents([GERMAN, FRENCH, NOTHING])
    assert encoded.known.tolist() == [[True, True], [True, False], [False, False]]
    assert not encoded.vectors[1, 8:].any()
    np.testing.assert_allclose(np.linalg.norm(encoded.vectors, axis=1), [1, 1, 0], atol=1e-6)
    assert not encoded.passages[1].vectors[:, 8:].any()


def test_without_passages_of_the_first_the_next_ones_are_taken_where_spans_meet(folders: list[ModelFolder]) -> None:
    wide, narrow = (open_encoder(folder) for folder in folders)
    (passages,) = Combined([narrow, wide]).encode_documents([FRENCH]).passages
    assert len(passages.offsets) == 1
    assert not passages.vectors[0, :6].any()
    assert passages.vectors[0, 6:].any()
    spans = np.array([(0, 10), (8, 20), (40, 50)], np.int32)
    others = np.array([(0, 4), (4, 12), (12, 30)], np.int32)
    assert nearest_spans(spans, others) == [1, 2, None]
    assert nearest_spans(spans, others[:0]) == [None, None, None]


@pytest.mark.parametrize(
    ("names", "method", "said"),
    [
        (("wide", "wide"), None, "the same vectors twice"),
        (("wide", "narrow"), "cr5", r"is 2 encoders, and cr5 \(--method, or else the collection's\) is 1 method;"),
        (("wide", "missing"), None, "there is no encoder"),
    ],
)
def test_what_is_no_combination_is_one_sentence(
    folders: list[ModelFolder], names: tuple[str, str], method: str | None, said: str
) -> None:
    place: Path = folders[0].path.parent
    with pytest.raises(BadInput, match=said):
        open_named(SEPARATOR.join(str(place / name) for name in names), method, Console(quiet=True))
