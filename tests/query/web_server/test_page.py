"""The page, in a real browser."""

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from indexer.index_sources import index
from indexer.ledger.database import open_database, transaction
from query.cli import run
from query.query_log.query_log_tables import SearchRow
from query.service.service_options import ServiceOptions
from query.web_server.application import SearchPage
from tests.conftest import fallen, skip_or_fail
from tests.conftest import until as happens
from tests.query.conftest import copied
from trials import DEMO, page_attacks
from trials.documents import write_records
from trials.servers.service import serving


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    executable = page_attacks.chromium()
    if executable is None:
        skip_or_fail("no browser for the page's tests: apt-get install chromium")
    with page_attacks.browser(executable) as opened:
        yield opened


@pytest.fixture
def page(browser: Any, service: httpx.Client) -> Iterator[Any]:
    """A window; whatever the console complains of is a failure."""
    said: list[str] = []
    with window(browser, service) as opened:
        opened.set_default_timeout(60_000)
        opened.on("console", lambda one: said.append(one.text) if one.type in {"error", "warning"} else None)
        opened.on("pageerror", lambda error: said.append(str(error)))
        yield opened
    assert said == []


SENTENCES = SearchPage().sentences
BREAD, FLOOD, NIGHT = "Wie backe ich Brot ohne gekaufte Hefe?", "flood in the old town", "眠れない夜に何をすればいいか"
READY = "!document.querySelector('.old')"


def enter(page: Any, text: str) -> None:
    page.fill("#q", text)
    page.keyboard.press("Enter")


def ask(page: Any, text: str) -> None:
    page.goto("/")
    enter(page, text)
    page.wait_for_selector("#hits h2")


def see(page: Any, address: str, selector: str = "#hits h2") -> None:
    page.goto(address)
    page.wait_for_selector(selector)


def see_all(page: Any) -> None:
    while page.locator("#more").is_visible():
        page.locator("#more").click()


@contextmanager
def window(browser: Any, client: httpx.Client, **options: Any) -> Iterator[Any]:
    """A window, whose console nobody reads."""
    context = browser.new_context(base_url=str(client.base_url), **options)
    yield context.new_page()
    context.close()


def until(page: Any, condition: str) -> None:
    """Wait for a condition of the page's; the page lets nobody evaluate one in it."""
    deadline = time.monotonic() + 60
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, condition
        page.wait_for_timeout(50)


def ids(page: Any) -> list[str]:
    found: list[str] = page.locator("#hits h2").all_inner_texts()
    return found


def documents(page: Any) -> list[int]:
    """Number of the documents shown, and if that is less of all, as the status says it."""
    said = re.search(r"Documents:\s(\d+)(?:\sof\s(\d+))?", page.locator("#status").inner_text())
    assert said
    return [int(count) for count in said.groups() if count]


def reasons(why: Any) -> list[tuple[str, float]]:
    numbers = (float(value.replace("−", "-")) for value in why.locator("dd").all_inner_texts())
    return list(zip(why.locator("dt").all_inner_texts(), numbers, strict=True))


def test_it_is_small_and_asks_nobody_else(service: httpx.Client) -> None:
    html = SearchPage().html
    sent = service.get("/", headers={"Accept-Encoding": "gzip"})
    assert int(sent.headers["Content-Length"]) <= 35_000
    assert sent.text == service.get("/", headers={"Accept-Encoding": "identity"}).text == html
    assert not re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", html)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", html)


def test_a_query_finds_documents_of_many_languages(page: Any) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    ask(page, NIGHT)
    assert page.locator("#hits li").count() == 10
    assert len(set(page.locator(".tongue").all_inner_texts())) > 2
    assert page.locator("#lang").evaluate("one => one.selectedOptions[0].text").startswith("Japanese (detected")
    counts = [int(one) for one in page.locator("#langs b").all_inner_texts()]
    assert sum(counts) == documents(page)[0] >= 50
    assert counts == sorted(counts, reverse=True)
    assert all(url.startswith((page.evaluate("location.origin"), "data:")) for url in asked)
    ask(page, "ночные поезда " * 300)  # too long for an address
    assert ids(page)
    assert "q=" not in page.url
    assert page.reload().status == 200


