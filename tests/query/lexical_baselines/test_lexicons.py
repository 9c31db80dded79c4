"""Lexicons from files and from a Cr5 model."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from encoders.cr5.cr5_model import Cr5Model, Table
from encoders.errors import BadInput
from query.lexical_baselines.lexicons import Lexicons, read_lexicon, read_lexicons


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_lexicon_of_patapsco_is_read(tmp_path: Path) -> None:
    file = written(tmp_path / "psq.json", '{"cat": {"gato": 0.8, "felino": 0.15}, "dog": {"perro": 0.9, "can": 0.6}}')
    lexicon = read_lexicon(file)
    assert lexicon["cat"] == {"gato": 0.8, "felino": 0.15}
    assert lexicon["dog"] == {"perro": pytest.approx(0.6), "can": pytest.approx(0.4)}  # the sum was above 1


def test_translations_without_probabilities_are_equally_likely(tmp_path: Path) -> None:
    lines = "river\tjoki\nriver\tvirta\nriver\tjoki\nflood\ttulva\t0.7\nflood\tvesi\t0.2\n\nred hat\tpunahattu\n"
    packed = tmp_path / "en-fi.tsv.gz"
    packed.write_bytes(gzip.compress(lines.encode()))
    for file in (written(tmp_path / "en-fi.tsv", lines), packed):
        assert read_lexicon(file) == {
            "river": {"joki": 0.5, "virta": 0.5},
            "flood": {"tulva": 0.7, "vesi": 0.2},
            "red hat": {"punahattu": 1.0},
        }


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty; give lines of: word, tab, translation"),
        ("flood tulva\n", "lexicon:1 is 'flood tulva'; it should be: word, tab, translation"),
        ("flood\ttulva\t0.7\nriver\tjoki\tmany\n", "lexicon:2 is"),
        ("flood\ttulva\t1.5\n", "lexicon:1 is"),
        ("flood\ttulva\tnan\n", "lexicon:1 is"),
        ("flood\ttulva\t0.7\tnoun\n", "lexicon:1 is"),
        ('{"flood": {"tulva": ', "is no JSON"),
        ('{"flood": ["tulva"]}', "has no probabilities from 0 to 1 for 'flood'"),
        (json.dumps({"flood": {"tulva": -0.5}}), "has no probabilities from 0 to 1 for 'flood'"),
    ],
)
def test_other_content_is_refused_with_its_place(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(BadInput) as error:
        read_lexicon(written(tmp_path / "lexicon", content))
    assert said in str(error.value)


def test_a_probability_of_0_says_nothing_and_1_may_be_rounded(tmp_path: Path) -> None:
    lines = "flood\ttulva\t1.0000001\nflood\tvesi\t0.0\nriver\tkala\t0\n"
    as_json = json.dumps({"flood": {"tulva": 1.0000001, "vesi": 0.0}, "river": {"kala": 0}})
    for content in (lines, as_json):
        assert read_lexicon(written(tmp_path / "lexicon", content)) == {"flood": {"tulva": pytest.approx(1.0)}}


def test_lexicons_are_named_by_their_pair(tmp_path: Path) -> None:
    file = written(tmp_path / "lexicon.tsv", "flood\ttulva\n")
    lexicons = read_lexicons([f"eng-fi={file}", f"zh-Hant-en={file}"])
    assert lexicons.has("en", "fi")
    assert lexicons.has("zh-Hant", "en")
    assert not lexicons.has("fi", "en")
    assert lexicons.names[0].startswith("en-fi lexicon.tsv (")
    assert lexicons.translations("en", "fi", ["flood"]) == {"flood": {"tulva": 1.0}}
    assert lexicons.translations("fi", "en", ["tulva"]) == {}


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("en-fi={file},en-fi={file}", "is the second lexicon of this pair"),
        ("{file}", "is no lexicon; give a pair and its file, such as en-de=FILE, or a Cr5 folder"),
        ("en-fi={file}.gone", "can't be read"),
    ],
)
def test_a_lexicon_without_a_pair_or_a_file_is_refused(tmp_path: Path, source: str, said: str) -> None:
    file = written(tmp_path / "lexicon.tsv", "flood\ttulva\n")
    with pytest.raises(BadInput) as error:
        read_lexicons(source.format(file=file).split(","))
    assert said in str(error.value)


def test_a_cr5_model_translates_by_its_nearest_words() -> None:
    vectors = [[0, 0], [1, 0], [0, 1], [1, 0], [1, 1], [0, -1]]
    model = Cr5Model(
        {"en": ["flood", "river"], "fi": ["tulva", "joki", "vesi"]}, Table(np.array(vectors, np.float32)), 2
    )
    lexicons = Lexicons(model=model, names=["model"])
    assert lexicons.has("en", "fi")
    assert not lexicons.has("en", "de")
    root = 0.5**0.5
    assert lexicons.translations("en", "fi", ["flood", "river", "train"]) == {
        "flood": {"tulva": pytest.approx(1 / (1 + root)), "joki": pytest.approx(root / (1 + root))},
        "river": {"joki": 1.0},
    }
