"""A short text's tokens by the table of pieces: the same as by the whole vocabulary."""

from pathlib import Path

import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tokenizers import models

from encoders.errors import BadInput
from encoders.folder import ModelFolder
from encoders.pieces import PieceTable, save_pieces
from encoders.text.tokens import Tokenizer
from tests.conftest import opened_once


@hypothesis_settings(max_examples=200, deadline=None)
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
    assert tokens.offsets.tolist() == expected.offsets.tolist()
    assert tokens.known == expected.known


def test_a_short_text_does_not_read_the_whole_vocabulary(default_folder: ModelFolder) -> None:
    tokenizer = Tokenizer(default_folder)
    tokenizer._file = default_folder.path / "nothing"
    tokenizer.tokenize(["how do I print a page"])
    with pytest.raises(BadInput, match="nothing is no tokenizer"):
        tokenizer.tokenize(["how do I print", "a page"])


def test_special_tokens_in_a_text_are_left_to_the_whole_vocabulary(default_folder: ModelFolder) -> None:
    assert default_folder.pieces
    table = PieceTable(default_folder.pieces)
    assert table.encode("before</s>after") is None
    assert table.encode("＜s＞") is None


def test_after_a_few_texts_the_whole_vocabulary_is_read(default_folder: ModelFolder) -> None:
    tokenizer = Tokenizer(default_folder)
    read = []
    for _ in range(6):
        tokenizer.tokenize(["how do I print a page"])
        read.append(tokenizer._whole is not None)
    assert read == [False] * 4 + [True] * 2


def test_prefixes_and_padding_are_those_of_the_whole_vocabulary(default_folder: ModelFolder, tmp_path: Path) -> None:
    whole = tokenizers.Tokenizer.from_file(str(default_folder.tokenizer))
    tokenizer = Tokenizer(default_folder)
    (tokens,) = tokenizer.tokenize(["cats"])
    assert tokenizer.query(tokens.ids).tolist() == whole.encode("query: cats").ids
    assert tokenizer.segment(tokens.ids).tolist() == whole.encode("passage: cats").ids
    assert tokenizer.pad == whole.token_to_id("<pad>")


@pytest.mark.parametrize("model", [models.BPE({"a": 0}, []), models.Unigram([("<unk>", 0.0)], 0, True)])
def test_other_tokenizers_have_no_table(model: models.Model, tmp_path: Path) -> None:
    tokenizers.Tokenizer(model).save(str(tmp_path / "tokenizer.json"))
    assert not save_pieces(tmp_path / "tokenizer.json", tmp_path / "pieces.db")
    assert not (tmp_path / "pieces.db").exists()
