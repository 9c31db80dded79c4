"""``python -m papers hmde-clef`` and ``hmde-mldoc`` on files of the shapes that the licensed collections have."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from encoders.document import unit_rows
from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder
from papers.classification import Labelled, classify, split_of, subsampled
from papers.data import read_mldoc
from papers.hmde_mldoc import Accuracy
from tests.papers.conftest import Ask
from trials import DEMO

STORIES = {
    "CCAT": ("The company raised its dividend after profits grew.", "Das Unternehmen erhöht die Dividende."),
    "GCAT": ("The minister resigned after the vote in parliament.", "Der Minister trat nach der Abstimmung zurück."),
}


@pytest.fixture
def disks(tmp_path: Path) -> Path:
    """Newspapers, topics and judgements as they come on the disks of CLEF."""
    german = ("Der Fluss trat über die Ufer und die Stadt stand unter Wasser.", "Die Oper hat Premiere.")
    italian = ("Il fiume ha rotto gli argini e la città è allagata.", "La prima dell'opera a Milano.")
    for lang, name, stories, titles in (
        ("de", "FR940101", german, ("Hochwasser", "Opernpremiere")),
        ("it", "AGZ.940101", italian, ("Alluvione", "Prima dell'opera")),
    ):
        records = [
            f"<DOC>\n<DOCNO>{name}.{at:04}</DOCNO>\n<TITLE>{at}</TITLE>\n<TEXT>\n{story}\n</TEXT>\n</DOC>\n"
            for at, story in enumerate(stories)
        ]
        (tmp_path / lang).mkdir()
        (tmp_path / lang / f"{name}.sgml").write_bytes("".join(records).encode("latin-1"))
        (tmp_path / f"qrels.{lang}").write_text(f"141 0 {name}.0000 1\n141 0 {name}.0001 0\n142 0 {name}.0001 1\n")
        tag = lang.upper()
        topics = [
            f"<top>\n<num> C{qid} </num>\n<{tag}-title> {title} </{tag}-title>\n"
            f"<{tag}-desc> {title} </{tag}-desc>\n</top>\n"
            for qid, title in zip((141, 142), titles, strict=True)
        ]
        (tmp_path / f"top-{lang}.txt").write_text("".join(topics))
    return tmp_path


def clef(disks: Path) -> list[str]:
    kinds = (("documents", "{}"), ("qrels", "qrels.{}"))
    given = [f"--{what}={lang}={disks / name.format(lang)}" for lang in ("de", "it") for what, name in kinds]
    return given + [f"--topics={disks / f'top-{lang}.txt'}" for lang in ("de", "it")]


def test_clef_gives_the_papers_figures_beside_ours_and_says_what_could_not_be_read(disks: Path, ask: Ask) -> None:
    command = ["hmde-clef", *clef(disks), "--device", "cpu"]
    told = ask(*command, "--json")
    assert "FR940101.sgml: it is not UTF-8 and taken for windows-1252" in told.err
    assert "warning" not in told.err
    by_pair = {(one["query"], one["documents"]): one for one in json.loads(told.out)["pairs"]}
    assert by_pair.keys() == {("de", "it"), ("it", "de")}
    assert by_pair["de", "it"]["map"] == 1.0
    assert by_pair["de", "it"]["paper"]["HMDE"] == 0.259
    assert by_pair["it", "de"]["paper"] is None
    with (disks / "de" / "FR940101.sgml").open("ab") as file:
        file.write(b"<DOC>\n<TEXT>Ohne Nummer.</TEXT>\n</DOC>\n")
    told = ask(*command, "--method", "first")
    assert "warning: 1 record in de could not be read" in told.err
    assert "multilingual-e5-small by first" in told.out
    assert "mean of all 2" in told.out
    assert "nine" not in told.out  # without all of the paper's pairs


def test_the_table_is_logged_and_a_second_call_encodes_nothing_again(disks: Path, small: ModelFolder, ask: Ask) -> None:
    home = ["--home", str(disks / "home")]
    command = ["hmde-clef", *clef(disks), *home, "--encoder", str(small.path), "--device", "cpu"]
    told = ask(*command, "--json")
    first = json.loads(told.out)
    assert "Logged as evaluation 1" in told.err
    assert first["paper_data"].startswith("CLEF-2003")
    assert first["our_data"] == "topics of top-de.txt, top-it.txt; documents: de 2, it 2"
    told = ask(*command, "--json")
    assert "The vectors of 8 of 8 texts were cached" in told.err
    assert json.loads(told.out) == {**first, "evaluation": 2}
    assert "the paper's data: CLEF-2003" in ask(*command, "--method", "first", "-q").out

    def shown(*arguments: str) -> str:
        return ask("runs", *arguments, *home).out

    logged = json.loads(shown("show", "1.de-it", "--json"))
    assert (logged["scores"].keys(), logged["ranking"]) == ({"141", "142"}, "cosine, reproduce hmde-clef")
    maps = {f"{pair['query']}-{pair['documents']}": pair["map"] for pair in first["pairs"]}
    assert logged["means"]["AP"] == pytest.approx(maps["de-it"], abs=1e-6)
    compared = json.loads(shown("compare", "1", "3", "--json"))
    assert compared["differences"]["3.all"][1:] == ["method first (not segments)"]
    assert "over the 2 pairs that both have" in shown("pairs", "1", "--against", "2")
    exported = [line.split() for line in shown("export", "1").splitlines()]
    assert {line[0] for line in exported} == {"141.de-it", "142.de-it", "141.it-de", "142.it-de"}
    assert {line[-1] for line in exported} == {logged["tag"]}
    written = ["-o", str(disks / "run"), "--qrels", str(disks / "qrels.it")]
    refused = ask("runs", "export", "1.de-it", *home, *written, status=1)
    assert "python -m papers, whose data has the judgements" in refused.err


FLOODS = {"de": "Hochwasser", "fi": "Tulva", "it": "Alluvione", "ru": "Наводнение", "en": "Flood"}


@pytest.mark.parametrize(("langs", "pairs"), [([], 16), (["--langs=en,de,fi"], 10)])
def test_the_papers_nine_pairs_are_compared_among_all(langs: list[str], pairs: int, tmp_path: Path, ask: Ask) -> None:
    given = []
    for lang, flood in FLOODS.items():
        (tmp_path / f"topics.{lang}.jsonl").write_text(json.dumps({"qid": "141", "lang": lang, "title": flood}) + "\n")
        given.append(f"--topics={tmp_path / f'topics.{lang}.jsonl'}")
        if lang == "en":
            continue
        records = [{"id": f"{lang}1", "text": flood}, {"id": f"{lang}2", "text": "1994 – 1995"}]
        (tmp_path / f"{lang}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        # In Russian the other one is relevant, so that the mean of all pairs is another.
        (tmp_path / f"qrels.{lang}").write_text(f"141 0 {lang}{2 if lang == 'ru' else 1} 1\n")
        given += [f"--documents={lang}={tmp_path / f'{lang}.jsonl'}", f"--qrels={lang}={tmp_path / f'qrels.{lang}'}"]
    command = ["hmde-clef", *given, *langs, "-q", "--device", "cpu"]
    told = ask(*command, "--json").json
    assert len(told["pairs"]) == pairs
    nine = [one["map"] for one in told["pairs"] if one["paper"]]
    assert len(nine) == 9
    assert told["paper_pairs_mean"] == pytest.approx(np.mean(nine), abs=1e-6)
    assert told["mean"] == pytest.approx(np.mean([one["map"] for one in told["pairs"]]), abs=1e-6)
    assert told["mean"] != told["paper_pairs_mean"]
    lines = ask(*command).lines
    assert f"mean of the paper's nine 0.186 0.136 0.159 0.109 0.249 {np.mean(nine):.3f}" in lines
    assert f"mean of all {pairs} {told['mean']:.3f}" in lines


def test_topics_and_judgements_are_looked_at_before_anything_is_encoded(disks: Path, ask: Ask) -> None:
    (disks / "irrelevant").write_text("141 0 FR940101.0000 0\n")

    def refusal(status: int, qrels: str, topics: str, *more: str) -> str:
        given = [f"--documents=de={disks / 'de'}", f"--qrels={qrels.format(disks)}", f"--topics={disks / topics}"]
        return ask("hmde-clef", *given, *more, "--encoder", str(disks / "no encoder"), status=status).err

    refusal(2, "it={}/qrels.it", "top-de.txt")
    italian = [f"--documents=it={disks / 'it'}", f"--qrels=it={disks / 'nosuch'}"]
    assert "nosuch" in refusal(1, "de={}/qrels.de", "top-it.txt", *italian)
    for qrels, topics in (("de={}/qrels.de", "top-de.txt"), ("de={}/irrelevant", "top-it.txt")):
        assert "no topic in another language than the documents' is judged" in refusal(1, qrels, topics)


@pytest.fixture
def mldoc(tmp_path: Path) -> Path:
    """The files that MLDoc's script writes, of few lines."""
    for place, language in enumerate(("english", "german")):
        for part in ("train.1000", "dev", "test"):
            lines = [f"{label}\t{texts[place]}\n" for label, texts in STORIES.items()]
            (tmp_path / f"{language}.{part}").write_text("".join(lines), encoding="utf-8")
    (tmp_path / "README").write_text("not ours")
    return tmp_path


