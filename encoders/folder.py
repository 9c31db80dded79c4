"""A model on disk: ``config.json``, the ONNX graph, ``tokenizer.json``, ``MODEL_CARD.md``, ``parity.json``.

A Cr5 model has ``vocabulary.json`` for its tokenizer: the words of each language, in the order of the graph's ids.
HMDE and Cr5 models have ``training_texts.npy``, keys of the texts that taught them. A model that was checked on a card
when it was exported has ``device.json``, the check's result.

Every graph takes ``input_ids`` and ``attention_mask``, int64 (texts, tokens), and returns ``vectors``, float32
(texts, dim), unit rows: pooling and normalisation are in the graph, so that any consumer of ONNX can run it. The graph
of a reranker takes queries and passages as pairs, and returns ``scores``, float32 (pairs, 1).
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import platformdirs

from encoders.document import EncoderSpec, short_hash
from encoders.errors import DISK_FULL, BadInput, MissingPart
from encoders.field_types import with_field_types
from encoders.pieces import save_pieces

Pooling = Literal["mean", "cls", "cls-dense-tanh", "max", "sum", "cross-encoder"]
Precision = Literal["fp32", "fp16", "int8", "q4"]
FORMAT = 1
TRAINING_KEPT = "the training is kept, and the same command resumes it when there is room"
"""``kept`` for ``publishing`` where the folder's training has checkpoints."""
_FILES = frozenset(
    {
        "config.json", "model.onnx", "model.onnx.data", "tokenizer.json", "pieces.db", "vocabulary.json",
        "MODEL_CARD.md", "parity.json", "curve.jsonl", "curve.png", "lawdr.npz", "hmde.json", "upper.onnx",
        "upper.onnx.data", "weights.safetensors", "training_texts.npy", "device.json",
    }
)  # fmt: skip
"""Names of all files that a model folder may have, whatever made it."""
_PIECES = "pieces.db"
FOLDER_MODE = 0o700
"""Mode of folders that Dragoman makes for its data: only their owner may look into them."""
FILE_MODE = 0o600
"""Mode of Dragoman's files in these folders: they hold documents, and what people searched for."""
_HERE, _EXCHANGE = -100, 2
"""``AT_FDCWD`` and ``RENAME_EXCHANGE`` of Linux; the latter is ``RENAME_SWAP`` of macOS."""


@dataclass(frozen=True)
class ModelConfig:
    """The content of ``config.json`` in a model folder.

    Attributes:
        max_tokens: longest input, special tokens included; 0 means no limit.
        pooling: how the graph makes one vector of the token states; LASER uses ``max``, Cr5 the ``sum`` over words. A
            ``cross-encoder``, which is a reranker, makes one score of a pair of texts.
        languages: BCP 47 tags the model was trained for; empty if unknown.
        weights: hash of the source weights; all builds of one model share it.
        tokenizer: hash of ``tokenizer.json``, or of ``vocabulary.json``.
        graph: hash of the ONNX graph with its weights.
        licence: of the source weights, as their publisher states it; empty if unknown.
        forced: whether the model was published although its graph failed the parity check.
        pieces: hash of the table of the tokenizer's pieces; empty if there is none.
        has_weights_beside: whether large weights are in ``model.onnx.data``, which a session maps into memory.
    """

    name: str
    dim: int
    max_tokens: int
    pooling: Pooling
    query_prefix: str
    document_prefix: str
    languages: tuple[str, ...]
    precision: Precision
    weights: str
    tokenizer: str
    graph: str
    licence: str = ""
    forced: bool = False
    pieces: str = ""
    has_weights_beside: bool = False
    format: int = FORMAT

    def model_id(self, method: str, **settings: object) -> str:
        """Return the id of the vectors that a document method with these settings makes with this model.

        The id depends on what decides the vectors' meaning (source weights, tokenizer, prefixes, pooling, method,
        settings) and not on the build: int8 on a CPU and fp16 on a GPU write into one index. A forced graph is not
        proved to make the same vectors, so its hash is part of the id.
        """
        return short_hash(
            self.weights,
            self.tokenizer,
            self.pooling,
            self.query_prefix,
            self.document_prefix,
            method,
            json.dumps(settings, sort_keys=True),
            *([self.graph] if self.forced else []),
        )

    def spec(self, method: str, **settings: object) -> EncoderSpec:
        """Spec of a document encoder over this model, by its method and the settings that decide its vectors."""
        return EncoderSpec(
            name=self.name,
            method=method,
            dim=self.dim,
            languages=self.languages,
            model=self.model_id(method, **settings),
            build=self.build_id,
        )

    @property
    def tokenizer_name(self) -> str:
        """Name of the file that turns texts into the graph's ids."""
        return "vocabulary.json" if self.pooling == "sum" else "tokenizer.json"

    @property
    def is_reranker(self) -> bool:
        """Whether the model scores pairs of a query and a passage, and makes no vectors."""
        return self.pooling == "cross-encoder"

    @property
    def output(self) -> str:
        """Name of the graph's output."""
        return "scores" if self.is_reranker else "vectors"

    @property
    def build_id(self) -> str:
        """The id of the exact graph."""
        return short_hash(self.graph, self.precision)


