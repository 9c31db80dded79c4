"""*hmde*: the lower encoder encodes segments and queries, the upper encoder makes a document of its segments."""

from collections.abc import Sequence
from dataclasses import replace

from encoders.document import Document, Encoded, short_hash
from encoders.hmde.upper import Segmentation, UpperSession
from encoders.methods.sentence import Cut, SentenceEncoder, SentenceMethod, Texts
from encoders.methods.sentences import cut_sentences
from encoders.methods.token_windows import cut_titled_windows
from encoders.text.segmentation import windows


class Hmde(SentenceMethod):
    """Document encoder of a folder that ``dragoman train hmde`` made (HMDE §2.1), over the passages that are stored."""

    method = "hmde"

    def __init__(self, sentence: SentenceEncoder, upper: UpperSession) -> None:
        super().__init__(sentence)
        self._upper = upper
        file = upper.file
        shape = file.shape
        self._limit = min(shape.tokens - sentence.tokenizer.document_overhead, sentence.segment_limit)
        of_graph = {"graph": file.graph} if file.forced else {}  # a forced graph is not proved to make the same vectors
        of_cut: dict[str, object] = {} if shape.segmentation == "sentences" else {"segmentation": shape.segmentation}
        if not shape.whole:
            of_cut["whole"] = False
        spec = sentence.folder.config.spec(
            self.method, upper=file.weights, sentences=shape.sentences, tokens=shape.tokens, **of_graph, **of_cut
        )
        titled = shape.segmentation == "windows"
        self.spec = replace(spec, build=short_hash(spec.build, file.graph), titled=titled)

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        """Encode documents; each segment is a passage, and the title is another."""
        encoded = super().encode_documents(documents)
        segments = [passages.without_title().unit_vectors() for passages in encoded.passages]
        return replace(encoded, vectors=self._upper.documents(segments))

    def _cut(self, texts: Texts) -> Cut:
        """The segments that the upper encoder was trained for."""
        return cut(self._upper.file.shape.segmentation, texts, self._limit)


def cut(segmentation: Segmentation, texts: Texts, limit: int) -> Cut:
    """Cut documents into segments of at most ``limit`` tokens, in training as in an index."""
    if segmentation == "windows":
        return cut_titled_windows(texts, limit)
    if segmentation == "plain-windows":
        return Cut([windows(len(text), limit, 0) for text in texts.tokens])
    return cut_sentences(texts, limit)