def test_a_search_asked_for_before_the_collections_are_known_waits_for_them(page: Any) -> None:
    held: list[Any] = []
    page.route("**/api/collections", lambda route: held.append(route))  # noqa: PLW0108 - it sets attributes
    for enters in (True, False):
        page.goto("/")
        page.fill("#q", FLOOD)
        if enters:
            page.locator("#lang").dispatch_event("change")
            page.keyboard.press("Enter")
        while not held:
            page.wait_for_timeout(50)
        held.pop().continue_()
        page.wait_for_selector("#hits h2" if enters else "#hits .hint")
        assert page.locator("#q").input_value() == FLOOD
        assert ("q=flood" in page.url) == enters


def test_the_collections_are_asked_for_again_where_that_failed(browser: Any, service: httpx.Client) -> None:
    collections, fails = service.get("/api/collections").text, [True]

    def answer(route: Any) -> None:
        route.fulfill(status=429 if fails else 200, body='{"error": "busy"}' if fails else collections)

    with window(browser, service) as page:
        page.route("**/api/collections", answer)
        see(page, "/", "#status.bad")
        fails.clear()
        enter(page, FLOOD)
        page.wait_for_selector("#hits h2")
        assert page.locator("#status.bad").count() == 0


def test_the_address_is_the_search(page: Any, browser: Any, service: httpx.Client) -> None:
    see(page, "/?q=bread")
    assert "c=demo" in page.url
    ask(page, FLOOD)
    page.select_option("#lang", "de")
    until(page, "document.querySelector('#every').hidden")
    page.locator("#langs label", has_text="French").click()
    until(page, "[...document.querySelectorAll('.tongue')].every(one => one.textContent === 'French')")
    assert all(part in page.url for part in ("q=flood", "lang=de", "to=fr", "c=demo"))
    with window(browser, service) as other:
        see(other, page.url)
        assert ids(other) == ids(page)
        assert other.locator("#lang").input_value() == "de"
        assert other.locator("#langs input:checked").count() == 1
        until(other, "document.querySelectorAll('#langs b').length > 2")
        assert sum(int(one) for one in other.locator("#langs b").all_inner_texts()) >= 50
        assert other.locator("#langs label", has_text="French").locator("b").inner_text() != "50"
        enter(other, "bread")
        until(other, "location.search.includes('q=bread')")
        until(other, "!document.querySelector('.old') && document.querySelectorAll('#langs b').length > 2")
    page.go_back()
    until(page, "new Set([...document.querySelectorAll('.tongue')].map(one => one.textContent)).size > 1")


def test_a_bookmark_of_a_collection_that_is_gone_shows_no_hits_of_another(
    browser: Any, demo_by_words: Settings, word_model: ModelFolder, tmp_path: Path
) -> None:
    def see_no_hits(page: Any) -> None:
        page.wait_for_selector("#status.bad")
        assert page.locator("#hits li").count() == 0

    own = copied(demo_by_words.home, tmp_path)
    index([str(DEMO / "docs.de.jsonl")], "alpha", settings=own, encoder=str(word_model.path), device="cpu")
    with serving(ServiceOptions(own, device="cpu")) as client, window(browser, client) as page:
        see(page, "/?c=demo", "#hits .hint")
        enter(page, "Brot backen")
        page.wait_for_selector("#hits h2")
        bookmark = page.url
        assert "c=demo" in bookmark
        assert run(["delete", "-c", "demo", "--all", "-y", "--home", str(own.home), "-q"]) == 0
        other = bookmark.replace("c=demo", "c=toString")
        for address, name in ((bookmark, "demo"), (other, "toString"), ("/?c=demo", "demo")):
            page.goto(address)
            see_no_hits(page)
            assert page.locator("#status").inner_text() == f"There is no collection “{name}” here. Choose another."
            page.keyboard.press("Enter")
            see_no_hits(page)
        page.select_option("#collection", "alpha")
        page.wait_for_selector("#hits li")
        assert "c=alpha" in page.url
        page.go_back()
        see_no_hits(page)


