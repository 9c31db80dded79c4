"""``python -m papers mappings``, on files of the published layouts that are written here."""

import bz2
import json
from pathlib import Path

import numpy as np
import pytest

from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder
from encoders.maps.mate_scores import ranks_by_pair
from encoders.maps.parallel import ConceptSplit, Parallel
from papers.data import read_jrc, read_wikicomp
from papers.mappings import learn_shift
from tests.papers.conftest import Ask
from trials import DEMO


def demo(lang: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (DEMO / f"docs.{lang}.jsonl").read_text(encoding="utf-8").splitlines()]


def shared(lang: str, other: str) -> int:
    return len({one["concept"] for one in demo(lang)} & {one["concept"] for one in demo(other)})


@pytest.fixture
def jrc(tmp_path: Path) -> Path:
    for lang in ("en", "fr"):
        folder = tmp_path / lang / "1958"
        folder.mkdir(parents=True)
        for record in demo(lang):
            text = record["text"].replace("é", "%eacute;") if lang == "fr" else record["text"]
            paragraphs = "".join(f'<p n="{at}">{part}</p>\n' for at, part in enumerate(text.split("\n")))
            body = f"<head n='1'>{record['title']}</head>\n<div type='body'>\n{paragraphs}</div>"
            header = "<teiHeader lang='en'><title>JRC-ACQUIS</title></teiHeader>"
            markup = f"<TEI.2 lang='{lang}'>\n{header}\n<text>\n<body>\n{body}\n</body>\n</text>\n</TEI.2>\n"
            (folder / f"jrc2{record['concept']}_01-{lang}.xml").write_text(f"<?xml?>\n{markup}", encoding="utf-8")
        (folder / f"jrc2zero-{lang}.xml").write_text("<TEI.2><text><body></body></text></TEI.2>")
    (tmp_path / "en" / "1958" / "jrc2only-en.xml").write_text("<TEI.2><text><body><p>Alone</p></body></text></TEI.2>")
    return tmp_path


@pytest.fixture
def wikicomp(tmp_path: Path) -> Path:
    file = tmp_path / "wikicomp-2014_ende.xml.bz2"
    german = {record["concept"]: record for record in demo("de")}

    def article(lang: str, record: dict[str, str]) -> str:
        body = "".join(f"<p>{part} <link target='x'>see</link></p>\n" for part in record["text"].split("\n"))
        title = record["title"].replace('"', "")
        content = f"<content>\n<h>Heading</h>\n{body}</content>"
        return f'<article lang="{lang}" name="{title}">\n<categories name="a|b"/>\n{content}\n</article>\n'

    english = [record for record in demo("en") if record["concept"] in german]
    pairs = [article("en", record) + article("de", german[record["concept"]]) for record in english]
    pairs.append('<article lang="en" name="x"><content></content></article>\n')
    blocks = "".join(f'<articlePair id="{number}">\n{pair}</articlePair>\n' for number, pair in enumerate(pairs))
    header = '<?xml version="1.0"?>\n<wikipediaComparable name="en-de">\n'
    file.write_bytes(bz2.compress(f"{header}{blocks}</wikipediaComparable>\n".encode()))
    return file


def test_acquis_documents_of_all_languages_are_read(jrc: Path) -> None:
    documents = list(read_jrc(jrc, ("en", "fr")))
    assert (len(documents), {document.lang for document in documents}) == (2 * shared("en", "fr"), {"en", "fr"})
    assert not any("only" in document.doc_id for document in documents)
    assert len(list(read_jrc(jrc, ("en", "fr"), 5))) == 10
    with pytest.raises(BadInput, match="has no de/YEAR/jrc"):
        list(read_jrc(jrc, ("en", "de")))


def test_pairs_of_articles_are_read_out_of_a_compressed_file(wikicomp: Path, tmp_path: Path) -> None:
    documents = list(read_wikicomp(wikicomp))
    assert len(documents) == 2 * shared("en", "de")
    assert documents[0].fields["concept"] == documents[1].fields["concept"] == "0"
    assert documents[0].title in {one["title"] for one in demo("en")}
    assert documents[0].text.startswith("Heading\n")
    assert "see" in documents[0].text
    (tmp_path / "other.xml").write_text("<nothing/>")
    with pytest.raises(BadInput, match="no <articlePair>"):
        list(read_wikicomp(tmp_path / "other.xml"))


