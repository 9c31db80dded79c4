"""Training triples of HMDE (§3.1): two pages about one concept in two languages, and a hard negative of the first."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from encoders.errors import BadInput

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TripleDocument:
    """What a document is to the triples.

    Attributes:
        concept: the same for pages about the same thing; empty where nobody said.
        lang: normalised tag.
        categories: it is in; a page in none has no hard negatives.
    """

    concept: str
    lang: str
    categories: tuple[str, ...]


def page_of(lang: str, fields: Mapping[str, object]) -> TripleDocument:
    """A document's page by its fields: ``concept``, and ``category`` (one or a list) or else ``label``."""
    concept = fields.get("concept")
    categories = _names(fields.get("category")) or _names(fields.get("label"))
    return TripleDocument("" if concept is None else str(concept), lang, categories)


def _names(stated: object) -> tuple[str, ...]:
    """One or several as text, each once; 0 is a name, and nothing and the empty text are none."""
    several = stated if isinstance(stated, list | tuple) else (stated,)
    return tuple(dict.fromkeys(str(one) for one in several if one not in (None, "")))


def held_out(concept: str, share: float, seed: int) -> bool:
    """Whether a concept is kept for validation: by a hash, so the same whatever else is in the collection."""
    digest = hashlib.blake2b(f"{seed} {concept}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) < share * 2**64


class Triples:
    """An endless, repeatable sequence of triples; each ordered pair of languages comes once before any comes again.

    Within a pair of languages each concept comes once before any comes again. The negative is drawn among pages of the
    first page's language that share a category with it and are about something else.

    Attributes:
        pages: what the rows of a triple number.
        possible: triples without counting negatives, by ordered pair of languages.
        single: concepts with pages in one language only, which give no triple.
        lonely: pages with a mate and no hard negative, which begin no triple.
        further: pages whose concept an earlier page of their language has; they are negatives at most.
    """

    def __init__(self, pages: Sequence[TripleDocument], seed: int = 0, left_out: Collection[str] = ()) -> None:
        """Find what can be drawn.

        Args:
            pages: rows of triples are places in it.
            seed: another one gives another order and other negatives.
            left_out: concepts whose pages are not drawn, as negatives neither.

        Raises:
            BadInput: there is no triple in them, with the reason.
        """
        self.pages = pages
        self._seed = seed
        self._orders: dict[int, tuple[int, Rows]] = {}
        self._concepts: dict[str, dict[str, int]] = defaultdict(dict)
        self._members: dict[tuple[str, str], list[int]] = defaultdict(list)
        self.further = 0
        for row, page in enumerate(pages):
            if page.concept in left_out:
                continue
            if page.concept:
                self.further += self._concepts[page.concept].setdefault(page.lang, row) != row
            for category in page.categories:
                self._members[page.lang, category].append(row)
        self.single = sum(len(mates) == 1 for mates in self._concepts.values())
        self._groups = {key: np.array(rows, dtype=np.int64) for key, rows in self._members.items()}
        pairs, self.lonely = self._found()
        self._langs = sorted(pairs)
        self._pairs = [np.array(pairs[key], dtype=np.int64) for key in self._langs]
        self.possible = {key: len(pairs[key]) for key in self._langs}
        if not pairs:
            raise BadInput(f"no training triples can be drawn: {self._reason()}")

    def draw(self, start: int, count: int) -> Rows:
        """Triples number ``start`` to ``start + count`` of the sequence, (count, 3) rows: page, mate, hard negative."""
        return np.array([self._triple(at) for at in range(start, start + count)], dtype=np.int64).reshape(-1, 3)

    def languages(self, rows: Rows) -> Counter[tuple[str, str]]:
        """How many of some triples are of each ordered pair of languages."""
        return Counter((self.pages[first].lang, self.pages[second].lang) for first, second, _ in rows.tolist())

    def _found(self) -> tuple[dict[tuple[str, str], list[tuple[int, int]]], int]:
        """Pages and mates by ordered pair of languages; and how many pages with a mate have no negative."""
        pairs: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
        lonely = 0
        for _, mates in sorted(self._concepts.items()):
            for lang, row in sorted(mates.items()) if len(mates) > 1 else ():
                if not self._categories(row):
                    lonely += 1
                    continue
                for other, mate in sorted(mates.items()):
                    if other != lang:
                        pairs[lang, other].append((row, mate))
        return pairs, lonely

    def _triple(self, at: int) -> tuple[int, int, int]:
        turn, place = divmod(at, len(self._pairs))
        pair = int(self._shuffled(1, turn, len(self._pairs))[place])
        mates = self._pairs[pair]
        again, inside = divmod(turn, len(mates))
        first, second = mates[self._shuffled(2 + pair, again, len(mates))[inside]].tolist()
        return first, second, self._negative(first, at)

    def _shuffled(self, what: int, turn: int, count: int) -> Rows:
        """An order of its own for each of what is gone through, another one each time; the last one is kept."""
        if what not in self._orders or self._orders[what][0] != turn:
            self._orders[what] = turn, np.random.default_rng((self._seed, what, turn)).permutation(count)
        return self._orders[what][1]

    def _negative(self, row: int, at: int) -> int:
        chance = np.random.default_rng((self._seed, 0, at))
        categories = self._categories(row)
        group = self._groups[self.pages[row].lang, categories[int(chance.integers(len(categories)))]]
        while True:
            found = int(group[chance.integers(len(group))])
            if self.pages[found].concept != self.pages[row].concept:
                return found

    def _categories(self, row: int) -> list[str]:
        """Categories of a page in which there is a page of its language about something else."""
        page = self.pages[row]
        return [name for name in page.categories if self._has_other(page, name)]

    def _has_other(self, page: TripleDocument, category: str) -> bool:
        return any(self.pages[row].concept != page.concept for row in self._members[page.lang, category])

    def _reason(self) -> str:
        if not self._concepts:
            return "no document has the field concept; name yours with --field concept=THEIRS"
        if all(len(mates) == 1 for mates in self._concepts.values()):
            return "every concept has pages in one language only; give sources in two languages or more"
        if not any(page.categories for page in self.pages):
            return "no document has the field category or label; name yours with --field category=THEIRS"
        return "no page with a mate has another page of its language and category; give more documents"
