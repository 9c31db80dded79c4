"""Attacks on the search page and on reports, in a real browser: documents and addresses that are not what they seem."""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unicodedata import category
from urllib.parse import quote

import httpx

from encoders.printable import one_line
from trials.command import fell, said
from trials.documents import write_records

_RUN = "window.ran=1"
TEXTS: dict[str, str] = {
    "tags": f'<img src=x onerror="{_RUN}"><script>{_RUN}</script><svg onload={_RUN}><iframe srcdoc="<script>">',
    "ends of elements": f"\"'></button></li></dialog></title></style></script><script>{_RUN}</script><!--",
    "entities": f"&lt;script&gt;{_RUN}&lt;/script&gt; &#x202e;&amp;amp;",
    "marks": "</mark><mark>river</mark><b>river</b></blockquote>",
    "templates": f"{{{{constructor.constructor('{_RUN}')()}}}} ${{{_RUN}}} <%= {_RUN} %>",
    "names of the language": "__proto__ constructor toString hasOwnProperty",
    "overrides": "\u202e\u2066\u2067\u202b\u202eriver gpj.exe",
    "ends of overrides": "\u202c\u2069\u2069\u2069\u202c \u202eriver\u200f",
    "nothing to see": "\u200b\u200d\u2060\ufeff",
    "controls": "".join(map(chr, (*range(1, 32), *range(127, 160), 0x2028, 0x2029, 0xFFFE))),
    "right to left": "\u0646\u0647\u0631 \u0637\u0648\u064a\u0644 \u05e0\u05d4\u05e8 (river) 123!",
    "a long word": "W" * 5000,
    "marks above marks": "e" + "\u0301" * 300 + " river",
    "a formula": r"$\frac{river$ $$ \input{/etc/passwd}",
}
"""Texts that pretend to be something else, by what they pretend."""
IDS = ("a/../../search", "./.", "..", "//evil.example/x", "?a#b", "%2e%2e/%", "\\..\\", "__proto__", "a\nb", " ")
URLS: tuple[Any, ...] = (
    f"javascript:{_RUN}",
    f" java\nscript:{_RUN}",
    f"data:text/html,<script>{_RUN}</script>",
    "//evil.example",
    f'https://evil.example/"onmouseover="{_RUN}',
    "https://bank.example\u202e@evil.example/" + "a" * 3000,
    {"__proto__": {"toString": 1}},
    [f"javascript:{_RUN}"],
)
ADDRESSES = (*TEXTS.values(), *IDS, *(url for url in URLS if isinstance(url, str)), "\0", "%00%ff", "a" * 9_000)
"""Values of the parameters of the page's address."""
_TIMEOUT = 60_000
_UNORDERED = """() => {
  const OWN = "h1, #drawer label, #drawer span, .tongue, .link, #more, .why dt, .why dd, #status, #status span";
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), wrong = [];
  while (walk.nextNode()) {
    const node = walk.currentNode;
    if (!node.parentElement.matches(OWN)) continue;
    let last = null;
    for (let at = 0; at < node.length; at++) {
      if (!/[A-Za-z]/.test(node.data[at])) continue;
      const range = document.createRange();
      range.setStart(node, at); range.setEnd(node, at + 1);
      const box = range.getClientRects()[0];
      if (!box || !box.width) continue;
      const turned = last && Math.abs(last.top - box.top) < 2 && box.left < last.left;
      if (turned) { wrong.push(node.data.slice(0, 60)); break; }
      last = box;
    }
  }
  return wrong;
}"""
"""The page's own words whose Latin letters do not stand from left to right."""


def documents() -> list[dict[str, Any]]:
    """Records about a river, each hostile in all its fields."""
    by_text = [
        {"id": f"{at}/{_without_controls(text)}", "title": text, "text": f"A river. {text}\n{text}", text[:60]: text}
        for at, text in enumerate(TEXTS.values())
    ]
    by_id = [{"id": doc_id, "title": f"River {doc_id}", "text": "A river."} for doc_id in IDS]
    by_url = [{"id": f"url-{number}", "text": "A river.", "url": url} for number, url in enumerate(URLS)]
    hostile = {"lang": "en", "__proto__": TEXTS["tags"], "constructor": TEXTS["overrides"]}
    return [{**hostile, **record} for record in (*by_text, *by_id, *by_url)]


