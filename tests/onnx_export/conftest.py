"""Small encoders of the shapes people use, with random weights, saved as Hugging Face saves them."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, processors

from onnx_export.parity import read_texts

SHAPES = ("bert", "xlm-r", "labse")
POSITIONS = 128
"""Longest input of the small models, special tokens included."""

SaveModel = Callable[..., Path]


def wordpiece() -> tokenizers.Tokenizer:
    """A BERT tokenizer over the gate's texts: their characters and their words that come twice."""
    words, characters = _words_and_characters()
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *characters, *(f"##{character}" for character in characters), *words]
    vocabulary = {piece: index for index, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))  # noqa: S106 - no password
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer


def sentencepiece() -> tokenizers.Tokenizer:
    """An XLM-R tokenizer over the gate's texts, with XLM-R's ids of special tokens."""
    words, characters = _words_and_characters()
    pieces = ["▁", *characters, *(f"▁{word}" for word in words)]
    scores = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *((piece, -9.0) for piece in pieces)]
    tokenizer = tokenizers.Tokenizer(models.Unigram(scores, unk_id=3, byte_fallback=False))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return tokenizer


def _words_and_characters() -> tuple[list[str], list[str]]:
    text = unicodedata.normalize("NFKC", " ".join(text.text for text in read_texts()))
    counts = Counter(re.findall(r"\w{2,}", text))
    return sorted(word for word, count in counts.items() if count > 1), sorted(set(text) - {" "})


@pytest.fixture(scope="session")
def save_model(tmp_path_factory: pytest.TempPathFactory) -> SaveModel:
    """Save a small model of a shape in a new folder named as asked; ``change`` may spoil it before it is saved."""

    def save(shape: str, name: str, *, seed: int = 0, change: Callable[[Any], None] = lambda _: None) -> Path:
        import torch
        import transformers

        folder = tmp_path_factory.mktemp("models") / name
        torch.manual_seed(seed)
        sizes = {
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 128,
            "initializer_range": 0.1,
        }
        if shape == "xlm-r":
            backend = sentencepiece()
            special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
            config = transformers.XLMRobertaConfig(
                vocab_size=backend.get_vocab_size(),
                max_position_embeddings=POSITIONS + 2,
                pad_token_id=1,
                type_vocab_size=1,
                **sizes,
            )
            model = transformers.XLMRobertaModel(config)
        else:
            backend = wordpiece()
            special = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]"}
            config = transformers.BertConfig(
                vocab_size=backend.get_vocab_size(), max_position_embeddings=POSITIONS, **sizes
            )
            model = transformers.BertModel(config)
        change(model)
        model.save_pretrained(folder)
        transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **special).save_pretrained(folder)
        if shape == "labse":
            save_labse_layers(folder)
        return folder

    return save


def save_labse_layers(folder: Path, activation: str = "Tanh", pooling: str = "cls_token", width: int = 64) -> None:
    """Put LaBSE's layout around a transformer: pooling, a dense layer, the norm, in its publisher's spelling."""
    import torch
    from safetensors.torch import save_file

    kinds = ["Transformer", "Pooling", "Dense", "Normalize"]
    write_json(
        folder / "modules.json",
        [
            {
                "idx": at,
                "name": str(at),
                "path": f"{at}_{kind}" if at else "",
                "type": f"sentence_transformers.models.{kind}",
            }
            for at, kind in enumerate(kinds)
        ],
    )
    modes = {f"pooling_mode_{mode}": mode == pooling for mode in ("cls_token", "mean_tokens", "max_tokens")}
    write_json(folder / "1_Pooling/config.json", {"word_embedding_dimension": 64, **modes})
    dense = {"in_features": 64, "out_features": width, "bias": True}
    write_json(
        folder / "2_Dense/config.json", {**dense, "activation_function": f"torch.nn.modules.activation.{activation}"}
    )
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 96, "do_lower_case": False})
    weights = {"linear.weight": torch.randn(width, 64) / 4, "linear.bias": torch.randn(width) / 4}
    save_file(weights, folder / "2_Dense/model.safetensors")


def write_json(file: Path, value: object) -> None:
    """Write a JSON file, its folder made where there is none."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value), encoding="utf-8")


@pytest.fixture(scope="session")
def hugging_face(save_model: SaveModel) -> dict[str, Path]:
    """One folder of each shape."""
    return {shape: save_model(shape, f"tiny-{shape}") for shape in SHAPES}