def test_a_search_that_names_none_of_many_collections_is_not_made(browser: Any, service: httpx.Client) -> None:
    (demo,) = service.get("/api/collections").json()["collections"]
    answer = json.dumps({"collections": [{**demo, "name": "alpha"}, demo], "away": {"beta": "it can't be read"}})
    with window(browser, service) as page:
        page.route("**/api/collections", lambda route: route.fulfill(body=answer))
        see(page, "/?q=bread", "#status.bad")
        assert "does not say which collection" in page.locator("#status").inner_text()
        page.select_option("#collection", "demo")
        page.wait_for_selector("#hits h2, #hits .hint")
        see(page, "/?q=bread&c=beta", "#status.bad")
        assert page.locator("#status").inner_text() == "Beta: it can't be read."


def test_the_language_of_each_text_is_marked_for_the_browser_s_translation(page: Any) -> None:
    ask(page, NIGHT)
    assert page.locator("html").get_attribute("lang") == "en"
    marks = "all => all.map(one => [one.lang, one.dir, one.translate])"
    titles = page.locator("#hits h2").evaluate_all(marks)
    assert titles == page.locator("#hits blockquote").evaluate_all(marks)
    assert all(
        (direction, translated) == ("rtl" if lang == "ar" else "auto", True) for lang, direction, translated in titles
    )
    assert page.locator("#hits h2[translate=yes], #hits blockquote[translate=yes]").count() == 2 * len(titles)
    names = "codes => codes.map(code => new Intl.DisplayNames(['en'], {type: 'language'}).of(code))"
    assert page.evaluate(names, [lang for lang, _, _ in titles]) == page.locator(".tongue").all_inner_texts()
    page.locator("#hits h2 a").first.click()
    page.wait_for_selector("dialog[open]")
    assert page.locator("#title[translate=yes], #text[translate=yes]").evaluate_all(marks) == [titles[0]] * 2


def test_the_dial_ranks_anew(page: Any) -> None:
    ask(page, "mould on a bedroom wall")
    page.locator("#balance").fill("0")
    until(page, f"location.search.includes('balance=0') && {READY}")
    own = page.locator(".tongue").all_inner_texts().count("English")
    page.locator("#balance").fill("1")
    english = "[...document.querySelectorAll('.tongue')].filter(one => one.textContent === 'English').length"
    until(page, f"location.search.includes('balance=1') && {READY} && {english} < {own}")
    page.click("#usual")
    until(page, "!location.search.includes('balance')")


def test_what_nobody_typed_is_not_logged(browser: Any, calibrated_by_words: Settings, tmp_path: Path) -> None:
    own = copied(calibrated_by_words.home, tmp_path)
    with serving(ServiceOptions(own, device="cpu", log=True)) as client, window(browser, client) as page:
        see(page, "/?q=flood&lang=en&to=fr", "#langs b")
        for balance in ("0", "0.25", "1"):
            page.locator("#balance").fill(balance)
            until(page, f"location.search.includes('balance={balance}') && !document.querySelector('.old')")
        enter(page, "bread")
        until(page, "location.search.includes('q=bread') && !document.querySelector('.old')")
    with open_database(own.database) as engine, transaction(engine) as session:
        asked = [(one.query, one.settings["balance"]) for one in session.scalars(sa.select(SearchRow))]
    assert sorted(query for query, _ in asked) == ["bread", "flood"]
    assert dict(asked)["bread"] == 1.0


