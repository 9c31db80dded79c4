"""The data of LAWDR's two alignment tasks, in the layouts they are published in.

**WMT16, bilingual document alignment.** A folder of ``DOMAIN.lett.gz`` files, one a website; a line is a page, six
columns with tabs between: language, MIME type, ``charset=utf-8``, URL, HTML in Base64, text in Base64. The true pairs
are a file of ``URL in English TAB URL in French`` lines over all sites. Pages are paired within their site only; each
URL counts once.

**WMT19, news commentary.** What ``documents.tgz`` holds when unpacked: a folder a language (``split/en``, ``split/de``
…), in it a file a document, of the same name in every language, a paragraph or sentence a line. A folder that has the
language folders itself will do. The other published form, ``news-commentary-v14.de-en.tsv.gz``, is read as well:
sentence pairs, a line with two empty columns between documents; those have the same place on both sides.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from encoders.document import Document
from encoders.errors import BadInput
from encoders.languages import normalise
from encoders.wording import counted
from indexer.readers.files import text_lines

_LETT = re.compile(r"\.lett(\.\w+)?$")
_TSV = re.compile(r"\.([a-z]{2,3})-([a-z]{2,3})\.tsv(\.\w+)?$")
_COLUMNS = 6


@dataclass(frozen=True)
class Site:
    """A website's pages in two languages.

    Attributes:
        name: its domain.
        first: pages in the first language.
        second: pages in the second. A page's id is its URL.
    """

    name: str
    first: list[Document]
    second: list[Document]


def lett_files(folder: Path) -> list[Path]:
    """The sites of a WMT16 folder, by name.

    Raises:
        BadInput: there is none.
    """
    found = sorted(path for path in folder.iterdir() if _LETT.search(path.name)) if folder.is_dir() else []
    if not found:
        raise BadInput(f"{folder} has no .lett or .lett.gz file; name the folder of the WMT16 task's websites")
    return found


def read_site(path: Path, first: str = "en", second: str = "fr") -> Site:
    """The pages of one site in two languages; those without text, and those of other languages, are left out.

    Raises:
        BadInput: the file can't be read, or a line is no page.
    """
    pages: dict[str, dict[str, Document]] = {first: {}, second: {}}
    for where, line in text_lines(path):
        columns = line.split("\t")
        if len(columns) != _COLUMNS:
            raise BadInput(f"{where} has {counted(len(columns), 'column')}; a page of a .lett file has {_COLUMNS}")
        lang, _, _, url, _, encoded = columns
        if lang not in pages:
            continue
        try:
            text = base64.b64decode(encoded, validate=True).decode("utf-8", "replace")
        except binascii.Error as error:
            raise BadInput(f"{where} has a text that is no Base64; get the file again") from error
        if text.strip():
            pages[lang][url] = Document(url, normalise(lang), text)
    return Site(_LETT.sub("", path.name), list(pages[first].values()), list(pages[second].values()))


Commentary = Mapping[str, Sequence[Document]]
"""News commentaries by language; each document's ``concept`` is that of its translations, and of nothing else."""


def read_commentary(path: Path) -> Iterator[Commentary]:
    """News commentary, from the folder of its documents, or from a TSV file or a folder of these, each by itself.

    Raises:
        BadInput: there is nothing of either layout, or a file can't be read.
    """
    if path.is_file():
        yield _commentary_tsv(path)
        return
    if not path.is_dir():
        raise BadInput(f"{path} does not exist; name the folder of news commentary, or a .tsv.gz file of it")
    files = sorted(file for file in path.iterdir() if _TSV.search(file.name))
    if files:
        for file in files:
            yield _commentary_tsv(file)
        return
    root = path / "split" if (path / "split").is_dir() else path
    languages = {folder.name: folder for folder in sorted(root.iterdir()) if _is_language(folder)}
    if len(languages) < 2:
        raise BadInput(
            f"{path} has no two folders named by language (en, de …) and no .tsv files; "
            "name the unpacked documents.tgz of news commentary"
        )
    yield {lang: _commentary_folder(folder, lang) for lang, folder in languages.items()}


def _is_language(folder: Path) -> bool:
    return folder.is_dir() and re.fullmatch(r"[a-z]{2,3}", folder.name) is not None


def _commentary_folder(folder: Path, lang: str) -> list[Document]:
    found = []
    for file in sorted(folder.iterdir()):
        if not file.is_file():
            continue
        text = "\n".join(line for _, line in text_lines(file)).strip()
        if text:
            found.append(Document(f"{lang}:{file.name}", normalise(lang), text, fields={"concept": file.name}))
    return found


def _commentary_tsv(path: Path) -> Commentary:
    named = _TSV.search(path.name)
    if not named:
        raise BadInput(f"{path} doesn't say its languages; it should be named as news-commentary-v14.de-en.tsv.gz is")
    langs = named[1], named[2]
    parts: tuple[list[str], list[str]] = ([], [])
    sides: tuple[list[Document], list[Document]] = ([], [])
    number = 0

    def close() -> None:
        nonlocal number
        texts = ["\n".join(part).strip() for part in parts]
        number += any(texts)
        for side, lang, text, part in zip(sides, langs, texts, parts, strict=True):
            if text:
                side.append(Document(f"{lang}:{number}", normalise(lang), text, fields={"concept": str(number)}))
            part.clear()

    for where, line in text_lines(path):
        columns = line.split("\t")
        if not line.strip():
            close()
        elif len(columns) < 2:
            raise BadInput(f"{where} has one column; news commentary has a sentence, a tab and its translation a line")
        else:
            for part, sentence in zip(parts, columns, strict=False):
                part.append(sentence)
    close()
    return dict(zip(langs, sides, strict=True))
