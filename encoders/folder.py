"""A model on disk: ``config.json``, the ONNX graph, ``tokenizer.json``, ``MODEL_CARD.md``, ``parity.json``.

A Cr5 model has ``vocabulary.json`` for its tokenizer: the words of each language, in the order of the graph's ids.

Every graph takes ``input_ids`` and ``attention_mask``, int64 (texts, tokens), and returns ``vectors``, float32
(texts, dim), unit rows: pooling and normalisation are in the graph, so that any consumer of ONNX can run it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import platformdirs

from encoders.document import short_hash
from encoders.errors import DISK_FULL, BadInput, MissingPart

Pooling = Literal["mean", "cls", "cls-dense-tanh", "max", "sum"]
Precision = Literal["fp32", "fp16", "int8", "q4"]
FORMAT = 1
TRAINING_KEPT = "the training is kept, and the same command goes on with it where there is room"
"""What ``publishing`` is to say where checkpoints stand beside the folder."""


@dataclass(frozen=True)
class ModelConfig:
    """What ``config.json`` of a model folder says.

    Attributes:
        name: what a person calls the model.
        dim: width of the vectors.
        max_tokens: longest input, special tokens included; 0 where there is no limit.
        pooling: how token states become one vector, inside the graph; ``max`` is LASER's, ``sum`` of words is Cr5.
        query_prefix: put before a query's text by the model's own rule, may be empty.
        document_prefix: put before each document segment's text.
        languages: BCP 47 tags the model was trained for; empty where nobody said.
        precision: of the graph.
        weights: hash of the source weights: the same for every build of one model.
        tokenizer: hash of ``tokenizer.json``, or of ``vocabulary.json``.
        graph: hash of the ONNX graph with its weights.
        licence: of the source weights, as their publisher states it; empty where unknown.
        forced: published although the graph is below the parity bar.
        format: version of this layout.
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
    format: int = FORMAT

    def model_id(self, method: str, **settings: object) -> str:
        """The id of vectors made with this model by a document method with these settings.

        It depends on what decides the vectors' meaning (source weights, tokenizer, prefixes, pooling, method) and not
        on the build, so that int8 on a CPU and fp16 on a GPU write into one index. A graph that is not proved to make
        the same vectors is a model of its own.
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

    @property
    def tokenizer_name(self) -> str:
        """File that the model's ids of texts are from."""
        return "vocabulary.json" if self.pooling == "sum" else "tokenizer.json"

    @property
    def build_id(self) -> str:
        """The id of the exact graph."""
        return short_hash(self.graph, self.precision)


@dataclass(frozen=True)
class ModelFolder:
    """A published model folder.

    Attributes:
        path: the folder.
        config: what its ``config.json`` says.
    """

    path: Path
    config: ModelConfig

    @property
    def graph(self) -> Path:
        """The ONNX graph."""
        return self.path / "model.onnx"

    @property
    def tokenizer(self) -> Path:
        """The tokenizer, in the format of the ``tokenizers`` library; a Cr5 model's vocabularies."""
        return self.path / self.config.tokenizer_name

    @classmethod
    def open(cls, path: str | Path) -> ModelFolder:
        """Read a folder that ``publish`` made.

        Raises:
            BadInput: it is no model folder, or one of another version, or a file of it is missing.
        """
        folder = Path(path)
        file = folder / "config.json"
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
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
        data["languages"] = tuple(data.get("languages", ()))
        try:
            config = ModelConfig(**data)
        except TypeError as error:
            raise BadInput(
                f"{file} has other entries than format {FORMAT} knows ({error}); export the model again"
            ) from error
        if config.pooling not in get_args(Pooling) or config.precision not in get_args(Precision):
            raise BadInput(f"{file} names an unknown pooling or precision; export the model again")
        result = cls(folder, config)
        for needed in (result.graph, result.tokenizer):
            if not needed.is_file():
                raise BadInput(f"{folder} lacks {needed.name}; export the model again")
        return result

    def check_files(self) -> None:
        """See that graph and tokenizer are those that ``config.json`` names: every byte of them is read.

        Raises:
            BadInput: one of them can't be read, is damaged, or is of another model.
        """
        again = "delete the folder and make it again (the default encoder's is made by its next use)"
        try:
            named = {
                self.graph: _graph_hash(self.graph) == self.config.graph,
                self.tokenizer: file_hash(self.tokenizer) == self.config.tokenizer,
            }
        except OSError as error:
            raise BadInput(f"{error.filename or self.path} can't be read ({error.strerror}); {again}") from error
        for file, is_named in named.items():
            if not is_named:
                raise BadInput(
                    f"{file} is not the one that config.json beside it names: it is damaged, or of another model; "
                    f"{again}"
                )


