"""Plain text and HTML: each file is a document."""

from collections.abc import Callable, Iterator
from functools import cache

from encoders.languages import UNDETERMINED
from indexer.readers.records.files import SourceFile
from indexer.readers.records.html_page import read_page
from indexer.readers.records.record import TEXT_LIMIT, make_document
from indexer.readers.records.source import Reading, ReadOptions, Refusal, Remark
from indexer.text.language_detection import Detector

_TITLE_LENGTH = 120
"""Maximum characters of a first line that counts as the title."""
_ENOUGH = 50
"""Characters of a page from which on its text can contradict its ``<html lang>``, which templates often copy."""
_UNLIKELY = 1e-6
_LONG = 1_000_000
_detector = cache(Detector)


def read_text(file: SourceFile, options: ReadOptions) -> Iterator[Reading]:
    """Yield the file as one document; the path is the id, and a short first line is the title."""
    return _read(file, options, "text", _text)


def read_html(file: SourceFile, options: ReadOptions) -> Iterator[Reading]:
    """Yield the page as one document; the path is the id, and ``<html lang>`` the language unless the text shows it."""
    return _read(file, options, "HTML", lambda markup, _: read_page(markup))


def _read(
    file: SourceFile, options: ReadOptions, kind: str, parse: Callable[[str, SourceFile], tuple[str, str, str]]
) -> Iterator[Reading]:
    """Yield one document, whose title, text and language ``parse`` takes from the decoded file."""
    data = file.whole()
    if b"\0" in data:
        yield Refusal(file.shown, f"it is binary, not {kind}; convert it, or take its NULs out", file.name)
        return
    title, text, lang = parse(data.decode("utf-8", "replace"), file)
    stated, lang = lang, _believed(lang, text)
    record = {"id": file.name, "title": title, "text": text, "lang": lang}
    yield make_document(record, file.shown, ReadOptions(lang=options.lang))
    if lang != stated:
        yield Remark(file.shown, f"its <html lang> says {stated}, and its text is in another language")
    if _LONG <= len(text) <= TEXT_LIMIT:
        yield Remark(
            file.shown,
            f"it has more than {_LONG:,} characters and is one document, found by the mean of all its parts; split it, "
            "say by chapters, into files",
        )


def _believed(lang: str, text: str) -> str:
    """The language that a page states; ``und`` if its text can't be in it."""
    if len(text) < _ENOUGH or lang in ("", UNDETERMINED):
        return lang
    base = lang.partition("-")[0]
    stated = [value for other, value in _detector(None).probabilities(text).items() if other.split("-")[0] == base]
    return UNDETERMINED if stated and max(stated) < _UNLIKELY else lang


def _text(content: str, file: SourceFile) -> tuple[str, str, str]:
    title, _, rest = content.strip().partition("\n")
    if not rest.strip() or len(title) > _TITLE_LENGTH or not any(map(str.isalnum, title)):
        title, rest = "", content
    return title.lstrip("# ") if file.suffix in (".md", ".markdown") else title, rest, ""
