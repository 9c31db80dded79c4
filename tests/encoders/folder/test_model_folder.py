"""A model folder is whole or not there."""

import errno
import json
import os
import shutil
import stat
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import onnx
import pytest

from encoders.errors import BadInput, MissingPart
from encoders.folder import model_cache, whole_folder
from encoders.folder.model_config import ModelConfig
from encoders.folder.model_folder import ModelFolder, free_target, publishing
from encoders.methods.method_registry import open_encoder
from onnx_export.default_model import bert_graph
from tests.conftest import Patch
from tests.onnx_export.conftest import SHAPE, sentencepiece, weights, wordpiece

_CONFIG = ModelConfig("m", 4, 16, "mean", "query: ", "passage: ", ("de", "en"), "fp32", "w", "", "")


def _publish(target: Path, graph: bytes = b"graph", **more: str) -> ModelFolder:
    with publishing(target, _CONFIG) as folder:
        (folder / "model.onnx").write_bytes(graph)
        for name, text in {"tokenizer": "{}", **more}.items():
            (folder / f"{name}.json").write_text(text)
    return ModelFolder.open(target)


def _change(folder: Path, **entries: object) -> None:
    (folder / "config.json").write_text(json.dumps(json.loads((folder / "config.json").read_text()) | entries))


def test_publishing_again_replaces_and_an_error_meanwhile_keeps_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "m"
    before = _publish(target, b"old").config
    assert (before.languages, len(before.graph)) == (("de", "en"), 16)
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json"), publishing(target, _CONFIG) as folder:
        (folder / "model.onnx").write_bytes(b"new")
    assert ((target / "model.onnx").read_bytes(), [path.name for path in tmp_path.iterdir()]) == (b"old", ["m"])
    assert _publish(target, b"new").config.build_id != before.build_id
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


@pytest.fixture(params=["exchanged", "renamed"])
def way(request: pytest.FixtureRequest, monkeypatch: Patch) -> str:
    """How an old folder is replaced: in one call of the system, or by two renames where it has no such call."""
    if request.param == "renamed":
        monkeypatch.setattr(whole_folder, "_exchange", lambda *_: False)
    return str(request.param)


@pytest.mark.usefixtures("way")
def test_two_that_replace_a_model_at_once_leave_the_whole_folder_of_one(tmp_path: Path) -> None:
    target = tmp_path / "m"
    _publish(target, b"old")
    rounds = 100
    together = threading.Barrier(2)

    def replace_often(name: str) -> None:
        for number in range(rounds):
            with publishing(target, _CONFIG) as folder:
                (folder / "model.onnx").write_bytes(f"{name} {number}".encode())
                (folder / "tokenizer.json").write_text("{}")
                together.wait(60)

    with ThreadPoolExecutor(2) as pool:
        for finished in [pool.submit(replace_often, name) for name in ("a", "b")]:
            finished.result()
    ModelFolder.open(target).check_files()
    assert target.joinpath("model.onnx").read_bytes() in (f"a {rounds - 1}".encode(), f"b {rounds - 1}".encode())
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


@pytest.mark.usefixtures("way")
def test_a_folder_is_synced_then_its_name_then_the_old_one_goes(tmp_path: Path, monkeypatch: Patch) -> None:
    target = tmp_path / "models" / "m"
    synced: list[tuple[str, bytes, int]] = []

    def record(path: Path) -> None:
        graph = target / "model.onnx"
        old = sum(graph.read_bytes() == b"old" for graph in target.parent.glob(".m.*/**/model.onnx"))
        synced.append((path.suffix or path.name, graph.read_bytes() if graph.exists() else b"", old))

    monkeypatch.setattr(whole_folder, "sync", record)
    _publish(target, b"old")
    _publish(target, b"new")
    parents, first, second = synced[:1], synced[1:6], synced[6:]
    assert (parents, {name for name, *_ in first[:3]}) == ([(tmp_path.name, b"", 0)], {".onnx", ".json"})
    assert [graph for _, graph, _ in first] == [b""] * 4 + [b"old"]
    assert [graph for _, graph, _ in second] == [b"old"] * 4 + [b"new"] * (len(second) - 4)
    assert (first[-1][0], second[4]) == ("models", ("models", b"new", 1))


