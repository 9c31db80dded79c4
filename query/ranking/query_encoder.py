"""A collection's queries: their encoder, which is the documents' or that of a migration, their text and vector."""

from collections.abc import Sequence
from typing import Never

from encoders.console import Console
from encoders.document import Document, Encoder, EncoderSpec, FloatArray
from encoders.errors import BadInput, ModelMismatch
from encoders.languages import UNDETERMINED, stated_language
from encoders.machine.placement import Device
from encoders.maps.space_maps import QueryEncoderSpec
from encoders.methods.combined_encoder import SEPARATOR
from encoders.methods.vector_parts import VectorParts
from indexer.collection.collection_record import CollectionRecord
from indexer.collection.encoder import open_encoder_of
from indexer.text.language_detection import LIKELY, Detector
from onnx_export.models import open_named
from query.calibration.calibration import Calibration

_LISTED = 20
"""Languages of an encoder below which a message lists them."""


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


def effective_query_encoder(collection: CollectionRecord, calibration: Calibration | None) -> QueryEncoderSpec:
    """The spec of the encoder of a collection's queries under a calibration."""
    return query_encoder_spec(calibration) or QueryEncoderSpec(
        collection.encoder, collection.method, collection.model, collection.dim
    )


def encoders_with_methods(collection: CollectionRecord, calibration: Calibration | None) -> list[tuple[str, str]]:
    """The documents' encoder and method, and in a migrated collection the queries' encoder and method."""
    query_encoder = query_encoder_spec(calibration)
    of_queries = [(query_encoder.encoder, query_encoder.method)] if query_encoder else []
    return [(collection.encoder, collection.method), *of_queries]


def open_query_encoder(
    collection: CollectionRecord, calibration: Calibration | None, device: Device, console: Console
) -> Encoder:
    """Load a collection's encoder of queries. Raises BadInput: it is not found; ModelMismatch: the model is another."""
    if query_encoder := query_encoder_spec(calibration):
        return open_specified(collection, query_encoder, device, console)
    return open_encoder_of(collection, console, device=device)


def without_queries(
    collection: CollectionRecord, calibration: Calibration | None, device: Device, console: Console
) -> Encoder:
    """A stand-in, not loaded, for an encoder of queries that is not asked; several without a calibration are loaded."""
    if calibration is None and SEPARATOR in collection.encoder:
        return open_query_encoder(collection, calibration, device, console)
    encoder = effective_query_encoder(collection, calibration)
    name = encoder.encoder.rpartition("/")[2]
    return NoQueries(EncoderSpec(name, encoder.method, encoder.dim, (), encoder.model, ""))


def open_specified(
    collection: CollectionRecord, query_encoder: QueryEncoderSpec, device: Device, console: Console
) -> Encoder:
    """Load a migration's encoder. Raises BadInput: it is not found; ModelMismatch: its name leads to another model."""
    encoder = open_named(query_encoder.encoder, query_encoder.method, console, device=device)
    if encoder.spec.model != query_encoder.model:
        raise ModelMismatch(
            f"collection {collection.name} has migrated to {query_encoder.encoder} by {query_encoder.method} "
            f"(model {query_encoder.model}), and what is there now is model {encoder.spec.model}; "
            f"bring the first back, or leave the migration: dragoman rollback -c {collection.name}"
        )
    return encoder


def require_query(text: object) -> None:
    """Raise ``BadInput`` if a query is no text, is empty or has lone surrogates."""
    if not isinstance(text, str):
        raise BadInput(f"the query is {text!r:.40}; give a text")
    if not text.strip():
        raise BadInput("the query is empty; type what you look for")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise BadInput("the query is not UTF-8; see to the terminal's encoding")


def read_query(text: str, lang: str | None, detector: Detector) -> tuple[Document, float | None]:
    """The query, and the confidence in its detected language; none if the language is stated.

    The query's language is ``und`` if the detection is not ``LIKELY``, so that nothing leans on it.
    """
    require_query(text)
    if lang:
        return Document("query", stated_language(lang), text), None
    detection = detector.detect(text)
    query_lang = detection.lang if detection.confidence >= LIKELY else UNDETERMINED
    return Document("query", query_lang, text), detection.confidence


def encoded_query(encoder: Encoder, query: Document, parts: VectorParts) -> FloatArray:
    """(1, dim) a query's vector; raises ``BadInput`` if no encoder with a weight above 0 knows a word of it."""
    vectors = encoder.encode_queries([query])
    if parts.comparable(vectors).any():
        return vectors
    names, known = encoder.spec.name.split(SEPARATOR), encoder.spec.languages
    if len(names) == len(parts.weights):  # those of combined encoders that count
        names = [name for name, weight in zip(names, parts.weights, strict=True) if weight > 0]
    among = f" in {query.lang}" if query.lang != UNDETERMINED else ""
    advice = " or another script"
    if 0 < len(known) < _LISTED:
        advice = ", or say its language with --lang"
        advice += f" (it knows {', '.join(known)})" if query.lang not in known else ""
    raise BadInput(
        f"{SEPARATOR.join(names)} knows no word of the query {query.content!r}{among}; use other words{advice}"
    )
