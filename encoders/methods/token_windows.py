"""*first*: a document is its first tokens. *segments*: it is the mean of overlapping windows of all of its tokens.

They are the plain "LaBSE" and LaBSE-Seg of the HMDE paper.
"""

from __future__ import annotations

from encoders.methods.sentence import Cut, SentenceEncoder, SentenceMethod, Texts
from encoders.text.segmentation import WINDOW, windows


class First(SentenceMethod):
    """Document encoder over the first tokens alone, as many as the model takes: cheap; later text has no influence."""

    method = "first"

    def __init__(self, sentence: SentenceEncoder) -> None:
        super().__init__(sentence)
        self._limit = sentence.segment_limit
        self.spec = sentence.folder.config.spec(self.method, tokens=self._limit)

    def _cut(self, texts: Texts) -> Cut:
        """The first tokens, as one segment."""
        return Cut([[(0, min(len(text), self._limit))] for text in texts.tokens])


class Segments(SentenceMethod):
    """Document encoder over the whole text: windows of 128 tokens that overlap by a third, mean of their vectors.

    Special tokens and the prefix count among a window's tokens.
    """

    method = "segments"

    def __init__(self, sentence: SentenceEncoder) -> None:
        super().__init__(sentence)
        window = min(WINDOW, sentence.folder.config.max_tokens)
        self._text = window - sentence.tokenizer.document_overhead
        self._overlap = self._text // 3
        self.spec = sentence.folder.config.spec(self.method, window=window, overlap=self._overlap)

    def _cut(self, texts: Texts) -> Cut:
        """The windows."""
        return Cut([windows(len(text), self._text, self._overlap) for text in texts.tokens])
