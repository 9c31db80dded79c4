"""WMT16 and WMT19 in their own layouts, and the table of LAWDR over them."""

import base64
import gzip
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from encoders.console import Console
from encoders.document import Document, FloatArray, unit_rows
from encoders.errors import BadInput
from encoders.folder.model_config import Pooling
from encoders.folder.model_folder import ModelFolder, link_files, publishing
from encoders.methods.density import DensityWeights
from papers.__main__ import run as compute
from papers.cached_encoder import SentenceVectors
from papers.lawdr import PAPER, paper_column
from papers.lawdr_alignment import Data, wmt16, wmt19
from papers.lawdr_data import lett_files, match_urls, neutral, read_commentary, read_site
from papers.lawdr_vectors import VARIANTS, Group, LanguageCorpus, SummedGroup, Variant, sum_sentences
from query.cli import run
from trials import DEMO


def demo(lang: str) -> list[dict[str, Any]]:
    """The demo's documents that are there in English, French, German and Japanese, in one order."""
    languages = {}
    for name in ("en", "fr", "de", "ja"):
        lines = (DEMO / f"docs.{name}.jsonl").read_text("utf-8").splitlines()
        languages[name] = {record["concept"]: record for record in map(json.loads, lines)}
    shared = set.intersection(*(set(records) for records in languages.values()))
    return [languages[lang][concept] for concept in sorted(shared)]


def lett_line(lang: str, url: str, text: str) -> str:
    page, plain = (base64.b64encode(part.encode()).decode() for part in (f"<p>{text}</p>", text))
    return "\t".join((lang, "text/html", "charset=utf-8", url, page, plain)) + "\n"


@pytest.fixture
def lett(tmp_path: Path) -> Path:
    """Two sites in English and French; on the second, addresses tell translations."""
    folder = tmp_path / "lett.test"
    folder.mkdir()
    gold = []
    for site, (start, end) in {"a.example": (0, 9), "b.example": (9, 99)}.items():
        with gzip.open(folder / f"{site}.lett.gz", "wt", encoding="utf-8") as file:
            for lang in ("en", "fr"):
                for record in demo(lang)[start:end]:
                    name = record["concept"] if site == "b.example" else record["id"].replace(":", "-")
                    file.write(lett_line(lang, f"http://{site}/{lang}/{name}.html", record["text"]))
            file.write(lett_line("de", f"http://{site}/de/extra", "Ein Text"))
            file.write(lett_line("en", f"http://{site}/en/empty", "  "))
        for record in demo("en")[start:end]:
            english, french = (
                record["concept"] if site == "b.example" else f"demo-{lang}-{record['concept']}"
                for lang in ("en", "fr")
            )
            gold.append(f"http://{site}/en/{english}.html\thttp://{site}/fr/{french}.html\n")
    (tmp_path / "test.pairs").write_text("".join(gold), "utf-8")
    return tmp_path


@pytest.fixture
def commentary(tmp_path: Path) -> Path:
    """The unpacked documents of news commentary in three languages."""
    for lang in ("en", "de", "ja"):
        folder = tmp_path / "v14" / "split" / lang
        folder.mkdir(parents=True)
        for record in demo(lang)[: 12 if lang == "ja" else 99]:
            (folder / f"{record['concept']}.txt").write_text(record["text"] + "\n", "utf-8")
    return tmp_path / "v14"


def test_a_site_is_read_page_by_page(lett: Path) -> None:
    files = lett_files(lett / "lett.test")
    assert [path.name for path in files] == ["a.example.lett.gz", "b.example.lett.gz"]
    site = read_site(files[0])
    assert {lang: len(documents) for lang, documents in site.items()} == {"en": 9, "fr": 9}
    assert site["en"][0].doc_id.startswith("http://a.example/en/")
    assert site["fr"][0].lang == "fr"
    assert site["en"][0].text == demo("en")[0]["text"]


