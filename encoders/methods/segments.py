"""*segments*: a document is the mean of overlapping windows of tokens (LaBSE-Seg of the HMDE paper)."""

from __future__ import annotations

from collections.abc import Sequence

from encoders.document import Document
from encoders.methods.sentence import Cut, SentenceEncoder, SentenceMethod
from encoders.text.segmentation import WINDOW, windows
from encoders.text.tokens import Span, Tokens


class Segments(SentenceMethod):
    """Document encoder over the whole text: windows of 128 tokens that overlap by a third, mean of their vectors.

    Special tokens and the prefix count among a window's tokens.
    """

    method = "segments"

    def __init__(self, sentence: SentenceEncoder) -> None:
        """Take a loaded sentence encoder."""
        super().__init__(sentence)
        window = min(WINDOW, sentence.folder.config.max_tokens)
        self._text = window - sentence.tokenizer.document_overhead
        self._overlap = self._text // 3
        self.spec = sentence.folder.config.spec(self.method, window=window, overlap=self._overlap)

    def _cut(
        self,
        documents: Sequence[Document],  # noqa: ARG002
        tokens: Sequence[Tokens],
        titles: Sequence[Span | None],  # noqa: ARG002
    ) -> Cut:
        """The windows."""
        return Cut([windows(len(text), self._text, self._overlap) for text in tokens])
