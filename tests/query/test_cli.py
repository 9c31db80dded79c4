"""The command, as a user types it: results on stdout, all else on stderr, an exit status that tells."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from encoders.errors import StoreError
from encoders.folder.model_cache import model_cache
from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from indexer.index_sources import collection_lock
from indexer.ledger.database import open_database
from query.calibration import calibration_table
from query.calibration_fitting import recalibration
from query.cli import _SECTIONS, root, run
from query.commands.options.option_types import COLLECTION
from tests.conftest import fallen
from tests.query.conftest import copied
from trials import DEMO, ROOT
from trials.command_attacks import options
from trials.input_attacks import NAMES, odd_name
from trials.servers.shared import once

_COMMANDS = [command for lines in _SECTIONS.values() for command in lines]
ENGLISH, REDIS = str(DEMO / "docs.en.jsonl"), "redis://127.0.0.1:1"
EVALUATE = ["evaluate", "--topics", str(DEMO / "topics.tsv"), "--qrels", str(DEMO / "qrels.txt")]


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory, default_folder: object) -> Path:
    """A home with two languages of the demo collection in it."""

    def make(folder: Path) -> Path:
        sources = [str(DEMO / "docs.de.jsonl"), str(DEMO / "docs.ja.jsonl")]
        assert run(["index", *sources, "-c", "mini", "--home", str(folder), "-q"]) == 0
        return folder

    return copied(once("mini", make), tmp_path_factory.mktemp("cli")).home


def test_help_lists_every_command_and_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom query.cli import run\nstatus = run(['--help'])\n"
        "named = {'torch', 'onnxruntime', 'onnx', 'elasticsearch', 'celery', 'numpy', 'sqlalchemy', 'rich'}\n"
        "heavy = named & set(sys.modules)\n"
        "sys.exit(status or (f'imported {heavy}' if heavy else 0))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for command in _COMMANDS:
        assert f"\n  {command} " in done.stdout


def test_a_second_interruption_during_the_clean_up_shows_no_traceback(home: Path) -> None:
    code = (
        "import signal, sqlite3, sys\nfrom query import cli\nfrom query.commands import status\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def interrupt(*_): signal.raise_signal(signal.SIGINT)\n"
        "class Connection(sqlite3.Connection): close = interrupt\n"
        "class Deleted: __del__ = interrupt\n"
        "connect = sqlite3.connect\n"
        "sqlite3.connect = lambda *args, **options: connect(*args, **options, factory=Connection)\n"
        "def describe(*_): deleted = Deleted(); interrupt()\n"
        "status.describe = describe\n"
        f"sys.argv = ['dragoman', 'status', '--home', {str(home)!r}]\ncli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.split()) == (130, ["interrupted"])


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for command in _COMMANDS:
        assert run([command, "--help"]) == 0
        assert f"dragoman {command}" in capsys.readouterr().out


def test_commands_stand_in_groups_and_common_options_after_a_commands_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    assert re.findall(r"^(\w+):$", capsys.readouterr().out, re.MULTILINE) == ["Options", *_SECTIONS]
    assert run(["search", "--help"]) == 0
    own, _, common = capsys.readouterr().out.partition("\nCommon options:\n")
    assert re.findall(r"^  (?:-\w, )?(--\w+)", common, re.MULTILINE) == [
        "--home", "--store", "--database", "--json", "--quiet", "--debug", "--help",
    ]  # fmt: skip
    assert "-k, --limit" in own
    assert "--home" not in own


def test_only_commands_whose_work_workers_may_do_take_a_broker() -> None:
    assert {name.split()[0] for name, option in options(root) if "--broker" in option.opts} == {
        "index", "migrate", "resume", "worker",
    }  # fmt: skip


@pytest.mark.parametrize("group", ["encoders", "runs", "db", "train"])
def test_the_lines_of_a_group_are_whole_sentences(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([group, "--help"]) == 0
    commands = capsys.readouterr().out.partition("\nCommands:\n")[2].rstrip()
    assert "..." not in commands
    assert re.fullmatch(r"(?:  \S+ [^.]*(?:\.\w|[^.])*\.\n?)+", commands), commands


def test_the_command_page_is_what_help_says() -> None:
    code = "import sys; sys.path[:0] = ['docs', '.']; import cli_page; print(cli_page.page(), end='')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == done.stdout, "docs/cli.md is old; run: make docs"


def test_search_prints_hits_and_says_the_language(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["search", "Was hilft gegen Schimmel an der Wand?", "-c", "mini", "-k", "2", "--home", str(home)]) == 0
    captured = capsys.readouterr()
    assert "query language: de (detected" in captured.err
    assert re.match(r"  1  \d\.\d{3}  de ", captured.out)
    assert "[demo:de:mould]" in captured.out
    assert "\x1b[" not in captured.out


def test_the_collection_may_be_named_by_the_environment(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DRAGOMAN_COLLECTION", "mini")
    assert run(["search", "Schimmel", "--home", str(home), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["collection"] == "mini"


def test_json_is_all_there_is_on_stdout(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["-c", "mini", "--home", str(home)]
    assert run(["search", "部屋の壁にカビが生える原因", "-k", "3", "--to", "de", "--json", *place]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["lang"] == "ja"
    assert [hit["lang"] for hit in answer["hits"]] == ["de"] * 3
    (mould,) = (hit for hit in answer["hits"] if hit["id"] == "demo:de:mould")
    assert mould["fields"]["concept"] == "mould"
    assert set(mould["passage"]) == {"text", "start", "end", "cosine"}


def test_a_filter_that_nothing_passes_is_an_answer_not_an_error(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["search", "Brot", "-c", "mini", "--filter", "label=none", "--home", str(home)]) == 0
    assert "nothing found: no document passes the filter" in capsys.readouterr().out


def test_status_shows_collections_and_in_an_empty_home_how_to_begin(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["status", "--home", str(home)]) == 0
    assert "mini: 48 documents, languages: 2" in capsys.readouterr().out
    assert run(["status", "--home", str(tmp_path)]) == 0
    assert "nothing is indexed yet; begin with: dragoman demo" in capsys.readouterr().out


def test_refusals_are_listed_by_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], default_folder: object
) -> None:
    source = tmp_path / "docs.jsonl"
    source.write_text('{"id": "a", "lang": "en", "text": "rivers"}\n{oops\n{"id": "b", "text": 7}\n')
    place = ["--home", str(tmp_path / "home")]
    assert run(["index", str(source), "-c", "c", *place]) == 0
    captured = capsys.readouterr()
    assert "1 encoded" in captured.out
    assert "2 refused" in captured.out
    assert "docs.jsonl:2:" in captured.err
    assert run(["status", "-c", "c", *place]) == 0
    shown = capsys.readouterr().out
    assert "2 refused" in shown
    assert "docs.jsonl:2:" in shown
    assert "docs.jsonl:3:" in shown
    assert run(["status", "-c", "c", "--json", *place]) == 0
    described = json.loads(capsys.readouterr().out)
    assert [len(described["refused"]), described["documents"]] == [2, 1]


def test_delete_removes_documents_then_the_collection(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], word_model: ModelFolder
) -> None:
    place, encoder = ["--home", str(tmp_path)], str(word_model.path)
    assert run(["index", str(DEMO / "docs.tr.jsonl"), "-c", "c", "--encoder", encoder, "-q", *place]) == 0
    assert run(["delete", "demo:tr:chess", "-c", "c", *place]) == 0
    assert "1 of 1 document deleted" in capsys.readouterr().out
    assert run(["delete", "demo:tr:chess", "-c", "c", *place]) == 1
    assert run(["delete", "-c", "c", *place]) == 2
    settings = Settings.read(home=tmp_path)
    with open_database(settings.database) as engine, collection_lock("c", engine):
        assert run(["delete", "--all", "-y", "-c", "c", *place]) == 1
    assert "another process is indexing collection c" in capsys.readouterr().err
    assert run(["delete", "--all", "-y", "-c", "c", *place]) == 0
    assert "c is gone, with everything that belonged to it" in capsys.readouterr().out
    assert run(["search", "x", "-c", "c", *place]) == 1
    assert list((tmp_path / "store").iterdir()) == []


def test_of_a_first_index_run_that_fails_nothing_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], word_model: ModelFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = ["--home", str(tmp_path)]
    arguments = ["index", str(DEMO / "docs.tr.jsonl"), "-c", "c", "--encoder", str(word_model.path), "-q", *place]

    def fail(*_: object, **__: object) -> None:
        raise StoreError("the source is away")

    with monkeypatch.context() as patch:
        patch.setattr("indexer.indexing.pipeline.read_chunks", fail)
        assert run(arguments) == 1
        assert "the source is away" in capsys.readouterr().err
    assert run(["status", "--json", *place]) == 0
    assert capsys.readouterr().out == ""
    assert list((tmp_path / "store").iterdir()) == []
    assert run([*arguments, "--no-calibration"]) == 0
    with monkeypatch.context() as patch:
        patch.setattr("indexer.indexing.pipeline.read_chunks", fail)
        assert run(arguments) == 1
    assert run(["status", "--json", *place]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["documents"] == 23


def test_delete_all_that_is_killed_in_its_midst_is_completed_by_the_same_command(
    tmp_path: Path, word_model: ModelFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = ["-c", "c", "--home", str(tmp_path), "-q"]
    source, encoder = str(DEMO / "docs.tr.jsonl"), str(word_model.path)
    assert run(["index", source, "--encoder", encoder, "--no-calibration", *place]) == 0
    assert run(["calibrate", "--balance", "0.5", *place]) == 0

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(calibration_table, "forget", killed)
        assert run(["delete", "--all", "-y", *place]) == 130
    assert run(["delete", "--all", "-y", *place]) == 0
    with open_database(Settings.read(home=tmp_path).database) as engine:
        assert calibration_table.all_calibrations(engine, "c") == []


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["search", "x", "-c", "none"], 1, "there is no collection 'none'"),
        (["search", "", "-c", "mini"], 1, "the query is empty"),
        (["search", "x", "-c", "mini", "--to", "fi"], 1, "no documents in 'fi'"),
        (["search", "x", "-c", "mini", "--to", ""], 1, "no language of documents is named; mini has de, ja"),
        ([*EVALUATE, "-c", "mini", "--to", ","], 1, "',' names no language"),
        ([*EVALUATE, "-c", "mini", "--measures", ""], 1, "no measure is named"),
        (["runs", "list", "-c", "nope"], 1, "there is no collection 'nope' (there are: mini)"),
        (["search", "x", "-c", "mini", "--store", "elsewhere"], 1, "leave --store out"),
        (["index", ENGLISH, "-c", "mini", "--store", "elsewhere"], 1, "collection mini lives in"),
        (["calibrate", "-c", "mini", "--store", "elsewhere"], 1, "collection mini lives in"),
        (["report", "-c", "mini", "--store", "elsewhere"], 1, "collection mini lives in"),
        (["delete", "--all", "-y", "-c", "mini", "--store", "elsewhere"], 1, "collection mini lives in"),
        (["search", "x", "-c", "mini", "--lang", "german"], 1, "'german' is no language code"),
        (["search", "x", "-c", "mini", "--filter", "label"], 2, "--filter takes FIELD=VALUE"),
        (["search", "x", "-c", "mini", "-k", "0"], 2, "0 is not in the range"),
        (["search", "x"], 2, "Missing option '-c'"),
        (["index", "nowhere.jsonl", "-c", "new"], 1, "nowhere.jsonl does not exist"),
        (["index", ENGLISH, "-c", "../x"], 1, "can't be named '../x'"),
        (["index", ENGLISH, "-c", "new", "--encoder", "bert-base"], 1, "there is no encoder 'bert-base'"),
        (["index", ENGLISH, "-c", "mini", "--method", "first"], 1, "collection mini holds vectors of"),
        (["index", ENGLISH, "-c", "new", "--field", "text"], 2, "--field takes OURS=THEIRS"),
        (
            ["index", ENGLISH, "-c", "new", "--broker", "kafka://x"],
            1,
            "give amqp://USER@HOST (RabbitMQ) or redis://HOST",
        ),
        (["index", ENGLISH, "-c", "mini", "--broker", REDIS], 1, "the broker redis://127.0.0.1:1 can't be reached"),
        (["worker"], 1, "a worker needs a broker"),
        (["worker", "--broker", REDIS, "-c", "nope"], 1, "there is no collection 'nope'"),
        (["worker", "--broker", REDIS, "--device", "cuda"], 1, "CUDA was asked for"),
        (["pause", "-c", "mini"], 1, "no run of workers is open for collection mini"),
        (["status", "--watch"], 2, "--watch looks at one collection"),
        (["status", "--store", "ftp://x", "-c", "mini"], 0, ""),
        (["index", ENGLISH, "-c", "new", "--store", "ftp://x"], 1, "no store for ftp: URLs"),
        (["status", "--database", "nonsense"], 1, "the database's URL can't be read"),
        (["status", "--database", "postgresql://127.0.0.1:1/x"], 1, "can't be opened: connection failed"),
        (["status", "--database", "postgresql+pg8000://127.0.0.1:1/x"], 1, "needs a driver that is not installed"),
        (["search", "\udcff", "-c", "mini"], 1, "the query is not UTF-8"),
        (["search", "x", "-c", "mini", "--lang", "a" * 5_000], 1, "is no language code"),
        (["search", "x", "-c", "mini", "-k", "9" * 5_000], 2, "is not a valid integer"),
        (["serve", "-c", "mini", "--elastic", "http://[::1"], 1, "the server's URL can't be read"),
        (["serve", "-c", "mini", "--elastic", "http://127.0.0.1:x"], 1, "the port in the server's URL is no number"),
        (["serve", "-c", "mini", "--elastic", "ftp://127.0.0.1"], 1, "is no Elasticsearch server"),
        (["nonsense"], 2, "there is no command 'nonsense'"),
        (["serch"], 2, "there is no command 'serch', did you mean 'search'?"),
        (["train", "hdme"], 2, "there is no command 'hdme', did you mean 'hmde'?"),
        (
            ["search", "x", "-c", "minni"],
            1,
            "there is no collection 'minni', did you mean 'mini'? (there are: mini); make it",
        ),
        (
            ["index", ENGLISH, "-c", "new", "--encoder", "multilingual-e5-smal"],
            1,
            "there is no encoder 'multilingual-e5-smal', did you mean 'multilingual-e5-small'? (known are ",
        ),
        (["search", "x", "-c", "mini", "--to", "xx"], 1, "no documents in 'xx'; it has de, ja"),
        (["search", "x", "-c", "mini", "--to", "de,deutsch"], 1, "'deutsch' is no language code"),
        ([*EVALUATE, "-c", "mini", "--to", "xx"], 1, "no documents in 'xx'"),
        (
            ["search", "x", "-c", "mini", "--filter", "lable=x"],
            1,
            "no document has the field 'lable', did you mean 'label'? (the fields: concept, label)",
        ),
        (["pause", "-c", "mini", "--broker", REDIS], 2, "No such option '--broker'"),
        (["index", ENGLISH, "-c", "new", "--broker", REDIS], 1, "can't be reached"),
        (
            ["calibrate", "-c", "mini", "--use", "none", "--balance", "0.5"],
            2,
            "--use makes no calibration; leave --balance",
        ),
        (["calibrate", "-c", "mini", "--list", "--seed", "1"], 2, "--list makes no calibration; leave --seed out"),
        (["calibrate", "-c", "mini", "--list", "--device", "cpu"], 2, "leave --device out"),
        (["attach", "-c", "mini", "--lang-field", "l", "--companion"], 2, "leave --lang-field, --companion out"),
        (["runs", "compare", "--plot", "diff", "1", "2"], 1, "diff has none of the known endings: .png, .svg, .pdf"),
        (["mates", "--plot", "/nowhere/m.png", "x", "y"], 1, "there is no folder /nowhere"),
        (["delete", "--all", "-c", "mini"], 1, "nobody can be asked whether mini with its documents may go"),
    ],
)
def test_what_is_refused_is_one_sentence_and_a_status(
    arguments: list[str],
    status: int,
    sentence: str,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("indexer.workers.hints._CONNECT_RETRIES", 0)
    home_option = [] if status == 2 and "-c" not in arguments else ["--home", str(home)]
    assert run([*arguments, *home_option]) == status
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert "Traceback" not in captured.err
    assert len(captured.err) < 2_000
    if status == 1:
        assert len(captured.err.strip().splitlines()) == 1
    assert run(["status", "--json", "--home", str(home)]) == 0
    assert [json.loads(line)["collection"] for line in capsys.readouterr().out.splitlines()] == ["mini"]


def test_a_collection_stays_where_the_answer_is_no(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = io.StringIO("n\n")
    monkeypatch.setattr(answers, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", answers)
    assert run(["delete", "--all", "-c", "mini", "--home", str(home)]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("Remove mini with its documents, runs and evaluations? [y/N]")
    assert "nothing was removed" in captured.out + captured.err
    assert "interrupted" not in captured.err
    assert run(["status", "-c", "mini", "--home", str(home)]) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["search", "x", "-c", "none"],
        ["search", "", "-c", "mini"],
        ["search", "x", "-c", "mini", "--to", "xx"],
        ["search", "x", "-c", "mini", "--lang", "german"],
        ["search", "x", "-c", "mini", "--filter", "lable=x"],
        ["search", "x", "-c", "mini", "--calibration", "none", "--balance", "1"],
        [*EVALUATE, "-c", "mini", "--to", "xx"],
        ["index", "nowhere.jsonl", "-c", "new"],
        ["calibrate", "-c", "none"],
    ],
)
def test_what_can_not_be_done_is_refused_before_an_encoder_is_loaded(
    arguments: list[str], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*_: object, **__: object) -> None:
        raise AssertionError("an encoder was loaded")

    for module in ("indexer.index_sources", "indexer.collection.encoder", "query.ranking.query_encoder"):
        monkeypatch.setattr(f"{module}.open_named", load)
    assert run([*arguments, "--home", str(home)]) == 1


def test_refusals_go_when_their_files_are_read_well_whatever_else_was_read_with_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], word_model: ModelFolder
) -> None:
    place, encoder = ["-c", "c", "--home", str(tmp_path / "home")], ["--encoder", str(word_model.path)]
    folder, good, again = tmp_path / "docs", tmp_path / "good.jsonl", tmp_path / "again.jsonl"
    folder.mkdir()
    for file in (good, again):
        file.write_text(json.dumps({"id": file.stem, "lang": "tr", "text": "satranç ve ekmek"}) + "\n")
    (folder / "broken.jsonl").write_text("{oops\n")
    (folder / "typed.jsonl").write_text('{"id": "typed", "text": 7}\n')
    (folder / "rest.jsonl").write_text("{oops\n")

    def refused_after(*sources: Path) -> list[str]:
        assert run(["index", *map(str, sources), *encoder, *place, "-q", "--no-calibration"]) == 0
        capsys.readouterr()
        assert run(["status", *place, "--json"]) == 0
        return sorted(Path(finding["place"]).name for finding in json.loads(capsys.readouterr().out)["refused"])

    assert refused_after(good, folder) == ["broken.jsonl:1", "rest.jsonl:1", "typed.jsonl:1"]
    (folder / "broken.jsonl").write_bytes(again.read_bytes())
    assert refused_after(folder / "broken.jsonl") == ["rest.jsonl:1", "typed.jsonl:1"]
    again.write_text('{"id": "typed", "lang": "tr", "text": "ekmek ve su"}\n')
    assert refused_after(again) == ["rest.jsonl:1"]


def test_debug_shows_where_a_refusal_comes_from(home: Path) -> None:
    command = [sys.executable, "-m", "query.cli", "search", "x", "-c", "none", "--debug"]
    environment = dict(os.environ, DRAGOMAN_HOME=str(home))
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_a_store_that_is_the_collections_own_may_be_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for own in (home / "store", (home / "store").as_uri()):
        assert run(["search", "Brot", "-c", "mini", "--home", str(home), "--store", str(own)]) == 0
    assert "lives in" not in capsys.readouterr().err


def test_a_query_that_is_too_long_is_answered_and_what_is_left_out_is_said(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["search", "Schimmel " * 600 + "Ende", "-c", "mini", "--home", str(home)]) == 0
    assert "longer than the encoder reads; what comes from '" in capsys.readouterr().err
    assert run(["search", "Schimmel", "-c", "mini", "--home", str(home)]) == 0
    assert "longer" not in capsys.readouterr().err


def test_encoders_are_listed_and_shown(capsys: pytest.CaptureFixture[str], default_folder: object) -> None:
    assert run(["encoders"]) == 0
    assert re.search(r"multilingual-e5-small\S* \(default\)", capsys.readouterr().out)
    assert run(["encoders", "list", "--json"]) == 0
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["name"] for one in listed if one["default"]] == ["multilingual-e5-small"]
    assert run(["encoders", "show", "multilingual-e5-small", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["dim"] == 384
    assert run(["encoders", "show", "nothing"]) == 1
    assert "dragoman export nothing" in capsys.readouterr().err


def test_that_the_default_encoder_will_be_made_is_said_beside_other_encoders(
    tmp_path: Path, default_folder: ModelFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path))
    shutil.copytree(default_folder.path, model_cache() / "another")
    assert run(["encoders", "list"]) == 0
    assert "default: multilingual-e5-small, made when it is first used" in capsys.readouterr().out


def test_a_broken_folder_in_the_cache_is_no_encoder_and_hides_none(
    tmp_path: Path, default_folder: ModelFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path))
    shutil.copytree(default_folder.path, model_cache() / default_folder.path.name)
    (model_cache() / "broken").mkdir()
    (model_cache() / "broken/config.json").write_text("{")
    assert run(["encoders", "list", "--json"]) == 0
    assert [json.loads(line)["name"] for line in capsys.readouterr().out.splitlines()] == ["multilingual-e5-small"]


def test_a_new_language_is_calibrated_although_the_command_was_stopped_while_it_was(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(home, tmp_path / "home")
    source = tmp_path / "nl.jsonl"
    texts = ["Schaken is een bordspel voor twee spelers.", "De dijk beschermt het land tegen het water."]
    source.write_text("".join(json.dumps({"id": text, "lang": "nl", "text": text}) + "\n" for text in texts))
    command = ["index", str(source), "-c", "mini", "--home", str(tmp_path / "home"), "--device", "cpu"]
    assert run(["calibrate", *command[2:]]) == 0

    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(recalibration, "keep_calibrated", stopped)
        assert run(command) == 130
    assert "Give the same command again" in capsys.readouterr().err
    assert run(command) == 0
    assert "new languages: nl" in capsys.readouterr().err
    assert run(command) == 0
    assert "calibration" not in capsys.readouterr().err


def test_a_home_that_is_a_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert run(["status", "--home", str(tmp_path / "file")]) == 1
    assert "is a file, not a folder; name another with --home" in capsys.readouterr().err


def test_an_index_run_that_could_read_nothing_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], default_folder: object
) -> None:
    (tmp_path / "docs.jsonl").write_text("{broken\n")
    assert run(["index", str(tmp_path / "docs.jsonl"), "-c", "c", "--home", str(tmp_path / "home")]) == 1
    assert "nothing of the sources could be indexed; see why: dragoman status -c c" in capsys.readouterr().err


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_no_collection_can_have_is_refused_before_anything_is_made(name: str, tmp_path: Path) -> None:
    assert fallen(odd_name(name, tmp_path)) == []


def test_every_command_that_takes_a_collection_looks_at_its_name() -> None:
    named = [(name, option) for name, option in options(root) if "--collection" in option.opts]
    assert len(named) >= 20
    assert {name: option.type for name, option in named if option.type is not COLLECTION} == {}


@pytest.mark.parametrize("name", ["n" * 300, "\udcff"])
def test_a_name_that_no_file_can_have_is_a_sentence(
    name: str, tmp_path: Path, small: ModelFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    source, topics, qrels = ENGLISH, str(DEMO / "topics.tsv"), str(DEMO / "qrels.txt")
    home = ["--home", str(tmp_path / "home")]
    for command in (
        ["status", "-c", "c", "--home", str(tmp_path / "homes" / name)],
        ["status", "-c", "c", "--database", f"sqlite:///{tmp_path}/homes/{name}.db", *home],
        ["index", name, "-c", "c", "--encoder", str(small.path), *home],
        ["index", source, "-c", "c", "--encoder", name, *home],
        ["evaluate", "-c", "c", "--topics", name, "--qrels", qrels, *home],
        ["evaluate", "-c", "c", "--topics", topics, "--qrels", name, *home],
        ["evaluate", "-c", "c", "--topics", topics, "--qrels", qrels, "--compare", name, *home],
        ["evaluate", "-c", "c", "--topics", topics, "--qrels", qrels, "--run-file", str(tmp_path / name), *home],
        ["calibrate", "-c", "c", "--map", name, *home],
        ["encoders", "show", name],
    ):
        assert run(command) == 1, command
        said = capsys.readouterr().err
        assert said.splitlines()[-1].startswith("Error: "), command
        assert "Traceback" not in said


def test_an_error_of_the_program_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("no file")

    monkeypatch.setattr(root, "main", fail)
    with pytest.raises(OSError, match="no file"):
        run(["status"])
