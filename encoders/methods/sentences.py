"""*sentences*: a document is the mean of its sentences' vectors."""

from __future__ import annotations

from collections.abc import Sequence

from encoders.document import Document
from encoders.methods.sentence import Cut, SentenceEncoder, SentenceMethod
from encoders.text.segmentation import sentences, windows
from encoders.text.tokens import Span, Tokens


class Sentences(SentenceMethod):
    """Document encoder over the whole text, sentence by sentence; the title is a sentence too."""

    method = "sentences"

    def __init__(self, sentence: SentenceEncoder, tokens: int | None = None) -> None:
        """Take a loaded sentence encoder and the maximum tokens of a sentence; the default is all that fit."""
        super().__init__(sentence)
        self._limit = min(tokens or sentence.segment_limit, sentence.segment_limit)
        self.spec = sentence.folder.config.spec(self.method)

    def _cut(
        self,
        documents: Sequence[Document],
        tokens: Sequence[Tokens],
        titles: Sequence[Span | None],  # noqa: ARG002
    ) -> Cut:
        """The sentences; a sentence longer than the limit is several segments."""
        return cut_sentences(documents, tokens, self._limit)


def cut_sentences(documents: Sequence[Document], tokens: Sequence[Tokens], limit: int) -> Cut:
    """Cut documents into sentences, and sentences longer than ``limit`` tokens into pieces."""
    spans = []
    for document, text in zip(documents, tokens, strict=True):
        cuts = (text.tokens_in(*span) for span in sentences(document.content, document.lang))
        spans.append(
            [(first + start, first + end) for first, last in cuts for start, end in windows(last - first, limit, 0)]
        )
    return Cut(spans)
