"""A dump of a wiki by MediaWiki, as Wikimedia publishes it, gives documents with concepts and categories."""

import bz2
import gzip
import random
import time
from html import escape
from pathlib import Path

import pytest

from indexer.readers.formats import fingerprint
from indexer.readers.records.files import RECORD_LIMIT
from indexer.readers.records.source import ReadOptions
from indexer.readers.wikis.wikitext import plain_text
from tests.indexer.readers.reading import documents, given, ids, memory_below, notes, readings, refusals, remarks, seen

ELBE = """\
{{Infobox Fluss|NAME=Elbe
|LÄNGE={{Infobox Fluss/km|1094}}|}}
[[Datei:Elbe bei [[Dresden]].jpg|mini|Die Elbe bei [[Dresden]]]]
Die '''Elbe''' ({{csS|Labe}}) ist ein [[Fluss|Strom]]&nbsp;in [[Mitteleuropa]].<ref name="a">{{Literatur|Titel=X}}</ref>
<!-- [[Kategorie:Versteckt]] -->
== Verlauf ==
* Sie fließt durch ''[[Hamburg]]''.<br /><ref name="a"/>
{| class="wikitable"
| Ort || km
|}
== Weblinks ==
== Literatur ==
Mehr bei [https://example.org/elbe der Gesellschaft].
__NOTOC__
[[Kategorie:Fluss in Europa|Elbe]]
[[category:elbe]]
"""


NAMES = ("Datei", "Kategorie")


def page(number: int, title: str, text: str, *, ns: int = 0, redirect: str = "", model: str = "wikitext") -> str:
    target = f'<redirect title="{redirect}" />' if redirect else ""
    return f"""\
  <page>
    <title>{escape(title)}</title><ns>{ns}</ns><id>{number}</id>{target}
    <revision>
      <id>{9000 + number}</id><parentid>1</parentid><timestamp>2026-01-01T00:00:00Z</timestamp>
      <contributor><username>x</username><id>7</id></contributor>
      <model>{model}</model><format>text/x-wiki</format>
      <text bytes="9" sha1="x" xml:space="preserve">{escape(text)}</text>
    </revision>
  </page>
"""


def dump(lang: str, names: tuple[str, str], *pages: str) -> bytes:
    """A dump of the version that Wikimedia publishes; ``names`` are those of the namespaces of files and categories."""
    head = f"""\
<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="{lang}">
  <siteinfo>
    <sitename>Wikipedia</sitename>
    <dbname>{lang}wiki</dbname>
    <namespaces>
      <namespace key="0" case="first-letter" />
      <namespace key="6" case="first-letter">{names[0]}</namespace>
      <namespace key="14" case="first-letter">{names[1]}</namespace>
    </namespaces>
  </siteinfo>
"""
    return (head + "".join(pages) + "</mediawiki>\n").encode()


ROOT_TAG = "<mediawiki xmlns=…>"
KEPT = "get it again; what came before is kept"
PROPS = """\
-- MySQL dump 10.19  Distrib 10.3.38-MariaDB, for debian-linux-gnu (x86_64)
CREATE TABLE `page_props` (
  `pp_page` int(10) unsigned NOT NULL,
  `pp_propname` varbinary(60) NOT NULL,
  `pp_value` blob NOT NULL,
  `pp_sortkey` float DEFAULT NULL,
  PRIMARY KEY (`pp_page`,`pp_propname`)
) ENGINE=InnoDB DEFAULT CHARSET=binary;
INSERT INTO `page_props` VALUES (5,'defaultsort','(6,\\'wikibase_item\\',\\'Q9\\',',NULL),(5,'x','',NULL);
INSERT INTO `page_props` VALUES (5,'wikibase_item','Q1644',NULL),(3,'wikibase_item','Q3',NULL),(12,'notoc','',NULL);
"""


@pytest.fixture
def dumps(tmp_path: Path) -> Path:
    """Two languages of a dump; the German one has the table of items."""
    german = dump(
        "de",
        NAMES,
        page(5, "Elbe", ELBE),
        page(6, "Elb", "#WEITERLEITUNG [[Elbe]]", redirect="Elbe"),
        page(7, "Diskussion:Elbe", "Wo?", ns=1),
        page(9, "Q64", '{"type": "item"}', model="wikibase-item"),
        page(10, "Elv", "#WEITERLEITUNG [[Elbe]]"),  # of old dumps
        page(8, "Saale", "Die Saale mündet in die Elbe."),
    )
    middle = len(german) // 2
    streams = bz2.compress(german[:middle]) + bz2.compress(german[middle:])
    (tmp_path / "dewiki-20260101-pages-articles-multistream.xml.bz2").write_bytes(streams)
    (tmp_path / "dewiki-20260101-page_props.sql.gz").write_bytes(gzip.compress(PROPS.encode()))
    english = dump("en", ("File", "Category"), page(3, "Elbe", "A [[river]].\n[[Category:Rivers of Europe]]"))
    (tmp_path / "enwiki-20260101-pages-articles1.xml-p1p9").write_bytes(english)
    return tmp_path


