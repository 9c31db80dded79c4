"""*sentences*: a document is the mean of its sentences' vectors."""

from collections.abc import Sequence

import numpy as np

from encoders.document import Document, FloatArray
from encoders.methods.sentence import Cut, SentenceEncoder, SentenceMethod, Texts
from encoders.text.segmentation import sentences, windows
from encoders.text.tokens import Span


class Sentences(SentenceMethod):
    """Document encoder over a text's sentences and title; ``together`` joins as many as fit (LAWDR, section 7)."""

    method = "sentences"

    def __init__(self, sentence: SentenceEncoder, *, together: bool = False) -> None:
        super().__init__(sentence)
        self._limit = sentence.segment_limit
        self._together = together
        self.spec = sentence.folder.config.spec(self.method, **({"together": True} if together else {}))

    def sentence_vectors(self, documents: Sequence[Document]) -> list[FloatArray]:
        """The (sentences, dim) float32 vectors of each document's sentences, as the sentence encoder makes them."""
        tokens = self._sentence.tokenizer.tokenize([document.content for document in documents])
        cuts = self._cut(Texts(documents, tokens, ())).segments
        cuts = [spans if text.known else [] for text, spans in zip(tokens, cuts, strict=True)]
        vectors = self._sentence.encode_segments(
            [text.ids_of(span) for text, spans in zip(tokens, cuts, strict=True) for span in spans]
        )
        return np.split(vectors, np.cumsum([len(spans) for spans in cuts])[:-1])

    def _cut(self, texts: Texts) -> Cut:
        """The sentences; a sentence longer than the limit is several segments."""
        cut = cut_sentences(texts, self._limit)
        return Cut([_joined(spans, self._limit) for spans in cut.segments]) if self._together else cut


def _joined(spans: Sequence[Span], limit: int) -> list[Span]:
    """Consecutive spans, joined while they have ``limit`` tokens together."""
    joined: list[Span] = []
    for start, end in spans:
        if joined and end - joined[-1][0] <= limit:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def cut_sentences(texts: Texts, limit: int) -> Cut:
    """Cut documents into sentences, and sentences longer than ``limit`` tokens into pieces."""
    spans = []
    for document, text in zip(texts.documents, texts.tokens, strict=True):
        cuts = (text.tokens_in(*span) for span in sentences(document.content, document.lang, trained=True))
        spans.append(
            [(first + start, first + end) for first, last in cuts for start, end in windows(last - first, limit, 0)]
        )
    return Cut(spans)
