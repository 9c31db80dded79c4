"""Readers of WMT16 and WMT19 in their published layouts, for the tables of LAWDR."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

from encoders.document import Document
from encoders.errors import BadInput
from indexer.readers.records.files import text_lines
from indexer.readers.records.source import ReadOptions
from indexer.readers.source_documents import whole_data
from indexer.readers.tasks import COMMENTARY, LANGUAGE, LETT, parse_page


def lett_files(folder: Path) -> list[Path]:
    """The files of a WMT16 folder, one for each site, sorted by name."""
    files = sorted(path for path in folder.iterdir() if LETT.search(path.name)) if folder.is_dir() else []
    if not files:
        raise BadInput(f"{folder} has no .lett or .lett.gz file; name the folder of the WMT16 task's websites")
    return files


def read_site(path: Path) -> dict[str, list[Document]]:
    """The English and French pages of one site, whose ids are their URLs; pages without text are left out."""
    pages: dict[str, dict[str, Document]] = {"en": {}, "fr": {}}
    for where, line in text_lines(path):
        try:
            page = parse_page(line)
        except ValueError as error:
            raise BadInput(f"{where} {error}") from error
        if page.lang in pages and page.text.strip():
            pages[page.lang][page.url] = Document(page.url, page.lang, page.text)
    return {lang: list(by_url.values()) for lang, by_url in pages.items()}


Commentary = Mapping[str, Sequence[Document]]
"""News commentaries by language; a document and its translations share a ``concept`` that no other document has."""


def read_commentary(path: Path) -> Iterator[Commentary]:
    """News commentary from the folder of its documents, from a TSV file, or from each TSV file of a folder."""
    if not (path.is_file() or path.is_dir()):
        raise BadInput(f"{path} does not exist; name the folder of news commentary, or a .tsv.gz file of it")
    files = [path] if path.is_file() else sorted(file for file in path.iterdir() if COMMENTARY.search(file.name))
    for file in files:
        if not COMMENTARY.search(file.name):
            raise BadInput(
                f"{file} doesn't say its languages; it should be named as news-commentary-v14.de-en.tsv.gz is"
            )
        yield _by_language([file])
    if files:
        return
    root = path / "split" if (path / "split").is_dir() else path
    folders = [folder for folder in sorted(root.iterdir()) if folder.is_dir() and LANGUAGE.fullmatch(folder.name)]
    if len(folders) < 2:
        raise BadInput(
            f"{path} has no two folders named by language (en, de …) and no .tsv files; "
            "name the unpacked documents.tgz of news commentary"
        )
    yield _by_language(file for folder in folders for file in sorted(folder.iterdir()) if file.is_file())


def _by_language(files: Iterable[Path]) -> Commentary:
    commentary: dict[str, list[Document]] = {}
    for file in files:
        for document in whole_data(file, ReadOptions(format="commentary")):
            commentary.setdefault(document.lang, []).append(document)
    return commentary


_NAMES = {
    "en": "english anglais englisch eng en gb us uk e",
    "fr": "french francais français franzoesisch fra fre fr f",
}
_REGIONS = {"en": "us uk gb ca au ie in nz za en", "fr": "fr ca be ch lu"}
_LANGUAGE_KEYS = re.compile(r"^(?:\w*lang(?:uage|ue)?|\w*locale|hl)$", re.IGNORECASE)


def match_urls(first: Iterable[str], second: Iterable[str], langs: tuple[str, str]) -> list[tuple[str, str]]:
    """Pairs of URLs that differ only in their language, each URL in one pair at most.

    One of the two URLs may name no language. Of several URLs that differ only in their language, the first ones in
    alphabetical order are paired.
    """
    sides: tuple[dict[str, list[str]], ...] = ({}, {})
    for urls_by_key, urls in zip(sides, (first, second), strict=True):
        for url in sorted(set(urls)):
            urls_by_key.setdefault(neutral(url, langs), []).append(url)
    pairs = []
    for key, urls in sides[0].items():
        pairs += [(a, b) for a, b in zip(urls, sides[1].get(key, []), strict=False) if a != b]
    return pairs


def neutral(url: str, langs: tuple[str, str]) -> str:
    """A URL without its scheme, its fragment, and the names of the languages in its path and its query."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    marks = _marks(langs)

    def stripped(text: str) -> str:
        return marks.sub("", text).strip("-_.")

    path = "/".join(segment for part in parts.path.split("/") if (segment := stripped(part)))
    query = [
        (key, rest)
        for key, value in parse_qsl(parts.query, keep_blank_values=True)
        if not _LANGUAGE_KEYS.match(key) and ((rest := stripped(value)) or not value)
    ]
    return f"{parts.hostname or ''}/{path}?{urlencode(query)}"


@lru_cache
def _marks(langs: tuple[str, str]) -> re.Pattern[str]:
    """Pattern of a language's name or code together with the separator before it; no letter or digit may follow."""
    names = []
    for lang in langs:
        names += _NAMES.get(lang, lang).split()
        names += [f"{lang}[-_]{region}" for region in _REGIONS.get(lang, lang).split()]
    longest_first = "|".join(sorted(names, key=len, reverse=True))
    return re.compile(rf"(?:^|[-_.])(?:{longest_first})(?![a-zA-Z0-9])", re.IGNORECASE)
