"""Indexing throughput against the libraries that a user would take instead: same texts, segments, weights, pooling."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import harness, rivals
from encoders.console import Console
from encoders.document import FloatArray, unit_rows
from encoders.machine.placement import is_installed
from encoders.methods.method_registry import open_encoder
from encoders.text.tokens import Tokenizer
from onnx_export.models import DEFAULT, find_model


def _timed(encode: Callable[[], object]) -> list[float]:
    with harness.Stopwatch() as watch:
        encode()
    return [watch.seconds, watch.cpu]


def save_weights(folder: Path) -> None:
    """Write the same weights as a Hugging Face model in float32, so that an older transformers reads it, too."""
    from onnx_export.default_model.making import save_source

    save_source(folder)
    config = folder / "tokenizer_config.json"
    settings = json.loads(config.read_text(encoding="utf-8"))
    config.write_text(json.dumps({**settings, "tokenizer_class": "PreTrainedTokenizerFast"}), encoding="utf-8")


class Rival:
    """Another library's engine in a process of its own."""

    def __init__(self, python: str, engine: str, folder: Path, texts: Path) -> None:
        save_weights(folder)
        self._folder = folder
        own = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        command, pipe = [python, rivals.__file__, engine, str(folder), str(texts)], subprocess.PIPE
        with (folder / "errors.txt").open("w") as errors:
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, env=own, text=True)
        self._answer()
        tried = {size: min(self.encode(size) for _ in range(2)) for size in (8, 16, 32)}
        self.batch = min(tried, key=lambda size: tried[size])

    def encode(self, batch: int) -> list[float]:
        assert self._process.stdin is not None
        print(batch, file=self._process.stdin, flush=True)
        return [*map(float, self._answer().split())]

    def vectors(self) -> FloatArray:
        return unit_rows(np.load(self._folder / "vectors.npy"))

    def _answer(self) -> str:
        assert self._process.stdout is not None
        if line := self._process.stdout.readline():
            return line
        if (status := self._process.wait()) == rivals.NOT_INSTALLED:
            raise RuntimeError("not installed")
        errors = (self._folder / "errors.txt").read_text(encoding="utf-8").strip()
        raise RuntimeError(f"it ended with {status}: {errors.rpartition(chr(10))[2]}")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


@harness.benchmark("Encoding against other libraries", documents=12, rounds=5, rivals=sys.executable, only="")
def measure(arguments: Namespace) -> list[str]:
    """``--rivals``: a Python with sentence-transformers, optimum-intel and -onnx, nncf, fastembed; ``--only``: one."""
    pages = harness.help_pages(arguments.documents)
    folder = find_model(DEFAULT, Console())
    ours = open_encoder(folder, "segments", device="cpu")
    encoded = ours.encode_documents(pages)
    segments = harness.segments(pages, encoded.passages)
    ends = np.cumsum([len(passages.without_title().offsets) for passages in encoded.passages])[:-1]
    tokens = sum(len(segment) + 2 for segment in Tokenizer(folder).tokenize(segments))
    engines: dict[str, Rival] = {}
    missing = []
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (scratch / "texts.json").write_text(json.dumps(segments), encoding="utf-8")
        for number, engine in enumerate(name for name in rivals.ENGINES if arguments.only in name):
            print(f"{engine} …", file=sys.stderr, flush=True)
            try:
                engines[engine] = Rival(arguments.rivals, engine, scratch / str(number), scratch / "texts.json")
                stack.callback(engines[engine].close)
            except RuntimeError as error:
                missing.append(f"{engine} ({error})")
        jobs: dict[str, Callable[[], list[float]]] = {"ours": partial(_timed, partial(ours.encode_documents, pages))}
        jobs |= {name: partial(rival.encode, rival.batch) for name, rival in engines.items()}
        rounds = [{name: job() for name, job in jobs.items()} for _ in range(arguments.rounds)]
        seconds, cpu = ({name: [times[name][at] for times in rounds] for name in jobs} for at in (0, 1))
        cosines = {}
        for name, rival in engines.items():
            vectors = np.stack([part.mean(axis=0) for part in np.split(rival.vectors(), ends)])
            cosines[name] = f"{(unit_rows(vectors) * encoded.vectors).sum(axis=1).mean():.4f}"
    names = {"**Dragoman, int8**": "ours"}
    names |= {f"{name}, batch {rival.batch}": name for name, rival in engines.items()}
    rows = [
        [shown, f"{tokens / statistics.median(seconds[name]):,.0f}",
         *(harness.ratio(of[name], of["ours"]) for of in (seconds, cpu)), cosines.get(name, "")]
        for shown, name in names.items()
    ]  # fmt: skip
    return [
        f"{len(pages)} help pages in nine languages, {len(segments):,} segments, {tokens:,} tokens, tokenised too.",
        f"The extra openvino is {'' if is_installed('openvino') else 'not '}installed.",
        f"Instructions of the processor: {harness.instructions()}. Not measured: {'; '.join(missing) or 'nothing'}.",
        "",
        *harness.table("encoder | tokens/s | times slower than ours | its processor time | cosine with ours", rows),
    ]
