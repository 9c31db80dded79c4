"""Methods of token windows: *windows*, the default, and HMDE's baselines *first* and *segments*."""

from dataclasses import replace

from encoders.document import short_hash
from encoders.methods.sentence import Cut, SentenceEncoder, SentenceMethod, Texts
from encoders.text.segmentation import WINDOW, windows

_HEADING = 32
"""Maximum tokens of a title before each window; the rest of a longer title is read as text."""


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


class TitledWindows(SentenceMethod):
    """Document encoder over the whole text: windows of 128 tokens with the title before each, mean of their vectors.

    In the mean each window weighs as much as it has tokens of text. Windows do not overlap: the title says what a
    window is about. Special tokens, the prefix and the title count among the 128.
    """

    method = "windows"
    weighted = True

    def __init__(self, sentence: SentenceEncoder) -> None:
        super().__init__(sentence)
        window = min(WINDOW, sentence.folder.config.max_tokens)
        self._text = window - sentence.tokenizer.document_overhead
        spec = sentence.folder.config.spec(self.method, window=window, heading=_longest_heading(self._text))
        # the build covers the weights, the model's id does not: a collection may hold vectors made without them, too
        self.spec = replace(spec, build=short_hash(spec.build, "weighted"), titled=True)

    def _cut(self, texts: Texts) -> Cut:
        return cut_titled_windows(texts, self._text)


def cut_titled_windows(texts: Texts, size: int) -> Cut:
    """Cut the texts after their titles into windows of ``size`` tokens, heading included; without text: the title."""
    headings = [min(title[1], _longest_heading(size)) if title else 0 for title in texts.titles]
    segments = [
        [(heading + start, heading + end) for start, end in windows(len(text) - heading, size - heading, 0)]
        or windows(heading, heading, 0)
        for text, heading in zip(texts.tokens, headings, strict=True)
    ]
    return Cut(segments, headings)


def _longest_heading(size: int) -> int:
    return min(_HEADING, size // 2)
