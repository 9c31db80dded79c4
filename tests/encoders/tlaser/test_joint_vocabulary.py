"""The joint vocabulary."""

from encoders.tlaser.joint_vocabulary import learn_vocabulary


def test_the_same_sentences_give_the_same_vocabulary_where_characters_must_be_left_out() -> None:
    """Two hundred characters come twice each and fifty have room: which, may not depend on the process."""
    rare = [chr(0x4E00 + n) for n in range(200)]
    texts = ["a b"] * 5 + ["".join(rare), "".join(reversed(rare))]
    learnt = [learn_vocabulary(iter(texts), 100, "ct") for _ in range(3)]
    assert len({tokenizer.to_str() for tokenizer in learnt}) == 1
    known = {token for token in learnt[0].get_vocab() if len(token) == 1}
    assert known == {"▁", "a", "b", *rare[:47]}


def test_text_is_counted_as_it_is_read() -> None:
    """A full-width letter is the plain one, and a blank is no character of its own."""
    tokenizer = learn_vocabulary(["\uff41 b c"] * 3, 100, "ct")
    assert {token for token in tokenizer.get_vocab() if len(token) == 1} == {"▁", "a", "b", "c"}
