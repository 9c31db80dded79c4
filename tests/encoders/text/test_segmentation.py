"""Windows and sentences lose nothing; words are cut by their script; tokens by the table of pieces are the same."""

import shutil
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from unittest.mock import Mock

import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tokenizers import models

from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder
from encoders.folder.piece_table import PieceTable, save_pieces
from encoders.text.segmentation import sentences, windows
from encoders.text.tokens import Tokenizer, Tokens
from encoders.text.words import pieces, words
from tests.conftest import Patch, opened_once


@given(tokens=st.integers(0, 2000), size=st.integers(1, 200), share=st.floats(0, 0.99))
def test_windows_cover_every_token_and_none_lies_inside_another(tokens: int, size: int, share: float) -> None:
    overlap = int(size * share)
    spans = windows(tokens, size, overlap)
    assert sorted({at for start, end in spans for at in range(start, end)}) == list(range(tokens))
    for (start, end), (next_start, next_end) in pairwise(spans):
        assert (end - start, next_start) == (size, end - overlap)
        assert next_end > end


SENTENCES = [
    ("en", "Dr. Smith went home. He slept.", ["Dr. Smith went home.", "He slept."]), ("en", " \n\t ", []),
    ("de", "Das ist z. B. gut. Am 3. Mai kam er.", ["Das ist z. B. gut.", "Am 3. Mai kam er."]),
    ("zh", "今天下雨。明天会晴吗？我不知道！", ["今天下雨。", "明天会晴吗？", "我不知道！"]),
    ("zh-Hant", "今天下雨。明天會晴嗎？", ["今天下雨。", "明天會晴嗎？"]),
    ("ja", "今日は雨です。明日は晴れるでしょう。", ["今日は雨です。", "明日は晴れるでしょう。"]),
    ("hi", "यह एक वाक्य है। यह दूसरा है।", ["यह एक वाक्य है।", "यह दूसरा है।"]),
    ("ar", "هل تعلم ذلك؟ لا أعلم.", ["هل تعلم ذلك؟", "لا أعلم."]), ("und", "One. Two there.", ["One.", "Two there."]),
    ("en", "A title\nA sentence.\n\n  Another.  ", ["A title", "A sentence.", "Another."]),
    ("en", "Plan B\u3000. A sentence.\nZ\xa0.", ["Plan B\u3000. A sentence.", "Z\xa0."]),
]  # fmt: skip


@pytest.mark.parametrize(("lang", "text", "expected"), SENTENCES)
def test_sentences_of_many_languages(lang: str, text: str, expected: list[str]) -> None:
    assert [text[start:end] for start, end in sentences(text, lang)] == expected


def test_thai_sentences_end_where_no_mark_stands_and_lao_is_cut_at_blanks() -> None:
    sentence = ["ฉันไปประชุมเมื่อวันที่ 11 มีนาคม วันนี้อากาศดีมาก", "เขาไปโรงเรียนทุกวัน", "แม่ทำอาหารอยู่ในครัว"]
    text = " ".join(sentence)
    assert [text[start:end] for start, end in sentences(text, "th", trained=True)] == sentence
    twice = f"{text} {text}"
    assert [twice[start:end] for start, end in sentences(twice, "th")] == [text, text]  # at blanks
    text = "ປະເທດລາວມີປະຊາກອນຫຼາຍ " * 60
    lao = [text[start:end] for start, end in sentences(text, "lo")]
    assert len(lao) > 2
    assert "".join(lao).replace(" ", "") == text.replace(" ", "")
    assert all(piece.startswith("ປະເທດ") for piece in lao)


_BLANKS_AND_MARKS = "abZ .!?。\n\r\t\u2028\u3000éя字"


@given(st.text(alphabet=_BLANKS_AND_MARKS, max_size=300), st.sampled_from(["en", "ja", "th", "und", "zh"]))
def test_sentences_keep_every_character_that_is_not_blank(text: str, lang: str) -> None:
    spans = sentences(text, lang)
    assert "".join("".join(text[start:end].split()) for start, end in spans) == "".join(text.split())
    assert all(start < end for start, end in spans)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))


WORDS = [
    ("de", "Straße, ÜBER 3 Häuser", ["strasse", "über", "3", "häuser"]), ("tr", "ISI İyi", ["ısı", "iyi"]),
    ("hi", "हिन्दी में", ["हिन्दी", "में"]), ("zh", "中文字 PDF", ["中文", "文字", "pdf"]), ("en", " … ", []),
    ("ja", "ファイルを開く", ["ファイル", "を", "開", "く"]), ("ja", "保存します", ["保存", "しま", "ます"]),
    ("ko", "한국어", ["한국", "국어"]), ("th", "ภาษาไทย", ["ภาษ", "าษา", "ษาไ", "าไท", "ไทย"]),
    ("de", "Do\u00adku\u00adment\u00ad", ["dokument"]), ("zh", "中\u00ad文字", ["中文", "文字"]), ("en", "㎏", ["kg"]),
]  # fmt: skip


@pytest.mark.parametrize(("lang", "text", "expected"), WORDS)
def test_words_are_folded_and_cut_by_their_script(lang: str, text: str, expected: list[str]) -> None:
    assert (words(text, lang), pieces(text, lang, 9).words) == (expected, expected)


