"""The joint vocabulary: byte-pair encoding over the sentences of all languages together."""

from collections import Counter
from collections.abc import Iterable

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, processors, trainers

from encoders.tlaser.tlaser_settings import RECURRENT, Variant

PAD, UNKNOWN, TAG, END = "<pad>", "<unk>", "<str>", "</s>"
PAD_ID, UNKNOWN_ID, TAG_ID, END_ID = range(4)


_BLANK = "▁"
"""Character that replaces a blank and begins a sentence."""


def learn_vocabulary(sentences: Iterable[str], size: int, variant: Variant) -> tokenizers.Tokenizer:
    """Learn at most ``size`` tokens, fewer if too few pairs occur twice; the same sentences give the same vocabulary.

    Text is normalised to NFKC; at most half of the vocabulary is characters, the rarest are unknown. The encoder's
    input begins with STR_TAG (``TAG``), whose position holds the embedding; LASER's input ends with ``END`` instead.
    """
    texts = list(sentences)
    tokenizer = tokenizers.Tokenizer(models.BPE(unk_token=UNKNOWN, fuse_unk=True))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(_BLANK)
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(tokenizer.normalizer.normalize_str(text))
    counts.pop(" ", None)
    counts.pop(_BLANK, None)
    # of two equally frequent characters the first in Unicode, where the trainer takes either
    letters = [_BLANK, *sorted(counts, key=lambda letter: (-counts[letter], letter))[: size // 2 - 1]]
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=[PAD, UNKNOWN, TAG, END],
        initial_alphabet=letters,
        limit_alphabet=len(letters),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    template = f"$A {END}" if variant in RECURRENT else f"{TAG} $A"
    special = [(END, END_ID)] if variant in RECURRENT else [(TAG, TAG_ID)]
    tokenizer.post_processor = processors.TemplateProcessing(single=template, special_tokens=special)
    return tokenizer