@dataclass(frozen=True)
class ModelFolder:
    """A published model folder and its ``config.json``."""

    path: Path
    config: ModelConfig

    @property
    def graph(self) -> Path:
        """The ONNX graph."""
        return self.path / "model.onnx"

    @property
    def tokenizer(self) -> Path:
        """The tokenizer in the format of the ``tokenizers`` library, or the vocabularies of a Cr5 model."""
        return self.path / self.config.tokenizer_name

    @property
    def pieces(self) -> Path | None:
        """The table of the tokenizer's pieces (``encoders.pieces``); none if it has none."""
        return self.path / _PIECES if self.config.pieces else None

    @classmethod
    def open(cls, path: str | Path) -> ModelFolder:
        """Read a folder that ``publishing`` made.

        Raises:
            BadInput: the folder is no model folder, has another format, or lacks a file.
        """
        folder = Path(path)
        file = folder / "config.json"
        try:
            data = read_json(file)
        except FileNotFoundError as error:
            raise BadInput(
                f"{folder} is no model folder: it has no config.json; make one with: dragoman export MODEL"
            ) from error
        except (OSError, ValueError) as error:
            raise BadInput(f"{file} can't be read ({error}); export the model again") from error
        if not isinstance(data, dict) or data.get("format") != FORMAT or "graph" not in data:
            raise BadInput(
                f"{file} is not a Dragoman model of format {FORMAT}; "
                f"a Hugging Face folder is exported first: dragoman export {folder}"
            )
        try:
            if isinstance(languages := data.get("languages"), list):
                data["languages"] = tuple(languages)
            config = with_field_types(ModelConfig(**data))
        except TypeError as error:
            raise BadInput(
                f"{file} has other entries than format {FORMAT} knows ({error}); export the model again"
            ) from error
        if config.dim < 1 or config.max_tokens < 0:
            raise BadInput(f"{file} has a dim or max_tokens that no model has; export the model again")
        model_folder = cls(folder, config)
        weights = [weights_file(model_folder.graph)] if config.has_weights_beside else []
        for required in (model_folder.graph, *weights, model_folder.tokenizer):
            if not required.is_file():
                raise BadInput(f"{folder} lacks {required.name}; export the model again")
        return model_folder

    def check_files(self, *, again: bool = False) -> None:
        """Check graph and tokenizer against their hashes in ``config.json``.

        Files whose size and times are as they were at an earlier check are not read; with ``again`` all are.

        Raises:
            BadInput: a file can't be read, is damaged, or belongs to another model.
        """
        advice = "delete the folder and make it again (the default encoder's is made by its next use)"
        wanted = {tuple(graph_files(self.graph)): self.config.graph, (self.tokenizer,): self.config.tokenizer}
        if self.pieces:
            wanted[self.pieces,] = self.config.pieces
        try:
            matches = {files: _has_hash(files, digest, again=again) for files, digest in wanted.items()}
        except OSError as error:
            raise BadInput(f"{error.filename or self.path} can't be read ({error.strerror}); {advice}") from error
        for (file, *beside), is_match in matches.items():
            if not is_match:
                names = " with ".join([str(file), *(other.name for other in beside)])
                raise BadInput(
                    f"{names} is not the one that config.json beside it names: it is damaged, or of another model; "
                    f"{advice}"
                )


