"""WMT16 and WMT19 in their own layouts, and the table of LAWDR over them."""

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
from encoders.folder.model_folder import ModelFolder
from papers.data import read_commentary, read_site
from papers.lawdr import paper_column
from papers.lawdr_alignment import (
    VARIANTS,
    Data,
    Group,
    SummedGroup,
    Variant,
    match_urls,
    neutral,
    sum_sentences,
    wmt16,
    wmt19,
)
from papers.lawdr_probe import Probe, probe
from tests.indexer.readers.test_shared_tasks import lett_line
from tests.papers.conftest import Ask
from trials import DEMO


def demo(lang: str) -> list[dict[str, Any]]:
    """The demo's documents that are there in English, French, German and Japanese, in one order."""
    languages = {}
    for name in ("en", "fr", "de", "ja"):
        lines = (DEMO / f"docs.{name}.jsonl").read_text("utf-8").splitlines()
        languages[name] = {record["concept"]: record for record in map(json.loads, lines)}
    shared = set.intersection(*(set(records) for records in languages.values()))
    return [languages[lang][concept] for concept in sorted(shared)]


@pytest.fixture
def lett(tmp_path: Path) -> Path:
    """Two sites in English and French; on the second, addresses tell translations."""
    folder = tmp_path / "lett.test"
    folder.mkdir()
    gold = []
    for site, (start, end) in {"a.example": (0, 9), "b.example": (9, 99)}.items():
        pages = {lang: demo(lang)[start:end] for lang in ("en", "fr")}
        names = {lang: [record["concept" if site == "b.example" else "id"] for record in pages[lang]] for lang in pages}
        urls = {lang: [f"http://{site}/{lang}/{name.replace(':', '-')}.html" for name in names[lang]] for lang in pages}
        lines = [
            lett_line(lang, url, record["text"])
            for lang in pages
            for url, record in zip(urls[lang], pages[lang], strict=True)
        ]
        lines += [lett_line("de", f"http://{site}/de/extra", "Ein Text"), lett_line("en", f"http://{site}/en/x", "  ")]
        (folder / f"{site}.lett.gz").write_bytes(gzip.compress("".join(lines).encode()))
        gold += ["\t".join(pair) + "\n" for pair in zip(*urls.values(), strict=True)]
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


def test_commentary_is_read_from_folders_of_languages(commentary: Path) -> None:
    (commentary / "split" / "en" / "empty.txt").touch()
    (commentary / "split" / "en" / "blank.txt").write_text(" \n\n")
    (commentary / "split" / "en" / "folder").mkdir()
    (corpus,) = read_commentary(commentary)
    whole = len(demo("de"))
    assert {lang: len(found) for lang, found in corpus.items()} == {"de": whole, "en": whole, "ja": 12}
    assert corpus["en"][0].fields["concept"] == corpus["de"][0].fields["concept"]
    assert corpus["en"][0].doc_id != corpus["de"][0].doc_id


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
def test_addresses_that_differ_by_language_alone_match_once(english: str, french: str) -> None:
    assert match_urls([english], [french]) == [(english, french)]
    assert match_urls(["http://a.org/en/x"], ["http://a.org/fr/y", "http://b.org/fr/x"]) == []
    assert len(match_urls(["http://a.org/en/x", "http://a.org/x"], ["http://a.org/fr/x"])) == 1
    assert neutral("http://a.org/render/entry?q=frame") == "a.org/render/entry?q=frame"


def sentences_of(documents: Sequence[Document]) -> list[FloatArray]:
    """Three sentences that depend on the last part of the document's id, moved by their language."""
    rows = []
    for document in documents:
        topic = np.random.default_rng([ord(letter) for letter in document.doc_id.rsplit("/", 1)[-1]])
        noise = np.random.default_rng([*map(ord, document.lang + document.doc_id)])
        content = topic.standard_normal((3, 32)) + 0.5 * noise.standard_normal((3, 32))
        rows.append(unit_rows((content + {"en": 0.0, "de": 1.0, "fr": 1.5}[document.lang]).astype(np.float32)))
    return rows


def summed(*groups: tuple[str, Sequence[str]]) -> list[SummedGroup]:
    """The sums of documents in some languages, from their ids."""

    def group(lang: str, ids: Sequence[str]) -> Group:
        return Group(lang, lambda: [Document(doc_id, lang, "") for doc_id in ids], lambda page: page.doc_id[-4:])

    return sum_sentences("", [group(lang, ids) for lang, ids in groups], sentences_of, 32, Console(quiet=True))[1]


