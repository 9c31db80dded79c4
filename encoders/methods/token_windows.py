"""*first*: a document is its first tokens, as many as the model takes (the plain "LaBSE" of the HMDE paper)."""

from __future__ import annotations

from collections.abc import Sequence

from encoders.document import Document
from encoders.methods.sentence import Cut, SentenceEncoder, SentenceMethod
from encoders.text.tokens import Span, Tokens


class First(SentenceMethod):
    """Document encoder over the first tokens alone: cheap, and later text has no influence."""

    method = "first"

    def __init__(self, sentence: SentenceEncoder) -> None:
        """Take a loaded sentence encoder."""
        super().__init__(sentence)
        self._limit = sentence.segment_limit
        self.spec = sentence.folder.config.spec(self.method, tokens=self._limit)

    def _cut(
        self,
        documents: Sequence[Document],  # noqa: ARG002
        tokens: Sequence[Tokens],
        titles: Sequence[Span | None],  # noqa: ARG002
    ) -> Cut:
        """The first tokens, as one segment."""
        return Cut([[(0, min(len(text), self._limit))] for text in tokens])
