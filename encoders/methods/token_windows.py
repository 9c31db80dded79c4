"""The plain "LaBSE" (*first*: the first tokens) and LaBSE-Seg (*segments*: mean of overlapping windows) of HMDE."""

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
    """Document encoder over the text: mean of windows of 128 tokens (prefix, special ones included), a third shared."""

    method = "segments"

    def __init__(self, sentence: SentenceEncoder) -> None:
        super().__init__(sentence)
        window = min(WINDOW, sentence.folder.config.max_tokens)
        self._text = window - sentence.tokenizer.document_overhead
        self._overlap = self._text // 3
        self.spec = sentence.folder.config.spec(self.method, window=window, overlap=self._overlap)

    def _cut(self, texts: Texts) -> Cut:
        return Cut([windows(len(text), self._text, self._overlap) for text in texts.tokens])
