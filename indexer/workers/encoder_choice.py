"""Which encoder a worker of a collection loads."""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa

from indexer.collection import collection as collections
from indexer.ledger.index_runs import active_reencoding


class EncoderChoice(NamedTuple):
    """Name or folder of an encoder, and its method."""

    encoder: str
    method: str


def encoder_of_work(engine: sa.Engine, name: str) -> EncoderChoice:
    """The encoder of the work that a collection has for workers.

    It is the encoder that its own documents are encoded again by, else that of the generation that is being built, else
    that of the searched generation.

    Raises:
        BadInput: there is no such collection.
    """
    collection = collections.require(engine, name)
    run = active_reencoding(engine, name)
    named = (run.again if run else None) or collection.building
    if named:
        return EncoderChoice(named["encoder"], named["method"])
    return EncoderChoice(collection.encoder, collection.method)
