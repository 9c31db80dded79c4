"""Text → token ids and the characters of each, without special tokens and prefixes."""

import sqlite3
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate
from operator import itemgetter
from threading import Lock
from typing import Any

import numpy as np
import tokenizers

from encoders.document import Int32Array
from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder
from encoders.folder.piece_table import PieceTable, special_tokens_around
from encoders.text.fast_tokenizer import BlockTokens, FastTokenizer, fast_tokenizer
from encoders.text.segmentation import cut_at_blanks

_BLOCK = 50_000
"""Characters tokenised at once; a longer text, say a line of five megabytes, is cut at blanks if it has any."""
_SHORT = 8_000
"""Characters of short texts, say of the queries of a batch."""
_SHORT_TEXTS = 4
"""Short texts that come alone until the whole vocabulary is read, which then takes less time for each text."""
_LAST: dict[str, tokenizers.Tokenizer] = {}
"""The whole vocabulary that was read last, by the hash of its file: no thread runs while the library reads one."""


Span = tuple[int, int]
"""First token of a piece of a text, and the piece's end."""


@dataclass(frozen=True)
class Tokens:
    """The tokens of one text."""

    ids: Int32Array  # (tokens,) int32, without special tokens
    known: bool  # false if all tokens are blanks or the unknown token
    # for each block of the text, its first token, its first character, and a function from a token's place in the block
    # to its start and end in the block's characters
    blocks: Sequence[tuple[int, int, Callable[[int], Any]]]

    def __len__(self) -> int:
        return len(self.ids)

    def characters(self, token: int) -> Span:
        """Start and end of a token in characters of the text; a blank before a word is part of the token."""
        first, begin, span_of = self.blocks[bisect_right(self.blocks, token, key=itemgetter(0)) - 1]
        start, end = span_of(token - first)
        return max(begin + int(start), 0), max(begin + int(end), 0)

    def tokens_in(self, start: int, end: int) -> Span:
        """The tokens that end inside a span of characters: each token belongs to one of several adjacent spans."""
        first, last = (
            bisect_right(range(len(self)), place, key=lambda token: self.characters(token)[1]) for place in (start, end)
        )
        return first, last

    def ids_of(self, span: Span, heading: int = 0) -> Int32Array:
        """The ids of a span; before a span that begins after the first ``heading`` tokens, these are put."""
        ids = self.ids[slice(*span)]
        return np.concatenate((self.ids[:heading], ids)) if 0 < heading <= span[0] else ids


