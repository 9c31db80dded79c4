"""From a model folder and a method's name to an encoder."""

from __future__ import annotations

from encoders.document import Encoder
from encoders.errors import BadInput
from encoders.first import First
from encoders.folder import ModelFolder
from encoders.segments import Segments
from encoders.sentence import SentenceEncoder
from encoders.sentences import Sentences
from encoders.session import Device

METHODS = (Segments.method, First.method, Sentences.method)
"""How a document's vector can be made from a sentence encoder; the first is the default."""


def open_encoder(
    folder: ModelFolder, method: str = METHODS[0], *, device: Device = "auto", threads: int | None = None
) -> Encoder:
    """Load a model folder as an encoder of documents and queries.

    Raises:
        BadInput: there is no such method, or the folder can't be loaded.
        MissingPart: ONNX Runtime, or the device asked for, is not there.
    """
    if method not in METHODS:
        raise BadInput(f"there is no method {method!r}; choose one of: {', '.join(METHODS)}")
    sentence = SentenceEncoder(folder, device=device, threads=threads)
    if method == First.method:
        return First(sentence)
    if method == Sentences.method:
        return Sentences(sentence)
    return Segments(sentence)
