"""Encoders without a neural network: topics and languages are directions, so that what is right is known."""

import hashlib
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tokenizers
from onnx import TensorProto, helper, numpy_helper
from tokenizers import models, pre_tokenizers, trainers

from encoders.document import Document, Encoded, Encoder, EncoderSpec, FloatArray, Passages, int8_rows, unit_rows
from encoders.folder.model_config import ModelConfig
from encoders.folder.model_folder import ModelFolder, publishing
from encoders.maps.parallel import Parallel
from indexer.stores.contract import StoredDocument
from indexer.stores.embedded import EmbeddedStore

DIM = 64


def direction(name: str) -> FloatArray:
    """(dim,) the same unit vector for the same name."""
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    vector: FloatArray = np.random.default_rng(seed).standard_normal((1, DIM)).astype(np.float32)
    unit: FloatArray = unit_rows(vector)[0]
    return unit


class TopicEncoder:
    """Encodes a sentence as the direction of its first word, its language's direction, and noise of its own.

    Attributes:
        bias: length of the language's direction beside 1 of the topic's; 0: an encoder that knows no languages.
        noise: length of the noise.
    """

    spec = EncoderSpec("topics", "segments", DIM, (), "topics", "topics")

    def __init__(self, bias: float, noise: float = 0.5, model: str = "") -> None:
        self.bias, self.noise = np.float32(bias), np.float32(noise)
        self.spec = replace(self.spec, model=model or self.spec.model)

    def _sentence(self, text: str, lang: str) -> FloatArray:
        topic = text.split(maxsplit=1)[0]
        own = direction(f"noise {lang} {text}")
        return np.asarray(direction(topic) + self.bias * direction(f"language {lang}") + self.noise * own)

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        rows = [
            unit_rows(np.stack([self._sentence(text, document.lang) for text in document.content.split("\n")]))
            for document in documents
        ]
        passages = [
            Passages(int8_rows(one), np.array([[at, at + 2] for at in range(len(one))], np.int32)) for one in rows
        ]
        vectors = unit_rows(np.stack([one.mean(axis=0) for one in rows]))
        return Encoded(vectors, passages, np.ones((len(documents), 1), dtype=np.bool_))

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        return unit_rows(np.stack([self._sentence(query.content, query.lang) for query in queries]))


def page(lang: str, topic: str, number: int = 0, sentences: int = 3, **fields: object) -> Document:
    """A document about a topic; the title and each sentence begin with it."""
    text = "\n".join(f"{topic} sentence {number} {at}" for at in range(sentences))
    return Document(f"{lang}:{topic}:{number}", lang, text, f"{topic} title {number}", fields)


def filled(folder: Path, encoder: Encoder, documents: Iterable[Document]) -> EmbeddedStore:
    listed = list(documents)
    store = EmbeddedStore(folder, "synthetic")
    store.create(encoder.spec.model, encoder.spec.dim)
    encoded = encoder.encode_documents(listed)
    store.put(
        encoder.spec.model,
        [StoredDocument(*one) for one in zip(listed, encoded.vectors, encoded.passages, strict=True)],
    )
    return store


def calls_of(patch: pytest.MonkeyPatch, place: object, name: str) -> list[tuple[Any, ...]]:
    """The positional arguments of each call of a function from now on."""
    real, calls = getattr(place, name), list[tuple[Any, ...]]()

    def noted(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        return real(*arguments, **options)

    patch.setattr(place, name, noted)
    return calls


class LosingStore(EmbeddedStore):
    """A store that loses one of the documents that are read by their ids, at about every third time.

    Attributes:
        lost: ids of the documents that were lost.
        reads: number of times that documents were read; the first time loses a document, later ones may.
    """

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder, name)
        self.lost: list[str] = []
        self.reads = 0
        self._draw = random.Random(0)

    def _lose(self, doc_ids: Sequence[str]) -> None:
        self.reads += bool(doc_ids)
        if doc_ids and (self.reads == 1 or self._draw.random() < 0.3):
            self.lost.append(self._draw.choice(doc_ids))
            self.delete(self.lost[-1:])

    def vectors(self, model: str, doc_ids: Sequence[str]) -> Any:
        self._lose(doc_ids)
        return super().vectors(model, doc_ids)

    def passages(self, model: str, doc_ids: Sequence[str]) -> Any:
        self._lose(doc_ids)
        return super().passages(model, doc_ids)

    def get(self, doc_ids: Sequence[str]) -> list[Document]:
        self._lose(doc_ids)
        return super().get(doc_ids)