def test_recall_counts_pairs_of_the_sites_read_within_their_site_and_urls_go_first() -> None:
    langs = [(site, lang) for site in ("a", "b") for lang in ("en", "fr")]
    sides = summed(*((lang, [f"http://{site}.org/{lang}/{at:04}" for at in range(20)]) for site, lang in langs))
    sites = list(zip(sides[::2], sides[1::2], strict=True))
    gold = {(a, b) for first, second in sites for a, b in zip(first.doc_ids, second.doc_ids, strict=True)}
    other = ("http://c.org/en/0000", "http://c.org/fr/0000")  # a site that was not read
    plain, with_urls = wmt16(sites, gold | {other}, 0)
    assert (plain.task, with_urls.task, plain.pairs) == ("WMT16", "WMT16 with URLs", 40)
    assert all(with_urls.recall(variant) == 100 for variant in VARIANTS)
    assert plain.recall(VARIANTS[-1]) >= plain.recall(VARIANTS[0])
    assert plain.documents == {"en": 40, "fr": 40}
    for variant in VARIANTS:
        (logged,) = plain.runs(variant)
        assert (logged.name, len(logged.scores.topics)) == ("en-fr", 40)
        assert 100 * logged.scores.means["R@1"] == pytest.approx(plain.recall(variant))
    with pytest.raises(BadInput, match="no true pair is of these sites"):
        wmt16(sites, {other}, 0)


def test_recall_of_commentary_is_the_mean_over_pairs_of_languages() -> None:
    names = [f"x/{at:04}" for at in range(30)]
    en, de, fr, other = summed(("en", names), ("de", names), ("fr", names[:20]), ("de", ["y/other"]))
    table = wmt19([{"en": en, "de": de, "fr": fr}], 0)
    assert table.pairs == 3
    assert table.recall(VARIANTS[-1]) > 90
    assert table.documents == {"en": 30, "de": 30, "fr": 20}
    for variant in VARIANTS:
        *pairs, pooled = table.runs(variant)
        assert [(run.name, len(run.scores.topics)) for run in pairs] == [("en-de", 30), ("en-fr", 20), ("de-fr", 20)]
        assert 100 * np.mean([run.scores.means["R@1"] for run in pairs]) == pytest.approx(table.recall(variant))
        assert (pooled.name, len(pooled.scores.topics)) == ("all", 70)
    with pytest.raises(BadInput, match="no two languages share a document"):
        wmt19([{"en": en, "de": other}], 0)


@pytest.mark.parametrize("rank", [0, 3])
def test_a_document_is_what_algorithm_1_makes_of_its_debiased_sentences(rank: int) -> None:
    ids = [f"x/{at:04}" for at in range(40)]
    side, german = summed(("en", ids), ("de", ids[:9]))
    flat = np.concatenate(sentences_of([Document(doc_id, "en", "") for doc_id in ids]))
    basis = np.linalg.svd(flat.astype(np.float64), full_matrices=False)[2][:rank]
    debiased = flat - flat @ basis.T @ basis if rank else flat - flat.mean(axis=0)
    density = side.corpus.density()  # of the language's own sentences alone
    assert (len(density.points), len(german.corpus.density().points)) == (120, 27)
    for is_weighted in (False, True):
        rows = (debiased * density.weights(flat)[:, None] if is_weighted else debiased).reshape(40, 3, 32).sum(axis=1)
        expected = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        ours = side.vectors(Variant(debiased=True, weighted=is_weighted, margin=False), rank)
        np.testing.assert_allclose(ours, expected, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "pooling", "column"),
    [
        ("xlm-mlm-100-1280", "mean", ("XLM", "MP")),
        ("xlm-roberta-base", "cls", ("XLM-R", "ST")),
        ("paraphrase-xlm-r-multilingual-v1", "mean", None),
        ("bert-base-multilingual-cased", "mean", ("BERT", "MP")),
        ("bert-base-multilingual-cased", "cls-dense-tanh", None),
    ],
)
def test_the_papers_column_is_that_of_the_encoder_and_its_pooling(
    name: str, pooling: Pooling, column: tuple[str, str] | None, small: ModelFolder
) -> None:
    assert paper_column(replace(small.config, name=name, pooling=pooling)) == column


def test_a_column_of_the_paper_stands_beside_ours(
    lett: Path, commentary: Path, small: ModelFolder, tmp_path: Path, ask: Ask
) -> None:
    data = ["--wmt16", str(lett / "lett.test"), "--pairs", str(lett / "test.pairs"), "--wmt19", str(commentary)]
    asked = ["--encoder", str(small.path), "--home", str(tmp_path / "home"), "--device", "cpu"]
    shown = ask("lawdr", *data, *asked, "--beside", "XLM").out
    for figure in ("88.8", "94.8", "91.0", "53.5", "paper: XLM MP", "LASER 62.8", "biased, mean, cosine", "true pairs"):
        assert figure in shown
    shown = ask("lawdr", *data[4:], "--rank", "1", *asked).out
    assert "91.0" not in shown
    assert "paper: has no small" in shown


