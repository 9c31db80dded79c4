"""Text in a known language → unit vectors: the encoders, and what they share."""

from encoders.document import Document, Encoded, Encoder, EncoderSpec, Passages
from encoders.errors import BadInput, DragomanError, MissingPart, ModelMismatch, StoreError

__all__ = [
    "BadInput",
    "Document",
    "DragomanError",
    "Encoded",
    "Encoder",
    "EncoderSpec",
    "MissingPart",
    "ModelMismatch",
    "Passages",
    "StoreError",
]
