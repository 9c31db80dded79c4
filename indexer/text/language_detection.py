"""Which language a text is in, among those a collection has."""

from __future__ import annotations

import copy
import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from encoders.errors import BadInput
from encoders.languages import UNDETERMINED, normalise

SURE = 0.9
"""From this confidence on detection was right 99.9 times of 100 in ``benchmarks/language_detection.py``."""

_CHARACTERS = 2000
_HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff]")
_KANA_OR_HANGUL = re.compile("[\u3040-\u30ff\uac00-\ud7af]")
_REPERTOIRES = {"zh": "gb2312", "zh-Hant": "big5", "ja": "shift_jis"}
_LOADING = threading.Lock()


@dataclass(frozen=True)
class Detection:
    """What a text's language seems to be.

    Attributes:
        lang: normalised BCP 47 tag; ``und`` where the text has no letters or nothing can tell.
        confidence: probability, 0 to 1; see ``SURE``.
    """

    lang: str
    confidence: float


class Detector:
    """Detects languages with the model of py3langid, restricted to those that can occur."""

    def __init__(self, languages: Collection[str] | None = None) -> None:
        """Choose among some languages; among all that the model knows (about 140) where None are given.

        Args:
            languages: normalised tags. A single one is every text's, and no model is loaded. Those that the model does
                not know are never the answer, but make every other one less sure.
        """
        self.languages = None if languages is None else tuple(sorted(set(languages) - {UNDETERMINED}))
        self._rank: Callable[[str], list[tuple[str, float]]] | None = None

    def load(self) -> None:
        """Load the model now, in half a second that another thread can use; else the first ``detect`` does."""
        if self._rank is None and (self.languages is None or len(self.languages) > 1):
            self._rank = _restricted(self.languages).rank

    def detect(self, text: str) -> Detection:
        """Detect the language of a query, or of a document by its beginning."""
        if self.languages is not None and len(self.languages) == 1:
            return Detection(self.languages[0], 1.0)
        text = text[:_CHARACTERS]
        self.load()
        if self._rank is None or not any(map(str.isalpha, text)):
            return Detection(UNDETERMINED, 0.0)
        probabilities = self._by_language(self._rank(text))
        probabilities |= _by_repertoire(text, probabilities)
        if not probabilities:
            return Detection(UNDETERMINED, 0.0)
        lang = max(probabilities, key=probabilities.__getitem__)
        return Detection(lang, probabilities[lang])

    def _by_language(self, ranked: Iterable[tuple[str, float]]) -> dict[str, float]:
        known: dict[str, float] = {}
        for label, probability in ranked:
            lang = _language(label)
            known[lang] = known.get(lang, 0.0) + float(probability)
        if self.languages is None:
            known.pop(UNDETERMINED, None)
            return known | {"zh-Hant": known["zh"]}
        return {lang: known[spoken] for lang in self.languages if (spoken := lang.split("-")[0]) in known}


def _by_repertoire(text: str, probabilities: Mapping[str, float]) -> dict[str, float]:
    """Chinese, simplified or not, and Japanese in Chinese characters only, told apart by the characters they use.

    What each could write before Unicode is known; the one whose old encoding holds most of the text's characters gets
    what the model gives to all of them.
    """
    group = [lang for lang in _REPERTOIRES if lang in probabilities]
    characters = _HAN.findall(text)
    if len(group) < 2 or not characters or _KANA_OR_HANGUL.search(text):
        return {}
    writable = {lang: sum(_holds(_REPERTOIRES[lang], character) for character in characters) for lang in group}
    best = [lang for lang in group if writable[lang] == max(writable.values())]
    together = sum({lang.split("-")[0]: probabilities[lang] for lang in group}.values())
    share = sum(probabilities[lang] for lang in best)
    return {lang: together * probabilities[lang] / share if lang in best and share else 0.0 for lang in group}


@lru_cache(maxsize=4096)
def _holds(encoding: str, character: str) -> bool:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


@cache
def _language(label: str) -> str:
    """The language tag of one of the model's labels (``no`` is Bokmål, ``arz`` is Arabic here)."""
    try:
        return normalise(label)
    except BadInput:
        return UNDETERMINED


@cache
def _model() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # noqa: PLC0415 - heavy, and often not needed

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def preload() -> None:
    """Begin to load the model in another thread: it is mostly decompression, which lets this one go on importing."""
    threading.Thread(target=_load, name="detection", daemon=True).start()


def _load() -> None:
    with _LOADING:
        _model()


def _restricted(languages: Collection[str] | None) -> Any:
    """The model with the labels of these languages alone; with all, if it lacks one of them."""
    with _LOADING:
        model = copy.copy(_model())
    if languages is not None:
        spoken = {lang.split("-")[0] for lang in languages}
        labels = [label for label in model.labels if _language(label) in spoken]
        if spoken <= set(map(_language, labels)):
            model.set_languages(labels)
    return model
