"""Mails, mailboxes (mbox) and pages in MIME: each mail is a document, its subject the title (RFC 5322 and 2045)."""

import re
from collections.abc import Iterator
from email import message_from_bytes, policy
from email.errors import MessageError
from email.message import MIMEPart
from itertools import islice
from typing import Any, cast

from encoders.errors import BadInput
from indexer.readers.records.encodings import UTF8, Encoding, UndecodableError, decide, known_encoding
from indexer.readers.records.files import LONG_LINE, RECORD_LIMIT, SourceFile
from indexer.readers.records.html_page import read_page
from indexer.readers.records.record import clean_line, make_document
from indexer.readers.records.source import Reading, ReadOptions, Refusal, Remark

MAIL = re.compile(
    rb"(?:from [^\n]*\d:\d\d[^\n]*\n)?(?:[a-z-]+:[^\n]*\n|[ \t][^\n]*\n)*"
    rb"(?:mime-version|content-transfer-encoding|message-id):",
    re.IGNORECASE,
)
"""What mails begin with; the line that begins each mail of an mbox may stand before."""
_QUOTED = re.compile(rb"^>(>*From )", re.MULTILINE)
_MOST_SUBJECT = 4000
"""Characters of a subject that are read: ``email`` takes memory that grows with the square of its encoded words."""
_BROKEN = (AttributeError, LookupError, MessageError, OverflowError, RecursionError, TypeError, ValueError)
"""What ``email`` raises at headers that no program should write."""


def read_mails(file: SourceFile, options: ReadOptions) -> Iterator[Reading]:
    """Yield each mail of a file as a document of its parts' plain text, else their HTML, with its date as ``date``.

    The path is the id, in an mbox the path and the line where the mail begins.
    """
    for line, data in _mails(file):
        place, doc_id = (file.at(line), file.record_id(line)) if line else (file.shown, file.name)
        if len(data) > RECORD_LIMIT:
            yield Refusal(place, LONG_LINE.replace("line", "mail"), doc_id)
            continue
        try:
            record, encodings = _parts(data, file.stated, options)
        except UndecodableError as error:
            yield Refusal(place, str(error), doc_id)
        except _BROKEN as error:
            yield Refusal(place, f"the mail can't be read ({error}); save its text as .txt", doc_id)
        else:
            remarks = list(dict.fromkeys(remark for encoding in encodings for remark in encoding.remarks()))
            if options.strict and remarks:
                raise BadInput(f"{place}: {remarks[0]} (--strict)")
            yield make_document({"id": doc_id, **record}, place, ReadOptions(lang=options.lang))
            yield from (Remark(place, remark) for remark in remarks)


def _mails(file: SourceFile) -> Iterator[tuple[int, bytes]]:
    """The mails of a file, each with the number of its first line; 0 if the file is a mail and no mbox."""
    mail, begun, blank = bytearray(), 0, True
    for line in file.lines():
        if blank and re.match(rb"From .*\d:\d\d", line) and (begun or not mail.strip()):
            if begun:
                yield begun, _QUOTED.sub(rb"\1", bytes(mail))
            mail.clear()
            begun = file.line
        elif len(mail) <= RECORD_LIMIT:
            mail += line + b"\n"
        blank = not line
    yield begun, _QUOTED.sub(rb"\1", bytes(mail)) if begun else bytes(mail.lstrip())


def _parts(data: bytes, stated: str, options: ReadOptions) -> tuple[dict[str, str | None], list[Encoding]]:
    """Title, text and date by ISO 8601, and how the texts were read; ``stated`` if undeclared."""
    mail = message_from_bytes(data, policy=policy.default)
    date: Any = getattr(mail["date"], "datetime", None)
    texts = list(_texts(mail, stated, options))
    encodings = [encoding for _, encoding in texts] or [UTF8]
    raw = next((value for name, value in mail.raw_items() if name.lower() == "subject"), "")[:_MOST_SUBJECT]
    title = str(mail.policy.header_fetch_parse("subject", raw))
    if "\ufffd" in title and not raw.isascii():  # written as the text is, without a declaration
        title = raw.encode("ascii", "surrogateescape").decode(encodings[0].name, "replace")
    text = "\n".join(text for text, _ in texts)
    return {"title": clean_line(title), "text": text, "date": date and date.isoformat()}, encodings


def _texts(part: MIMEPart, stated: str, options: ReadOptions) -> Iterator[tuple[str, Encoding]]:
    """The plain text, else the HTML, of each part of a mail, and of mails in it, that is no attached file."""
    if part.is_multipart() and part.get_content_subtype() not in ("alternative", "related"):
        for inner in part.iter_parts():
            yield from _texts(inner, stated, options)
    else:
        bodies = (part.get_body((kind,)) for kind in ("plain", "html"))
        texts = (_text(body, stated, options) for body in bodies if body is not None)  # a part without headers is false
        yield from islice((read for read in texts if read[0].strip()), 1)


def _text(body: MIMEPart, stated: str, options: ReadOptions) -> tuple[str, Encoding]:
    """A part's text as declared, save UTF-8 called ASCII; else as a file's. Raises UndecodableError."""
    payload, html = cast("bytes", body.get_payload(decode=True)), body.get_content_subtype() == "html"
    try:
        name = known_encoding(str(body.get_content_charset(stated)))
        name = "utf-8" if name == "cp1252" and "\ufffd" not in payload.decode("utf-8", "replace") else name
        text = payload.decode(name, "replace")
        encoding = Encoding(name, replaced=text.count("\ufffd"))
    except BadInput:
        encoding = decide(lambda: [payload], payload, html=html, lang=options.lang, languages=options.languages)
        text = payload.decode(encoding.name, "replace")
    return read_page(text)[1] if html else text, encoding
