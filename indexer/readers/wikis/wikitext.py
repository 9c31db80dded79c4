"""Wikitext, the markup of MediaWiki, to plain text and the categories that it names."""

import html
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from encoders.languages import UNDETERMINED, tag_or

_DROPPED = (
    "ref|references|gallery|math|chem|timeline|score|syntaxhighlight|source|imagemap|templatestyles|hiero|graph|"
    "mapframe"
)
"""Elements whose content is no text of the article."""
_LITERAL = "nowiki|pre"
"""Elements whose content is text without markup."""
_TOKEN = re.compile(
    r"(?P<open>\{\{|\[\[|^[ \t:]*\{\|)|(?P<close>\}\}|\]\]|^[ \t]*\|\}(?!\}))"
    rf"|<(?P<element>{_DROPPED}|{_LITERAL})\b(?P<attributes>[^<>]*)>|(?P<comment><!--)",
    re.IGNORECASE | re.MULTILINE,
)
_DEEPEST = 40
"""Depth from which an opening is text, as in MediaWiki; it bounds the time that a page takes."""
_KINDS = {"{{": "template", "}}": "template", "[[": "link", "]]": "link", "{|": "table", "|}": "table"}
_GAP = "<nowiki/>"
"""Stands for what was left out, so that quotes on its two sides do not become a longer run; removed with the tags."""
_MARKS = {ord(mark): f"&#{ord(mark)};" for mark in "<>[]{}|'_"}
_FILE = re.compile(
    r"\.(?:jpe?g|png|svg|gif|tiff?|webp|og[agv]|mp3|wav|midi?|flac|opus|webm|pdf|djvu)\s*\Z", re.IGNORECASE
)
_LANGUAGE = re.compile(r"simple|[a-z]{2,3}|[a-z]{2,3}(?:-[a-z]{1,9})+")
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_BREAK = re.compile(r"</?(?:br|p|li|dd|dt|div|blockquote)\b[^<>]*>", re.IGNORECASE)
_EXTERNAL_LINK = re.compile(r"\[(?:https?:|ftp:)?//[^\s\[\]]*+[ \t]*+([^\[\]\n]*+)\]")
_VARIANTS = re.compile(r"-\{(?:[HT]\|[^{}]*+|(?:[\w;-]*+\|)?\s*+(?:[a-z-]++:)?([^{};]*+)[^{}]*+)\}-")
"""Spellings of a word by variants of Chinese or another language; the first is the text."""
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
        self._unclosed: set[str] = set()
        self.categories: dict[str, None] = {}

    def text(self, markup: str) -> str:
        position = 0
        while token := _TOKEN.search(markup, position):
            self._add(markup[position : token.start()])
            position = token.end()
            if opening := token["open"]:
                self._begin(_KINDS[opening[-2:]])
            elif closing := token["close"]:
                self._end(_KINDS[closing[-2:]])
            elif token["comment"]:
                end = markup.find("-->", position)
                position = end + 3 if end >= 0 else len(markup)
            else:
                position = self._element(markup, token)
        self._add(markup[position:])
        while len(self._frames) > 1:
            self._unwrap()
        return "".join(self._frames[0].parts)

    def _element(self, markup: str, token: re.Match[str]) -> int:
        """Add what a reader sees of an element whose markup counts for nothing; return the position after it."""
        self._add(_GAP)
        name = token["element"].lower()
        if token["attributes"].endswith("/") or name in self._unclosed:
            return token.end()
        closing = re.compile(rf"</{name}\s*>", re.IGNORECASE).search(markup, token.end())
        if closing is None:
            self._unclosed.add(name)
            return token.end()
        if name in _LITERAL.split("|"):
            self._add(markup[token.end() : closing.start()].translate(_MARKS) + _GAP)
        return closing.end()

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
            self._unwrap()
        self._open[kind] -= 1
        content = "".join(self._frames.pop().parts)
        self._add((self._link(content.replace(_GAP, "")) if kind == "link" else "") or _GAP)

    def _unwrap(self) -> None:
        """Turn the innermost construct into text of the construct around it."""
        frame = self._frames.pop()
        self._open[frame.kind] -= 1
        self._frames[-1].parts.extend(frame.parts)

    def _link(self, content: str) -> str:
        """What a reader sees of a link: its label or target; nothing of a category, file, picture or other language."""
        target, _, label = content.partition("|")
        namespace, colon, name = target.partition(":")
        namespace = _plain_name(namespace)
        if colon and namespace in self._category_names:
            category = " ".join(html.unescape(name).replace("_", " ").split())
            if category:
                self.categories[category[0].upper() + category[1:]] = None
            return ""
        if colon and name[:1].strip() and _is_language(target[: -len(name) - 1]):
            return ""
        if namespace and colon and (namespace in self._file_names or _FILE.search(name)):
            return ""
        return label or target.removeprefix(":").replace("_", " ")


