"""The command, as a user types it: results on stdout, all else on stderr, an exit status that tells."""

import io
import json
import re
import shutil
import subprocess
import sys
from contextlib import redirect_stderr
from pathlib import Path
from unittest.mock import Mock

import click
import pytest

from encoders.errors import StoreError
from encoders.folder.model_cache import model_cache
from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from indexer.index_sources import collection_lock
from indexer.ledger.database import open_database
from indexer.stores.collection_names import NoCollection
from query.calibration import calibration_table
from query.calibration_fitting import recalibration
from query.cli import _SECTIONS, root, run
from query.commands.options.option_types import COLLECTION, Address
from tests.conftest import fallen
from tests.encoders.gpus import Library, install_cards, install_provider
from tests.query.conftest import Command, copied
from trials import DEMO, ROOT
from trials.command_attacks import NOT_FINITE, NUMBERS, not_finite, options
from trials.input_attacks import NAMES, odd_name
from trials.servers.shared import once

_COMMANDS = [command for lines in _SECTIONS.values() for command in lines]
ENGLISH, TURKISH, REDIS = str(DEMO / "docs.en.jsonl"), str(DEMO / "docs.tr.jsonl"), "redis://127.0.0.1:1"
TOPICS, QRELS = str(DEMO / "topics.tsv"), str(DEMO / "qrels.txt")
NEW, SEARCH, CALIBRATE = ["index", ENGLISH, "-c", "new"], ["search", "x", "-c", "mini"], ["calibrate", "-c", "mini"]
EVALUATE = ["evaluate", "--topics", TOPICS, "--qrels", QRELS]
STOPPED = Mock(side_effect=KeyboardInterrupt)


@pytest.fixture
def empty(settings: Settings, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys, "--home", str(settings.home))


@pytest.fixture(scope="session")
def mini_home(tmp_path_factory: pytest.TempPathFactory, default_folder: object) -> Path:
    def make(folder: Path) -> Path:
        sources = [str(DEMO / "docs.de.jsonl"), str(DEMO / "docs.ja.jsonl")]
        assert run(["index", *sources, "-c", "mini", "--home", str(folder), "-q"]) == 0
        return folder

    return copied(once("mini", make), tmp_path_factory.mktemp("cli")).home


@pytest.fixture
def mini(mini_home: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys, "--home", str(mini_home))


@pytest.fixture
def by_words(word_model: ModelFolder) -> list[str]:
    """Options of an index run that takes milliseconds."""
    return ["-c", "c", "--encoder", str(word_model.path), "--no-calibration", "-q"]


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)


def test_help_lists_every_command_and_imports_nothing_heavy(dragoman: Command) -> None:
    done = python(
        "import sys\nfrom query.cli import run\nstatus = run(['--help', '--all'])\n"
        "named = {'torch', 'onnxruntime', 'onnx', 'elasticsearch', 'celery', 'numpy', 'sqlalchemy', 'rich'}\n"
        "heavy = named & set(sys.modules)\n"
        "sys.exit(status or (f'imported {heavy}' if heavy else 0))"
    )
    assert done.returncode == 0, done.stderr
    for command in _COMMANDS:
        assert f"\n  {command} " in done.stdout
        assert f"dragoman {command}" in dragoman(command, "--help")


def test_status_of_an_embedded_collection_loads_no_sqlalchemy_and_no_numpy_unless_it_is_used(mini_home: Path) -> None:
    done = python(
        "import atexit, sys\nfrom dragoman.command import main\n"
        "atexit.register(lambda: print({'numpy._core','sqlalchemy'} & {*sys.modules}, sys.modules['numpy'].zeros(2)))\n"
        f"sys.argv[1:] = ['status', '--home', {str(mini_home)!r}]\nmain()"
    )
    assert done.stdout.splitlines()[-1] == "set() [0. 0.]", done.stderr


def test_a_second_interruption_during_the_clean_up_shows_no_traceback(mini_home: Path) -> None:
    done = python(
        "import signal, sqlite3, sys\nfrom query import cli\nfrom indexer.ledger import plain_rows\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def interrupt(*_): signal.raise_signal(signal.SIGINT)\n"
        "class Connection(sqlite3.Connection): close = interrupt\n"
        "class Deleted: __del__ = interrupt\n"
        "connect = sqlite3.connect\n"
        "sqlite3.connect = lambda *args, **options: connect(*args, **options, factory=Connection)\n"
        "def read(*_, **__): deleted = Deleted(); interrupt()\n"
        "plain_rows._rows = read\n"
        f"sys.argv = ['dragoman', 'status', '--home', {str(mini_home)!r}]\ncli.main()"
    )
    assert (done.returncode, done.stderr.split()) == (130, ["interrupted"])


