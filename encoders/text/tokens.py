"""Text → token ids with their offsets in the text, without special tokens and prefixes."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from threading import Lock

import numpy as np
import tokenizers

from encoders.document import Int32Array
from encoders.errors import BadInput
from encoders.folder import ModelFolder
from encoders.pieces import PieceTable, special_tokens_around
from encoders.text.segmentation import cut_at_blanks

_BLOCK = 50_000
"""Characters tokenised at once; a longer text, say a line of five megabytes, is cut at blanks if it has any."""
_SHORT = 1_000
"""Characters of a short text, say a query."""
_SHORT_TEXTS = 4
"""Short texts until the whole vocabulary is read, which then takes less time for each text."""


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
        """Open the tokenizer; the prefixes are in the folder's ``config.json``.

        If the folder has a table of the vocabulary's pieces, the whole vocabulary is parsed only for a long text, for
        several texts at once, or after a few short texts. The files are read now: another model may take the folder's
        place later.

        Raises:
            BadInput: a file can't be read, or is no tokenizer.
        """
        self._path = folder.tokenizer
        self._whole: tokenizers.Tokenizer | None = None
        self._lock = Lock()
        self._short_texts = 0
        try:
            self._file = folder.tokenizer.read_bytes()
            self._table = PieceTable(folder.pieces) if folder.pieces else None
        except (OSError, sqlite3.Error) as error:
            raise BadInput(f"the tokenizer in {folder.path} can't be read ({error}); export the model again") from error
        around = self._table.around if self._table else special_tokens_around(self._read_whole())
        if around is None:
            raise BadInput("the tokenizer changes a text when it adds special tokens; export the model again")
        before, after = around
        self._query = _around_text([*before, *self._plain(folder.config.query_prefix)], after)
        self._document = _around_text([*before, *self._plain(folder.config.document_prefix)], after)
        self.query_overhead = sum(map(len, self._query))
        self.document_overhead = sum(map(len, self._document))
        self._empty = frozenset(self._ids_of("▁", "<unk>", "[UNK]"))
        self.pad = next(iter(self._ids_of("<pad>", "[PAD]")), 0)

    def tokenize(self, texts: Sequence[str]) -> list[Tokens]:
        """All tokens of each text."""
        if len(texts) == 1 and (tokens := self._tokenize_short(texts[0])) is not None:
            return [tokens]
        whole = self._read_whole()
        spans_of_texts = [cut_at_blanks(text, _BLOCK // 2, _BLOCK, " \n") for text in texts]
        flat = [text[start:end] for text, spans in zip(texts, spans_of_texts, strict=True) for start, end in spans]
        encodings = iter(whole.encode_batch(flat, add_special_tokens=False))
        return [
            self._joined(
                [
                    (start, encoding.ids, encoding.offsets)
                    for (start, _), encoding in zip(spans, encodings, strict=False)
                ]
            )
            for spans in spans_of_texts
        ]

    def _read_whole(self) -> tokenizers.Tokenizer:
        """The tokenizer with its whole vocabulary."""
        with self._lock:
            if self._whole is None:
                try:
                    self._whole = tokenizers.Tokenizer.from_buffer(self._file)
                except Exception as error:  # the library raises plain Exceptions
                    raise BadInput(f"{self._path} is no tokenizer ({error}); export the model again") from error
                self._whole.no_truncation()
                self._whole.no_padding()
                self._file = b""
            return self._whole

    def _tokenize_short(self, text: str) -> Tokens | None:
        """The tokens of a short text by the pieces in it; none if the whole vocabulary should tokenise the text."""
        if not self._table or len(text) > _SHORT:
            return None
        with self._lock:
            if self._whole or self._short_texts == _SHORT_TEXTS:
                return None
            self._short_texts += 1
        encoding = self._table.encode(text)
        return self._joined([(0, *encoding)]) if encoding else None

    def _plain(self, text: str) -> list[int]:
        text = text.rstrip()
        if not text:
            return []
        if self._table and (encoding := self._table.encode(text)):
            return encoding[0]
        return list(self._read_whole().encode(text, add_special_tokens=False).ids)

    def _ids_of(self, *tokens: str) -> list[int]:
        """Ids of the tokens that the vocabulary has."""
        if self._table:
            return self._table.ids(tokens)
        ids = map(self._read_whole().token_to_id, tokens)
        return [token_id for token_id in ids if token_id is not None]

    def _joined(self, blocks: Sequence[tuple[int, Sequence[int], Sequence[tuple[int, int]]]]) -> Tokens:
        """The tokens of a text from the start, ids and offsets of each of its blocks."""
        offsets = [
            np.fromiter(chain.from_iterable(spans), np.int32, 2 * len(spans)).reshape(-1, 2) + np.int32(start)
            for start, _, spans in blocks
        ]
        return Tokens(
            np.concatenate([np.fromiter(block_ids, np.int32, len(block_ids)) for _, block_ids, _ in blocks]),
            np.concatenate(offsets),
            known=any(token_id not in self._empty for _, block_ids, _ in blocks for token_id in block_ids),
        )

    def query(self, ids: Int32Array) -> Int32Array:
        """A query's ids with special tokens and prefix."""
        return np.concatenate((self._query[0], ids, self._query[1]), dtype=np.int32)

    def segment(self, ids: Int32Array) -> Int32Array:
        """A document segment's ids with special tokens and prefix."""
        return np.concatenate((self._document[0], ids, self._document[1]), dtype=np.int32)


def _around_text(before: Sequence[int], after: Sequence[int]) -> tuple[Int32Array, Int32Array]:
    return np.array(before, dtype=np.int32), np.array(after, dtype=np.int32)