def test_why_and_the_whole_document_are_shown_on_demand(page: Any) -> None:
    """Why names the mate that adds most to a document."""
    ask(page, BREAD)
    for button in page.get_by_role("button", name="why here?").all():
        button.click()
    notes = page.locator("#hits .note")
    assert notes.all_inner_texts() == [SENTENCES["en"]["scoreNote"]]  # what a score means is said once
    for why in page.locator(".why dl").all():
        labels, values = zip(*reasons(why), strict=True)
        parts, score = labels.index("Mean of these"), labels.index("Score")
        assert sum([*values[:parts], values[parts - 1]]) / (parts + 1) == pytest.approx(values[parts], abs=0.0015)
        assert sum(values[parts:score]) == pytest.approx(values[score], abs=1e-6)
    title = page.locator("#hits h2 a").first
    title.click()
    page.wait_for_selector("dialog[open] #text mark")
    passage = page.locator("#text mark").inner_text()
    assert page.locator("#hits li blockquote").first.inner_text()[:15] == " ".join(passage.split())[:15]
    page.keyboard.press("Escape")
    until(page, f"document.activeElement.textContent === {json.dumps(title.inner_text())}")
    mate = page.locator(".why dt", has_text="From its versions in other languages").first.get_by_role("link")
    mate.click()
    page.wait_for_selector("dialog[open] #text")
    assert mate.inner_text().endswith(f": {page.locator('#title').inner_text()}")


def test_each_subject_is_shown_once_in_the_readers_language_and_links_to_the_others(
    browser: Any, service: httpx.Client
) -> None:
    names = "codes => codes.map(code => new Intl.DisplayNames([code], {type: 'language'}).of(code).toLowerCase())"
    with window(browser, service, locale="de-DE") as page:
        ask(page, FLOOD)
        see_all(page)
        assert page.locator(".tongue", has_text="Deutsch").count() > 5  # and the query is English
        others = page.locator(".also a[lang]")
        codes = others.evaluate_all("links => links.map(link => link.lang)")
        assert len(codes) > 10
        assert "de" not in codes
        assert page.evaluate(names, codes) == [name.lower() for name in others.all_inner_texts()]
        counts = [int(count) for count in page.locator("#langs b").all_inner_texts()]
        assert sum(counts) == page.locator("#hits > li").count() + page.locator(".also a").count()
        link = others.first
        link.click()
        page.wait_for_selector("dialog[open] #text")
        title, shared = page.locator("#title").inner_text(), page.url
        page.keyboard.press("Escape")
        focused = f"document.activeElement.textContent === {json.dumps(link.inner_text())}"
        until(page, f"{focused} && !location.search.includes('&d=')")
        for address in (shared, link.get_attribute("href")):
            see(page, address, "dialog[open] #text mark")
            assert page.locator("#title").inner_text() == title


def test_the_page_speaks_the_readers_language_and_remembers_a_choice(browser: Any, service: httpx.Client) -> None:
    for locale, tongue in (("pt-BR", "pt"), ("zh-TW", "zh"), ("th-TH", "en"), ("ar-EG", "ar")):
        with window(browser, service, locale=locale) as page:
            see(page, "/", "#hits .hint")
            assert page.locator("html").get_attribute("lang") == tongue
            assert page.evaluate("getComputedStyle(document.body).direction") == ("rtl" if tongue == "ar" else "ltr")
            says = page.locator("[data-say]").evaluate_all("all => all.map(one => [one.dataset.say, one.textContent])")
            assert says == [[key, SENTENCES[tongue][key]] for key, _ in says]
    with window(browser, service, locale="de-DE") as page:
        asked: list[Any] = []
        page.on("request", lambda request: asked.append(request.post_data_json) if "search" in request.url else None)
        ask(page, FLOOD)
        assert page.locator("#mine").evaluate("one => one.selectedOptions[0].text") == "Deutsch"
        page.select_option("#mine", "ja")
        until(page, f"[...document.querySelectorAll('.tongue')].some(one => one.textContent === '日本語') && {READY}")
        assert page.locator(".ask button").inner_text() == SENTENCES["ja"]["search"]
        see(page, page.url)  # which does not hold the choice
        assert page.locator("html").get_attribute("lang") == "ja"
        assert [body["prefer"][:2] for body in asked if "prefer" in body] == [["de"], ["ja", "de"], ["ja", "de"]]