def test_commands_stand_in_groups_common_options_after_a_commands_own_and_lines_are_whole(dragoman: Command) -> None:
    assert re.findall(r"^(\w+):$", dragoman("--help"), re.MULTILINE) == ["Options", "Everyday"]
    assert re.findall(r"^(\w+):$", dragoman("--help", "--all"), re.MULTILINE) == ["Options", *_SECTIONS]
    brief = dragoman("--help") + dragoman("search", "--help") + dragoman("status", "--help")
    assert not re.search("calibrat|encoder|hybrid|rerank|mate", brief)
    own, _, common = dragoman("search", "--all", "--help").partition("\nCommon options:\n")
    named = re.findall(r"^  (?:-\w, )?--(\w+)", common, re.MULTILINE)
    assert named == ["home", "store", "database", "json", "quiet", "debug", "help"]
    assert "-k, --limit" in own
    assert "--home" not in own
    for group in ("encoders", "runs", "db", "train"):
        commands = dragoman(group, "--help").partition("\nCommands:\n")[2].rstrip()
        assert "..." not in commands
        assert re.fullmatch(r"(?:  \S+ [^.]*(?:\.\w|[^.])*\.\n?)+", commands), commands


def test_commands_with_a_broker_are_those_of_workers_and_each_collections_name_is_looked_at() -> None:
    takers = {name.split()[0] for name, option in options(root) if "--broker" in option.opts}
    assert takers == {"index", "migrate", "resume", "worker"}
    named = [(name, option) for name, option in options(root) if "--collection" in option.opts]
    assert len(named) >= 20
    assert {name: option.type for name, option in named if option.type is not COLLECTION} == {}


def test_the_command_page_is_what_help_says() -> None:
    done = python("import sys; sys.path[:0] = ['docs', '.']; import cli_page; print(cli_page.page(), end='')")
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == done.stdout, "docs/cli.md is old; run: make docs"


