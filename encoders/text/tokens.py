"""Text → token ids with their offsets in the text, without special tokens and prefixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tokenizers

from encoders.document import Int32Array
from encoders.errors import BadInput
from encoders.folder import ModelFolder
from encoders.text.segmentation import cut_at_blanks

_BLOCK = 50_000
"""Characters tokenised at once; a longer text, say a line of five megabytes, is cut at blanks if it has any."""


Span = tuple[int, int]
"""First token of a piece of a text, and the piece's end."""


@dataclass(frozen=True)
class Tokens:
    """The tokens of one text.

    Attributes:
        ids: (tokens,) int32, without special tokens.
        offsets: (tokens, 2) int32, start and end of each in characters; a blank before a word is part of it.
        known: false if all tokens are blanks or the unknown token.
    """

    ids: Int32Array
    offsets: Int32Array
    known: bool

    def __len__(self) -> int:
        """Number of tokens."""
        return len(self.ids)

    def tokens_in(self, start: int, end: int) -> Span:
        """The tokens that end inside a span of characters: each token belongs to one of several adjacent spans."""
        first, last = np.searchsorted(self.offsets[:, 1], (start, end), side="right")
        return int(first), int(last)

    def ids_of(self, span: Span, heading: int = 0) -> Int32Array:
        """The ids of a span; before a span that begins after the first ``heading`` tokens, these are put."""
        ids = self.ids[slice(*span)]
        return np.concatenate((self.ids[:heading], ids)) if 0 < heading <= span[0] else ids


class Tokenizer:
    """A model's tokenizer, with the special tokens and prefixes that the model wants around a text: the overheads."""

    def __init__(self, folder: ModelFolder) -> None:
        """Load ``tokenizer.json``; the prefixes are in the folder's ``config.json``.

        Raises:
            BadInput: the file is no tokenizer.
        """
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(folder.tokenizer))
        except Exception as error:  # the library raises plain Exceptions
            raise BadInput(f"{folder.tokenizer} is no tokenizer ({error}); export the model again") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        before, after = self._around()
        self._query = _around_text(before + self._plain(folder.config.query_prefix), after)
        self._document = _around_text(before + self._plain(folder.config.document_prefix), after)
        self.query_overhead = sum(map(len, self._query))
        self.document_overhead = sum(map(len, self._document))
        padding = [self._tokenizer.token_to_id(token) for token in ("<pad>", "[PAD]")]
        empty = [self._tokenizer.token_to_id(token) for token in ("▁", "<unk>", "[UNK]")]
        self._empty = np.array([index for index in empty if index is not None], dtype=np.int32)
        self.pad = next((index for index in padding if index is not None), 0)

    def tokenize(self, texts: Sequence[str]) -> list[Tokens]:
        """All tokens of each text."""
        blocks = [cut_at_blanks(text, _BLOCK // 2, _BLOCK, " \n") for text in texts]
        flat = [text[start:end] for text, spans in zip(texts, blocks, strict=True) for start, end in spans]
        encodings = iter(self._tokenizer.encode_batch(flat, add_special_tokens=False))
        return [self._join([(start, next(encodings)) for start, _ in spans]) for spans in blocks]

    def _join(self, pieces: Sequence[tuple[int, tokenizers.Encoding]]) -> Tokens:
        ids = np.concatenate([np.asarray(encoding.ids, dtype=np.int32) for _, encoding in pieces])
        offsets = np.concatenate(
            [
                np.asarray(encoding.offsets, dtype=np.int32).reshape(-1, 2) + np.int32(start)
                for start, encoding in pieces
            ]
        )
        return Tokens(ids, offsets, known=not np.isin(ids, self._empty).all())

    def query(self, ids: Int32Array) -> Int32Array:
        """A query's ids with special tokens and prefix."""
        return np.concatenate((self._query[0], ids, self._query[1]), dtype=np.int32)

    def segment(self, ids: Int32Array) -> Int32Array:
        """A document segment's ids with special tokens and prefix."""
        return np.concatenate((self._document[0], ids, self._document[1]), dtype=np.int32)

    def _plain(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text.rstrip(), add_special_tokens=False).ids) if text else []

    def _around(self) -> tuple[list[int], list[int]]:
        bare = self._tokenizer.encode("a", add_special_tokens=False).ids
        full = self._tokenizer.encode("a", add_special_tokens=True).ids
        for position in range(len(full) - len(bare) + 1):
            if full[position : position + len(bare)] == bare:
                return list(full[:position]), list(full[position + len(bare) :])
        raise BadInput("the tokenizer changes a text when it adds special tokens; export the model again")


def _around_text(before: Sequence[int], after: Sequence[int]) -> tuple[Int32Array, Int32Array]:
    return np.array(before, dtype=np.int32), np.array(after, dtype=np.int32)
