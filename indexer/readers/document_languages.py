"""The language of each document that names none: its own text decides, and its neighbours where that is too short."""

import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from encoders.document import Document
from encoders.languages import UNDETERMINED
from indexer.readers.records.source import Reading
from indexer.text.language_detection import LIKELY, SURE, Detector

_RECORD = re.compile(r"(?<=.)[:#]\d+$")
_WAITING, _CHARACTERS = 256, 1_000_000
"""Most readings, and most of their characters, that wait for a document's neighbours."""
_ROUNDS = 10
"""Rounds in which the shares of languages and the languages of unsure documents are estimated by each other."""
_NEIGHBOURS = 2.0
"""Weight of a source's other files against a file's own documents, in documents."""
_ELSEWHERE = 0.01
"""Documents that every language is taken to have among the neighbours, where none was seen."""
_SCRIPTS = 0.5
"""Weight of Chinese neighbours in the other script: else Wu, which shares both, has more neighbours than either."""
_CODE, _SHOWN = 0.25, 2000
"""Share of digits and ASCII's signs in a text's bytes from which on it is no prose, and the characters that show it."""
_NO_LETTERS = dict.fromkeys(map(ord, string.digits + string.punctuation))
_FEW = 3.0
"""Documents that can have a main language."""


@dataclass
class _Waiting:
    """A reading that waits, with the probabilities of its languages if they are not sure."""

    reading: Reading
    unsure: Mapping[str, float] = field(default_factory=dict)


def with_languages(readings: Iterable[Reading]) -> Iterator[Reading]:
    """The readings, with a language for each document of undetermined language.

    A text that is too short to be sure is in the language that fits it and the other documents of its file and source:
    by expectation and maximisation over the shares of languages (a mixture with fixed components). If none is likely,
    its language is ``und``. A few hundred readings are kept in memory.
    """
    languages = _Languages()
    for reading in readings:
        yield from languages.take(reading)
    yield from languages.settle()


class _Languages:
    def __init__(self) -> None:
        self._detector = Detector(None)
        self._waiting: list[_Waiting] = []
        self._characters = 0
        self._place = ""
        self._of_file: Counter[str] = Counter()  # documents by language, in the present file or folder of files
        self._of_source: Counter[str] = Counter()

    def take(self, reading: Reading) -> Iterator[Reading]:
        """The readings whose languages are known now."""
        waiting = _Waiting(reading)
        if isinstance(reading, Document):
            place = _RECORD.sub("", reading.place)
            if place == reading.place:  # the file is one document
                place = place.rpartition("/")[0]
            if place != self._place:
                yield from self.settle()
                self._place, self._of_file = place, Counter()
            waiting = self._detected(reading)
        if not (self._waiting or waiting.unsure):
            yield waiting.reading
            return
        self._waiting.append(waiting)
        self._characters += len(waiting.reading.text)
        if len(self._waiting) >= _WAITING or self._characters >= _CHARACTERS:
            yield from self.settle()

    def _detected(self, document: Document) -> _Waiting:
        lang = document.lang
        if lang == UNDETERMINED:
            probabilities = self._detector.probabilities(document.content)
            shown = "".join(document.content[:: 1 + len(document.content) // _SHOWN].split())
            if len(shown.translate(_NO_LETTERS).encode()) < (1 - _CODE) * len(shown.encode()):
                probabilities = dict.fromkeys(probabilities, 1 / max(len(probabilities), 1))
            lang = max(probabilities, key=probabilities.__getitem__, default=UNDETERMINED)
            if probabilities.get(lang, 1.0) < SURE:
                return _Waiting(document, unsure=probabilities)
            document = replace(document, lang=lang)
        for counts in (self._of_file, self._of_source):
            counts[lang] += 1
        return _Waiting(document)

    def settle(self) -> Iterator[Reading]:
        """All that waits, in its order."""
        waiting, self._waiting, self._characters = self._waiting, [], 0
        unsure = [one.unsure for one in waiting if one.unsure]
        seen = self._of_source.total()
        known = _sum(self._of_file, {lang: _NEIGHBOURS * count / seen for lang, count in self._of_source.items()})
        posteriors = [_posterior(one, known, {}) for one in unsure]
        for _ in range(_ROUNDS):
            shares = _sum(known, *posteriors)
            posteriors = [_posterior(one, shares, own) for one, own in zip(unsure, posteriors, strict=True)]
        main, answers = _main_language(_sum(known, *posteriors)), iter(posteriors)
        for one in waiting:
            if one.unsure and isinstance(one.reading, Document):
                posterior = next(answers)
                lang = max(posterior, key=posterior.__getitem__, default=UNDETERMINED)
                lang = lang if posterior.get(lang, 0.0) >= LIKELY else main
                self._of_file[lang] += 1
                yield replace(one.reading, lang=lang)
            else:
                yield one.reading


def _main_language(shares: Mapping[str, float]) -> str:
    """The language of most of a few documents at least; else ``und``."""
    lang = max(shares, key=shares.__getitem__, default=UNDETERMINED)
    total = sum(shares.values())
    return lang if total >= _FEW and shares[lang] >= LIKELY * total else UNDETERMINED


def _posterior(likely: Mapping[str, float], shares: Mapping[str, float], own: Mapping[str, float]) -> dict[str, float]:
    """The probabilities of languages, given the text's own and the shares, less its ``own``, among its neighbours."""
    others = {lang: shares.get(lang, 0.0) - own.get(lang, 0.0) + _ELSEWHERE for lang in likely}
    if "zh-Hant" in others:
        simplified, traditional = others["zh"], others["zh-Hant"]
        others["zh"], others["zh-Hant"] = simplified + _SCRIPTS * traditional, traditional + _SCRIPTS * simplified
    products = {lang: value * others[lang] for lang, value in likely.items()}
    total = sum(products.values()) or 1.0
    return {lang: product / total for lang, product in products.items()}


def _sum(*counts: Mapping[str, float]) -> dict[str, float]:
    total: Counter[str] = Counter()
    for mapping in counts:
        total.update(mapping)
    return dict(total)
