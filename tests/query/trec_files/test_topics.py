"""Topics in the forms of CLEF and TREC, TSV and JSON lines."""

from pathlib import Path

import pytest

from encoders.errors import BadInput
from query.trec_files.topics import Topic, normalise_qid, read_topics


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


NORMAL = {"C141": "141", "c041": "41", "141-AH": "141", "10.2452/451-AH": "451", " 141 ": "141", "001": "1", "000": "0"}
KEPT = ("LI001", "NH001", "C", "C12a", "AC141", "141-AHX", "10.1000/1-AH")


@pytest.mark.parametrize(("qid", "normal"), [*NORMAL.items(), *zip(KEPT, KEPT, strict=True)])
def test_a_clef_topic_has_one_id_however_it_is_written(qid: str, normal: str) -> None:
    assert normalise_qid(qid) == normal


FORMS = {
    "CLEF, in the encoding of its language": (
        """<top>
<num> C141 </num>
<DE-title> Brücken & Fähren über
den Fluß </DE-title>
<DE-desc> Welche Brücken gibt es? </DE-desc>
<DE-narr> Relevant ist &quot;alles&quot;. </DE-narr>
</top>

<top>
<num> C142 </num>
<DE-title> Mühlen </DE-title>
</top>
""".encode("latin-1"),
        "",
        [
            Topic("141", "de", "Brücken & Fähren über den Fluß", "Welche Brücken gibt es?", 'Relevant ist "alles".'),
            Topic("142", "de", "Mühlen"),
        ],
    ),
    "CLEF, a topic in several languages": (
        b"<top><num>C041<EN-title>Mills<FR-title>Moulins<EN-desc>Which?<FR-desc>Lesquels ?</top>",
        "",
        [Topic("41", "en", "Mills", "Which?"), Topic("41", "fr", "Moulins", "Lesquels ?")],
    ),
    "XML": (
        """<?xml version="1.0" encoding="ISO-8859-2"?>
<topics>
<topic lang="hu">
 <identifier>251-AH</identifier>
 <title>Tűzijáték</title>
 <description>Mikor &amp; hol?</description>
 <narrative><![CDATA[<b> is jó]]></narrative>
</topic>
<topic xml:lang="en"><identifier>10.2452/451-AH</identifier><title>Fireworks</title><description/><narrative/></topic>
</topics>""".encode("iso-8859-2"),
        "",
        [Topic("251", "hu", "Tűzijáték", "Mikor & hol?", "<b> is jó"), Topic("451", "en", "Fireworks")],
    ),
    "TREC-1": (
        b"<top>\n<head> Tipster\n<num> Number: 051\n<dom> Domain: Water\n<title> Topic: Mills\n\n<desc> Description:\n"
        b"Which <b>mills</b>\n<p>run?\n<smry> Summary:\nAny.\n<narr> Narrative:\nAll.\n<con> Concept(s):\n1. mill\n"
        b"<fac> Factor(s):\n<nat> Nationality: U.S.\n</fac>\n<def> Definition(s):\n</top>\n",
        "en",
        [Topic("51", "en", "Mills", "Which mills run?", "All.")],
    ),
    "TREC-6, in two languages": (
        "<top><num> Number: CL1\n<E-title> Mills\n<G-title> Mühlen\n<E-desc> Description: Which?\n</top>".encode(),
        "",
        [Topic("CL1", "en", "Mills", "Which?"), Topic("CL1", "de", "Mühlen")],
    ),
    "queries and questions": (
        b"<topics><topic number='1'><query>mills</query><question>Which?</question><narrative>All.</narrative></topic>"
        b"<topic number='2' type='faceted'><query>ships</query><description>Where?</description>"
        b"<subtopic number='1'>When?</subtopic></topic></topics>",
        "",
        [Topic("1", "und", "mills", "Which?", "All."), Topic("2", "und", "ships", "Where?")],
    ),
    "medicine, a topic without parts": (
        b"<topics><topic number='1'>A man\nof 38.</topic>"
        b"<topic number='2'><gene>CDK4</gene><age>38</age></topic></topics>",
        "",
        [Topic("1", "und", "A man of 38."), Topic("2", "und", "CDK4 38")],
    ),
    "NTCIR": (
        b"<TOPIC><NUM>012</NUM><SLANG>EN</SLANG><TLANG>KR</TLANG><TITLE>A</TITLE><NARR><BACK>B</BACK><REL>C</REL></NARR>"
        b"<CONC>D</CONC></TOPIC>",
        "",
        [Topic("12", "ko", "A", "", "B C")],
    ),
    "languages in attributes": (
        b"<topic><number>1</number><title xml:lang='en'>Mills</title><title xml:lang='fr'>Moulins</title></topic>",
        "",
        [Topic("1", "en", "Mills"), Topic("1", "fr", "Moulins")],
    ),
    "NeuCLIR and HC4": (
        b'{"topic_id": "8", "topics": [{"lang": "rus", "source": "machine translation", "topic_title": "C"},'
        b' {"lang": "eng", "source": "original", "topic_title": "A", "topic_description": "B"},'
        b' {"lang": "rus", "source": "human translation", "topic_title": "D"}]}',
        "",
        [Topic("8", "en", "A", "B"), Topic("8", "ru", "D")],
    ),
    "BEIR": (b'{"_id": "1", "text": "Which mills?", "metadata": {}}', "", [Topic("1", "und", "Which mills?")]),
    "TSV with the names of other tools": (b"query_id\tquery\n1\tmills\n", "", [Topic("1", "und", "mills")]),
    "TSV by its header": (
        b'qid\tlang\ttitle\tdescription\nLI001\tpt-BR\t"Um"\tdois\nLI001\tde\tEins\t\nLI002\tde\tZwei\n',
        "",
        [Topic("LI001", "pt", '"Um"', "dois"), Topic("LI001", "de", "Eins"), Topic("LI002", "de", "Zwei")],
    ),
    "two columns without a header": (
        b"1048585\twhat is paula deen's brother\n2\tandrogen receptor define\n",
        "en",
        [Topic("1048585", "en", "what is paula deen's brother"), Topic("2", "en", "androgen receptor define")],
    ),
    "JSON lines": (
        '{"qid": 7, "title": "Mills", "lang": "en", "x": 1}\n\n{"id": "b", "title": "Ö"}\n'.encode(),
        "",
        [Topic("7", "en", "Mills"), Topic("b", "und", "Ö")],
    ),
}


