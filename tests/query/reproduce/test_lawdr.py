"""WMT16 and WMT19 in their own layouts, and the table of LAWDR over them."""

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from encoders.document import Passages, int8_rows, unit_rows
from encoders.errors import BadInput
from query.alignment.coverage import PassageRows
from query.alignment.side import Side
from query.cli import run
from query.reproduce.lawdr import VARIANTS, wmt16, wmt19
from query.reproduce.lawdr_data import lett_files, match_urls, neutral, read_commentary, read_site
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
    assert site.name == "a.example"
    assert (len(site.first), len(site.second)) == (9, 9)
    assert site.first[0].doc_id.startswith("http://a.example/en/")
    assert site.second[0].lang == "fr"
    assert site.first[0].text == demo("en")[0]["text"]


def test_commentary_is_read_from_folders_named_by_language(commentary: Path) -> None:
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
        assert [document.fields["concept"] for document in corpus["en"]] == ["1", "2"]


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


def test_other_addresses_do_not_match() -> None:
    assert match_urls(["http://a.org/en/x"], ["http://a.org/fr/y"], ("en", "fr")) == []
    assert match_urls(["http://a.org/en/x"], ["http://b.org/fr/x"], ("en", "fr")) == []
    assert neutral("http://a.org/render/entry?q=frame", ("en", "fr")) == "a.org/render/entry?q=frame"


def test_an_address_is_matched_once() -> None:
    urls = ["http://a.org/en/x", "http://a.org/x"]
    pairs = match_urls(urls, ["http://a.org/fr/x"], ("en", "fr"))
    assert len(pairs) == 1


def side(name: str, ids: list[str], seed: int, shift: float) -> Side:
    """Documents whose vectors depend on the last part of their id, moved by their language."""
    rows: list[npt.NDArray[np.float64]] = []
    for doc_id in ids:
        chance = np.random.default_rng([ord(letter) for letter in doc_id.rsplit("/", 1)[-1]])
        noise = np.random.default_rng([seed, len(rows)])
        rows.append(chance.standard_normal(32) + 0.5 * noise.standard_normal(32) + shift)
    vectors = unit_rows(np.array(rows, np.float32))
    packed = PassageRows.pack([Passages(int8_rows(row[None]), np.zeros((1, 2), np.int32)) for row in vectors], vectors)
    return Side(name, ids, vectors, packed, [doc_id.rsplit("/", 1)[-1] for doc_id in ids])


def test_recall_counts_pairs_within_their_site_and_urls_go_first() -> None:
    sites = [
        (
            side("en", [f"http://{site}.org/en/{at}" for at in range(20)], 1, 0.0),
            side("fr", [f"http://{site}.org/fr/{at}" for at in range(20)], 2, 1.5),
        )
        for site in ("a", "b")
    ]
    gold = {(a, b) for first, second in sites for a, b in zip(first.doc_ids, second.doc_ids, strict=True)}
    plain, with_urls = wmt16(sites, gold, ("en", "fr"), 0)
    assert (plain.task, with_urls.task, plain.pairs) == ("WMT16", "WMT16 with URLs", 40)
    assert all(with_urls.recall[variant] == 100 for variant in VARIANTS)
    assert plain.recall[VARIANTS[3]] >= plain.recall[VARIANTS[0]]
    assert plain.documents == {"en": 40, "fr": 40}
    for variant in VARIANTS:
        (logged,) = plain.runs(variant)
        assert (logged.name, len(logged.scores.topics)) == ("en-fr", 40)
        assert 100 * logged.scores.means["R@1"] == pytest.approx(plain.recall[variant])
    with pytest.raises(BadInput, match="no true pair is of these sites"):
        wmt16(sites, {("x", "y")}, ("en", "fr"), 0)


def test_recall_of_commentary_is_the_mean_over_pairs_of_languages() -> None:
    names = [f"x/{at}" for at in range(30)]
    corpus = {"en": side("en", names, 1, 0.0), "de": side("de", names, 2, 1.0), "fr": side("fr", names[:20], 3, -1.0)}
    found = wmt19([corpus], 0)
    assert found.pairs == 3
    assert found.recall[VARIANTS[3]] > 90
    assert found.documents == {"en": 30, "de": 30, "fr": 20}
    for variant in VARIANTS:
        *pairs, pooled = found.runs(variant)
        assert [(run.name, len(run.scores.topics)) for run in pairs] == [("en-de", 30), ("en-fr", 20), ("de-fr", 20)]
        assert 100 * np.mean([run.scores.means["R@1"] for run in pairs]) == pytest.approx(found.recall[variant])
        assert (pooled.name, len(pooled.scores.topics)) == ("all", 70)
    with pytest.raises(BadInput, match="no two languages share a document"):
        wmt19([{"en": corpus["en"], "de": side("de", ["y/other"] * 2, 1, 0.0)}], 0)


@pytest.mark.parts
def test_the_command_prints_the_papers_figures_beside_ours(
    lett: Path, commentary: Path, default_folder: object, capsys: pytest.CaptureFixture[str]
) -> None:
    data = ["--wmt16", str(lett / "lett.test"), "--pairs", str(lett / "test.pairs"), "--wmt19", str(commentary)]
    assert run(["reproduce", "lawdr", *data, "--device", "cpu"]) == 0
    shown = capsys.readouterr().out
    for figure in ("88.8", "94.8", "91.0", "53.5", "WMT16 with URLs", "true pairs", "3 pairs of languages"):
        assert figure in shown
    assert run(["reproduce", "lawdr", *data, "--device", "cpu", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    best = {table["task"]: table["variants"][-1]["ours"] for table in told["recall"]}
    assert best["WMT16"] >= 90
    assert best["WMT16 with URLs"] >= best["WMT16"]
    assert best["WMT19"] >= 90
    assert told["probe"]["by_rank"]["0"] > 0.9
    numbers = [variant["evaluation"] for table in told["recall"] for variant in table["variants"]]
    assert len(set(numbers)) == 12
    assert run(["runs", "compare", str(numbers[0]), str(numbers[3]), "--json"]) == 0
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
    assert run(["reproduce", "lawdr", *typed, "--device", "cpu"]) == status
    assert sentence in capsys.readouterr().err


def test_broken_pages_and_rows_name_their_line(tmp_path: Path) -> None:
    broken = tmp_path / "site.lett"
    broken.write_text(lett_line("en", "http://a.org", "text") + "en\ttext/html\n")
    with pytest.raises(BadInput, match=r"site\.lett:2 has 2 columns"):
        read_site(broken)
    broken.write_text("\t".join(("en", "text/html", "charset=utf-8", "http://a.org", "", "no base64!")) + "\n")
    with pytest.raises(BadInput, match=r"site\.lett:1 has a text that is no Base64"):
        read_site(broken)
    rows = tmp_path / "nc.de-en.tsv"
    rows.write_text("only one column\n")
    with pytest.raises(BadInput, match=r"tsv:1 has one column"):
        list(read_commentary(rows))
    other = tmp_path / "nc.tsv"
    other.write_text("a\tb\n")
    with pytest.raises(BadInput, match="doesn't say its languages"):
        list(read_commentary(other))
    (tmp_path / "x.lett.gz").write_bytes(gzip.compress(b"en\t" * 1000)[:-20])
    with pytest.raises(BadInput, match=r"x\.lett\.gz"):
        read_site(tmp_path / "x.lett.gz")
