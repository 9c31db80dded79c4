"""*sentences*: a document is the mean of its sentences' vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from encoders.document import Document, Encoded, FloatArray
from encoders.segmentation import sentences, windows
from encoders.sentence import SentenceEncoder
from encoders.tokens import Tokens


class Sentences:
    """Document encoder over the whole text, sentence by sentence; the title is a sentence too."""

    method = "sentences"

    def __init__(self, sentence: SentenceEncoder) -> None:
        """Take a loaded sentence encoder."""
        self._sentence = sentence
        self.spec = sentence.spec(self.method)

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        """A passage a sentence; one that is longer than the model takes is several."""
        contents = [document.content for document in documents]
        tokens = self._sentence.tokenizer.tokenize(contents)
        limit = self._sentence.segment_limit
        spans = []
        for document, content, text in zip(documents, contents, tokens, strict=True):
            cuts = (_token_span(text, span) for span in sentences(content, document.lang))
            spans.append([(a + start, a + end) for a, b in cuts for start, end in windows(b - a, limit, 0)])
        return self._sentence.encode_spans(tokens, spans)

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        """Queries → (queries, dim) float32 unit rows."""
        return self._sentence.encode_queries(queries)

    def read_to(self, query: Document) -> int:
        """How many characters of a query fit into the model."""
        return self._sentence.read_to(query)


def _token_span(tokens: Tokens, characters: tuple[int, int]) -> tuple[int, int]:
    """The tokens that end inside a span of characters: each token belongs to one sentence."""
    start, end = np.searchsorted(tokens.offsets[:, 1], characters, side="right")
    return int(start), int(end)