def test_each_sentence_is_in_each_language_with_its_values() -> None:
    def values(says: dict[str, str]) -> dict[str, list[str]]:
        return {key: sorted(re.findall(r"\{\w+\}", sentence)) for key, sentence in says.items()}

    assert set(SENTENCES) >= {path.suffixes[0][1:] for path in DEMO.glob("docs.*.jsonl")}
    assert all(values(says) == values(SENTENCES["en"]) and all(says.values()) for says in SENTENCES.values())
    used = set(
        re.findall(r"""(?:say|tell|button|revealer)\((?:\w+ [?] )?"(\w+)"|data-say[\w-]*="(\w+)\"""", SearchPage().html)
    )
    assert {name for names in used for name in names if name} <= set(SENTENCES["en"])


def test_on_a_phone_the_first_hit_is_on_the_first_screen_and_settings_are_in_a_drawer(
    browser: Any, service: httpx.Client
) -> None:
    small = """() => [...document.querySelectorAll('a, button, select, input:not(.langs input), .langs label')]
        .filter(one => one.checkVisibility()).map(one => [one.outerHTML, one.getBoundingClientRect()])
        .filter(([, box]) => box.height < 43.9 || box.width < 43.9).map(([html]) => html)"""
    for locale in ("en-US", "de-DE", "ar-EG"):
        phone = {"viewport": {"width": 390, "height": 664}, "is_mobile": True, "has_touch": True, "locale": locale}
        with window(browser, service, **phone, permissions=["clipboard-read", "clipboard-write"]) as page:
            ask(page, FLOOD)
            box = page.locator("#hits blockquote").first.bounding_box()
            assert box["y"] + box["height"] < 664 / 2 + 60
            assert page.locator("#q").bounding_box()["y"] > 0
            assert page.locator("#drawer").is_hidden()
            page.click("#settings")
            assert page.locator("#drawer").is_visible()
            assert [html for html in page.evaluate(small) if 'type="checkbox"' not in html] == []
            page.select_option("#lang", "de")
            until(page, f"location.search.includes('lang=de') && {READY}")
            assert "1" in page.locator("#settings").inner_text()  # a setting that is hidden is counted
            page.click("#settings")
            page.click("#share")
            until(
                page, f"document.querySelector('#share').textContent === {json.dumps(SENTENCES[locale[:2]]['copied'])}"
            )
            assert page.evaluate("navigator.clipboard.readText()") == page.url
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_what_a_reader_has_to_know_of_an_answer_is_said_above_it(browser: Any, service: httpx.Client) -> None:
    says = SENTENCES["en"]
    table: list[tuple[dict[str, Any], str]] = [
        ({"good": 0}, says["noAnswer"]),
        ({"confidence": 0.5, "lang": "ru"}, "Is this Russian? Yes Another language"),
        ({"confidence": 0.4, "lang": "und"}, f"{says['unsureLanguage']} {says['choose']}"),
        ({"good": 3}, ""),
    ]
    changes: dict[str, Any] = {}

    def change(route: Any) -> None:
        answer = service.post("/api/search", json=route.request.post_data_json).json()
        sure = {"good": None, "confidence": None}
        route.fulfill(status=200, body=json.dumps({**answer, **sure, **changes}))

    with window(browser, service) as page:
        page.route("**/api/search", change)
        for changes, said in table:
            ask(page, FLOOD)
            assert " ".join(page.locator("#notes").inner_text().split()) == said
            fits, doubts = page.locator("#hits > .fits").count(), page.locator(".doubt").count()
            assert (fits, doubts) == ((3, 1) if changes.get("good") else (0, 0))
        changes = {"confidence": 0.5, "lang": "ru"}
        ask(page, FLOOD)
        page.get_by_role("button", name="Yes").click()
        until(page, f"location.search.includes('lang=ru') && {READY}")
        assert page.locator("#notes").inner_text() == ""


def test_words_of_grammar_are_not_marked(page: Any) -> None:
    for query, lang in (
        ("how do I get rid of the mould in the bathroom", "en"),
        ("wie das Wasser in der Nacht", "de"),
        (NIGHT, "ja"),
    ):
        see(page, f"/?c=demo&lang={lang}&to={lang}&q={query}")
        marks = {mark.lower() for mark in page.locator("#hits blockquote mark").all_inner_texts()}
        assert marks
        assert not marks & {*SENTENCES[lang]["stop"].split(), "に", "を"}


