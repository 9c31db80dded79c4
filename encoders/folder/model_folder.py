"""A model on disk: ``config.json``, the ONNX graph, ``tokenizer.json``, ``MODEL_CARD.md``, ``parity.json``.

A Cr5 model has ``vocabulary.json`` for its tokenizer: the words of each language, in the order of the graph's ids. HMDE
and Cr5 models have ``training_texts.npy``, keys of the texts that taught them, and a model that was checked on a card
has ``device.json``.

Every graph takes ``input_ids`` and ``attention_mask``, int64 (texts, tokens), pools and normalises, and returns
``vectors``, float32 (texts, dim), unit rows. A reranker's takes pairs, and returns ``scores``, float32 (pairs, 1).
"""

import json
import os
import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from encoders.errors import DISK_FULL, BadInput, MissingPart
from encoders.field_types import filled
from encoders.folder.model_cache import file_hash, has_hash
from encoders.folder.model_config import FORMAT, ModelConfig, read_json
from encoders.folder.piece_table import save_pieces
from encoders.folder.whole_folder import replacing, require_replaceable

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
        """The table of the tokenizer's pieces (``encoders.folder.piece_table``); none if it has none."""
        return self.path / _PIECES if self.config.pieces else None

    @classmethod
    def open(cls, path: str | Path) -> "ModelFolder":
        """Read a folder. Raises BadInput: it is no model folder, has another format, or lacks a file."""
        folder = Path(path)
        file = folder / "config.json"
        try:  # a pipe or a device would be waited for
            odd = [path.name for path in folder.glob("*") if path.exists() and not (path.is_file() or path.is_dir())]
        except OSError as error:
            raise BadInput(f"{folder} can't be read ({error.strerror}); see that it is yours") from error
        if odd:
            raise BadInput(f"{folder} is no model folder: {min(odd)} is neither a file nor a folder; export it again")
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
            config = filled(ModelConfig, data)
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
        """Check graph and tokenizer against their hashes; ``again`` reads files, too, that are unchanged since a check.

        Raises BadInput: a file can't be read, is damaged, or belongs to another model.
        """
        advice = "delete the folder and make it again (the default encoder's is made by its next use)"
        wanted = {tuple(graph_files(self.graph)): self.config.graph, (self.tokenizer,): self.config.tokenizer}
        if self.pieces:
            wanted[self.pieces,] = self.config.pieces
        try:
            matches = {files: has_hash(files, digest, again=again) for files, digest in wanted.items()}
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

    The caller writes ``model.onnx``, perhaps ``model.onnx.data``, the tokenizer and any further files. At the end the
    table of the tokenizer's pieces and ``config.json``, with the files' hashes, are added. For the error message,
    ``instead`` says how the user names another folder, and ``kept`` what is not lost. Raises MissingPart: the target
    can't be written, or its disk is full.
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


def weights_file(graph: Path) -> Path:
    """The file beside a graph that has its large weights, whether or not there is one."""
    return graph.with_name(f"{graph.name}.data")


def graph_files(graph: Path) -> list[Path]:
    """A graph, and the file beside it that has its large weights, if there is one."""
    weights = weights_file(graph)
    return [graph, weights] if weights.exists() else [graph]


def is_forced(report: object) -> bool:
    """Whether a parity report says that its graph failed and was published. Raises TypeError: it is no object."""
    if not isinstance(report, dict):
        raise TypeError("its parity report is no object")
    return bool(report.get("forced"))


def require_encoder(folder: ModelFolder) -> None:
    """Refuse a reranker where an encoder is needed. Raises BadInput: the folder holds a reranker."""
    if folder.config.is_reranker:
        raise BadInput(f"{folder.path} is a reranker, which makes no vectors; name an encoder, and this with --rerank")


def link_files(base: ModelFolder, folder: Path, left_out: Collection[str]) -> None:
    """Put a base model's files, but its configuration and ``left_out``, into a folder: hard links where possible."""
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
    """Return the absolute path of a folder to make; ``what`` names the content that may be replaced, for the error.

    Raises BadInput: the path holds other content than a model folder, or no folder can be made there.
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
