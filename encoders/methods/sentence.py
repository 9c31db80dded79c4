"""The sentence encoder: a text → a unit vector, by an ONNX graph. Every method but *cr5* is built on it."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import ClassVar, NamedTuple

import numpy as np

from encoders.document import Document, Encoded, EncoderSpec, FloatArray, Int32Array, Passages, int8_rows, unit_rows
from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder, require_encoder
from encoders.inference.session import OnnxSession
from encoders.machine.placement import Device
from encoders.text.tokens import Span, Tokenizer, Tokens

_HEAD_START = 0.02
"""Seconds until the graph's loading runs without the interpreter's lock. The tokenizer is read only then, because
reading a large vocabulary holds the lock for about as long as the graph takes to load."""


class Cut(NamedTuple):
    """Where documents are cut."""

    segments: list[list[Span]]  # of each document
    headings: Sequence[int] = ()  # number of first tokens of each document that later segments begin with; empty: none


class Texts(NamedTuple):
    """Documents, their tokens, and the tokens of each document's title."""

    documents: Sequence[Document]
    tokens: Sequence[Tokens]
    titles: Sequence[Span | None]


class SentenceEncoder:
    """A loaded model folder: tokenizer and graph."""

    def __init__(
        self, folder: ModelFolder, *, device: Device = "auto", threads: int | None = None, unnormalised: bool = False
    ) -> None:
        """Load tokenizer and graph.

        Raises BadInput: the model sums words (Cr5) or scores pairs, or is damaged; MissingPart: from the session.
        """
        if folder.config.pooling == "sum":
            raise BadInput(f"{folder.path} sums words (Cr5) and is no sentence encoder; name another with --encoder")
        require_encoder(folder)
        self.folder = folder
        with ThreadPoolExecutor(1) as pool:
            session = pool.submit(OnnxSession, folder, device=device, threads=threads, unnormalised=unnormalised)
            wait([session], timeout=_HEAD_START)
            folder.check_files()
            self.tokenizer = Tokenizer(folder)
            self.session = session.result()
        self.tokenizer.takes_tokie = self.session.device == "cuda"  # elsewhere tokenising takes 2 % of the time
        if min(self.segment_limit, self.query_limit) < 1:
            raise BadInput(
                f"{folder.path} reads {folder.config.max_tokens} tokens at most, and prefixes and special tokens take "
                "them all; export the model again"
            )

    @property
    def segment_limit(self) -> int:
        """Number of tokens of a document's text that fit into the model at once."""
        return self.folder.config.max_tokens - self.tokenizer.document_overhead

    @property
    def query_limit(self) -> int:
        """Number of tokens of a query's text that fit into the model."""
        return self.folder.config.max_tokens - self.tokenizer.query_overhead

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        """Queries with the model's query prefix → (queries, dim) unit rows; text beyond the model's length is cut off.

        The row of a query of unknown characters is zero. On a CPU each query is a batch, so that its vector is the
        same in a search and in an evaluation of many queries.
        """
        tokens = self.tokenizer.tokenize_queries([query.content for query in queries])
        vectors = self.session.run(
            [self.tokenizer.query(text.ids[: self.query_limit]) for text in tokens], self.tokenizer.pad, alone=True
        )
        known = np.array([text.known for text in tokens], dtype=np.bool_)
        return vectors if known.all() else vectors * known[:, None]

    def read_to(self, query: Document) -> int:
        """Number of characters of a query that fit into the model."""
        (text,) = self.tokenizer.tokenize_queries([query.content])
        return text.characters(self.query_limit - 1)[1] if len(text) > self.query_limit else len(query.content)

    def encode_segments(self, segments: Sequence[Int32Array]) -> FloatArray:
        """Token ids of document segments, encoded with the model's document prefix → (segments, dim) unit rows."""
        return self.session.run([self.tokenizer.segment(ids) for ids in segments], self.tokenizer.pad)

    def encode_spans(
        self, tokens: Sequence[Tokens], cut_at: Cut, titles: Sequence[Span | None] = (), *, weighted: bool = False
    ) -> Encoded:
        """Encode documents as the mean, by tokens if ``weighted``, of their segments' unit vectors, of unit length.

        ``titles`` has each document's title if it is to be a passage; titles and segments of unknown texts are ignored.
        """
        titles, headings = titles or [None] * len(tokens), cut_at.headings or [0] * len(tokens)
        wanted = [
            (segments, title) if text.known else ([], None)
            for text, segments, title in zip(tokens, cut_at.segments, titles, strict=True)
        ]
        cuts = [list(dict.fromkeys([*segments, title] if title else segments)) for segments, title in wanted]
        vectors = self.encode_segments(
            [
                text.ids_of(span, heading)
                for text, cut, heading in zip(tokens, cuts, headings, strict=True)
                for span in cut
            ]
        )
        quantised = int8_rows(vectors)
        means = np.zeros((len(tokens), self.session.dim), dtype=np.float32)
        passages = []
        first = 0
        for row, (text, (segments, title), cut) in enumerate(zip(tokens, wanted, cuts, strict=True)):
            places = {span: first + place for place, span in enumerate(cut)}
            first += len(cut)
            rows = [places[span] for span in segments]
            offsets = [(text.characters(start)[0], text.characters(end - 1)[1]) for start, end in segments]
            if rows:
                weights = [end - start for start, end in segments] if weighted else None
                means[row] = np.average(vectors[rows], axis=0, weights=weights)
            if title and len(cut) > 1:
                rows.append(places[title])
                offsets.append((0, text.characters(title[1] - 1)[1]))
            passages.append(Passages(quantised[rows], np.array(offsets, dtype=np.int32).reshape(-1, 2)))
        known = np.array([[text.known] for text in tokens], dtype=np.bool_).reshape(-1, 1)
        return Encoded(unit_rows(means), passages, known)


class SentenceMethod(ABC):
    """Base of the document encoders over a sentence encoder, which also encodes the queries."""

    spec: EncoderSpec
    weighted: ClassVar[bool] = False
    """Whether a segment weighs as much in its document's mean as it has tokens of text; if not, all weigh the same."""

    def __init__(self, sentence: SentenceEncoder) -> None:
        self._sentence = sentence

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        """Encode documents; each segment is a passage, and the title is another, apart from the segments."""
        tokens = self._sentence.tokenizer.tokenize([document.content for document in documents])
        titles = title_spans(documents, tokens, self._sentence.segment_limit)
        cut = self._cut(Texts(documents, tokens, titles))
        return self._sentence.encode_spans(tokens, cut, titles, weighted=self.weighted)

    @abstractmethod
    def _cut(self, texts: Texts) -> Cut:
        """Cut documents into segments."""

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        """Queries → (queries, dim) float32 unit rows."""
        return self._sentence.encode_queries(queries)

    def read_to(self, query: Document) -> int:
        """Number of characters of a query that fit into the model."""
        return self._sentence.read_to(query)


def title_spans(documents: Sequence[Document], tokens: Sequence[Tokens], limit: int) -> list[Span | None]:
    """The first ``limit`` tokens of each document's title; none if a document has no title, or nothing else."""
    spans: list[Span | None] = []
    for document, text in zip(documents, tokens, strict=True):
        end = min(text.tokens_in(0, len(document.title))[1], limit)
        spans.append((0, end) if end and document.text.strip() else None)
    return spans
