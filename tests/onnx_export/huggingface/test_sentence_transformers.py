"""Folders of sentence-transformers: what is exported makes the vectors that sentence-transformers makes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
from tokenizers import pre_tokenizers, processors

from encoders.document import Document
from encoders.folder.model_folder import ModelFolder
from encoders.methods.method_registry import open_encoder
from onnx_export.graphs.parity import read_texts
from query.cli import run
from tests.onnx_export.conftest import sentencepiece

pytestmark = pytest.mark.torch

_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"  # Qwen's
_SIZES: dict[str, Any] = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
_SIZES |= {"max_position_embeddings": 160, "pad_token_id": 0, "bos_token_id": None, "eos_token_id": 1}
_DECODER = {**_SIZES, "num_key_value_heads": 2, "initializer_range": 0.1}
_LAYERS = ["sliding_attention", "full_attention"]
_BOTH_WAYS = {"use_bidirectional_attention": True, "layer_types": _LAYERS, "query_pre_attn_scalar": 16}
_BOTH_WAYS |= {"sliding_window": 16}
_MODERN = {"local_attention": 16, "global_attn_every_n_layers": 2, "cls_token_id": 1, "sep_token_id": 1}
ASKED = {"query": "Instruct: Find what answers\nQuery:", "document": ""}
TITLED = {"query": "task: search result | query: ", "document": "title: none | text: "}
KINDS: dict[str, tuple[str, dict[str, Any], str, dict[str, str], str]] = {
    "Qwen3-Embedding": ("Qwen3", {**_DECODER, "head_dim": 16}, "lasttoken", ASKED, "int8"),
    "gte-Qwen2": ("Qwen2", {**_DECODER, "is_causal": False}, "lasttoken", ASKED, "fp32"),
    "e5-mistral": ("Mistral", {**_DECODER, "sliding_window": 16}, "lasttoken", {"instruction": "Query: "}, "fp32"),
    "EmbeddingGemma": ("Gemma3Text", {**_DECODER, "head_dim": 16, **_BOTH_WAYS}, "mean", TITLED, "fp16"),
    "ModernBERT": ("ModernBert", {**_SIZES, **_MODERN}, "cls", {}, "fp32"),
    "SGPT": ("Llama", _DECODER, "weightedmean", {}, "fp32"),
    "XLM-R": ("XLMRoberta", {**_SIZES, "pad_token_id": 1}, "max", {"query": "query: "}, "fp32"),
}
"""Model, configuration, pooling, prompts and the precision of the graph."""
TEXTS = ["Ziege, im Garten", "la marée", "x", "The tides of the sea rise when the moon is near, as all fishermen know."]


def _byte_level() -> tokenizers.Tokenizer:
    """A tokenizer as decoders have: bytes, a blank as part of the word after it, and a sign at the end of a text."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    split = pre_tokenizers.Split(tokenizers.Regex(_WORDS), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=900, initial_alphabet=letters, special_tokens=["[PAD]", "<|end|>"], show_progress=False
    )
    lines = [text.text for text in read_texts()]
    tokenizer.train_from_iterator([*lines, *(f"Query:{line}" for line in lines)], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="$A <|end|>", special_tokens=[("<|end|>", 1)])
    return tokenizer


def save(kind: str, folder: Path) -> SentenceTransformer:
    """Save a tiny model of a kind as sentence-transformers saves it, and return it."""
    model, settings, pooling, prompts, _ = KINDS[kind]
    torch.manual_seed(0)
    backend, pad = (sentencepiece(), "<pad>") if kind == "XLM-R" else (_byte_level(), "[PAD]")
    config = getattr(transformers, f"{model}Config")(vocab_size=backend.get_vocab_size(), **settings)
    transformers.AutoModel.from_config(config).save_pretrained(folder / "transformer")
    side = "left" if pooling == "lasttoken" else "right"
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token=pad, padding_side=side, model_max_length=150
    ).save_pretrained(folder / "transformer")
    modules: list[Any] = [Transformer(str(folder / "transformer")), Pooling(64, pooling_mode=pooling)]
    if kind == "EmbeddingGemma":
        modules += [Dense(64, 96, bias=False, activation_function=torch.nn.Identity()), Dense(96, 48, bias=False)]
    SentenceTransformer(modules=[*modules, Normalize()], prompts=prompts or None).save(str(folder / kind))
    return SentenceTransformer(str(folder / kind), device="cpu")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_exported_is_what_sentence_transformers_makes(kind: str, tmp_path: Path) -> None:
    source, precision = save(kind, tmp_path), KINDS[kind][-1]
    cut, options = (24, ["--dim", "24"]) if kind == "SGPT" else (64, [])  # the first numbers (Matryoshka)
    export = ["export", str(tmp_path / kind), "-o", str(tmp_path / "made"), "--precision", precision, "-q"]
    assert run([*export, *options]) == 0
    encoder = open_encoder(ModelFolder.open(tmp_path / "made"), "first", device="cpu")
    texts = [Document(str(number), "en", text) for number, text in enumerate(TEXTS)]
    source.truncate_dim = cut
    asked = source.encode(TEXTS, prompt_name="instruction") if kind == "e5-mistral" else source.encode_query(TEXTS)
    for vectors, expected in (
        (encoder.encode_queries(texts), asked),
        (encoder.encode_documents(texts).vectors, source.encode_document(TEXTS)),
    ):
        assert vectors.shape[1] == min(cut, expected.shape[1])
        cosines = np.einsum("ij,ij->i", vectors, expected / np.linalg.norm(expected, axis=1, keepdims=True))
        assert cosines.min() > {"fp32": 1 - 1e-5, "fp16": 0.9995, "int8": 0.98}[precision]
