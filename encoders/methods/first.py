"""*first*: a document is its first tokens, as many as the model takes (the plain "LaBSE" of the HMDE paper)."""

from __future__ import annotations

from collections.abc import Sequence

from encoders.document import Document, Encoded, FloatArray
from encoders.methods.sentence import SentenceEncoder


class First:
    """Document encoder over the first tokens alone: cheap, and later text has no influence."""

    method = "first"

    def __init__(self, sentence: SentenceEncoder, tokens: int | None = None) -> None:
        """Take a loaded sentence encoder and the number of tokens to read; the default is all that fit."""
        self._sentence = sentence
        self.tokens = min(tokens or sentence.segment_limit, sentence.segment_limit)
        self.spec = sentence.spec(self.method, tokens=self.tokens)

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        """Encode documents; each document has one segment."""
        tokens = self._sentence.tokenizer.tokenize([document.content for document in documents])
        spans = [[(0, min(len(text), self.tokens))] for text in tokens]
        return self._sentence.encode_spans(tokens, spans)

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        """Queries → (queries, dim) float32 unit rows."""
        return self._sentence.encode_queries(queries)

    def read_to(self, query: Document) -> int:
        """Number of characters of a query that fit into the model."""
        return self._sentence.read_to(query)