def test_a_split_without_documents_of_a_language_counts_in_the_others() -> None:
    by_split = [{"de": 1.0}, {"de": 0.5, "fi": 0.25}]
    means = [Accuracy.of(by_split, langs).accuracy for langs in ({"de"}, {"fi"}, {"de", "fi"})]
    assert means == pytest.approx([75.0, 25.0, (100 + 37.5) / 2])


def test_mldoc_learns_from_english_with_the_papers_means_over_the_same_languages(mldoc: Path, ask: Ask) -> None:
    command = ["hmde-mldoc", "--mldoc", str(mldoc), "-q", "--device", "cpu"]
    told = ask(*command, "--json").json
    assert {lang: one["accuracy"] for lang, one in told["languages"].items()} == {"de": 100.0, "en": 100.0}
    assert (told["mean"], told["mean_spread"]) == (100.0, 0.0)
    lines = ask(*command).lines
    assert "de 89.6 92.5 88.3 90.2 93.4 91.2 100.0" in lines
    assert "mean without en 89.6 92.5 88.3 90.2 93.4 91.2 100.0" in lines
    assert "mean 92.6 92.8 92.6 92.1 94.6 93.3 100.0" in lines
    assert "mean 100.0" in ask(*command, "--train", "de").lines  # the paper learns from English alone


