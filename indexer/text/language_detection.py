"""Detect the language of a text, among the languages of a collection.

The model of py3langid is decompressed once and then mapped into memory: loading it takes half a second otherwise.
"""

import copy
import json
import re
import threading
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from encoders.folder.model_cache import cache_folder
from encoders.folder.whole_folder import replacing
from encoders.languages import UNDETERMINED, tag_or

SURE = 0.9
"""Confidence from which on 99.9 % of the detections are right in ``benchmarks/beliefs.py``."""
LIKELY = 0.5
"""Confidence below which no language is named: of 1,919 words of dictionaries, guessed among ten languages, 44 % were
then right; of 1,681 others 92 %."""
_CHARACTERS = 2000
_PARTS = 8
"""Parts of a longer text, spread over all of it, that stand for it."""
_SCRIPTS = (
    "Arab Armn Beng Cyrl Deva Ethi Geor Grek Gujr Guru Hang Hani Hebr Hira Kana Khmr Knda Laoo Latn Mlym Mymr Orya "
    "Sinh Taml Telu Thai Tibt"
)
"""Scripts of the model's languages, by ISO 15924; it takes other scripts for anything."""
_TWO_SCRIPTS = {"sr": "Latn", "uz": "Cyrl"}
"""Languages in two scripts, and the script that their tag must name."""
_HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff]")
_KANA_OR_HANGUL = re.compile("[\u3040-\u30ff\uac00-\ud7af]")
_REPERTOIRES = {"zh": ("gb2312",), "zh-Hant": ("big5",), "ja": ("shift_jis",)}
_language = cache(tag_or)
"""The language tag of a label of the model; for example ``no`` is Bokmål and ``tl`` is Filipino."""
_LOADING = threading.Lock()
_ARRAYS = ("features", "languages", "next", "rows", "outputs")


@dataclass(frozen=True)
class Detection:
    """The detected language of a text."""

    lang: str  # normalised BCP 47 tag; ``und`` where the text has no letters or the model knows no candidate language
    confidence: float  # probability, 0 to 1; see ``SURE``


class Detector:
    """Detects languages with the model of py3langid, restricted to the languages that can occur."""

    def __init__(self, languages: Collection[str] | None = None) -> None:
        """Choose among normalised tags; None: all languages of the model (about 140).

        A single language is the answer for every text, and no model is loaded. A language that the model does not know
        is never the answer, and it lowers the confidence of every answer.
        """
        self.languages = None if languages is None else tuple(sorted(set(languages) - {UNDETERMINED}))
        self._model: Any = None
        self._labels: dict[str, str] = {}  # of the model, by language

    def load(self) -> None:
        """Load the model now; else the first ``detect`` loads it."""
        if self._model is None and (self.languages is None or len(self.languages) > 1):
            self._model = _restricted(self.languages)
            for label in self._model.nb_classes:
                self._labels.setdefault(_language(label), label)

    def detect(self, text: str) -> Detection:
        """Detect the language of a query or of a document."""
        probabilities = self.probabilities(text)
        lang = max(probabilities, key=probabilities.__getitem__, default=UNDETERMINED)
        return Detection(lang, probabilities.get(lang, 0.0))

    def probabilities(self, text: str) -> dict[str, float]:
        """The probability of each language; empty if the text has no letters, or none of a script that is known."""
        if self.languages is not None and len(self.languages) == 1:
            return {self.languages[0]: 1.0}
        text = _shortened(text)
        script = _script(text)
        self.load()
        if self._model is None or not script or script not in _SCRIPTS:
            return {}
        probabilities = self._by_language(text, script)
        return probabilities | _by_repertoire(text, probabilities)

    def _by_language(self, text: str, script: str) -> dict[str, float]:
        scores = dict(self._model.rank(text))
        probabilities: dict[str, float] = {lang: scores[label] for lang, label in self._labels.items()}
        probabilities.pop(UNDETERMINED, None)
        if self.languages is None:
            probabilities["zh-Hant"] = probabilities["zh"]
        else:
            bases = {lang: lang.split("-")[0] for lang in self.languages}
            probabilities = {lang: probabilities[base] for lang, base in bases.items() if base in probabilities}
        for lang, other_script in _TWO_SCRIPTS.items():
            other = f"{lang}-{other_script}"
            if script == other_script and lang in probabilities and (self.languages is None or other in probabilities):
                probabilities[other] = probabilities.pop(lang)
            elif script != other_script and lang in probabilities:
                probabilities.pop(other, None)
        return probabilities


