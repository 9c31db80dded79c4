"""Detection of a text's language: accuracy on short and long texts, and what a high confidence is worth.

Texts that read the same in two languages are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks import harness
from benchmarks.harness import LANGUAGES
from indexer.text.language_detection import SURE, Detector

WIDE = (
    *("ar", "bg", "bn", "ca", "cs", "da", "de", "el", "en", "es", "et", "eu", "fa", "fi", "fr", "he", "hi", "hr", "hu"),
    *("id", "it", "ja", "ka", "ko", "lt", "lv", "nb", "nl", "pl", "pt", "ro", "ru", "sk", "sl", "sv", "sw", "ta", "th"),
    *("tr", "uk", "vi", "zh"),
)
DOCUMENT_CHARACTERS = 500
Labelled = list[tuple[str, str]]


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


def main() -> None:
    """Measure, and write the section."""
    harness.options(__doc__)
    rows, sure = [], []
    for name, (languages, texts) in test_sets().items():
        detector = Detector(set(languages))
        right: dict[str, list[bool]] = defaultdict(list)
        for text, lang in texts:
            detected = detector.detect(text)
            right[lang].append(detected.lang == lang)
            sure += [detected.lang == lang] if detected.confidence >= SURE else []
        accuracy = sum(sum(answers) / len(answers) for answers in right.values()) / len(right)
        rows.append(f"| {name} languages, {len(texts):,} texts | {accuracy:.3f} |")
    lines = ["| texts | told right, mean over languages |", "|---|---:|", *rows, ""]
    share = sum(sure) / len(sure)
    lines.append(
        f"Of {len(sure):,} texts with a confidence of {SURE} or more {sum(sure):,} were told right: {share:.4f}."
    )
    harness.write("Language detection", lines)


if __name__ == "__main__":
    main()
