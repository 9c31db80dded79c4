"""Tokenising by ``tokie``, 30 times as fast as ``tokenizers``, for models of which both make the same tokens."""

import json
import logging
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers

from encoders.phrases import first_line

GATE_TEXTS = Path(__file__).with_name("gate_texts.jsonl")
"""The parity gate's texts: JSON lines of ``lang``, ``role`` and ``text``."""
BlockTokens = tuple[Sequence[int], Callable[[int], Any]]
"""Ids of a block's tokens, and a function from a token's place to its start and end in characters."""
_STRINGS = 6_000
_logger = logging.getLogger("dragoman.encoders")


class FastTokenizer:
    """``tokie`` for blocks in which the normaliser replaces single characters alone, and all of them are known."""

    def __init__(self, file: Path, whole: tokenizers.Tokenizer, unknown: str) -> None:
        """Read a unigram tokenizer's file, whose ``unknown`` piece is named. Raises ImportError: there is no tokie."""
        import tokie  # noqa: PLC0415 - of the extras for GPUs

        self._tokie = tokie.Tokenizer.from_json(str(file))
        self._normalised: Callable[[str], str] = whole.normalizer.normalize_str if whole.normalizer else str
        self._special = {token.content for token in whole.get_added_tokens_decoder().values()}
        pieces = whole.get_vocab()
        self._lengths = np.full(max(pieces.values()) + 1, 1_000_000)  # of what stands for others: no block is as long
        for piece in pieces.keys() - self._special - {unknown}:
            self._lengths[pieces[piece]] = len(piece)
        self._replaced: set[tuple[int, int]] = set()

    def encode(self, block: str) -> BlockTokens | None:
        """The block's tokens; none if ``tokenizers`` must make them."""
        text = self._normalised(block)
        if len(text) != len(block) or any(token in text or token in block for token in self._special):
            return None
        signs, others = (np.frombuffer(characters.encode("utf-32-le"), np.uint32) for characters in (text, block))
        replaced = {*zip(signs[signs != others].tolist(), others[signs != others].tolist(), strict=True)}
        if any(self._normalised(chr(other)) != chr(sign) for sign, other in replaced - self._replaced):
            return None
        self._replaced |= replaced
        ids: list[int] = self._tokie.encode(text, add_special_tokens=False).ids
        ends = self._lengths[ids].cumsum()
        blank = ends[-1] - len(text) if ids else -1
        if blank not in (0, 1):  # characters of the blank that is put before the first word
            return None
        return ids, lambda token: (ends[token - 1] - blank if token else 0, max(ends[token] - blank, 1))


def fast_tokenizer(file: Path, whole: tokenizers.Tokenizer, unknown: str) -> FastTokenizer | None:
    """``tokie`` if it is installed, and makes the tokens of the gate's texts and of random strings as ``whole``."""
    try:
        fast = FastTokenizer(file, whole, unknown)
    except Exception as error:  # noqa: BLE001 - tokie is not installed, or can't read the file: an error of its own
        _logger.info("tokenizers tokenises: %s", first_line(error))
        return None
    draw, pieces = random.Random(0), sorted(whole.get_vocab())  # noqa: S311 - no secret
    blocks = [json.loads(line)["text"] for line in GATE_TEXTS.read_text(encoding="utf-8").splitlines()]
    for _ in range(_STRINGS):
        words = draw.choices(pieces, k=draw.randrange(1, 20))
        blocks.append("".join(words).replace("▁", " ") + chr(draw.randrange(0x20, 0xD800)))
    for block, encoding in zip(blocks, whole.encode_batch(blocks, add_special_tokens=False), strict=True):
        tokens = fast.encode(block)
        if tokens and (tokens[0], [*map(tokens[1], range(len(tokens[0])))]) != (encoding.ids, encoding.offsets):
            _logger.warning("tokie makes other tokens of %r; tokenizers tokenises", block)
            return None
    return fast