@contextmanager
def publishing(
    target: Path, config: ModelConfig, *, instead: str = "in DRAGOMAN_CACHE", kept: str = ""
) -> Iterator[Path]:
    """Make a model folder atomically: yield a temporary folder beside the target to write into.

    The caller writes ``model.onnx``, perhaps ``model.onnx.data``, the tokenizer and any further files. At the end
    the table of the tokenizer's pieces is added if it can be had, the hashes of the files are filled into ``config``,
    ``config.json`` is written, and the temporary folder replaces the target as ``replacing`` does.

    For the error message, ``instead`` says how the user names another folder, and ``kept`` what is not lost.

    Raises:
        MissingPart: the target can't be written, or its disk is full.
    """
    kept = kept and f"; {kept}"
    with ExitStack() as stack:
        try:
            temporary = stack.enter_context(replacing(target))
        except OSError as error:
            raise MissingPart(
                f"models can't be written to {target.parent} ({error.strerror}); name another folder {instead}{kept}"
            ) from error
        try:
            yield temporary
            report = temporary / "parity.json"  # a folder without a report was checked earlier or needs no check
            tokenizer, pieces = temporary / config.tokenizer_name, temporary / _PIECES
            config = replace(
                config,
                graph=file_hash(*graph_files(temporary / "model.onnx")),
                has_weights_beside=len(graph_files(temporary / "model.onnx")) > 1,
                tokenizer=file_hash(tokenizer),
                pieces=file_hash(pieces) if not config.is_reranker and save_pieces(tokenizer, pieces) else "",
                forced=report.exists() and is_forced(read_json(report)),
            )
            (temporary / "config.json").write_text(
                json.dumps(asdict(config), indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
            )
            stack.close()
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise
            raise MissingPart(
                f"the disk of {target.parent} is full; make room, or name another folder {instead}{kept}"
            ) from error


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Yield a temporary folder beside the target to write into; at the end of the block it replaces the target.

    The temporary folder is synced and exchanged with an existing target, whose mode it has, in one call of the system.
    So a kill or a power loss leaves the old folder or the new one, whole. Where the system has no such call, the target
    is moved aside first, and a kill between the two renames leaves the old folder in ``.NAME.old.…`` beside the target.
    After an error the temporary folder is deleted. If two processes replace the same folder at once, the folder of one
    of them stays.

    Raises:
        OSError: the target can't be written.
    """
    make_folder(target.parent)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    temporary.mkdir()
    try:
        if target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode) | stat.S_IRWXU)
        yield temporary
        _sync_all(temporary)
        _take_name(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Make a folder and its missing parents, and sync their names; an existing folder keeps its mode."""
    if not folder.is_dir():
        make_folder(folder.parent, mode)
        folder.mkdir(mode=mode, exist_ok=True)
        sync(folder.parent)


def make_private_folder(folder: Path) -> None:
    """Make a folder and its missing parents, for their owner alone; an existing folder keeps its mode."""
    make_folder(folder, FOLDER_MODE)


def sync(path: Path) -> None:
    """Put a file's content or a folder's names on the disk, so that they outlast a power loss."""
    if os.name == "nt":
        return  # Windows syncs no folders, and files only where they are written
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems of networks sync no folders
            raise
    finally:
        os.close(descriptor)


def _sync_all(folder: Path) -> None:
    """Sync a folder with everything in it."""
    for path in (*folder.rglob("*"), folder):
        sync(path)


def weights_file(graph: Path) -> Path:
    """The file beside a graph that has its large weights, whether or not there is one."""
    return graph.with_name(f"{graph.name}.data")


def graph_files(graph: Path) -> list[Path]:
    """A graph, and the file beside it that has its large weights, if there is one."""
    weights = weights_file(graph)
    return [graph, weights] if weights.exists() else [graph]


def is_forced(report: object) -> bool:
    """Whether a parity report says that the graph was published below the bar.

    Raises:
        TypeError: the report is no object.
    """
    if not isinstance(report, dict):
        raise TypeError("its parity report is no object")
    return bool(report.get("forced"))


def read_json(file: Path) -> Any:
    """Parse a JSON file.

    Raises:
        OSError: the file can't be read.
        ValueError: it is no JSON in UTF-8, or is nested too deeply.
    """
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def require_encoder(folder: ModelFolder) -> None:
    """Refuse a reranker where an encoder is needed.

    Raises:
        BadInput: the folder holds a reranker.
    """
    if folder.config.is_reranker:
        raise BadInput(f"{folder.path} is a reranker, which makes no vectors; name an encoder, and this with --rerank")


def link_files(base: ModelFolder, folder: Path, left_out: Collection[str]) -> None:
    """Put a base model's files into a new folder: hard links where the disk allows, else copies.

    ``config.json``, the files named in ``left_out`` and files that no model has are left out.
    """
    for file in sorted(base.path.iterdir()):
        if file.is_file() and file.name in _FILES - {"config.json", *left_out}:
            try:
                os.link(file.resolve(), folder / file.name)
            except OSError:  # another disk, or one that has no hard links
                shutil.copyfile(file, folder / file.name)


def without_section(card: str, heading: str) -> str:
    """A model card without the section under a heading of the second level."""
    return re.sub(rf"\n## {re.escape(heading)}\n.*?(?=\n## |\Z)", "", card, flags=re.DOTALL)


def free_target(target: Path, what: str) -> Path:
    """Return the absolute path of a folder to make; only an empty folder or a model folder may exist at that path.

    ``what`` names the content that may be replaced, for the error message.

    Raises:
        BadInput: a file or a folder with other content exists at the path, or no folder can be made there.
    """
    target = target.expanduser().resolve()
    require_replaceable(target)
    names = {path.name for path in target.iterdir()} if target.is_dir() else set()
    if names:
        try:
            ModelFolder.open(target)
        except BadInput as error:
            raise BadInput(f"{target} holds something that is no {what}; choose another --output") from error
    if others := sorted(names - _FILES):
        raise BadInput(
            f"{target} has files beside the {what} ({', '.join(others[:3])}), which would be deleted; "
            "move them, or choose another --output"
        )
    return target


def require_replaceable(target: Path) -> None:
    """Check that ``replacing`` can make or replace a folder, before the work that fills it.

    Raises:
        BadInput: the path is a file or a mount point, or the folder that it is in can't be written.
    """
    if target.exists() and not target.is_dir():
        raise BadInput(f"{target} is a file; choose another --output")
    if target.is_mount():
        raise BadInput(f"{target} is a mount point and can't be replaced; choose an --output inside it")
    parent = next(folder for folder in target.parents if folder.exists())
    try:
        tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=parent).cleanup()
    except OSError as error:
        raise BadInput(f"{target} can't be written ({error.strerror}); choose another --output") from error