def test_search_prints_hits_and_says_the_language_and_with_json_nothing_else(
    mini: Command, mini_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = mini("search", "Was hilft gegen Schimmel an der Wand?", "-c", "mini", "-k", "2")
    assert "query language: de (detected" in mini.err
    assert "longer" not in mini.err
    assert re.match(r"  1  \d\.\d{3}  de ", out)
    assert "[demo:de:mould]" in out
    assert "\x1b[" not in out
    nothing = mini("search", "Brot", "-c", "mini", "--filter", "label=none")
    assert "nothing found: no document passes the filter" in nothing
    mini("search", "Schimmel " * 600 + "Ende", "-c", "mini")
    assert "longer than the encoder reads; what comes from '" in mini.err
    for own in (mini_home / "store", (mini_home / "store").as_uri()):
        mini("search", "Brot", "-c", "mini", "--store", own)
        assert "lives in" not in mini.err
    monkeypatch.setenv("DRAGOMAN_COLLECTION", "mini")
    answer = mini.one("search", "部屋の壁にカビが生える原因", "-k", "3", "--to", "de")
    assert (answer["collection"], answer["lang"]) == ("mini", "ja")
    assert [hit["lang"] for hit in answer["hits"]] == ["de"] * 3
    (mould,) = (hit for hit in answer["hits"] if hit["id"] == "demo:de:mould")
    assert (mould["fields"]["concept"], set(mould["passage"])) == ("mould", {"text", "start", "end", "cosine"})


def test_status_says_how_to_begin(mini: Command, empty: Command, dragoman: Command, tmp_path: Path) -> None:
    assert "mini: 48 documents, languages: 2" in mini("status")
    assert "nothing is indexed yet; begin with: dragoman demo" in empty("status")
    (file := tmp_path / "file").touch()
    assert "is a file, not a folder; name another with --home" in dragoman("status", "--home", file, status=1)


def test_delete_removes_documents_then_the_collection(empty: Command, by_words: list[str], settings: Settings) -> None:
    empty("index", TURKISH, *by_words)
    assert "1 of 1 document deleted" in empty("delete", "demo:tr:chess", "-c", "c")
    empty("delete", "demo:tr:chess", "-c", "c", status=1)
    empty("delete", "-c", "c", status=2)
    with open_database(settings.database) as engine, collection_lock("c", engine):
        assert "another process is indexing collection c" in empty("delete", "--all", "-y", "-c", "c", status=1)
    assert "c is gone, with everything that belonged to it" in empty("delete", "--all", "-y", "-c", "c")
    empty("search", "x", "-c", "c", status=1)
    assert list((settings.home / "store").iterdir()) == []


def test_of_a_first_index_run_that_fails_nothing_is_left(
    empty: Command, by_words: list[str], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        with monkeypatch.context() as patch:
            patch.setattr("indexer.indexing.pipeline.read_chunks", Mock(side_effect=StoreError("the source is away")))
            assert "the source is away" in empty("index", TURKISH, *by_words, status=1)

    fail()
    assert empty.json("status") == []
    assert list((settings.home / "store").iterdir()) == []
    empty("index", TURKISH, *by_words)
    fail()
    assert [one["documents"] for one in empty.json("status")] == [23]


def test_delete_all_that_is_killed_in_its_midst_is_completed_by_the_same_command(
    empty: Command, by_words: list[str], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty("index", TURKISH, *by_words)
    empty("calibrate", "--balance", "0.5", "-c", "c")
    with monkeypatch.context() as patch:
        patch.setattr(calibration_table, "forget", STOPPED)
        empty("delete", "--all", "-y", "-c", "c", status=130)
    empty("delete", "--all", "-y", "-c", "c")
    with open_database(settings.database) as engine:
        assert calibration_table.all_calibrations(engine, "c") == []


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["search", "", "-c", "mini"], 1, "the query is empty"),
        ([*SEARCH, "--to", "fi"], 1, "no documents in 'fi'; it has de, ja"),
        ([*SEARCH, "--to", ""], 1, "no language of documents is named; mini has de, ja"),
        ([*SEARCH, "--to", "de,deutsch"], 1, "'deutsch' is no language code"),
        ([*SEARCH, "--calibration", "none", "--balance", "1"], 1, "balance"),
        ([*EVALUATE, "-c", "mini", "--to", ","], 1, "',' names no language"),
        (["runs", "list", "-c", "nope"], 1, "there is no collection 'nope' (there are: mini)"),
        ([*SEARCH, "--store", "elsewhere"], 1, "leave --store out"),
        (["index", ENGLISH, "-c", "mini", "--store", "elsewhere"], 1, "collection mini lives in"),
        ([*SEARCH, "--filter", "label"], 2, "--filter takes FIELD=VALUE"),
        ([*SEARCH, "--filter", "label>=a", "--filter", "label=b"], 2, "is a value and a range of label"),
        (["search", "x", "--to", "xx"], 1, "'xx' is no language code"),
        ([*SEARCH, "--prefer", "de,xx"], 1, "'xx' is no language code"),
        ([*SEARCH, "--lang", "mul"], 1, "'mul' is no language code"),
        (["search", "flood", "storm", "-c", "mini"], 2, 'put the query in quotes: "flood storm"'),
        (["index", "nowhere.jsonl", "-c", "new"], 1, "nowhere.jsonl does not exist"),
        (["index", ENGLISH, "-c", "../x"], 1, "can't be named '../x'"),
        ([*NEW, "--encoder", "bert-base"], 1, "there is no encoder 'bert-base'"),
        (["index", ENGLISH, "-c", "mini", "--method", "first"], 1, "collection mini holds vectors of"),
        ([*NEW, "--field", "text"], 2, "--field takes OURS=THEIRS"),
        ([*NEW, "--broker", "kafka:x"], 1, "give amqp://USER@HOST (RabbitMQ) or redis://HOST"),
        (["index", ENGLISH, "-c", "mini", "--broker", REDIS], 1, "the broker redis://127.0.0.1:1 can't be reached"),
        (["worker"], 1, "a worker needs a broker"),
        (["worker", "--broker", REDIS, "--device", "cuda"], 1, "CUDA was asked for"),
        (["pause", "-c", "mini"], 1, "no run of workers is open for collection mini"),
        (["pause", "-c", "mini", "--broker", REDIS], 2, "No such option '--broker'"),
        (["status", "--watch"], 2, "--watch looks at one collection"),
        (["status", "--store", "ftp://x", "-c", "mini"], 0, ""),
        ([*NEW, "--store", "ftp://x"], 1, "no store for such ftp: URLs"),
        ([*NEW, "--store", "file://x"], 1, "no store for such file: URLs; give a folder, file:///FOLDER"),
        (["status", "--database", "nonsense"], 1, "the database's URL can't be read"),
        (["status", "--database", "postgresql://127.0.0.1:1/x"], 1, "can't be opened: connection failed"),
        (["status", "--database", "postgresql+pg8000://127.0.0.1:1/x"], 1, "needs a driver that is not installed"),
        (["search", "\udcff", "-c", "mini"], 1, "the query is not UTF-8"),
        ([*SEARCH, "--lang", "a" * 5_000], 1, "is no language code"),
        ([*SEARCH, "-k", "9" * 5_000], 2, "is not a valid integer"),
        (["serve", "-c", "mini", "--elastic", "http://[::1"], 1, "the server's URL can't be read"),
        (["serve", "-c", "mini", "--elastic", "http://127.0.0.1:x"], 1, "the port in the server's URL is no number"),
        (["serve", "-c", "mini", "--elastic", "ftp://127.0.0.1"], 1, "is no Elasticsearch server"),
        (["serch"], 2, "there is no command 'serch', did you mean 'search'?"),
        (["train", "hdme"], 2, "there is no command 'hdme', did you mean 'hmde'?"),
        (["search", "x", "-c", "minni"], 1, "no collection 'minni', did you mean 'mini'? (there are: mini); make it"),
        ([*NEW, "--encoder", "multilingual-e5-smal"], 1, "-smal', did you mean 'multilingual-e5-small'?"),
        ([*SEARCH, "--filter", "lable=x"], 1, "'lable', did you mean 'label'? (the fields: concept, label)"),
        ([*CALIBRATE, "--use", "none", "--balance", "1"], 2, "--use makes no calibration; leave --balance"),
        (["attach", "-c", "mini", "--lang-field", "l", "--companion"], 2, "leave --lang-field, --companion out"),
        (["mates", "--plot", "/nowhere/m.png", "x", "y"], 1, "there is no folder /nowhere"),
        (["index", "", "-c", "new"], 2, "the value is empty; is a variable not set?"),
        (["mates", "x", "--languages", ","], 1, "no language"),
        (["mates", "x", "--dimensions", ","], 2, "no list of whole numbers"),
        (["mates", "x", "--methods", ","], 2, "no method"),
        (["delete", "--all", "-c", "mini"], 1, "nobody can be asked whether mini with its documents may go"),
    ],
)
def test_what_is_refused_is_one_sentence_and_a_status(
    arguments: list[str], status: int, sentence: str, mini: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = Mock(side_effect=AssertionError("an encoder was loaded"))
    monkeypatch.setattr("indexer.workers.hints._CONNECT_RETRIES", 0)
    for module in ("indexer.index_sources", "indexer.collection.encoder", "query.ranking.query_encoder"):
        if arguments[0] in {"search", "evaluate", "calibrate"} or "nowhere.jsonl" in arguments:
            monkeypatch.setattr(f"{module}.open_named", load)
    mini(*arguments, status=status)
    assert sentence in mini.err
    assert "Traceback" not in mini.err
    assert len(mini.err) < 2_000
    assert status != 1 or len(mini.err.strip().splitlines()) == 1
    assert [one["collection"] for one in mini.json("status")] == ["mini"]


def test_a_collection_stays_where_the_answer_is_no(mini: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = io.StringIO("n\n")
    monkeypatch.setattr(answers, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", answers)
    mini("delete", "--all", "-c", "mini", status=1)
    assert mini.err.startswith("Remove mini with its documents, runs and evaluations? [y/N]")
    assert "nothing was removed" in mini.err
    assert "interrupted" not in mini.err
    mini("status", "-c", "mini")


def test_refusals_are_listed_until_their_files_are_read_well(
    tmp_path: Path, empty: Command, by_words: list[str]
) -> None:
    folder = tmp_path / "docs"
    good, again, broken = tmp_path / "good.jsonl", tmp_path / "again.jsonl", folder / "broken.jsonl"
    folder.mkdir()
    for file in (good, again):
        file.write_text(json.dumps({"id": file.stem, "lang": "tr", "text": "satranç ve ekmek"}) + "\n")
    for file in (broken, folder / "rest.jsonl"):
        file.write_text("{oops\n")
    (folder / "a.jsonl").write_text('{"id": "typed", "text": 7}\n')

    def refused_after(*sources: Path) -> list[str]:
        empty("index", *sources, *by_words)
        return [Path(finding["place"]).name for finding in empty.one("status", "-c", "c")["refused"]]

    said = empty("index", folder, *by_words, status=1)
    assert "nothing of the sources could be indexed; see why: dragoman status -c c" in said
    counted = empty("index", good, folder, *by_words[:-1])
    assert [said in counted for said in ("1 encoded", "3 refused")] == [True, True]
    assert "a.jsonl:1: its text is a number" in empty.err
    shown = empty("status", "-c", "c")
    assert all(said in shown for said in ("3 refused", "broken.jsonl:1 and 1 other: ", "a.jsonl:1:"))
    assert refused_after(good, folder) == ["a.jsonl:1", "broken.jsonl:1", "rest.jsonl:1"]
    broken.write_bytes(again.read_bytes())
    assert refused_after(broken) == ["a.jsonl:1", "rest.jsonl:1"]
    again.write_text('{"id": "typed", "lang": "tr", "text": "ekmek ve su"}\n')
    assert refused_after(again) == ["rest.jsonl:1"]


def test_encoders_are_listed_and_shown_and_a_broken_folder_in_the_cache_hides_none(
    tmp_path: Path, default_folder: ModelFolder, monkeypatch: pytest.MonkeyPatch, dragoman: Command
) -> None:
    assert re.search(r"multilingual-e5-small\S* \(default\)", dragoman("encoders"))
    assert [one["name"] for one in dragoman.json("encoders", "list") if one["default"]] == ["multilingual-e5-small"]
    shown = {"dim": 384, "method": "windows", "model": "45cb0a0282965de0"}
    assert dragoman.one("encoders", "show", "multilingual-e5-small").items() >= shown.items()
    assert "dragoman export nothing" in dragoman("encoders", "show", "nothing", status=1)
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path))
    shutil.copytree(default_folder.path, model_cache() / "another")
    assert "default: multilingual-e5-small, made when it is first used" in dragoman("encoders", "list")
    (model_cache() / "another").rename(model_cache() / default_folder.path.name)
    (model_cache() / "broken").mkdir()
    (model_cache() / "broken/config.json").write_text("{")
    assert [one["name"] for one in dragoman.json("encoders", "list")] == ["multilingual-e5-small"]


def test_a_new_language_is_calibrated_although_the_command_was_stopped_while_it_was(
    empty: Command, tmp_path: Path, by_words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "nl.jsonl"
    texts = ["Schaken is een bordspel voor twee spelers.", "De dijk beschermt het land tegen het water."]
    source.write_text("".join(json.dumps({"id": text, "lang": "nl", "text": text}) + "\n" for text in texts))
    empty("index", TURKISH, str(DEMO / "docs.de.jsonl"), *by_words)
    assert " across 2 languages: " in empty("index", TURKISH, "-c", "c")
    command = ["index", str(source), "-c", "c"]
    with monkeypatch.context() as patched:
        patched.setattr(recalibration, "keep_calibrated", STOPPED)
        empty(*command, status=130)
    assert "Give the same command again" in empty.err
    assert " across 3 languages: " in empty(*command)
    empty(*command)
    assert "calibration" not in empty.err


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_no_collection_can_have_is_refused_before_anything_is_made(name: str, tmp_path: Path) -> None:
    assert fallen(odd_name(name, tmp_path)) == []


@pytest.mark.parametrize("name", ["n" * 300, "\udcff"])
def test_a_name_that_no_file_can_have_is_a_sentence(
    name: str, tmp_path: Path, small: ModelFolder, monkeypatch: pytest.MonkeyPatch, dragoman: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    home, evaluate = ["--home", str(tmp_path / "home")], [*EVALUATE, "-c", "c"]
    for command in (
        ["status", "-c", "c", "--home", str(tmp_path / "homes" / name)],
        ["status", "-c", "c", "--database", f"sqlite:///{tmp_path}/homes/{name}.db", *home],
        ["index", name, "-c", "c", "--encoder", str(small.path), *home],
        ["index", ENGLISH, "-c", "c", "--encoder", name, *home],
        ["evaluate", "-c", "c", "--topics", name, "--qrels", QRELS, *home],
        ["evaluate", "-c", "c", "--topics", TOPICS, "--qrels", name, *home],
        [*evaluate, "--compare", name, *home],
        [*evaluate, "--run-file", str(tmp_path / name), *home],
        ["calibrate", "-c", "c", "--map", name, *home],
        ["encoders", "show", name],
    ):
        dragoman(*command, status=1)
        assert dragoman.err.splitlines()[-1].startswith("Error: "), command
        assert "Traceback" not in dragoman.err


def test_an_error_of_the_program_and_debug_hide_nothing(empty: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoCollection):
        empty("search", "x", "-c", "none", "--debug")
    monkeypatch.setattr(root, "main", Mock(side_effect=OSError("no file")))
    with pytest.raises(OSError, match="no file"):
        run(["status"])


EMPTY_MEANS_A_DEFAULT = {
    "--collection", "--encoder", "--home", "--store", "--database", "--broker", "--output", "--tokens", "--topics",
    "--qrels", "--plot", "--use", "--compare", "--against", "--lang", "--encoding", "sources",
}  # fmt: skip
"""Options and arguments; without a value most have a default."""


@pytest.mark.parametrize("value", NOT_FINITE)
def test_no_option_takes_a_number_that_is_not_finite(value: str) -> None:
    assert {"search --balance", "train tlaser --dropout"} <= NUMBERS.keys()
    assert fallen(not_finite(name, value) for name in NUMBERS) == []


def test_seconds_are_bounded_by_what_a_clock_can_add() -> None:
    for name in ("worker --lease", "attach --every"):
        with pytest.raises(click.BadParameter, match="31536000"):
            NUMBERS[name].convert("1e12", None, None)


def test_an_address_has_a_port_and_is_of_this_machine_alone_unless_another_is_given() -> None:
    for text, address in {
        "9108": ("127.0.0.1", 9108),
        ":9108": ("127.0.0.1", 9108),
        "0.0.0.0:9108": ("0.0.0.0", 9108),  # noqa: S104 - a value, nothing listens
        "[::1]:9108": ("::1", 9108),
        "host.example:1": ("host.example", 1),
    }.items():
        assert Address().convert(text, None, None) == address
    for text in ("", "0", "65536", "host", "host:", "host:x", "-1"):
        with pytest.raises(click.BadParameter):
            Address().convert(text, None, None)


def refuses_emptiness(typed: str, one: click.Parameter) -> bool:
    """Whether an option or argument refuses the empty value."""
    words, shown = [word for word in typed.split() if word not in one.opts], io.StringIO()
    with redirect_stderr(shown):
        status = run([*words, *(one.opts[-1:] if isinstance(one, click.Option) else ()), ""])
    return status == 2 and "the value is empty; is a variable not set?" in shown.getvalue()


def test_an_empty_value_is_refused_as_it_would_mean_a_default() -> None:
    named = [(typed, one) for typed, one in options(root) if EMPTY_MEANS_A_DEFAULT.intersection(one.opts)]
    assert {name for _, one in named for name in one.opts} >= EMPTY_MEANS_A_DEFAULT
    assert [typed for typed, one in named if not refuses_emptiness(typed, one)] == []


@pytest.mark.parametrize(
    "command",
    [
        f"index {DEMO / 'docs.de.jsonl'} -c other --encoder {{words}} --no-calibration",
        "search bees -c demo",
        "calibrate -c demo",
        f"evaluate -c demo --topics {TOPICS} --qrels {QRELS} --baseline none",
        "migrate -c demo --encoder {words} --method first --anyway",
    ],
)
@pytest.mark.usefixtures("home")
def test_a_command_says_where_it_works(
    command: str, word_model: ModelFolder, dragoman: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*command.format(words=word_model.path).split(), "--device", "cuda"]
    assert "Error: CUDA was asked for, but this ONNX Runtime has no CUDA; install it: " in dragoman(*words, status=1)
    install_cards(monkeypatch, Library(["H100"]))
    install_provider(monkeypatch)
    assert "libcudnn" not in dragoman(*words)
    assert "words works on the H100, in fp32: 80.0 GB free" in dragoman.err