def _shortened(text: str) -> str:
    if len(text) <= _CHARACTERS:
        return text
    length = _CHARACTERS // _PARTS
    starts = (part * (len(text) - length) // (_PARTS - 1) for part in range(_PARTS))
    return " ".join(text[start : start + length] for start in starts)


def _script(text: str) -> str:
    """The script of most of a text's letters, by ISO 15924; empty: it has no letters."""
    scripts: Counter[str] = Counter()
    for character, count in Counter(text).items():
        if character.isalpha():
            scripts[_script_of(character)] += count
    return max(scripts, key=scripts.__getitem__, default="")


@lru_cache(maxsize=65536)
def _script_of(character: str) -> str:
    from fontTools.unicodedata import script  # noqa: PLC0415 - only detection needs it

    return str(script(character))


def _by_repertoire(text: str, probabilities: Mapping[str, float]) -> dict[str, float]:
    """Chinese and Japanese without kana: the one whose old encoding holds most of the text has all."""
    candidates = [lang for lang in _REPERTOIRES if lang in probabilities]
    characters = _HAN.findall(text)
    if len(candidates) < 2 or not characters or _KANA_OR_HANGUL.search(text):
        return {}
    encodings = _REPERTOIRES if "zh-Hant" in candidates else _REPERTOIRES | {"zh": ("gb2312", "big5")}
    writable = {
        lang: max(sum(_holds(encoding, character) for character in characters) for encoding in encodings[lang])
        for lang in candidates
    }
    best = [lang for lang in candidates if writable[lang] == max(writable.values())]
    total = sum({lang.split("-")[0]: probabilities[lang] for lang in candidates}.values())
    share = sum(probabilities[lang] for lang in best)
    return {lang: total * probabilities[lang] / share if lang in best and share else 0.0 for lang in candidates}


@lru_cache(maxsize=4096)
def _holds(encoding: str, character: str) -> bool:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _restricted(languages: Collection[str] | None) -> Any:
    """A copy of the model with only the labels of these languages; with all labels if it lacks a language."""
    model = copy.copy(detection_model())
    if languages is not None:
        bases = {lang.split("-")[0] for lang in languages}
        labels = [label for label in model.labels if _language(label) in bases]
        if bases <= set(map(_language, labels)):
            model.set_languages(labels)
    return model


def detection_model() -> Any:
    """The model with probabilities; its decompressed arrays are kept in the cache, if that can be written."""
    with _LOADING:
        return _model()


@cache
def _model() -> Any:
    from py3langid import langid  # noqa: PLC0415 - slow to import, and often not needed

    source = langid.MODEL_DIR / langid.MODEL_FILE
    folder = cache_folder() / f"language-detection-{version('py3langid')}"
    with suppress(OSError, ValueError, EOFError):
        return _mapped(folder, source)
    model = langid.LanguageIdentifier.from_model_file(source, norm_probs=True)
    with suppress(OSError):
        _keep(model, folder, source)
    return model


def _mapped(folder: Path, source: Path) -> Any:
    """The model of a folder. Raises OSError: it is missing; ValueError, EOFError: another source's, or damaged."""
    from py3langid.langid import LanguageIdentifier  # noqa: PLC0415 - as above

    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    if not isinstance(about, dict) or about.get("size") != source.stat().st_size:
        raise ValueError("the arrays are of another model")
    features, languages, following, rows, outputs = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in _ARRAYS)
    return LanguageIdentifier(
        _Columns(np.asarray(features)),
        np.asarray(languages),
        about["labels"],
        memoryview(following),
        memoryview(outputs),
        norm_probs=True,
        tk_row=memoryview(rows),
    )


def _keep(model: Any, folder: Path, source: Path) -> None:
    arrays = (model.nb_ptc, model.nb_pc, model.tk_nextmove, model.tk_row, np.asarray(model.tk_output, dtype=np.int32))
    with replacing(folder) as temporary:
        for name, array in zip(_ARRAYS, arrays, strict=True):
            np.save(temporary / f"{name}.npy", np.asarray(array))
        about = {"size": source.stat().st_size, "labels": model.nb_classes}
        (temporary / "about.json").write_text(json.dumps(about), encoding="utf-8")


class _Columns:
    """A table whose columns can be chosen without a copy: a text needs a few of its 100,000 rows."""

    def __init__(self, values: npt.NDArray[np.float16], columns: Any = slice(None)) -> None:
        self._values, self._columns = values, columns

    def __getitem__(self, chosen: Any) -> Any:
        """Some rows of the chosen columns; of ``[:, columns]`` the table of these columns."""
        if isinstance(chosen, tuple):
            return _Columns(self._values, chosen[1])
        return self._values[chosen][:, self._columns]