def plain_text(
    markup: str, category_names: Collection[str] = (), file_names: Collection[str] = ()
) -> tuple[str, list[str]]:
    """The text of a page without its markup, and its categories in order; the time is linear in the length.

    Templates, with the categories that they set, tables, notes, formulas, pictures, captions and headings without text
    are left out. ``category_names`` and ``file_names`` are the wiki's names of these namespaces, besides English.
    """
    reduction = _Reduction(
        {"category", *map(_plain_name, category_names)}, {"file", "image", "media", *map(_plain_name, file_names)}
    )
    text = _VARIANTS.sub(r"\1", reduction.text(markup))
    text = _EXTERNAL_LINK.sub(r"\1", "\n".join(map(_without_quotes, text.split("\n"))))
    text = _SWITCH.sub("", _TAG.sub("", _BREAK.sub("\n", text)))
    return _lines(html.unescape(text)), list(reduction.categories)


def _is_language(prefix: str) -> bool:
    """Whether a link with this prefix leads to the page in another language; a reader sees it beside the text."""
    return bool(_LANGUAGE.fullmatch(prefix)) and (len(prefix) > 3 or tag_or(prefix) != UNDETERMINED)


def _plain_name(namespace: str) -> str:
    return " ".join(namespace.replace("_", " ").split()).lower()


def _without_quotes(line: str) -> str:
    """A line without the quotes of italics (two) and bold type (three); quotes beyond these are apostrophes.

    Where both are left open, a bold run is an apostrophe before italics, as in ``l'''Iliade''``: MediaWiki's rule.
    """
    runs = [(run.start(), len(run[0])) for run in _QUOTES.finditer(line)]
    five = sum(length >= 5 for _, length in runs)
    bold = [start for start, length in runs if length in (3, 4)]
    italic = [start for start, length in runs if length == 2]
    split = -1
    if bold and (len(bold) + five) % 2 and (len(italic) + five) % 2:
        split = min(bold, key=lambda start: _split_rank(line[max(start - 2, 0) : start]))
    return _QUOTES.sub(lambda run: "'" * ((len(run[0]) == 4) + max(len(run[0]) - 5, 0) + (run.start() == split)), line)


def _split_rank(before: str) -> int:
    """Order in which MediaWiki looks for the apostrophe: after a word of one letter, another word, a blank."""
    return 2 if before.endswith(" ") else 1 - before.startswith(" ")


def _lines(text: str) -> str:
    """The lines without marks of lists, headings and rules; a heading only with text under it or its subheadings."""
    lines: list[str] = []
    headings: dict[int, str] = {}
    for raw_line in text.splitlines():
        line = raw_line.strip()
        if line.startswith("----"):
            line = line.lstrip("-")
        if len(line) > 2 and line[0] == line[-1] == "=":
            level = min(len(line) - len(line.lstrip("=")), 6)
            headings = {above: heading for above, heading in headings.items() if above < level}
            if heading := line.strip("=").strip():
                headings[level] = heading
        elif content := line.lstrip("*#:;").strip():
            if headings:
                lines += [*([""] if lines and lines[-1] else []), *headings.values()]
                headings.clear()
            lines.append(content)
        elif lines and lines[-1]:
            lines.append("")
    return "\n".join(lines).strip()
