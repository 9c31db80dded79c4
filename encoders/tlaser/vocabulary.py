"""The joint vocabulary: byte-pair encoding over the sentences of all languages together."""

from __future__ import annotations

from collections.abc import Iterator

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, processors, trainers

from encoders.tlaser.settings import Variant

PAD, UNKNOWN, TAG, END = "<pad>", "<unk>", "<str>", "</s>"
PAD_ID, UNKNOWN_ID, TAG_ID, END_ID = range(4)


def learn_vocabulary(sentences: Iterator[str], size: int, variant: Variant) -> tokenizers.Tokenizer:
    """Learn at most ``size`` tokens; fewer where the sentences have no more pairs that come twice.

    Text is taken in NFKC; the rarest characters beyond half of the vocabulary are unknown. The encoder's input begins
    with STR_TAG, whose place the embedding is read from; LASER's, which has no such place, ends with the end's token.
    """
    tokenizer = tokenizers.Tokenizer(models.BPE(unk_token=UNKNOWN, fuse_unk=True))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=[PAD, UNKNOWN, TAG, END],
        limit_alphabet=size // 2,
        show_progress=False,
    )
    tokenizer.train_from_iterator(sentences, trainer)
    template = f"$A {END}" if variant == "laser" else f"{TAG} $A"
    special = [(END, END_ID)] if variant == "laser" else [(TAG, TAG_ID)]
    tokenizer.post_processor = processors.TemplateProcessing(single=template, special_tokens=special)
    return tokenizer
