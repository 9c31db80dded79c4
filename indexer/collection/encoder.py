"""The encoder of a collection's vectors, and of the work that it has for workers."""

import sqlalchemy as sa

from encoders.console import Console
from encoders.document import Encoder
from encoders.errors import BadInput
from encoders.machine.placement import Device
from indexer.collection import collection as collections
from indexer.collection.collection import Collection
from indexer.ledger.index_runs import active_reencoding
from onnx_export.models import open_named


def open_encoder_of(
    collection: Collection,
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


def encoder_of_work(engine: sa.Engine, name: str) -> tuple[str, str]:
    """Encoder and method of a collection's work: of re-encoding, else of the built, else of the searched generation."""
    collection = collections.require(engine, name)
    run = active_reencoding(engine, name)
    named = (run.again if run else None) or collection.building
    if named:
        return named["encoder"], named["method"]
    return collection.encoder, collection.method
