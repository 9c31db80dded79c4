"""Find the local folder of a model's name, in the Hugging Face cache or from the hub."""

import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from encoders.errors import BadInput, MissingPart, importing
from encoders.languages import UNDETERMINED, tag_or
from onnx_export.huggingface.hub_layout import read_layout

TORCH_NEEDED = "this needs PyTorch and transformers; install them"

_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
_CONFIGURATION = ["*.json", "*.txt", "*.model", "README.md"]
_LEFT_OUT = ["onnx/*", "openvino/*", "*.onnx", "*.h5", "*.msgpack", "*.ot"]


def find_source(model: str, say: Callable[[str], None], check: Callable[[Path], None] = lambda _: None) -> Path:
    """Return the folder of a model: a folder's path, or the files of ``organisation/name``, from the cache if possible.

    ``say`` shows a message when files are fetched; ``check`` gets the folder of the configuration before weights are
    fetched, and raises if they are useless. Raises BadInput: there is no such folder or model; MissingPart: the model
    is not in the cache and the hub can't be reached.
    """
    folder = Path(model).expanduser()
    if folder.is_dir():
        check(folder)
        return folder
    if folder.exists():
        raise BadInput(f"{model} is a file; export takes a model's folder or its name on the hub")
    if not re.fullmatch(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", model):
        raise BadInput(f"there is no folder {model}, and it is no name of a model on the hub (organisation/name)")
    return _cached_folder(model) or _fetch(model, say, check)


def name_of(model: str, folder: Path) -> str:
    """The name of a model whose folder ``find_source`` found: the folder's, or that on the hub."""
    return folder.resolve().name if Path(model).expanduser().is_dir() else model.rsplit("/", 1)[-1]


def _cached_folder(model: str) -> Path | None:
    with importing("train", TORCH_NEEDED):
        from huggingface_hub import snapshot_download  # noqa: PLC0415
        from huggingface_hub.errors import LocalEntryNotFoundError  # noqa: PLC0415
    try:
        folder = Path(snapshot_download(model, local_files_only=True, allow_patterns=_CONFIGURATION))
    except LocalEntryNotFoundError:
        return None
    try:
        return None if _parts_without_weights(folder) else folder
    except BadInput:  # a part of the configuration alone, or a model that the caller refuses
        return folder if any(True for pattern in _WEIGHTS for _ in folder.rglob(pattern)) else None


def _parts_without_weights(folder: Path) -> list[PurePosixPath]:
    """Paths in a model's folder of the transformer and of the dense layers whose weights are missing."""
    layout = read_layout(folder)
    parts = [layout.transformer, *(layer.folder for layer in layout.dense)]
    return [
        PurePosixPath(part.relative_to(folder))
        for part in parts
        if not any(True for pattern in _WEIGHTS for _ in part.glob(pattern))
    ]


def _fetch(model: str, say: Callable[[str], None], check: Callable[[Path], None]) -> Path:
    from huggingface_hub import snapshot_download  # noqa: PLC0415
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError  # noqa: PLC0415

    say(f"{model} is not in the cache; asking the hub")
    try:
        folder = Path(snapshot_download(model, allow_patterns=_CONFIGURATION, ignore_patterns=_LEFT_OUT))
        check(folder)
        for weights in _WEIGHTS:
            if patterns := [str(part / weights) for part in _parts_without_weights(folder)]:
                patterns += _CONFIGURATION
                folder = Path(snapshot_download(model, allow_patterns=patterns, ignore_patterns=_LEFT_OUT))
        if not _parts_without_weights(folder):
            return folder
    except GatedRepoError as error:
        raise BadInput(
            f"{model} is given out on request only; accept its terms on the hub and log in: hf auth login"
        ) from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise BadInput(
            f"there is no model {model} on the hub and no folder of that name; check the spelling"
        ) from error
    except OSError as error:  # every network failure, including the client's own exception classes
        raise MissingPart(
            f"{model} is not in the local cache and the hub can't be reached; "
            "fetch it where there is a network and give its folder"
        ) from error
    raise BadInput(
        f"{model} has no weights for PyTorch on the hub (no safetensors, no pytorch_model.bin); take another model"
    )


def read_card(folder: Path) -> tuple[str, tuple[str, ...]]:
    """Licence and normalised languages from the header of ``README.md``, if stated; other values are left out."""
    file = folder / "README.md"
    if not file.is_file() or not (text := file.read_text(encoding="utf-8", errors="replace")).startswith("---"):
        return "", ()
    with importing("train", TORCH_NEEDED):
        import yaml  # type: ignore[import-untyped, unused-ignore] # noqa: PLC0415
    try:
        header = yaml.safe_load(text.split("---", 2)[1])
    except yaml.YAMLError:  # a card is for people; a model with a broken card can still be exported
        return "", ()
    if not isinstance(header, dict):
        return "", ()
    stated = header.get("language", [])
    codes = stated if isinstance(stated, list) else [stated]
    tags = [tag_or("no" if code is False else str(code)) for code in codes]  # YAML reads Norwegian's code as a Boolean
    return str(header.get("license") or ""), tuple(dict.fromkeys(tag for tag in tags if tag != UNDETERMINED))