def test_a_file_system_that_syncs_no_folders_is_no_failure(tmp_path: Path, monkeypatch: Patch) -> None:
    def refuse(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr("encoders.folder.whole_folder.os.fsync", refuse)
    assert _publish(tmp_path / "m").config.dim == 4


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.EIO, "Input/output error")])
@pytest.mark.parametrize("moment", ["old moved", "new moved", "synced"])
def test_a_model_whose_replacement_is_interrupted_leaves_the_old_or_the_new_one(
    way: str, error: BaseException, moment: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    target = tmp_path / "m"
    _publish(target, b"old")
    rename, sync = Path.rename, whole_folder.sync

    def interrupted_rename(self: Path, to: Path) -> Path:
        renamed = rename(self, to)
        if (self == target and moment == "old moved") or (to == target and moment == "new moved"):
            monkeypatch.setattr(Path, "rename", rename)
            raise error
        return renamed

    def interrupted_sync(path: Path) -> None:
        sync(path)
        if path == tmp_path and moment == "synced":
            raise error

    monkeypatch.setattr(Path, "rename", interrupted_rename)
    monkeypatch.setattr(whole_folder, "sync", interrupted_sync)
    with suppress(type(error)) if way == "renamed" or moment == "synced" else nullcontext():
        _publish(target, b"new")
    ModelFolder.open(target).check_files()
    left = b"old" if (way, moment) == ("renamed", "old moved") else b"new"
    assert target.joinpath("model.onnx").read_bytes() == left
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_what_a_killed_process_left_is_removed_after_a_day_and_nothing_else(tmp_path: Path) -> None:
    _publish(tmp_path / "m[1]")
    for name, age in ((".m[1].0123abcd", 90_000), (".m[1].89ef0123", 80_000), (".m[1].old.x1_y2z3w", 90_000)):
        (tmp_path / name / "was").mkdir(parents=True)
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    _publish(tmp_path / "m[1]")
    assert {path.name for path in tmp_path.iterdir()} == {"m[1]", ".m[1].89ef0123", ".m[1].old.x1_y2z3w"}


def test_an_old_model_that_can_t_be_moved_back_is_not_deleted(tmp_path: Path, monkeypatch: Patch) -> None:
    target = tmp_path / "m"
    _publish(target, b"old")
    rename = Path.rename

    def fails(self: Path, to: Path) -> Path:
        if to == target:
            raise OSError(*((errno.ENOTEMPTY, "not empty") if target.exists() else (errno.EIO, "Input/output error")))
        return rename(self, to)

    monkeypatch.setattr(whole_folder, "_exchange", lambda *_: False)
    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(OSError, match="Input/output"):
        _publish(target, b"new")
    (old,) = tmp_path.glob(".m.old.*/was")
    ModelFolder.open(old).check_files()
    assert old.joinpath("model.onnx").read_bytes() == b"old"


@pytest.mark.skipif(sys.platform != "linux", reason="the system can't exchange two folders, or has other modes")
def test_the_name_is_never_without_a_model_and_a_new_one_has_the_old_mode(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.delattr(whole_folder, "_move_aside")
    before = os.umask(0o027)
    try:
        _publish(tmp_path / "m", b"old")
        assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == 0o750
        (tmp_path / "m").chmod(0o700)
        _publish(tmp_path / "m", b"new")
    finally:
        os.umask(before)
    assert (tmp_path / "m" / "model.onnx").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == 0o700


def test_an_output_with_other_files_or_no_place_is_refused(tmp_path: Path, monkeypatch: Patch) -> None:
    _publish(tmp_path / "m")
    assert free_target(tmp_path / "m", "model") == (tmp_path / "m").resolve()
    (tmp_path / "m" / "notes.txt").write_text("mine")
    with pytest.raises(BadInput, match=r"files beside the model \(notes\.txt\), which would be deleted; move them"):
        free_target(tmp_path / "m", "model")
    (tmp_path / "file").write_text("no folder")
    assert free_target(tmp_path / "new" / "m", "model").name == "m"
    assert not (tmp_path / "new").exists()
    with pytest.raises(BadInput, match=r"m can't be written \(Not a directory\); choose another --output"):
        free_target(tmp_path / "file" / "m", "model")
    monkeypatch.setattr(Path, "is_mount", lambda path: path == tmp_path / "disk")
    (tmp_path / "disk").mkdir()
    with pytest.raises(BadInput, match="is a mount point and can't be replaced; choose an --output inside it"):
        free_target(tmp_path / "disk", "model")


def test_a_full_disk_and_a_cache_that_can_not_be_written_are_one_sentence_and_leave_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    kept = {"instead": "with --output", "kept": "the training is kept"}
    for how, said in (
        ({}, r"is full; make room, or name another folder in DRAGOMAN_CACHE$"),
        (kept, r"or name another folder with --output; the training is kept$"),
    ):
        with pytest.raises(MissingPart, match=said), publishing(tmp_path / "m", _CONFIG, **how):
            raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(MissingPart, match=r"can't be written to .*DRAGOMAN_CACHE"):
        _publish(tmp_path / "file" / "models" / "m")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_model_id_changes_with_what_vectors_mean_or_an_unproved_graph_not_with_the_build(tmp_path: Path) -> None:
    model = _CONFIG.model_id("segments", window=128)
    assert replace(_CONFIG, graph="other", precision="int8").model_id("segments", window=128) == model
    changes: dict[str, Any] = {"weights": "v", "tokenizer": "t", "query_prefix": "", "pooling": "cls"}
    others = {replace(_CONFIG, **dict([change])).model_id("segments", window=128) for change in changes.items()}
    others |= {_CONFIG.model_id("segments", window=64), _CONFIG.model_id("first"), model}
    assert len(others) == 7
    proved = _publish(tmp_path / "proved").config
    forced = _publish(tmp_path / "forced", b"rounded away", parity='{"passed": false, "forced": true}').config
    assert forced.forced
    assert forced.model_id("first") != proved.model_id("first")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, r"no config\.json; make one with: dragoman export"),
        ('{"model_type": "bert"}', "a Hugging Face folder is exported first"),
        ("{broken", "can't be read"),
        *[(content, ".") for content in ("5", "null", "[]", '"x"', "{}", "\x00" * 300, "[" * 100_000)],
    ],
)
def test_what_is_no_model_folder_is_refused_with_what_to_do(tmp_path: Path, content: str | None, said: str) -> None:
    folder = _publish(tmp_path / "m").path
    (folder / "config.json").unlink()
    if content is not None:
        (folder / "config.json").write_text(content)
    with pytest.raises(BadInput, match=said):
        ModelFolder.open(folder)