def test_why_says_where_another_version_gives_a_subject_its_place(page: Any) -> None:
    ask(page, "من اخترع الطباعة؟")
    see_all(page)
    for why in page.get_by_role("button", name="why here?").all():
        why.click()
    scores = [dict(reasons(why)) for why in page.locator(".why dl").all()]
    assert any(SENTENCES["en"]["best"] in rows for rows in scores)
    places = [rows["Score"] for rows in scores]
    assert places == sorted(places, reverse=True)


def test_the_best_are_reranked_where_that_is_asked_and_served(
    browser: Any, page: Any, calibrated_by_words: Settings, reranker: ModelFolder
) -> None:
    ask(page, FLOOD)
    assert page.locator("#second").is_hidden()
    reranked = "document.querySelector('#status').textContent.includes('Reranked\\u00a0in\\u00a00.')"
    options = ServiceOptions(calibrated_by_words, device="cpu", rerank=str(reranker.path))
    with serving(options) as client, window(browser, client) as own:
        asked = {"query": "flood", "lang": "en", "rerank": True}
        happens(lambda: client.post("/api/search", json=asked).status_code == 200)
        see(own, "/?q=a bicycle with a broken chain")  # whose best subjects change places
        fair = ids(own)
        own.locator("#rerank").check()
        until(own, f"location.search.includes('rerank=1') && {reranked}")
        assert ids(own) != fair
        own.locator("#hits li").first.get_by_role("button", name="why here?").click()
        assert "The second model’s score" in own.locator("#why0").inner_text()
        own.locator("#collection").dispatch_event("change")  # another collection is reranked, too
        until(own, f"location.search.includes('rerank=1') && {reranked}")
        own.reload()
        until(own, reranked)
        own.locator("#rerank").uncheck()
        until(own, f"!location.search.includes('rerank') && !{reranked}")
        assert ids(own) == fair


def test_each_document_is_a_hit_where_documents_have_no_mates(browser: Any, demo_by_words: Settings) -> None:
    with serving(ServiceOptions(demo_by_words, device="cpu")) as client, window(browser, client) as page:
        see(page, "/?q=flood")
        assert not page.locator(".others").count()
        assert re.match(r"Documents:\s50\sof\s235 · Languages:\s\d+$", page.locator("#status").inner_text())


def test_everything_is_done_from_the_keyboard(page: Any) -> None:
    ask(page, "шахматы")
    page.focus("#q")
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    page.wait_for_selector("dialog[open]")
    page.keyboard.press("Escape")
    until(page, "!!document.activeElement.closest('#hits')")  # the focus goes back to the hit that was opened
    page.keyboard.press("/")
    until(page, "document.activeElement.id === 'q'")
    page.evaluate("document.getElementById('document').dispatchEvent(new Event('close'))")  # as late as it may come
    assert page.evaluate("document.activeElement.id") == "q"


def test_hits_are_narrowed_by_a_field_as_the_address_says(page: Any, browser: Any, service: httpx.Client) -> None:
    ask(page, FLOOD)
    status = page.locator("#status").inner_text()
    assert re.fullmatch(r"Subjects:\s\d+ · Documents:\s\d+(\sof\s235)? · Languages:\s\d+", status)
    assert page.locator("#by option").all_inner_texts()[:1] == ["no field"]
    page.select_option("#by", "label")
    until(page, "document.querySelectorAll('#values b').length > 2")
    values = page.locator("#values label").all_inner_texts()
    assert sum(map(int, page.locator("#values b").all_inner_texts())) == documents(page)[0]
    page.locator("#values input[value=home]").focus()
    page.keyboard.press("Space")
    until(page, "location.search.includes('by=label&is=home') && !document.querySelector('.old')")
    assert page.evaluate("document.activeElement.value") == "home"
    assert page.locator("#values label").all_inner_texts() == values
    assert documents(page)[-1] < 235
    page.locator("#langs label", has_text="French").click()
    until(page, f"location.search.includes('to=fr') && {READY} && document.querySelectorAll('#values b').length > 2")
    with window(browser, service) as other:
        other.goto(page.url)
        for counted in ("#values b", "#langs b"):
            until(other, f"document.querySelectorAll('{counted}').length > 2")
        assert ids(other) == ids(page)
        for chips in ("#values label", "#langs label"):
            assert other.locator(chips).all_inner_texts() == page.locator(chips).all_inner_texts()
    page.click("#any")
    until(page, f"!location.search.includes('is=') && {READY}")
    page.select_option("#by", "")
    until(page, "!location.search.includes('by=')")
    assert page.locator("#values label").count() == 0