def test_inputs_and_lengths_are_options(commentary: Path, small: ModelFolder, tmp_path: Path, ask: Ask) -> None:
    home = ["--home", str(tmp_path / "home"), "--device", "cpu", "--encoder", str(small.path), "--json"]
    plot = tmp_path / "sentences.svg"
    command = ["lawdr", "--wmt19", str(commentary), *home]
    single, multi = ask(*command, "--inputs", "both", "--plot", str(plot)).json["inputs"]
    assert [table["inputs"] for table in (single, multi)] == ["single", "multi"]
    assert multi["probes"][0]["our_data"] != single["probes"][0]["our_data"]
    assert all(plot.with_stem(f"sentences-{inputs}").is_file() for inputs in ("single", "multi"))
    told = ask(*command, "--unnormalised", "--rank", "1").json
    assert told["unnormalised"]
    (lengths,) = told["inputs"]
    assert lengths["recall"][0]["rank"] == 1
    ours, others = ([row["ours"] for row in told["recall"][0]["variants"]] for told in (lengths, single))
    assert ours != others
    assert "--rank takes auto, 0, or a rank such as 1" in ask(*command, "--rank", "few", status=2).err


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
def test_another_layout_is_refused(arguments: list[str], status: int, sentence: str, tmp_path: Path, ask: Ask) -> None:
    (tmp_path / "pairs").write_text("http://a.org/en\thttp://a.org/fr\n")
    typed = [argument.format(folder=tmp_path, pairs=tmp_path / "pairs") for argument in arguments]
    assert sentence in ask("lawdr", *typed, "--device", "cpu", status=status).err


def test_broken_pages_and_rows_name_their_line(tmp_path: Path) -> None:
    for name, content, said in (
        ("site.lett", lett_line("en", "http://a.org", "text") + "en\ttext/html\n", r"site\.lett:2 has 2 columns"),
        ("x.lett.gz", gzip.compress(b"en\t" * 1000)[:-20], r"x\.lett\.gz"),
        ("nc.de-en.tsv", "only one column\n", r"tsv:1: it has one column"),
        ("nc.tsv", "a\tb\n", "doesn't say its languages"),
    ):
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        with pytest.raises(BadInput, match=said):
            read_site(tmp_path / name) if "lett" in name else list(read_commentary(tmp_path / name))


def probed(sizes: dict[str, int], shift: float, rank: int | None = None) -> Probe:
    """The probe of random vectors, each language moved along an axis of its own, a document for each."""
    numbers = np.repeat(np.arange(len(sizes)), list(sizes.values()))
    rows = np.random.default_rng(0).standard_normal((len(numbers), 24)).astype(np.float32)
    rows[np.arange(len(rows)), numbers] += shift * np.sqrt(24)
    return probe(unit_rows(rows), [list(sizes)[number] for number in numbers], list(map(str, range(len(rows)))), rank)


def test_languages_apart_are_told_by_their_component_and_mixed_ones_are_not() -> None:
    sizes = {"en": 400, "de": 400}
    apart = probed(sizes, 2.0, rank=1)
    whole, inside, outside = apart.accuracies
    assert min(whole, inside) > 97
    assert outside < 65
    assert (whole, outside) == (100 * apart.by_rank[0], 100 * apart.by_rank[1])
    assert 0.3 < probed(sizes, 0.0).by_rank[0] < 0.7
    assert probed({"en": 900, "fi": 40}, 0.0).by_rank[0] < 0.75  # a large language does not hide a small one
    assert probed(sizes, 0.3).accuracies == probed(sizes, 0.3).accuracies


def test_the_rule_takes_the_smallest_rank_below_the_bar_a_tenth_above_chance() -> None:
    found = probed({"en": 400, "de": 400}, 2.0)
    assert found.bar == pytest.approx(0.55)
    assert found.smallest == found.rank == max(found.by_rank)
    assert found.by_rank[found.rank] < 0.55
    assert all(value >= 0.55 for rank, value in found.by_rank.items() if rank < found.rank)
    places = [(side, sign * 2.0) for side in (0.8, -0.8) for sign in (1, -1) * 25]  # most goes along the other axis
    langs, documents = ["en"] * 50 + ["de"] * 50, [str(row) for row in range(100)]
    none = probe(unit_rows(np.array(places, np.float32)), langs, documents)
    assert none.smallest is None
    assert (none.rank, none.by_rank) == (1, {0: 1.0, 1: 1.0})
    assert probed(dict.fromkeys("abcdefghij", 20), 1.0).bar == pytest.approx(0.19)


def test_a_classifier_that_knows_the_documents_tells_nothing_of_documents_it_has_not_seen() -> None:
    chance = np.random.default_rng(0)
    documents = chance.standard_normal((80, 24)).astype(np.float32)
    vectors = unit_rows(np.repeat(documents, 10, axis=0) + 0.1 * chance.standard_normal((800, 24)).astype(np.float32))
    langs = ["en" if row // 10 % 2 else "de" for row in range(800)]
    by_rows = probe(vectors, langs, [str(row) for row in range(800)])
    assert probe(vectors, langs, [str(row // 10) for row in range(800)]).by_rank[0] < by_rows.by_rank[0] - 0.1
    with pytest.raises(BadInput, match="too few documents to be tested on others"):
        probe(vectors, langs, ["all"] * 800)
    with pytest.raises(BadInput, match="takes two of them at least"):
        probed({"en": 50}, 1.0)
    with pytest.raises(BadInput, match="3 vectors in fi are too few"):
        probed({"en": 50, "fi": 3}, 1.0)