@pytest.mark.parametrize("max_tokens", [1, 3, 6])
def test_a_model_whose_prefixes_fill_its_input_is_refused(small: ModelFolder, tmp_path: Path, max_tokens: int) -> None:
    folder = Path(shutil.copytree(small.path, tmp_path / "m"))
    _change(folder, max_tokens=max_tokens)
    with pytest.raises(BadInput, match=rf"reads {max_tokens} tokens at most, and prefixes and special"):
        open_encoder(ModelFolder.open(folder), device="cpu")


@pytest.mark.parametrize("name", ["config.json", "pieces.db", "lawdr.npz"])
def test_a_pipe_in_a_model_folder_is_refused_and_not_waited_for(tmp_path: Path, name: str) -> None:
    folder = _publish(tmp_path / "m").path
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(BadInput, match=f"{name} is neither a file nor a folder"):
        ModelFolder.open(folder)


def test_a_folder_that_lost_a_file_says_which_it_lacks(tmp_path: Path) -> None:
    folder = _publish(tmp_path / "m").path
    (folder / "tokenizer.json").unlink()
    for beside, lost in ((True, r"model\.onnx\.data"), (False, r"tokenizer\.json")):
        _change(folder, has_weights_beside=beside)
        with pytest.raises(BadInput, match=rf"lacks {lost}; export the model again"):
            ModelFolder.open(folder)