def _without_controls(text: str) -> str:
    return "".join(character for character in text[:100] if category(character) not in {"Cc", "Cn", "Zl", "Zp"})


def chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextmanager
def browser(executable: str) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield opened
        opened.close()


@contextmanager
def _watched(browser: Any, url: str) -> Iterator[tuple[Any, list[str]]]:
    """A window, and what happened in it that no document may cause; the list of what happened grows."""
    context = browser.new_context(base_url=url)
    context.set_default_timeout(_TIMEOUT)
    page, happened = context.new_page(), []

    def note(what: str, shown: str, *, held: bool = False) -> None:
        happened.extend([] if held else [f"{what}: {shown[:100]}"])

    def complained(message: Any) -> None:
        harmless = message.type not in {"error", "warning"} or "Failed to load resource" in message.text
        note("the console says", message.text, held=harmless)

    page.on("pageerror", lambda error: note("an error of the script", str(error)))
    context.on("page", lambda other: note("a window was opened", other.url, held=other is page))
    page.on("request", lambda asked: note("another place", asked.url, held=asked.url.startswith((url, "data:"))))
    page.on("console", complained)
    page.on("dialog", lambda shown: note("a dialog", shown.message))
    page.on("dialog", lambda shown: shown.dismiss())
    yield page, happened
    context.close()


_SIGNS = {
    "a script of a document ran": "window.ran !== undefined",
    "words of the page are turned": f"({_UNORDERED})()[0]",
    "the page is wider than its window": "document.documentElement.scrollWidth > innerWidth",
    "a document made an element": "document.querySelectorAll("
    "'img, script + script, iframe, object, embed, #hits svg, dialog svg').length",
    "a link leads to what is no page": "[...document.querySelectorAll('a')].some(a => !/^https?:$/.test(a.protocol))",
}
"""What may not be so on a page, and the expression that is true then."""


def _fallen(page: Any, happened: list[str]) -> str:
    fallen = "; ".join([*happened, *(what for what, sign in _SIGNS.items() if page.evaluate(sign))])
    happened.clear()
    return fallen


def hostile_documents(browser: Any, service: httpx.Client, collection: str) -> Iterator[str]:
    """Find and open each of ``documents``, which a collection has; all are shown as text, and change no other hit."""
    url = str(service.base_url).rstrip("/")
    with _watched(browser, url) as (page, happened):
        page.goto(f"/?q=river&lang=en&c={collection}")
        page.wait_for_selector("#hits h2")
        while page.locator("#more").is_visible():
            page.click("#more")
        yield _fallen(page, happened)
        request = {"query": "river", "lang": "en", "collection": collection, "k": 50, "subjects": True}
        found = service.post("/api/search", json=request)
        for number, hit in enumerate(found.json()["hits"]):
            for outcome in (_touched(page, number), _opened(page, number, hit, service, collection)):
                happened.extend([outcome] * bool(outcome))
                fallen = _fallen(page, happened)
                yield fell(hit["id"][:60], fallen, held=not fallen)


def _touched(page: Any, number: int) -> str:
    hits = page.locator("#hits li")
    above = [hits.nth(number - 1).locator(".about")] if number else []
    parts = [part for part in (*above, hits.nth(number + 1).locator("h2")) if part.count()]
    page.mouse.move(0, 0)
    before = [part.screenshot() for part in parts]
    hits.nth(number).evaluate("one => { one.style.visibility = 'hidden'; }")
    after = [part.screenshot() for part in parts]
    hits.nth(number).evaluate("one => { one.style.visibility = ''; }")
    return "" if before == after else "it draws over another hit"