class Tokenizer:
    """A model's tokenizer, with the special tokens and prefixes that the model wants around a text: the overheads."""

    def __init__(self, folder: ModelFolder) -> None:
        """Open the tokenizer; the files are read now, because another model may take the folder's place later.

        With a table of pieces, the whole vocabulary is parsed only for long texts, for several documents at once, or
        after a few short texts that came alone. Raises BadInput: a file can't be read, or is no tokenizer.
        """
        self.takes_tokie = False  # once the whole vocabulary is read, where its tokens are the same
        self._fast: FastTokenizer | None = None
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
        query, document = folder.config.query_prefix, folder.config.document_prefix
        self._query_lead = self._document_lead = ""
        if not self._table and isinstance(self._read_whole().model, tokenizers.models.BPE):
            # such a tokenizer joins a prefix's last sign, or the blank after it, with the word that follows
            self._query_lead, query, self._document_lead = query, "", document[len(document.rstrip()) :]
        self._query = _around_text([*before, *self._plain(query)], after)
        self._document = _around_text([*before, *self._plain(document)], after)
        self.query_overhead = sum(map(len, self._query))
        self.document_overhead = sum(map(len, self._document))
        self._empty = frozenset(self._ids_of("▁", "<unk>", "[UNK]"))
        self.pad = next(iter(self._ids_of("<pad>", "[PAD]")), 0)

    def tokenize_queries(self, texts: Sequence[str]) -> list[Tokens]:
        """All tokens of each text as ``query`` takes them: a prefix that can't be put before them is among them."""
        return self._tokenize_short(texts) or self.tokenize(texts, self._query_lead)

    def tokenize(self, texts: Sequence[str], lead: str | None = None) -> list[Tokens]:
        """All tokens of each text after a ``lead``, by default a document's, whose own tokens end at character 0."""
        lead = self._document_lead if lead is None else lead
        if len(texts) == 1 and (tokens := self._tokenize_short(texts)):
            return tokens
        is_text = [bool(text.strip()) or not lead for text in texts]
        texts = [lead + text for text in texts]
        spans_of_texts = [cut_at_blanks(text, _BLOCK // 2, _BLOCK, " \n") for text in texts]
        flat = [text[start:end] for text, spans in zip(texts, spans_of_texts, strict=True) for start, end in spans]
        blocks = self._encode(flat)
        return [
            self._joined([(start - len(lead), *next(blocks)) for start, _ in spans], known=known)
            for spans, known in zip(spans_of_texts, is_text, strict=True)
        ]

    def _encode(self, blocks: Sequence[str]) -> Iterator[BlockTokens]:
        """The tokens of each block, by ``tokie`` where it can make them."""
        whole = self._read_whole()
        by_tokie = [self._fast.encode(block) if self._fast else None for block in blocks]
        others = [block for block, tokens in zip(blocks, by_tokie, strict=True) if not tokens]
        encodings = iter(whole.encode_batch(others, add_special_tokens=False))
        return (tokens or _tokens(next(encodings)) for tokens in by_tokie)

    def _read_whole(self) -> tokenizers.Tokenizer:
        with self._lock:
            if self._whole is None:
                key = sha256(self._file).hexdigest()
                try:
                    whole = _LAST.get(key) or tokenizers.Tokenizer.from_buffer(self._file)
                except Exception as error:  # the library raises plain Exceptions
                    raise BadInput(f"{self._path} is no tokenizer ({error}); export the model again") from error
                whole.no_truncation()
                whole.no_padding()
                _LAST.clear()
                if self.takes_tokie and self._table:
                    self._fast = fast_tokenizer(self._path, whole, self._table.unknown)
                _LAST[key] = self._whole = whole
                self._file = b""
            return self._whole

    def _tokenize_short(self, texts: Sequence[str]) -> list[Tokens] | None:
        """The tokens of short texts by the pieces in them; none if the whole vocabulary should tokenise the texts."""
        if not self._table or sum(map(len, texts)) > _SHORT:
            return None
        with self._lock:
            if self._whole or self._short_texts == _SHORT_TEXTS:
                return None
            self._short_texts += len(texts) == 1
        if (encodings := self._table.encode(texts)) is None:
            return None
        return [self._joined([(0, ids, offsets.__getitem__)]) for ids, offsets in encodings]

    def _plain(self, text: str) -> list[int]:
        text = text.rstrip()
        if not text:
            return []
        if self._table and (encodings := self._table.encode([text])):
            return encodings[0][0]
        return list(self._read_whole().encode(text, add_special_tokens=False).ids)

    def _ids_of(self, *tokens: str) -> list[int]:
        """Ids of the tokens that the vocabulary has."""
        if self._table:
            return self._table.ids(tokens)
        ids = map(self._read_whole().token_to_id, tokens)
        return [token_id for token_id in ids if token_id is not None]

    def _joined(
        self, blocks: Sequence[tuple[int, Sequence[int], Callable[[int], Any]]], *, known: bool = True
    ) -> Tokens:
        """The tokens of a text from the start, ids and characters of each of its blocks; ``known``: it may be known."""
        ids = [np.fromiter(block_ids, np.int32, len(block_ids)) for _, block_ids, _ in blocks]
        firsts = accumulate(map(len, ids), initial=0)
        return Tokens(
            np.concatenate(ids),
            known=known and any(token_id not in self._empty for _, block_ids, _ in blocks for token_id in block_ids),
            blocks=[(first, start, span_of) for first, (start, _, span_of) in zip(firsts, blocks, strict=False)],
        )

    def query(self, ids: Int32Array) -> Int32Array:
        """A query's ids with special tokens and prefix."""
        return np.concatenate((self._query[0], ids, self._query[1]), dtype=np.int32)

    def segment(self, ids: Int32Array) -> Int32Array:
        """A document segment's ids with special tokens and prefix."""
        return np.concatenate((self._document[0], ids, self._document[1]), dtype=np.int32)


def _tokens(encoding: tokenizers.Encoding) -> BlockTokens:
    """A block's tokens; numbers for a long block, as the tokenizer keeps about 140 bytes a token."""
    is_long = len(encoding) > _BLOCK // 10
    return encoding.ids, np.array(encoding.offsets, np.int32).__getitem__ if is_long else encoding.token_to_chars


def _around_text(before: Sequence[int], after: Sequence[int]) -> tuple[Int32Array, Int32Array]:
    return np.array(before, dtype=np.int32), np.array(after, dtype=np.int32)
