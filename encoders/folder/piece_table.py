"""The pieces of a unigram tokenizer as a table: short texts are tokenised without reading the whole vocabulary.

Only pieces that are substrings of the texts matter; reading all of them (XLM-R, E5) takes half a second and 250 MB.
"""

import json
import sqlite3
import weakref
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Any

import tokenizers


def save_pieces(tokenizer: Path, table: Path) -> bool:
    """Write the pieces of a tokenizer's file into an SQLite file, if it is unigram; return whether it is."""
    table.unlink(missing_ok=True)  # a copied model folder may already hold a table
    layout = json.loads(tokenizer.read_text(encoding="utf-8"))
    model = layout.get("model", {}) if isinstance(layout, dict) else {}
    if model.get("type") != "Unigram" or model.get("byte_fallback") or model.get("unk_id") is None:
        return False
    vocabulary = model.pop("vocab")
    layout |= {"post_processor": None, "decoder": None, "truncation": None, "padding": None}
    settings = {
        "layout": layout,
        "unknown": vocabulary[model["unk_id"]],
        "rarest": min(vocabulary, key=lambda entry: entry[1]),
        "longest": max(len(piece) for piece, _ in vocabulary),
        "around": special_tokens_around(tokenizers.Tokenizer.from_file(str(tokenizer))),
    }
    with closing(sqlite3.connect(table)) as database, database:
        database.execute("CREATE TABLE settings (value TEXT)")
        database.execute("INSERT INTO settings VALUES (?)", [json.dumps(settings)])
        database.execute("CREATE TABLE pieces (piece TEXT PRIMARY KEY, id INTEGER, score REAL) WITHOUT ROWID")
        rows = ((piece, piece_id, score) for piece_id, (piece, score) in enumerate(vocabulary))
        database.executemany("INSERT OR REPLACE INTO pieces VALUES (?, ?, ?)", rows)
    return True


def special_tokens_around(tokenizer: tokenizers.Tokenizer) -> tuple[list[int], list[int]] | None:
    """Ids that the tokenizer puts before and after a text; none if it changes the text's own ids, too."""
    bare = tokenizer.encode("a", add_special_tokens=False).ids
    full = tokenizer.encode("a", add_special_tokens=True).ids
    for position in range(len(full) - len(bare) + 1):
        if full[position : position + len(bare)] == bare:
            return list(full[:position]), list(full[position + len(bare) :])
    return None


class PieceTable:
    """A table that ``save_pieces`` wrote, for all threads of a process."""

    def __init__(self, table: Path) -> None:
        """Read the file into memory: it may be replaced. Raises OSError: unreadable; sqlite3.Error: no such table."""
        self._lock = Lock()
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        weakref.finalize(self, self._database.close).atexit = False  # a thread may still ask
        self._database.deserialize(table.read_bytes())
        settings = json.loads(self._select("SELECT value FROM settings")[0][0])
        self.around: tuple[list[int], list[int]] | None = settings["around"]  # of ``special_tokens_around``
        self._layout = settings["layout"]
        self.unknown, self._rarest = settings["unknown"][0], settings["rarest"][0]
        self._longest: int = settings["longest"]
        self._added = {entry["content"]: entry["id"] for entry in self._layout["added_tokens"]}
        self._cutter = self._tokenizer([settings["unknown"]])
        """Normalises texts and cuts them into words."""

    def ids(self, tokens: Iterable[str]) -> list[int]:
        """The ids of pieces and added tokens; tokens that are neither are left out."""
        wanted = list(tokens)
        ids = self._added | {piece: piece_id for piece, piece_id, _ in self._rows(wanted)}
        return [ids[token] for token in wanted if token in ids]

    def encode(self, texts: Sequence[str]) -> list[tuple[list[int], list[tuple[int, int]]]] | None:
        """Ids and offsets of each text's tokens, none of them special; None if one has a special token as ``<s>``."""
        normalizer, pre_tokenizer = self._cutter.normalizer, self._cutter.pre_tokenizer
        normalised = [normalizer.normalize_str(text) if normalizer else text for text in texts]
        if any(token in text for text in (*texts, *normalised) for token in self._added):
            return None
        words = {
            word
            for text in normalised
            for word, _ in (pre_tokenizer.pre_tokenize_str(text) if pre_tokenizer else [(text, ())])
        }
        substrings = {
            word[start:end]
            for word in words
            for start in range(len(word))
            for end in range(start + 1, min(start + self._longest, len(word)) + 1)
        }
        rows = self._rows([self.unknown, self._rarest, *substrings])  # what is unknown scores below the rarest piece
        rows.sort(key=lambda row: row[0] != self.unknown)
        encodings = self._tokenizer([(piece, score) for piece, _, score in rows]).encode_batch(list(texts))
        return [([rows[token][1] for token in encoding.ids], encoding.offsets) for encoding in encodings]

    def _rows(self, pieces: Sequence[str]) -> list[tuple[str, int, float]]:
        """Piece, id and score of the pieces that are in the table."""
        sql = "SELECT piece, id, score FROM pieces WHERE piece IN (SELECT value FROM json_each(?))"
        return self._select(sql, json.dumps(pieces))

    def _select(self, sql: str, *values: str) -> list[Any]:
        with self._lock:
            return self._database.execute(sql, values).fetchall()

    def _tokenizer(self, vocabulary: Sequence[Sequence[Any]]) -> tokenizers.Tokenizer:
        """A tokenizer of some pieces with their scores; the first is for what is unknown."""
        model = {**self._layout["model"], "unk_id": 0, "vocab": vocabulary}
        return tokenizers.Tokenizer.from_str(json.dumps({**self._layout, "added_tokens": [], "model": model}))
