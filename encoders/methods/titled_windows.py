"""*windows*: a document is the mean of windows of its text, each read with the title before it. The default."""

from __future__ import annotations

from collections.abc import Sequence

from encoders.document import Document
from encoders.methods.sentence import SentenceEncoder, SentenceMethod
from encoders.text.segmentation import windows
from encoders.text.tokens import Span, Tokens

_HEADING = 32
"""Maximum tokens of a title before each window; the rest of a longer title is read as text."""


class TitledWindows(SentenceMethod):
    """Document encoder over the whole text: windows of 128 tokens with the title before each, mean of their vectors.

    Windows do not overlap: the title says what a window is about, so its neighbours' words need not. Special tokens,
    the prefix and the title count among a window's tokens.
    """

    method = "windows"

    def __init__(self, sentence: SentenceEncoder, window: int = 128) -> None:
        """Take a loaded sentence encoder and the window's size in tokens."""
        super().__init__(sentence)
        self.window = min(window, sentence.folder.config.max_tokens)
        self._text = self.window - sentence.tokenizer.document_overhead
        self._longest_heading = min(_HEADING, self._text // 2)
        self.spec = sentence.folder.config.spec(self.method, window=self.window, heading=self._longest_heading)

    def _headings(self, titles: Sequence[Span | None]) -> list[int]:
        """The titles' lengths in tokens, cut; 0 without a title."""
        return [min(title[1], self._longest_heading) if title else 0 for title in titles]

    def _segments(
        self,
        documents: Sequence[Document],  # noqa: ARG002
        tokens: Sequence[Tokens],
        headings: Sequence[int],
    ) -> list[list[Span]]:
        """The windows of the text after the heading; a text without tokens after its title is the title."""
        return [
            [(heading + start, heading + end) for start, end in windows(len(text) - heading, self._text - heading, 0)]
            or windows(heading, heading, 0)
            for text, heading in zip(tokens, headings, strict=True)
        ]
