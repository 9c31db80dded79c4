"""Documents are cut into windows and sentences without losing a token or a character."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoders.text.segmentation import sentences, windows


@given(tokens=st.integers(0, 2000), size=st.integers(1, 200), share=st.floats(0, 0.99))
def test_windows_cover_every_token_and_none_lies_inside_another(tokens: int, size: int, share: float) -> None:
    overlap = int(size * share)
    spans = windows(tokens, size, overlap)
    assert sorted({at for start, end in spans for at in range(start, end)}) == list(range(tokens))
    for (start, end), (next_start, next_end) in pairwise(spans):
        assert end - start == size
        assert next_start == end - overlap
        assert next_end > end


@pytest.mark.parametrize(
    ("lang", "text", "expected"),
    [
        ("en", "Dr. Smith went home. He slept.", ["Dr. Smith went home.", "He slept."]),
        ("de", "Das ist z. B. gut. Am 3. Mai kam er.", ["Das ist z. B. gut.", "Am 3. Mai kam er."]),
        ("zh", "今天下雨。明天会晴吗？我不知道！", ["今天下雨。", "明天会晴吗？", "我不知道！"]),
        ("zh-Hant", "今天下雨。明天會晴嗎？", ["今天下雨。", "明天會晴嗎？"]),
        ("ja", "今日は雨です。明日は晴れるでしょう。", ["今日は雨です。", "明日は晴れるでしょう。"]),
        ("hi", "यह एक वाक्य है। यह दूसरा है।", ["यह एक वाक्य है।", "यह दूसरा है।"]),
        ("ar", "هل تعلم ذلك؟ لا أعلم.", ["هل تعلم ذلك؟", "لا أعلم."]),
        ("und", "One here. Two there.", ["One here.", "Two there."]),
        ("en", "A title\nA sentence.\n\n  Another.  ", ["A title", "A sentence.", "Another."]),
        ("en", " \n\t ", []),
    ],
)
def test_sentences_of_many_languages(lang: str, text: str, expected: list[str]) -> None:
    assert [text[start:end] for start, end in sentences(text, lang)] == expected


def test_thai_sentences_end_where_no_mark_stands() -> None:
    sentence = ["ฉันไปประชุมเมื่อวันที่ 11 มีนาคม วันนี้อากาศดีมาก", "เขาไปโรงเรียนทุกวัน", "แม่ทำอาหารอยู่ในครัว"]
    text = " ".join(sentence)
    assert [text[start:end] for start, end in sentences(text, "th")] == sentence


def test_lao_without_sentence_marks_is_cut_at_blanks() -> None:
    text = "ປະເທດລາວມີປະຊາກອນຫຼາຍ " * 60
    pieces = [text[start:end] for start, end in sentences(text, "lo")]
    assert len(pieces) > 2
    assert "".join(pieces).replace(" ", "") == text.replace(" ", "")
    assert all(piece.startswith("ປະເທດ") for piece in pieces)


@given(st.text(alphabet="ab .!?。\n\r\t\u2028éя字", max_size=300), st.sampled_from(["en", "ja", "th", "und", "zh"]))
def test_sentences_keep_every_character_that_is_not_blank(text: str, lang: str) -> None:
    spans = sentences(text, lang)
    assert "".join("".join(text[start:end].split()) for start, end in spans) == "".join(text.split())
    assert all(start < end for start, end in spans)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
