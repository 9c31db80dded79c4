"""Decode bytes: UTF-8 first, then the encoding the file declares, then the older encodings of the language."""

from __future__ import annotations

import re

from encoders.errors import BadInput
from encoders.languages import UNDETERMINED

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
    "ja": ("euc_jp", "cp932"),
    "ko": ("cp949",),
    "th": ("cp874",),
    "tr": ("windows-1254", "iso-8859-9"),
    "vi": ("windows-1258",),
    "zh": ("gb18030",),
    "zh-Hant": ("big5hkscs",),
}
"""Encodings older than UTF-8 by language, the likeliest first; all languages that are missing used the Western ones."""

_DECLARED = re.compile(rb"""(?:encoding|charset)\s*=\s*["']?\s*([A-Za-z0-9_.:-]+)""", re.IGNORECASE)
_TAG = re.compile(rb"<[^<>]*>|&#?\w+;")
_CYRILLIC_LETTER = re.compile("[а-яё]|([А-ЯЁ])")


class UndecodableError(Exception):
    """The bytes fit none of the likely encodings; the message says where, without the file's name."""


def known_encoding(name: str) -> str:
    """Check the name of an encoding. Raises BadInput: Python has no text encoding of this name."""
    try:
        "".encode(name)
    except (LookupError, UnicodeError) as error:  # the encoding "undefined" refuses every text
        raise BadInput(f"{name!r} is no encoding that is known; use one such as 'iso-8859-1' or 'koi8-r'") from error
    return name


def encoding_remark(encoding: str) -> str:
    """The sentence for a remark on a file that is not UTF-8."""
    return f"not UTF-8 and taken for {encoding}; if that is wrong, say --encoding"


def declared_encoding(start: bytes) -> str:
    """The encoding a file's first bytes declare (XML declaration, ``<meta>`` tag); empty where none or unknown."""
    match = _DECLARED.search(start[:4096])
    if not match:
        return ""
    try:
        return known_encoding(match[1].decode("ascii"))
    except BadInput:
        return ""


def decode(data: bytes, lang: str = "", *, stated: str = "", declared: str = "") -> tuple[str, str]:
    """Decode a record or a file; returns the text, and the encoding used.

    ``lang`` selects the older encodings to try (empty or ``und``: unknown); with ``stated``, the user's, no other
    encoding is tried; ``declared``, the file's, comes after UTF-8, since UTF-8 files often declare another one. Raises
    UndecodableError: the stated encoding does not fit, or no likely encoding does.
    """
    try:
        if stated:
            return data.decode(stated), stated
        return data.decode("utf-8"), "utf-8"
    except UnicodeError as error:
        place = f" (byte {error.start + 1})" if isinstance(error, UnicodeDecodeError) else ""
        problem = UndecodableError(f"it is not {stated or 'utf-8'}{place}; say which with --encoding")
        if stated:
            raise problem from error
    if declared and (text := _decoded(data, declared)) is not None:
        return text, declared
    candidates = LEGACY.get(lang, _CYRILLIC if lang in ("", UNDETERMINED) and _mostly_high(data) else _WESTERN)
    readings = [(text, encoding) for encoding in candidates if (text := _decoded(data, encoding)) is not None]
    if not readings:
        raise problem
    return max(readings, key=_lower_case_surplus) if candidates[0] == _CYRILLIC[0] else readings[0]


def _decoded(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeError:
        return None


def _mostly_high(data: bytes) -> bool:
    """Whether more than half of the bytes outside tags and entities are 0x80 or above, as in Cyrillic text."""
    plain = _TAG.sub(b"", data)
    high = sum(byte >= 0x80 for byte in plain)
    return high > len(plain) / 2


def _lower_case_surplus(reading: tuple[str, str]) -> int:
    """Lower-case minus upper-case letters: Russian text is mostly lower case, and a wrong encoding swaps the cases."""
    return sum(-1 if capital else 1 for capital in _CYRILLIC_LETTER.findall(reading[0][:100_000]))
