"""``python -m papers cr5``, on files of the published layouts that are written here."""

import gzip
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoders.cr5.cr5_model import Cr5Model, Table
from encoders.document import FloatArray, unit_rows
from encoders.errors import BadInput
from papers.cr5_retrieval import Retrieved, chosen, equivalents_ranks, precision
from papers.data import Wikipedia, read_dictionary, read_europarl
from tests.papers.conftest import Ask

LANGS = ("en", "it", "da", "vi")
TOPICS = 7
QUICK = ["--queries", "3", "--dimensions", "16", "--ridge", "0.3"]


def _words(lang: str, topic: int) -> list[str]:
    return [f"{lang}{topic}x{part}" for part in range(6)]


@pytest.fixture(scope="module")
def wikipedia(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seventy concepts, of which Danish and Vietnamese lack some; an article is words of its concept's subject and of
    its own, some capitalised.
    """
    folder = tmp_path_factory.mktemp("cr5")
    (folder / "matlab_input" / "sparse_matrices").mkdir(parents=True)
    (folder / "matlab_input" / "word_indices").mkdir()
    chance = np.random.default_rng(0)
    for lang in LANGS:
        numbers: dict[str, int] = {}
        lines = []
        for concept in range(70):
            if (lang, concept % 4) in (("da", 0), ("vi", 1)):
                continue
            words = _words(lang, concept % TOPICS) + [f"{lang}c{concept % 10}y{part}" for part in range(4)]
            words += [word.capitalize() for word in words if chance.random() < 0.3]
            for word, count in Counter(words).items():
                number = numbers.setdefault(word, len(numbers) + 1)
                lines.append(f"Q{concept} {number} {count + int(chance.integers(0, 3))}\n")
        matrix = folder / "matlab_input" / "sparse_matrices" / f"sparse_matrix_{lang}.txt.gz"
        matrix.write_bytes(gzip.compress("".join(lines).encode()))
        index = "".join(f"{number}\t{word}\n" for word, number in numbers.items())
        (folder / "matlab_input" / "word_indices" / f"word_index_{lang}.tsv").write_text(index, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def europarl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("europarl")
    for lang in ("it", "en"):
        lines = [" ".join([*_words(lang, row % TOPICS)[:3], f"{lang}c{row % 10}y0"]) for row in range(30)]
        lines[5] = "" if lang == "it" else lines[5]
        (folder / f"europarl-v7.it-en.{lang}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def dictionary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("dinu") / "OPUS_en_it_europarl_test.txt"
    entries = [(a, b) for topic in range(TOPICS) for a, b in zip(_words("en", topic), _words("it", topic), strict=True)]
    file.write_text("".join(f"{a} {b}\n" for a, b in entries) + "nowhere altrove\n", encoding="utf-8")
    return file


def by_pair(task: dict[str, Any]) -> dict[tuple[str, str, str], dict[str, Any]]:
    return {(row["query"], row["candidates"], row["measure"]): row for row in task["rows"]}


@pytest.mark.parametrize("training", [["joint"], ["pairwise"], ["transitive", "--pivot", "en"]])
def test_every_training_prints_the_papers_figures_beside_ours(
    training: list[str], wikipedia: Path, europarl: Path, dictionary: Path, ask: Ask
) -> None:
    arguments = ["--wikipedia", str(wikipedia), "--europarl", str(europarl), "--dictionary", str(dictionary)]
    documents, sentences, words = ask("cr5", *arguments, *QUICK, "--pairs", *training, "--json", "-q").values
    assert documents["task"] == f"Documents, {training[0]} training"
    published = {"joint": [36.4, 60.2, 67.3], "pairwise": [35.6, 60.4, 68.9], "transitive": None}
    assert by_pair(documents)["da", "vi", "csls"]["paper"] == published[training[0]]
    by_chance = 100 * 10 / 70
    assert np.mean([row["ours"][2] for row in documents["rows"]]) > 1.5 * by_chance
    baselines = {(row["query"], row["candidates"], row["method"]): row["paper"] for row in documents["baselines"]}
    assert baselines["vi", "da", "ADVREFINE, CSLS"] == [11.9, 24.1, 30.2]
    assert (len(documents["rows"]), len(baselines), len(words["baselines"])) == (24, 24, 14)
    procrustes = {"query": "en", "candidates": "it", "method": "Procrustes, CSLS", "paper": [69.5, 79.6, 83.5]}
    assert procrustes in sentences["baselines"]
    assert sentences["rows"][0]["paper"] == [45.8, 56.6, 61.6]
    assert words["rows"][1]["paper"] == [41.3, 55.8, 58.0]
    assert documents["our_data"].startswith(f"{wikipedia.name}; 3 queries a pair among ")
    assert all("paper_data" in task for task in (documents, sentences, words))
    assert all(row["ours"][2] > 2 * by_chance for row in words["rows"])


def test_each_task_chooses_among_ridges_by_texts_held_out(
    wikipedia: Path, europarl: Path, dictionary: Path, ask: Ask
) -> None:
    command = ["cr5", "--wikipedia", str(wikipedia), "--dictionary", str(dictionary), "--languages", "en,it", *QUICK]
    command += ["--ridge", "30", "--europarl", str(europarl), "--json", "-q"]
    assert "several --ridge need --dictionary-training" in ask(*command, status=2).err
    command += ["--dictionary-training", str(dictionary), "--candidates", "20"]
    assert [len(task["rows"]) for task in ask(*command).values] == [4, 4, 4]
    ranks = {1: [1.0, 9.0], 2: [1.0, 1.0], 3: [2.0, 2.0]}
    models = [Cr5Model({}, Table(np.zeros((1, dim), np.float32)), dim) for dim in ranks]
    best = chosen(models, lambda model: [Retrieved(("en", "it"), {"cosine": ranks[model.dim]}, 9, ["1", "2"])])
    assert best.dim == 2


def test_transitive_training_and_few_concepts_stand_beside_table_1_d_and_e(wikipedia: Path, ask: Ask) -> None:
    command = ["cr5", "--wikipedia", str(wikipedia), *QUICK, "--json", "-q"]
    training = [*command, "--pairs", "transitive-published", "--pivot", "en", "--languages"]
    rows = by_pair(ask(*training, "en,da,vi").json)
    assert rows["da", "vi", "csls"]["paper"] == [27.8, 49.3, 60.0]
    assert rows["da", "vi", "csls"]["in_common"] == 0 < rows["da", "en", "csls"]["in_common"]
    assert rows["da", "en", "csls"]["paper"] is None
    # Italian has every concept that Danish and Vietnamese have, and concepts of its own
    for langs, said in (
        ("en,it,da,vi", "no concept has documents in two languages"),
        ("en,it,da", "no article in da is left to train with; leave it out of --languages"),
    ):
        assert said in ask(*training, langs, status=1).err
    task = ask(*command, "--pairs", "pairwise", "--intersection", "25", "--languages", "da,vi").json
    assert task["task"] == "Documents, pairwise training, 25 concepts in common"
    assert {row["in_common"] for row in task["rows"]} == {25}
    assert by_pair(task)["da", "vi", "csls"]["paper"] == [24.3, 44.4, 53.3]
    assert "--intersection is for --pairs pairwise; give both" in ask(*command, "--intersection", "25", status=2).err


def test_concepts_whose_articles_teach_nothing_are_not_in_common(wikipedia: Path, tmp_path: Path, ask: Ask) -> None:
    copy = shutil.copytree(wikipedia, tmp_path / "copy") / "matlab_input"
    command = ["cr5", "--wikipedia", str(copy), *QUICK, "--json", "-q", "--languages", "da,vi", "--pairs", "pairwise"]
    before = ask(*command).json["rows"][0]["in_common"]
    file, changed = copy / "sparse_matrices" / "sparse_matrix_vi.txt.gz", ("Q2", "Q10")
    lines = gzip.decompress(file.read_bytes()).decode().splitlines()
    lines = [line for line in lines if line.split()[0] not in changed] + [f"{concept} 9000 1" for concept in changed]
    file.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
    with (copy / "word_indices" / "word_index_vi.tsv").open("a", encoding="utf-8") as index:
        index.write("9000\ttwice\n")  # a word of fewer than three documents teaches nothing
    assert ask(*command).json["rows"][0]["in_common"] == before - len(changed)


def test_a_table_is_printed_and_precision_is_drawn_for_each_pair(wikipedia: Path, tmp_path: Path, ask: Ask) -> None:
    arguments = ["--wikipedia", str(wikipedia), *QUICK, "-q"]
    plot = tmp_path / "figure2.svg"
    printed = ask("cr5", *arguments, "--languages", "en,it,da", "--plot", str(plot)).out
    assert "Documents, joint training, in %" in printed
    assert "70.5 85.4 90.1" in printed
    drawn = plot.read_text()
    assert all(f"<!-- {text} -->" in drawn for text in ("en – it", "da – en", "da – it", "paper: ADVREFINE"))
    ask("cr5", *arguments, "--plot", str(tmp_path / "figure2"), status=1)


def test_each_measure_is_logged_with_every_rank(wikipedia: Path, europarl: Path, tmp_path: Path, ask: Ask) -> None:
    home = ["--home", str(tmp_path / "home")]
    sizes = ["--queries", "5", "--dimensions", "16", "--ridge", "0.3", "--languages", "en,it"]
    arguments = ["--wikipedia", str(wikipedia), "--europarl", str(europarl)]
    documents, sentences = ask("cr5", *arguments, *sizes, *home, "--json", "-q").values
    assert (documents["evaluations"], sentences["evaluations"]) == ({"cosine": 1, "csls": 2}, {"cosine": 3, "csls": 4})
    for row in documents["rows"]:
        run_id = f"{documents['evaluations'][row['measure']]}.{row['query']}-{row['candidates']}"
        shown = ask("runs", "show", run_id, *home, "--json").json
        assert [100 * shown["means"][f"Success@{k}"] for k in (1, 5, 10)] == pytest.approx(row["ours"], abs=1e-3)
        assert len(shown["scores"]) == 5
    compared = ask("runs", "compare", "1", "2", *home, "--measures", "RR", "--json").json
    assert compared["differences"]["2.all"] == ["ranked by csls (not cosine)"]
    assert "csls, reproduce cr5, sentences" in " ".join(ask("runs", "list", *home).out.split())


def test_articles_sentences_and_words_are_read(wikipedia: Path, europarl: Path, tmp_path: Path) -> None:
    data = Wikipedia(wikipedia)
    assert (data.languages, data.concepts("en")) == (sorted(LANGS), [f"Q{number}" for number in range(70)])
    concept, words = next(data.articles("en"))
    assert (concept, [word.lower() for word in words]) == ("Q0", words)
    assert set(_words("en", 0)) <= set(words)
    english, italian = read_europarl(europarl, "en", "it")
    assert len(english) == len(italian) == 29  # without the pair of which one is empty
    assert english[5].split()[0].removeprefix("en") == italian[5].split()[0].removeprefix("it")
    (tmp_path / "d.txt").write_text("Bank banca\nbank riva\n\n")
    assert read_dictionary(tmp_path / "d.txt", "en", "it") == {"bank": {"banca", "riva"}}


def test_what_is_not_of_the_layout_is_one_sentence(tmp_path: Path, europarl: Path) -> None:
    with pytest.raises(BadInput, match=r"has no sparse_matrices/sparse_matrix_LL.txt.gz; unpack the paper's data"):
        Wikipedia(tmp_path)
    with pytest.raises(BadInput, match=r"has no europarl-v7.da-en.en and .da"):
        read_europarl(europarl, "en", "da")
    for text, said in (("alone\n", r"d.txt:1 has 1 column and should have 2"), ("\n", r"d.txt has no words; get it")):
        (tmp_path / "d.txt").write_text(text)
        with pytest.raises(BadInput, match=said):
            read_dictionary(tmp_path / "d.txt", "en", "it")
    files = {"europarl-v7.it-en.it": "Buongiorno.\n", "europarl-v7.it-en.en": "\n"}
    files |= {"sparse_matrices/sparse_matrix_en.txt": "Q1 7 2\n", "word_indices/word_index_en.tsv": "1\tword\n"}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    with pytest.raises(BadInput, match=r"europarl-v7.it-en.en and europarl-v7.it-en.it have no line with text in both"):
        read_europarl(tmp_path, "en", "it")
    with pytest.raises(BadInput, match=r"counts word '7' '2' times; the word index has no such word"):
        list(Wikipedia(tmp_path).articles("en"))


def test_too_many_queries_and_unknown_languages_are_refused(wikipedia: Path, ask: Ask) -> None:
    told = ask("cr5", "--wikipedia", str(wikipedia), "--queries", "40", status=1)
    assert "70 concepts in common, too few to hold 40 out; ask fewer with --queries" in told.err
    ask("cr5", "--wikipedia", str(wikipedia), "--languages", "en,ja", status=2)
    ask("cr5", "--wikipedia", str(wikipedia), "--pairs", "transitive", status=2)


def _random(seed: int, count: int) -> FloatArray:
    return unit_rows(np.random.default_rng(seed).standard_normal((count, 5)).astype(np.float32))


@settings(max_examples=30)
@given(st.integers(0, 1000), st.integers(1, 30), st.integers(12, 40))
def test_it_is_the_definition(seed: int, queries: int, candidates: int) -> None:
    asked, among = _random(seed, queries), _random(seed + 1, candidates)
    right = [{row % candidates, (row + 3) % candidates} for row in range(queries)]
    found = equivalents_ranks(asked, among, right)
    cosines = (asked @ among.T).astype(np.float64)
    near_query = np.sort(cosines, axis=1)[:, -10:].mean(axis=1)
    csls = 2 * cosines - near_query[:, None] - np.sort(cosines, axis=0)[-10:].mean(axis=0)[None]
    for scores, ours in ((cosines, found["cosine"]), (csls, found["csls"])):
        orders = np.argsort(-scores, axis=1)
        for k, share in zip((1, 5, 10), precision(ours), strict=True):
            hits = [bool(set(order[:k].tolist()) & rows) for order, rows in zip(orders, right, strict=True)]
            assert abs(share - 100 * np.mean(hits)) < 150 / queries  # equal scores may go either way


def test_a_query_without_an_equivalent_is_not_found_and_csls_holds_back_what_is_near_everything() -> None:
    vectors = _random(0, 4)
    found = equivalents_ranks(vectors, vectors, [{0}, {1}, set(), {3}])
    assert precision(found["cosine"]) == [75, 75, 75]
    angles = np.radians([0, 20, 40, 60, 80])
    queries = np.stack([np.cos(angles), np.sin(angles), np.zeros(5)], axis=1).astype(np.float32)
    mates = queries + np.array([0, 0, 1.0], np.float32)
    hub = np.array([[np.cos(0.7), np.sin(0.7), 0.2]], np.float32)
    candidates = unit_rows(np.concatenate([mates, hub]).astype(np.float32))
    found = equivalents_ranks(queries, candidates, [{row} for row in range(5)])
    assert precision(found["csls"])[0] > precision(found["cosine"])[0]
