"""TREC's files, and ``ir_datasets``, which stands for such: topics in every form, runs, and relevance judgements."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import Qrel

from encoders.errors import BadInput
from query.trec_files.qrels import read_qrels
from query.trec_files.topic_set import read_judged
from query.trec_files.topics import Topic, normalise_qid, read_topics
from query.trec_files.trec_run import Run


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
        "<top>\n<num> C141 </num>\n<DE-title> Brücken & Fähren über\nden Fluß </DE-title>\n<DE-desc> Welche Brücken "
        "gibt es? </DE-desc>\n<DE-narr> Relevant ist &quot;alles&quot;. </DE-narr>\n</top>\n\n<top>\n<num> C142 </num>"
        "\n<DE-title> Mühlen </DE-title>\n</top>\n".encode("latin-1"),
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
        '<?xml version="1.0" encoding="ISO-8859-2"?>\n<topics>\n<topic lang="hu">\n <identifier>251-AH</identifier>\n'
        " <title>Tűzijáték</title>\n <description>Mikor &amp; hol?</description>\n <narrative><![CDATA[<b> is jó]]>"
        '</narrative>\n</topic>\n<topic xml:lang="en"><identifier>10.2452/451-AH</identifier><title>Fireworks</title>'
        "<description/><narrative/></topic>\n</topics>".encode("iso-8859-2"),
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
        b"<!-- <topic number='0'>Who?</topic> --><topic number='2' type='faceted'><query>ships</query><description>"
        b"Where?</description><subtopic number='1'>When?</subtopic></topic></topics>",
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
        b"<CONC>D</CONC></TOPIC><TOPIC><NUM>2<KR-TITLE>E</TOPIC>",
        "",
        [Topic("12", "ko", "A", "", "B C"), Topic("2", "ko", "E")],
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
        '{"qid": 7, "title": "Mills", "lang": "en", "x": 1}\n\n{"id": "b", "title": "Ö", "lang": "kr"}\n'.encode(),
        "",
        [Topic("7", "en", "Mills"), Topic("b", "kr", "Ö")],
    ),
}


@pytest.mark.parametrize(("data", "lang", "topics"), FORMS.values(), ids=FORMS)
def test_topics_are_read_in_every_form_and_countries_codes_are_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes, lang: str, topics: list[Topic]
) -> None:
    (tmp_path / "topics").write_bytes(data)
    assert read_topics(tmp_path / "topics", lang=lang) == topics
    said, codes = capsys.readouterr().err, (b"KR" in data, b'"kr"' in data)
    assert ("name no language" in said) == any(topic.lang == "und" for topic in topics)
    assert (said.count("the language KR is read as a country's code: 'ko'"), said.count("'kr' is Kanuri")) == codes


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
    assert (topic.text(), topic.text(("title", "description", "narrative"))) == ("Mills", "Mills All.")
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
        ("<top><num>1<title>x</top><top><num>C1<title>y</top>", ":1", "topic 1 in und stands on line 1 already"),
        ('{"qid": "1", "title": "x"}\n{"qid": "2"\n', ":2", "not valid JSON"),
        ('[{"qid": "1", "title": "x"}]\n', ":1", "no JSON object; write one a line"),
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


ids = st.text(min_size=1, max_size=12)
awkward = st.text(alphabet=" %2052a\u00a0\u3000\t\nCE80", min_size=1, max_size=12)
scores = st.floats(-1e6, 1e6, width=32)
rankings = st.dictionaries(
    ids | awkward,
    st.lists(st.tuples(ids | awkward, scores), min_size=1, max_size=8, unique_by=lambda scored: scored[0]),
    min_size=1,
    max_size=4,
)


@given(tag=ids | awkward, rankings=rankings)
def test_a_run_comes_back_in_the_order_given(tag: str, rankings: dict[str, list[tuple[str, float]]]) -> None:
    run = Run(tag, rankings)
    assert Run.from_trec(run.to_trec().split("\n"), "run.txt") == run
    for qid, ranking in rankings.items():
        assert [doc_id for doc_id, _ in run.rankings[qid]] == [doc_id for doc_id, _ in ranking]
        values = np.array([score for _, score in run.rankings[qid]], dtype=np.float32)
        assert (np.diff(values) < 0).all()


def test_trec_eval_sees_ties_in_our_order_and_falling_scores_are_left_alone() -> None:
    ranking = [("a", 1.0), ("z", 1.0), ("b", 1.0 - 1e-9)]
    values = dict(Run("tag", {"1": ranking}).rankings["1"])
    for position, (relevant, _) in enumerate(ranking, start=1):
        evaluator = pytrec_eval.RelevanceEvaluator({"1": {relevant: 1}}, {"recip_rank"})
        assert evaluator.evaluate({"1": values})["1"]["recip_rank"] == pytest.approx(1 / position)
    falling = [("a", 3.5), ("b", 0.25), ("c", -2.0)]
    assert Run("tag", {"1": falling}).rankings["1"] == falling


def test_a_line_is_six_columns_with_blanks_encoded() -> None:
    assert Run("my tag", {"141": [("LA 1994/01\u00a0x", 0.5), ("50%", 0.25), ("a%20b", 0.125)]}).to_trec() == (
        "141 Q0 LA%201994/01%C2%A0x 1 0.5 my%20tag\n141 Q0 50% 2 0.25 my%20tag\n141 Q0 a%2520b 3 0.125 my%20tag\n"
    )


def test_a_foreign_run_is_read_in_trec_evals_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "\ufeff1 Q0 b 1 0.5 old\n\n1\tQ0\ta 2  0.9 sys\r\n1 Q0 c 3 0.5 sys\n2 Q0 http://x/%C3%A9 1 7 sys\n"
    run = Run.read_trec(write(tmp_path / "run.txt", text))
    assert (run.tag, [doc_id for doc_id, _ in run.rankings["1"]]) == ("sys", ["a", "c", "b"])
    assert run.rankings["2"] == [("http://x/%C3%A9", 7.0)]
    assert "run.txt has the tags old, sys and is read as one run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("a 1 0.5", "has 5 columns"),
        ("a b 1 0.5 sys", "has 7 columns"),
        ("a 1 high sys", "has the score 'high'; put a number there"),
        ("a 1 nan sys", "has the score nan; put a finite number there"),
        ("a 1 1e99 sys", "has the score 1e99; put a finite number there"),
        ("first 1 0.5 sys", "ranks 'first' for topic 1 a second time"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(BadInput, match=f"run.txt:2 {said}"):
        Run.read_trec(write(tmp_path / "run.txt", f"1 Q0 first 1 0.9 sys\n1 Q0 {line}\n"))


def test_files_that_cannot_be_read_and_what_cannot_be_a_run_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "latin.txt").write_bytes(b"1 Q0 caf\xe9 1 0.5 sys\n")
    for name, said in (("nowhere", r"nowhere\.txt can't be read"), ("empty", "is empty"), ("latin", "not UTF-8")):
        with pytest.raises(BadInput, match=said):
            Run.read_trec(tmp_path / f"{name}.txt")
    for ranking, said in (
        ([("a", 1.0), ("a", 0.5)], "document 'a' twice"),
        ([("a", float("nan"))], "no finite number"),
        ([("", 1.0)], "document id is empty"),
    ):
        with pytest.raises(BadInput, match=said):
            Run("tag", {"1": ranking}).to_trec()


def test_judgements_of_several_files_of_any_encoding_are_one_list_where_each_counts_once(tmp_path: Path) -> None:
    (tmp_path / "en.txt").write_text("141 0 LA010194-0001 1\r\n10.2452/142-AH\t0\tLA010194-0002\t0\n\n")
    (tmp_path / "de.txt.gz").write_bytes(gzip.compress(b"C141 0 a doc with blanks 2\n141 Q0 neg -1"))
    assert read_qrels([tmp_path / "en.txt", tmp_path / "de.txt.gz"]) == [
        Qrel("141", "LA010194-0001", 1, "0"),
        Qrel("142", "LA010194-0002", 0, "0"),
        Qrel("141", "a doc with blanks", 2, "0"),
        Qrel("141", "neg", -1, "Q0"),
    ]
    topics = str(write(tmp_path / "t.tsv", "qid\tlang\ttitle\n1\tde\tMühle\n"))
    path = str(write(tmp_path / "q.txt", "1 1 a 1\n1 1 a 1\n1.de 2 a 1\n1 Q0 b 1\n1 0 b 1\n"))
    assert read_judged([topics], [path, path])[1] == [("1", "a", 1, "1"), ("1", "a", 1, "2"), ("1", "b", 1, "Q0")]
    with pytest.raises(BadInput, match=r"b\.txt:2 grades 'a' 0 for topic 1, and .*a\.txt:1 grades it 1"):
        read_qrels([write(tmp_path / "a.txt", "1 0 a 1\n"), write(tmp_path / "b.txt", "1 0 b 1\nC1 0 a 0\n")])
    for encoding, end in (("utf-8", "\r"), ("utf-16", "\n"), ("utf-8-sig", "\r\n")):
        (tmp_path / "q.txt").write_bytes(f"1 0 a 1{end}1 0 b 0{end}".encode(encoding))
        assert [qrel.doc_id for qrel in read_qrels([tmp_path / "q.txt"])] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "judged"),
    [
        ("query-id\tcorpus-id\tscore\n1\ta b 3\t1\n", ("a b 3", 1)),
        ("\nquery_id doc_id relevance iteration\n1 a 2 0\n", ("a", 2)),
        ("topic iter docno rel\n1 0 a 1\n", ("a", 1)),
        ("1 0 a 1.0\n", ("a", 1)),
        ("1 0 a -2.\n", ("a", -2)),
        ("1\t0\ta 3\t1\n", ("a 3", 1)),
    ],
)
def test_tables_with_a_header_and_grades_with_a_point_are_read(
    tmp_path: Path, text: str, judged: tuple[str, int]
) -> None:
    assert read_qrels([write(tmp_path / "q.txt", text)]) == [Qrel("1", *judged, "0")]


RUN_LINES = ["1 Q0 a 1 9", "1 Q0 a 1 9.5", "1\tQ0\ta\t1\t9", "1 Q0 a 1 9.5 7", "1 Q0 a 1 1e-3 7", "1 Q0 a 1 9 x"]


def test_a_line_that_is_no_judgement_is_refused_by_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "q.txt"
    monkeypatch.setattr("indexer.readers.records.files.RECORD_LIMIT", 100)
    for line in ("1 0 a", "1 0 a high", "query-id corpus-id score", "1 0 a 1.5", *RUN_LINES, "1 0 " + "b" * 200 + " 1"):
        path.write_text(f"1 0 a 1\n{line}\n")
        long = r"after line 2: the line has more than 64 MB; split the record"
        with pytest.raises(BadInput, match=long if "b" * 200 in line else r"q\.txt:2 is .* no judgement"):
            read_qrels([path])


def test_qrels_that_are_empty_missing_binary_or_broken_are_refused(tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_text("1 0 a 1\n")
    for name, content, reason in (
        ("empty.txt", b"\n", "are empty"),
        ("nowhere.txt", b"", "No such file"),
        ("latin.txt", b"1 0 caf\xe9 1\n", "latin.txt are not UTF-8"),
        ("cut.txt.gz", gzip.compress(b"1 0 a 1\n" * 1000)[:-9], "ends too early"),
    ):
        if content:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(BadInput, match=reason):
            read_qrels([tmp_path / "good.txt", tmp_path / name])
