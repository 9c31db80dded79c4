"""Index terms of a language and a BM25 index of them in SQLite's FTS5.

FTS5's own tokenisers know neither stems nor scripts without blanks, so terms are made here. Measured on lohelp's index
topics within one language (MAP): stems raise English from .422 to .481, Finnish from .339 to .457; character bigrams
raise Japanese from .232 to .515, Chinese from .290 to .530, Korean from .525 to .555 (trigrams: .509, .499, .562). On
ntrex headlines (reciprocal rank): Thai trigrams .89, bigrams .84; Hindi words with vowel signs .90, cut there .75.
"""

import re
import sqlite3
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache

from encoders.errors import MissingPart
from encoders.text.words import folded, runs

_SNOWBALL = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek", "en": "english",
    "eo": "esperanto", "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian", "fi": "finnish",
    "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian", "hy": "armenian", "id": "indonesian",
    "it": "italian", "lt": "lithuanian", "nb": "norwegian", "ne": "nepali", "nl": "dutch", "nn": "norwegian",
    "pl": "polish", "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian", "st": "sesotho",
    "sv": "swedish", "ta": "tamil", "tr": "turkish", "yi": "yiddish",
}  # fmt: skip
_ACCENTED = re.compile(r"([a-z\u0080-\u03ff])[\u0300-\u036f]+")  # Latin and Greek; in Cyrillic й is no accented и


class Analyser:
    """Makes index terms from texts of one language: folded words, stemmed if Snowball has the language.

    Scripts without blanks become overlapping n-grams: of two characters, in Thai, Lao, Khmer and Burmese of three.
    """

    def __init__(self, lang: str) -> None:
        self.lang = lang
        self._stem = _stem(lang)

    def terms(self, text: str) -> list[str]:
        """The terms of a document, in order; each character of an n-gram script begins a term."""
        return self._analyse(text, tails=True)

    def query_terms(self, text: str) -> list[str]:
        """The distinct terms of a query; a term that ends with ``*`` matches all terms with that prefix."""
        return list(dict.fromkeys(self._analyse(text, tails=False)))

    def _analyse(self, text: str, *, tails: bool) -> list[str]:
        terms: list[str] = []
        for run, size in runs(folded(text, self.lang)):
            terms += _grams(run, size, tails=tails) if size else [self._stem(run)]
        return terms


def _grams(run: str, size: int, *, tails: bool) -> list[str]:
    if not tails and len(run) < size:
        return [run + "*"]
    last = len(run) if tails else len(run) - size + 1
    return [run[start : start + size] for start in range(last)]


def _without_accents(term: str) -> str:
    if term.isascii():
        return term
    return unicodedata.normalize("NFC", _ACCENTED.sub(r"\1", unicodedata.normalize("NFD", term)))


def _stem(lang: str) -> Callable[[str], str]:
    """Make the function from word to term; a cache holds recent words, since a collection repeats most of its words."""
    if lang not in _SNOWBALL:
        return lru_cache(maxsize=1 << 15)(_without_accents)
    from Stemmer import Stemmer  # noqa: PLC0415 - a library that only lexical search needs

    stemmer = Stemmer(_SNOWBALL[lang], 0)  # 0: no cache in the stemmer, since lru_cache is one
    return lru_cache(maxsize=1 << 15)(lambda word: _without_accents(stemmer.stemWord(word)))


analyser = cache(Analyser)
"""The analyser of a language, one per process, so that all indexes share its cache of words."""


class LexicalIndex:
    """BM25 (k1 1.2, b 0.75) over one language's texts, with its rarity of words, in a table; the caller commits."""

    def __init__(self, connection: sqlite3.Connection, lang: str) -> None:
        self._connection = connection
        self._analyser = analyser(lang)
        self._name = "lexical_" + re.sub(r"\W", "_", lang.lower())

    def add(self, texts: Iterable[tuple[int, str]]) -> None:
        """Index texts by an integer key, or replace a key's text. Raises MissingPart: SQLite was built without FTS5."""
        self._create()
        self._connection.executemany(
            f"INSERT OR REPLACE INTO {self._name} (rowid, terms) VALUES (?, ?)",  # noqa: S608 - a name made of letters
            ((key, " ".join(self._analyser.terms(text))) for key, text in texts),
        )

    def _create(self) -> None:
        try:
            self._connection.execute(
                f"CREATE VIRTUAL TABLE IF NOT EXISTS {self._name} "
                "USING fts5(terms, tokenize=\"unicode61 remove_diacritics 0 categories 'L* N* M*'\")"
            )
            self._connection.execute(
                f"CREATE VIRTUAL TABLE IF NOT EXISTS {self._name}_terms USING fts5vocab({self._name}, row)"
            )
        except sqlite3.OperationalError as error:
            if "no such module" not in str(error):
                raise
            raise MissingPart(
                "this Python's SQLite has no FTS5, which BM25 needs; use a Python built with it"
            ) from error

    def _exists(self) -> bool:
        query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
        return self._connection.execute(query, (self._name,)).fetchone() is not None

    def remove(self, keys: Iterable[int]) -> None:
        """Remove texts; unknown keys are ignored."""
        if self._exists():
            remove = f"DELETE FROM {self._name} WHERE rowid = ?"  # noqa: S608
            self._connection.executemany(remove, ((key,) for key in keys))

    def search(self, text: str, k: int, among: str | None = None) -> list[tuple[int, float]]:
        """Find the k best texts that share a term with a query, as (key, BM25 score), best first; ties by key.

        Terms in more than half of the texts count only if the query has no rarer term: BM25 gives them no weight. With
        ``among``, a JSON array of keys, texts of other keys are left out.
        """
        terms = self._rare(self._analyser.query_terms(text)) if self._exists() else []
        if not terms:
            return []
        match = " OR ".join(f'"{term[:-1]}"*' if term.endswith("*") else f'"{term}"' for term in terms)
        # The + in +rowid makes SQLite match the terms first and check the keys afterwards.
        key_filter = "" if among is None else "AND +rowid IN (SELECT value FROM json_each(?)) "
        select = f"SELECT rowid, rank FROM {self._name} WHERE terms MATCH ? {key_filter}ORDER BY rank, rowid LIMIT ?"  # noqa: S608
        keys = () if among is None else (among,)
        return [(key, -rank) for key, rank in self._connection.execute(select, (match, *keys, k))]

    def _rare(self, terms: Sequence[str]) -> list[str]:
        # _docsize has short rows; a count over the table itself would read all terms.
        count_query = f"SELECT count(*) FROM {self._name}_docsize"  # noqa: S608
        (total,) = self._connection.execute(count_query).fetchone()
        rare = [term for term in terms if term.endswith("*") or 0 < self._texts_with(term) * 2 <= total]
        return rare or list(terms)

    def _texts_with(self, term: str) -> int:
        query = f"SELECT doc FROM {self._name}_terms WHERE term = ?"  # noqa: S608
        row = self._connection.execute(query, (term,)).fetchone()
        return int(row[0]) if row else 0