def make_word_model(target: Path, sources: Iterable[Path]) -> ModelFolder:
    """Make a model folder from documents with concepts: a token is the mean of the concepts that it occurs in.

    Its languages' directions are added, so that a query finds its own language first, as with a neural encoder.
    """
    lines = [line for source in sources for line in source.read_text(encoding="utf-8").splitlines()]
    pages = [json.loads(line) for line in lines]
    texts = [f"{one['title']} {one['text']}" for one in pages]
    tokenizer = tokenizers.Tokenizer(models.BPE(unk_token="[UNK]"))  # noqa: S106 - no password
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=4000, special_tokens=["[PAD]", "[UNK]"], show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    size = tokenizer.get_vocab_size()
    noise, sums = np.stack([direction(f"token {at}") for at in range(size)]), np.zeros((size, DIM))
    counts = np.zeros((size, 1))
    for one, encoding in zip(pages, tokenizer.encode_batch(texts), strict=True):
        np.add.at(sums, encoding.ids, direction(one["concept"]) + 0.3 * direction(f"language {one['lang']}"))
        np.add.at(counts, encoding.ids, 1)
    table = np.asarray(0.1 * noise + sums / np.maximum(counts, 1), dtype=np.float32)
    config = ModelConfig("words", DIM, 64, "mean", "", "", (), "fp32", "words", "", "")
    with publishing(target, config) as folder:
        norms = helper.make_node("ReduceL2", ["sums", "last"], ["lengths"], keepdims=1)
        onnx.save(_mean_of_tokens(table, "texts", "vectors", norms), folder / "model.onnx")
        tokenizer.save(str(folder / "tokenizer.json"))
    return ModelFolder.open(target)


def _mean_of_tokens(table: FloatArray, inputs: str, output: str, *last: onnx.NodeProto) -> onnx.ModelProto:
    """The graph of a table with a row for each token: the ``sums`` of a text's rows, ``there`` its tokens are."""
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"], axis=0),
        helper.make_node("Cast", ["attention_mask"], ["there"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["there", "last"], ["mask"]),
        helper.make_node("Mul", ["rows", "mask"], ["counted"]),
        helper.make_node("ReduceSum", ["counted", "middle"], ["sums"], keepdims=0),
        *last,
        helper.make_node("Div", ["sums", "lengths"], [output]),
    ]
    axes = {"last": np.array([-1], dtype=np.int64), "middle": np.array([1], dtype=np.int64)}
    shape = [inputs, "tokens"]
    graph = helper.make_graph(
        nodes,
        "tokens",
        [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in ("input_ids", "attention_mask")],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, [inputs, table.shape[1]])],
        [numpy_helper.from_array(values, name) for name, values in {"table": table, **axes}.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def make_token_reranker(target: Path, words: ModelFolder, seed: int = 0) -> ModelFolder:
    """Make a reranker with a word model's tokenizer: a pair's score is the mean of its tokens' random weights."""
    size = tokenizers.Tokenizer.from_file(str(words.tokenizer)).get_vocab_size()
    weights = np.random.default_rng(seed).standard_normal((size, 1)).astype(np.float32)
    counts = helper.make_node("ReduceSum", ["there", "middle"], ["lengths"], keepdims=1)
    config = ModelConfig("tokens", 1, 64, "cross-encoder", "", "", (), "fp32", "tokens", "", "")
    with publishing(target, config) as folder:
        onnx.save(_mean_of_tokens(weights, "pairs", "scores", counts), folder / "model.onnx")
        (folder / "tokenizer.json").write_bytes(words.tokenizer.read_bytes())
    return ModelFolder.open(target)


def rotated(concepts: int, dim: int = 12, noise: float = 0.1) -> Parallel:
    """Three languages that are turned and shifted against each other."""
    chance = np.random.default_rng(0)
    meaning = chance.standard_normal((concepts, dim))

    def language() -> FloatArray:
        turn = np.linalg.qr(np.eye(dim) + 0.4 * chance.standard_normal((dim, dim)))[0]
        seen = meaning @ turn + chance.standard_normal(dim) + noise * chance.standard_normal((concepts, dim))
        return np.asarray(seen, dtype=np.float32)

    return Parallel([str(one) for one in range(concepts)], {lang: language() for lang in ("en", "de", "fr")})