def test_articles_have_text_categories_and_the_wikidata_item_as_their_concept(dumps: Path) -> None:
    found = readings(dumps)
    elbe, saale, english = documents(found)
    assert (elbe.doc_id, elbe.lang, elbe.title, elbe.revision) == ("dewiki:5", "de", "Elbe", 9005)
    assert elbe.text == (
        "Die Elbe () ist ein Strom\xa0in Mitteleuropa.\n\nVerlauf\nSie fließt durch Hamburg.\n\nLiteratur\n"
        "Mehr bei der Gesellschaft."
    )
    assert elbe.fields == {"category": ["Fluss in Europa", "Elbe"], "concept": "Q1644"}
    assert plain_text("[[Category:R&amp;B]] <!-- b [[Category:C]]")[1] == ["R&B"]
    assert (saale.doc_id, dict(saale.fields), english.fields) == ("dewiki:8", {}, {"category": ["Rivers of Europe"]})
    assert not refusals(found)
    said = {place[:6]: text for place, text in notes(seen(found))}
    assert said["enwiki"].startswith("no page_props.sql.gz of the same dump lies beside it")


def test_files_named_latest_belong_together_and_the_index_of_an_archive_is_no_document(tmp_path: Path) -> None:
    articles = dump("de", NAMES, page(5, "Elbe", "Ein Fluss."))
    (tmp_path / "dewiki-latest-pages-articles-multistream.xml.bz2").write_bytes(bz2.compress(articles))
    (tmp_path / "dewiki-latest-page_props.sql.gz").write_bytes(gzip.compress(PROPS.encode()))
    for name in ("latest-pages-articles-multistream-index.txt", "20260101-pages-articles-multistream-index1.txt-p1p9"):
        (tmp_path / f"dewiki-{name}.bz2").write_bytes(bz2.compress(b"600:5:Elbe\n"))
    found = readings(tmp_path)
    assert [document.fields["concept"] for document in documents(found)] == ["Q1644"]
    assert remarks(found) == ["it is a table or an index of a wiki's dump and no document"] * 3


def test_parts_of_a_dump_share_one_table_which_changes_the_source(tmp_path: Path) -> None:
    numbers = (5, 3)
    parts = [tmp_path / f"dewiki-20260101-pages-articles{number}.xml-p{number}p{number}.bz2" for number in numbers]
    for number, part in zip(numbers, parts, strict=True):
        part.write_bytes(bz2.compress(dump("de", NAMES, page(number, f"P{number}", "Text."))))
    before = fingerprint(str(parts[-1]), ReadOptions())
    (tmp_path / "dewiki-20260101-page_props.sql").write_text(PROPS)
    assert fingerprint(str(parts[-1]), ReadOptions()) != before
    found = {document.doc_id: document.fields["concept"] for document in documents(readings(tmp_path))}
    assert found == {"dewiki:3": "Q3", "dewiki:5": "Q1644"}


def test_a_dump_is_told_by_its_root_after_a_declaration_and_comments(tmp_path: Path) -> None:
    content = b"<?xml version='1.0'?>\n<!-- a --><!-- b\n -->\n" + dump("de", NAMES, page(1, "A", "Eins."))
    assert ids(given(tmp_path / "wiki", content)) == ["dewiki:1"]
    for mentioned in (f"It is {ROOT_TAG}.", f'{{"id": "1", "text": "A dump begins with {ROOT_TAG}"}}\n'):
        (document,) = documents(given(tmp_path / "notes", mentioned))
        assert ROOT_TAG in document.text


DTD = '<!DOCTYPE mediawiki [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>'


@pytest.mark.parametrize(
    ("start", "lang", "pages", "reason"),
    [
        (DTD, "de", 1, "its XML has a DTD, which dumps do not have"),
        ('<?xml version="1.0" encoding="foo"?>', "de", 1, "its encoding can't be read; convert it to UTF-8"),
        ('<?xml version="1.0" encoding="big5"?>', "de", 1, "its encoding can't be read; convert it to UTF-8"),
        ("", "de", 0, "it has no page; get a dump of articles (…-pages-articles.xml.bz2)"),
        ("", "tokipona", 2, "its language 'tokipona' is no known code; say the language with --lang"),
        (f"{'<mediawiki>' * 200}", "de", 1, "its XML is nested deeper than a dump's; get it again"),
    ],
)
def test_what_is_no_dump_of_ours_is_refused_once(
    tmp_path: Path, start: str, lang: str, pages: int, reason: str
) -> None:
    articles = dump(lang, NAMES, *[page(number, "A", "Text.") for number in range(pages)])
    (tmp_path / "b.xml").write_bytes(dump("de", NAMES, page(1, "B", "Text.")))
    given(tmp_path / "a.xml", start.encode() + articles)
    refused, *found = seen(readings(tmp_path))
    assert (refused, ids(found)) == (("a.xml", reason), ["dewiki:1"])
    if lang != "de":
        assert [document.lang for document in documents(readings(tmp_path / "a.xml", lang="it"))] == ["it", "it"]


