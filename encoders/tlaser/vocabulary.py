"""The joint vocabulary: byte-pair encoding over the sentences of all languages together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, processors, trainers

from encoders.tlaser.settings import Variant

PAD, UNKNOWN, TAG, END = "<pad>", "<unk>", "<str>", "</s>"
PAD_ID, UNKNOWN_ID, TAG_ID, END_ID = range(4)


_BLANK = "▁"
"""What stands for a blank, and before a sentence."""


def learn_vocabulary(sentences: Iterable[str], size: int, variant: Variant) -> tokenizers.Tokenizer:
    """Learn at most ``size`` tokens; fewer where the sentences have no more pairs that come twice.

    Text is taken in NFKC; the rarest characters beyond half of the vocabulary are unknown. The same sentences give the
    same vocabulary. The encoder's input begins with STR_TAG, whose place the embedding is read from; LASER's, which has
    no such place, ends with the end's token.
    """
    texts = list(sentences)
    tokenizer = tokenizers.Tokenizer(models.BPE(unk_token=UNKNOWN, fuse_unk=True))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(_BLANK)
    letters = _alphabet(texts, tokenizer.normalizer, size // 2)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=[PAD, UNKNOWN, TAG, END],
        initial_alphabet=letters,
        limit_alphabet=len(letters),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    template = f"$A {END}" if variant == "laser" else f"{TAG} $A"
    special = [(END, END_ID)] if variant == "laser" else [(TAG, TAG_ID)]
    tokenizer.post_processor = processors.TemplateProcessing(single=template, special_tokens=special)
    return tokenizer


def _alphabet(texts: Sequence[str], normalizer: normalizers.Normalizer, most: int) -> list[str]:
    """The most frequent characters, of two that are alike the earlier in Unicode: the trainer would take either."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(normalizer.normalize_str(text))
    counts.pop(" ", None)
    counts.pop(_BLANK, None)
    return [_BLANK, *sorted(counts, key=lambda letter: (-counts[letter], letter))[: most - 1]]
