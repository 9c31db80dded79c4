"""The encoder of a collection's queries: the documents' encoder, or the encoder that the collection has migrated to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Never

from encoders.console import Console
from encoders.document import Document, Encoder, EncoderSpec
from encoders.errors import BadInput, ModelMismatch
from encoders.machine.placement import Device
from encoders.maps.space_maps import QueryEncoderSpec
from encoders.methods.combined_encoder import SEPARATOR
from indexer.collection.collection import Collection
from indexer.collection.encoder import open_encoder_of
from onnx_export.models import open_named
from query.calibration.calibration import Calibration


class NoQueries:
    """Stands for the encoder of a collection's queries where stored documents alone are compared."""

    def __init__(self, spec: EncoderSpec) -> None:
        self.spec = spec

    def encode_queries(self, _: Sequence[Document]) -> Never:
        """Raise ``BadInput``."""
        raise BadInput("this searcher was opened without an encoder, to compare stored documents; open another")

    encode_documents = encode_queries


def query_encoder_spec(calibration: Calibration | None) -> QueryEncoderSpec | None:
    """The encoder of queries that a migration's calibration names; none for other calibrations."""
    return calibration.space.query_encoder if calibration else None


def effective_query_encoder(collection: Collection, calibration: Calibration | None) -> QueryEncoderSpec:
    """The spec of the encoder of a collection's queries under a calibration."""
    return query_encoder_spec(calibration) or QueryEncoderSpec(
        collection.encoder, collection.method, collection.model, collection.dim
    )


def encoders_with_methods(collection: Collection, calibration: Calibration | None) -> list[tuple[str, str]]:
    """The documents' encoder and method, and in a migrated collection the queries' encoder and method."""
    query_encoder = query_encoder_spec(calibration)
    of_queries = [(query_encoder.encoder, query_encoder.method)] if query_encoder else []
    return [(collection.encoder, collection.method), *of_queries]


def open_query_encoder(
    collection: Collection, calibration: Calibration | None, device: Device, console: Console
) -> Encoder:
    """Load the encoder of a collection's queries under a calibration.

    Raises:
        BadInput: the encoder is not found.
        ModelMismatch: the encoder's name leads to another model than that of the vectors or of the map.
    """
    query_encoder = query_encoder_spec(calibration)
    if query_encoder:
        return open_specified(collection, query_encoder, device, console)
    return open_encoder_of(collection, console, device=device)


def without_queries(
    collection: Collection, calibration: Calibration | None, device: Device, console: Console
) -> Encoder:
    """What takes the place of the encoder of queries where none is asked: it is not loaded.

    Several encoders without a calibration are loaded, as they alone know the widths of their vectors.

    Raises:
        BadInput, ModelMismatch: as ``open_query_encoder``.
    """
    if calibration is None and SEPARATOR in collection.encoder:
        return open_query_encoder(collection, calibration, device, console)
    encoder = effective_query_encoder(collection, calibration)
    name = encoder.encoder.rpartition("/")[2]
    return NoQueries(EncoderSpec(name, encoder.method, encoder.dim, (), encoder.model, ""))


def open_specified(
    collection: Collection, query_encoder: QueryEncoderSpec, device: Device, console: Console
) -> Encoder:
    """Load the encoder that a collection has migrated to.

    Raises:
        BadInput: the encoder is not found.
        ModelMismatch: the encoder's name leads to another model now.
    """
    encoder = open_named(query_encoder.encoder, query_encoder.method, console, device=device)
    if encoder.spec.model != query_encoder.model:
        raise ModelMismatch(
            f"collection {collection.name} has migrated to {query_encoder.encoder} by {query_encoder.method} "
            f"(model {query_encoder.model}), and what is there now is model {encoder.spec.model}; "
            f"bring the first back, or leave the migration: dragoman rollback -c {collection.name}"
        )
    return encoder
