"""Encode texts by another library, in a process of its own and under a Python of its own.

sentence-transformers' backends of ONNX and OpenVINO need packages that pin an older transformers, so this file imports
nothing of Dragoman. ``benchmarks.encoding`` runs it as ``PYTHON rivals.py ENGINE FOLDER TEXTS``: FOLDER holds the
weights as a Hugging Face model and TEXTS a JSON list. For each line on standard input, a batch size, it prints the
seconds and processor seconds that encoding took; then ``vectors.npy`` in FOLDER holds the vectors.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

Encode = Callable[[Sequence[str], int], Any]
_ONNX_INT8 = "onnx/model_qint8_avx512_vnni.onnx"
_OPENVINO_INT8 = "openvino/openvino_model_qint8.xml"
_CALIBRATION = 128  # texts that OpenVINO's static ranges are taken of
_DIM = 384


def sentence_transformer(folder: Path, backend: str = "torch", **options: Any) -> Any:
    """The folder as a model of sentence-transformers, with mean pooling and unit vectors."""
    from sentence_transformers import SentenceTransformer, models

    transformer = models.Transformer(str(folder), max_seq_length=512, backend=backend, model_kwargs=options)
    pooling = models.Pooling(transformer.get_embedding_dimension(), pooling_mode="mean")
    return SentenceTransformer(modules=[transformer, pooling, models.Normalize()], device="cpu", backend=backend)


def _encode(model: Any) -> Encode:
    return lambda texts, size: model.encode(list(texts), batch_size=size, show_progress_bar=False)


def _onnx_int8(folder: Path, _texts: Sequence[str]) -> Encode:
    from sentence_transformers import export_dynamic_quantized_onnx_model

    model = sentence_transformer(folder, "onnx", export=True)
    export_dynamic_quantized_onnx_model(model, "avx512_vnni", str(folder))
    return _encode(sentence_transformer(folder, "onnx", file_name=_ONNX_INT8))


def _openvino_int8(folder: Path, texts: Sequence[str]) -> Encode:
    """The graph in int8, its static ranges taken of some texts, by NNCF's SmoothQuant."""
    import nncf
    import openvino

    model = sentence_transformer(folder, "openvino", export=True)
    spread = texts[:: max(1, len(texts) // _CALIBRATION)][:_CALIBRATION]
    graph = model[0].auto_model.model
    names = {name for entry in graph.inputs for name in entry.names}
    tokenized = [model.tokenize([text]) for text in spread]
    inputs = [{name: sample[name].numpy() for name in names} for sample in tokenized]
    quantised = nncf.quantize(graph, nncf.Dataset(inputs), model_type=nncf.ModelType.TRANSFORMER)
    (folder / _OPENVINO_INT8).parent.mkdir(exist_ok=True)
    openvino.save_model(quantised, folder / _OPENVINO_INT8)
    return _encode(sentence_transformer(folder, "openvino", file_name=_OPENVINO_INT8))


def _fastembed(folder: Path, texts: Sequence[str]) -> Encode:
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    _onnx_int8(folder, texts)
    own = {"sources": ModelSource(hf="e5"), "dim": _DIM, "model_file": _ONNX_INT8}
    TextEmbedding.add_custom_model(model="e5", pooling=PoolingType.MEAN, normalization=True, **own)
    model = TextEmbedding("e5", specific_model_path=str(folder))
    return lambda texts, size: np.stack(list(model.embed(list(texts), batch_size=size)))


ENGINES: dict[str, Callable[[Path, Sequence[str]], Encode]] = {
    "sentence-transformers, torch fp32": lambda folder, _: _encode(sentence_transformer(folder)),
    "sentence-transformers, torch bf16": lambda folder, _: _encode(sentence_transformer(folder).bfloat16()),
    "sentence-transformers, ONNX int8": _onnx_int8,
    "sentence-transformers, OpenVINO": lambda folder, _: _encode(sentence_transformer(folder, "openvino", export=True)),
    "sentence-transformers, OpenVINO int8": _openvino_int8,
    "fastembed, ONNX int8": _fastembed,
}
NOT_INSTALLED = 3  # exit status where the engine's package is missing


def main() -> None:
    """Serve one engine: batch sizes in, seconds out."""
    engine, folder, texts = sys.argv[1], Path(sys.argv[2]), json.loads(Path(sys.argv[3]).read_text(encoding="utf-8"))
    answers, sys.stdout = sys.stdout, sys.stderr
    try:
        encode = ENGINES[engine](folder, texts)
    except ImportError as error:
        print(error, file=sys.stderr)
        sys.exit(NOT_INSTALLED)
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        start, before = perf_counter(), process_time()
        vectors = encode(texts, int(line))
        seconds = perf_counter() - start, process_time() - before
        np.save(folder / "vectors.npy", np.asarray(vectors, dtype=np.float32))
        print(*seconds, file=answers, flush=True)


if __name__ == "__main__":
    main()
