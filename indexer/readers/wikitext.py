"""Wikitext, the markup of MediaWiki, to plain text and the categories that it names."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

_DROPPED = (
    "ref|references|gallery|math|chem|timeline|score|syntaxhighlight|source|imagemap|templatestyles|hiero|graph|"
    "mapframe"
)
"""Elements whose content is no text of the article."""
_TOKEN = re.compile(
    r"(?P<open>\{\{|\[\[|^[ \t:]*\{\|)|(?P<close>\}\}|\]\]|^[ \t]*\|\}(?!\}))"
    rf"|<(?P<slash>/?)(?P<element>{_DROPPED})\b(?P<attributes>[^<>]*)>|(?P<comment><!--)|(?P<comment_end>-->)",
    re.IGNORECASE | re.MULTILINE,
)
_DEEPEST = 40
"""Depth from which an opening is text, as in MediaWiki; it bounds the time that a page takes."""
_KINDS = {"{{": "template", "}}": "template", "[[": "link", "]]": "link", "{|": "table", "|}": "table"}
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_EXTERNAL_LINK = re.compile(r"\[(?:https?:|ftp:)?//[^\s\[\]]*[ \t]*([^\[\]\n]*)\]")
_QUOTES = re.compile("'{2,}")
_SWITCH = re.compile(r"__[^\W_a-z0-9]+__")


@dataclass
class _Frame:
    """An opened construct, and the plain text inside it so far."""

    kind: str
    parts: list[str] = field(default_factory=list)


class _Reduction:
    """Reads the tokens of one page once; what is opened and never closed counts as text."""

    def __init__(self, category_names: Collection[str], file_names: Collection[str]) -> None:
        self._category_names, self._file_names = category_names, file_names
        self._frames = [_Frame("")]
        self._open: Counter[str] = Counter()
        self.categories: dict[str, None] = {}

    def text(self, markup: str) -> str:
        position = 0
        for token in _TOKEN.finditer(markup):
            self._add(markup[position : token.start()])
            self._take(token)
            position = token.end()
        self._add(markup[position:])
        while len(self._frames) > 1:
            self._give_up()
        return "".join(self._frames[0].parts)

    def _take(self, token: re.Match[str]) -> None:
        if opening := token["open"]:
            self._begin(_KINDS[opening[-2:]])
        elif closing := token["close"]:
            self._end(_KINDS[closing[-2:]])
        elif token["comment"]:
            self._begin("comment")
        elif token["comment_end"]:
            self._end("comment")
        elif token["slash"]:
            self._end(token["element"].lower())
        elif not token["attributes"].endswith("/"):
            self._begin(token["element"].lower())

    def _add(self, text: str) -> None:
        self._frames[-1].parts.append(text)

    def _begin(self, kind: str) -> None:
        if len(self._frames) > _DEEPEST:
            return
        self._frames.append(_Frame(kind))
        self._open[kind] += 1

    def _end(self, kind: str) -> None:
        """End the innermost construct of a kind; others that were opened inside it and not closed are text."""
        if not self._open[kind]:
            return
        while self._frames[-1].kind != kind:
            self._give_up()
        self._open[kind] -= 1
        content = "".join(self._frames.pop().parts)
        if kind == "link":
            self._add(self._link(content))

    def _give_up(self) -> None:
        frame = self._frames.pop()
        self._open[frame.kind] -= 1
        self._frames[-1].parts.extend(frame.parts)

    def _link(self, content: str) -> str:
        """What a reader sees of a link: its label or target; nothing of a category, a file or a picture."""
        target, _, label = content.partition("|")
        namespace, colon, name = target.partition(":")
        namespace = _plain_name(namespace)
        if colon and namespace in self._category_names:
            category = " ".join(name.replace("_", " ").split())
            if category and not self._open["comment"]:
                self.categories[category[0].upper() + category[1:]] = None
            return ""
        if colon and namespace in self._file_names:
            return ""
        return label or target.removeprefix(":").replace("_", " ")


def plain_text(
    markup: str, category_names: Collection[str] = (), file_names: Collection[str] = ()
) -> tuple[str, list[str]]:
    """The text of a page without its markup, and its categories in order.

    Templates, tables, notes, formulas, pictures and their captions are left out, and so are headings without text. What
    a template writes, and the categories that it sets, are not seen. ``category_names`` and ``file_names`` are names of
    these namespaces besides the English ones, which every wiki takes. The time is linear in the length.
    """
    reduction = _Reduction(
        {"category", *map(_plain_name, category_names)}, {"file", "image", "media", *map(_plain_name, file_names)}
    )
    text = reduction.text(markup)
    text = _SWITCH.sub("", _QUOTES.sub("", _EXTERNAL_LINK.sub(r"\1", _TAG.sub("", text))))
    return _lines(html.unescape(text)), list(reduction.categories)


def _plain_name(namespace: str) -> str:
    return " ".join(namespace.replace("_", " ").split()).lower()


def _lines(text: str) -> str:
    """The lines without marks of lists and headings; a heading only with text under it."""
    lines: list[str] = []
    heading = ""
    for raw_line in text.splitlines():
        line = raw_line.strip()
        if len(line) > 2 and line[0] == line[-1] == "=":
            heading = line.strip("=").strip()
        elif content := line.lstrip("*#:;").strip():
            if heading:
                lines += [heading] if not lines or not lines[-1] else ["", heading]
                heading = ""
            lines.append(content)
        elif lines and lines[-1]:
            lines.append("")
    return "\n".join(lines).strip()