def _opened(page: Any, number: int, hit: dict[str, Any], service: httpx.Client, collection: str) -> str:
    page.evaluate("report('')")
    title = page.locator("#hits h2 a").nth(number)
    if not title.is_visible():
        return "its title can't be seen"
    title.click()
    if hit["id"] in {".", ".."}:  # no address can hold this id
        page.wait_for_selector("#status.bad")
        return "" if "can’t be opened here" in page.locator("#status").inner_text() else "no sentence"
    page.wait_for_selector("dialog[open], #status.bad")
    if page.locator("#status.bad").count():
        return page.locator("#status").inner_text()  # type: ignore[no-any-return]
    answer = service.get(f"/api/documents/{quote(hit['id'], safe='')}", params={"collection": collection}).json()
    seen, own = page.locator("#text").text_content(), answer["fields"]
    fields, told = page.locator("#fields").text_content(), [*own]
    told += [value if isinstance(value, str) else json.dumps(value, separators=(",", ":")) for value in own.values()]
    shown = seen == answer["text"] and all(part in fields or part.startswith(("http:", "https:")) for part in told)
    fits = page.evaluate("(shown => shown.scrollWidth <= shown.clientWidth)(document.getElementById('document'))")
    page.keyboard.press("Escape")
    return fell(f"shown as {seen[:100]!r} with {fields[:100]!r}, fits its window: {fits}", held=shown and fits)


def hostile_addresses(browser: Any, service: httpx.Client, values: Sequence[str]) -> Iterator[str]:
    """Open addresses of the page with hostile values of each parameter; the page shows hits or a sentence."""
    url = str(service.base_url).rstrip("/")
    with _watched(browser, url) as (page, happened):
        for value in values:
            for name in ("q", "c", "lang", "to", "balance"):
                asked = {"q": "river", "lang": "en", name: value}
                parameters = "&".join(f"{key}={quote(text, errors='surrogatepass')}" for key, text in asked.items())
                answer = page.goto(f"/?{parameters}#{quote(value[:1000])}")
                if answer.status != 414:  # too long for the service
                    page.wait_for_selector("#hits li, #status.bad, #hits .hint")
                    page.wait_for_selector("#status:not([aria-busy])")
                fallen = _fallen(page, happened)
                yield fell(name, value[:60], fallen, held=not fallen)


def hostile_report(browser: Any, home: Path, folder: Path) -> Iterator[str]:
    """Study the collection ``demo`` by topics with hostile ids and file names, and open the page.

    What is made is put into an empty folder, evaluations into the home.
    """
    shown = (text for name, text in TEXTS.items() if name not in {"nothing to see", "controls"})
    qids = ["".join(_without_controls(text).split()) for text in shown]
    topics, qrels = folder / f"{TEXTS['overrides']}<script>{_RUN}<|script>$\\frac$.jsonl", folder / "qrels"
    lines = [
        {"qid": qid, "lang": lang, "title": f"sleep {number}"}
        for number, qid in enumerate(qids)
        for lang in ("de", "en")
    ]
    write_records(lines, topics)
    qrels.write_text("".join(f"{qid} 0 demo:en:migraine 1\n" for qid in qids), encoding="utf-8")
    place, report = ["--home", str(home), "-q"], folder / "study" / "study.html"
    for command in (
        ["study", "-c", "demo", "--topics", str(topics), "--qrels", str(qrels), "-o", str(report.parent)],
        ["report", "-c", "demo", "-o", str(folder / "report.html")],
    ):
        status, sentence = said([*command, *place])
        yield "" if status == 0 and not sentence else f"{command[0]}: {status}, {sentence[-300:]}"
    if not report.exists():
        return
    with _watched(browser, report.as_uri()) as (page, happened):
        page.goto(report.as_uri())
        yield _fallen(page, happened)
        text = page.locator("body").text_content()
        yield "" if one_line(topics.name) in text else "the topics' file is not shown as it is"
        for qid in qids:
            yield "" if one_line(qid)[:20] in text else f"the topic {qid!r} is not shown as it is"
