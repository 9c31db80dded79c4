"""The report as a self-contained HTML page without network access or scripts."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from encoders.printable import one_line

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""What a browser may load and run for the page: no script, and nothing from elsewhere."""


@dataclass(frozen=True)
class Table:
    """A table of numbers."""

    columns: Sequence[str]  # headings of the columns after the first
    rows: Sequence[tuple[str, Sequence[str]]]  # label and cells of each row


@dataclass(frozen=True)
class Section:
    """A heading, a picture and its text."""

    title: str
    picture: str  # an ``<svg>`` element; empty if there is no picture
    text: str  # the sentence under the picture, or the reason why there is no picture
    table: Table | None = None  # under the text


@dataclass(frozen=True)
class ReportPage:
    """Contents of a report."""

    title: str
    summary: str  # the most important sentence, under the title
    table: Table | None  # scores of the evaluations; None without an evaluation
    note: str  # note on the table, or the reason why there is no table
    facts: Mapping[str, str]  # collection, encoder, calibration and evaluations, by label
    sections: Sequence[Section]
    footer: str


def render(page: ReportPage) -> str:
    """The page as HTML."""
    facts = "".join(f"<dt>{_shown(label)}</dt><dd>{_shown(value)}</dd>\n" for label, value in page.facts.items())
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{_shown(page.title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<header>
<h1>{_shown(page.title)}</h1>
<p class="summary">{_shown(page.summary)}</p>
</header>
<main>
{_table(page.table)}
<p class="note">{_prose(page.note)}</p>
<dl>
{facts}</dl>
{"".join(map(_section, page.sections))}</main>
<footer><p>{_shown(page.footer)}</p></footer>
</body>
</html>
"""


def _shown(text: str) -> str:
    """A text in HTML: it makes no elements and turns no writing, whatever was named so."""
    return escape(one_line(text))


def _prose(text: str) -> str:
    """Text escaped for HTML; an option such as --qrels is not broken at the end of a line."""
    return re.sub(r"(--[a-z][\w-]*)", r"<code>\1</code>", _shown(text))


def _section(section: Section) -> str:
    table, text = _table(section.table), _prose(section.text)
    content = f'{table}<p class="{"note" if table else "empty"}">{text}</p>\n'
    if section.picture:
        picture = _scrolled(section.picture, "picture")
        content = f"<figure>\n{picture}\n<figcaption>{text}</figcaption>\n</figure>\n{table}"
    return f"<section>\n<h2>{_shown(section.title)}</h2>\n{content}</section>\n"


def _table(table: Table | None) -> str:
    if table is None:
        return ""
    heads = "".join(f'<th scope="col">{_shown(column)}</th>' for column in table.columns)
    rows = "".join(
        f'<tr><th scope="row">{_shown(label)}</th>{"".join(f"<td>{_shown(cell)}</td>" for cell in cells)}</tr>\n'
        for label, cells in table.rows
    )
    table_html = f"<table>\n<thead><tr><td></td>{heads}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>"
    return _scrolled(table_html, "table")


def _scrolled(wide: str, name: str) -> str:
    """An element in a box of its own, where it scrolls if the window is narrower."""
    return f'<div class="wide" tabindex="0" role="region" aria-label="{name}">\n{wide}\n</div>'


_STYLE = """
:root { --paper: #ffffff; --ink: #1c2126; --soft: #5b6570; --line: #d9dee3; --tint: #f4f6f8; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #15191d; --ink: #e6eaee; --soft: #a3adb7; --line: #343c44; --tint: #1e242a; }
}
@media print {
  :root { --paper: #ffffff; --ink: #000000; --soft: #444444; --line: #cccccc; --tint: #f4f4f4; }
  section { break-inside: avoid; }
}
body { background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif;
  max-width: 60rem; margin: 0 auto; padding: 2rem 1rem 3rem; overflow-wrap: anywhere; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; }
h2 { font-size: 1.25rem; margin: 2.6rem 0 .6rem; }
.summary { font-size: 1.1rem; margin: 0 0 1.6rem; max-width: 44rem; }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
th, td { padding: .35rem 1.2rem .35rem 0; text-align: right; border-bottom: 1px solid var(--line); }
th[scope=row] { text-align: left; font-weight: normal; }
thead th { color: var(--soft); font-weight: 600; vertical-align: bottom; }
tbody td { font-size: 1.1rem; }
.note, .empty, footer { color: var(--soft); }
.note { font-size: .9rem; margin: .6rem 0 1.6rem; max-width: 44rem; }
.empty { background: var(--tint); padding: .8rem 1rem; border-radius: .4rem; margin: 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.2rem; margin: 0; font-size: .95rem; }
dt { color: var(--soft); }
dd { margin: 0; }
figure { margin: 0; }
figure svg { display: block; width: auto; max-width: 100%; height: auto; margin: 0 auto; color: var(--ink); }
figcaption { margin: .7rem 0 0; max-width: 46rem; }
code { font: inherit; white-space: nowrap; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); font-size: .85rem; }
@media screen and (max-width: 40rem) {
  dl { grid-template-columns: 1fr; }
  dd { margin-bottom: .6rem; }
  th, td { padding-right: .8rem; }
  figure svg { max-width: none; }
}
"""