def test_commentary_is_read_from_folders_named_by_language(commentary: Path) -> None:
    (commentary / "split" / "en" / "empty.txt").touch()
    (commentary / "split" / "en" / "blank.txt").write_text(" \n\n")
    (commentary / "split" / "en" / "folder").mkdir()
    (corpus,) = read_commentary(commentary)
    assert {lang: len(documents) for lang, documents in corpus.items()} == {
        "de": len(demo("de")),
        "en": len(demo("en")),
        "ja": 12,
    }
    assert corpus["en"][0].fields["concept"] == corpus["de"][0].fields["concept"]
    assert corpus["en"][0].doc_id != corpus["de"][0].doc_id


def test_commentary_is_read_from_pairs_of_sentences_with_empty_rows_between_documents(tmp_path: Path) -> None:
    file = tmp_path / "news-commentary-v14.de-en.tsv.gz"
    rows = ["Titel\tTitle", "Ein Satz.\tA sentence.", "\t", "Zweites\tSecond", "\t", "\t", "Nur deutsch\t"]
    with gzip.open(file, "wt", encoding="utf-8") as out:
        out.write("\n".join(rows) + "\n")
    for path in (file, tmp_path):
        (corpus,) = read_commentary(path)
        assert [document.text for document in corpus["de"]] == ["Titel\nEin Satz.", "Zweites", "Nur deutsch"]
        assert [document.text for document in corpus["en"]] == ["Title\nA sentence.", "Second"]
        assert [document.fields["concept"] for document in corpus["en"]] == [f"{file.name}:{at}" for at in (1, 2)]


