"""*first*: a document is its first tokens, as many as the model takes (the plain "LaBSE" of the HMDE paper)."""

from __future__ import annotations

from collections.abc import Sequence

from encoders.document import Document, Encoded
from encoders.methods.sentence import SentenceEncoder, SentenceMethod


class First(SentenceMethod):
    """Document encoder over the first tokens alone: cheap, and later text has no influence."""

    method = "first"

    def __init__(self, sentence: SentenceEncoder, tokens: int | None = None) -> None:
        """Take a loaded sentence encoder and the number of tokens to read; the default is all that fit."""
        super().__init__(sentence)
        self.tokens = min(tokens or sentence.segment_limit, sentence.segment_limit)
        self.spec = sentence.folder.config.spec(self.method, tokens=self.tokens)

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        """Encode documents; each document has one segment."""
        tokens = self._tokenize(documents)
        spans = [[(0, min(len(text), self.tokens))] for text in tokens]
        return self._sentence.encode_spans(tokens, spans)
