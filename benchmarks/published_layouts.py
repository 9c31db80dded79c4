"""Open collections in the layouts that the papers' data have, for ``python -m papers`` (docs/papers.md).

FOLDER/wmt19 (help pages) and FOLDER/wmt19-news have a folder of texts for each language, FOLDER/wikipedia counts words,
FOLDER/europarl has aligned sentences, and FOLDER/dictionary.txt pairs of words.
"""

import gzip
import sys
from collections import Counter
from pathlib import Path

from benchmarks import harness
from encoders.text.words import words


def write_commentary(collection: str, langs: list[str], concepts: set[str], folder: Path) -> None:
    """Texts as the unpacked documents of news commentary: ``LANG/NAME``; no concept given: all."""
    for lang in langs:
        (folder / lang).mkdir(parents=True, exist_ok=True)
        for record in harness.read(collection, lang):
            if not concepts or record["concept"] in concepts:
                name = record["concept"].replace("/", "_")
                (folder / lang / name).write_text(f"{record['title']}\n{record['text']}\n", encoding="utf-8")


def write_wikipedia(collection: str, langs: list[str], folder: Path) -> None:
    for part in ("sparse_matrices", "word_indices"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for lang in langs:
        numbers: dict[str, int] = {}
        file = folder / "sparse_matrices" / f"sparse_matrix_{lang}.txt.gz"
        with gzip.open(file, "wt", encoding="utf-8") as matrix:
            for document in harness.documents(list(harness.read(collection, lang)), lang):
                concept = str(document.fields["concept"]).replace(" ", "_")
                for word, count in Counter(words(document.content, lang)).items():
                    matrix.write(f"{concept} {numbers.setdefault(word, len(numbers) + 1)} {count}\n")
        index = "".join(f"{number}\t{word}\n" for word, number in numbers.items())
        (folder / "word_indices" / f"word_index_{lang}.tsv").write_text(index, encoding="utf-8")


def write_europarl(lang: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    english, translated = (dict(harness.tsv(f"lostrings/{code}.tsv.gz")) for code in ("en", lang))
    common = sorted(english.keys() & translated.keys())
    for code, texts in (("en", english), (lang, translated)):
        lines = "".join(f"{texts[sid]}\n" for sid in common)
        (folder / f"europarl-v7.{lang}-en.{code}").write_text(lines, encoding="utf-8")


def write_dictionary(lang: str, file: Path) -> None:
    entries = [
        f"{word} {translation}\n"
        for of_lang, word, translations in harness.tsv("freedict/en-x.tsv.gz")
        for translation in translations.split("|")
        if of_lang == lang and " " not in word + translation
    ]
    file.write_text("".join(entries), encoding="utf-8")


def main(folder: Path, pages: int = 150) -> None:
    concepts = (harness.DATA / "lohelp" / "concepts.core.txt").read_text(encoding="utf-8").split()
    write_commentary("lohelp", ["de", "en", "fi", "ja", "ru"], set(concepts[:pages]), folder / "wmt19")
    write_commentary("ntrex", ["de", "en", "ja", "sw"], set(), folder / "wmt19-news")
    write_wikipedia("lohelp", ["da", "en", "it", "vi"], folder / "wikipedia")
    write_wikipedia("ddtp", ["de", "en", "ko"], folder / "wikipedia-packages")
    write_europarl("it", folder / "europarl")
    write_dictionary("it", folder / "dictionary.txt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