@pytest.mark.parametrize(
    ("kind", "least", "most", "hits"), [("number", "1992", "1994.5", 3), ("date", "1992-05-01", "1994-12-31", 6)]
)
def test_hits_are_narrowed_by_a_range(
    kind: str, least: str, most: str, hits: int, browser: Any, settings: Settings, word_model: ModelFolder
) -> None:
    """Values are offered beside the range where they are few; of a value and a range the last that is set counts."""
    articles = list(map(json.loads, (DEMO / "docs.de.jsonl").read_text(encoding="utf-8").splitlines()))[:13]
    records = [{**one, "number": 1990 + at, "date": f"{1990 + at % 6}-05-01"} for at, one in enumerate(articles)]
    source = str(write_records(records, settings.home.parent / "a.jsonl"))
    index([source], "c", settings=settings, encoder=str(word_model.path), device="cpu")
    found = f"{READY} && document.querySelectorAll('#hits h2').length =="
    with serving(ServiceOptions(settings, device="cpu")) as client, window(browser, client) as page:
        ask(page, BREAD)
        page.select_option("#by", kind)
        until(page, f"document.querySelector('#range:not([hidden]) > #least[type={kind}]')")
        for bound, value in (("least", least), ("most", most)):
            page.fill(f"#{bound}", value)
            page.keyboard.press("Tab")
        until(page, f"location.search.includes('least={least}&most={most}') && {found} {hits}")
        with window(browser, client) as other:
            see(other, page.url)
            assert (ids(other), other.locator("#settings").text_content()) == (ids(page), "Settings (1)")
        assert page.locator("#values label").count() == (6 if kind == "date" else 0)
        if kind == "date":
            page.locator("#values label").first.click()
            until(page, f"location.search.includes('is=') && !location.search.includes('least') && {found} 3")
        page.click("#any")
        until(page, f"!/is=|least/.test(location.search) && {found} 10")
        see(page, f"{page.url}&least=abc", "#status span")
        reason = "No document passes the filter" if kind == "date" else "Number holds numbers, and 'abc' is none"
        assert page.locator("#status").inner_text() == f"Nothing found with these settings. {reason}."


def test_a_hit_leads_to_its_like_in_other_languages(page: Any) -> None:
    ask(page, BREAD)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
    hit = page.locator("#hits > li").first
    own = hit.locator(".tongue").inner_text()
    more = hit.get_by_role("button", name="similar, in other languages")
    more.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".like li")
    assert more.get_attribute("aria-expanded") == "true"
    shown = hit.locator(".like li")
    assert shown.count() == 10
    assert not any(one.startswith(f"{own}: ") for one in shown.all_inner_texts())
    title = shown.first.get_by_role("link").inner_text()
    shown.first.get_by_role("link").click()
    page.wait_for_selector("dialog[open]")
    assert page.locator("#title").inner_text() == title
    page.keyboard.press("Escape")
    more.click()
    assert hit.locator(".like").is_hidden()
    more.click()
    assert asked.count("similar") == 1


