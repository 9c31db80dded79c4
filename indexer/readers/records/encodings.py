"""The encoding of a file, decided once over all of its bytes: stated, marked, UTF-8, declared, or guessed."""

import codecs
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import chain
from typing import Any

from encoders.errors import BadInput
from encoders.phrases import counted

_WESTERN = ("windows-1252", "iso-8859-1")
_CENTRAL = ("windows-1250", "iso-8859-2")
_CYRILLIC = ("windows-1251", "koi8-r", "iso-8859-5", "cp866")
_BALTIC = ("windows-1257", "iso-8859-13")

LEGACY = {
    **dict.fromkeys(("bs", "cs", "hr", "hu", "pl", "ro", "sk", "sl", "sq", "sr-Latn"), _CENTRAL),
    **dict.fromkeys(("be", "bg", "mk", "ru", "sr"), _CYRILLIC),
    **dict.fromkeys(("lt", "lv"), _BALTIC),
    "uk": ("windows-1251", "koi8-u", "iso-8859-5"),
    "ar": ("windows-1256", "iso-8859-6"),
    "el": ("windows-1253", "iso-8859-7"),
    "fa": ("windows-1256",),
    "he": ("windows-1255", "iso-8859-8"),
    "ja": ("euc-jp", "cp932"),
    "ko": ("cp949",),
    "th": ("cp874",),
    "tr": ("windows-1254", "iso-8859-9"),
    "vi": ("windows-1258",),
    "zh": ("gb18030",),
    "zh-Hant": ("big5hkscs",),
}
"""Encodings older than UTF-8 by language; all languages that are missing used the Western ones."""
_OF_ALL = sorted({*_WESTERN, "cp850", "mac-roman", *(name for names in LEGACY.values() for name in names)})
_SURE = 0.12
"""Confidence of a guess from which on it is believed.

Of 578 samples of 80 to 20,000 characters in old encodings, 555 are then read right, 21 are refused and 2 wrong; as JSON
lines 554, 21 and 3 (``benchmarks/beliefs.py``).
"""
_SURE_NEAR, _TIE = 0.06, 0.95
"""The same of a guess that fits the languages of the file's records or of the collection, and its share of the best
confidence from which on it wins.

Of these samples, in a collection of nine languages, 562 are right, 14 are refused and 2 wrong. Both numbers were chosen
by them and by shorter ones; of 2,648 of other data, of 20 to 160 characters, 2,438 are right, 180 refused and 30 wrong.
"""
_WELL_FORMED = 0.5
"""Share of an encoding's own sequences among the characters that are not ASCII, from which on a file is in it.

None of 491 such samples reaches .34 as UTF-8.
"""
_RARE = 200
"""Bytes to each broken sequence from which on a file is read as UTF-8 if no guess is sure."""
_SWITCHED = ("iso2022_jp", "iso2022_kr", "hz")
"""Encodings of ASCII's bytes alone, whose switches begin other characters; HZ's may stand in any text."""
_NEXT = rb"(?:\xc2[\x80-\xbf]|%b)" % b"|".join(
    character.encode() for character in bytes(range(0x80, 0xA0)).decode("cp1252", "ignore")
)
_TWICE = re.compile(rb"\xc3(?:[\x82-\x9f]%b|[\xa0-\xaf]%b{2}|[\xb0-\xb4]%b{3})" % (_NEXT, _NEXT, _NEXT))
"""What UTF-8's characters become if their bytes are read as a Western encoding's, to be written as UTF-8 again."""
_SAMPLE = 200_000
"""Bytes by which an encoding is guessed, of lines that are not ASCII."""
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
"""Byte order marks; that of UTF-32 begins as that of UTF-16."""
_FIRST_OF_MARKS = {mark[:1] for mark in _MARKS}
_WIDE = tuple(_MARKS.values())[1:]
_OF_FEW = 0.9
"""Share of three rows in a text of UTF-16 without a mark; Latin, whose characters have a zero byte, has the rest."""
_WIDER = {
    **dict.fromkeys(("ascii", "iso8859-1"), "cp1252"),
    "iso8859-9": "cp1254",
    **dict.fromkeys(("iso8859-11", "tis-620"), "cp874"),
    **dict.fromkeys(("gb2312", "gbk"), "gb18030"),
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
    "euc_jis_2004": "euc_jp",
    **{wide: f"{wide}-le" for wide in ("utf-16", "utf-32")},
}
"""What the WHATWG's Encoding Standard reads for a label, by Python's name of the label's own encoding."""
_NO_FILES = frozenset(("idna", "punycode", "raw-unicode-escape", "unicode-escape", "utf-7"))
_MARKS_OF_DATA = b'"#0123456789:;,/=&%'  # none of them is the second byte of a character, save in GB 18030's rarest
_ALIKE = bytes((*range(0x80), 0x80, 0x85, *range(0x91, 0x98), 0x99, 0xA0, 0xA9, 0xAB, 0xAE, 0xB0, 0xB7, 0xBB))
"""ASCII, and the quotes, dashes and signs that all of Windows' encodings have at one place."""
_XML = re.compile(rb"""\s*<\?xml[^>]*?encoding\s*=\s*["']\s*([\w.:-]+)""", re.IGNORECASE)
_META = re.compile(rb"""<meta\s[^>]*?charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_NO_TEXT = ((b"<script", b"</script"), (b"<style", b"</style"), (b"<!--", b"-->"))
_STATED_LANG = re.compile(rb"""\blang(?:uage)?["']?\s*[=:>]\s*["']?([a-z]{2,3})\b""", re.IGNORECASE)
_LANG_COLUMN = re.compile(rb"""(?:[^\n]*[,;\t|])?\s*"?(?:lang|language)"?\s*[,;\t|\r\n]""", re.IGNORECASE)
_CELL = re.compile(rb"""(?<=[,;\t|\n])"?([a-z]{2,3})(?="?(?:[,;\t|\r\n]|$))""", re.IGNORECASE)
"""The header of a table whose rows name their languages, and a cell that may do so."""
_TAG = re.compile(rb"<[^<>]*>")
_NO_WORDS = bytes.maketrans(_MARKS_OF_DATA, b" " * len(_MARKS_OF_DATA))


class UndecodableError(Exception):
    """The bytes fit none of the likely encodings; the message says so, without the file's name."""


@dataclass(frozen=True)
class Encoding:
    """How a file's bytes are read."""

    name: str = "utf-8"  # Python's name
    guessed: bool = False  # the file does not show it, and nobody said it
    replaced: int = 0  # number of sequences that it can't have, each of which is read as U+FFFD

    def remarks(self) -> Iterator[str]:
        """Sentences that a user must see."""
        if self.guessed:
            yield f"it is not UTF-8 and taken for {self}; if that is wrong, say --encoding"
        if self.replaced:
            broken = counted(self.replaced, "character of it is", "characters of it are")
            yield f"{broken} broken in {self}, and read as U+FFFD"

    def __str__(self) -> str:
        """The name as people write it."""
        return self.name.replace("cp125", "windows-125").replace("iso8859", "iso-8859").replace("utf", "UTF")


UTF8 = Encoding()


def known_encoding(name: str) -> str:
    """Python's name of what a label stands for by the WHATWG's table. Raises BadInput: nobody knows the label."""
    label = name.strip().lower().removeprefix("x-").removesuffix("-i").removesuffix("-e")
    for candidate in (label, label.replace("windows-31j", "cp932").replace("windows-", "cp")):
        try:
            "".encode(candidate)
        except (LookupError, UnicodeError):  # the encoding "undefined" refuses every text
            continue
        python_name = codecs.lookup(candidate).name
        if python_name not in _NO_FILES:
            return _WIDER.get(python_name, python_name)
    raise BadInput(f"{name!r} is no encoding that is known; use one such as 'iso-8859-1' or 'koi8-r'")


def stated_encoding(options: str, name: str) -> str:
    """What ``--encoding`` says of a file's name: ``NAME`` for all, or ``PATTERN=NAME``, with commas between.

    Empty: it says nothing. Raises BadInput: an encoding is unknown.
    """
    stated = ""
    for option in stated_parts(options):
        pattern, _, encoding = option.rpartition("=")
        encoding = known_encoding(encoding)
        if fnmatch(name, pattern or "*") or fnmatch(name, f"*/{pattern}"):
            stated = encoding
    return stated


def stated_parts(options: str) -> list[str]:
    """The parts of what ``--encoding`` says, each ``NAME`` or ``PATTERN=NAME``."""
    return [part for part in map(str.strip, options.split(",")) if part] if options else []


def wide_encoding(start: bytes, stated: str = "") -> tuple[str, int]:
    """The encoding that a byte order mark shows, and the mark's length; else UTF-16 or UTF-32 that is ``stated``.

    Where nothing is stated, zero bytes show it: read so, the bytes are text. An empty name: the bytes show none.
    """
    if start[:1] in _FIRST_OF_MARKS:
        for mark, name in _MARKS.items():
            if start.startswith(mark):
                return name, len(mark)
    if stated:
        return stated if stated in _WIDE else "", 0
    candidates = _WIDE if b"\0" in start else ()
    return next((name for name in candidates if _is_wide_text(start[:4096], name)), ""), 0


def _is_wide_text(start: bytes, name: str) -> bool:
    """Whether bytes are text in UTF-32, or text in UTF-16 of a few of Unicode's rows, that of Latin among them."""
    try:
        text = codecs.getincrementaldecoder(name)().decode(start)
    except UnicodeError:
        return False
    kinds = {unicodedata.category(sign) for sign in "".join(text.split())}
    if not text or len(start) % 2 or kinds & {"Cc", "Cn", "Co", "Cs"}:
        return False
    rows = Counter(ord(sign) >> 8 for sign in text)
    of_few = sum(count for _, count in rows.most_common(3)) >= _OF_FEW * len(text)
    return "32" in name or (of_few and rows[0] >= (1 - _OF_FEW) * len(text))


def _declared_encoding(start: bytes, *, html: bool) -> str:
    """The encoding that an XML declaration or a page's ``<meta>`` names; empty: none, or an unknown one."""
    match = _XML.match(start) or (_META.search(_without_scripts(start)) if html else None)
    if match is None:
        return ""
    try:
        encoding = known_encoding(match[1].decode("ascii"))
    except BadInput:
        return ""
    return "" if encoding.startswith("utf") else encoding  # what is read as ASCII is no UTF-16


def decide(
    blocks: Callable[[], Iterable[bytes]],
    start: bytes = b"",
    *,
    stated: str = "",
    html: bool = False,
    lang: str = "",
    languages: Collection[str] = (),
) -> Encoding:
    """Decide by all bytes of a file, without its byte order mark; ``start`` may declare the encoding.

    ``lang`` is its language, empty if unknown, and ``languages`` are the collection's. ``blocks`` gives the bytes anew
    at each call. UTF-8 goes before the declared encoding, since UTF-8 files often declare another one.
    Raises UndecodableError: the stated encoding does not fit, or no guess is sure.
    """
    if stated in ("", "utf-8") and (sample := _utf8_sample(blocks())) is not None:
        if not stated:
            _refuse_twice_encoded(sample)
        return UTF8
    declared = _declared_encoding(start, html=html)
    first = _Reading(stated or "utf-8", blocks())
    if first.switches and not stated and (switched := _switched(blocks)):
        return Encoding(switched.name, guessed=declared != switched.name, replaced=switched.broken)
    if first.fits or (stated and first.broken * _RARE < first.length):
        return Encoding(first.name, replaced=first.broken)
    if stated:
        raise UndecodableError(f"it is not {Encoding(stated)}, as its byte order mark or --encoding says; correct this")
    if declared and (reading := _Reading(declared, blocks())).fits:
        return Encoding(declared, replaced=reading.broken)
    stating = _CELL if _LANG_COLUMN.match(start) else _STATED_LANG
    stated_langs = {match[1].decode().lower() for match in stating.finditer(start)}
    for name in _guesses(bytes(first.sample), lang, {*languages, *stated_langs}):
        reading = _Reading(name, blocks())
        if name != "utf-8" and reading.broken * _RARE < reading.length:
            return Encoding(name, guessed=True, replaced=reading.broken)
    if first.broken * _RARE < first.length:
        return Encoding(replaced=first.broken)
    raise UndecodableError(
        "it is not UTF-8, and its encoding can't be told; say it, as in --encoding windows-1252, or in utf-16-le"
    )


def _utf8_sample(blocks: Iterable[bytes]) -> bytes | None:
    """The first block that is not ASCII, if all bytes are UTF-8 without ``_switches``; none if not."""
    decoder, sample = codecs.getincrementaldecoder("utf-8")(), b""
    plain = True  # whether the block before was ASCII: else it may have ended inside a character
    try:
        for block in blocks:
            if _switches(block):
                return None
            if not (block.isascii() and plain):
                decoder.decode(block)
                sample = sample or block
            plain = block.isascii()
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return None
    return sample


def _switches(block: bytes) -> bool:
    """Whether a block has a switch; its first byte alone is looked for ten times as fast."""
    return (b"\x1b" in block and b"\x1b$" in block) or (b"~" in block and b"~{" in block)


def _refuse_twice_encoded(sample: bytes) -> None:
    """Raise ``UndecodableError`` if most characters that are not ASCII are halves of others."""
    halves = _TWICE.findall(sample)
    parts, others = (data.translate(None, bytes(range(0xC0))) if halves else b"" for data in (b"".join(halves), sample))
    if halves and len(parts) >= _WELL_FORMED * len(others):  # the first bytes of characters that are not ASCII
        western = "latin1" if re.search(rb"\xc2[\x80-\x9f]", sample) else "windows-1252"
        raise UndecodableError(
            f"it was written in UTF-8 twice, as {halves[0].decode()!r} shows; undo it: iconv -f utf-8 -t {western}; "
            "if it is right, say --encoding utf-8"
        )


class _Reading:
    """All bytes of a file, read in one encoding."""

    def __init__(self, name: str, blocks: Iterable[bytes]) -> None:
        self.name, self.length, self.sample = name, 0, bytearray()  # the length is in bytes
        self.broken = self.others = 0  # sequences that are no character, and characters that are not ASCII
        self.switches = False  # whether there are ISO 2022's switches, and all else is ASCII
        decoder = codecs.getincrementaldecoder(name)("replace")
        mark = "\ufffd".encode(name, "ignore")
        for block in chain(blocks, (b"",)):
            text = decoder.decode(block, final=not block)
            self.length += len(block)
            self.switches |= _switches(block)
            self.others += len(text) - len(text.encode("ascii", "ignore"))
            self.broken += text.count("\ufffd") - (block.count(mark) if mark else 0)
            if len(self.sample) < _SAMPLE and not block.isascii():
                # markup, digits and JSON's marks make guesses unsure
                plain = _TAG.sub(b" ", _without_scripts(block)).translate(_NO_WORDS)
                self.sample += b"\n".join(line for line in plain.splitlines() if not line.isascii())
        self.broken = max(0, self.broken)
        self.switches &= not self.sample
        self.fits = self.others - self.broken >= _WELL_FORMED * self.others and not (name == "hz" and self.broken)


def _switched(blocks: Callable[[], Iterable[bytes]]) -> _Reading | None:
    """The reading of ASCII's bytes by switches to other characters that fits best; none if the switches are text."""
    fitting = [reading for name in _SWITCHED if (reading := _Reading(name, blocks())).others and reading.fits]
    return min(fitting, key=lambda reading: reading.broken, default=None)


def _without_scripts(markup: bytes) -> bytes:
    """Markup without scripts, styles and comments, in time that grows with its length."""
    for begin, end in _NO_TEXT:
        lower, parts, at = markup.lower(), list[bytes](), 0
        while (start := lower.find(begin, at)) >= 0 and (stop := lower.find(end, start)) >= 0:
            parts.append(markup[at:start])
            at = stop + len(end)
        markup = b" ".join([*parts, markup[at:]])
    return markup


def _guesses(sample: bytes, lang: str, languages: Collection[str]) -> Iterator[str]:
    """What the bytes may be: the best of the language's own encodings, then the best of all if that is sure."""
    if not sample.translate(None, _ALIKE):
        yield "cp1252"
        return
    from chardet import detect, detect_all  # noqa: PLC0415 - most files are UTF-8

    if lang:
        names = LEGACY.get(lang, _WESTERN)
        yield _python_name(detect(sample, include_encodings=names, compat_names=False, no_match_encoding=names[0]))
    best, *others = detect_all(sample, include_encodings=_OF_ALL, compat_names=False, ignore_threshold=True)
    usual = {name for language in languages for name in map(known_encoding, LEGACY.get(language, _WESTERN))}
    bases = {language.partition("-")[0] for language in languages}
    near = [guess for guess in (best, *others) if _python_name(guess) in usual and guess["language"] in bases]
    sure, fits = best["confidence"] >= _SURE, _python_name(best) in usual
    if near and not (sure and fits) and near[0]["confidence"] >= max(_SURE_NEAR, _TIE * best["confidence"]):
        yield _python_name(near[0])
    elif sure:
        yield _python_name(best)


def _python_name(guess: Mapping[str, Any]) -> str:
    return known_encoding(guess["encoding"] or "utf-8")
