"""The encoder of a collection's vectors."""

from encoders.console import Console
from encoders.document import Encoder
from encoders.errors import BadInput
from encoders.machine.placement import Device
from indexer.collection.collection_record import CollectionRecord
from onnx_export.models import open_named


def open_encoder_of(
    collection: CollectionRecord,
    console: Console,
    *,
    reference: str | None = None,
    method: str | None = None,
    device: Device = "auto",
) -> Encoder:
    """Load an encoder that makes a collection's vectors; ``reference`` and ``method`` are by default the collection's.

    Raises BadInput: there is no such encoder or method; ModelMismatch: the vectors are another encoder's or method's.
    """
    reference = reference or collection.encoder
    try:
        encoder = open_named(reference, method or collection.method, console, device=device)
    except BadInput:
        if not method and reference != collection.encoder:  # one that the collection's method can't use is another
            collection.check(open_named(reference, None, console, device=device).spec)
        raise
    collection.check(encoder.spec)
    return encoder