def _take_name(temporary: Path, target: Path) -> None:
    """Rename a folder to the target; an existing target gets the folder's name, or is removed."""
    try:
        temporary.rename(target)
    except OSError as error:
        if error.errno not in {errno.EEXIST, errno.ENOTEMPTY}:
            raise
        if not _exchange(temporary, target):
            _move_aside(temporary, target)
    sync(target.parent)  # before the old folder's files are removed


def _exchange(folder: Path, other: Path) -> bool:
    """Exchange the names of two folders in one call of the system; false if that is not possible."""
    names = os.fsencode(folder), os.fsencode(other)
    try:
        library = ctypes.CDLL(None)
        if sys.platform == "darwin":
            return bool(library.renamex_np(*names, _EXCHANGE) == 0)
        return bool(library.renameat2(_HERE, names[0], _HERE, names[1], _EXCHANGE) == 0)
    except (AttributeError, TypeError):  # the C library has no such function; Windows has no such library
        return False


def _move_aside(temporary: Path, target: Path) -> None:
    """Replace a folder by two renames; if another process does so at the same time, one of the new folders stays."""
    backup = Path(tempfile.mkdtemp(prefix=f".{target.name}.old.", dir=target.parent))
    try:
        with suppress(FileNotFoundError):  # another process moved it aside
            target.rename(backup / "was")
        try:
            temporary.rename(target)
        except OSError:
            if not target.exists():
                raise  # the disk failed; no other process published the target first
        sync(target.parent)
    except BaseException:
        with suppress(OSError):  # nothing was moved aside, or the target exists
            (backup / "was").rename(target)
        if target.exists():
            shutil.rmtree(backup, ignore_errors=True)
        raise
    shutil.rmtree(backup, ignore_errors=True)


def file_hash(*files: Path) -> str:
    """First 16 hex digits of the SHA-256 over the files' contents."""
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as handle:
            while block := handle.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:16]


_TICK = 2.0
"""Seconds within which a file may change twice without another time of change, on the coarsest file system."""


def _has_hash(files: Sequence[Path], digest: str, *, again: bool) -> bool:
    """Whether files have a hash; that they had it is kept in the cache until their size, times or places change.

    The SHA-256 of the default encoder takes half a second on a processor without instructions for it. ``again`` reads
    the files in any case.
    """
    state = _state(files)
    names = [str(file) for file in files]
    record = cache_folder() / "checked" / short_hash(digest, json.dumps(names), json.dumps(state))
    if not again and os.access(record, os.F_OK):  # false where the cache is closed to this user
        return True
    before = time.time_ns()
    if file_hash(*files) != digest:
        return False
    settled = all(before - max(changed, modified) > _TICK * 1e9 for _, changed, modified, *_ in state)
    if settled and _state(files) == state:
        with suppress(OSError):  # the cache can't be written: the next process reads the files, too
            record.parent.mkdir(parents=True, exist_ok=True)
            record.touch()
    return True


def _state(files: Sequence[Path]) -> list[tuple[int, ...]]:
    """Size, times and place on the disk of each file."""
    status = [file.stat() for file in files]
    return [(now.st_size, now.st_ctime_ns, now.st_mtime_ns, now.st_ino, now.st_dev) for now in status]


def cache_folder() -> Path:
    """Folder of models, and of what saves time: ``DRAGOMAN_CACHE``, or the platform's cache folder.

    Of the models only the default encoder is made again by itself.
    """
    return Path(os.environ.get("DRAGOMAN_CACHE") or platformdirs.user_cache_dir("dragoman", appauthor=False))


def model_cache() -> Path:
    """Folder of exported and downloaded models, in the cache."""
    return cache_folder() / "models"