@contextmanager
def publishing(
    target: Path, config: ModelConfig, *, instead: str = "in DRAGOMAN_CACHE", kept: str = ""
) -> Iterator[Path]:
    """Make a model folder atomically: yields a temporary folder beside the target to write into.

    The caller writes ``model.onnx``, the tokenizer and what else there is. At the end of the block the hashes of
    graph and tokenizer are filled into ``config`` and written, and the folder takes its name in one rename, replacing
    what was there; on an error nothing of it stays. Two processes that publish the same model at once do no harm.

    Args:
        target: the folder.
        config: what it says, but for the hashes.
        instead: how another folder is named, for the message where this one can't be written or its disk is full.
        kept: what is not lost then, for the same message.

    Raises:
        MissingPart: the target can't be written, or its disk is full.
    """
    kept = kept and f"; {kept}"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise MissingPart(
            f"models can't be written to {target.parent} ({error.strerror}); name another folder {instead}{kept}"
        ) from error
    try:
        yield temporary
        config = replace(
            config,
            graph=_graph_hash(temporary / "model.onnx"),
            tokenizer=file_hash(temporary / config.tokenizer_name),
            forced=_is_forced(temporary / "parity.json"),
        )
        (temporary / "config.json").write_text(
            json.dumps(asdict(config), indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        temporary.chmod(0o755)
        _take_name(temporary, target)
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        raise MissingPart(
            f"the disk of {target.parent} is full; make room, or name another folder {instead}{kept}"
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _graph_hash(graph: Path) -> str:
    """Of a graph and of the weights in files beside it."""
    return file_hash(graph, *sorted(graph.parent.glob("*.onnx.data")))


def _is_forced(report: Path) -> bool:
    """What a parity report says; a folder without one was proved where its models were made, or needs no proof."""
    return report.exists() and bool(json.loads(report.read_text(encoding="utf-8")).get("forced"))


def link_files(base: ModelFolder, made: Path, besides: Collection[str]) -> None:
    """Put a base model's files into a folder that is being made: hard links where the disk allows, else copies.

    Args:
        base: whose files, but its ``config.json``.
        made: from ``publishing``.
        besides: names that are left out.
    """
    for file in sorted(base.path.iterdir()):
        if file.is_file() and file.name not in {"config.json", *besides}:
            try:
                os.link(file.resolve(), made / file.name)
            except OSError:  # another disk, or one that has no hard links
                shutil.copyfile(file, made / file.name)


def free_target(target: Path, what: str) -> Path:
    """The folder to make, whole: nothing, an empty folder or a model folder may stand there, nothing else is replaced.

    Args:
        target: as it was typed.
        what: a folder may hold to be replaced, for the message.

    Raises:
        BadInput: something else stands there.
    """
    target = target.expanduser().resolve()
    if target.exists() and not target.is_dir():
        raise BadInput(f"{target} is a file; choose another --output")
    if target.is_dir() and any(target.iterdir()):
        try:
            ModelFolder.open(target)
        except BadInput as error:
            raise BadInput(f"{target} holds something that is no {what}; choose another --output") from error
    return target


def _take_name(temporary: Path, target: Path) -> None:
    if target.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{target.name}.old.", dir=target.parent))
        target.rename(old / "was")
        temporary.rename(target)
        shutil.rmtree(old)
    else:
        try:
            temporary.rename(target)
        except OSError:
            if not target.exists():
                raise  # the disk, not another process that was faster


def file_hash(*files: Path) -> str:
    """SHA-256 over the contents of files, 16 hex digits."""
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as handle:
            while block := handle.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:16]


def model_cache() -> Path:
    """Folder of models made or fetched: the platform's cache folder, or ``DRAGOMAN_CACHE``."""
    return Path(os.environ.get("DRAGOMAN_CACHE") or platformdirs.user_cache_dir("dragoman", appauthor=False)) / "models"