@pytest.mark.parametrize(("data", "lang", "topics"), FORMS.values(), ids=FORMS)
def test_topics_are_read_in_every_form(tmp_path: Path, data: bytes, lang: str, topics: list[Topic]) -> None:
    (tmp_path / "topics").write_bytes(data)
    assert read_topics(tmp_path / "topics", lang=lang) == topics


def test_topics_are_read_in_the_encoding_of_their_language_and_in_another_they_are_refused(tmp_path: Path) -> None:
    text = "<top><num>C143</num><RU-title>Мельницы и мосты на реке</RU-title></top>"
    for encoding in ("utf-8", "koi8-r", "windows-1251"):
        assert read_topics(write(tmp_path / "ru.txt", text, encoding), lang="ru")[0].title == "Мельницы и мосты на реке"
    path = write(tmp_path / "t.txt", "<top><num>1</num><title>Mühlen</title></top>", "latin-1")
    for options, said in (
        ({"encoding": "utf-8"}, r"t\.txt can't be read: .*UTF-8"),
        ({"encoding": "klingon"}, "no encoding"),
        ({"lang": "ja"}, r"t\.txt can't be read"),
    ):
        with pytest.raises(BadInput, match=said):
            read_topics(path, **options)
    with pytest.raises(BadInput, match=r"nowhere can't be read.*No such file"):
        read_topics(tmp_path / "nowhere")


def test_the_text_of_a_topic_is_the_parts_asked_for() -> None:
    topic = Topic("1", "en", "Mills", "", "All.")
    assert topic.text() == "Mills"
    assert topic.text(("title", "description", "narrative")) == "Mills All."
    with pytest.raises(BadInput, match="no 'headline'"):
        topic.text(("headline",))


@pytest.mark.parametrize(
    ("text", "where", "reason"),
    [
        ("", "", "holds no topic|header of topics"),
        ("id\tname\n1\tx\n", ":1", "no header"),
        ("qid\ttitle\n1\tx\n\ty\n", ":3", "no id"),
        ("qid\ttitle\n1\t\n", ":2", "no title, description or narrative"),
        ("qid\ttitle\na b\tx\n", ":2", "holds a blank"),
        ("qid\ttitle\n1\tx\ty\n", ":2", "3 columns"),
        ("qid\tlang\ttitle\n1\tklingonisch\tx\n", ":2", "'klingonisch' is no"),
        ("qid\tlang\ttitle\n1\tde\tx\n1\tger\ty\n", ":3", "on line 2 already"),
        ('{"qid": "1", "title": "x"}\n{"qid": "2"\n', ":2", "not valid JSON"),
        ('{"qid": "1", "title": "x"}\n[1]\n', ":2", "no JSON object"),
        ('{"qid": "1", "title": 5}\n', ":1", "title is a int"),
        ("<top>\n<num>1</num>\n<title>x</title>\n</top>\n<top>\n<title>y</title>\n</top>", ":5", "no id"),
        ("<top><num>C1</num><EN-title> </EN-title></top>", ":1", "no title"),
        ("<html></html>", "", "no <top> or <topic>"),
        ("a\0b", "", "binary"),
    ],
)
def test_a_bad_topic_is_refused_by_file_and_line(tmp_path: Path, text: str, where: str, reason: str) -> None:
    path = write(tmp_path / "t.txt", text)
    with pytest.raises(BadInput, match=reason) as caught:
        read_topics(path)
    assert f"{path}{where}" in str(caught.value)
