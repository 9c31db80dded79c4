"""Write a Cr5 model as a model folder: the graph that sums word vectors, the table of these, vocabularies, a card."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from encoders.cr5.bags_of_words import ALIGNMENT, DATA, scales_start
from encoders.cr5.cr5_model import Cr5Model, Table
from encoders.document import int8_rows_and_scales, short_hash
from encoders.folder.model_config import ModelConfig, Precision
from encoders.folder.model_folder import ModelFolder, publishing
from encoders.folder.training_texts import write_training_texts
from encoders.text.words import RULES

_OPSET, _IR = 18, 10


def publish(
    model: Cr5Model,
    target: Path,
    precision: Precision,
    about: Mapping[str, str],
    taught_by: Iterable[int] | None = None,
) -> ModelFolder:
    """Write the folder of a model with a float32 table, which int8 quantises; the card has a line for each fact.

    ``taught_by`` has the keys of the training texts, if known. Raises MissingPart: the target can't be written.
    """
    float_rows = np.ascontiguousarray(model.table.rows, dtype=np.float32)
    table = Table(*int8_rows_and_scales(float_rows)) if precision == "int8" else model.table
    config = ModelConfig(
        name=target.name,
        dim=model.dim,
        max_tokens=0,
        pooling="sum",
        query_prefix="",
        document_prefix="",
        languages=tuple(model.vocabularies),
        precision=precision,
        weights=short_hash(float_rows.data.cast("B")),
        tokenizer="",
        graph="",
    )
    with publishing(target, config, instead="with -o") as folder:
        with (folder / DATA).open("wb") as out:
            out.write(np.ascontiguousarray(table.rows).data.cast("B"))
            if table.scales is not None:
                out.write(b"\0" * (-out.tell() % ALIGNMENT))
                out.write(table.scales.tobytes())
        (folder / "model.onnx").write_bytes(build_graph(table, model.dim).SerializeToString())
        vocabularies = {lang: list(words) for lang, words in model.vocabularies.items()}
        (folder / config.tokenizer_name).write_text(json.dumps(vocabularies, ensure_ascii=False), encoding="utf-8")
        (folder / "MODEL_CARD.md").write_text(_card(config, model, about), encoding="utf-8")
        write_training_texts(folder, taught_by)
    return ModelFolder.open(target)


def build_graph(table: Table, dim: int) -> onnx.ModelProto:
    """Build the graph ``input_ids``, ``attention_mask`` (texts, words) int64 → ``vectors`` (texts, dim) float32.

    A vector is a unit row, or zero. Each word occurs once in ``input_ids``; ``attention_mask`` is its frequency tf, 0
    for padding. The sum is over (1 + ln tf) · idf · Φ; the table, a separate file, holds idf · Φ.
    """
    constants = [_external("table", table.rows, 0)]
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["rows"], axis=0)]
    word_vectors = "rows"
    if table.scales is not None:
        constants.append(_external("scales", table.scales, scales_start(len(table.scales), dim)))
        nodes += [
            helper.make_node("Cast", ["rows"], ["levels"], to=TensorProto.FLOAT),
            helper.make_node("Gather", ["scales", "input_ids"], ["steps"], axis=0),
            helper.make_node("Unsqueeze", ["steps", "last"], ["step"]),
            helper.make_node("Mul", ["levels", "step"], ["words"]),
        ]
        word_vectors = "words"
    constants += [
        numpy_helper.from_array(np.array([-1], dtype=np.int64), "last"),
        numpy_helper.from_array(np.array([1], dtype=np.int64), "middle"),
        numpy_helper.from_array(np.array(1.0, dtype=np.float32), "one"),
        numpy_helper.from_array(np.array(np.finfo(np.float32).tiny, dtype=np.float32), "tiny"),
    ]
    nodes += [
        helper.make_node("Cast", ["attention_mask"], ["counts"], to=TensorProto.FLOAT),
        helper.make_node("Max", ["counts", "one"], ["positive"]),
        helper.make_node("Log", ["positive"], ["logarithms"]),
        helper.make_node("Add", ["logarithms", "one"], ["frequencies"]),
        helper.make_node("Min", ["counts", "one"], ["there"]),
        helper.make_node("Mul", ["frequencies", "there"], ["mask"]),
        helper.make_node("Unsqueeze", ["mask", "last"], ["weights"]),
        helper.make_node("Mul", [word_vectors, "weights"], ["counted"]),
        helper.make_node("ReduceSum", ["counted", "middle"], ["sums"], keepdims=0),
        helper.make_node("ReduceL2", ["sums", "last"], ["norms"], keepdims=1),
        helper.make_node("Max", ["norms", "tiny"], ["lengths"]),
        helper.make_node("Div", ["sums", "lengths"], ["vectors"]),
    ]
    shape = ["texts", "words"]
    graph = helper.make_graph(
        nodes,
        "cr5",
        [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in ("input_ids", "attention_mask")],
        [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["texts", dim])],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR)


def _external(name: str, values: np.ndarray, start: int) -> TensorProto:
    """A constant whose values are in the data file beside the graph; ``start`` is their offset in bytes."""
    tensor = TensorProto(
        name=name, dims=values.shape, data_type=helper.np_dtype_to_tensor_dtype(values.dtype), data_location=1
    )
    for key, value in (("location", DATA), ("offset", start), ("length", values.nbytes)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def _card(config: ModelConfig, model: Cr5Model, about: Mapping[str, str]) -> str:
    facts = "\n".join(f"- {name}: {value}" for name, value in about.items())
    sizes = ", ".join(f"{lang} {len(words):,}" for lang, words in model.vocabularies.items())
    return f"""\
# {config.name}, Cr5, {config.precision}

A text is the sum of its words' vectors, scaled to unit length; made by `dragoman train cr5`.

- Inputs `input_ids`, `attention_mask` (texts, words) int64; output `vectors` (texts, {config.dim}) float32, unit rows.
- Ids: 0 for an unknown word; then the words of `vocabulary.json`, language after language, counted from 1. Each word
  is given once, and `attention_mask` says how often it occurs; 0 for what fills up a batch.
- Words: {sizes}.
{facts}

## Words of a text

The text is the title, if there is one, a line break and the text.

{RULES}
"""
