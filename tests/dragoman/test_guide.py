"""The Python guide's programs run as they are printed."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from dragoman import DragomanError
from tests.conftest import Capture, Patch
from trials import ROOT

_GUIDE = (ROOT / "docs" / "guides" / "python.md").read_text("utf-8")
_FRAMEWORKS = "LangChain, Haystack, LlamaIndex"
_TOPICS = "qid\tlang\ttitle\n1\ten\triver flood\n1\tde\tHochwasser am Fluss\n2\ten\tbread\n2\tde\tBrot\n"
_QRELS = "1 0 elbe 1\n1 0 po 1\n2 0 bread 1\n"


def programs(title: str) -> list[str]:
    """The Python programs under a heading of the guide."""
    section = _GUIDE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return re.findall(r"^```python\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)


def run(title: str, names: dict[str, Any]) -> None:
    found = programs(title)
    assert found
    for program in found:
        exec(compile(program, f"{title} in python.md", "exec", dont_inherit=True), names)  # noqa: S102


pytestmark = pytest.mark.parts


@pytest.fixture(scope="module")
def guide(tmp_path_factory: pytest.TempPathFactory, default_opened_once: None) -> Iterator[dict[str, Any]]:
    """The names that the guide's programs share; the collection of the first program is there."""
    folder = tmp_path_factory.mktemp("guide")
    (folder / "topics.tsv").write_text(_TOPICS, encoding="utf-8")
    (folder / "qrels.txt").write_text(_QRELS, encoding="utf-8")
    with Patch.context() as patch:
        patch.chdir(folder)
        patch.setenv("DRAGOMAN_HOME", str(folder / "home"))
        names: dict[str, Any] = {"__name__": "guide"}
        assert len("".join(programs("Ten lines")).splitlines()) <= 11
        run("Ten lines", names)
        yield names
        if "searcher" in names:
            names["searcher"].close()


def test_the_guide_runs_from_documents_to_the_scores(guide: dict[str, Any], capsys: Capture) -> None:
    titles = re.findall(r"^## (.+)$", _GUIDE, re.MULTILINE)
    ran = [title for title in titles[1:] if title != _FRAMEWORKS and programs(title)]
    assert ran == ["Documents", "Search", "Calibrate and evaluate", "Vectors alone", "Where the data are", "Errors"]
    for title in ran:
        run(title, guide)
    assert guide["hits"].lang == "de"
    assert guide["evaluation"].means["AP"] == 1.0
    printed = capsys.readouterr().out
    assert "3 encoded, 0 unchanged, 0 refused\n3 removed\n{'de': 1, 'en': 1, 'it': 1}\n" in printed
    assert re.findall(r"  # (.+)$", "".join(programs("Errors")), re.MULTILINE) == printed.splitlines()[-1:]


def test_the_guide_has_every_error() -> None:
    names = {error.__name__ for error in DragomanError.__subclasses__() if error.__module__ == "dragoman"}
    table = _GUIDE.partition("\n## Errors\n")[2].partition("\n## ")[0]
    assert {*names, "EmptyCollection", "NoDocument"} == set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))


@pytest.mark.filterwarnings("default")
def test_the_retrievers_of_frameworks_find_documents_in_any_language(guide: dict[str, Any], capsys: Capture) -> None:
    run(_FRAMEWORKS, dict(guide))
    found = [line.split()[:2] for line in capsys.readouterr().out.splitlines() if "numbers" not in line]
    assert sorted(found) == [["elbe", "de"]] * 3 + [["po", "it"]] * 3
