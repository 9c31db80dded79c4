"""Words of a language and an index of them: BM25 in SQLite's FTS5, fed with terms that are made here.

FTS5's own tokenisers know neither stems nor scripts without blanks, so it is handed terms with blanks between. Measured
on lohelp's index topics within one language (MAP): stems raise English from .422 to .496, Finnish from .313 to .427;
character bigrams raise Japanese from .211 to .478, Chinese from .280 to .511, Korean from .512 to .541 (trigrams: .414,
.372, .331); on ntrex headlines Thai trigrams rank better than bigrams (reciprocal rank .89 to .84), and Hindi words
that keep their vowel signs better than words cut at them (.90 to .75).
"""

from __future__ import annotations

import json
import re
import sqlite3
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
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
    """Text → index terms of one language: folded words, stemmed where Snowball knows the language, else as they are.

    Scripts written without blanks become overlapping character n-grams whatever the language: two characters of Han,
    Kana and Hangul, three of Thai, Lao, Khmer and Burmese.
    """

    def __init__(self, lang: str) -> None:
        self.lang = lang
        self._stem = _stem(lang)

    def terms(self, text: str) -> list[str]:
        """The terms of a document, in order; each character of an n-gram script begins one."""
        return self._analyse(text, tails=True)

    def query_terms(self, text: str) -> list[str]:
        """The terms of a query, each once; one that ends with ``*`` stands for all that begin with it."""
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
    """Word → term, remembering the words seen last: a collection says most of its words again and again."""
    if lang not in _SNOWBALL:
        return lru_cache(maxsize=1 << 15)(_without_accents)
    from Stemmer import Stemmer  # noqa: PLC0415 - a library that only lexical search needs

    stemmer = Stemmer(_SNOWBALL[lang], 0)  # no cache of its own beside this one
    return lru_cache(maxsize=1 << 15)(lambda word: _without_accents(stemmer.stemWord(word)))


analyser = cache(Analyser)
"""One a language, so that the words seen last are remembered from one index to the next."""


class LexicalIndex:
    """BM25 (k1 1.2, b 0.75) over the texts of one language, in a table of its own in a SQLite database.

    A language has its own table because a word's rarity is a matter of its language. The first ``add`` makes it.

    Args:
        connection: where the table is, or will be made; committed by its owner.
        lang: normalised BCP 47 tag.
    """

    def __init__(self, connection: sqlite3.Connection, lang: str) -> None:
        self._connection = connection
        self._analyser = analyser(lang)
        self._name = "lexical_" + re.sub(r"\W", "_", lang.lower())

    def add(self, texts: Iterable[tuple[int, str]]) -> None:
        """Index texts by an integer key; a key that is there is replaced.

        Raises:
            MissingPart: this Python's SQLite was built without FTS5.
        """
        self._make()
        self._connection.executemany(
            f"INSERT OR REPLACE INTO {self._name} (rowid, terms) VALUES (?, ?)",  # noqa: S608 - a name made of letters
            ((key, " ".join(self._analyser.terms(text))) for key, text in texts),
        )

    def _make(self) -> None:
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

    def _made(self) -> bool:
        named = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
        return self._connection.execute(named, (self._name,)).fetchone() is not None

    def remove(self, keys: Iterable[int]) -> None:
        """Take texts out; unknown keys are ignored."""
        if self._made():
            remove = f"DELETE FROM {self._name} WHERE rowid = ?"  # noqa: S608
            self._connection.executemany(remove, ((key,) for key in keys))

    def search(self, text: str, k: int, among: Collection[int] | None = None) -> list[tuple[int, float]]:
        """The k best texts that share a term with this one, as key and BM25 score, best first; ties by key.

        Terms of more than half of the texts only count where there are no others: BM25 gives them no weight.

        Args:
            text: the query.
            k: how many at most.
            among: keys to choose from; all of them unless given.
        """
        terms = self._rare(self._analyser.query_terms(text)) if self._made() else []
        if not terms:
            return []
        match = " OR ".join(f'"{term[:-1]}"*' if term.endswith("*") else f'"{term}"' for term in terms)
        chosen = "" if among is None else "AND +rowid IN (SELECT value FROM json_each(?)) "  # +: looked up afterwards
        select = f"SELECT rowid, rank FROM {self._name} WHERE terms MATCH ? {chosen}ORDER BY rank, rowid LIMIT ?"  # noqa: S608
        keys = () if among is None else (json.dumps(list(among)),)
        return [(key, -rank) for key, rank in self._connection.execute(select, (match, *keys, k))]

    def _rare(self, terms: Sequence[str]) -> list[str]:
        count = f"SELECT count(*) FROM {self._name}_docsize"  # noqa: S608 - short rows; the table itself is read whole
        (texts,) = self._connection.execute(count).fetchone()
        rare = [term for term in terms if term.endswith("*") or self._texts_with(term) * 2 <= texts]
        return rare or list(terms)

    def _texts_with(self, term: str) -> int:
        frequency = f"SELECT doc FROM {self._name}_terms WHERE term = ?"  # noqa: S608
        found = self._connection.execute(frequency, (term,)).fetchone()
        return int(found[0]) if found else 0
