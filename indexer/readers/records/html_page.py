"""The text of an HTML page, without what is on every page of its site."""

import re
from itertools import accumulate

from encoders.languages import tag_or
from indexer.readers.records.record import clean, clean_line

_NO_TEXT = ["script", "style", "nav", "noscript", "template", "svg", "iframe", "object", "head", "rt", "rp", "select"]
_CHROME = ", ".join(
    (
        "[role=navigation], [role=banner], [role=contentinfo], [role=search], [aria-modal=true]",
        ".navheader, .navfooter, .nav-panel, .sphinxsidebar",  # DocBook, Texinfo, Sphinx
        *(
            f'[{name}*="{part}" i]'
            for name in ("id", "class")
            for part in ("cookie-banner", "cookie-consent", "cookie-notice", "cookiebar", "consent-banner")
        ),
    )
)
"""Parts of a page that are on every page of a site."""
_FRAME = "body > header, body > footer"
"""The same, of a page whose text is marked by an element of its own."""
_MOST_CHROME = 0.3
"""Share of a page's text from which on a part is not chrome, however it is called."""
_BLOCKS = (
    "address, article, aside, blockquote, br, caption, dd, details, div, dl, dt, figcaption, figure, footer, form, "
    "h1, h2, h3, h4, h5, h6, header, hr, li, main, ol, p, pre, section, summary, table, td, th, tr, ul"
)
_BREAK = "\x1e"
_NESTED = re.compile(
    r"<(/?)(?:article|aside|blockquote|center|div|dl|fieldset|figure|footer|header|main|nav|ol|section|ul)\b[^<>]*>",
    re.IGNORECASE,
)
_DEEPEST = 1000
"""Open blocks from which on their tags are left out: for each new block, the parser goes through all of them."""


def read_page(markup: str) -> tuple[str, str, str]:
    """Title, text and stated language of a page, the language empty if it is none."""
    from selectolax.lexbor import LexborHTMLParser  # noqa: PLC0415 - only HTML needs it

    if max(accumulate(-1 if tag[1] else 1 for tag in _NESTED.finditer(markup)), default=0) > _DEEPEST:
        markup = _NESTED.sub("<br>", markup)
    tree = LexborHTMLParser(markup.replace(_BREAK, " "))
    lang = tag_or((tree.root.attributes.get("lang") or "") if tree.root else "", "")
    titles = [node for selector in ("head title", "title", "h1") if (node := tree.css_first(selector))]
    title = clean_line(next((text for node in titles if (text := node.text())), ""))
    tree.strip_tags(_NO_TEXT)
    body = tree.body
    if body is None:
        return title, "", lang
    length = len(body.text())
    for node in body.css(f"{_CHROME}, {_FRAME}" if body.css_first("main, article") else _CHROME):
        if len(node.text()) < _MOST_CHROME * length:
            node.decompose()
    for node in body.css(_BLOCKS):
        node.insert_before(_BREAK)
        node.insert_after(_BREAK)
    paragraphs = (" ".join(clean(part).split()) for part in body.text().split(_BREAK))
    return title, "\n".join(filter(None, paragraphs)), lang
