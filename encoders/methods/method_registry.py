"""Open a model folder by a method's name: the list of methods, and the choice of an encoder."""

from encoders.cr5.bags_of_words import BagsOfWords, is_cr5
from encoders.document import Encoder
from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder
from encoders.hmde.upper import UpperSession, is_hmde
from encoders.machine.placement import Device
from encoders.methods.hmde_method import Hmde
from encoders.methods.lawdr_method import Lawdr, has_density, load_density
from encoders.methods.sentence import SentenceEncoder
from encoders.methods.sentences import Sentences
from encoders.methods.token_windows import First, Segments, TitledWindows

SENTENCE_METHODS = (TitledWindows.method, Segments.method, First.method, Sentences.method, Lawdr.method, Hmde.method)
"""Methods of a folder with a sentence encoder; *lawdr* and *hmde* need a folder that was trained for them."""
METHODS = (*SENTENCE_METHODS, BagsOfWords.method)
"""All methods of making a document's vector; *cr5* needs a Cr5 model."""


def default_method(folder: ModelFolder) -> str:
    """The default method of a folder: the method that the folder was trained for, otherwise *windows*."""
    if is_cr5(folder):
        return BagsOfWords.method
    if is_hmde(folder):
        return Hmde.method
    return Lawdr.method if has_density(folder) else TitledWindows.method


def open_encoder(
    folder: ModelFolder, method: str | None = None, *, device: Device = "auto", threads: int | None = None
) -> Encoder:
    """Load a model folder as an encoder of documents and queries; the default method is the folder's.

    Raises BadInput: the method is unknown, or the folder can't be loaded; MissingPart: ONNX Runtime or CUDA is missing.
    """
    method = method or default_method(folder)
    if method not in METHODS:
        raise BadInput(f"there is no method {method!r}; choose one of: {', '.join(METHODS)}")
    if (method == BagsOfWords.method) != is_cr5(folder):
        raise BadInput(
            f"{folder.path} can't be used by method {method}; method cr5 works only with folders of dragoman "
            "train cr5, and these work with no other method"
        )
    if is_cr5(folder):
        return BagsOfWords(folder)
    density = load_density(folder) if method == Lawdr.method else None
    upper = UpperSession(folder, device) if method == Hmde.method else None
    sentence = SentenceEncoder(folder, device=device, threads=threads)
    if density:
        return Lawdr(sentence, density)
    if upper:
        return Hmde(sentence, upper)
    return {kind.method: kind for kind in (TitledWindows, Segments, First, Sentences)}[method](sentence)
