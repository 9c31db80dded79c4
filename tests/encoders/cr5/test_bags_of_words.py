"""The encoder of a Cr5 folder: the same by the direct path and by ONNX Runtime, passages with their places."""

import dataclasses
import json
import re
import unicodedata
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from encoders.cr5.bags_of_words import DATA, BagsOfWords
from encoders.cr5.estimator import Cr5
from encoders.document import Document
from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder
from encoders.methods.method_registry import default_method, open_encoder
from encoders.methods.sentence import SentenceEncoder
from encoders.text.words import words
from onnx_export.cr5_folder import publish

LONG = " ".join(f"de1x{number % 5} Füllwort," for number in range(200))


@pytest.fixture(scope="module", params=["fp32", "int8"])
def folder(request: pytest.FixtureRequest, trained: Cr5, tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    return publish(trained.model_, tmp_path_factory.mktemp("m") / "words", request.param, {"Ridge": "0.3"})


def test_documents_and_queries_go_the_way_of_the_estimator(folder: ModelFolder, trained: Cr5) -> None:
    documents = [Document("1", "de", LONG), Document("2", "en", "en1x1 EN1x2 en1x1", title="en1x4")]
    encoder = open_encoder(folder)
    expected = trained.model_.encode(documents)
    assert (encoder.encode_documents(documents).vectors * expected).sum(axis=1).min() > 0.9999
    assert (encoder.encode_queries(documents) * expected).sum(axis=1).min() > 0.9999


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


def test_passages_are_windows_that_overlap_and_have_places(folder: ModelFolder) -> None:
    encoded = open_encoder(folder).encode_documents([Document("1", "de", LONG)])
    offsets = encoded.passages[0].offsets
    assert offsets[0, 0] == 0
    assert offsets[-1, 1] == len(LONG)
    assert (offsets[1:, 0] < offsets[:-1, 1]).all()
    assert [len(words(LONG[start:end], "de")) for start, end in offsets[:-1]] == [126] * (len(offsets) - 1)
    assert np.linalg.norm(encoded.passages[0].unit_vectors(), axis=1).min() > 0.99


def test_the_title_is_the_last_passage(folder: ModelFolder) -> None:
    encoder = open_encoder(folder)
    titles = ["en1x4", "unknown words", ""]
    passages = encoder.encode_documents([Document("1", "en", "en1x1 en1x2", title) for title in titles]).passages
    assert [one.has_title for one in passages] == [True, False, False]
    assert passages[0].offsets[-1].tolist() == [0, len("en1x4")]
    (title,) = encoder.encode_queries([Document("q", "en", "en1x4")])
    assert passages[0].unit_vectors()[-1] @ title > 0.999
    assert not encoder.encode_documents([Document("1", "en", "", "en1x4")]).passages[0].has_title


def test_what_it_does_not_know_is_said_and_is_no_nan(folder: ModelFolder) -> None:
    texts = ["nichts davon bekannt", "", "de1x1"]
    encoded = open_encoder(folder).encode_documents(
        [*(Document(text, "de", text) for text in texts), Document("other", "ja", "de1x1")]
    )
    assert encoded.known.tolist() == [[False], [False], [True], [False]]
    assert np.isfinite(encoded.vectors).all()
    assert not encoded.vectors[[0, 1, 3]].any()
    assert [len(one.offsets) for one in encoded.passages] == [0, 0, 1, 0]


def test_nothing_is_known_of_a_query_in_a_language_it_lacks(folder: ModelFolder) -> None:
    assert not open_encoder(folder).encode_queries([Document("q", "ja", "hana")]).any()


def test_a_vector_does_not_depend_on_what_it_was_encoded_with(folder: ModelFolder) -> None:
    encoder = open_encoder(folder)
    documents = [Document(str(n), "de", f"de{n}x1 de{n}x2 defill{n}") for n in range(8)]
    together = encoder.encode_documents(documents).vectors
    alone = np.concatenate([encoder.encode_documents([one]).vectors for one in documents])
    np.testing.assert_allclose(together, alone, atol=1e-6)


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
    card = (folder.path / "MODEL_CARD.md").read_text(encoding="utf-8")
    word, without_blanks, katakana, hiragana, han, thai = re.findall(r"`(.*\[.*)`", re.sub(r"`, |` is", "`\n", card))[
        -6:
    ]
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

    texts = [
        "DIŞARI İYİ 1_000 ﬁn",
        "Do\u00adku\u00adment",
        "東京タワーはどこですか한국어",
        "สวัสดี ครับ ok",
        "नमस्ते दुनिया",
        "Äpfel, l’été",
    ]
    for text in texts:
        for lang in ("tr", "de"):
            assert found(text, lang) == words(text, lang)


def test_the_card_says_what_it_was_made_of(folder: ModelFolder) -> None:
    card = (folder.path / "MODEL_CARD.md").read_text()
    assert "- Ridge: 0.3" in card
    assert "Words: de 60, en 60, fr 60." in card
    assert dataclasses.asdict(folder.config)["languages"] == ("de", "en", "fr")
