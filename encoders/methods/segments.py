"""*segments*: a document is the mean of overlapping windows of tokens (LaBSE-Seg of the HMDE paper). The default."""

from __future__ import annotations

from collections.abc import Sequence

from encoders.document import Document, Encoded, FloatArray
from encoders.methods.sentence import SentenceEncoder
from encoders.text.segmentation import windows


class Segments:
    """Document encoder over the whole text: windows of 128 tokens that overlap by a third, mean of their vectors.

    Attributes:
        window: tokens of a window, special tokens and prefix included.
        overlap: tokens that a window shares with the window before.
    """

    method = "segments"

    def __init__(self, sentence: SentenceEncoder, window: int = 128) -> None:
        """Take a loaded sentence encoder and the window's size in tokens."""
        self._sentence = sentence
        self.window = min(window, sentence.folder.config.max_tokens)
        self._text = self.window - sentence.tokenizer.document_overhead
        self.overlap = self._text // 3
        self.spec = sentence.spec(self.method, window=self.window, overlap=self.overlap)

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        """Encode documents; each window is a passage."""
        tokens = self._sentence.tokenizer.tokenize([document.content for document in documents])
        return self._sentence.encode_spans(tokens, [windows(len(text), self._text, self.overlap) for text in tokens])

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        """Queries → (queries, dim) float32 unit rows."""
        return self._sentence.encode_queries(queries)

    def read_to(self, query: Document) -> int:
        """Number of characters of a query that fit into the model."""
        return self._sentence.read_to(query)
