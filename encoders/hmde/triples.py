"""Training triples of HMDE (§3.1): two pages about one concept in two languages, and a hard negative of the first."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from encoders.errors import BadInput

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TripleDocument:
    """A document of the sources: its concept, language and categories."""

    concept: str  # the same for pages about the same thing; empty if unknown
    lang: str
    categories: tuple[str, ...]  # of the page; a page without categories has no hard negatives


def page_of(lang: str, fields: Mapping[str, object]) -> TripleDocument:
    """A document's page by its fields ``concept`` and ``category`` (a value or a list), or else ``label``."""
    concept = fields.get("concept")
    categories = _field_values(fields.get("category")) or _field_values(fields.get("label"))
    return TripleDocument("" if concept is None else str(concept), lang, categories)


def _field_values(field: object) -> tuple[str, ...]:
    """A field's distinct values as text; 0 is a value, None and the empty text are not."""
    values = field if isinstance(field, list | tuple) else (field,)
    return tuple(dict.fromkeys(str(value) for value in values if value not in (None, "")))


def held_out(concept: str, share: float, seed: int) -> bool:
    """Whether a concept is held out for validation; a hash decides, so other documents have no influence."""
    digest = hashlib.blake2b(f"{seed} {concept}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) < share * 2**64


Drawing = Literal["turns", "shuffled"]
"""``turns``: each ordered pair of languages comes once before any comes again, and within it each concept once before
any comes again. ``shuffled``: each ordered pair of pages comes once before any comes again, as in a paper's epoch."""


class Triples:
    """An endless, repeatable sequence of triples, whose rows are positions in ``pages``.

    The negative shares its language and a category with the first page, and is about another concept.
    """

    def __init__(
        self, pages: Sequence[TripleDocument], seed: int = 0, left_out: Collection[str] = (), drawing: Drawing = "turns"
    ) -> None:
        """Find the triples without the concepts ``left_out``. Raises BadInput: there are none; the message says why."""
        self.pages = pages
        self._seed = seed
        self._orders: dict[int, tuple[int, Rows]] = {}
        self._concepts: dict[str, dict[str, int]] = defaultdict(dict)
        self._members: dict[tuple[str, str], list[int]] = defaultdict(list)
        self.further = 0  # pages whose concept an earlier page of their language has; only negatives
        for row, page in enumerate(pages):
            if page.concept in left_out:
                continue
            if page.concept:
                self.further += self._concepts[page.concept].setdefault(page.lang, row) != row
            for category in page.categories:
                self._members[page.lang, category].append(row)
        self.single = sum(len(mates) == 1 for mates in self._concepts.values())  # concepts in one language
        self._groups = {key: np.array(rows, dtype=np.int64) for key, rows in self._members.items()}
        pairs, self.lonely = self._paired_pages()  # pages with a mate and no hard negative, which begin no triple
        by_langs = [np.array(pairs[key], dtype=np.int64) for key in sorted(pairs)]
        self._pairs = [np.concatenate(by_langs)] if pairs and drawing == "shuffled" else by_langs
        self.possible = {key: len(pairs[key]) for key in sorted(pairs)}  # pages with mate and negative, by languages
        if not pairs:
            raise BadInput(f"no training triples can be drawn: {self._reason()}")

    def draw(self, start: int, count: int) -> Rows:
        """Triples ``start`` to ``start + count`` of the sequence, (count, 3) rows: page, mate, hard negative."""
        return np.array([self._triple(number) for number in range(start, start + count)], dtype=np.int64).reshape(-1, 3)

    def languages(self, rows: Rows) -> Counter[tuple[str, str]]:
        """Number of triples in ``rows`` by ordered pair of languages."""
        return Counter((self.pages[first].lang, self.pages[second].lang) for first, second, _ in rows.tolist())

    def _paired_pages(self) -> tuple[dict[tuple[str, str], list[tuple[int, int]]], int]:
        """Pages with their mates by ordered pair of languages, and the number of pages with a mate but no negative."""
        pairs: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
        lonely = 0
        for _, mates in sorted(self._concepts.items()):
            for lang, row in sorted(mates.items()) if len(mates) > 1 else ():
                if not self._categories(row):
                    lonely += 1
                    continue
                for mate_lang, mate in sorted(mates.items()):
                    if mate_lang != lang:
                        pairs[lang, mate_lang].append((row, mate))
        return pairs, lonely

    def _triple(self, number: int) -> tuple[int, int, int]:
        turn, position = divmod(number, len(self._pairs))
        pair = int(self._shuffled(1, turn, len(self._pairs))[position])
        mates = self._pairs[pair]
        pair_turn, pair_position = divmod(turn, len(mates))
        first, second = mates[self._shuffled(2 + pair, pair_turn, len(mates))[pair_position]].tolist()
        random = np.random.default_rng((self._seed, 0, number))
        categories = self._categories(first)
        group = self._groups[self.pages[first].lang, categories[int(random.integers(len(categories)))]]
        while True:
            negative = int(group[random.integers(len(group))])
            if self.pages[negative].concept != self.pages[first].concept:
                return first, second, negative

    def _shuffled(self, sequence: int, turn: int, count: int) -> Rows:
        """A random order of ``count`` items for a sequence and a turn; the sequence's last order is cached."""
        if sequence not in self._orders or self._orders[sequence][0] != turn:
            self._orders[sequence] = turn, np.random.default_rng((self._seed, sequence, turn)).permutation(count)
        return self._orders[sequence][1]

    def _categories(self, row: int) -> list[str]:
        """A page's categories that hold a page of its language about another concept."""
        page = self.pages[row]
        return [
            category
            for category in page.categories
            if any(self.pages[member].concept != page.concept for member in self._members[page.lang, category])
        ]

    def _reason(self) -> str:
        if not self._concepts:
            return "no document has the field concept; name yours with --field concept=THEIRS"
        if all(len(mates) == 1 for mates in self._concepts.values()):
            return "every concept has pages in one language only; give sources in two languages or more"
        if not any(page.categories for page in self.pages):
            return "no document has the field category or label; name yours with --field category=THEIRS"
        return "no page with a mate has another page of its language and category that is not held out; give more pages"
