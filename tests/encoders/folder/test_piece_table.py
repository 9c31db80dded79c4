"""A short text's tokens by the table of pieces: the same as by the whole vocabulary."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tokenizers import models

from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder
from encoders.folder.piece_table import PieceTable, save_pieces
from encoders.text.tokens import Tokenizer
from tests.conftest import opened_once


@hypothesis_settings(max_examples=200)
@given(st.text(max_size=60))
@example("how do I print a page")
@example("Ｆｉｎｌａｎｄ ﬁn cafe\u0301 日本語のテキスト \t a\u200b  b 🤷‍♀️ ᚛᚛")
@example("▁▁ ▁")
@example("")
def test_tokens_are_those_of_the_whole_vocabulary(default_folder: ModelFolder, text: str) -> None:
    whole = opened_once(default_folder).tokenizer
    (expected,) = whole.tokenize([text, ""])[:1]
    (tokens,) = Tokenizer(default_folder).tokenize([text])
    assert tokens.ids.tolist() == expected.ids.tolist()
    assert list(map(tokens.characters, range(len(tokens)))) == list(map(expected.characters, range(len(expected))))
    assert tokens.known == expected.known


def test_a_short_text_does_not_read_the_whole_vocabulary_until_a_few_were_read(default_folder: ModelFolder) -> None:
    tokenizer, read = Tokenizer(default_folder), []
    for text in ("how do I print a page", "", " ", *["cats"] * 3):
        tokenizer.tokenize([text])
        read.append(tokenizer._whole is not None)
    assert read == [False] * 4 + [True] * 2
    several = Tokenizer(default_folder)
    several.tokenize(["cats", "cats"])
    assert several._whole is not None


def test_a_tokenizer_stays_when_another_model_takes_its_folder(default_folder: ModelFolder, tmp_path: Path) -> None:
    folder = replace(default_folder, path=tmp_path / "model")
    shutil.copytree(default_folder.path, folder.path)
    tokenizer = Tokenizer(folder)
    shutil.rmtree(folder.path)
    (by_pieces,) = tokenizer.tokenize(["how do I print a page"])
    assert by_pieces.ids.tolist() == tokenizer.tokenize(["how do I print a page", ""])[0].ids.tolist()
    with pytest.raises(BadInput, match=r"the tokenizer in .*model can't be read .*export the model again"):
        Tokenizer(folder)


def test_a_vocabulary_without_normaliser_and_words_has_a_table(tmp_path: Path) -> None:
    """Scores of unknown characters lie below the rarest piece's, and added tokens are not in the vocabulary."""
    pieces = [("<unk>", 0.0), ("a", -1.0), ("ab", -1.5), ("b", -2.0), (" ", -1.0), ("rare", -30.0), ("é", -9.0)]
    whole = tokenizers.Tokenizer(models.Unigram(pieces, 0, False))
    whole.add_special_tokens(["<mask>", "<pad>"])
    whole.save(str(tmp_path / "tokenizer.json"))
    assert save_pieces(tmp_path / "tokenizer.json", tmp_path / "pieces.db")
    table = PieceTable(tmp_path / "pieces.db")
    for text in ("abab ba", "aéb 字字 x", "rarer", ""):
        expected = whole.encode(text)
        assert table.encode(text) == (expected.ids, expected.offsets)
    assert table.encode("a<mask>") is None
    assert table.ids(["<pad>", "b", "nothing"]) == [whole.token_to_id("<pad>"), 3]


def test_special_tokens_in_a_text_are_left_to_the_whole_vocabulary(default_folder: ModelFolder) -> None:
    assert default_folder.pieces
    table = PieceTable(default_folder.pieces)
    assert table.encode("before</s>after") is None
    assert table.encode("＜s＞") is None


def test_prefixes_and_padding_are_those_of_the_whole_vocabulary(default_folder: ModelFolder) -> None:
    whole, tokenizer = tokenizers.Tokenizer.from_file(str(default_folder.tokenizer)), Tokenizer(default_folder)
    (tokens,) = tokenizer.tokenize(["cats"])
    assert tokenizer.query(tokens.ids).tolist() == whole.encode("query: cats").ids
    assert tokenizer.segment(tokens.ids).tolist() == whole.encode("passage: cats").ids
    assert tokenizer.pad == whole.token_to_id("<pad>")


@pytest.mark.parametrize("model", [models.BPE({"a": 0}, []), models.Unigram([("<unk>", 0.0)], 0, True)])
def test_other_tokenizers_have_no_table(model: models.Model, tmp_path: Path) -> None:
    tokenizers.Tokenizer(model).save(str(tmp_path / "tokenizer.json"))
    assert not save_pieces(tmp_path / "tokenizer.json", tmp_path / "pieces.db")
    assert not (tmp_path / "pieces.db").exists()