@given(st.text(alphabet="ab Ü\n½-中ファひ한ไ.\xa0ſﬀ…ﾊﾟ㋀㎏\u00ad", max_size=200), st.integers(1, 9))
def test_pieces_together_are_the_words_of_the_whole(text: str, size: int) -> None:
    found = pieces(text, "ja", size)
    assert (list(found.words), found.places) == (words(text, "ja"), sorted(found.places))
    assert (found.ends[0], found.ends[-1]) == (0, len(found.words))
    assert (found.places[0], found.places[-1]) == (0, len(text) if found.words else 0)


@given(st.text(alphabet="ab Üß\nИж.,\xa0İ\u00ad", max_size=200), st.integers(1, 9))
def test_a_piece_is_the_words_of_its_place(text: str, size: int) -> None:
    found = pieces(text, "ru", size)
    for (first, last), (start, end) in zip(pairwise(found.ends), pairwise(found.places), strict=True):
        assert found.words[first:last] == words(text[start:end], "ru")


@pytest.mark.parametrize(("end", "count"), [(" \u0345 b", 3), (" \u0345", 2), ("\u0345b", 1)])
def test_a_mark_that_folds_to_a_letter_keeps_pieces_and_places_together(end: str, count: int) -> None:
    text = "a " * 3 + "a" + end
    found = pieces(text, "el", 1)
    assert (list(found.words), len(found.words)) == (words(text, "el"), 3 + count)
    assert len(found.places) == len(found.ends)


def _assert_same(tokens: Tokens, expected: Tokens) -> None:
    assert (tokens.ids.tolist(), tokens.known) == (expected.ids.tolist(), expected.known)
    assert [*map(tokens.characters, range(len(tokens)))] == [*map(expected.characters, range(len(expected)))]


@hypothesis_settings(max_examples=200)
@given(st.text(max_size=60))
@example("how do I print a page")
@example("Ｆｉｎｌａｎｄ ﬁn cafe\u0301 日本語のテキスト \t a\u200b  b 🤷‍♀️ ᚛᚛")
@example("▁▁ ▁")
@example("")
def test_tokens_are_those_of_the_whole_vocabulary(default_folder: ModelFolder, text: str) -> None:
    (tokens,) = Tokenizer(default_folder).tokenize([text])
    _assert_same(tokens, opened_once(default_folder).tokenizer.tokenize([text, ""])[0])


@pytest.mark.parametrize("odd", ["", "itself", "warning signs before a volcano erupts"])
def test_tokie_is_taken_if_its_tokens_are_the_same(default_folder: ModelFolder, monkeypatch: Patch, odd: str) -> None:
    if odd == "itself":
        pytest.importorskip("tokie")
    else:
        whole = tokenizers.Tokenizer.from_file(str(default_folder.tokenizer))
        encode = Mock(
            side_effect=lambda text, **how: Mock(ids=whole.encode(text, **how).ids[:: -1 if text == odd else 1])
        )
        monkeypatch.setitem(sys.modules, "tokie", Mock(**{"Tokenizer.from_json.return_value.encode": encode}))
    tokenizer = Tokenizer(default_folder)
    tokenizer.takes_tokie = True
    texts = ["Two lines\nof हिन्दी", "字", "ﬁn  e", "unknown ᚛", "before</s>after", "＜s＞", ""]
    assert [*map(_assert_same, tokenizer.tokenize(texts), opened_once(default_folder).tokenizer.tokenize(texts))]
    fast = tokenizer._fast
    assert [bool(fast and fast.encode(text)) for text in texts] == [odd in {"", "itself"}] * 2 + [False] * 5


def test_a_short_text_does_not_read_the_whole_vocabulary_until_a_few_were_read(default_folder: ModelFolder) -> None:
    tokenizer, read = Tokenizer(default_folder), []
    for text in ("how do I print a page", "", " ", *["cats"] * 3):
        tokenizer.tokenize([text])
        read.append(tokenizer._whole is not None)
    assert read == [False] * 4 + [True] * 2
    several = Tokenizer(default_folder)
    several.tokenize(["cats", "cats"])
    assert several._whole is tokenizer._whole is not None  # reading it stops all threads for a second


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
        by_pieces = table.encode([text, "a"])
        assert by_pieces
        assert by_pieces[0] == (expected.ids, expected.offsets)
    assert table.encode(["a", "a<mask>"]) is None
    assert table.ids(["<pad>", "b", "nothing"]) == [whole.token_to_id("<pad>"), 3]


def test_special_tokens_prefixes_and_padding_are_those_of_the_whole_vocabulary(default_folder: ModelFolder) -> None:
    whole, tokenizer = tokenizers.Tokenizer.from_file(str(default_folder.tokenizer)), Tokenizer(default_folder)
    (tokens,) = tokenizer.tokenize(["cats"])
    assert tokenizer.query(tokens.ids).tolist() == whole.encode("query: cats").ids
    assert tokenizer.segment(tokens.ids).tolist() == whole.encode("passage: cats").ids
    assert tokenizer.pad == whole.token_to_id("<pad>")
    assert default_folder.pieces
    table = PieceTable(default_folder.pieces)
    assert table.encode(["before</s>after"]) is table.encode(["＜s＞"]) is None, "left to the whole vocabulary"


@pytest.mark.parametrize("model", [models.BPE({"a": 0}, []), models.Unigram([("<unk>", 0.0)], 0, True)])
def test_other_tokenizers_have_no_table(model: models.Model, tmp_path: Path) -> None:
    tokenizers.Tokenizer(model).save(str(tmp_path / "tokenizer.json"))
    assert not save_pieces(tmp_path / "tokenizer.json", tmp_path / "pieces.db")
    assert not (tmp_path / "pieces.db").exists()