@pytest.mark.parametrize("value", [None, 5, -1, 1.5, True, "x", ["x"], [5], {"x": 5}])
@pytest.mark.parametrize("entry", [field.name for field in fields(ModelConfig)])
def test_a_value_of_another_type_is_refused_with_what_to_do(entry: str, value: object, tmp_path: Path) -> None:
    folder = _publish(tmp_path / "m").path
    data = json.loads((folder / "config.json").read_text())
    fitting = isinstance(value, type(data[entry])) and entry not in {"pooling", "precision", "format"}
    if isinstance(value, bool) != isinstance(data[entry], bool) or value in ([5], -1):
        fitting = False
    _change(folder, **{entry: value})
    (folder / "model.onnx.data").touch()
    with nullcontext() if fitting else pytest.raises(BadInput, match=r"again|exported first"):
        ModelFolder.open(folder)


@pytest.mark.parametrize(
    ("entry", "value", "said"),
    [
        ("dim", "384", "dim is the string '384'; it must be a whole number"),
        ("dim", None, "dim is null; it must be a whole number"),
        ("later", 1, r"than format 1 knows \(later is unknown\)"),
        ("languages", [5], r"languages is \[5\]; it must be a list, and each item a string"),
        ("precision", "fp8", "precision is the string 'fp8'; it must be one of fp32, fp16, int8, q4"),
    ],
)
def test_what_a_value_must_be_is_told(entry: str, value: object, said: str, tmp_path: Path) -> None:
    folder = _publish(tmp_path / "m").path
    _change(folder, **{entry: value})
    with pytest.raises(BadInput, match=said):
        ModelFolder.open(folder)


@pytest.mark.parametrize("file", ["model.onnx", "tokenizer.json", "pieces.db"])
def test_an_encoder_is_opened_with_the_graph_and_the_tokenizer_that_were_published(file: str, tmp_path: Path) -> None:
    held = weights()
    with publishing(tmp_path / "m", replace(_CONFIG, dim=SHAPE.hidden)) as made:
        onnx.save(bert_graph.build(held, SHAPE), made / "model.onnx")
        (sentencepiece() if file == "pieces.db" else wordpiece()).save(str(made / "tokenizer.json"))
    folder = ModelFolder.open(tmp_path / "m")
    assert bool(folder.pieces) == (file == "pieces.db")
    assert open_encoder(folder, device="cpu").spec.dim == SHAPE.hidden
    if file == "model.onnx":
        held["encoder.layer.0.output.dense.weight"] *= 2
        onnx.save(bert_graph.build(held, SHAPE), folder.graph)
    elif file == "tokenizer.json":
        sentencepiece().save(str(folder.tokenizer))
    else:
        with (folder.path / file).open("ab") as table:
            table.write(b"0")
    with pytest.raises(BadInput, match=rf"{file} is not the one that config\.json beside it names"):
        open_encoder(folder, device="cpu")
    (tmp_path / "m" / file).unlink()
    with pytest.raises(BadInput, match=rf"{file} can't be read \(No such file or directory\); delete the folder"):
        folder.check_files()


def test_files_are_read_again_only_when_they_have_changed(tmp_path: Path, monkeypatch: Patch) -> None:
    model = _publish(tmp_path / "m")
    read: list[str] = []
    hash_of = model_cache.file_hash

    def counted(*files: Path) -> str:
        read.extend(file.name for file in files)
        return hash_of(*files)

    monkeypatch.setattr(model_cache, "file_hash", counted)
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(model_cache, "_TICK", -1.0)  # else a new file may change again at the same time of its clock
    for _ in range(2):
        model.check_files()
    assert sorted(read) == ["model.onnx", "tokenizer.json"]
    model.check_files(again=True)
    assert read.count("model.onnx") == 2
    before = model.graph.stat()
    model.graph.write_bytes(b"other")
    os.utime(model.graph, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(BadInput, match=r"model\.onnx is not the one"):
        model.check_files()
