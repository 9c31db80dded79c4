"""*hmde*: the lower encoder encodes sentences and queries, the upper encoder makes a document of its sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from encoders.document import Document, Encoded, short_hash
from encoders.hmde.upper import UpperSession
from encoders.methods.sentence import SentenceEncoder
from encoders.methods.sentences import Sentences


class Hmde(Sentences):
    """Document encoder of a folder that ``dragoman train hmde`` made (HMDE §2.1).

    The upper encoder takes the passages as they are stored, so that another upper encoder, trained over the same lower
    encoder, could make an index's document vectors again without encoding its texts.
    """

    method = "hmde"

    def __init__(self, sentence: SentenceEncoder, upper: UpperSession) -> None:
        """Take the loaded lower and upper encoder of one folder."""
        shape = upper.file.shape
        super().__init__(sentence, shape.tokens - sentence.tokenizer.document_overhead)
        self._upper = upper
        file = upper.file
        of_graph = {"graph": file.graph} if file.forced else {}  # a forced graph is not proved to make the same vectors
        spec = sentence.folder.config.spec(
            self.method, upper=file.weights, sentences=shape.sentences, tokens=shape.tokens, **of_graph
        )
        self.spec = replace(spec, build=short_hash(spec.build, file.graph))

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        """Encode documents; each sentence is a passage, and the title is another."""
        encoded = super().encode_documents(documents)
        sentences = [passages.without_title().unit_vectors() for passages in encoded.passages]
        return replace(encoded, vectors=self._upper.documents(sentences))