def test_the_papers_figures_stand_beside_ours(
    small: ModelFolder, jrc: Path, wikicomp: Path, ask: Ask, tmp_path: Path
) -> None:
    picture = tmp_path / "mates.png"
    asked = ["mappings", "--jrc", str(jrc), "--wikipedia", str(wikicomp), "--languages", "en,fr"]
    asked += ["--encoder", str(small.path)]
    options = ["--methods", "raw,lca-published,lca,lcc-published,lcc,shift", "--splits", "2", "--device", "cpu"]
    options += ["--plot", str(picture)]
    acquis, wikipedia = ask(*asked, *options, "--json", "-q").values
    assert (acquis["documents"], wikipedia["documents"]) == (shared("en", "fr"), shared("en", "de"))
    published = {one["method"]: one["paper"] for one in acquis["points"]}
    assert published["lca-published"]["mBERT"] == [0.963, 0.975]
    assert published["lca-published"]["mean of the four"] == [0.937, 0.958]
    assert published["lcc-published"]["mT5"] == [0.907, 0.936]
    assert published["lca"] == published["lcc"] == published["shift"] == {}
    assert all(0 <= one["rate"] <= one["mrr"] <= 1 for one in [*acquis["points"], *wikipedia["points"]])
    assert picture.stat().st_size > 1000
    ask(*asked[:2], status=2)


def test_shift_takes_the_difference_of_the_languages_means_out_of_the_documents() -> None:
    first, second = (np.random.default_rng(seed).standard_normal((50, 6), np.float32) for seed in range(2))
    sides = {"en": first, "de": second + np.float32(4), "fr": first + np.float32(3)}
    split = ConceptSplit.of(Parallel([str(row) for row in range(50)], sides), 0)
    found = ranks_by_pair(learn_shift(split, 0), split.test)
    assert set(found["en", "fr"]) == set(found["fr", "en"]) == {1}
    for (lang, other), mate_ranks in found.items():
        pairs = zip(split.training.rows[lang], split.training.rows[other], strict=True)
        moved = np.mean([there - here for here, there in pairs], axis=0)
        documents = [row / np.linalg.norm(row) for row in split.test.rows[other] - moved]
        cosines = np.array([[query @ row for row in documents] for query in split.test.rows[lang]])
        assert mate_ranks.tolist() == (cosines >= np.diag(cosines)[:, None]).sum(axis=1).tolist()


@pytest.mark.torch
def test_every_method_of_the_paper_is_measured_unless_some_are_named(small: ModelFolder, jrc: Path, ask: Ask) -> None:
    asked = ["mappings", "--jrc", str(jrc), "--languages", "en,fr", "--encoder", str(small.path)]
    points = ask(*asked, "--splits", "1", "--device", "cpu", "--json", "-q").json["points"]
    assert {point["method"] for point in points if point["paper"]} == {"raw", "lca-published", "lcc-published", "nca"}


def test_each_method_is_logged_with_concepts_scores(small: ModelFolder, jrc: Path, tmp_path: Path, ask: Ask) -> None:
    home = ["--home", str(tmp_path / "home")]
    asked = ["mappings", "--jrc", str(jrc), "--languages", "en,fr", "--encoder", str(small.path), *home]
    asked += ["--methods", "raw,lca", "--splits", "1", "--device", "cpu"]
    told = ask(*asked, "--json")
    raw, lca = json.loads(told.out)["points"]
    assert (raw["evaluation"], lca["evaluation"]) == (1, 2)
    assert "Logged as evaluations 1 to 2" in told.err
    for point in (raw, lca):
        shown = ask("runs", "show", str(point["evaluation"]), *home, "--json").json
        assert shown["means"] == pytest.approx({"Success@1": point["rate"], "RR": point["mrr"]}, abs=1e-6)
        assert len(shown["scores"]) == shown["topics"] > 3
        assert shown["ranking"] == f"{point['method']}, reproduce mappings, JRC-Acquis"
    assert ask("runs", "compare", "1", "2", *home, "--json").json["differences"]["2.all"] == ["ranked by lca (not raw)"]
    assert "run 1.all was logged without rankings" in ask("runs", "export", "1", *home, status=1).err
    told = ask(*asked, "--json")
    assert "texts were cached" in told.err
    assert json.loads(told.out)["points"][1] == {**lca, "evaluation": 4}
    asked[asked.index("raw,lca")] = "raw"
    ask(*asked[:-3], "30", "--device", "cpu", "-q")  # a concept that two splits test counts once
    assert ask("runs", "show", "5", *home, "--json").json["topics"] == shared("en", "fr")