def test_elements_that_no_document_needs_take_no_memory(tmp_path: Path) -> None:
    articles, filler = dump("de", NAMES, page(1, "A", "Text.")).decode(), "<x/>" * 30_000
    for tag in ("</siteinfo>", "<revision>"):
        articles = articles.replace(tag, filler + tag)
    (tmp_path / "wiki.xml").write_text(articles.replace("</siteinfo>", f"</siteinfo>{filler}"))
    with memory_below(2 << 20):
        assert len(documents(readings(tmp_path))) == 1


def test_a_torn_or_cut_dump_keeps_what_came_before(dumps: Path, tmp_path: Path) -> None:
    first, noise = page(1, "A", "Eins."), "".join(random.Random(0).choices("abcdefghij", k=300_000))
    torn = dump("de", NAMES, first, page(2, "B", "Zwei.")).partition(b"Zwei")[0]
    cut = gzip.compress(dump("de", NAMES, first, page(2, "B", noise)))[:20_000]
    long = page(2, "B", "a" * (RECORD_LIMIT + (1 << 20)))
    endless = gzip.compress(dump("de", NAMES, first, long, page(3, "C", "Drei.")), 1)
    for content, reason in (
        (torn, f"its XML is broken here; {KEPT}"),
        (cut, f"the gzip archive ends too early; {KEPT}"),
        (endless, "a page has more than 64 MB; cut it out, for the dump is not read on; what came before is kept"),
    ):
        found = given(tmp_path / "torn.xml", content)
        assert (ids(found), notes(found)[0][1]) == (["dewiki:1"], reason)
    table = dumps / "dewiki-20260101-page_props.sql.gz"
    table.write_bytes(table.read_bytes()[:60])
    (refusal,) = refusals(readings(dumps / "dewiki-20260101-pages-articles-multistream.xml.bz2"))
    assert f"its table {table.name} can't be read: the gzip archive ends too early" in refusal.text


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("L'<nowiki/>'''Elba''' nasce", "L'Elba nasce"),
        ("L''''Elba''' nasce", "L'Elba nasce"),
        ("Dans l'''Iliade'' d'Homère", "Dans l'Iliade d'Homère"),
        ("'''''''a'''''", "''a"),
        ("'''{{lang|fr|x}}''' y", "y"),
        ("'''''A'' b''' c", "A b c"),
        ("{{Infobox|a=1<!-- }} -->|b=2}}Text", "Text"),
        ("{{efn|<math>x^{a_{1}}</math> foo}} Text", "Text"),
        ("<math>\\text{[[}</math>A<ref>{{lost</ref> B }} C", "A B  C"),
        ("A <nowiki>[[b]] ''c'' {{d}} <!-- &amp; __TOC__</nowiki> ''e''", "A [[b]] ''c'' {{d}} <!-- & __TOC__ e"),
        ("<syntaxhighlight lang=html><!-- [[x]] {{</syntaxhighlight>A [[b]]", "A b"),
        ("A <ref>b {{c}} [[d]]", "A b  d"),
        ("A <!-- b [[Category:C]]", "A"),
        ("A<br />B<p>C</p>", "A\nB\nC"),
        ("<ul><li>A</li><li>B</li></ul>", "A\n\nB"),
        ("[[Bild:x.JPG|mini|Die [[Elbe]]]]A [[:Bild:x.jpg|b]]", "A b"),
        ("== A ==\n=== B ===\ntext\n=== C ===\n== D ==\nend", "A\nB\ntext\n\nD\nend"),
        ("A\n----\nB", "A\n\nB"),
        ("-{zh-hans:软件; zh-hant:軟體}-是-{A}--{H|zh-cn:x;zh-tw:y}-", "软件是A"),
        ("A {{lost [[link|label]] and [[Category:X]] end", "A lost label and  end"),
        ("A ]] }} </ref>b", "A   b"),
        ("A [[de:Elbe]][[zh-min-nan:E|e]] [[simple:E]]\n[[:de:B]]", "A\nde:B"),
        ("[[Alien: Covenant]], [[re:Mind]], [[s:Source|source]]", "Alien: Covenant, re:Mind, source"),
    ],
)
def test_wikitext_is_the_text_that_mediawiki_shows(markup: str, text: str) -> None:
    """Quotes; comments, formulas, notes and nowiki; breaks, headings, pictures; unclosed marks; languages."""
    assert plain_text(markup)[0] == text


@pytest.mark.parametrize(
    ("start", "repeated"),
    [
        *[
            ("", mark)
            for mark in ("[[", "{{", "<ref>", "[http://", "<!--", "=\n", "{{[[{{[[", "<a", "[[x}}", "-{", "-{a:")
        ],
        *[("", mark) for mark in ("''", "'''a ", "'''a''", "<nowiki>", "<ref>a</ref>", "</ref", "__A", "[[a.jpg ")],
        *[("[http://", mark) for mark in ("a", " ", "a ")],
        *[("-{", mark) for mark in ("a", " ", ";", "a;")],
    ],
)
def test_hostile_markup_of_a_large_page_is_read_in_seconds(start: str, repeated: str) -> None:
    begin = time.process_time()
    plain_text(start + repeated * 60_000)
    assert time.process_time() - begin < 6  # in quadratic time it would take minutes