def test_an_english_article_of_two_corpora_has_one_name(tmp_path: Path) -> None:
    for lang in ("de", "fr"):
        rows = [f"Satz {lang}\tOne sentence", "\t", f"Nur {lang}\tOther of " + lang]
        (tmp_path / f"news-commentary-v14.{lang}-en.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    groups = Data([], set(), list(read_commentary(tmp_path))).articles()
    names: dict[str, list[str]] = {group.lang: [] for group in groups}
    for group in groups:
        names[group.lang] += [group.name(article) for article in group.read()]
    assert names["de"][0] == names["fr"][0] == names["en"][0] == names["en"][2]
    assert len({names["de"][1], names["fr"][1]}) == 2


@pytest.mark.parametrize(
    ("english", "french"),
    [
        ("http://a.org/en/page.html", "http://a.org/fr/page.html"),
        ("http://a.org/page.html", "http://a.org/fr/page.html"),
        ("http://a.org/page_en.html", "http://a.org/page_fr.html"),
        ("http://a.org/index.php?id=3&lang=en", "http://a.org/index.php?id=3&lang=fr"),
        ("http://a.org/en-us/page/", "http://a.org/fr-ca/page/"),
        ("https://a.org/english/about", "http://a.org/french/about"),
    ],
)
def test_addresses_that_differ_by_language_alone_match(english: str, french: str) -> None:
    assert match_urls([english], [french], ("en", "fr")) == [(english, french)]


def test_other_addresses_do_not_match_and_an_address_matches_once() -> None:
    langs = ("en", "fr")
    assert match_urls(["http://a.org/en/x"], ["http://a.org/fr/y", "http://b.org/fr/x"], langs) == []
    assert len(match_urls(["http://a.org/en/x", "http://a.org/x"], ["http://a.org/fr/x"], langs)) == 1
    assert neutral("http://a.org/render/entry?q=frame", langs) == "a.org/render/entry?q=frame"


def summed(lang: str, ids: list[str], seed: int, shift: float) -> tuple[Group, SentenceVectors]:
    """Documents of three sentences that depend on the last part of the document's id, moved by their language."""

    def vectors(documents: Sequence[Document]) -> list[FloatArray]:
        rows = []
        for document in documents:
            topic = np.random.default_rng([ord(letter) for letter in document.doc_id.rsplit("/", 1)[-1]])
            noise = np.random.default_rng([seed, *map(ord, document.doc_id)])
            content = topic.standard_normal((3, 32)) + 0.5 * noise.standard_normal((3, 32)) + shift
            rows.append(unit_rows(content.astype(np.float32)))
        return rows

    documents = [Document(doc_id, lang, "text") for doc_id in ids]
    return Group(lang, lambda: documents, lambda document: document.doc_id.rsplit("/", 1)[-1]), vectors


def groups_of(sides: Sequence[tuple[Group, SentenceVectors]]) -> list[SummedGroup]:
    """The sums of several sides, each by its own vectors."""
    by_lang = {group.lang: vectors for group, vectors in sides}

    def vectors(documents: Sequence[Document]) -> Sequence[FloatArray]:
        return by_lang[documents[0].lang](documents)

    return sum_sentences("", [group for group, _ in sides], vectors, 32, Console(quiet=True))[1]


def test_recall_counts_pairs_within_their_site_and_urls_go_first() -> None:
    sides = groups_of(
        [
            summed(lang, [f"http://{site}.org/{lang}/{at}" for at in range(20)], seed, shift)
            for site in ("a", "b")
            for lang, seed, shift in (("en", 1, 0.0), ("fr", 2, 1.5))
        ]
    )
    sites = list(zip(sides[::2], sides[1::2], strict=True))
    gold = {(a, b) for first, second in sites for a, b in zip(first.doc_ids, second.doc_ids, strict=True)}
    plain, with_urls = wmt16(sites, gold, 0)
    assert (plain.task, with_urls.task, plain.pairs) == ("WMT16", "WMT16 with URLs", 40)
    assert all(with_urls.recall[variant] == 100 for variant in VARIANTS)
    assert plain.recall[VARIANTS[-1]] >= plain.recall[VARIANTS[0]]
    assert plain.documents == {"en": 40, "fr": 40}
    for variant in VARIANTS:
        (logged,) = plain.runs(variant)
        assert (logged.name, len(logged.scores.topics)) == ("en-fr", 40)
        assert 100 * logged.scores.means["R@1"] == pytest.approx(plain.recall[variant])
    with pytest.raises(BadInput, match="no true pair is of these sites"):
        wmt16(sites, {("x", "y")}, 0)


def test_recall_of_commentary_is_the_mean_over_pairs_of_languages() -> None:
    names = [f"x/{at}" for at in range(30)]
    en, de, fr = groups_of(
        [summed("en", names, 1, 0.0), summed("de", names, 2, 1.0), summed("fr", names[:20], 3, -1.0)]
    )
    table = wmt19([{"en": en, "de": de, "fr": fr}], 0)
    assert table.pairs == 3
    assert table.recall[VARIANTS[-1]] > 90
    assert table.documents == {"en": 30, "de": 30, "fr": 20}
    for variant in VARIANTS:
        *pairs, pooled = table.runs(variant)
        assert [(run.name, len(run.scores.topics)) for run in pairs] == [("en-de", 30), ("en-fr", 20), ("de-fr", 20)]
        assert 100 * np.mean([run.scores.means["R@1"] for run in pairs]) == pytest.approx(table.recall[variant])
        assert (pooled.name, len(pooled.scores.topics)) == ("all", 70)
    (other,) = groups_of([summed("de", ["y/other"], 1, 0.0)])
    with pytest.raises(BadInput, match="no two languages share a document"):
        wmt19([{"en": en, "de": other}], 0)


@pytest.mark.parametrize("rank", [0, 3])
def test_a_document_is_what_algorithm_1_makes_of_its_debiased_sentences(rank: int) -> None:
    group, vectors = summed("en", [f"x/{at}" for at in range(40)], 1, 1.0)
    (side,) = groups_of([(group, vectors)])
    sentences = np.stack(vectors(group.read()))
    flat = sentences.reshape(-1, 32)
    _, _, directions = np.linalg.svd(flat.astype(np.float64), full_matrices=False)
    basis = directions[:rank]
    debiased = flat - flat @ basis.T @ basis if rank else flat - flat.mean(axis=0)
    weights = DensityWeights.fit(side.corpus.sample()[0]).weights(flat)
    for is_weighted in (False, True):
        rows = (debiased * weights[:, None] if is_weighted else debiased).reshape(40, 3, 32).sum(axis=1)
        expected = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        ours = side.vectors(Variant(debiased=True, weighted=is_weighted, margin=False), rank)
        np.testing.assert_allclose(ours, expected, atol=1e-4)


def test_the_density_is_estimated_from_the_languages_own_sentences_alone() -> None:
    sides = [summed("en", ["x/1", "x/2"], 1, 0.0), summed("de", [f"x/{at}" for at in range(9)], 2, 1.0)]
    english, german = groups_of(sides)
    assert (len(english.corpus.density().points), len(german.corpus.density().points)) == (6, 27)


def test_a_sample_is_bounded_and_the_same_again() -> None:
    samples = []
    for _ in range(2):
        corpus = LanguageCorpus(4, size=10, seed=3)
        for at in range(50):
            corpus.add(str(at), np.full((2, 4), at, np.float32))
        vectors, names = corpus.sample()
        assert (vectors.shape, len(set(names))) == ((10, 4), len({row[0] for row in vectors.tolist()}))
        assert [str(int(row[0])) for row in vectors] == names
        samples.append(names)
    assert samples[0] == samples[1]


@pytest.mark.parametrize(
    ("name", "pooling", "column"),
    [
        ("xlm-mlm-100-1280", "mean", ("XLM", "MP")),
        ("xlm-roberta-base", "cls", ("XLM-R", "ST")),
        ("XLM-R-large", "mean", ("XLM-R", "MP")),
        ("distilbert-base-multilingual-cased", "mean", None),
        ("paraphrase-xlm-r-multilingual-v1", "mean", None),
        ("bert-base-multilingual-cased", "mean", ("BERT", "MP")),
        ("bert-base-multilingual-cased", "cls-dense-tanh", None),
    ],
)
def test_the_papers_column_is_that_of_the_encoder_and_its_pooling(
    name: str, pooling: Pooling, column: tuple[str, str] | None, small: ModelFolder
) -> None:
    assert paper_column(replace(small.config, name=name, pooling=pooling)) == column


def test_the_papers_tables_agree_with_each_other() -> None:
    best = VARIANTS[-1]
    assert [PAPER[task]["single"]["XLM", "MP"][best] for task in PAPER] == [88.8, 94.8, 91.0]
    table_5 = {"single": (6.4, 79.5, 16.1, 91.0, 0.1, 47.6), "multi": (21.0, 86.3, 20.7, 88.4, 1.9, 74.2)}
    for inputs, published in table_5.items():
        columns = PAPER["WMT19"][inputs]  # type: ignore[index]  # the keys are its literals
        ours = [columns[name, "MP"][row] for name in ("BERT", "XLM", "XLM-R") for row in (VARIANTS[3], best)]
        assert tuple(ours) == pytest.approx(published)


def named(folder: ModelFolder, name: str, target: Path) -> ModelFolder:
    """A model folder of another name."""
    with publishing(target, replace(folder.config, name=name)) as made:
        link_files(folder, made, left_out=())
    return ModelFolder.open(target)


def test_the_command_prints_the_column_of_its_encoder_and_no_other(
    lett: Path, commentary: Path, small: ModelFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = ["--wmt16", str(lett / "lett.test"), "--pairs", str(lett / "test.pairs"), "--wmt19", str(commentary)]
    xlm = named(small, "xlm-mlm-100-1280", tmp_path / "xlm")
    home = ["--home", str(tmp_path / "home"), "--device", "cpu"]
    assert compute(["lawdr", *data, "--encoder", str(xlm.path), *home]) == 0
    shown = capsys.readouterr().out
    for figure in ("88.8", "94.8", "91.0", "53.5", "paper: XLM MP", "LASER 62.8", "biased, mean, cosine", "true pairs"):
        assert figure in shown
    assert compute(["lawdr", *data[4:], "--rank", "1", "--encoder", str(small.path), *home]) == 0
    shown = capsys.readouterr().out
    assert "91.0" not in shown
    assert "paper: has no small" in shown


def test_sentences_together_and_vectors_of_their_own_length_are_options(
    commentary: Path, small: ModelFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = ["--home", str(tmp_path / "home"), "--device", "cpu", "--encoder", str(small.path), "--json"]
    plot = tmp_path / "sentences.svg"
    command = ["lawdr", "--wmt19", str(commentary), *home]
    assert compute([*command, "--inputs", "both", "--plot", str(plot)]) == 0
    single, multi = json.loads(capsys.readouterr().out)["inputs"]
    assert [table["inputs"] for table in (single, multi)] == ["single", "multi"]
    assert multi["probes"][0]["our_data"] != single["probes"][0]["our_data"]
    assert all(plot.with_stem(f"sentences-{inputs}").is_file() for inputs in ("single", "multi"))
    assert compute([*command, "--unnormalised", "--rank", "1"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["unnormalised"]
    (lengths,) = told["inputs"]
    assert lengths["recall"][0]["rank"] == 1
    assert [row["ours"] for row in lengths["recall"][0]["variants"]] != [
        row["ours"] for row in single["recall"][0]["variants"]
    ]
    assert compute([*command, "--rank", "few"]) == 2
    assert "--rank takes auto, 0, or a rank such as 1" in capsys.readouterr().err


@pytest.mark.parts
def test_the_default_encoder_aligns_the_demo(
    lett: Path, commentary: Path, default_folder: object, capsys: pytest.CaptureFixture[str]
) -> None:
    data = ["--wmt16", str(lett / "lett.test"), "--pairs", str(lett / "test.pairs"), "--wmt19", str(commentary)]
    assert compute(["lawdr", *data, "--device", "cpu", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["inputs"]
    best = {table["task"]: table["variants"][-1]["ours"] for table in told["recall"]}
    assert best["WMT16"] >= 90
    assert best["WMT16 with URLs"] >= best["WMT16"]
    assert best["WMT19"] >= 90
    assert all(probe["by_rank"]["0"] > 0.9 for probe in told["probes"])
    numbers = [variant["evaluation"] for table in told["recall"] for variant in table["variants"]]
    assert len(set(numbers)) == 24
    assert run(["runs", "compare", str(numbers[0]), str(numbers[7]), "--json"]) == 0
    compared = json.loads(capsys.readouterr().out)
    assert compared["comparisons"][0]["mean_b"] == pytest.approx(best["WMT16"] / 100, abs=1e-5)


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        ([], 2, "name the data: --wmt16 DIR"),
        (["--wmt16", "{folder}"], 2, "belong together; give both"),
        (["--wmt16", "{folder}", "--pairs", "{pairs}"], 1, "has no .lett or .lett.gz file"),
        (["--wmt19", "{folder}/nowhere"], 1, "does not exist; name the folder of news commentary"),
        (["--wmt19", "{folder}"], 1, "has no two folders named by language"),
    ],
)
def test_data_of_another_layout_is_refused(
    arguments: list[str],
    status: int,
    sentence: str,
    tmp_path: Path,
    default_folder: object,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "pairs").write_text("http://a.org/en\thttp://a.org/fr\n")
    typed = [argument.format(folder=tmp_path, pairs=tmp_path / "pairs") for argument in arguments]
    assert compute(["lawdr", *typed, "--device", "cpu"]) == status
    assert sentence in capsys.readouterr().err


def test_broken_pages_and_rows_name_their_line(tmp_path: Path) -> None:
    broken, base = tmp_path / "site.lett", ("en", "text/html", "charset=utf-8", "http://a.org", "")
    for text, said in (
        (lett_line("en", "http://a.org", "text") + "en\ttext/html\n", r"site\.lett:2 has 2 columns"),
        ("\t".join((*base, "no base64!")) + "\n", r"site\.lett:1 has a text that is no Base64"),
    ):
        broken.write_text(text)
        with pytest.raises(BadInput, match=said):
            read_site(broken)
    for name, text, said in (
        ("nc.de-en.tsv", "only one column\n", r"tsv:1: it has one column"),
        ("nc.tsv", "a\tb\n", "doesn't say its languages"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(BadInput, match=said):
            list(read_commentary(tmp_path / name))
    (tmp_path / "x.lett.gz").write_bytes(gzip.compress(b"en\t" * 1000)[:-20])
    with pytest.raises(BadInput, match=r"x\.lett\.gz"):
        read_site(tmp_path / "x.lett.gz")