def test_right_to_left_hits_are_laid_out_so_on_a_page_of_either_direction(browser: Any, service: httpx.Client) -> None:
    edges = """item => [...item.querySelectorAll('h2 a, .tongue, .about button')].map(part => {
        const box = part.getBoundingClientRect(), all = item.getBoundingClientRect();
        return box.left - all.left < all.right - box.right ? 'left' : 'right'; })"""
    for locale in ("en-US", "ar-EG"):
        with window(browser, service, locale=locale) as page:
            for lang, side in (("ar", "right"), ("fr", "left")):
                see(page, f"/?c=demo&to={lang}&q=من اخترع الطباعة؟")
                hit, direction = page.locator("#hits > li").first, "rtl" if lang == "ar" else "ltr"
                for place in ("blockquote", "h2"):
                    assert hit.locator(place).evaluate("one => getComputedStyle(one).direction") == direction
                bar = hit.locator("blockquote").evaluate("one => getComputedStyle(one).borderRightWidth")
                assert (bar != "0px") == (lang == "ar")
                assert hit.evaluate(edges)[:3] == [side] * 3
            assert page.locator("#q").evaluate("one => getComputedStyle(one).direction") == "rtl"


def test_empty_and_failed_searches_say_so(browser: Any, service: httpx.Client) -> None:
    with window(browser, service) as page:
        see(page, "/", "#hits .hint")
        assert "Documents: 235 · Languages: 10" in page.locator("#hits").inner_text()
        page.context.set_offline(True)
        enter(page, "coffee")
        page.wait_for_selector("#status.bad")
        assert "can’t be reached" in page.locator("#status").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1100, 360])
def test_axe_finds_nothing_to_complain_of(browser: Any, service: httpx.Client, scheme: str, width: int) -> None:
    from axe_playwright_python.sync_playwright import Axe

    size, fits = {"width": width, "height": 800}, "document.documentElement.scrollWidth <= innerWidth"
    with window(browser, service, color_scheme=scheme, viewport=size) as page:
        see(page, "/?q=مقهى&to=ar,en,fr,ja,tr&balance=0.6&by=label")
        for why in page.get_by_role("button", name="why here?").all():
            why.click()
        assert page.locator(".why dt a").count()
        page.get_by_role("button", name="similar, in other languages").first.click()
        if width == 360:
            page.click("#settings")
        page.wait_for_selector(".like li")
        until(page, "document.querySelectorAll('#values b').length > 1")
        assert page.locator(".also").count()
        for state in ("the list", "a document"):
            if state == "a document":
                page.locator("#hits h2 a").first.click()
                page.wait_for_selector("dialog[open]")
            assert page.evaluate(fits)
            found = Axe().run(page).response["violations"]
            assert [(state, one["id"], [node["html"] for node in one["nodes"]]) for one in found] == []


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory, small: ModelFolder) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("hostile")
    settings = Settings.read(home=folder / "home")
    source = write_records(page_attacks.documents(), folder / "hostile.jsonl")
    indexed = index([str(source)], "hostile", settings=settings, encoder=str(small.path), device="cpu")
    refused = [finding.text for finding in indexed.refused]
    assert refused == ["its id holds control characters or half a character; take them out", "its id is empty"]
    with serving(ServiceOptions(settings, device="cpu")) as client:
        yield client


def test_hostile_documents_are_text_and_no_address_runs_a_script(browser: Any, hostile: httpx.Client) -> None:
    assert fallen(page_attacks.hostile_documents(browser, hostile, "hostile")) == []
    values = [page_attacks.TEXTS[name] for name in ("tags", "overrides")]
    assert fallen(page_attacks.hostile_addresses(browser, hostile, values)) == []


@pytest.mark.long
def test_hostile_addresses_of_the_page_show_hits_or_a_sentence(browser: Any, hostile: httpx.Client) -> None:
    assert fallen(page_attacks.hostile_addresses(browser, hostile, page_attacks.ADDRESSES)) == []


def test_hostile_names_are_text_in_a_report(browser: Any, calibrated_by_words: Settings, tmp_path: Path) -> None:
    home = copied(calibrated_by_words.home, tmp_path).home
    (tmp_path / "report").mkdir()
    assert fallen(page_attacks.hostile_report(browser, home, tmp_path / "report")) == []