def test_own_documents_are_classified_in_several_draws_or_splits_by_concept(tmp_path: Path, ask: Ask) -> None:
    records = [
        {"id": f"{label}{lang}{at}", "lang": lang, "text": text, "label": label, "concept": f"{label}{at}"}
        for label, texts in STORIES.items()
        for lang, text in zip(("en", "de"), texts, strict=True)
        for at in range(20)
    ]
    source = tmp_path / "docs.jsonl"
    given = ["hmde-mldoc", "--documents", str(source), "-q", "--device", "cpu"]

    def classified(*more: str) -> dict[str, Any]:
        source.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        told: dict[str, Any] = ask(*given, *more, "--json").json
        assert (told["others"], told["others_spread"]) == (100.0, 0.0)
        return told

    told = classified("--splits", "3")
    assert (told["splits"], told["languages"]["de"]) == (3, {"accuracy": 100.0, "spread": 0.0})
    assert "no document has the field split" in ask(*given, status=1).err
    for at, record in enumerate(records):
        record["split"] = ("dev", "test")[at % 20] if at % 20 < 2 else "train"
    told = classified("--train", "de", "--draws", "3")
    assert (told["train"], told["draws"]) == ("de", 3)
    assert told["languages"]["en"] == {"accuracy": 100.0, "spread": 0.0}


@pytest.mark.torch
def test_both_tasks_compare_trainings(disks: Path, mldoc: Path, small: ModelFolder, tmp_path: Path, ask: Ask) -> None:
    sources = [str(DEMO / f"docs.{lang}.jsonl") for lang in ("de", "es")]
    target = tmp_path / "trained"
    options = ["--segmentation", "plain-windows", "--steps", "2", "--batch", "4", "--held-out", "0", "-q"]
    ask("train", "hmde", *sources, "-o", str(target), "--encoder", str(small.path), *options)
    command = ["hmde-variants", f"--encoder={target}", "-q", "--device", "cpu"]
    told = ask(*command, *clef(disks), "--mldoc", str(mldoc), "--json").json
    (ours,) = told["variants"]
    assert (ours["segments"], ours["updates"]) == ("plain-windows", "frozen")
    assert ours["data"] == "8 triples of 2 languages"
    assert 50 <= ours["xldc"] <= 100
    assert 0 < ours["clir"] <= 1
    assert (told["paper"][0]["xldc"], told["paper"][0]["clir"]) == (86.8, 0.249)
    assert "table 3 LaBSE frozen sentences XLW-4L 85.9 0.167" in ask(*command, "--mldoc", str(mldoc)).lines
    ask(*command, status=2)
    refused = ask("hmde-variants", f"--encoder={small.path}", "--mldoc", str(mldoc), status=1)
    assert "was not trained by dragoman train hmde" in refused.err


def test_mldoc_is_read_with_labels_and_parts_and_a_draw_takes_four_fifths_of_the_training(mldoc: Path) -> None:
    documents = list(read_mldoc(mldoc))
    assert len(documents) == 12
    assert {(one.lang, one.fields["split"], one.fields["label"]) for one in documents} == {
        (lang, split, label) for lang in ("en", "de") for split in ("train", "dev", "test") for label in STORIES
    }
    whole = split_of(documents * 5, "en")
    first, second = subsampled(whole, 0), subsampled(whole, 1)
    assert len(first.train) == 8
    assert [id(one) for one in first.train] != [id(one) for one in second.train]
    assert (first.dev, first.tests) == (whole.dev, whole.tests)


def test_data_that_can_not_be_classified_is_refused(tmp_path: Path, ask: Ask) -> None:
    ask("hmde-mldoc", "--mldoc", str(tmp_path), "--splits", "2", status=2)
    (tmp_path / "x.jsonl").write_text('{"id": "1", "lang": "en", "text": "x"}\n')
    refused = ask("hmde-mldoc", "--documents", str(tmp_path / "x.jsonl"), "-q", status=1)
    assert "has no document with the field label" in refused.err
    with pytest.raises(BadInput, match=r"has no english.train.1000 or the like"):
        read_mldoc(tmp_path)
    side = Labelled(unit_rows(np.eye(4, dtype=np.float32)), np.array(["x"] * 4))
    with pytest.raises(BadInput, match="have the label 'x' alone"):
        classify(side, side, {"en": side}, [1.0])
